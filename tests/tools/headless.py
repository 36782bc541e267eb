"""A person's home with scripted models, and the real program run in it."""

from __future__ import annotations

import json
import os
import signal
import sqlite3
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from tests.tools.processes import Ended, Processes, clean_environment

CONFIG = """\
model = "{model}"
[providers.play]
api = "scripted"
script = "turns.json"
{extra}
"""


class Home(Processes):
    """`write` sets the script; `run` is one command to its end; `session` a path outside the home's own folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.home = folder / "durable"
        self.project = folder / "project"
        self.session = folder / "job.sqlite"
        for path in (self.home, self.project):
            path.mkdir(parents=True)
        super().__init__(self.project, clean_environment(folder))
        self.write([{"text": "It is done."}])

    def write(self, turns: Sequence[dict[str, Any]], extra: str = "", model: str = "play/one") -> None:
        """The script of `play/…`, and the configuration around it."""
        (self.home / "turns.json").write_text(json.dumps(list(turns)))
        (self.home / "config.toml").write_text(CONFIG.format(model=model, extra=extra))

    def plugin(self, name: str, source: str) -> None:
        """An extension of the person's own."""
        (self.home / "extensions").mkdir(exist_ok=True)
        (self.home / "extensions" / f"{name}.py").write_text(source)

    def command(self, *words: str) -> list[str]:
        return [sys.executable, "-m", "durable_tui", *words]

    def run(self, *words: str, timeout: float = 60) -> Ended:
        return self.finish(self.start(self.command(*words)), timeout)

    def in_session(self, *words: str, prompt: str | None = "fix it") -> list[str]:
        """The words of `run` in `session`."""
        return ["run", "--session", str(self.session), *words, *([prompt] if prompt is not None else [])]

    def wait_until(self, condition: Callable[[sqlite3.Connection], Any], timeout: float = 30) -> None:
        """Look at the session from outside until the condition holds."""
        deadline = time.monotonic() + timeout
        while time.monotonic() < deadline:
            if self.session.exists():
                reader = sqlite3.connect(f"file:{self.session}?mode=ro", uri=True, timeout=5)
                try:
                    if condition(reader):
                        return
                except sqlite3.OperationalError:
                    pass
                finally:
                    reader.close()
            time.sleep(0.02)
        raise AssertionError(f"it did not happen within {timeout} s")

    def busy(self, *words: str, phase: str = "request") -> subprocess.Popen[str]:
        """A `run` in `session` that has reached a phase of a running task."""
        process = self.start(self.command(*self.in_session(*words)))
        try:
            self.wait_until(lambda reader: in_phase(reader, phase))
        except AssertionError:
            process.kill()
            raise AssertionError(str(process.communicate())) from None
        return process

    def stop(self, process: subprocess.Popen[str], number: int) -> Ended:
        os.kill(process.pid, number)
        return self.finish(process, timeout=30)

    def kill(self, process: subprocess.Popen[str]) -> None:
        process.send_signal(signal.SIGKILL)
        process.communicate()


def in_phase(reader: sqlite3.Connection, phase: str) -> bool:
    """Whether a task works in the phase, or waits for it at a gate."""
    rows = reader.execute("SELECT record FROM tasks WHERE status IN ('running', 'pending')").fetchall()
    states = [json.loads(row[0])["state"] for row in rows]
    return any(
        state["checkpoint"].get("phase") == phase and (state["status"] == "running" or "gate" in state)
        for state in states
    )


def openings(reader: sqlite3.Connection) -> int:
    """How often the session was opened to be written."""
    return int(reader.execute("SELECT count(*) FROM owners").fetchone()[0])


def lines(text: str) -> list[dict[str, Any]]:
    """The JSON lines of a stdout; every line must be one object."""
    found = [json.loads(line) for line in text.splitlines()]
    assert all(isinstance(line, dict) for line in found)
    return found
