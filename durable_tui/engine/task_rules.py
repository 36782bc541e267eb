"""What a commit that touches tasks also settles: held outcomes, terminal records, waiters (spec 6.5-6.7)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from durable_tui.engine.ownership import children_of
from durable_tui.engine.recovery import note_verdict
from durable_tui.engine.task import TERMINAL, changed, is_decided, outcome_of, status_of
from durable_tui.session import Transaction
from durable_tui.storage.records import TaskRecord

if TYPE_CHECKING:
    from durable_tui.engine.kernel import Kernel


async def settle(kernel: Kernel, tx: Transaction) -> None:
    """Bring the commit's final candidates in order, until nothing changes any more."""
    if not tx.tasks:
        _check_new_conversations(kernel, tx)
        return
    _check_new_work(kernel, tx)
    _check_new_conversations(kernel, tx)
    moved = True
    while moved:
        moved = False
        candidates = tx.candidates()
        children = children_of(candidates, {**kernel.session.conversations, **tx.conversations})
        for task_id, task in list(candidates.items()):
            status = status_of(task)
            if status == TERMINAL and children.get(task_id) and task_id in tx.tasks:
                tx.put_task(changed(task, state={"status": "completing", "outcome": outcome_of(task)}))
                moved = True
            elif status == "completing" and not children.get(task_id):
                tx.put_task(changed(task, state={"status": TERMINAL, "outcome": outcome_of(task)}))
                moved = True
        if moved:
            continue  # who waits for a task must not see it end before it is known whether it is held
        for task in candidates.values():
            if status_of(task) == "waiting" and not task["abortRequested"]:
                moved = await _wake(kernel, tx, task, candidates) or moved
    await _finish(kernel, tx)


async def _wake(kernel: Kernel, tx: Transaction, task: TaskRecord, candidates: dict[int, TaskRecord]) -> bool:
    state = task["state"]
    others = [candidates.get(other) or kernel.ended_task(other) for other in state["on"]]
    live = [other for other in others if other is not None and status_of(other) != TERMINAL]
    if live:
        if state["policy"] == "failFast" and any(_went_wrong(other) for other in others):
            marked = [other for other in live if not other["abortRequested"] and not is_decided(other)]
            for other in marked:
                tx.put_task(changed(other, abortRequested=True))
            return bool(marked)
        return False
    running = kernel.scheduler.may_reserve(task)
    resumed: dict[str, Any] = {"status": "running" if running else "pending", "checkpoint": state["checkpoint"]}
    changes: dict[str, Any] = {"state": resumed}
    if running and "startedAt" not in task:
        changes["startedAt"] = kernel.session.now()
    tx.put_task(changed(task, **changes))
    if kernel.undecided.get(task["id"]) == "waiting":
        await note_verdict(kernel, tx, task["id"], "woken", "15")
    return True


def _went_wrong(task: TaskRecord | None) -> bool:
    return task is not None and is_decided(task) and outcome_of(task)["status"] != "completed"


async def _finish(kernel: Kernel, tx: Transaction) -> None:
    for task_id, task in list(tx.tasks.items()):
        if status_of(task) != TERMINAL:
            continue
        if "endedAt" not in task:
            tx.put_task(changed(task, endedAt=kernel.session.now()))
        if task_id in kernel.session.tasks or task_id in kernel.session.task_documents:
            await tx.retire_task_documents(task_id)
        if task_id in kernel.undecided:
            outcome = outcome_of(task)
            marked = task["abortRequested"] or outcome["status"] in ("aborted", "orphaned")
            waited = kernel.undecided[task_id] in ("waiting", "completing")
            decided, rule = ("aborted", "6.8") if marked else ("woken", "15") if waited else ("interrupted", "6.9")
            await note_verdict(kernel, tx, task_id, decided, rule)


def _check_new_work(kernel: Kernel, tx: Transaction) -> None:
    for task_id, task in tx.tasks.items():
        if task_id in kernel.session.tasks:
            continue
        if "owner" not in task:
            _check_place(kernel, tx, task)
            continue
        owner_id = task["owner"]
        owner = kernel.session.tasks.get(owner_id) or tx.tasks.get(owner_id)
        if owner is None:
            raise ValueError(f"task {task_id} would be owned by task {owner_id}, which does not live")
        if owner["conversationId"] != task["conversationId"]:
            raise ValueError(f"task {task_id} must live in the conversation of its owner {owner_id} (spec 6.5)")
        _check_owner(kernel, owner_id)


def _check_place(kernel: Kernel, tx: Transaction, task: TaskRecord) -> None:
    """Refuse new work in a conversation whose owner has ended: nothing could reach it (spec 6.7)."""
    conversation_id = task["conversationId"]
    conversation = tx.conversations.get(conversation_id) or kernel.session.conversations.get(conversation_id)
    if task["background"] or conversation is None or "owner" not in conversation:
        return
    owner_id = conversation["owner"]["taskId"]
    if owner_id not in kernel.session.tasks and owner_id not in tx.tasks:
        raise ValueError(f"conversation {conversation_id} belongs to task {owner_id}, which has ended (spec 6.7)")


def _check_new_conversations(kernel: Kernel, tx: Transaction) -> None:
    for conversation in tx.conversations.values():
        if "owner" in conversation:
            owner_id = conversation["owner"]["taskId"]
            owner = tx.candidate(owner_id)
            if owner is None:
                raise ValueError(f"a conversation cannot be owned by task {owner_id}, which does not live")
            if owner["conversationId"] != conversation["owner"]["conversationId"]:
                raise ValueError(f"task {owner_id} is of another conversation than its reference says (spec 6.5)")
            _check_owner(kernel, owner_id)


def _check_owner(kernel: Kernel, owner_id: int) -> None:
    before = kernel.session.tasks.get(owner_id)
    if before is not None and (is_decided(before) or before["abortRequested"]):
        raise ValueError(f"task {owner_id} is ending and cannot own new work (spec 6.7)")
