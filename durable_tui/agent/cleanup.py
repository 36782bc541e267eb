"""What the scheduler leaves in order when it ends a task itself (spec 6.8, 6.9)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from durable_tui.agent.documents import INBOX
from durable_tui.agent.generation.partial_answer import ended_partial
from durable_tui.agent.inbox import Scene, load_scene, settle_inputs
from durable_tui.agent.usage import record_usage
from durable_tui.session import Transaction
from durable_tui.storage.records import TaskRecord

if TYPE_CHECKING:
    from durable_tui.engine.kernel import Kernel


async def clean_up(
    kernel: Kernel, tx: Transaction, record: TaskRecord, reason: str, *, detail: str | None = None
) -> None:
    """Take a task's traces out of the live state: a run ends and its inputs settle, a tool's slot turns done."""
    if record["kind"] == "pi.generation":
        scene = await load_scene(kernel, tx, record["conversationId"])
        run = scene.live.get("run")
        if run is not None and run["taskId"] == record["id"]:
            await close_partial(scene, record["id"])
            settle_inputs(scene, reason=reason, detail=detail)
    elif record["kind"] == "pi.tool":
        scene = await load_scene(kernel, tx, record["conversationId"])
        slot = find_slot(scene, record["id"])
        if slot is not None:
            slot["status"] = "done"


def find_slot(scene: Scene, task_id: int) -> Any:
    """The live slot of a tool task."""
    for slot in scene.live.get("tools", ()):
        if slot.get("taskId") == task_id:
            return slot
    return None


async def close_partial(scene: Scene, task_id: int, *, reason: str = "aborted") -> int | None:
    """Turn a stored partial answer into an aborted assistant entry; None when there is none (spec 9)."""
    generation = scene.live.get("generation")
    if generation is None or "message" not in generation:
        return None
    message = ended_partial(generation["message"], reason)
    entry = scene.tx.append(scene.conversation_id, "pi.assistant", model=[message], by_task=task_id)
    name = f"{message['provider']}/{message['model']}"
    await record_usage(scene.tx, scene.conversation_id, "models", name, message["usage"])
    del generation["message"]
    return entry["id"]


async def withdraw_queued(tx: Transaction, conversation_id: int) -> None:
    """Withdraw the queued inputs of a conversation; its queued writes stay (spec 6.8)."""
    inbox = await tx.document(INBOX, conversation_id)
    items = inbox.value["items"]
    for index in range(len(items) - 1, -1, -1):
        item = items[index]
        if item["mode"] == "write":
            continue
        record = tx.submission_candidate(item["id"]) or await tx.session.load_submission(item["id"])
        if record is not None:
            tx.put_submission({**record, "status": "unanswered", "reason": "aborted"})
        del items[index]
