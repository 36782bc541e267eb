"""The commit line: one commit at a time, stored before it is seen (spec 3)."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Awaitable, Callable
from contextvars import ContextVar, Token
from dataclasses import dataclass
from types import TracebackType
from typing import Literal, TypeVar

from durable_tui.ground.aio import uninterrupted
from durable_tui.session.committed_state import CommittedState
from durable_tui.session.documents import DocumentChange, DocumentState
from durable_tui.session.session_errors import NestedCommit, SessionClosed, SessionPoisoned
from durable_tui.session.transaction import Transaction
from durable_tui.storage.errors import Fenced, StorageRejected
from durable_tui.storage.protocol import Owner
from durable_tui.storage.records import (
    Batch,
    ConversationRecord,
    EntryRecord,
    SubmissionRecord,
    TaskRecord,
)

log = logging.getLogger(__name__)

T = TypeVar("T")
SessionState = Literal["open", "poisoned", "fenced", "closed"]
Preparer = Callable[[Transaction], Awaitable[None]]


@dataclass(slots=True, frozen=True)
class Commit:
    """What one commit stored, as observers see it. `tasks` pairs each task as it was (None: new) with as it is."""

    seq: int
    at: int
    conversations: tuple[ConversationRecord, ...]
    entries: tuple[EntryRecord, ...]
    submissions: tuple[SubmissionRecord, ...]
    tasks: tuple[tuple[TaskRecord | None, TaskRecord], ...]
    documents: tuple[DocumentChange, ...]


Observer = Callable[[Commit], None]
_current: ContextVar[Transaction | None] = ContextVar("durable_tui_transaction", default=None)


class Session(CommittedState):
    """One opened store and its commit line. Open with `Session.open`; commits go through `commit()`."""

    def __init__(self, storage: Owner, *, now: Callable[[], int] | None = None) -> None:
        super().__init__(storage, now)
        self.state: SessionState = "open"
        self.reason: str | None = None
        self.preparers: list[Preparer] = []
        self.on_state: Callable[[], None] | None = None
        self.sealed = False
        self.closed_in_order = False
        self.on_rejected: Callable[[StorageRejected], None] | None = None
        self._observers: list[Observer] = []
        self._line = asyncio.Lock()

    @classmethod
    async def open(cls, storage: Owner, *, now: Callable[[], int] | None = None) -> Session:
        """Load what lives in memory: the live tasks and the conversations. Starts and writes nothing."""
        session = cls(storage, now=now)
        after = 0
        while page := await storage.conversations(after=after):
            session.conversations.update((record["id"], record) for record in page)
            after = page[-1]["id"]
        session.tasks = {task["id"]: task for task in await storage.live_tasks()}
        for task_id in session.tasks:
            for stored in await storage.documents({"kind": "task", "taskId": task_id}):
                address = (stored.record["kind"], "task", task_id, stored.record.get("key"))
                session.task_documents.setdefault(task_id, set()).add(address)
        for row in await storage.commits(reverse=True, limit=1):
            session.seq, session.at = row.seq, row.at
        return session

    # -- the line ------------------------------------------------------------------------------------------------

    def commit(self, *, flush: bool = True, closing: bool = False) -> CommitScope:
        """`async with session.commit() as tx:` runs the body alone and stores what it wrote as one transaction.

        Raises NestedCommit inside another commit's body, SessionPoisoned, SessionClosed or Fenced when the session is
        no longer open, StorageRejected when nothing took effect. `flush=False` for what may be lost with the power
        (spec 4.1), `closing=True` for what the close itself stores: admitted although the session is sealed.
        """
        return CommitScope(self, flush, closing)

    def check_open(self) -> None:
        """Raise when the session no longer admits commits, with the reason."""
        self.check_state()
        if self.sealed:
            raise SessionClosed("the session is being closed")

    def seal(self) -> None:
        """Admit no more commits; those that wait for the line still get their turn (spec 13)."""
        self.sealed = True

    def check_state(self) -> None:
        """Raise when nothing can be stored any more, with the reason."""
        if self.state == "poisoned":
            raise SessionPoisoned(f"the session is poisoned ({self.reason}); close it and open it again")
        if self.state == "fenced":
            raise Fenced(self.reason or "another process owns this session now")
        if self.state == "closed":
            raise SessionClosed("the session is closed")

    def observe(self, observer: Observer) -> Callable[[], None]:
        """Call `observer` synchronously with every commit, on the line; returns how to stop that."""
        self._observers.append(observer)

        def stop() -> None:
            if observer in self._observers:
                self._observers.remove(observer)

        return stop

    async def close(self) -> None:
        """Let the commit in flight settle, then close the store in order. Idempotent."""
        if self.state == "closed":
            return
        async with self._line:
            clean = self.state == "open"
            self.state = "closed"
            self._changed_state()
            if clean:
                await self.storage.close()
                self.closed_in_order = True
            else:
                await self.storage.abandon()

    async def finish(self, tx: Transaction) -> None:
        """Seal, store, adopt, let observers capture (spec 3.2). Called by CommitScope, on the line."""
        try:
            tx.end_body()
            for prepare in self.preparers:
                await prepare(tx)
            batch, changes = tx.seal()
        except BaseException:
            tx.drop()
            raise
        if batch is None:
            return
        cancelled = await self._store(batch)
        try:
            commit = self._adopt(tx, batch, changes)
        except Exception as error:  # re-raised
            self._fail("poisoned", f"taking over a stored commit failed: {error}")
            raise
        for observer in list(self._observers):
            try:
                observer(commit)
            except Exception:
                log.exception("a commit observer failed")
        if cancelled:
            raise asyncio.CancelledError

    async def _store(self, batch: Batch) -> bool:
        """Hand the batch over; True when the caller was cancelled meanwhile and the batch stands (spec 3.5)."""
        try:
            await self.storage.commit(batch)
            return False
        except asyncio.CancelledError as cancelled:
            if not isinstance(cancelled.__cause__, Exception):
                checking, _ = await uninterrupted(self._is_stored(batch.seq))
                error = checking.exception()
                if error is None and checking.result():
                    return True
                if error is None:
                    raise
            else:
                error = cancelled.__cause__
        except Exception as raised:  # noqa: BLE001 - judged and raised again below
            error = raised
        if isinstance(error, Fenced):
            self._fail("fenced", str(error))
        elif not isinstance(error, StorageRejected):
            self._fail("poisoned", str(error) or type(error).__name__)
        elif self.on_rejected is not None:
            self.on_rejected(error)
        raise error

    async def _is_stored(self, seq: int) -> bool:
        rows = await self.storage.commits(reverse=True, limit=1)
        return bool(rows) and rows[0].seq == seq

    def _fail(self, state: Literal["poisoned", "fenced"], reason: str) -> None:
        self.state = state
        self.reason = reason
        self._changed_state()

    def _changed_state(self) -> None:
        if self.on_state is not None:
            self.on_state()

    def _adopt(
        self, tx: Transaction, batch: Batch, changes: list[tuple[DocumentChange, DocumentState | None]]
    ) -> Commit:
        self.seq, self.at = batch.seq, batch.at
        self.conversations.update(tx.conversations)
        pairs: list[tuple[TaskRecord | None, TaskRecord]] = []
        for task_id, task in tx.tasks.items():
            pairs.append((self.tasks.get(task_id), task))
            if task["state"]["status"] == "terminal":
                self.tasks.pop(task_id, None)
            else:
                self.tasks[task_id] = task
        for submission_id, submission in tx.submissions.items():
            if submission["status"] in ("queued", "placed"):
                self.submissions[submission_id] = submission
            else:
                self.submissions.pop(submission_id, None)
        for change, state in changes:
            _, scope_kind, owner_id, _ = change.address
            if scope_kind == "task" and change.created:
                self.task_documents.setdefault(owner_id, set()).add(change.address)
            if state is None:
                self._documents.pop(change.address, None)
                self._absent.add(change.address)
            else:
                self._documents[change.address] = state
                self._absent.discard(change.address)
        return Commit(
            batch.seq,
            batch.at,
            tuple(batch.conversations),
            tuple(batch.entries),
            tuple(batch.submissions),
            tuple(pairs),
            tuple(change for change, _ in changes),
        )


class CommitScope:
    """The `async with` of one commit."""

    __slots__ = ("_closing", "_flush", "_session", "_token", "_tx")

    def __init__(self, session: Session, flush: bool, closing: bool) -> None:
        self._session = session
        self._flush = flush
        self._closing = closing
        self._tx: Transaction | None = None
        self._token: Token[Transaction | None] | None = None

    async def __aenter__(self) -> Transaction:
        outer = _current.get()
        if outer is not None and not outer.closed and outer.session is self._session:
            raise NestedCommit("a commit was begun inside another commit's body; it would wait for itself")
        if not self._closing:
            self._session.check_open()
        await self._session._line.acquire()
        try:
            self._session.check_state()
            self._tx = Transaction(self._session, flush=self._flush)
            self._token = _current.set(self._tx)
        except BaseException:
            self._session._line.release()
            raise
        return self._tx

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self._tx is not None and self._token is not None
        try:
            with contextlib.suppress(ValueError):  # a generator may be closed in another context than it ran in
                _current.reset(self._token)
            if error is not None:
                self._tx.drop()
            else:
                await self._session.finish(self._tx)
        finally:
            self._session._line.release()


__all__ = ["Commit", "CommitScope", "Observer", "Session"]
