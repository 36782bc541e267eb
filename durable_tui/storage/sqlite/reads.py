"""The reads of a session file, the same for its owner and for those who only read (spec 4)."""

from __future__ import annotations

import asyncio
import contextlib
import os
import sqlite3
from abc import ABC, abstractmethod
from collections.abc import Callable, Coroutine
from typing import Concatenate, Generic, ParamSpec, Self, TypeVar

from durable_tui.ground.aio import uninterrupted
from durable_tui.storage.errors import StorageDamaged, StorageError
from durable_tui.storage.records import (
    CommitRow,
    ConversationRecord,
    EntryRecord,
    FlightRow,
    OwnerRow,
    Scope,
    StoredDocument,
    StoredEntry,
    StoredRevision,
    SubmissionRecord,
    TaskRecord,
)
from durable_tui.storage.sqlite import queries
from durable_tui.storage.sqlite.inspection import explain
from durable_tui.storage.sqlite.lock import resolve, sibling
from durable_tui.storage.sqlite.thread import ConnectionThread, Handle

H = TypeVar("H", bound=Handle)
T = TypeVar("T")
P = ParamSpec("P")


class SqliteReads(ABC, Generic[H]):
    """One session file with a connection of its own."""

    def __init__(self, label: str, path: str, thread: ConnectionThread[H], handle: H) -> None:
        self._label = label
        self._path = path
        self._thread = thread
        self._closing: asyncio.Task[None] | None = None
        self.warnings = handle.warnings

    @classmethod
    async def _connected(cls, path: str | os.PathLike[str], connect: Callable[[str, str], H]) -> Self:
        """Open with `connect(resolved path, label)`; a caller cancelled meanwhile leaves nothing open."""
        label, real = os.path.abspath(os.fspath(path)), resolve(path)
        thread = ConnectionThread(lambda: connect(real, label))
        opening, cancelled = await uninterrupted(thread.open())
        if cancelled:
            if not opening.cancelled() and opening.exception() is None:
                with contextlib.suppress(StorageError):  # the store is released all the same
                    await cls(label, real, thread, opening.result())._leave()
            raise asyncio.CancelledError
        return cls(label, real, thread, opening.result())

    @abstractmethod
    async def _leave(self) -> None:
        """Release an opening that nobody has seen."""

    @property
    def label(self) -> str:
        return self._label

    @property
    def files(self) -> str | None:
        """The folder `NAME.files` beside the file; whoever writes there makes it."""
        return sibling(self._path, ".files")

    @abstractmethod
    async def _run(self, job: Callable[[H], T]) -> T:
        """The job's result on the connection's thread; raises what SQLite raises."""

    async def _job(self, job: Callable[[H], T]) -> T:
        """As `_run`; raises StorageError."""
        if self._closing is not None:
            raise StorageError(f"{self._label} is closed")
        try:
            return await self._run(job)
        except sqlite3.Error as error:
            raise explain(error, self._label) from error
        except FileNotFoundError:
            raise StorageError(f"{self._label} is gone") from None
        except ValueError as error:
            raise StorageDamaged(f"{self._label} holds a record that is not JSON ({error})") from error

    async def _read(
        self, query: Callable[Concatenate[sqlite3.Connection, P], T], *values: P.args, **named: P.kwargs
    ) -> T:
        return await self._job(lambda handle: query(handle.raw, *values, **named))

    async def _release(self, closing: Callable[[], Coroutine[object, object, None]]) -> None:
        """Run `closing` once, whoever asks and however often the caller is cancelled."""
        if self._closing is None:
            self._closing = asyncio.ensure_future(closing())
        _, cancelled = await uninterrupted(self._closing)
        if cancelled:
            raise asyncio.CancelledError
        self._closing.result()

    async def conversation(self, conversation_id: int) -> ConversationRecord | None:
        return await self._read(queries.one, queries.CONVERSATIONS, conversation_id)

    async def conversations(self, *, after: int = 0, limit: int = 1000) -> list[ConversationRecord]:
        return await self._read(queries.page, queries.CONVERSATIONS, None, after, limit)

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
        return await self._read(queries.one, queries.SUBMISSIONS, submission_id)

    async def submission_by_request(self, conversation_id: int, request_id: str) -> SubmissionRecord | None:
        return await self._read(queries.submission_by_request, conversation_id, request_id)

    async def submissions(
        self, conversation_id: int | None = None, *, status: str | None = None, after: int = 0, limit: int = 1000
    ) -> list[SubmissionRecord]:
        return await self._read(queries.submissions, conversation_id, status, after, limit)

    async def task(self, task_id: int) -> TaskRecord | None:
        return await self._read(queries.one, queries.TASKS, task_id)

    async def tasks(self, conversation_id: int | None = None, *, after: int = 0, limit: int = 1000) -> list[TaskRecord]:
        return await self._read(queries.page, queries.TASKS, conversation_id, after, limit)

    async def live_tasks(self) -> list[TaskRecord]:
        return await self._read(queries.live_tasks)

    async def least_wake(self) -> int | None:
        return await self._read(queries.least_wake)

    async def document(self, kind: str, scope: Scope, key: str | None = None) -> StoredDocument | None:
        return await self._read(queries.document, kind, scope, key)

    async def documents(self, scope: Scope) -> list[StoredDocument]:
        return await self._read(queries.documents, scope)

    async def document_as_of(self, document_id: int, seq: int) -> StoredDocument | None:
        """A document as it stood after commit `seq`; None when it was not there, or its revisions are dropped."""
        return await self._read(queries.document_as_of, document_id, seq)

    async def documents_as_of(self, scope: Scope, seq: int) -> list[StoredDocument]:
        return await self._read(queries.documents_as_of, scope, seq)

    async def revisions(self, document_id: int, *, bases: int = 1) -> list[StoredRevision]:
        return await self._read(queries.revisions, document_id, bases)

    async def flight(self, epoch: int) -> list[FlightRow]:
        return await self._read(queries.flight, epoch)

    async def commits(
        self, *, after: int = 0, before: int | None = None, limit: int = 1000, reverse: bool = False
    ) -> list[CommitRow]:
        return await self._read(queries.commits, after, before, limit, reverse)

    async def owners(self, *, limit: int = 200) -> list[OwnerRow]:
        return await self._read(queries.owners, limit)
