"""Something handed to a conversation, which can be waited for (spec 8)."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from durable_tui.agent.inbox import InboxItemGone, find_item, load_scene
from durable_tui.engine.kernel import drop_waiter
from durable_tui.storage.errors import StorageError
from durable_tui.storage.records import SubmissionRecord

if TYPE_CHECKING:
    from durable_tui.engine.kernel import Kernel

SETTLED = ("done", "unanswered")


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

    def __init__(self, kernel: Kernel, record: SubmissionRecord) -> None:
        self._kernel = kernel
        self.record = record
        self.id = record["id"]
        self.conversation_id = record["conversationId"]

    async def refresh(self) -> SubmissionRecord:
        """The record as committed now."""
        stored = await self._kernel.session.storage.submission(self.id)
        if stored is not None:
            self.record = stored
        return self.record

    async def wait(self) -> Settled:
        """Wait until it is settled; starts scheduling. Cancelling this cancels only the wait (spec 8.6).

        Raises SessionClosed, SessionPoisoned or Fenced when the session ends first.
        """
        kernel = self._kernel
        if self.record["status"] in SETTLED:
            return as_settled(self.record)
        future: asyncio.Future[SubmissionRecord] = asyncio.get_running_loop().create_future()
        kernel.settled.setdefault(self.id, []).append(future)
        try:
            try:
                await self.refresh()
            except StorageError:
                kernel.session.check_open()  # a closed store cannot be read, and this says so
                raise
            if self.record["status"] in SETTLED:
                return as_settled(self.record)
            kernel.session.check_open()
            kernel.scheduler.start()
            self.record = await future
            return as_settled(self.record)
        finally:
            drop_waiter(kernel.settled, self.id, future)

    async def abort(self) -> Literal["withdrawn", "already_placed", "settled"]:
        """Withdraw it while it is queued; it settles `unanswered: aborted` (spec 8.6)."""
        async with self._kernel.session.commit() as tx:
            record = await tx.submission(self.id)
            if record is None or record["status"] in SETTLED:
                return "settled"
            scene = await load_scene(self._kernel, tx, self.conversation_id)
            try:
                index = find_item(scene, self.id)
            except InboxItemGone:
                return "already_placed"
            del scene.items[index]
            self.record = tx.put_submission({**record, "status": "unanswered", "reason": "aborted"})
        return "withdrawn"
