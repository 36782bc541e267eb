"""The terminal's state, and the line between the launcher and the process that draws the screen (spec 21).

Standard library only and cheap to import: the launcher loads it before anything heavy. The launcher hands its child
two descriptors by environment: one to write status lines into, one that reads end-of-file when the launcher is gone.
"""

from __future__ import annotations

import contextlib
import os
import select
import signal
import sys
import termios
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, TypedDict

if TYPE_CHECKING:
    import asyncio

LAUNCHER_FD: Final = "DURABLE_TUI_LAUNCHER_FD"
LAUNCHER_ALIVE_FD: Final = "DURABLE_TUI_LAUNCHER_ALIVE_FD"
LAUNCHER_PROGRAM: Final = "DURABLE_TUI_LAUNCHER_PROGRAM"
STOP_SIGNALS: Final = (signal.SIGTERM, signal.SIGHUP, signal.SIGINT)

# The string terminator ends a sequence that was cut in the middle. The keyboard stack belongs to the alternate
# screen, so it is popped before leaving it. Saving the cursor keeps `?1049l` from moving it where no alternate
# screen was open.
RESET: Final = (
    b"\x1b\\\x1b[?2026l\x1b[<u"
    b"\x1b[?1000l\x1b[?1002l\x1b[?1003l\x1b[?1004l\x1b[?1006l\x1b[?1015l\x1b[?1016l\x1b[?2004l\x1b[?2048l"
    b"\x1b[?7h\x1b7\x1b[?1049l\x1b[?25h\x1b[0m"
)

# Replies and mouse reports that the terminal had already sent when it read the reset arrive within this time.
_LATE_INPUT = 0.03
# A signal to the whole group reaches the app twice, once from the launcher.
_SAME_SIGNAL = 1.0
_LOCAL_FLAGS = 3

Attributes = list[Any]  # numbers, and a list of control characters: as termios has them


def _working_directory() -> str:
    try:
        return os.getcwd()
    except OSError:
        return "/"  # removed under us


# Where the person's shell stands: what we print must hold there, wherever this process goes.
STARTED_IN: Final = _working_directory()


class Status(TypedDict, total=False):
    """What the app last said of itself: the session's id (absent: name it by `path`), and its unfinished tasks.

    `ends` are the files in which the launcher is to tell how the app ended: one for each session it has not closed.
    """

    session: str
    path: str
    cwd: str
    unfinished: int
    ends: list[str]


def save(fd: int = 0) -> Attributes | None:
    """The terminal's attributes as they are now; None where `fd` is no terminal."""
    try:
        return termios.tcgetattr(fd)
    except (termios.error, OSError):
        return None


def in_foreground(fd: int = 0) -> bool:
    """Whether this process may set the terminal: it is ours, and its foreground group is ours."""
    try:
        return os.tcgetpgrp(fd) == os.getpgrp()
    except OSError:
        return False


def write_all(fd: int, data: bytes, timeout: float = 2.0) -> bool:
    """Write to a terminal that may be gone, stopped, or non-blocking; False when it could not all be written."""
    deadline = time.monotonic() + timeout
    while data:
        try:
            _, writable, _ = select.select([], [fd], [], max(0.0, deadline - time.monotonic()))
            if not writable:
                return False
            data = data[os.write(fd, data) :]
        except BlockingIOError:
            continue
        except OSError:
            return False
    return True


@contextlib.contextmanager
def _background_writes() -> Iterator[None]:
    """Without this a `stty tostop` terminal would stop us for writing out of the background."""
    former = signal.signal(signal.SIGTTOU, signal.SIG_IGN)
    try:
        yield
    finally:
        signal.signal(signal.SIGTTOU, former)


def restore(saved: Attributes | None, *, out: int = 2, fd: int = 0) -> None:
    """End every mode a screen may have set, drop unread input, and put the attributes back.

    Safe when another group has taken the terminal over: then the attributes stay as that group set them, unless
    they are still the raw ones this program left.
    """
    with _background_writes():
        write_all(out, RESET)
        if saved is None:
            return
        time.sleep(_LATE_INPUT)
        current = save(fd)
        if current is None or not (in_foreground(fd) or _raw(current)):
            return
        with contextlib.suppress(termios.error, OSError):
            termios.tcflush(fd, termios.TCIFLUSH)
            termios.tcsetattr(fd, termios.TCSANOW, saved)


