"""The line between launcher and app, and the words at the end (spec 21)."""

from __future__ import annotations

import asyncio
import json
import os
import pty
import shlex
import signal
import sys
import termios
import tty
from collections.abc import Iterator
from pathlib import Path

import pytest

from durable_tui.host import terminal
from durable_tui.host.terminal import Status, farewell, parse_status, program_name
from tests.tools.waiting import a_while, until


@pytest.fixture
def fresh(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """The module as in a new process: nothing taken from the environment yet."""
    monkeypatch.setattr(terminal, "_line", None)
    yield
    line = terminal._line
    for fd in (line.status_fd, line.alive_fd) if line else ():
        if fd >= 0:
            os.close(fd)


@pytest.fixture
def launcher(fresh: None, monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[int, int]]:
    """The launcher's ends: what it reads status from, and what it holds while it lives."""
    status_read, status_write = os.pipe()
    alive_read, alive_write = os.pipe()
    monkeypatch.setenv(terminal.LAUNCHER_FD, str(status_write))
    monkeypatch.setenv(terminal.LAUNCHER_ALIVE_FD, str(alive_read))
    monkeypatch.setenv(terminal.LAUNCHER_PROGRAM, "durable-tui")
    monkeypatch.setattr(terminal, "name_process", lambda name: None)
    os.set_inheritable(status_write, True)
    os.set_inheritable(alive_read, True)
    yield status_read, alive_write
    os.close(status_read)


def test_report_writes_a_line_at_each_change_only(launcher: tuple[int, int]) -> None:
    terminal.report(session="s", cwd="/a", unfinished=1)
    terminal.report(session="s", cwd="/a", unfinished=1)
    terminal.report(path="/x.sqlite", cwd="/a", unfinished=0)

    lines = [json.loads(line) for line in os.read(launcher[0], 65536).splitlines()]
    assert lines == [
        {"session": "s", "cwd": "/a", "unfinished": 1},
        {"path": "/x.sqlite", "cwd": "/a", "unfinished": 0},
    ]


def test_commands_of_the_app_inherit_nothing_of_the_line(launcher: tuple[int, int]) -> None:
    descriptors = [int(os.environ[name]) for name in (terminal.LAUNCHER_FD, terminal.LAUNCHER_ALIVE_FD)]
    terminal.report(session="s", cwd="/a", unfinished=0)

    assert not [name for name in os.environ if name.startswith("DURABLE_TUI_LAUNCHER")]
    assert not any(os.get_inheritable(fd) for fd in descriptors)


def test_a_launcher_that_does_not_read_never_blocks_the_app(launcher: tuple[int, int]) -> None:
    for count in range(5000):
        terminal.report(session="s" * 100, cwd="/a", unfinished=count)
    os.read(launcher[0], 1 << 20)
    terminal.report(session="s" * 100, cwd="/a", unfinished=4999)

    assert parse_status(os.read(launcher[0], 1 << 20).splitlines()[-1])["unfinished"] == 4999


def test_spec_15_report_names_the_files_for_how_it_ends_until_everything_is_closed(launcher: tuple[int, int]) -> None:
    terminal.report(session="s", cwd="/a", unfinished=1, ends=["/s.files/ends/1.json"])
    first = parse_status(os.read(launcher[0], 65536).splitlines()[-1])
    terminal.report(session="s", cwd="/a", unfinished=1)
    last = parse_status(os.read(launcher[0], 65536).splitlines()[-1])
    assert (first["ends"], "ends" in last) == (["/s.files/ends/1.json"], False)
    assert parse_status(b'{"ends": ["ends/1.json", 7, "/a"]}') == {"ends": ["/a"]}, "only what is a place for a file"


def test_report_without_a_launcher_is_nothing(fresh: None) -> None:
    terminal.report(session="s", cwd="/a", unfinished=0)


async def test_the_launcher_s_death_is_told_once(launcher: tuple[int, int]) -> None:
    told: list[bool] = []
    assert terminal.watch_launcher(asyncio.get_running_loop(), lambda: told.append(True))
    await a_while()
    assert told == []

    os.close(launcher[1])
    await until(lambda: told)
    await a_while()
    assert told == [True]


async def test_without_a_launcher_there_is_nothing_to_watch(fresh: None) -> None:
    assert not terminal.watch_launcher(asyncio.get_running_loop(), lambda: None)


async def test_u08_the_same_signal_twice_in_a_moment_is_one() -> None:
    loop = asyncio.get_running_loop()
    seen: list[int] = []
    terminal.watch_stop_signals(loop, seen.append)
    try:
        for signum in (signal.SIGTERM, signal.SIGTERM, signal.SIGHUP):
            os.kill(os.getpid(), signum)
        await until(lambda: signal.SIGHUP in seen)
        assert seen == [signal.SIGTERM, signal.SIGHUP]
    finally:
        for signum in terminal.STOP_SIGNALS:
            loop.remove_signal_handler(signum)


async def test_a_hang_up_ignored_at_start_stays_ignored() -> None:
    loop = asyncio.get_running_loop()
    former = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        terminal.watch_stop_signals(loop, lambda signum: None)
        assert signal.getsignal(signal.SIGHUP) is signal.SIG_IGN
    finally:
        signal.signal(signal.SIGHUP, former)
        for signum in (signal.SIGTERM, signal.SIGINT):
            loop.remove_signal_handler(signum)


# --- the words ------------------------------------------------------------------------------------------------


def hint(status: Status, cwd: str, environ: dict[str, str] | None = None) -> list[str]:
    text = farewell(status, program="durable-tui", cwd=cwd, environ=environ or {})
    return shlex.split(text.splitlines()[-1].removeprefix("Continue: "))


def test_ui_r18_the_last_eight_characters_of_the_session(tmp_path: Path) -> None:
    here = str(tmp_path)
    assert hint({"session": "0123456789abcdef", "cwd": here}, here) == ["durable-tui", "--session", "89abcdef"]


def test_ui_r21_another_directory_and_home_are_named_and_quoted(tmp_path: Path) -> None:
    status: Status = {"session": "0123456789abcdef", "cwd": "/a b/'c'"}
    assert hint(status, str(tmp_path), {"DURABLE_TUI_HOME": "/h $x"}) == [
        "DURABLE_TUI_HOME=/h $x",
        "durable-tui",
        "-C",
        "/a b/'c'",
        "--session",
        "89abcdef",
    ]


def test_ui_r21_a_link_to_the_same_directory_is_the_same(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to("real")
    status: Status = {"session": "0123456789abcdef", "cwd": str(tmp_path / "link")}
    assert "-C" not in hint(status, str(tmp_path / "real"))


def test_a_session_that_only_its_path_names(tmp_path: Path) -> None:
    status: Status = {"path": str(tmp_path / "my job.sqlite"), "cwd": str(tmp_path)}
    assert hint(status, str(tmp_path))[-2:] == ["--session", str(tmp_path / "my job.sqlite")]


@pytest.mark.parametrize(
    ("unfinished", "words"),
    [
        (0, ""),
        (1, "1 task unfinished; it goes on at the next open.\n"),
        (12, "12 tasks unfinished; they go on at the next open.\n"),
    ],
)
def test_how_much_is_unfinished(tmp_path: Path, unfinished: int, words: str) -> None:
    status: Status = {"session": "s", "cwd": str(tmp_path), "unfinished": unfinished}
    text = farewell(status, program="durable-tui", cwd=str(tmp_path), environ={})
    assert text == f"{words}Continue: durable-tui --session s\n"


@pytest.mark.parametrize("line", [b"", b'{"session": "x', b"[1]", b'"x"', b'{"session": 5, "unfinished": "many"}'])
def test_a_torn_or_foreign_line_says_nothing(line: bytes) -> None:
    assert parse_status(line) == {}
    assert farewell({}, program="durable-tui") == ""


def test_ui_r21_the_program_is_named_as_it_can_be_started(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    started = tmp_path / "my env" / "durable-tui"
    started.parent.mkdir()
    started.touch(mode=0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    assert shlex.split(program_name(str(started))) == [str(started)]
    monkeypatch.setenv("PATH", str(started.parent))
    assert program_name(str(started)) == "durable-tui"
    assert shlex.split(program_name("/lib/durable_tui/__main__.py")) == [sys.executable, "-m", "durable_tui"]


# --- the terminal ---------------------------------------------------------------------------------------------


@pytest.fixture
def ends() -> Iterator[tuple[int, int]]:
    master, slave = pty.openpty()
    yield master, slave
    os.close(master)
    os.close(slave)


def test_ui_t02_restore_ends_modes_drops_input_and_sets_attributes(ends: tuple[int, int]) -> None:
    master, slave = ends
    saved = terminal.save(slave)
    tty.setraw(slave)
    os.write(master, b"\x1b[<35;80;20M")

    terminal.restore(saved, out=slave, fd=slave)

    assert os.read(master, 4096) == terminal.RESET
    assert terminal.save(slave) == saved
    os.set_blocking(slave, False)
    with pytest.raises(BlockingIOError):
        os.read(slave, 10)


def test_restore_leaves_what_another_program_has_set(ends: tuple[int, int]) -> None:
    _, slave = ends
    saved = terminal.save(slave)
    attributes = termios.tcgetattr(slave)
    attributes[3] &= ~(termios.ICANON | termios.ECHO)  # as a shell's line editor
    termios.tcsetattr(slave, termios.TCSANOW, attributes)
    attributes = termios.tcgetattr(slave)

    terminal.restore(saved, out=slave, fd=slave)

    assert terminal.save(slave) == attributes


def test_restore_survives_a_terminal_that_is_gone() -> None:
    master, slave = pty.openpty()
    saved = terminal.save(slave)
    os.close(master)
    terminal.restore(saved, out=slave, fd=slave)
    os.close(slave)


def test_a_pipe_has_no_attributes_and_no_foreground() -> None:
    read, write = os.pipe()
    try:
        assert terminal.save(read) is None
        assert not terminal.in_foreground(read)
    finally:
        os.close(read)
        os.close(write)
