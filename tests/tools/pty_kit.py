"""Drive a real program in a real terminal: a pty whose screen is kept by pyte, and tmux with a real shell.

Waiting is always for a condition, never for a time; every wait has a generous limit and shows the screen when it fails.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import pty
import select
import shlex
import shutil
import signal
import struct
import subprocess
import termios
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar, Self, TypeVar

import pyte

T = TypeVar("T")

LIMIT = 20.0  # seconds any wait may take
END = b"\x1b]777;end\x07"  # a sequence that draws nothing

KEYS = {
    "enter": "\r",
    "escape": "\x1b",
    "tab": "\t",
    "backspace": "\x7f",
    "up": "\x1b[A",
    "down": "\x1b[B",
    "right": "\x1b[C",
    "left": "\x1b[D",
    "alt+enter": "\x1b\r",
    "alt+up": "\x1b[1;3A",
    **dict(zip(("f1", "f2", "f3", "f4"), ("\x1bOP", "\x1bOQ", "\x1bOR", "\x1bOS"), strict=True)),
    **dict(zip(("f5", "f6", "f7", "f8"), ("\x1b[15~", "\x1b[17~", "\x1b[18~", "\x1b[19~"), strict=True)),
    **{f"ctrl+{chr(letter + 96)}": chr(letter) for letter in range(1, 27)},
}


def wait_until(condition: Callable[[], T], what: str, limit: float = LIMIT) -> T:
    """The first true value of `condition`; fails naming `what` after `limit` seconds."""
    deadline = time.monotonic() + limit
    while True:
        value = condition()
        if value:
            return value
        assert time.monotonic() < deadline, f"waited {limit:.0f} s for {what}"
        time.sleep(0.01)


def alive(pid: int) -> bool:
    """Whether the process runs; one that only waits to be reaped does not."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    found = subprocess.run(["ps", "-o", "stat=", "-p", str(pid)], capture_output=True, text=True).stdout.strip()
    return bool(found) and not found.startswith("Z")


class Terminal:
    """A program on a pty of its own, leading its session, with the screen it has drawn.

    `raw` holds every byte it wrote; `before` the terminal's attributes at the start. Use it as a context manager:
    the program is killed and reaped at the end.
    """

    def __init__(
        self,
        command: Sequence[str],
        *,
        size: tuple[int, int] = (80, 24),
        env: Mapping[str, str] | None = None,
        cwd: str | os.PathLike[str] | None = None,
    ) -> None:
        self.raw = b""
        self.status: int | None = None
        self._screen = pyte.Screen(*size)
        self._stream = pyte.ByteStream(self._screen)
        self.master, slave = pty.openpty()
        # Kept open: the attributes can still be read when the program is gone.
        self.slave = slave
        os.set_blocking(self.master, False)
        self.resize(*size)
        self.before = termios.tcgetattr(slave)
        self._process = subprocess.Popen(
            list(command),
            stdin=slave,
            stdout=slave,
            stderr=slave,
            cwd=cwd,
            env={**os.environ, "TERM": "xterm-256color", **(env or {})},
            start_new_session=True,
            preexec_fn=_take_terminal,  # noqa: PLW1509 - one call into the kernel
        )
        self.pid = self._process.pid

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self.kill()
        self.hang_up()

    # --- looking --------------------------------------------------------------------------------------------

    def pump(self, seconds: float = 0.02) -> None:
        """Take in what the program has written."""
        if self.master < 0:
            return
        readable, _, _ = select.select([self.master], [], [], seconds)
        while readable:
            try:
                data = os.read(self.master, 65536)
            except BlockingIOError:
                return
            except OSError as error:
                if error.errno == errno.EIO:
                    return
                raise
            self.raw += data
            self._stream.feed(data)

    @property
    def screen(self) -> list[str]:
        self.pump(0)
        return [line.rstrip() for line in self._screen.display]

    @property
    def text(self) -> str:
        return "\n".join(self.screen)

    @property
    def cursor(self) -> tuple[int, int]:
        """Column and row, from 0."""
        return self._screen.cursor.x, self._screen.cursor.y

    @property
    def attributes(self) -> list[Any]:
        """The terminal's attributes now."""
        return termios.tcgetattr(self.slave)

    def wait_for(self, condition: str | Callable[[], object], limit: float = LIMIT) -> None:
        """Wait until the text stands on the screen, or the condition is true."""
        deadline = time.monotonic() + limit
        while not (condition in self.text if isinstance(condition, str) else condition()):
            assert time.monotonic() < deadline, f"waited {limit:.0f} s for {condition!r}; the screen:\n{self.text}"
            self.pump()

    def wait_for_bytes(self, data: bytes, limit: float = LIMIT) -> None:
        self.wait_for(lambda: data in self.raw, limit)

    def wait(self, limit: float = LIMIT) -> int:
        """Wait for the end; the exit status, negative for a signal. Everything written has been taken in."""
        deadline = time.monotonic() + limit
        while self._process.poll() is None:
            assert time.monotonic() < deadline, f"still running after {limit:.0f} s; the screen:\n{self.text}"
            self.pump()
        self._take_the_rest()
        return self._process.returncode

    def _take_the_rest(self) -> None:
        """What the program wrote may still be on its way through the terminal: a mark of our own comes after it."""
        if self.master < 0:
            return
        os.write(self.slave, END)
        deadline = time.monotonic() + LIMIT
        while not self.raw.endswith(END):
            assert time.monotonic() < deadline, "the terminal keeps what the program wrote"
            self.pump(0.05)
        self.raw = self.raw[: -len(END)]

    # --- acting ---------------------------------------------------------------------------------------------

    def write(self, text: str | bytes) -> None:
        data = text.encode() if isinstance(text, str) else text
        while data:
            try:
                data = data[os.write(self.master, data) :]
            except BlockingIOError:
                self.pump()

    def press(self, *keys: str) -> None:
        """Press named keys (`KEYS`), anything else is typed as it is."""
        for key in keys:
            self.write(KEYS.get(key, key))

    def resize(self, columns: int, rows: int) -> None:
        fcntl.ioctl(self.slave, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))
        self._screen.resize(rows, columns)

    def signal(self, signum: int) -> None:
        os.kill(self.pid, signum)

    def kill(self) -> None:
        """End the whole session of the program: everything started on this terminal."""
        for pid in _session(self.pid):
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        if self._process.poll() is None:
            self._process.wait()

    def hang_up(self) -> None:
        """Close the terminal, as a window that is closed or a connection that drops."""
        for name in ("master", "slave"):
            fd = getattr(self, name)
            if fd >= 0:
                os.close(fd)
                setattr(self, name, -1)


