"""Something handed to a conversation, which can be waited for (spec 8)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from durable_tui.agent.agent import Agent
from durable_tui.agent.inbox import InboxItemGone, find_item
from durable_tui.agent.settlements import SETTLED
from durable_tui.storage.errors import StorageError
from durable_tui.storage.records import SubmissionRecord


@dataclass(slots=True, frozen=True)
class Settled:
    """How a submission ended. `answer` is the id of the answering entry, `entry` where the input stands."""

    id: int
    status: Literal["done", "unanswered"]
    answer: int | None = None
    reason: str | None = None
    detail: str | None = None
    entry: int | None = None


def as_settled(record: SubmissionRecord) -> Settled:
    return Settled(
        record["id"],
        "done" if record["status"] == "done" else "unanswered",
        record.get("answer"),
        record.get("reason"),
        record.get("detail"),
        record.get("entry"),
    )


class Submission:
    """A submission by its id. `record` is as of when it was handed out; `wait()` follows it."""

    def __init__(self, agent: Agent, record: SubmissionRecord) -> None:
        self._agent = agent
        self.record = record
        self.id = record["id"]
        self.conversation_id = record["conversationId"]

    async def refresh(self) -> SubmissionRecord:
        """The record as committed now."""
        stored = await self._agent.session.storage.submission(self.id)
        if stored is not None:
            self.record = stored
        return self.record

    async def wait(self) -> Settled:
        """Wait until it is settled; starts scheduling. Cancelling this cancels only the wait (spec 8.6).

        Raises SessionClosed, SessionPoisoned or Fenced when the session ends first.
        """
        agent = self._agent
        if self.record["status"] in SETTLED:
            return as_settled(self.record)
        with agent.settlements.waiters.waiting_for(self.id) as settled:
            try:
                await self.refresh()
            except StorageError:
                agent.session.check_open()  # a closed store cannot be read, and this says so
                raise
            if self.record["status"] in SETTLED:
                return as_settled(self.record)
            agent.session.check_open()
            agent.engine.start()
            self.record = await settled
            return as_settled(self.record)

    async def abort(self) -> Literal["withdrawn", "already_placed", "settled"]:
        """Withdraw it while it is queued; it settles `unanswered: aborted` (spec 8.6)."""
        async with self._agent.session.commit() as tx:
            record = await tx.submission(self.id)
            if record is None or record["status"] in SETTLED:
                return "settled"
            draft = await self._agent.conversations.load(tx, self.conversation_id)
            try:
                index = find_item(draft, self.id)
            except InboxItemGone:
                return "already_placed"
            del draft.items[index]
            self.record = tx.put_submission({**record, "status": "unanswered", "reason": "aborted"})
        return "withdrawn"
