"""What a commit's body works on: reads, new records, drafts (spec 3, 5)."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Literal, TypeAlias, TypeVar

from durable_tui.delta import Json, Op, freeze
from durable_tui.session.committed_state import CommittedState
from durable_tui.session.documents import (
    Address,
    DocumentChange,
    DocumentDefinition,
    DocumentDraft,
    DocumentState,
    empty_object,
    value_of,
)
from durable_tui.session.session_errors import ReadAfterWrite, TransactionClosed
from durable_tui.storage.records import (
    Batch,
    ConversationRecord,
    DocumentRecord,
    EntryEdit,
    EntryRecord,
    FlightRow,
    OwnerRef,
    ParentRef,
    Revision,
    StoredEntry,
    SubmissionRecord,
    TaskRecord,
)

T = TypeVar("T")
SomeDraft: TypeAlias = DocumentDraft[Any]  # a transaction holds those of every shape
_SMALL = 64


class Transaction:
    """One commit in the making. Everything raises TransactionClosed once the body ended (spec 3.7)."""

    def __init__(self, session: CommittedState, *, flush: bool = True) -> None:
        self.session = session
        self.flush = flush
        self.closed = False
        self.conversations: dict[int, ConversationRecord] = {}
        self.new_entries: list[EntryRecord] = []
        self.submissions: dict[int, SubmissionRecord] = {}
        self.tasks: dict[int, TaskRecord] = {}
        self._documents: dict[Address, SomeDraft] = {}
        self._acquiring: dict[Address, asyncio.Future[None]] = {}
        self._pending = 0
        self._wrote = False
        self._seq: int | None = None
        self._flight: list[FlightRow] = []
        self._keep_flights: int | None = None

    @property
    def seq(self) -> int:
        """The number this commit will have if it is stored."""
        if self._seq is None:
            self._seq = self.session.storage.mint_seq()
        return self._seq

    # -- reads ---------------------------------------------------------------------------------------------------

    def _check(self) -> None:
        if self.closed:
            raise TransactionClosed("this commit's body has ended")

    def _reading(self) -> None:
        self._check()
        if self._wrote:
            raise ReadAfterWrite("a table was read after this commit's first table write; read before writing")

    def _writing(self) -> None:
        self._check()
        self._wrote = True

    async def _acquire(self, awaitable: Awaitable[T]) -> T:
        self._pending += 1
        try:
            return await awaitable
        finally:
            self._pending -= 1

    async def conversation(self, conversation_id: int) -> ConversationRecord | None:
        self._reading()
        known = self.session.conversations.get(conversation_id)
        return known or await self._acquire(self.session.storage.conversation(conversation_id))

    async def entry(self, entry_id: int) -> StoredEntry | None:
        self._reading()
        return await self._acquire(self.session.storage.entry(entry_id))

    async def entries(
        self,
        conversation_id: int,
        *,
        after: int = 0,
        before: int | None = None,
        limit: int = 1000,
        reverse: bool = False,
    ) -> list[StoredEntry]:
        self._reading()
        return await self._acquire(
            self.session.storage.entries(conversation_id, after=after, before=before, limit=limit, reverse=reverse)
        )

    async def newest_head(self, conversation_id: int) -> EntryRecord | None:
        self._reading()
        return await self._acquire(self.session.storage.newest_head(conversation_id))

    async def submission(self, submission_id: int) -> SubmissionRecord | None:
        self._reading()
        return await self._acquire(self.session.load_submission(submission_id))

    async def submission_by_request(self, conversation_id: int, request_id: str) -> SubmissionRecord | None:
        self._reading()
        return await self._acquire(self.session.storage.submission_by_request(conversation_id, request_id))

    async def task(self, task_id: int) -> TaskRecord | None:
        self._reading()
        return self.session.tasks.get(task_id) or await self._acquire(self.session.storage.task(task_id))

    def live_tasks(self) -> list[TaskRecord]:
        self._reading()
        return list(self.session.tasks.values())

    # -- candidates: what the commit would leave; no table read ----------------------------------------------------

    def candidate(self, task_id: int) -> TaskRecord | None:
        """A live task as this commit would leave it; None when it is unknown or was terminal before."""
        return self.tasks.get(task_id) or self.session.tasks.get(task_id)

    def candidates(self) -> dict[int, TaskRecord]:
        """All live tasks as this commit would leave them, those it makes terminal included."""
        if not self.tasks:
            return dict(self.session.tasks)
        return {**self.session.tasks, **self.tasks}

    def submission_candidate(self, submission_id: int) -> SubmissionRecord | None:
        """An unsettled submission, as this commit would leave it."""
        return self.submissions.get(submission_id) or self.session.submissions.get(submission_id)

    # -- writes --------------------------------------------------------------------------------------------------

    def mint_id(self) -> int:
        self._check()
        return self.session.storage.mint_id()

    def create_conversation(
        self, *, owner: OwnerRef | None = None, parent: ParentRef | None = None
    ) -> ConversationRecord:
        """A new conversation; its ownership is stated (spec 2)."""
        self._writing()
        record: ConversationRecord = {"id": self.mint_id()}
        if parent is not None:
            record["parent"] = parent
        if owner is not None:
            record["owner"] = owner
        record = freeze(record)
        self.conversations[record["id"]] = record
        return record

    def append(
        self,
        conversation_id: int,
        kind: str,
        *,
        model: Sequence[Mapping[str, object]] | None = None,
        data: object = None,
        head: int | Literal["self"] | None = None,
        edits: Sequence[EntryEdit] | None = None,
        by_task: int | None = None,
    ) -> EntryRecord:
        """Append an entry; `head="self"` points at itself. Values are copied and checked here (spec 3.8)."""
        self._writing()
        record: dict[str, object] = {"id": self.mint_id(), "conversationId": conversation_id, "kind": kind}
        if model is not None:
            record["model"] = model
        if data is not None:
            record["data"] = data
        if head is not None:
            record["head"] = record["id"] if head == "self" else head
        if edits:
            record["edits"] = edits
        if by_task is not None:
            record["byTaskId"] = by_task
        entry: EntryRecord = freeze(record)
        self.new_entries.append(entry)
        return entry

    def put_submission(self, record: SubmissionRecord) -> SubmissionRecord:
        self._writing()
        frozen = freeze(record)
        self.submissions[frozen["id"]] = frozen
        return frozen

    def put_task(self, record: TaskRecord) -> TaskRecord:
        self._writing()
        frozen = freeze(record)
        self.tasks[frozen["id"]] = frozen
        return frozen

    def record_flight(self, rows: list[FlightRow], *, keep: int) -> None:
        """Keep what a death left, and drop the recordings of all but the newest `keep` deaths (spec 5.7)."""
        self._writing()
        self._flight = rows
        self._keep_flights = keep

    # -- documents -----------------------------------------------------------------------------------------------

    async def document(
        self, definition: DocumentDefinition[T], owner_id: int = 0, key: str | None = None
    ) -> DocumentDraft[T]:
        """The draft at an address, made with its initial value when there is none. One per address (spec 5.1)."""
        self._check()
        address = definition.address(owner_id, key)
        while True:
            known = self._documents.get(address)
            if known is not None:
                if not known.retired:
                    return known
                raise TransactionClosed(f"document {definition.kind} was retired in this commit")
            waiting = self._acquiring.get(address)
            if waiting is None:
                break
            await self._acquire(asyncio.shield(waiting))
        state = self.session.cached_document(address)
        if state is None and not self.session.is_absent(address):
            self._acquiring[address] = asyncio.get_running_loop().create_future()
            try:
                state = await self._acquire(self.session.load_document(address))
            finally:
                self._acquiring.pop(address).set_result(None)
            self._check()
        base = freeze(definition.initial()) if state is None else value_of(definition, state)
        draft = DocumentDraft(definition, owner_id, key, state, base)
        self._documents[address] = draft
        return draft

    def draft(self, address: Address) -> SomeDraft | None:
        """The draft already acquired at an address, if any."""
        return self._documents.get(address)

    async def retire_task_documents(self, task_id: int) -> None:
        """End every document of a task (spec 5.5)."""
        for kind, _, owner_id, key in list(self.session.task_documents.get(task_id, ())):
            definition = DocumentDefinition(kind, "task", empty_object)
            draft = self._documents.get(definition.address(owner_id, key))
            if draft is None:
                state = await self.session.load_document(definition.address(owner_id, key))
                if state is None:
                    continue
                draft = DocumentDraft(replace(definition, version=state.version), owner_id, key, state, state.value)
                self._documents[definition.address(owner_id, key)] = draft
            draft.retire()
        for (_, scope_kind, owner_id, _), draft in self._documents.items():
            if scope_kind == "task" and owner_id == task_id:
                draft.retire()

    # -- the end -------------------------------------------------------------------------------------------------

    def end_body(self) -> None:
        """Refuse a body that leaves an acquisition pending (spec 3.7)."""
        if self._pending:
            raise TransactionClosed("a commit's body ended while it was still acquiring something")

    def drop(self) -> None:
        self.closed = True
        for draft in self._documents.values():
            draft.close()

    def seal(self) -> tuple[Batch | None, list[tuple[DocumentChange, DocumentState | None]]]:
        """Close the drafts; give what is to be stored (None: nothing was written) and the documents' new states."""
        changes: list[tuple[DocumentChange, DocumentState | None]] = []
        sealed: list[tuple[SomeDraft, Json, Sequence[Op]]] = []
        self.closed = True
        for draft in self._documents.values():
            value, ops = draft.seal()
            if ops or draft.state is None or draft.migrated or draft.retired:
                if draft.retired and draft.state is None:
                    continue
                sealed.append((draft, value, ops))
        if not (sealed or self.new_entries or self.tasks or self.submissions or self.conversations or self._flight):
            return None, changes
        batch = Batch(
            seq=self.seq,
            at=self.session.now(),
            flush=self.flush,
            conversations=list(self.conversations.values()),
            entries=self.new_entries,
            submissions=list(self.submissions.values()),
            tasks=list(self.tasks.values()),
            flight=self._flight,
            keep_flights=self._keep_flights,
        )
        for draft, value, ops in sealed:
            changes.append(self._seal_document(batch, draft, value, ops))
        return batch, changes

    def _seal_document(
        self, batch: Batch, draft: SomeDraft, value: Json, ops: Sequence[Op]
    ) -> tuple[DocumentChange, DocumentState | None]:
        definition, state = draft.definition, draft.state
        address = definition.address(draft.owner_id, draft.key)
        if state is None:
            record = _new_record(definition, draft, self.session.storage.mint_id(), batch.seq)
            batch.documents.append(record)
            batch.revisions.append(Revision(record["id"], "base", definition.version, value))
            change = DocumentChange(address, record, (("r", value),), value, None, created=True)
            return change, DocumentState(record, definition.version, value, 0)
        if draft.retired:
            ended: DocumentRecord = {**state.record, "retiredAt": batch.seq}
            record = freeze(ended)
            batch.documents.append(record)
            return DocumentChange(address, record, (("r", None),), None, state.value, retired=True), None
        deltas = state.deltas + 1
        size = state.size + _size_of(ops) if definition.base_bytes is not None else 0
        base = (
            draft.migrated
            or (definition.checkpoint is not None and definition.checkpoint(value, deltas))
            or (definition.base_bytes is not None and size >= definition.base_bytes)
        )
        droppable: Literal["this", "previous"] | None = "previous" if definition.keep_previous else "this"
        if definition.history == "rewindable":
            droppable = None
        batch.revisions.append(
            Revision(state.record["id"], "base", definition.version, value, drop_before=droppable)
            if base
            else Revision(state.record["id"], "delta", definition.version, ops)
        )
        change = DocumentChange(address, state.record, tuple(ops), value, state.value)
        new_state = DocumentState(state.record, definition.version, value, 0 if base else deltas, 0 if base else size)
        return change, new_state


def _size_of(ops: Sequence[Op]) -> int:
    """About how many bytes some ops take: text grown or set counts, the rest is small."""
    return sum(len(op[-1]) if isinstance(op[-1], str) else _SMALL for op in ops)


def _new_record(
    definition: DocumentDefinition[T], draft: DocumentDraft[T], document_id: int, seq: int
) -> DocumentRecord:
    record: DocumentRecord = {
        "id": document_id,
        "kind": definition.kind,
        "scope": definition.scope_of(draft.owner_id),
        "createdAt": seq,
    }
    if draft.key is not None:
        record["key"] = draft.key
    if definition.history is not None:
        record["history"] = definition.history
    if definition.fork is not None:
        record["fork"] = definition.fork
    return freeze(record)
