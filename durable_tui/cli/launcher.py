"""The launcher: a small parent that owns the terminal's restoration (spec 21).

It starts the screen as its child, in the same foreground group on the same terminal, and waits. However the child
ends, or is stopped, the terminal is put right and the person told how to continue. How it ended is kept for the next
opening of a session it had not closed. Standard library only.
"""

from __future__ import annotations

import contextlib
import os
import select
import signal
import sys
import time
from collections.abc import Sequence
from typing import Final, TextIO

from durable_tui.host import terminal

USAGE: Final = 2
HANGUP_GRACE: Final = (
    30.0  # seconds the app has to close after a hang-up; its work is durable, a leftover is not wanted
)
_OUT: Final = 2  # the screen draws on standard error
_SELF_CONTINUED: Final = 0.05  # a shell's `fg` continues the whole group; only a child left out is continued by us


def launch(argv: Sequence[str], *, command: Sequence[str] | None = None) -> int:
    """Run the screen with `argv` and return the exit status to leave with.

    The app's own status, 128 + n when signal n killed it, 2 where no screen can be drawn. `command` is the program
    to start in place of the screen.
    """
    problem = unusable()
    if problem:
        _say(sys.stderr, f"durable-tui: {problem}\n")
        return USAGE
    # Not `-m` alone: it would put the working directory, the person's project, before the library.
    words = [*command, *argv] if command is not None else [sys.executable, "-P", "-m", "durable_tui.ui", *argv]
    return _Launcher(words).run()


def unusable() -> str | None:
    """Return why no screen can be drawn here, with what to do instead; None when it can."""
    if not sys.platform.startswith(("linux", "darwin")):
        return "runs on Linux and macOS only"
    if not all(_is_terminal(stream) for stream in (sys.stdin, sys.stdout, sys.stderr)):
        return (
            "the screen needs a terminal on standard input, output and error; "
            "without one use `durable-tui run PROMPT`, `resume` or `show`"
        )
    if os.environ.get("TERM") in ("dumb", "unknown"):
        return (
            f"this terminal (TERM={os.environ['TERM']}) cannot draw a screen; "
            "set TERM to what it is, or use `durable-tui run PROMPT`"
        )
    return None


def _is_terminal(stream: TextIO | None) -> bool:
    """A closed standard stream is None or raises."""
    try:
        return stream is not None and stream.isatty()
    except ValueError:
        return False


def _say(stream: TextIO | None, text: str) -> None:
    if stream is not None:
        with contextlib.suppress(OSError, ValueError):
            stream.write(text)
            stream.flush()


