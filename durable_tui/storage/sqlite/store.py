"""The default store: one SQLite file, one connection on its own thread, one commit one job (spec 4)."""

from __future__ import annotations

import asyncio
import contextlib
import os
import sqlite3
from collections.abc import Callable
from typing import Any, TypeVar

from durable_tui.ground.clock import now_ms
from durable_tui.storage.addresses import next_free_id
from durable_tui.storage.errors import StorageDamaged, StorageError, StorageRejected, StorageUncertain
from durable_tui.storage.records import (
    Batch,
    CommitRow,
    ConversationRecord,
    EntryRecord,
    OwnerRow,
    Scope,
    StoredDocument,
    StoredEntry,
    SubmissionRecord,
    TaskRecord,
)
from durable_tui.storage.sqlite import queries
from durable_tui.storage.sqlite.commit import Durability, steps
from durable_tui.storage.sqlite.inspection import explain, resolve
from durable_tui.storage.sqlite.lock import sibling
from durable_tui.storage.sqlite.opening import Opening, Reading, follow, take
from durable_tui.storage.sqlite.thread import Door, Handle

T = TypeVar("T")

# A log that grew by fewer commits than this is left for a later idle moment.
CHECKPOINT_COMMITS = 64


class SqliteStorage:
    """One session file. Open with `SqliteStorage.open`; always `close()` it, in a `finally` at the outermost level.

    A process that ends without `close()` still ends: its thread is a daemon; the kernel frees the lock then (never
    earlier), and the next opening finds an unclean end. `previous` is the former opening, if any; `former_owner_dead`
    whether its process provably ended on this host (spec 4.2); `warnings` what a person should know about this
    opening, as sentences.
    """

    def __init__(self, label: str, path: str, door: Door, opened: Opening | Reading) -> None:
        self._label = label
        self._path = path
        self._door = door
        self._closing: asyncio.Task[None] | None = None
        self._unsure = False
        self._unchecked = 0
        self.warnings: list[str] = opened.warnings
        self.previous: OwnerRow | None = None
        self.former_owner_dead = False
        self._epoch = 0
        self._next_id = self._next_seq = 1
        self._stored_seq = 0
        self._opening: Opening | None = None
        if isinstance(opened, Opening):
            self._opening = opened
            self._epoch = opened.owner.epoch
            self._next_id, self._next_seq = opened.next_id, opened.next_seq
            self._stored_seq = opened.next_seq - 1
            self.previous, self.former_owner_dead = opened.previous, opened.former_owner_dead

    @classmethod
    async def open(
        cls,
        path: str | os.PathLike[str],
        durability: Durability = "intents",
        *,
        read_only: bool = False,
        create: bool = True,
    ) -> SqliteStorage:
        """Own the session file at `path` (made anew when there is none), or read it while anyone owns it.

        Raises SessionLocked, StorageNewer, StorageForeign, StorageDamaged, StorageRejected (no space for the opening)
        or StorageError; the file's bytes are then unchanged.
        """
        if durability not in ("intents", "process", "power"):
            raise ValueError(f"durability is intents, process or power, not {durability!r}")
        label, real = os.path.abspath(os.fspath(path)), resolve(path)
        opened: list[Opening | Reading] = []

        def connect() -> Handle:
            opened.append(follow(real, label) if read_only else take(real, label, durability, create))
            return opened[0]

        door = Door(connect)
        opening = asyncio.ensure_future(door.open())
        try:
            await _settled(opening)
        except asyncio.CancelledError:
            if not opening.cancelled() and opening.exception() is None:
                storage = cls(label, real, door, opened[0])
                # After an unclean end nobody has told of the death yet, so the next opening must find it.
                clean = storage.previous is None or storage.previous.closed_at is not None
                with contextlib.suppress(StorageError):  # the store is released all the same
                    await (storage.close() if clean else storage.abandon())
            raise
        return cls(label, real, door, opened[0])

    # -- the opening ---------------------------------------------------------------------------------------------

    @property
    def epoch(self) -> int:
        """The number of this opening; 0 when read-only."""
        return self._epoch

    @property
    def read_only(self) -> bool:
        return self._opening is None

    @property
    def label(self) -> str:
        return self._label

    @property
    def files(self) -> str | None:
        """The folder `NAME.files` beside the file; whoever writes there makes it."""
        return sibling(self._path, ".files")

    def mint_id(self) -> int:
        minted = self._next_id
        self._next_id += 1
        return minted

    def mint_seq(self) -> int:
        minted = self._next_seq
        self._next_seq += 1
        return minted

    async def commit(self, batch: Batch) -> None:
        """Store the batch as one transaction, or raise StorageRejected, StorageUncertain or Fenced.

        Cancelling the caller does not interrupt it: the outcome is awaited, then CancelledError is raised, with a
        failure as its `__cause__` (none: the batch is stored).
        """
        opening = self._opening
        if opening is None:
            raise StorageRejected(f"{self._label} is open read-only")
        if self._closing is not None:
            raise StorageRejected(f"{self._label} is closed")
        if not batch:
            return
        written = steps(batch)
        next_id = next_free_id(batch, self._next_id)
        writer = opening.writer
        try:
            await self._door.finish(lambda handle: writer.commit(handle.raw, batch, written, next_id))
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
        self._next_id = max(self._next_id, next_id)
        self._next_seq = max(self._next_seq, batch.seq + 1)
        self._stored_seq = batch.seq
        self._unchecked += 1

    async def close(self) -> None:
        """Mark the opening closed in order (flushed), empty the log, release the store. Idempotent.

        Raises StorageRejected or StorageUncertain when the mark could not be written; the store is released all the
        same. After an uncertain commit there is no mark: that end is unclean (spec 15).
        """
        await self._end(mark=not self._unsure)

    async def abandon(self) -> None:
        """Release the store without the close mark, as a death would leave it."""
        await self._end(mark=False)

    async def _end(self, mark: bool) -> None:
        if self._closing is None:
            self._closing = asyncio.ensure_future(self._release(mark))
        await _settled(self._closing)

    async def _release(self, mark: bool) -> None:
        opening = self._opening
        try:
            if opening is not None and mark:
                await self._door.finish(lambda handle: opening.writer.end_epoch(handle.raw, now_ms()))
        finally:
            await self._door.close()

    async def checkpoint(self) -> None:
        """Move the log into the file, for idle moments: commits wait for it meanwhile. Often does nothing."""
        opening = self._opening
        if opening is None or self._closing is not None or self._unchecked < CHECKPOINT_COMMITS:
            return
        self._unchecked = 0
        await self._door.finish(lambda handle: opening.writer.checkpoint(handle.raw, "PASSIVE"))

    async def poll_seq(self) -> int:
        """The newest commit's seq, 0 when there is none. Cheap: for following another process's session."""
        if self._opening is not None:
            return self._stored_seq
        return await self._follow(lambda reading: reading.newest_seq())

    # -- reads ---------------------------------------------------------------------------------------------------

    async def _read(self, query: Callable[..., T], *values: Any) -> T:
        return await self._follow(lambda handle: query(handle.raw, *values))

    async def _follow(self, job: Callable[[Any], T]) -> T:
        if self._closing is not None:
            raise StorageError(f"{self._label} is closed")
        try:
            if self._opening is not None:
                return await self._door.run(job)
            return await self._door.run(lambda handle: _steady(handle, job))
        except sqlite3.Error as error:
            raise explain(error, self._label) from error
        except FileNotFoundError:
            raise StorageError(f"{self._label} is gone") from None
        except ValueError as error:
            raise StorageDamaged(f"{self._label} holds a record that is not JSON ({error})") from error

    async def conversation(self, conversation_id: int) -> ConversationRecord | None:
        return await self._read(queries.one, "conversations", conversation_id)

    async def conversations(self, *, after: int = 0, limit: int = 1000) -> list[ConversationRecord]:
        return await self._read(queries.page, "conversations", None, after, limit)

    async def entry(self, entry_id: int) -> StoredEntry | None:
        return await self._read(queries.entry, entry_id)

    async def entries(
        self,
        conversation_id: int,
        *,
        after: int = 0,
        before: int | None = None,
        limit: int = 1000,
        reverse: bool = False,
    ) -> list[StoredEntry]:
        return await self._read(queries.entries, conversation_id, after, before, limit, reverse)

    async def newest_head(self, conversation_id: int, *, upto: int | None = None) -> EntryRecord | None:
        return await self._read(queries.newest_head, conversation_id, upto)

    async def submission(self, submission_id: int) -> SubmissionRecord | None:
        return await self._read(queries.one, "submissions", submission_id)

    async def submission_by_request(self, conversation_id: int, request_id: str) -> SubmissionRecord | None:
        return await self._read(queries.submission_by_request, conversation_id, request_id)

    async def submissions(
        self, conversation_id: int | None = None, *, status: str | None = None, after: int = 0, limit: int = 1000
    ) -> list[SubmissionRecord]:
        return await self._read(queries.submissions, conversation_id, status, after, limit)

    async def task(self, task_id: int) -> TaskRecord | None:
        return await self._read(queries.one, "tasks", task_id)

    async def tasks(self, conversation_id: int | None = None, *, after: int = 0, limit: int = 1000) -> list[TaskRecord]:
        return await self._read(queries.page, "tasks", conversation_id, after, limit)

    async def live_tasks(self) -> list[TaskRecord]:
        return await self._read(queries.live_tasks)

    async def document(self, kind: str, scope: Scope, key: str | None = None) -> StoredDocument | None:
        return await self._read(queries.document, kind, scope, key)

    async def documents(self, scope: Scope) -> list[StoredDocument]:
        return await self._read(queries.documents, scope)

    async def document_as_of(self, document_id: int, seq: int) -> StoredDocument | None:
        """A document as it stood after commit `seq`; None when it was not there, or its revisions are dropped."""
        return await self._read(queries.document_as_of, document_id, seq)

    async def commits(
        self, *, after: int = 0, before: int | None = None, limit: int = 1000, reverse: bool = False
    ) -> list[CommitRow]:
        return await self._read(queries.commits, after, before, limit, reverse)

    async def owners(self, *, limit: int = 200) -> list[OwnerRow]:
        return await self._read(queries.owners, limit)


def _steady(handle: Handle, job: Callable[[Any], T]) -> T:
    """The job's result on a file that nobody wrote to meanwhile."""
    assert isinstance(handle, Reading)
    while True:
        if handle.moved():
            handle.renew()
        try:
            result = job(handle)
        except (sqlite3.DatabaseError, StorageDamaged, ValueError):
            if handle.moved():
                continue
            raise
        if not handle.moved():
            return result


async def _settled(task: asyncio.Task[None]) -> None:
    """Await `task` however often the caller is cancelled; then the cancellation goes on."""
    cancelled: asyncio.CancelledError | None = None
    while not task.done():
        try:
            await asyncio.wait({task})
        except asyncio.CancelledError as error:
            cancelled = cancelled or error
    if cancelled is not None:
        raise cancelled
    task.result()


__all__ = ["Durability", "SqliteStorage"]