def _take_terminal() -> None:
    fcntl.ioctl(0, termios.TIOCSCTTY, 0)


def _session(leader: int) -> list[int]:
    """The processes of a session; the leader last, for its death alone would change the others."""
    table = subprocess.run(["ps", "-eo", "pid=,sess="], capture_output=True, text=True).stdout
    pids = [int(pid) for pid, session in (line.split() for line in table.splitlines()) if session == str(leader)]
    return sorted(pids, key=lambda pid: pid == leader)


class Tmux:
    """A tmux server of its own with one real bash in it, at a bare prompt.

    `run` types a command line, `keys` presses tmux key names, `screen` is what a person sees.
    """

    PROMPT = "ready> "
    PLAIN: ClassVar = {  # the modes of a terminal on which nothing was left on
        "alternate_on": "0",
        "mouse_any_flag": "0",
        "mouse_sgr_flag": "0",
        "cursor_flag": "1",
        "wrap_flag": "1",
    }

    def __init__(self, folder: Path, *, size: tuple[int, int] = (80, 24), env: Mapping[str, str] | None = None) -> None:
        found = shutil.which("tmux")
        assert found, "the terminal tests need tmux"
        self._words = [found, "-S", str(folder / "tmux"), "-f", os.devnull]
        self._env = {**os.environ, **(env or {}), "PS1": self.PROMPT, "HISTFILE": ""}
        self._env.pop("TMUX", None)
        shell = shlex.join(["env", f"PS1={self.PROMPT}", "bash", "--norc", "--noprofile", "-i"])
        columns, rows = map(str, size)
        self._tmux("new-session", "-d", "-x", columns, "-y", rows, "-c", str(folder), shell)
        self.shell_pid = int(self.format("#{pane_pid}"))
        self.wait_for_prompt()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        members = _session(self.shell_pid)
        subprocess.run([*self._words, "kill-server"], capture_output=True)  # it may have ended with its last window
        for pid in members:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)

    def _tmux(self, *words: str) -> str:
        done = subprocess.run([*self._words, *words], capture_output=True, text=True, env=self._env)
        assert done.returncode == 0, done.stderr
        return done.stdout

    @property
    def screen(self) -> list[str]:
        return [line.rstrip() for line in self._tmux("capture-pane", "-p").split("\n")]

    @property
    def text(self) -> str:
        """The screen with wrapped lines joined."""
        return "\n".join(line.rstrip() for line in self._tmux("capture-pane", "-p", "-J").split("\n"))

    def format(self, what: str) -> str:
        """A tmux format of the pane, such as `#{alternate_on}` or `#{mouse_any_flag}`."""
        return self._tmux("display-message", "-p", what).strip()

    def modes(self) -> dict[str, str]:
        """What a program may have left switched on, as tmux knows it."""
        shown = self.format(" ".join(f"#{{{name}}}" for name in self.PLAIN))
        return dict(zip(self.PLAIN, shown.split(), strict=True))

    def wait_for(self, condition: str | Callable[[], object], limit: float = LIMIT) -> None:
        deadline = time.monotonic() + limit
        while not (condition in self.text if isinstance(condition, str) else condition()):
            assert time.monotonic() < deadline, f"waited {limit:.0f} s for {condition!r}; the screen:\n{self.text}"
            time.sleep(0.02)

    def wait_for_prompt(self) -> None:
        """Until the shell asks for a command: typed earlier, it would be echoed twice."""
        self.wait_for(lambda: [line for line in self.screen if line][-1:] == [self.PROMPT.strip()])

    def assert_works(self) -> None:
        """Nothing is left on, echo and line editing are back: a typed command shows once and runs."""
        self.wait_for_prompt()
        assert self.modes() == self.PLAIN
        command = "echo wor''king; stty -a | tr ';' '\\n' | grep -o -w -E 'icanon|isig|icrnl|[-]?echo'"
        self.run(command)
        self.wait_for(lambda: {"working", "icanon", "isig", "icrnl", "echo"} <= set(self.screen))
        assert sum("echo wor''king" in line for line in self.screen) == 1

    def keys(self, *names: str) -> None:
        """Press keys by their tmux names: `C-z`, `Enter`, `Escape`."""
        self._tmux("send-keys", *names)

    def type(self, text: str) -> None:
        self._tmux("send-keys", "-l", text)

    def run(self, line: str) -> None:
        self.type(line)
        self.keys("Enter")

    def close_window(self) -> None:
        """As a person closes a window: the terminal goes, everything on it gets a hang-up."""
        self._tmux("kill-window")

    def resize(self, columns: int, rows: int) -> None:
        self._tmux("resize-window", "-x", str(columns), "-y", str(rows))
