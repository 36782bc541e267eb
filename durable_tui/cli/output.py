"""stdout for a machine or a pipe, stderr for a person (spec 20).

stdout carries what was asked for and nothing else: descriptor 1 is moved aside at the start, so that whatever else
writes there (an extension, a library, a warning) lands on stderr. Writing waits for the reader without blocking the
loop, and a reader that went away is noticed.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import select
import stat
import sys
import time
from collections.abc import Callable
from typing import Self

from durable_tui.ground.text import clean
from durable_tui.host.jsonlines import json_line

_PIECE = getattr(select, "PIPE_BUF", 512)  # a write of this size never blocks once the pipe is writable


class BrokenOutput(Exception):
    """stdout's reader went away."""


def note(text: str) -> None:
    """A line for the person, on stderr. A closed stderr is no reason to stop."""
    with contextlib.suppress(OSError, ValueError, AttributeError):
        sys.stderr.write(clean(text) + "\n")
        sys.stderr.flush()


class Output:
    """The real stdout of one command. Use as a context manager: it gives descriptor 1 back."""

    def __init__(self, *, json_lines: bool = False) -> None:
        self.json_lines = json_lines
        self.broken = False
        self._buffer = bytearray()
        self._lock = asyncio.Lock()
        self._fd = -1

    def __enter__(self) -> Self:
        # A closed descriptor would be handed to the next file opened, and stray prints would go into it.
        for fd in (0, 1, 2):
            try:
                os.fstat(fd)
            except OSError:
                os.open(os.devnull, os.O_RDWR)
        with contextlib.suppress(OSError, ValueError, AttributeError):
            sys.stdout.flush()
        self._fd = os.dup(1)
        os.dup2(2, 1)
        return self

    def __exit__(self, *_: object) -> None:
        with contextlib.suppress(OSError, ValueError, AttributeError):
            sys.stdout.flush()
        os.dup2(self._fd, 1)
        os.close(self._fd)
        self._fd = -1

    @property
    def is_terminal(self) -> bool:
        return os.isatty(self._fd)

    async def text(self, text: str) -> None:
        """Write text, without control sequences when a terminal reads it. Raises BrokenOutput."""
        await self._send((clean(text) if self.is_terminal else text).encode("utf-8", "replace"))

    async def event(self, value: object) -> None:
        """Write one JSON line, waiting for the reader. Raises BrokenOutput."""
        await self._send(json_line(value).encode("utf-8", "replace"))

    async def _send(self, data: bytes) -> None:
        self._buffer += data
        async with self._lock:
            while self._buffer:
                await self._writable()
                self._write_piece()

    def _write_piece(self) -> None:
        try:
            written = os.write(self._fd, self._buffer[:_PIECE])
        except BlockingIOError:
            return
        except BrokenPipeError:
            self.broken = True
            self._buffer.clear()
            raise BrokenOutput("stdout was closed by its reader") from None
        del self._buffer[:written]

    async def _writable(self) -> None:
        loop = asyncio.get_running_loop()
        ready: asyncio.Future[None] = loop.create_future()
        try:
            loop.add_writer(self._fd, _resolve, ready)
        except OSError:
            return  # a regular file: always writable, and not pollable
        try:
            await ready
        finally:
            loop.remove_writer(self._fd)

    def on_reader_gone(self, callback: Callable[[], None]) -> Callable[[], None]:
        """Call back once when the reading end of a pipe is closed, also while there is nothing to write."""
        loop = asyncio.get_running_loop()
        if not stat.S_ISFIFO(os.fstat(self._fd).st_mode):
            return lambda: None

        def gone() -> None:
            loop.remove_reader(self._fd)
            self.broken = True
            callback()

        # The writing end of a pipe is never readable; that it says so means its reader is gone.
        loop.add_reader(self._fd, gone)

        def stop() -> None:
            loop.remove_reader(self._fd)

        return stop

    def finish(self, text: str, timeout: float) -> None:
        """The last words, after what a stop cut off; gives up after `timeout` seconds, never raises."""
        if self.broken:
            return
        self._buffer += text.encode("utf-8", "replace")
        deadline = time.monotonic() + timeout
        with contextlib.suppress(OSError, ValueError, BrokenOutput):
            while self._buffer and time.monotonic() < deadline:
                if select.select([], [self._fd], [], max(0.0, deadline - time.monotonic()))[1]:
                    self._write_piece()


def _resolve(future: asyncio.Future[None]) -> None:
    if not future.done():
        future.set_result(None)
