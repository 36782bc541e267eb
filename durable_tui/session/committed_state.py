"""What is committed to one session, as far as it is in memory (spec 3, 5)."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from durable_tui.delta import freeze
from durable_tui.ground.clock import now_ms
from durable_tui.session.documents import Address, DocumentDefinition, DocumentState, folded, value_of
from durable_tui.storage.protocol import Owner
from durable_tui.storage.records import ConversationRecord, Scope, SubmissionRecord, TaskRecord

T = TypeVar("T")


class CommittedState:
    """A store and what of it is in memory; a commit's body reads through this.

    `tasks` holds the live tasks, `submissions` the unsettled ones seen so far, `conversations` all conversations,
    `seq` and `at` are those of the newest commit.
    """

    def __init__(self, storage: Owner, now: Callable[[], int] | None = None) -> None:
        self.storage = storage
        self.now = now or now_ms
        self.tasks: dict[int, TaskRecord] = {}
        self.conversations: dict[int, ConversationRecord] = {}
        self.submissions: dict[int, SubmissionRecord] = {}
        self.seq = 0
        self.at = 0
        self.task_documents: dict[int, set[Address]] = {}
        self._documents: dict[Address, DocumentState] = {}
        self._absent: set[Address] = set()

    async def load_submission(self, submission_id: int) -> SubmissionRecord | None:
        """A submission as committed, for a commit's body; unsettled ones stay in memory. Only on the line."""
        known = self.submissions.get(submission_id)
        if known is not None:
            return known
        record = await self.storage.submission(submission_id)
        if record is not None and record["status"] in ("queued", "placed"):
            self.submissions[submission_id] = record
        return record

    def cached_document(self, address: Address) -> DocumentState | None:
        return self._documents.get(address)

    def is_absent(self, address: Address) -> bool:
        return address in self._absent

    async def load_document(self, address: Address) -> DocumentState | None:
        """A document as committed, with all its deltas applied; None when there is none."""
        known = self._documents.get(address)
        if known is not None or address in self._absent:
            return known
        kind, scope_kind, owner_id, key = address
        scope: Scope = {"kind": "session"}
        if scope_kind == "conversation":
            scope = {"kind": "conversation", "conversationId": owner_id}
        elif scope_kind == "task":
            scope = {"kind": "task", "taskId": owner_id}
        seq = self.seq
        stored = await self.storage.document(kind, scope, key)
        raced = self._documents.get(address)
        if raced is not None:
            return raced
        if stored is None:
            if seq == self.seq:
                self._absent.add(address)
            return None
        state = DocumentState(stored.record, stored.version, folded(stored), len(stored.deltas))
        if seq == self.seq:
            self._documents[address] = state
        return state

    async def value(self, definition: DocumentDefinition[T], owner_id: int = 0, key: str | None = None) -> T:
        """A document's committed value, or its initial one when it does not exist. Raises DocumentRefused (spec 5.4)."""
        state = await self.load_document(definition.address(owner_id, key))
        return freeze(definition.initial()) if state is None else value_of(definition, state)