def _raw(attributes: Attributes) -> bool:
    """Line editors of shells keep ISIG; a screen does not."""
    return not attributes[_LOCAL_FLAGS] & (termios.ISIG | termios.ICANON)


def name_process(name: str) -> None:
    """Show `name` in place of the command line, where the system lets a process do that (Linux)."""
    if not sys.platform.startswith("linux"):
        return
    try:
        with open("/proc/self/comm", "wb") as comm:
            comm.write(name.encode()[:15])
        with open("/proc/self/stat", "rb") as stat:
            fields = stat.read().rpartition(b")")[2].split()
        start, end = int(fields[45]), int(fields[46])  # arg_start, arg_end of proc(5), counted after the name
        if not 0 < start < end:
            return
        with open("/proc/self/mem", "r+b", buffering=0) as memory:
            os.pwrite(memory.fileno(), name.encode()[: end - start - 1].ljust(end - start, b"\0"), start)
    except (OSError, ValueError, IndexError):
        return  # a hardened kernel hides these; the name is a convenience


# --- the app's side of the line -------------------------------------------------------------------------------


class _Line:
    """The two descriptors handed over by the launcher; -1 where there is none."""

    def __init__(self) -> None:
        self.status_fd = self._take(LAUNCHER_FD)
        self.alive_fd = self._take(LAUNCHER_ALIVE_FD)
        self.program = os.environ.pop(LAUNCHER_PROGRAM, "durable-tui")
        self.last: Status = {}
        if self.status_fd >= 0:
            os.set_blocking(self.status_fd, False)
            name_process("durable-tui")  # killing by the program's name means the app, and spares the launcher

    @staticmethod
    def _take(variable: str) -> int:
        """Commands run by the app must inherit neither the descriptor nor its name."""
        try:
            fd = int(os.environ.pop(variable, "-1"))
            if fd >= 0:
                os.set_inheritable(fd, False)
        except (ValueError, OSError):
            return -1
        return fd


_line: _Line | None = None


def _connect() -> _Line:
    global _line
    if _line is None:
        _line = _Line()
    return _line


def report(
    *, cwd: str, unfinished: int, session: str | None = None, path: str | None = None, ends: Sequence[str] = ()
) -> None:
    """Tell the launcher what to print when this process ends, however it ends. Call it at every change.

    `session` is the id by which `--session` finds it, None for a session that only its `path` names; `ends` are the
    files of the sessions that would be left unclosed.
    """
    line = _connect()
    status = Status(cwd=cwd, unfinished=unfinished)
    if ends:
        status["ends"] = list(ends)
    if session is not None:
        status["session"] = session
    if path is not None:
        status["path"] = path
    if status == line.last:
        return
    line.last = status
    if line.status_fd < 0:
        return
    import json

    try:
        os.write(line.status_fd, json.dumps(status).encode() + b"\n")
    except BlockingIOError:
        line.last = {}  # a stopped launcher reads nothing; the next call says it again
    except OSError:
        return  # it is gone, and `watch_launcher` tells


def watch_launcher(loop: asyncio.AbstractEventLoop, callback: Callable[[], object]) -> bool:
    """Call `callback` once when the launcher has died. False when there is none to watch.

    The callback ends the app; when its screen is closed, `abandoned` puts the terminal right.
    """
    fd = _connect().alive_fd
    if fd < 0:
        return False

    def readable() -> None:
        with contextlib.suppress(BlockingIOError):
            if not os.read(fd, 64):
                loop.remove_reader(fd)
                callback()

    os.set_blocking(fd, False)
    loop.add_reader(fd, readable)
    return True


