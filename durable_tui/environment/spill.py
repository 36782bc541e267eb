"""Where the whole output of a command goes: into memory while it is small, then into a file of the session's folder."""

from __future__ import annotations

import asyncio
import os
from typing import BinaryIO

from durable_tui.environment.files import reason

KEEP_BYTES = 16 * 1024  # smaller output makes no file
KEEP_LINES = 500  # nor does output of fewer lines
STORE_BYTES = 4 << 30  # a file never grows beyond this


class Spill:
    """Takes output in pieces and holds at most KEEP_BYTES and one piece of it in memory.

    The file (mode 0600, its folder 0700) is made once the output exceeds either bound, so that whatever a tool cuts
    from its result is found there. Without a folder nothing is kept. A full disk ends the storing, not the command;
    `problem` says so then.
    """

    def __init__(self, folder: str | None, name: str) -> None:
        self._folder = folder
        self._name = name
        self._held: list[bytes] = []
        self._held_lines = 0
        self._file: BinaryIO | None = None
        self._stored = 0
        self.total = 0
        self.path: str | None = None
        self.problem: str | None = None

    async def write(self, piece: bytes) -> None:
        self.total += len(piece)
        if self._folder is None or self.problem is not None:
            return
        if self._file is None:
            self._held.append(piece)
            self._held_lines += piece.count(b"\n")
            if self.total <= KEEP_BYTES and self._held_lines <= KEEP_LINES:
                return
            piece = b"".join(self._held)
            self._held.clear()
        await asyncio.to_thread(self._store, piece)

    def _store(self, piece: bytes) -> None:
        try:
            if self._file is None:
                self._open()
            assert self._file is not None
            room = STORE_BYTES - self._stored
            self._file.write(piece[:room])
            self._stored += min(len(piece), room)
            if len(piece) > room:
                self.problem = f"only the first {STORE_BYTES} bytes were stored"
        except OSError as error:
            self.problem = f"the output could not be stored whole: {reason(error)}"

    def _open(self) -> None:
        assert self._folder is not None
        os.makedirs(self._folder, mode=0o700, exist_ok=True)
        path = os.path.join(self._folder, self._name)
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        self._file = os.fdopen(descriptor, "wb", buffering=0)
        self.path = path

    def close(self) -> None:
        self._held.clear()
        if self._file is not None:
            self._file.close()
            self._file = None
