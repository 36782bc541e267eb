"""Real processes for the crash tests: started with a mark in their environment, found by it, never by a name."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
MARK = "DURABLE_TUI_TEST_MARK"


def clean_environment(home: Path, extra: Mapping[str, str] | None = None) -> dict[str, str]:
    """An environment without keys or settings of whoever runs the tests."""
    kept = {name: value for name, value in os.environ.items() if name in ("PATH", "LANG", "LC_ALL", "TMPDIR")}
    return {
        **kept,
        "HOME": str(home),
        "DURABLE_TUI_HOME": str(home / "durable"),
        "PYTHONPATH": str(ROOT),
        "PYTHONDONTWRITEBYTECODE": "1",
        **(extra or {}),
    }


@dataclass
class Ended:
    """How a process ended: `status` is negative for a signal, as subprocess gives it."""

    status: int
    stdout: str
    stderr: str

    @property
    def killed(self) -> bool:
        return self.status == -signal.SIGKILL


@dataclass
class Processes:
    """Starts programs in `cwd` under one mark, and finds whatever of them is still alive."""

    cwd: Path
    environment: dict[str, str]
    mark: str = field(default_factory=lambda: uuid.uuid4().hex)

    def start(self, command: Sequence[str]) -> subprocess.Popen[str]:
        return subprocess.Popen(
            command,
            cwd=self.cwd,
            env={**self.environment, MARK: self.mark},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )

    def program(self, *arguments: str) -> subprocess.Popen[str]:
        """`durable-tui` with arguments."""
        return self.start([sys.executable, "-m", "durable_tui", *arguments])

    def worker(self, *arguments: str) -> subprocess.Popen[str]:
        return self.start([sys.executable, str(ROOT / "tests" / "tools" / "worker.py"), *arguments])

    def finish(self, process: subprocess.Popen[str], timeout: float = 60) -> Ended:
        """Wait for a process to end by itself."""
        try:
            out, err = process.communicate(timeout=timeout)
        except subprocess.TimeoutExpired:
            process.kill()
            out, err = process.communicate()
            raise AssertionError(f"still running after {timeout} s\n{out}\n{err}") from None
        return Ended(process.returncode, out, err)

    def kill_after(self, process: subprocess.Popen[str], seconds: float) -> Ended:
        """SIGKILL after some time, unless it ended before."""
        try:
            out, err = process.communicate(timeout=seconds)
        except subprocess.TimeoutExpired:
            process.kill()
            return Ended(-signal.SIGKILL, *_drain(process))
        return Ended(process.returncode, out, err)

    def alive(self) -> list[str]:
        """Every process that carries the mark, as `pid: command line`; zombies do not count."""
        found = []
        for entry in Path("/proc").iterdir():
            if not entry.name.isdigit() or int(entry.name) == os.getpid():
                continue
            try:
                if f"{MARK}={self.mark}".encode() not in (entry / "environ").read_bytes().split(b"\0"):
                    continue
                if (entry / "stat").read_text().rpartition(")")[2].split()[0] in "ZX":
                    continue
                line = (entry / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
            except OSError:
                continue
            found.append(f"{entry.name}: {line.strip()}")
        return found

    def wait_gone(self, seconds: float = 3.0) -> None:
        """Assert that within some seconds nothing that carries the mark is alive."""
        end = time.monotonic() + seconds
        while left := self.alive():
            if time.monotonic() > end:
                raise AssertionError(f"alive {seconds} s after the owner died: {left}")
            time.sleep(0.02)


def _drain(process: subprocess.Popen[str]) -> tuple[str, str]:
    """What a killed process had printed. A child that outlives it may hold the pipes, so reading is bounded."""
    try:
        out, err = process.communicate(timeout=5)
    except subprocess.TimeoutExpired:
        return "", "(a child still held the pipes 5 s after the kill)"
    return out, err
