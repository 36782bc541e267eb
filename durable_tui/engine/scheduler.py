"""Starts, resumes and ends tasks, driven by committed changes alone (spec 6, 7)."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import Protocol

from durable_tui.engine.definitions import Definitions
from durable_tui.engine.execution import FATAL, Invocations
from durable_tui.engine.gates import Gates, Timer
from durable_tui.engine.ownership import below, children_of, conversations_below
from durable_tui.engine.recovery import PARKED, RESTART_LIMIT, RecoveryReport
from durable_tui.engine.reports import Reports
from durable_tui.engine.shapes import QueuedAtDeath
from durable_tui.engine.space import Space
from durable_tui.engine.task import Abandonment, Decision
from durable_tui.engine.task_record import (
    changed,
    checkpoint_of,
    describe,
    gate_of,
    is_decided,
    mark_for_abort,
    migrated_to,
    outcome_of,
    status_of,
    waiting_of,
)
from durable_tui.engine.tidying import Tidying
from durable_tui.session import Commit, Session, Transaction
from durable_tui.storage.errors import StorageRejected
from durable_tui.storage.records import Gate, TaskRecord

log = logging.getLogger(__name__)


class QueueOwner(Protocol):
    """What keeps inputs for conversations, and lets go of them when the work above is aborted (spec 6.8)."""

    async def has_inputs(self, conversation_ids: list[int]) -> bool:
        """Whether an input is queued in one of the conversations."""

    async def describe(self, conversation_ids: list[int]) -> list[QueuedAtDeath]:
        """What is queued in the conversations, for a report."""

    async def withdraw_inputs(self, tx: Transaction, conversation_ids: list[int]) -> None:
        """Withdraw the queued inputs of the conversations, in this commit."""


class Scheduler:
    """One per session. `start()` begins; until then nothing is dispatched (spec 7, 15)."""

    def __init__(
        self,
        session: Session,
        definitions: Definitions,
        invocations: Invocations,
        gates: Gates,
        recovery: RecoveryReport,
        space: Space,
        reports: Reports,
        tidying: Tidying,
        queue: QueueOwner,
        *,
        restart_limit: int,
        wakeup: asyncio.Event,
    ) -> None:
        self.active = False
        self.closing = False
        self.blocked: dict[int, str] = {}
        self._session = session
        self._definitions = definitions
        self._invocations = invocations
        self._gates = gates
        self._recovery = recovery
        self._space = space
        self._reports = reports
        self._tidying = tidying
        self._queue = queue
        self._restart_limit = restart_limit
        self._on_blocked: list[Callable[[], None]] = []
        self._unproven: set[int] = set()
        self._wakeup = wakeup
        self._timer = Timer(session, self.wake)
        self._pump: asyncio.Task[None] | None = None
        session.observe(self._observe)

    # -- from outside --------------------------------------------------------------------------------------------

    def start(self) -> None:
        """Begin, or go on. Idempotent."""
        if self.closing:
            return
        self.active = True
        if self._pump is None:
            self._pump = asyncio.get_running_loop().create_task(self._run(), name="scheduler")
        self.wake()

    def wake(self) -> None:
        """Look again soon; notices coalesce."""
        self._wakeup.set()

    def adopt_recovered(self, task_ids: list[int], *, serial: bool) -> None:
        """The tasks found at open; after two deaths in a row they start one at a time (spec 6.11)."""
        if serial:
            self._unproven = set(task_ids)
        for record in self._session.tasks.values():
            self._note_gate(record)

    def may_reserve(self, record: TaskRecord) -> bool:
        """Whether a task may be made running in the commit that creates or wakes it."""
        if not self.can_start() or record["abortRequested"] or record["id"] in self._unproven:
            return False
        if self._recovery.is_undecided(record["id"]) and self._recovery.found_as(record["id"]) != "waiting":
            return False  # its decision comes first
        definition = self._definitions.get(record["kind"])
        return (
            definition is not None
            and definition.version == record["version"]
            and self._definitions.blocked(record) is None
        )

    def on_blocked(self, listener: Callable[[], None]) -> Callable[[], None]:
        """Call `listener` when what is blocked changes; returns how to stop that."""
        self._on_blocked.append(listener)
        return lambda: self._on_blocked.remove(listener) if listener in self._on_blocked else None

    def _tell_blocked(self) -> None:
        for listener in list(self._on_blocked):
            listener()

    def can_start(self) -> bool:
        """Whether new work is dispatched at once."""
        return self.active and not self.closing and not self._space.full

    async def close(self) -> None:
        """Start nothing more; end and join every invocation (spec 13)."""
        self.closing = self._invocations.closing = True
        self.wake()
        self._timer.cancel()
        self._space.close()
        self._invocations.end_all()
        if self._pump is not None:
            await asyncio.wait([self._pump])  # a pass in the middle may still have invoked something
        self._invocations.end_all()
        await self._invocations.joined()

    # -- the loop ------------------------------------------------------------------------------------------------

    def _observe(self, commit: Commit) -> None:
        self._follow_gates(commit)
        if not commit.tasks:
            return
        for before, after in commit.tasks:
            task_id = after["id"]
            if task_id in self._unproven and (before is None or checkpoint_of(before) != checkpoint_of(after)):
                self._unproven.discard(task_id)
            if after["abortRequested"] and (before is None or not before["abortRequested"]):
                self._invocations.rouse(task_id)
            if status_of(after) == "terminal":
                self.blocked.pop(task_id, None)
                self._definitions.forget(task_id)
                self._invocations.forget(task_id)
        self.wake()

    def _follow_gates(self, commit: Commit) -> None:
        """Bring `blocked` to what the gates are after a commit: who is shown that commit must not see them otherwise."""
        for before, after in commit.tasks:
            if gate_of(after) is not None or (before is not None and gate_of(before) is not None):
                self._note_gate(after)
        opened = [task_id for task_id, gate in self._holding_gates() if self._gates.is_open(gate)]
        for task_id in opened:
            del self.blocked[task_id]
        if opened:
            self._tell_blocked()
            self.wake()

    def _holding_gates(self) -> list[tuple[int, Gate]]:
        """The tasks that nothing but a gate keeps from starting, with their gates."""
        return [
            (task_id, gate)
            for task_id, reason in self.blocked.items()
            if (task := self._session.tasks.get(task_id)) is not None
            and (gate := gate_of(task)) is not None
            and gate["reason"] == reason
            and not task["abortRequested"]
        ]

    def _note_gate(self, record: TaskRecord) -> None:
        gate = gate_of(record)
        if gate is None or record["abortRequested"] or self._gates.is_open(gate):
            self.blocked.pop(record["id"], None)
        else:
            self.blocked[record["id"]] = gate["reason"]

    async def _run(self) -> None:
        while True:
            await self._wakeup.wait()
            self._wakeup.clear()
            if self.closing:
                return
            if self._session.state != "open":
                self._invocations.end_all()  # what ended because nothing can be stored must not be started again
                return
            if not self.active:
                continue
            try:
                await self._pass()
            except FATAL as error:
                log.warning("the scheduler stops: %s", error)
                self._invocations.end_all()
                return
            except StorageRejected as error:
                if not error.full:  # else the search for space wakes it
                    self._wake_later(0.2)
            except Exception:
                log.exception("the scheduler failed to look through the tasks")
                self._wake_later(1.0)

    def _wake_later(self, seconds: float) -> None:
        asyncio.get_running_loop().call_later(seconds, self.wake)

    async def _pass(self) -> None:
        tasks = self._session.tasks
        if self._space.full and not await self._probe():
            return
        if not tasks:
            self._tidying.soon()
        await self._cascade()
        children = children_of(tasks, self._session.conversations)
        for task_id in sorted(tasks):
            record = tasks.get(task_id)
            if record is None or self.closing or self._invocations.is_resting(task_id):
                continue
            try:
                await self._advance(record, bool(children.get(task_id)))
            except FATAL:
                raise
            except StorageRejected as error:
                if error.full:
                    raise
                self._invocations.pause(task_id, error)
            except Exception as error:
                # One task's trouble must not keep the others from going on.
                log.exception("task %s: the scheduler failed", task_id)
                self._invocations.rest(task_id)
                self._reports.add(f"task {task_id} cannot go on: {describe(error)}")
        if not self.closing:
            # Whatever else keeps a task from starting wakes the scheduler by itself.
            self._timer.arm(
                gate for task_id, gate in self._holding_gates() if not self._invocations.is_resting(task_id)
            )

    async def _advance(self, record: TaskRecord, has_work: bool) -> None:
        """Do what stands next for one task; `has_work` says that ordinary work it owns lives."""
        task_id, status = record["id"], status_of(record)
        invocation = self._invocations.get(task_id)
        if status == "completing":
            if not has_work:
                await self._touch(task_id)
        elif record["abortRequested"]:
            if invocation is not None:
                if not invocation.handle.aborting:
                    invocation.end()
            elif not has_work:
                await self._abort(record)
        elif invocation is not None:
            return
        elif (waiting := waiting_of(record)) is not None:
            if all(other not in self._session.tasks for other in waiting["on"]):
                await self._touch(task_id)
        else:
            await self._start(record)

    async def _touch(self, task_id: int) -> None:
        """Let a commit settle what stands ready; the task rules decide."""
        async with self._session.commit() as tx:
            record = self._session.tasks.get(task_id)
            if record is not None:
                tx.put_task(record)

    async def _probe(self) -> bool:
        """Try a commit while the store is full; without any live task the next writer finds out."""
        record = next(iter(self._session.tasks.values()), None)
        if record is None:
            return False
        await self._touch(record["id"])
        return not self._space.full

    # -- abort ---------------------------------------------------------------------------------------------------

    async def _cascade(self) -> None:
        """Mark what belongs to marked owners or to owners held with another outcome than completed (spec 6.8)."""
        session = self._session
        roots = [task_id for task_id, task in session.tasks.items() if _cascades(task)]
        if not roots:
            return
        children = children_of(session.tasks, session.conversations)
        to_mark = [
            task_id
            for task_id in below(roots, children)
            if not session.tasks[task_id]["abortRequested"] and not is_decided(session.tasks[task_id])
        ]
        conversations = conversations_below(roots, session.conversations, children)
        if not to_mark and not await self._queue.has_inputs(conversations):
            return
        async with session.commit() as tx:
            await self._queue.withdraw_inputs(tx, conversations)
            marked = mark_for_abort(tx, to_mark)
        for task_id in marked:
            self._invocations.signal_abort(task_id)

    async def _abort(self, record: TaskRecord) -> None:
        reason = self._definitions.why_not(record)
        if reason is None and not await self._migrate(record):
            reason = "migration_failed"
        if reason is not None:
            await self._invocations.abandon(record, Abandonment(reason), {"status": "orphaned", "reason": reason})
            return
        current = self._session.tasks.get(record["id"])
        definition = self._definitions.get(record["kind"])
        if current is None or definition is None or self.closing:
            return
        self._invocations.start_abort(current, definition)

    async def _migrate(self, record: TaskRecord) -> bool:
        """Bring a task that is to be aborted to its code's version; False when its migration fails (spec 6.9)."""
        migrated = self._definitions.migrated(record)
        if migrated is None:
            return False
        checkpoint, version = migrated
        if version != record["version"]:
            async with self._session.commit() as tx:
                current = self._session.tasks.get(record["id"])
                if current is not None and not is_decided(current):
                    tx.put_task(migrated_to(current, checkpoint, version))
        return True

    # -- start ---------------------------------------------------------------------------------------------------

    def why_blocked(self, record: TaskRecord) -> str | None:
        """Why a task stays put: a derived reason (spec 6.9, 6.11), that of its gate (spec 6.12) or of its kind, or None.

        What is marked for abort stays for nothing but its own work: its abort handler needs no gate.
        """
        if record["abortRequested"]:
            return None
        limit = self._restart_limit
        if limit and record.get("restarts", 0) >= limit:
            return RESTART_LIMIT
        reason = self._definitions.why_not(record)
        if reason is not None:
            return reason
        gate = gate_of(record)
        if gate is not None:
            return None if self._gates.is_open(gate) else gate["reason"]
        return self._definitions.blocked(record) if status_of(record) == "pending" else None

    async def _start(self, record: TaskRecord) -> None:
        task_id = record["id"]
        reason = self.why_blocked(record)
        if reason is not None:
            await self._block(record, reason)
            return
        if self.blocked.pop(task_id, None) is not None:
            self._tell_blocked()
        if task_id in self._unproven and self._invocations.any_of(self._unproven):
            return
        if status_of(record) == "pending" and not await self._reserve(record):
            return
        current = self._session.tasks.get(task_id)
        if current is None or status_of(current) != "running" or current["abortRequested"]:
            return
        if self._space.full or self.closing:
            return
        self._invocations.start(current, gate_of(record))

    async def _block(self, record: TaskRecord, reason: str) -> None:
        if self.blocked.get(record["id"]) != reason:
            self.blocked[record["id"]] = reason
            self._tell_blocked()
        if self._recovery.is_undecided(record["id"]):
            if reason == RESTART_LIMIT:
                decision = Decision("gaveUp", "6.11", reason)
            elif reason not in PARKED and gate_of(record) is not None:
                decision = Decision("resumed", "6.12")  # it waits on as it did before
            else:
                decision = Decision("blocked", "6.9", reason)
            async with self._session.commit() as tx:
                await self._recovery.note(tx, record["id"], decision)

    async def _reserve(self, record: TaskRecord) -> bool:
        """Make a pending task running, migrating it first when its code is newer (spec 6.9).

        What recovery does with a task found at work is decided here, once, and stored with the reservation (spec 15).
        """
        migrated = self._definitions.migrated(record)
        if migrated is None:
            await self._block(record, "migration_failed")
            return False
        checkpoint, version = migrated
        undecided = self._recovery.is_undecided(record["id"])
        found = migrated_to(record, checkpoint, version)
        decision = await self._definitions.verdict(found) if undecided else None
        async with self._session.commit() as tx:
            current = self._session.tasks.get(record["id"])
            if current is None or current["state"] != record["state"] or current["abortRequested"]:
                return False  # it ended, or was given another checkpoint or gate meanwhile
            reserved = changed(current, state={"status": "running", "checkpoint": checkpoint}, version=version)
            if "startedAt" not in current:
                reserved["startedAt"] = self._session.now()
            if decision is not None:
                reserved["recovery"] = await self._recovery.decide(tx, record["id"], decision)
            tx.put_task(reserved)
        return True


def _cascades(task: TaskRecord) -> bool:
    if status_of(task) == "completing":
        outcome = outcome_of(task)
        return outcome is not None and outcome["status"] != "completed"
    return task["abortRequested"]
