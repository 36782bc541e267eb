"""Owners that are killed: nothing of their commands lives on (spec 16; cases UI-A05, UI-A06, UI-R13, T37)."""

from __future__ import annotations

import asyncio
import os
import random
import signal
import subprocess
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from durable_tui.environment import LocalEnvironment, end_leftovers, find_leftovers
from tests.tools.fake_call import marked, measure, owner
from tests.tools.waiting import wait_until

pytestmark = pytest.mark.crash


@contextmanager
def running(folder: Path, command: str) -> Iterator[tuple[subprocess.Popen[str], str, str]]:
    """An owner with a command that has written its first line: the owner, the session's mark, the line."""
    mark = uuid.uuid4().hex
    process = owner("run", str(folder), mark, command)
    try:
        assert process.stdout is not None
        yield process, mark, process.stdout.readline().strip()
    finally:
        if process.poll() is None:
            process.kill()
        process.communicate()
        for pid in marked(mark):
            os.kill(pid, signal.SIGKILL)


JOBS = {
    "foreground": "echo up; sleep 500",
    "background": "sleep 500 & echo up; wait",
    "nohup": "nohup sleep 500 > /dev/null 2>&1 & echo up; wait",
    "setsid": "setsid sleep 500 & echo up; wait",
    "double fork": "(setsid sh -c 'exec > /dev/null 2>&1 < /dev/null; sleep 500; :' &) ; echo up; sleep 500",
    "ignores signals": "trap '' TERM HUP INT; sh -c 'trap \"\" TERM; while :; do sleep 1; done' & echo up; wait; sleep 500",
    "forks on": "while :; do (setsid sleep 500 &) ; sleep 0.02; done & echo up; wait",
    "writes on": "echo up; while :; do echo more || sleep 0.1; done",
    "stopped": "sleep 500 & kill -STOP $!; echo up; wait",
}


@pytest.mark.parametrize("job", JOBS)
def test_ui_a06_nothing_outlives_a_killed_owner(tmp_path: Path, job: str) -> None:
    with running(tmp_path, JOBS[job]) as (process, mark, line):
        assert line == "up"
        assert wait_until(lambda: len(marked(mark)) >= 1, 5)
        process.kill()
        process.wait()
        assert wait_until(lambda: not marked(mark), 3), marked(mark)
        # nor does the supervisor, and nothing comes back
        time.sleep(0.3)
        assert find_leftovers(mark) == []


@pytest.mark.parametrize("number", [signal.SIGHUP, signal.SIGTERM, signal.SIGINT])
def test_ui_a05_other_deaths_of_the_owner_end_its_commands_too(tmp_path: Path, number: int) -> None:
    with running(tmp_path, JOBS["setsid"]) as (process, mark, _):
        os.kill(process.pid, number)
        process.wait(timeout=20)
        assert wait_until(lambda: not marked(mark), 3)


def test_an_owner_that_dies_while_its_command_starts_leaves_nothing(tmp_path: Path) -> None:
    # the supervisor may find the owner dead before it could say that the command started
    for _ in range(25):
        with running(tmp_path, "setsid sleep 500 & echo up; wait") as (process, mark, _line):
            process.kill()
            process.wait()
            assert wait_until(lambda mark=mark: not marked(mark), 3)  # type: ignore[misc]


def test_signals_to_the_supervisor_do_not_end_it(tmp_path: Path) -> None:
    with running(tmp_path, "echo $PPID; setsid sleep 500 & wait; sleep 500") as (process, mark, line):
        for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGINT):
            os.kill(int(line), number)
        time.sleep(0.2)
        assert process.poll() is None and len(marked(mark)) >= 2
        process.kill()
        process.wait()
        assert wait_until(lambda: not marked(mark), 3)


def living(pid: int) -> bool:
    """Whether a process runs; a zombie is dead, whenever its new parent collects it."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def test_the_supervisor_itself_ends(tmp_path: Path) -> None:
    with running(tmp_path, "echo $PPID; sleep 500") as (process, _, line):
        supervisor = int(line)
        process.kill()
        process.wait()
        assert wait_until(lambda: not living(supervisor), 3)


def test_ui_a06_when_owner_and_supervisor_are_killed_the_leftovers_are_found(tmp_path: Path) -> None:
    with running(tmp_path, "setsid sleep 500 & echo $PPID; sleep 400; :") as (process, mark, line):
        os.kill(process.pid, signal.SIGSTOP)  # it must not end them itself
        os.kill(int(line), signal.SIGKILL)
        process.kill()
        process.wait()
        time.sleep(0.3)
        found = find_leftovers(mark)
        assert {item["task"] for item in found} == {5}
        commands = [item["command"] for item in found]
        assert any("sleep 500" in command for command in commands)
        assert any("sleep 400" in command for command in commands)
        assert end_leftovers(found) == []
        assert find_leftovers(mark) == []


def test_t37_a_killed_writer_leaves_the_old_or_the_new_file_and_its_litter_goes_with_the_next_write(
    tmp_path: Path,
) -> None:
    size = 5_000_000
    path = tmp_path / "target"
    path.write_bytes(b"a" * size)
    seed = random.Random(37)
    seen = set()
    for _ in range(50):
        process = owner("write", str(path), str(size))
        assert process.stdout is not None
        process.stdout.readline()
        time.sleep(seed.random() * 0.06)
        process.kill()
        process.communicate()
        data = path.read_bytes()
        assert data in (b"a" * size, b"b" * size)
        seen.add(data[:1])
        # one kill leaves one temporary name at most, in the instant before the rename: litter never piles up
        assert len(os.listdir(tmp_path)) <= 2
    assert seen == {b"a", b"b"}
    asyncio.run(LocalEnvironment.at(str(tmp_path)).write_bytes("other", b""))
    assert sorted(os.listdir(tmp_path)) == ["other", "target"]


def test_ui_r13_two_gigabytes_of_output_need_little_memory(tmp_path: Path) -> None:
    found = measure(tmp_path, "yes | head -c 2G")
    assert found["grownMiB"] < 50
    assert found["details"]["outputBytes"] == 2 << 30
    assert "Lines 1073739825-1073741824 of 1073741824 shown" in found["text"]
    path = Path(found["details"]["outputPath"])
    assert path.stat().st_size == 2 << 30
    path.unlink()
