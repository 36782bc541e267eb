"""What a commit that touches tasks also settles: held outcomes, terminal records, waiters (spec 6.5-6.7)."""

from __future__ import annotations

from collections.abc import Callable

from durable_tui.engine.ended_tasks import EndedTasks
from durable_tui.engine.ownership import children_of
from durable_tui.engine.recovery import RecoveryReport
from durable_tui.engine.task import Decision
from durable_tui.engine.task_record import (
    TERMINAL,
    changed,
    is_decided,
    mark_for_abort,
    outcome_of,
    status_of,
    waiting_of,
)
from durable_tui.session import Session, Transaction
from durable_tui.storage.records import EndedState, LiveState, Outcome, TaskRecord

WOKEN = Decision("woken", "15")
ABORTED = Decision("aborted", "6.8")
INTERRUPTED = Decision("interrupted", "6.9")


class TaskRules:
    """Brings the final candidates of every commit in order. `may_reserve` tells whether a task may run at once."""

    def __init__(
        self,
        session: Session,
        ended: EndedTasks,
        recovery: RecoveryReport,
        may_reserve: Callable[[TaskRecord], bool],
    ) -> None:
        self._session = session
        self._ended = ended
        self._recovery = recovery
        self._may_reserve = may_reserve
        session.preparers.append(self.apply)

    async def apply(self, tx: Transaction) -> None:
        """Bring the commit's candidates in order, until nothing changes any more. ValueError for work out of place."""
        if not tx.tasks:
            self._check_new_conversations(tx)
            return
        self._check_new_work(tx)
        self._check_new_conversations(tx)
        moved = True
        while moved:
            moved = False
            candidates = tx.candidates()
            children = children_of(candidates, {**self._session.conversations, **tx.conversations})
            for task_id, task in list(candidates.items()):
                status, outcome = status_of(task), outcome_of(task)
                if outcome is None:
                    continue
                if status == TERMINAL and children.get(task_id) and task_id in tx.tasks:
                    tx.put_task(changed(task, state=_ended("completing", outcome)))
                    moved = True
                elif status == "completing" and not children.get(task_id):
                    tx.put_task(changed(task, state=_ended(TERMINAL, outcome)))
                    moved = True
            if moved:
                continue  # who waits for a task must not see it end before it is known whether it is held
            for task in candidates.values():
                if status_of(task) == "waiting" and not task["abortRequested"]:
                    moved = await self.wake(tx, task, candidates) or moved
        await self._finish(tx)

    async def wake(self, tx: Transaction, task: TaskRecord, candidates: dict[int, TaskRecord]) -> bool:
        """Resume a waiting task when what it waits for has ended; True when the commit changed (spec 6.6)."""
        waiting = waiting_of(task)
        if waiting is None:
            return False
        others = [candidates.get(other) or self._ended.get(other) for other in waiting["on"]]
        live = [other for other in others if other is not None and status_of(other) != TERMINAL]
        if live:
            if waiting["policy"] == "failFast" and any(_went_wrong(other) for other in others):
                return bool(mark_for_abort(tx, [other["id"] for other in live]))
            return False
        running = self._may_reserve(task)
        state: LiveState = {"status": "running" if running else "pending", "checkpoint": waiting["checkpoint"]}
        resumed = changed(task, state=state)
        if running and "startedAt" not in task:
            resumed["startedAt"] = self._session.now()
        tx.put_task(resumed)
        if self._recovery.found_as(task["id"]) == "waiting":
            await self._recovery.note(tx, task["id"], WOKEN)
        return True

    async def _finish(self, tx: Transaction) -> None:
        for task_id, task in list(tx.tasks.items()):
            if status_of(task) != TERMINAL:
                continue
            if "endedAt" not in task:
                tx.put_task(changed(task, endedAt=self._session.now()))
            if task_id in self._session.tasks or task_id in self._session.task_documents:
                await tx.retire_task_documents(task_id)
            found_as = self._recovery.found_as(task_id)
            if found_as is not None:
                outcome = outcome_of(task)
                marked = task["abortRequested"] or (outcome and outcome["status"] in ("aborted", "orphaned"))
                waited = found_as in ("waiting", "completing")
                await self._recovery.note(tx, task_id, ABORTED if marked else WOKEN if waited else INTERRUPTED)

    def _check_new_work(self, tx: Transaction) -> None:
        for task_id, task in tx.tasks.items():
            if task_id in self._session.tasks:
                continue
            if "owner" not in task:
                self._check_place(tx, task)
                continue
            owner_id = task["owner"]
            owner = self._session.tasks.get(owner_id) or tx.tasks.get(owner_id)
            if owner is None:
                raise ValueError(f"task {task_id} would be owned by task {owner_id}, which does not live")
            if owner["conversationId"] != task["conversationId"]:
                raise ValueError(f"task {task_id} must live in the conversation of its owner {owner_id} (spec 6.5)")
            self._check_owner(owner_id)

    def _check_place(self, tx: Transaction, task: TaskRecord) -> None:
        """Refuse new work in a conversation whose owner has ended: nothing could reach it (spec 6.7)."""
        conversation_id = task["conversationId"]
        conversation = tx.conversations.get(conversation_id) or self._session.conversations.get(conversation_id)
        if task["background"] or conversation is None or "owner" not in conversation:
            return
        owner_id = conversation["owner"]["taskId"]
        if owner_id not in self._session.tasks and owner_id not in tx.tasks:
            raise ValueError(f"conversation {conversation_id} belongs to task {owner_id}, which has ended (spec 6.7)")

    def _check_new_conversations(self, tx: Transaction) -> None:
        for conversation in tx.conversations.values():
            if "owner" in conversation:
                owner_id = conversation["owner"]["taskId"]
                owner = tx.candidate(owner_id)
                if owner is None:
                    raise ValueError(f"a conversation cannot be owned by task {owner_id}, which does not live")
                if owner["conversationId"] != conversation["owner"]["conversationId"]:
                    raise ValueError(f"task {owner_id} is of another conversation than its reference says (spec 6.5)")
                self._check_owner(owner_id)

    def _check_owner(self, owner_id: int) -> None:
        before = self._session.tasks.get(owner_id)
        if before is not None and (is_decided(before) or before["abortRequested"]):
            raise ValueError(f"task {owner_id} is ending and cannot own new work (spec 6.7)")


def _ended(status: str, outcome: Outcome) -> EndedState:
    return {"status": "completing" if status == "completing" else TERMINAL, "outcome": outcome}


def _went_wrong(task: TaskRecord | None) -> bool:
    outcome = outcome_of(task) if task is not None else None
    return outcome is not None and outcome["status"] != "completed"
