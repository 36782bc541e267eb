"""The real program on a pseudo-terminal, watched byte by byte with the time of every byte; and a bare Textual app."""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import pty
import re
import signal
import struct
import subprocess
import sys
import termios
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import psutil

from tests.tools.processes import clean_environment

ALTERNATE = b"\x1b[?1049h"
_CONTROL = re.compile(
    rb"\x1b\[[0-?]*[ -/]*[@-~]|\x1b[\]P_^X].*?(?:\x1b\\|\x07)|\x1b[()*+][0-~]|\x1b[ -/]*[0-~]|[\x00-\x1f\x7f]", re.S
)
LIMIT = 60.0  # seconds any wait may take
SIZE = (120, 40)


def visible(data: bytes) -> bytes:
    """What of a terminal's bytes can be seen."""
    return _CONTROL.sub(b"", data)


class Screen:
    """A program on a pty of its own. A thread takes in what it writes: `chunks` are (time, all bytes until then)."""

    def __init__(self, command: Sequence[str], env: Mapping[str, str], cwd: Path, size: tuple[int, int] = SIZE) -> None:
        self.data = bytearray()
        self.arrivals: list[tuple[float, int]] = []  # when, and how many bytes had come then
        self._came = threading.Condition()
        self._master, slave = pty.openpty()
        fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", size[1], size[0], 0, 0))
        self.began = time.perf_counter()
        self.process = subprocess.Popen(
            list(command),
            stdin=slave,
            stdout=slave,
            stderr=slave,
            cwd=cwd,
            env={**env, "TERM": "xterm-256color", "COLORTERM": "truecolor"},
            start_new_session=True,
            preexec_fn=_take_terminal,  # noqa: PLW1509 - one call into the kernel
        )
        os.close(slave)
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def __enter__(self) -> Screen:
        return self

    def __exit__(self, *exc: object) -> None:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()
        self._reader.join(5)
        os.close(self._master)

    def _read(self) -> None:
        while True:
            try:
                data = os.read(self._master, 1 << 16)
            except OSError:
                return
            now = time.perf_counter()
            if not data:
                return
            with self._came:
                self.data += data
                self.arrivals.append((now, len(self.data)))
                self._came.notify_all()

    def wait(self, condition: Callable[[bytes], bool], start: int = 0, limit: float = LIMIT) -> float:
        """When the bytes from `start` on first fulfilled the condition. Raises TimeoutError with what was seen."""
        deadline = time.perf_counter() + limit
        seen = next((index for index, (_, length) in enumerate(self.arrivals) if length > start), len(self.arrivals))
        with self._came:
            while True:
                while seen < len(self.arrivals):
                    when, length = self.arrivals[seen]
                    seen += 1
                    if condition(bytes(self.data[start:length])):
                        return when
                left = deadline - time.perf_counter()
                if left <= 0 or self.process.poll() is not None:
                    tail = visible(bytes(self.data))[-800:].decode(errors="replace")
                    raise TimeoutError(f"not seen (status {self.process.poll()}); the end of what was: {tail}")
                self._came.wait(min(left, 0.2))

    def first_paint(self) -> float:
        """Seconds from the start to the first thing that can be seen on the alternate screen."""
        return self.wait(lambda data: bool(visible(data.partition(ALTERNATE)[2]).strip())) - self.began

    def shows(self, text: bytes) -> float:
        """Seconds from the start until the text was drawn."""
        return self.wait(lambda data: text in data) - self.began

    def settle(self, quiet: float = 1.0, limit: float = LIMIT) -> None:
        """Until nothing was drawn for a while."""
        deadline = time.perf_counter() + limit
        while time.perf_counter() < deadline:
            last = self.arrivals[-1][0] if self.arrivals else self.began
            if time.perf_counter() - last > quiet:
                return
            time.sleep(0.05)

    def press(self, text: str) -> float:
        os.write(self._master, text.encode())
        return time.perf_counter()

    @property
    def app(self) -> psutil.Process:
        """The screen's own process: the launcher's child, or the program itself."""
        children = psutil.Process(self.process.pid).children()
        return children[0] if children else psutil.Process(self.process.pid)


def _take_terminal() -> None:
    fcntl.ioctl(0, termios.TIOCSCTTY, 0)


# --- a person's home ------------------------------------------------------------------------------------------------


class Place:
    """A home, a project and an environment for real programs; byte code is kept, as in an installed program."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.project = folder / "project"
        self.home = folder / "durable"
        for path in (self.project, self.home):
            path.mkdir()
        self.env = clean_environment(folder, {"PYTHONPYCACHEPREFIX": str(folder / "pycache")})
        del self.env["PYTHONDONTWRITEBYTECODE"]
        self.script([{"text": "It is done."}])

    def script(self, turns: Sequence[Mapping[str, object]]) -> None:
        """What the model `play/one` answers."""
        (self.home / "turns.json").write_text(json.dumps(list(turns)))
        config = 'model = "play/one"\n[providers.play]\napi = "scripted"\nscript = "turns.json"\n'
        (self.home / "config.toml").write_text(config)

    def screen(self, session: Path) -> Screen:
        """The program as a person starts it."""
        return Screen([sys.executable, "-m", "durable_tui", "--session", str(session)], self.env, self.project)

    def bare(self, modules: Sequence[str]) -> Screen:
        """A bare Textual app that imports the same first."""
        path = self.folder / "bare.py"
        path.write_text(BARE.format(modules=list(modules)))
        return Screen([sys.executable, str(path)], self.env, self.project)

    def modules(self, session: Path) -> list[str]:
        """What the screen's process has imported at its first paint, in that order."""
        found = self.folder / "modules.json"
        path = self.folder / "record.py"
        words = [f"--directory={self.project}", f"--session={session}"]
        path.write_text(RECORD.format(words=words, found=str(found)))
        with Screen([sys.executable, str(path)], self.env, self.project) as screen:
            screen.first_paint()
            os.kill(screen.process.pid, signal.SIGUSR1)
            deadline = time.monotonic() + LIMIT
            while not found.exists() and time.monotonic() < deadline:
                time.sleep(0.02)
        names: list[str] = json.loads(found.read_text())
        return names


BARE = """\
import importlib
for name in {modules!r}:
    importlib.import_module(name)
from textual.app import App
from textual.widgets import Static, TextArea
class Bare(App):
    def compose(self):
        yield Static("ready")
        yield TextArea()
    def on_mount(self):
        self.query_one(TextArea).focus()
Bare().run()
"""

RECORD = """\
import json, os, signal, sys
def record(*_):
    with open({found!r} + ".new", "w") as file:
        json.dump([name for name in sys.modules if "__main__" not in name], file)
    os.rename({found!r} + ".new", {found!r})
signal.signal(signal.SIGUSR1, record)
sys.argv[1:] = {words!r}
from durable_tui.ui.__main__ import main
main()
"""
