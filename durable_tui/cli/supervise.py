"""One headless command from start to exit status: signals, time limit, broken pipe, the last line, and a sure end."""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import sys
import threading
from collections.abc import Awaitable, Callable
from types import FrameType

from durable_tui.cli.output import BrokenOutput, Output, note
from durable_tui.cli.status import SIGNALS, Exit, Status, exit_for
from durable_tui.host.jsonlines import json_line

GRACE = 2.4  # seconds for closing in order once a stop was asked for; then the process ends, resumable as after a kill
LAST_WORDS = 0.5  # seconds for a slow reader to take the last line

log = logging.getLogger(__name__)


class _Early(BaseException):
    """A stop signal before there was a loop to tell."""


class Supervisor:
    """Runs a command's coroutine; the first reason to stop cancels it, and it closes its session on the way out."""

    def __init__(self, output: Output, timeout: float | None = None, *, one_value: bool = False) -> None:
        self.output = output
        self._one_value = one_value  # the JSON is one value, and an `exit` line comes only instead of it
        self._timeout = timeout
        self._stop: Exit | None = None
        self._task: asyncio.Task[Exit] | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._guard: threading.Timer | None = None
        self._told = False  # the last line is written, or waits for its reader

    def run(self, command: Callable[[], Awaitable[Exit]]) -> Exit:
        """The command's exit, or the exit of what stopped it. Never raises for what a user can cause."""
        former = {}
        for number in SIGNALS:
            # One that is ignored at the start (nohup, a shell's background) stays ignored.
            if signal.getsignal(number) is not signal.SIG_IGN:
                former[number] = signal.signal(number, self._on_signal)
        try:
            ended = self._run(command)
            self._last_line(ended)
            return ended
        finally:
            if self._guard is not None:
                self._guard.cancel()
            for number, handler in former.items():
                signal.signal(number, handler)

    def _run(self, command: Callable[[], Awaitable[Exit]]) -> Exit:
        try:
            with asyncio.Runner() as runner:
                try:
                    ended = runner.run(self._main(command))
                except SystemExit as error:
                    # Code of an extension asked to end the program; the session was closed on the way.
                    ended = self._stop or Exit(
                        Status.UNANSWERED, "exit", f"an extension ended the program with status {error.code}"
                    )
                # Threads that code of others left behind must not keep the process.
                self._watch_the_end(ended)
        except _Early:
            assert self._stop is not None
            ended = self._stop
        if ended.message and ended.status not in (Status.ANSWERED, Status.BROKEN_PIPE):
            note(f"durable-tui: {ended.message}")
        return ended

    async def _main(self, command: Callable[[], Awaitable[Exit]]) -> Exit:
        loop = asyncio.get_running_loop()
        self._loop = loop
        self._task = asyncio.ensure_future(self._run_command(command))
        if self._stop is not None:
            self._task.cancel()
        if self._timeout is not None:
            text = f"stopped after {self._timeout:g} s (--timeout); closed in order, the work can be resumed"
            loop.call_later(self._timeout, self.stop, Exit(Status.TIMEOUT, "timeout", text))
        unwatch = self.output.on_reader_gone(lambda: self.stop(_BROKEN))
        try:
            return await self._task
        except asyncio.CancelledError:
            if self._stop is None or not self._task.cancelled():
                raise
            return self._stop
        finally:
            unwatch()
            self._loop = None

    async def _run_command(self, command: Callable[[], Awaitable[Exit]]) -> Exit:
        ended = await self._attempt(command)
        if self._stop is None and self._has_last_line(ended):
            self._told = True
            try:
                await self.output.event(ended.event())  # however long its reader takes
            except BrokenOutput:
                return _BROKEN
        return ended

    async def _attempt(self, command: Callable[[], Awaitable[Exit]]) -> Exit:
        try:
            return await command()
        except BrokenOutput:
            return _BROKEN
        except Exception as error:
            if self._stop is not None:
                log.warning("while closing: %s", error)
                return self._stop
            known = exit_for(error)
            if known is None:
                log.exception("a defect of the program")
                text = f"internal error, {type(error).__name__}: {error}; the log has the details"
                known = Exit(Status.UNANSWERED, "defect", text)
            return known

    def stop(self, ended: Exit) -> None:
        """Ask for an orderly end; the first reason counts."""
        if self._stop is not None:
            return
        self._stop = ended
        self._watch_the_end(ended)
        if self._task is not None:
            self._task.cancel()

    def _on_signal(self, number: int, _frame: FrameType | None) -> None:
        name = signal.Signals(number).name
        ended = Exit(SIGNALS[number], name, f"{name}: closed in order, the work can be resumed")
        if self._loop is not None:
            # The guard starts here and not in the loop, which may be held up by code of others.
            self._watch_the_end(ended)
            self._loop.call_soon_threadsafe(self.stop, ended)
        elif self._stop is None and self._task is None:
            self._stop = ended
            raise _Early

    def _watch_the_end(self, ended: Exit) -> None:
        if self._guard is None:
            self._guard = threading.Timer(GRACE, self._end_now, [ended])
            self._guard.daemon = True
            self._guard.start()

    def _end_now(self, ended: Exit) -> None:
        self._last_line(ended)
        os._exit(int(ended.status))

    def _last_line(self, ended: Exit) -> None:
        wanted = self._has_last_line(ended) and not self._told
        self.output.finish(json_line(ended.event()) if wanted else "", LAST_WORDS)

    def _has_last_line(self, ended: Exit) -> bool:
        return self.output.json_lines and not (self._one_value and ended.status is Status.ANSWERED)


_BROKEN = Exit(Status.BROKEN_PIPE, "broken_pipe", "stdout was closed by its reader; closed in order, resumable")


def quiet_interpreter_exit() -> None:
    """A stdout or stderr that went away must not become a traceback when the interpreter flushes them at its end."""
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except (OSError, ValueError, AttributeError):
            devnull = os.open(os.devnull, os.O_WRONLY)
            os.dup2(devnull, 1 if stream is sys.stdout else 2)
            os.close(devnull)
