"""The launcher in a real terminal (spec 21), with a stand-in for the screen."""

from __future__ import annotations

import json
import os
import re
import shlex
import signal
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from durable_tui.host.terminal import RESET
from tests.tools.pty_kit import Terminal, Tmux, alive, wait_until

pytestmark = pytest.mark.terminal

ROOT = Path(__file__).resolve().parents[2]
STANDIN = Path(__file__).with_name("standin.py")
ENDED = [f"\x1b[?{mode}".encode() for mode in ("1000l", "1002l", "1003l", "1004l", "1006l", "1015l", "1016l", "2004l")]
ENDED += [f"\x1b[?{mode}".encode() for mode in ("2026l", "2048l", "7h", "1049l", "25h")] + [b"\x1b[<u", b"\x1b[0m"]


@pytest.fixture
def program(tmp_path: Path) -> Path:
    """A `durable-tui` on a search path of its own that launches the stand-in."""
    path = tmp_path / "bin" / "durable-tui"
    path.parent.mkdir()
    path.write_text(
        f"#!{sys.executable}\n"
        "import sys\n"
        "from durable_tui.cli.launcher import launch\n"
        f"sys.exit(launch(sys.argv[1:], command=[sys.executable, {str(STANDIN)!r}, {str(tmp_path)!r}]))\n"
    )
    path.chmod(0o755)
    return path


