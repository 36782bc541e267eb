"""The reference store: everything in memory, as JSON text, so that reads are detached (spec 4)."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import Any

from durable_tui.delta import clean_text, loads
from durable_tui.ground.clock import now_ms
from durable_tui.storage.addresses import address_of, next_free_id, unretired
from durable_tui.storage.errors import Fenced, StorageDamaged, StorageError, StorageRejected
from durable_tui.storage.identity import this_owner
from durable_tui.storage.memory.tables import MemoryState
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


class MemoryStorage:
    """A store that lives as long as its process. Reference semantics for every backend.

    `record=True` keeps the committed batches in `log`. `crash()` and `from_batches()` make stores as a death would
    leave them. `previous` is the former opening, if any; `former_owner_dead` whether it provably ended (spec 4.2).
    """

    def __init__(self, *, record: bool = False) -> None:
        self._open(MemoryState(), record=record, former_owner_dead=True)

    def _open(self, state: MemoryState, *, record: bool, former_owner_dead: bool) -> None:
        self._state = state
        self._recording = record
        self._closed = False
        self.log: list[Batch] = []
        self.warnings: list[str] = []
        self.previous: OwnerRow | None = state.owners[-1] if state.owners else None
        self.former_owner_dead = former_owner_dead
        self._epoch = self.previous.epoch + 1 if self.previous else 1
        self._next_id, self._next_seq = state.next_id, state.next_seq
        state.owners.append(this_owner(self._epoch, now_ms()))

    @classmethod
    def from_batches(
        cls,
        batches: Iterable[Batch],
        *,
        owners: Sequence[OwnerRow] | None = None,
        record: bool = False,
        former_owner_dead: bool = True,
    ) -> MemoryStorage:
        """A fresh opening of a store that holds exactly `batches` and whose process died.

        `owners` are the openings so far; without them there is one, not closed, that wrote everything.
        """
        state = MemoryState()
        held = list(batches)
        state.owners.extend(owners or [this_owner(1, held[0].at if held else now_ms())])
        for batch in held:
            state.apply(state.check(batch), state.owners[-1].epoch, next_free_id(batch, state.next_id))
        storage = cls.__new__(cls)
        storage._open(state, record=record, former_owner_dead=former_owner_dead)
        return storage

    def crash(self, *, record: bool | None = None, former_owner_dead: bool = True) -> MemoryStorage:
        """A new opening of the same data, as after a death (or after `close()`); this object is fenced from now on."""
        storage = type(self).__new__(type(self))
        recording = self._recording if record is None else record
        storage._open(self._state, record=recording, former_owner_dead=former_owner_dead)
        return storage

    # -- the opening ---------------------------------------------------------------------------------------------

    @property
    def epoch(self) -> int:
        return self._epoch

    @property
    def read_only(self) -> bool:
        return False

    @property
    def label(self) -> str:
        return "memory"

    @property
    def files(self) -> str | None:
        return None

    def mint_id(self) -> int:
        minted = self._next_id
        self._next_id += 1
        return minted

    def mint_seq(self) -> int:
        minted = self._next_seq
        self._next_seq += 1
        return minted

    async def commit(self, batch: Batch) -> None:
        """Store the batch, or raise StorageRejected or Fenced. Never waits, so it cannot be cancelled half way."""
        if self._closed:
            raise StorageRejected("the store is closed")
        if self._state.owners[-1].epoch != self._epoch:
            raise Fenced("another opening of this store took over; this one can no longer write")
        if not batch:
            return
        checked = self._state.check(batch)
        self._next_id = next_free_id(batch, self._next_id)
        self._next_seq = max(self._next_seq, batch.seq + 1)
        self._state.apply(checked, self._epoch, self._next_id)
        if self._recording:
            self.log.append(_copied(batch))

    async def close(self) -> None:
        """Mark this opening closed in order. Idempotent; a fenced opening leaves the newer one alone."""
        owners = self._state.owners
        if not self._closed and owners[-1].epoch == self._epoch:
            owners[-1] = replace(owners[-1], closed_at=now_ms())
        self._closed = True

    async def abandon(self) -> None:
        """End this opening without the close mark."""
        self._closed = True

    async def checkpoint(self) -> None:
        """Nothing to do in memory; for idle times of other backends."""

    async def poll_seq(self) -> int:
        """The newest commit's seq, 0 when there is none."""
        return self._state.commits[-1].seq if self._state.commits else 0

    # -- reads ---------------------------------------------------------------------------------------------------

    def _reading(self) -> MemoryState:
        if self._closed:
            raise StorageError("the store is closed")
        return self._state

    async def conversation(self, conversation_id: int) -> ConversationRecord | None:
        found = self._reading().conversations.get(conversation_id)
        return None if found is None else loads(found)

    async def conversations(self, *, after: int = 0, limit: int = 1000) -> list[ConversationRecord]:
        state = self._reading()
        return [loads(state.conversations[i]) for i in _page(sorted(state.conversations), after, None, limit)]

    async def entry(self, entry_id: int) -> StoredEntry | None:
        found = self._reading().entries.get(entry_id)
        return None if found is None else StoredEntry(loads(found[0]), found[1])

    async def entries(
        self,
        conversation_id: int,
        *,
        after: int = 0,
        before: int | None = None,
        limit: int = 1000,
        reverse: bool = False,
    ) -> list[StoredEntry]:
        state = self._reading()
        ids = _page(state.entry_ids.get(conversation_id, []), after, before, limit, reverse)
        return [StoredEntry(loads(text), seq) for text, seq in (state.entries[i] for i in ids)]

    async def newest_head(self, conversation_id: int, *, upto: int | None = None) -> EntryRecord | None:
        state = self._reading()
        heads = state.heads.get(conversation_id, [])
        end = len(heads) if upto is None else bisect_right(heads, upto)
        return loads(state.entries[heads[end - 1]][0]) if end else None

    async def submission(self, submission_id: int) -> SubmissionRecord | None:
        found = self._reading().submissions.get(submission_id)
        return None if found is None else loads(found)

    async def submission_by_request(self, conversation_id: int, request_id: str) -> SubmissionRecord | None:
        state = self._reading()
        found = state.requests.get((conversation_id, clean_text(request_id)))
        return None if found is None else loads(state.submissions[found])

    async def submissions(
        self, conversation_id: int | None = None, *, status: str | None = None, after: int = 0, limit: int = 1000
    ) -> list[SubmissionRecord]:
        def wanted(record: dict[str, Any]) -> bool:
            return (conversation_id is None or record["conversationId"] == conversation_id) and (
                status is None or record["status"] == status
            )

        return _scan(self._reading().submissions, wanted, after, limit)

    async def task(self, task_id: int) -> TaskRecord | None:
        found = self._reading().tasks.get(task_id)
        return None if found is None else loads(found)

    async def tasks(self, conversation_id: int | None = None, *, after: int = 0, limit: int = 1000) -> list[TaskRecord]:
        def wanted(record: dict[str, Any]) -> bool:
            return conversation_id is None or record["conversationId"] == conversation_id

        return _scan(self._reading().tasks, wanted, after, limit)

    async def live_tasks(self) -> list[TaskRecord]:
        state = self._reading()
        return [loads(state.tasks[i]) for i in sorted(state.live)]

    async def document(self, kind: str, scope: Scope, key: str | None = None) -> StoredDocument | None:
        state = self._reading()
        found = state.addresses.get(address_of(kind, scope, key))
        return None if found is None else _fold(state, found, None)

    async def documents(self, scope: Scope) -> list[StoredDocument]:
        state = self._reading()
        wanted = address_of("", scope, None)[1:3]
        found = sorted(i for address, i in state.addresses.items() if address[1:3] == wanted)
        return [_fold(state, i, None) for i in found]

    async def document_as_of(self, document_id: int, seq: int) -> StoredDocument | None:
        """A document as it stood after commit `seq`; None when it was not there, or its revisions are dropped."""
        state = self._reading()
        text = state.documents.get(document_id)
        if text is None:
            return None
        record = loads(text)
        if record["createdAt"] > seq or record.get("retiredAt", seq + 1) <= seq:
            return None
        if not any(r.kind == "base" and r.seq <= seq for r in state.revisions.get(document_id, [])):
            return None
        return _fold(state, document_id, seq)

    async def commits(
        self, *, after: int = 0, before: int | None = None, limit: int = 1000, reverse: bool = False
    ) -> list[CommitRow]:
        rows = self._reading().commits
        first = bisect_right(rows, after, key=_seq)
        last = len(rows) if before is None else bisect_left(rows, before, key=_seq)
        found = rows[first:last]
        return (found[::-1] if reverse else found)[: max(0, limit)]

    async def owners(self, *, limit: int = 200) -> list[OwnerRow]:
        return self._reading().owners[-limit:] if limit > 0 else []


