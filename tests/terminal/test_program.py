"""The real program in a real terminal, killed and suspended (spec 21): what a person's shell is left with."""

from __future__ import annotations

import os
import re
import signal
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from tests.tools.pty_kit import Tmux, alive, wait_until

pytestmark = pytest.mark.terminal

ROOT = Path(__file__).resolve().parents[2]
HINT = re.compile(r"^Continue: .*durable-tui --session \S{8}$", re.MULTILINE)


@pytest.fixture
def shell(tmp_path: Path) -> Iterator[Tmux]:
    """A shell in a project, with the program on its path, a home of its own and no key to any provider."""
    program = tmp_path / "bin" / "durable-tui"
    program.parent.mkdir()
    program.write_text(f"#!{sys.executable}\nimport sys\nfrom durable_tui.__main__ import main\nsys.exit(main())\n")
    program.chmod(0o755)
    project = tmp_path / "project"
    project.mkdir()
    env = {
        "PATH": f"{program.parent}{os.pathsep}{os.environ['PATH']}",
        "PYTHONPATH": str(ROOT),
        "DURABLE_TUI_HOME": str(tmp_path / "home"),
        "DURABLE_TUI_MODEL": "scripted/tour",
    }
    with Tmux(project, env=env, size=(120, 30)) as tmux:
        yield tmux


class Program:
    """`durable-tui` typed into the shell, its session open, drawn and at rest."""

    def __init__(self, shell: Tmux, home: Path) -> None:
        self.shell = shell
        self.sessions = home / "sessions"
        shell.run("durable-tui; echo status $?")
        self.wait_drawn()
        [self.launcher] = psutil.Process(shell.shell_pid).children()
        [self.app] = self.launcher.children()

    def wait_drawn(self) -> None:
        """Until a session is open and the screen stays as it is for half a second."""
        since, last = time.monotonic(), ""

        def still() -> bool:
            nonlocal since, last
            text = self.shell.text if self.shell.modes()["alternate_on"] == "1" else ""
            if text != last or not any(self.sessions.glob("*.sqlite")):
                since, last = time.monotonic(), text
            return bool(text.strip()) and time.monotonic() - since > 0.5

        wait_until(still, "a drawn screen")


@pytest.fixture
def program(shell: Tmux, tmp_path: Path) -> Program:
    return Program(shell, tmp_path / "home")


def test_u08_ui_t02_ui_r18_after_kill_9_the_terminal_works_and_the_hint_continues_the_session(
    shell: Tmux, program: Program
) -> None:
    program.app.kill()

    shell.wait_for("status 137")
    hint = HINT.search(shell.text)
    assert hint, shell.text
    shell.assert_works()
    shell.run("clear; " + hint[0].removeprefix("Continue: "))
    program.wait_drawn()


@pytest.mark.parametrize(("signum", "status"), [(signal.SIGTERM, 143), (signal.SIGHUP, 129), (signal.SIGINT, 130)])
@pytest.mark.parametrize("who", ["app", "launcher"])
def test_u08_signals_close_in_order(shell: Tmux, program: Program, who: str, signum: int, status: int) -> None:
    getattr(program, who).send_signal(signum)

    shell.wait_for(f"status {status}")
    assert HINT.search(shell.text)
    assert "Traceback" not in shell.text
    shell.assert_works()


def test_u08_an_interrupt_twice_in_a_row_is_130_and_leaves_a_working_terminal(shell: Tmux, program: Program) -> None:
    for _ in range(2):
        program.app.send_signal(signal.SIGINT)
        time.sleep(0.05)

    shell.wait_for("status 130")
    assert HINT.search(shell.text)
    assert "Traceback" not in shell.text
    shell.assert_works()


@pytest.mark.parametrize("stop", ["key", "outside"])
def test_ui_t03_suspend_and_fg_keep_what_was_typed(shell: Tmux, program: Program, stop: str) -> None:
    shell.type("half a thought")
    shell.wait_for("half a thought")
    for _ in range(2):
        program.wait_drawn()  # the draft's commit is counted on the screen
        before = shell.screen
        if stop == "key":
            shell.keys("C-z")
        else:
            program.app.send_signal(signal.SIGSTOP)
        shell.wait_for("Stopped")
        shell.assert_works()
        shell.run("clear; fg")
        wait_until(lambda seen=before: shell.screen == seen, "the whole screen, drawn anew")
    shell.type(" more")
    shell.wait_for("half a thought more")


def test_the_app_restores_the_terminal_when_its_launcher_is_killed(shell: Tmux, program: Program) -> None:
    program.launcher.kill()

    wait_until(lambda: not alive(program.app.pid), "the app's end")
    shell.wait_for("Press Enter")
    assert HINT.search(shell.text)
    shell.keys("Enter")
    shell.assert_works()


def test_ui_a05_a_window_that_is_closed_leaves_no_process(shell: Tmux, program: Program) -> None:
    members = [program.app.pid, program.launcher.pid, *(child.pid for child in program.app.children(recursive=True))]
    shell.close_window()

    wait_until(lambda: not any(map(alive, members)), "the end of launcher, app and helpers")