def watch_stop_signals(loop: asyncio.AbstractEventLoop, callback: Callable[[int], object]) -> None:
    """Call `callback(signum)` on SIGTERM, SIGHUP and SIGINT; the same signal again within a second is one.

    A hang-up that was ignored at start (nohup) stays ignored.
    """
    seen: dict[int, float] = {}

    def arrived(signum: int) -> None:
        now = loop.time()
        former = seen.get(signum)
        seen[signum] = now
        if former is None or now - former > _SAME_SIGNAL:
            callback(signum)

    for signum in STOP_SIGNALS:
        if signum == signal.SIGHUP and signal.getsignal(signum) is signal.SIG_IGN:
            continue
        loop.add_signal_handler(signum, arrived, signum)


def abandoned(saved: Attributes | None, *, out: int = 2, fd: int = 0) -> None:
    """Do the launcher's work once it was killed, from the background if need be; the last thing the app does."""
    restore(saved, out=out, fd=fd)
    line = _connect()
    text = "durable-tui: the launcher was killed.\n" + farewell(line.last, program=line.program)
    if not in_foreground(fd):
        text += "Press Enter for the shell's prompt.\n"  # the shell drew it already, on the screen that is gone
    with _background_writes():
        write_all(out, b"\r" + text.encode(errors="replace"))


# --- the words ------------------------------------------------------------------------------------------------


def program_name(argv0: str | None = None) -> str:
    """Return the word that starts this program: its bare name where the search path finds it, else the whole path."""
    import shlex

    started = os.path.abspath(sys.argv[0] if argv0 is None else argv0)
    if os.path.basename(started) != "durable-tui":
        return f"{shlex.quote(sys.executable)} -m durable_tui"
    for folder in os.environ.get("PATH", os.defpath).split(os.pathsep):
        found = os.path.join(folder, "durable-tui")
        if folder and os.access(found, os.X_OK) and os.path.isfile(found):
            return "durable-tui" if os.path.samefile(found, started) else shlex.quote(started)
    return shlex.quote(started)


def farewell(status: Status, *, program: str, cwd: str = STARTED_IN, environ: Mapping[str, str] | None = None) -> str:
    """Return what to print at the end: how much is unfinished and the command that continues it; "" without a session.

    The command holds whatever is needed to find the session again from `cwd`, quoted for a shell.
    """
    import shlex

    environ = os.environ if environ is None else environ
    session, path = status.get("session"), status.get("path")
    if not session and not path:
        return ""
    words = [f"DURABLE_TUI_HOME={shlex.quote(environ['DURABLE_TUI_HOME'])}"] if environ.get("DURABLE_TUI_HOME") else []
    words.append(program)
    where = status.get("cwd")
    if where and os.path.realpath(where) != os.path.realpath(cwd):
        words += ["-C", shlex.quote(where)]
    words += ["--session", shlex.quote(session[-8:] if session else os.path.abspath(path or ""))]
    unfinished = status.get("unfinished", 0)
    told = f"{unfinished} tasks unfinished; they go on" if unfinished != 1 else "1 task unfinished; it goes on"
    lines = [f"{told} at the next open."] if unfinished else []
    lines.append("Continue: " + " ".join(words))
    return "\n".join(lines) + "\n"


def parse_status(line: bytes) -> Status:
    """The last status line; {} for a torn or foreign one."""
    import json

    try:
        value = json.loads(line)
    except ValueError:
        return {}
    if not isinstance(value, dict):
        return {}
    status = Status()
    if isinstance(value.get("session"), str):
        status["session"] = value["session"]
    if isinstance(value.get("path"), str):
        status["path"] = value["path"]
    if isinstance(value.get("cwd"), str):
        status["cwd"] = value["cwd"]
    if isinstance(value.get("unfinished"), int):
        status["unfinished"] = value["unfinished"]
    if isinstance(value.get("ends"), list):
        status["ends"] = [path for path in value["ends"] if isinstance(path, str) and os.path.isabs(path)]
    return status


def signal_name(number: int) -> str:
    """`SIGKILL`, or `signal 40` for one without a name."""
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"  # a real-time one