def _fold(state: MemoryState, document_id: int, seq: int | None) -> StoredDocument:
    record = loads(state.documents[document_id])
    if seq is not None:
        record = unretired(record)
    rows = [row for row in state.revisions.get(document_id, []) if seq is None or row.seq <= seq]
    start = max((index for index, row in enumerate(rows) if row.kind == "base"), default=None)
    if start is None:
        raise StorageDamaged(f"document {document_id} has no base; the session is damaged")
    deltas = tuple(loads(row.text) for row in rows[start + 1 :])
    return StoredDocument(record, rows[-1].version, loads(rows[start].text), deltas)


def _page(ids: list[int], after: int, before: int | None, limit: int, reverse: bool = False) -> list[int]:
    found = ids[bisect_right(ids, after) : len(ids) if before is None else bisect_left(ids, before)]
    return (found[::-1] if reverse else found)[: max(0, limit)]


def _scan(table: dict[int, str], wanted: Callable[[dict[str, Any]], bool], after: int, limit: int) -> list[Any]:
    found: list[Any] = []
    for record_id in sorted(i for i in table if i > after):
        if len(found) >= limit:
            break
        record = loads(table[record_id])
        if wanted(record):
            found.append(record)
    return found


def _copied(batch: Batch) -> Batch:
    return replace(
        batch,
        conversations=list(batch.conversations),
        entries=list(batch.entries),
        submissions=list(batch.submissions),
        tasks=list(batch.tasks),
        documents=list(batch.documents),
        revisions=list(batch.revisions),
    )


def _seq(row: CommitRow) -> int:
    return row.seq