@pytest.fixture
def env(program: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    monkeypatch.delenv("DURABLE_TUI_HOME", raising=False)
    return {"PATH": f"{program.parent}{os.pathsep}{os.environ['PATH']}", "PYTHONPATH": str(ROOT)}


class Launched(Terminal):
    """The launcher on a pty, with the pid of its child."""

    def __init__(self, folder: Path, env: dict[str, str], *words: str) -> None:
        self.folder = folder
        super().__init__(["durable-tui", *words], env=env, cwd=folder)
        self.child = child_of(folder)

    @property
    def output(self) -> str:
        return self.raw.decode().replace("\r\n", "\n")

    def log(self) -> list[str]:
        return log_of(self.folder)


def child_of(folder: Path) -> int:
    path = folder / "pid"
    return int(wait_until(lambda: path.exists() and path.read_text(), "the child's pid"))


def log_of(folder: Path) -> list[str]:
    path = folder / "log"
    return path.read_text().splitlines() if path.exists() else []


@pytest.fixture
def screen(tmp_path: Path, env: dict[str, str]) -> Iterator[Launched]:
    with Launched(tmp_path, env) as launched:
        launched.wait_for("stand-in screen")
        assert launched.attributes != launched.before
        yield launched


def assert_terminal_restored(launched: Launched) -> None:
    tail = launched.raw[launched.raw.rindex(b"stand-in screen") :]
    missing = [sequence for sequence in ENDED if sequence not in tail]
    assert not missing
    assert tail.index(b"\x1b[<u") < tail.index(b"\x1b[?1049l"), "the keyboard stack is the alternate screen's"
    assert launched.attributes == launched.before


@pytest.mark.parametrize("signum", [signal.SIGKILL, signal.SIGTERM, signal.SIGHUP, signal.SIGSEGV])
def test_u08_ui_t02_ui_r18_a_killed_child_leaves_a_working_terminal(screen: Launched, signum: int) -> None:
    os.kill(screen.child, signum)

    assert screen.wait() == 128 + signum
    assert_terminal_restored(screen)
    assert RESET in screen.raw
    name = signal.Signals(signum).name
    assert f"durable-tui was killed ({name}).\n2 tasks unfinished; they go on at the next open.\n" in screen.output
    assert screen.output.endswith("Continue: durable-tui --session 1a2b3c4d\n")


@pytest.mark.parametrize(
    ("signum", "told"),
    [(signal.SIGKILL, {"signal": "SIGKILL"}), (signal.SIGHUP, {"signal": "SIGHUP"}), (None, {"status": 7})],
)
def test_spec_15_how_the_child_ended_is_kept_for_the_session_it_had_not_closed(
    tmp_path: Path, env: dict[str, str], signum: int | None, told: dict[str, object]
) -> None:
    path = tmp_path / "a.files" / "ends" / "3.json"
    with Launched(tmp_path, env, f"ends={path}", "plain", *([] if signum else ["exit=7"])) as launched:
        if signum:
            os.kill(launched.child, signum)
        assert launched.wait() == (128 + signum if signum else 7)
    kept = json.loads(path.read_text())
    assert kept.pop("at") > 1_700_000_000_000 and kept == {"by": "launcher", **told}
    assert [file.name for file in path.parent.iterdir()] == ["3.json"]


def test_spec_15_a_launcher_that_cannot_keep_it_ends_as_ever(tmp_path: Path, env: dict[str, str]) -> None:
    path = tmp_path / "gone" / "a.files" / "ends" / "3.json"
    with Launched(tmp_path, env, f"ends={path}", "plain", "exit=7") as launched:
        assert launched.wait() == 7
        assert launched.output.endswith("Continue: durable-tui --session 1a2b3c4d\n")
    assert not path.parent.parent.parent.exists()


@pytest.mark.parametrize("signum", [signal.SIGTERM, signal.SIGHUP, signal.SIGINT])
def test_u08_a_signal_to_the_launcher_reaches_the_child_which_closes_in_order(
    tmp_path: Path, env: dict[str, str], signum: int
) -> None:
    with Launched(tmp_path, env, "clean-signals") as launched:
        launched.wait_for("stand-in screen")
        launched.signal(signum)

        assert launched.wait() == 128 + signum
        assert launched.log() == ["entered", f"signal {signum}", "left"]
        assert launched.attributes == launched.before
        assert RESET not in launched.raw, "a screen that closed in order has left its modes by itself"
        assert launched.output.endswith(
            "2 tasks unfinished; they go on at the next open.\nContinue: durable-tui --session 1a2b3c4d\n"
        )


def test_u08_a_signal_to_the_whole_group_is_one_to_the_child(tmp_path: Path, env: dict[str, str]) -> None:
    with Launched(tmp_path, env, "clean-signals") as launched:
        launched.wait_for("stand-in screen")
        os.killpg(launched.pid, signal.SIGTERM)

        assert launched.wait() == 143
        assert launched.log() == ["entered", "signal 15", "left"]


@pytest.mark.parametrize("status", [0, 1, 3, 5, 124])
def test_the_child_s_own_status_is_passed_on(tmp_path: Path, env: dict[str, str], status: int) -> None:
    with Launched(tmp_path, env, f"exit={status}", "plain") as launched:
        assert launched.wait() == status
        assert RESET not in launched.raw


def test_a_child_that_ends_raw_is_cleaned_up_after(tmp_path: Path, env: dict[str, str]) -> None:
    with Launched(tmp_path, env, "exit=1") as launched:
        assert launched.wait() == 1
        assert_terminal_restored(launched)


def test_ui_r18_the_hint_is_printed_at_an_orderly_end_too(screen: Launched) -> None:
    screen.press("q")

    assert screen.wait() == 0
    assert screen.output.endswith(
        "2 tasks unfinished; they go on at the next open.\nContinue: durable-tui --session 1a2b3c4d\n"
    )


def test_ui_r21_the_hint_names_what_is_needed_to_find_the_session_again(tmp_path: Path, env: dict[str, str]) -> None:
    project = tmp_path / "my project"
    project.mkdir()
    env["DURABLE_TUI_HOME"] = str(tmp_path / "it's here")
    with Launched(tmp_path, env, f"cwd={project}", "unfinished=1") as launched:
        launched.wait_for("stand-in screen")
        os.kill(launched.child, signal.SIGKILL)

        assert launched.wait() == 137
    *_, unfinished, hint = launched.output.rstrip("\n").split("\n")
    assert unfinished == "1 task unfinished; it goes on at the next open."
    assert shlex.split(hint.removeprefix("Continue: ")) == [
        f"DURABLE_TUI_HOME={env['DURABLE_TUI_HOME']}",
        "durable-tui",
        "-C",
        str(project),
        "--session",
        "1a2b3c4d",
    ]


def test_nothing_to_continue_is_said_before_a_session_is_open(tmp_path: Path, env: dict[str, str]) -> None:
    with Launched(tmp_path, env, "silent") as launched:
        launched.wait_for("stand-in screen")
        os.kill(launched.child, signal.SIGKILL)

        assert launched.wait() == 137
        assert launched.output.endswith("durable-tui was killed (SIGKILL).\n")


def test_an_interrupt_before_the_app_listens_ends_it_without_a_traceback(tmp_path: Path, env: dict[str, str]) -> None:
    with Launched(tmp_path, env, "early") as launched:
        launched.press("ctrl+c")

        assert launched.wait() == 130
        assert b"Traceback" not in launched.raw


def test_ui_t02_late_reports_of_the_mouse_do_not_reach_the_shell(screen: Launched) -> None:
    os.kill(screen.child, signal.SIGSTOP)
    screen.write("\x1b[<35;80;20M" * 20)
    os.kill(screen.child, signal.SIGKILL)

    screen.wait()
    os.set_blocking(screen.slave, False)
    with pytest.raises(BlockingIOError):
        os.read(screen.slave, 100)


def test_ui_a05_a_closed_terminal_ends_launcher_and_child_in_order(tmp_path: Path, env: dict[str, str]) -> None:
    with Launched(tmp_path, env, "clean-signals") as launched:
        launched.wait_for("stand-in screen")
        launched.hang_up()

        assert launched.wait() == 129
        assert launched.log()[1] == "signal 1"
        assert not alive(launched.child)


if sys.platform.startswith("linux"):  # what a process shows of itself is read from /proc

    def test_killing_by_the_program_s_name_hits_the_app_and_not_the_launcher(screen: Launched) -> None:
        for pid, name in ((screen.pid, "dtui-launcher"), (screen.child, "durable-tui")):
            assert Path(f"/proc/{pid}/cmdline").read_bytes().rstrip(b"\0").decode() == name
            assert Path(f"/proc/{pid}/comm").read_text().strip() == name

    def test_the_child_hands_its_descriptors_to_nobody(screen: Launched) -> None:
        flags = {}
        for info in Path(f"/proc/{screen.child}/fdinfo").iterdir():
            target = os.readlink(f"/proc/{screen.child}/fd/{info.name}")
            if target.startswith("pipe:"):
                flags[target] = int(re.search(r"flags:\s+(\d+)", info.read_text())[1], 8)  # type: ignore[index]
        assert len(flags) >= 2
        assert all(flag & os.O_CLOEXEC for flag in flags.values())


def test_ui_t03_without_a_shell_to_continue_it_a_suspended_app_goes_on(screen: Launched) -> None:
    screen.press("z")
    screen.wait_for(lambda: screen.log().count("entered") == 2)
    assert "continued" in screen.log()

    screen.press("q")
    assert screen.wait() == 0


def test_a_stubborn_child_is_ended_after_a_hang_up(tmp_path: Path, env: dict[str, str], program: Path) -> None:
    stubborn = tmp_path / "stubborn.py"
    stubborn.write_text(
        "import os, pathlib, signal\n"
        "signal.signal(signal.SIGHUP, lambda *_: None)\n"
        f"pathlib.Path({str(tmp_path / 'pid')!r}).write_text(str(os.getpid()))\n"
        "while True:\n"
        "    signal.pause()\n"
    )
    program.write_text(
        f"#!{sys.executable}\n"
        "import sys\n"
        "from durable_tui.cli import launcher\n"
        "launcher.HANGUP_GRACE = 0.3\n"
        f"sys.exit(launcher.launch([], command=[sys.executable, {str(stubborn)!r}]))\n"
    )
    with Launched(tmp_path, env) as launched:
        launched.signal(signal.SIGHUP)

        assert launched.wait() == 137
        assert not alive(launched.child)


# --- under a real shell in tmux ---------------------------------------------------------------------------------


@pytest.fixture
def shell(tmp_path: Path, env: dict[str, str]) -> Iterator[Tmux]:
    with Tmux(tmp_path, env=env) as tmux:
        yield tmux


def in_screen(tmux: Tmux) -> bool:
    return "stand-in screen" in tmux.text and tmux.modes()["alternate_on"] == "1"


def test_u08_ui_t02_under_bash_a_killed_app_gives_the_prompt_back(tmp_path: Path, shell: Tmux) -> None:
    shell.run("durable-tui; echo status $?")
    shell.wait_for(lambda: in_screen(shell))
    os.kill(child_of(tmp_path), signal.SIGKILL)

    shell.wait_for("status 137")
    assert "durable-tui was killed (SIGKILL)." in shell.screen
    assert "Continue: durable-tui --session 1a2b3c4d" in shell.screen
    assert shell.screen[0].startswith("ready> durable-tui"), "what stood above is still there"
    shell.assert_works()


def test_ui_t03_ctrl_z_and_fg(tmp_path: Path, shell: Tmux) -> None:
    shell.run("durable-tui")
    shell.wait_for(lambda: in_screen(shell))
    for round_ in (1, 2):
        shell.keys("C-z")
        shell.wait_for("Stopped")
        shell.assert_works()
        shell.run("clear; fg")
        shell.wait_for(lambda: in_screen(shell))
        log = wait_until(lambda n=round_: len(log_of(tmp_path)) == 1 + 4 * n and log_of(tmp_path), "one way out and in")
        assert log == ["entered", *["left", "stopping", "continued", "entered"] * round_], "each once, none twice"
    shell.keys("q")
    shell.wait_for("Continue: durable-tui")
    shell.assert_works()


def test_ui_i04_a_suspended_app_that_is_killed_leaves_nothing_on(tmp_path: Path, shell: Tmux) -> None:
    shell.run("durable-tui")
    shell.wait_for(lambda: in_screen(shell))
    shell.keys("C-z")
    shell.wait_for("Stopped")
    os.kill(child_of(tmp_path), signal.SIGKILL)
    shell.run("fg; echo status $?")

    shell.wait_for("status 137")
    shell.assert_works()


def test_ui_t03_an_app_stopped_from_outside_gives_the_terminal_back(tmp_path: Path, shell: Tmux) -> None:
    shell.run("durable-tui")
    shell.wait_for(lambda: in_screen(shell))
    os.kill(child_of(tmp_path), signal.SIGSTOP)

    shell.wait_for("Stopped")
    shell.assert_works()
    shell.run("fg")
    shell.wait_for(lambda: in_screen(shell))
    assert log_of(tmp_path) == ["entered", "continued", "entered"]


def test_ui_t03_a_launcher_told_to_stop_stops_with_its_app(tmp_path: Path, shell: Tmux) -> None:
    shell.run("durable-tui & echo $! >launcher; fg")
    shell.wait_for(lambda: in_screen(shell))
    os.kill(int((tmp_path / "launcher").read_text()), signal.SIGTSTP)

    shell.wait_for("Stopped")
    assert log_of(tmp_path)[-1] == "stopping"
    shell.assert_works()


def test_the_app_restores_the_terminal_when_its_launcher_is_killed(tmp_path: Path, shell: Tmux) -> None:
    shell.run("bash -c 'echo $$ >launcher; exec durable-tui'")
    shell.wait_for(lambda: in_screen(shell))
    child = child_of(tmp_path)
    os.kill(int((tmp_path / "launcher").read_text()), signal.SIGKILL)

    wait_until(lambda: "restored" in log_of(tmp_path), "the app's own restoration")
    wait_until(lambda: not alive(child), "the app's end")
    assert "launcher gone" in log_of(tmp_path)
    shell.wait_for("Continue: durable-tui --session 1a2b3c4d")
    shell.wait_for("Press Enter")
    shell.keys("Enter")
    shell.assert_works()


# --- no screen possible -----------------------------------------------------------------------------------------


def test_a_terminal_that_cannot_draw_is_refused(tmp_path: Path, env: dict[str, str]) -> None:
    with Terminal(["durable-tui"], env={**env, "TERM": "dumb"}, cwd=tmp_path) as terminal:
        assert terminal.wait() == 2
        assert "TERM=dumb" in terminal.raw.decode()
        assert not (tmp_path / "pid").exists()


@pytest.mark.parametrize("pipe", ["</dev/null", ">/dev/null", "2>errors"])
def test_without_a_terminal_the_screen_says_so(tmp_path: Path, env: dict[str, str], pipe: str) -> None:
    with Terminal(["sh", "-c", f"durable-tui {pipe}; echo status $?"], env=env, cwd=tmp_path) as terminal:
        terminal.wait()
        errors = (tmp_path / "errors").read_text() if "errors" in pipe else terminal.raw.decode()
        assert "needs a terminal" in errors
        assert "durable-tui run" in errors
        if pipe != ">/dev/null":
            assert "status 2" in terminal.raw.decode()
        assert not (tmp_path / "pid").exists()
