"""Reading a session file that anyone may own (spec 4.2, 4.3)."""

from __future__ import annotations

import asyncio
import os
import sqlite3
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Literal, TypeVar

from durable_tui.ground.aio import uninterrupted
from durable_tui.storage.errors import StorageDamaged
from durable_tui.storage.sqlite.opening import Reading, follow
from durable_tui.storage.sqlite.reads import SqliteReads

T = TypeVar("T")


class SqliteReader(SqliteReads[Reading]):
    """A session file, read in short transactions while others write it. Open with `SqliteReader.open`; `close()` it."""

    @classmethod
    async def open(cls, path: str | os.PathLike[str]) -> SqliteReader:
        """Read the session file at `path`. Nothing of it is changed, migrated or tidied up.

        Raises StorageNewer, StorageForeign, StorageDamaged or StorageError.
        """
        return await cls._connected(path, follow)

    @property
    def read_only(self) -> Literal[True]:
        return True

    async def close(self) -> None:
        """Release the file. Idempotent."""
        await self._release(self._thread.close)

    async def _leave(self) -> None:
        await self.close()

    async def poll_seq(self) -> int:
        """Return the newest commit's seq, 0 when there is none. Cheap while nothing changes."""
        return await self._job(Reading.newest_seq)

    @asynccontextmanager
    async def snapshot(self) -> AsyncIterator[None]:
        """Every read inside sees the same commits, however many are made meanwhile. For short looks, one at a time.

        Raises SnapshotLost when the file was at rest and is written to now.
        """
        begun, cancelled = await uninterrupted(self._job(Reading.begin_snapshot))
        try:
            if cancelled:
                raise asyncio.CancelledError
            begun.result()
            yield
        finally:
            if not begun.cancelled() and begun.exception() is None:
                _, cancelled = await uninterrupted(self._job(Reading.end_snapshot))
                if cancelled:
                    raise asyncio.CancelledError

    async def _run(self, job: Callable[[Reading], T]) -> T:
        return await self._thread.run(lambda reading: _steady(reading, job))


def _steady(reading: Reading, job: Callable[[Reading], T]) -> T:
    """The job's result on a file that nobody wrote to meanwhile."""
    while True:
        if reading.moved():
            reading.renew()
        try:
            result = job(reading)
        except (sqlite3.DatabaseError, StorageDamaged, ValueError):
            if reading.moved():
                continue
            raise
        if not reading.moved():
            return result
