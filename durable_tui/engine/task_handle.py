"""What the handlers of a task work with: its record, and commits it may still make (spec 6)."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from types import TracebackType
from typing import cast

from durable_tui.delta import Json, JsonObject
from durable_tui.engine.ended_tasks import EndedTasks
from durable_tui.engine.ownership import chain_of
from durable_tui.engine.space import Space
from durable_tui.engine.task_record import Policy, changed, checkpoint_of, decide, is_decided, moved
from durable_tui.session import Session, Transaction
from durable_tui.session.session import CommitScope
from durable_tui.storage.errors import StorageRejected
from durable_tui.storage.records import Aborted, Failed, Gate, LiveState, StoredDecision, TaskRecord, WaitingState

REJECTED_TRIES = 7  # about six seconds: what happened must not be lost to a passing refusal


class InvocationEnded(Exception):
    """This invocation may not commit any more: its task was marked for abort, ended, or the session closes (spec 6.8)."""


class TaskHandle:
    """One invocation of a task. Handlers read `checkpoint` and `input`, and commit through `commit()`."""

    def __init__(
        self, session: Session, ended_tasks: EndedTasks, space: Space, record: TaskRecord, *, aborting: bool = False
    ) -> None:
        self.session = session
        self.id = record["id"]
        self.conversation_id = record["conversationId"]
        self.input = record["input"]
        self.aborting = aborting
        self.ended = False
        self.waited = False  # the phase began to wait, which is progress also with an unchanged checkpoint
        self._ended_tasks = ended_tasks
        self._space = space

    @property
    def record(self) -> TaskRecord:
        """The task as committed. Raises InvocationEnded once it is terminal."""
        record = self.session.tasks.get(self.id)
        if record is None:
            raise InvocationEnded(f"task {self.id} has ended")
        return record

    @property
    def checkpoint(self) -> JsonObject:
        """The checkpoint as committed, in the shape the task's kind gave it."""
        return checkpoint_of(self.record)

    @property
    def decision(self) -> StoredDecision | None:
        """What recovery decided about this task in this opening, None when it was not found at work (spec 15)."""
        decision = self.record.get("recovery")
        return decision if decision is not None and decision["epoch"] == self.session.storage.epoch else None

    def commit(self, *, flush: bool = True) -> InvocationCommit:
        """A commit of this invocation; raises InvocationEnded when it may not commit any more (spec 6.8)."""
        return InvocationCommit(self, flush)

    async def commit_with_retry(self, body: Callable[[Transaction], Awaitable[None]]) -> None:
        """Commit an outcome whose effect has happened: wait for space, and try again after a passing refusal.

        The body may run more than once. Raises InvocationEnded when the task may not commit any more, StorageRejected
        when the store goes on refusing (spec 3.6).
        """
        tries = 0
        while True:
            try:
                async with self.commit() as tx:
                    await body(tx)
                return
            except StorageRejected as error:
                tries += 1
                if error.full:
                    if not await self._space.wait():
                        raise InvocationEnded("the session is closing") from error
                elif tries >= REJECTED_TRIES:
                    raise
                else:
                    await asyncio.sleep(0.05 * 2**tries)

    def check(self) -> None:
        """Raises InvocationEnded when this invocation may not commit any more."""
        if self.ended or is_decided(self.record) or (self.record["abortRequested"] and not self.aborting):
            raise InvocationEnded(f"task {self.id} may not commit any more")

    # -- inside a commit, whose `put_task` refuses what is no JSON -------------------------------------------------

    def advance(self, tx: Transaction, checkpoint: Mapping[str, object], *, gate: Gate | None = None) -> None:
        """Move to a new checkpoint; a changed one clears the restart count (spec 6.11).

        With a `gate` the task is pending until that opens, and holds no invocation meanwhile (spec 6.12). What the gate
        waits for must be known by the end of the commit.
        """
        if self.aborting and gate is not None:
            raise RuntimeError("an abort handler may not wait (spec 6.8)")
        state: LiveState = {"status": "running", "checkpoint": cast("JsonObject", checkpoint)}
        if gate is not None:
            state = {"status": "pending", "checkpoint": cast("JsonObject", checkpoint), "gate": gate}
        tx.put_task(moved(self._candidate(tx), state))

    def wait(
        self, tx: Transaction, checkpoint: Mapping[str, object], on: list[int], policy: Policy = "allSettled"
    ) -> None:
        """Wait for tasks; with an empty `on` the task goes on at once (spec 6.6)."""
        if self.aborting:
            raise RuntimeError("an abort handler may not wait (spec 6.8)")
        record = self._candidate(tx)
        if self.id in on or set(on) & set(self._owners(tx, record)):
            raise RuntimeError("a task may not wait for itself or its owners (spec 6.6)")
        others = {other: tx.candidate(other) or self._ended_tasks.get(other) for other in on}
        if policy != "allSettled":
            for other, task in others.items():
                if task is not None and self.id not in self._owners(tx, task):
                    raise RuntimeError(f"task {other} is not owned by the waiting one: it needs allSettled (spec 6.6)")
        known = [other for other, task in others.items() if task is not None]
        state: WaitingState = {
            "status": "waiting",
            "checkpoint": cast("JsonObject", checkpoint),
            "on": known,
            "policy": policy,
        }
        tx.put_task(moved(record, state))
        self.waited = True

    def complete(self, tx: Transaction, result: object) -> None:
        """End as completed, with a JSON result."""
        decide(tx, self._candidate(tx), {"status": "completed", "result": cast("Json", result)})

    def fail(self, tx: Transaction, message: str, *, detail: Json = None, result: object = None) -> None:
        """End as failed."""
        outcome: Failed = {"status": "failed", "error": {"message": message}}
        if detail is not None:
            outcome["error"]["detail"] = detail
        if result is not None:
            outcome["result"] = cast("Json", result)
        decide(tx, self._candidate(tx), outcome)

    def end_aborted(self, tx: Transaction, *, reason: str | None = None, result: object = None) -> None:
        """End as aborted."""
        outcome: Aborted = {"status": "aborted"}
        if reason is not None:
            outcome["reason"] = reason
        if result is not None:
            outcome["result"] = cast("Json", result)
        decide(tx, self._candidate(tx), outcome)

    async def memo(self, name: str, candidate: Json) -> Json:
        """The durable value under `name`: the first writer's (spec 6.4)."""
        known = self.record.get("memos", {})
        if name in known:
            return known[name]
        async with self.commit() as tx:
            record = self._candidate(tx)
            memos = dict(record.get("memos", {}))
            if name not in memos:
                memos[name] = candidate
                tx.put_task(changed(record, memos=memos))
        return self.record.get("memos", {})[name]

    def _owners(self, tx: Transaction, record: TaskRecord) -> list[int]:
        return chain_of(record, tx.candidates(), {**self.session.conversations, **tx.conversations})

    def _candidate(self, tx: Transaction) -> TaskRecord:
        record = tx.candidate(self.id)
        if record is None:
            raise InvocationEnded(f"task {self.id} has ended")
        return record


class InvocationCommit:
    """A commit that checks, on the line, that its invocation may still commit."""

    __slots__ = ("_scope", "_task")

    def __init__(self, task: TaskHandle, flush: bool) -> None:
        self._task = task
        self._scope: CommitScope = task.session.commit(flush=flush)

    async def __aenter__(self) -> Transaction:
        tx = await self._scope.__aenter__()
        try:
            self._task.check()
        except BaseException as error:
            await self._scope.__aexit__(type(error), error, error.__traceback__)
            raise
        return tx

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._scope.__aexit__(kind, error, trace)