class _Launcher:
    """One run: the child, the two pipes, the terminal as it was."""

    def __init__(self, words: list[str]) -> None:
        self.words = words
        self.program = terminal.program_name()
        self.saved = terminal.save()
        self.blocking = [os.get_blocking(fd) for fd in (0, 1, 2)]
        self.pid = 0
        self.change: int | None = None  # seen already, not yet acted upon; exit status 0 is a change too
        self.status_fd = -1
        self.listening = True
        self.partial = b""
        self.reported = b""
        self.interrupted = False
        self.hangup_at: float | None = None
        self.watched = [s for s in (*terminal.STOP_SIGNALS, signal.SIGTSTP, signal.SIGCHLD) if not _ignored(s)]

    def run(self) -> int:
        terminal.name_process("dtui-launcher")  # so that killing by the program's name hits the app, not its keeper
        former = {s: signal.signal(s, _noted) for s in self.watched}
        wake_read, wake_write = os.pipe()
        for fd in (wake_read, wake_write):
            os.set_blocking(fd, False)
        former_wake = signal.set_wakeup_fd(wake_write, warn_on_full_buffer=False)
        alive_read, alive_write = os.pipe()
        self.status_fd, status_write = os.pipe()
        os.set_blocking(self.status_fd, False)
        try:
            try:
                self._spawn(status_write, alive_read)
            except OSError as error:
                _say(sys.stderr, f"durable-tui: cannot start the screen: {error}\n")
                return USAGE
            finally:
                os.close(status_write)
                os.close(alive_read)
            return self._end(self._wait(wake_read))
        finally:
            signal.set_wakeup_fd(former_wake)
            for signum, handler in former.items():
                signal.signal(signum, handler)
            for fd in (wake_read, wake_write, alive_write, self.status_fd):
                os.close(fd)

    def _spawn(self, status_write: int, alive_read: int) -> None:
        os.set_inheritable(status_write, True)
        os.set_inheritable(alive_read, True)
        env = {
            **os.environ,
            terminal.LAUNCHER_FD: str(status_write),
            terminal.LAUNCHER_ALIVE_FD: str(alive_read),
            terminal.LAUNCHER_PROGRAM: self.program,
        }
        for name in ("COLUMNS", "LINES"):
            env.pop(name, None)  # exported by some shells: they would be taken for the size, also after a resize
        # Until the app has its own handler an interrupt must not become a traceback; it is turned into SIGTERM below.
        former = signal.signal(signal.SIGINT, signal.SIG_IGN)
        try:
            self.pid = os.posix_spawn(
                self.words[0], self.words, env, setsigdef=[signal.SIGTTOU, signal.SIGTTIN, signal.SIGPIPE]
            )
        finally:
            signal.signal(signal.SIGINT, former)

    def _wait(self, wake: int) -> int:
        """Wait for the child's end; its wait status."""
        while True:
            changed = self._poll() if self.change is None else self.change
            self.change = None
            if changed is None or os.WIFCONTINUED(changed):
                self._pause(wake)
            elif os.WIFSTOPPED(changed):
                self._stopped()
            else:
                return changed

    def _poll(self) -> int | None:
        """The child's next change of state as a wait status."""
        pid, status = os.waitpid(self.pid, os.WNOHANG | os.WUNTRACED | os.WCONTINUED)
        return status if pid else None

    def _pause(self, wake: int) -> None:
        """Sleep until a signal, a status line, or the end of the grace after a hang-up."""
        timeout = None
        if self.hangup_at is not None:
            timeout = self.hangup_at + HANGUP_GRACE - time.monotonic()
            if timeout <= 0:
                self._signal(signal.SIGKILL)
                self.hangup_at, timeout = None, None
        watched = [wake, self.status_fd] if self.listening else [wake]
        readable, _, _ = select.select(watched, [], [], timeout)
        if self.status_fd in readable:
            self._listen()
        if wake in readable:
            for signum in sorted(set(os.read(wake, 512))):
                self._arrived(signum)

    def _arrived(self, signum: int) -> None:
        if signum not in (*terminal.STOP_SIGNALS, signal.SIGTSTP):
            return
        if signum == signal.SIGINT and not self.reported:
            self.interrupted = True
            signum = signal.SIGTERM
        if signum == signal.SIGHUP and self.hangup_at is None:
            self.hangup_at = time.monotonic()
        self._signal(signum)

    def _signal(self, signum: int) -> None:
        with contextlib.suppress(ProcessLookupError):
            os.kill(self.pid, signum)

    def _listen(self) -> None:
        """Take what the child has reported; only the last whole line counts."""
        with contextlib.suppress(BlockingIOError):
            while data := os.read(self.status_fd, 65536):
                *whole, self.partial = (self.partial + data).split(b"\n")
                if whole:
                    self.reported = whole[-1]
            self.listening = False

    # --- stop and continue ----------------------------------------------------------------------------------

    def _stopped(self) -> None:
        """The child has stopped: give the terminal back as it was, stop too, and go on together."""
        self._put_right(dirty=self._changed())
        if signal.SIGTSTP in self.watched:
            # By default action and not SIGSTOP: without a shell to continue us the kernel lets it pass.
            signal.signal(signal.SIGTSTP, signal.SIG_DFL)
            os.kill(os.getpid(), signal.SIGTSTP)
            signal.signal(signal.SIGTSTP, _noted)
        deadline = time.monotonic() + _SELF_CONTINUED
        while time.monotonic() < deadline:
            self.change = self._poll()
            if self.change is not None:
                return
            time.sleep(0.002)
        self._signal(signal.SIGCONT)

    # --- the end --------------------------------------------------------------------------------------------

    def _end(self, status: int) -> int:
        self._listen()
        killed = os.WTERMSIG(status) if os.WIFSIGNALED(status) else 0
        self._put_right(dirty=killed != 0 or self._changed())
        reported = terminal.parse_status(self.reported)
        text = terminal.farewell(reported, program=self.program)
        if killed and not self.interrupted:
            text = f"durable-tui was killed ({terminal.signal_name(killed)}).\n{text}"
        if text:
            terminal.write_all(_OUT, b"\r" + text.encode(errors="replace"))
        if reported.get("ends"):
            from durable_tui.host.ends import tell_next_opening

            tell_next_opening(reported["ends"], status)
        code = 128 + killed if killed else os.WEXITSTATUS(status)
        return 128 + signal.SIGINT if self.interrupted and code == 128 + signal.SIGTERM else code

    def _changed(self) -> bool:
        """The child leaves its modes and the attributes together, so attributes as they were mean it has left."""
        return self.saved is not None and terminal.save() != self.saved

    def _put_right(self, *, dirty: bool) -> None:
        """From the background the terminal is another program's, and was put right when the child was stopped."""
        if dirty and terminal.in_foreground():
            terminal.restore(self.saved)
        for fd, blocking in enumerate(self.blocking):
            with contextlib.suppress(OSError):
                os.set_blocking(fd, blocking)


def _ignored(signum: int) -> bool:
    return signal.getsignal(signum) is signal.SIG_IGN


def _noted(signum: int, frame: object) -> None:
    """The wake-up descriptor has carried the number already."""
