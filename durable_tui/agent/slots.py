"""The slots of a tool round in `pi.live` (spec 10, 17.4)."""

from __future__ import annotations

from durable_tui.agent.documents import LIVE
from durable_tui.agent.shapes import Live, Slot
from durable_tui.session import Session


def find_slot(live: Live, task_id: int) -> Slot | None:
    """The slot of a tool task, None when its round is over."""
    for slot in live.get("tools", ()):
        if slot.get("taskId") == task_id:
            return slot
    return None


def clear_progress(slot: Slot) -> None:
    """Take the published progress out of a slot."""
    for key in ("output", "details", "droppedBytes", "droppedLines", "diagnostics"):
        slot.pop(key, None)  # type: ignore[misc]


async def partial_output(session: Session, conversation_id: int, task_id: int) -> str:
    """The output of a call that is durable in its slot."""
    slot = find_slot(await session.value(LIVE, conversation_id), task_id)
    return slot.get("output", "") if slot is not None else ""
