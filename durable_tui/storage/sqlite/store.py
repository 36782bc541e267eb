"""The default store: one SQLite file, one connection on its own thread, one commit one job (spec 4)."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable
from typing import Literal, Self, TypeVar, get_args

from durable_tui.ground.clock import now_ms
from durable_tui.storage.addresses import next_free_id
from durable_tui.storage.errors import StorageRejected, StorageUncertain
from durable_tui.storage.minting import Minting
from durable_tui.storage.protocol import Durability
from durable_tui.storage.records import Batch, Liveness, OwnerRow
from durable_tui.storage.sqlite.commit import steps
from durable_tui.storage.sqlite.opening import Opening, take
from durable_tui.storage.sqlite.reads import SqliteReads
from durable_tui.storage.sqlite.thread import ConnectionThread

T = TypeVar("T")

# A log that grew by fewer commits than this is left for a later idle moment.
CHECKPOINT_COMMITS = 64


class SqliteStorage(Minting, SqliteReads[Opening]):
    """A session file and its ownership. Open with `SqliteStorage.open`; always `close()` it, in an outermost `finally`.

    A process that ends without `close()` still ends: its thread is a daemon; the kernel frees the lock then (never
    earlier), and the next opening finds an unclean end. `previous` is the former opening, if any.
    """

    def __init__(self, label: str, path: str, thread: ConnectionThread[Opening], opening: Opening) -> None:
        SqliteReads.__init__(self, label, path, thread, opening)
        Minting.__init__(self, opening.next_id, opening.next_seq)
        self._writer = opening.writer
        self._epoch = opening.owner.epoch
        self._stored_seq = opening.next_seq - 1
        self._unsure = False
        self._unchecked = 0
        self.previous: OwnerRow | None = opening.previous
        self.former_owner: Liveness = opening.former_owner

    @classmethod
    async def open(
        cls, path: str | os.PathLike[str], durability: Durability = "intents", *, create: bool = True
    ) -> Self:
        """Own the session file at `path`, made anew when there is none and `create` allows it.

        Raises SessionLocked, StorageNewer, StorageForeign, StorageDamaged, StorageRejected (no space for the opening)
        or StorageError; the file's bytes are then unchanged.
        """
        if durability not in get_args(Durability):
            raise ValueError(f"durability is intents, process or power, not {durability!r}")
        return await cls._connected(path, lambda real, label: take(real, label, durability, create))

    async def _leave(self) -> None:
        # After an unclean end nobody has told of the death yet, so the next opening must find it.
        clean = self.previous is None or self.previous.closed_at is not None
        await (self.close() if clean else self.abandon())

    @property
    def epoch(self) -> int:
        return self._epoch

    @property
    def read_only(self) -> Literal[False]:
        return False

    async def commit(self, batch: Batch) -> None:
        """Store the batch as one transaction, or raise StorageRejected, StorageUncertain or Fenced.

        Cancelling the caller does not interrupt it: the outcome is awaited, then CancelledError is raised, with a
        failure as its `__cause__` (none: the batch is stored).
        """
        if self._closing is not None:
            raise StorageRejected(f"{self._label} is closed")
        if not batch:
            return
        written = steps(batch)
        next_id = next_free_id(batch, self._next_id)
        writer = self._writer
        try:
            await self._thread.finish(lambda handle: writer.commit(handle.raw, batch, written, next_id))
        except StorageUncertain:
            self._unsure = True
            raise
        except asyncio.CancelledError as error:
            if error.__cause__ is None:
                self._stored(batch, next_id)
            self._unsure = self._unsure or isinstance(error.__cause__, StorageUncertain)
            raise
        self._stored(batch, next_id)

    def _stored(self, batch: Batch, next_id: int) -> None:
        self._pass(next_id, batch.seq)
        self._stored_seq = batch.seq
        self._unchecked += 1

    async def close(self) -> None:
        """Mark the opening closed in order (flushed), empty the log, release the store. Idempotent.

        Raises StorageRejected or StorageUncertain when the mark could not be written; the store is released all the
        same. After an uncertain commit there is no mark: that end is unclean (spec 15).
        """
        await self._release(self._thread.close if self._unsure else self._mark_and_close)

    async def abandon(self) -> None:
        """Release the store without the close mark, as a death would leave it."""
        await self._release(self._thread.close)

    async def _mark_and_close(self) -> None:
        writer = self._writer
        try:
            await self._thread.finish(lambda handle: writer.end_epoch(handle.raw, now_ms()))
        finally:
            await self._thread.close()

    async def checkpoint(self) -> None:
        """Move the log into the file, for idle moments: commits wait for it meanwhile. Often does nothing."""
        if self._closing is not None or self._unchecked < CHECKPOINT_COMMITS:
            return
        self._unchecked = 0
        writer = self._writer
        await self._thread.finish(lambda handle: writer.checkpoint(handle.raw, "PASSIVE"))

    async def poll_seq(self) -> int:
        return self._stored_seq

    async def _run(self, job: Callable[[Opening], T]) -> T:
        return await self._thread.run(job)
