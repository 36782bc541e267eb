"""Starts, resumes and ends tasks, driven by committed changes alone (spec 6, 7)."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from durable_tui.agent.cleanup import clean_up, withdraw_queued
from durable_tui.engine.compatibility import Fitting
from durable_tui.engine.execution import FATAL, Invocations
from durable_tui.engine.ownership import below, children_of, conversations_below
from durable_tui.engine.recovery import note_verdict
from durable_tui.engine.task import (
    InvocationEnded,
    TaskContext,
    changed,
    checkpoint_of,
    decide,
    describe,
    is_decided,
    outcome_of,
    status_of,
)
from durable_tui.session import Commit
from durable_tui.storage.errors import StorageRejected
from durable_tui.storage.records import TaskRecord

if TYPE_CHECKING:
    from durable_tui.engine.kernel import Kernel

log = logging.getLogger(__name__)


class Scheduler:
    """One per harness. `start()` begins; until then nothing is dispatched (spec 7, 15)."""

    def __init__(self, kernel: Kernel) -> None:
        self.kernel = kernel
        self.active = False
        self.closing = False
        self.full = False
        self.blocked: dict[int, str] = {}
        self._on_blocked: list[Callable[[], None]] = []
        self._unproven: set[int] = set()
        self.fitting = Fitting(kernel)
        self.invocations = Invocations(self)
        self._wakeup = asyncio.Event()
        self._pump: asyncio.Task[None] | None = None
        self._space = asyncio.Event()
        self._space_timer: asyncio.TimerHandle | None = None
        kernel.session.on_rejected = self._rejected
        kernel.session.observe(self._observe)
        kernel.registry.on_change(self.wake)

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

    def may_reserve(self, record: TaskRecord) -> bool:
        """Whether a task may be made running in the commit that creates or wakes it."""
        if not self.active or self.closing or self.full or record["abortRequested"]:
            return False
        if record["id"] in self._unproven:
            return False
        definition = self.kernel.definition(record["kind"])
        return definition is not None and definition.version == record["version"]

    def on_blocked(self, listener: Callable[[], None]) -> Callable[[], None]:
        """Call `listener` when what is blocked changes; returns how to stop that."""
        self._on_blocked.append(listener)
        return lambda: self._on_blocked.remove(listener) if listener in self._on_blocked else None

    def _tell_blocked(self) -> None:
        for listener in list(self._on_blocked):
            listener()

    def can_start(self) -> bool:
        """Whether new work is dispatched at once."""
        return self.active and not self.closing and not self.full

    async def close(self) -> None:
        """Start nothing more; end and join every invocation (spec 13)."""
        self.closing = True
        self.wake()
        self._space.set()
        self.invocations.end_all()
        if self._pump is not None:
            await asyncio.wait([self._pump])  # a pass in the middle may still have invoked something
        self.invocations.end_all()
        await self.invocations.joined()
        if self._space_timer is not None:
            self._space_timer.cancel()

    def _rejected(self, error: StorageRejected) -> None:
        """Any commit was refused; for lack of space: start nothing until one succeeds (spec 3.6)."""
        if not error.full:
            return
        self.full = True
        self._space.clear()
        self.kernel.set_problem(f"not saved: {error}")
        if self._space_timer is None and not self.closing:
            interval = self.kernel.settings.space_interval
            self._space_timer = asyncio.get_running_loop().call_later(interval, self._look_for_space)

    def _look_for_space(self) -> None:
        self._space_timer = None
        if self.full:
            self.wake()

    async def wait_for_space(self) -> None:
        """Wait until a commit may be worth trying again."""
        if self.closing:
            raise InvocationEnded("the session is closing")
        try:
            await asyncio.wait_for(self._space.wait(), self.kernel.settings.space_interval)
        except TimeoutError:
            pass
        if self.closing:
            raise InvocationEnded("the session is closing")

    # -- the loop ------------------------------------------------------------------------------------------------

    def _observe(self, commit: Commit) -> None:
        if self.full:
            self.full = False
            self._space.set()
            self.kernel.set_problem(None)
            self.wake()
        if not commit.tasks:
            return
        for before, after in commit.tasks:
            task_id = after["id"]
            if task_id in self._unproven and (before is None or checkpoint_of(before) != checkpoint_of(after)):
                self._unproven.discard(task_id)
            if after["abortRequested"] and (before is None or not before["abortRequested"]):
                self.invocations.rouse(task_id)
            if status_of(after) == "terminal":
                self.blocked.pop(task_id, None)
                self.fitting.forget(task_id)
                self.invocations.forget(task_id)
        self.wake()

    async def _run(self) -> None:
        while True:
            await self._wakeup.wait()
            self._wakeup.clear()
            if self.closing:
                return
            if self.kernel.session.state != "open":
                self.invocations.end_all()  # what ended because nothing can be stored any more must not be started again
                return
            if not self.active:
                continue
            try:
                await self._pass()
            except FATAL as error:
                log.warning("the scheduler stops: %s", error)
                self.invocations.end_all()
                return
            except StorageRejected as error:
                if not error.full:  # else the search for space wakes it
                    self.wake_later(0.2)
            except Exception:
                log.exception("the scheduler failed to look through the tasks")
                self.wake_later(1.0)

    def wake_later(self, seconds: float) -> None:
        """Look again after some seconds."""
        asyncio.get_running_loop().call_later(seconds, self.wake)

    async def _pass(self) -> None:
        tasks = self.kernel.session.tasks
        if self.full and not await self._probe():
            return
        if not tasks:
            self.kernel.tidy_soon()
        await self._cascade()
        children = children_of(tasks, self.kernel.session.conversations)
        for task_id in sorted(tasks):
            record = tasks.get(task_id)
            if record is None or self.closing or self.invocations.resting(task_id):
                continue
            try:
                await self._advance(record, bool(children.get(task_id)))
            except FATAL:
                raise
            except StorageRejected as error:
                if error.full:
                    raise
                self.invocations.pause(task_id, error)
            except Exception as error:
                # One task's trouble must not keep the others from going on.
                log.exception("task %s: the scheduler failed", task_id)
                self.invocations.rest(task_id)
                self.kernel.report(f"task {task_id} cannot go on: {describe(error)}")

    async def _advance(self, record: TaskRecord, has_work: bool) -> None:
        """Do what stands next for one task; `has_work` says that ordinary work it owns lives."""
        tasks = self.kernel.session.tasks
        task_id, status = record["id"], status_of(record)
        invocation = self.invocations.get(task_id)
        if status == "completing":
            if not has_work:
                await self._touch(task_id)
        elif record["abortRequested"]:
            if invocation is not None:
                if not invocation.context.aborting:
                    invocation.end()
            elif not has_work:
                await self._abort(record)
        elif invocation is not None:
            return
        elif status == "waiting":
            if all(other not in tasks for other in record["state"]["on"]):
                await self._touch(task_id)
        else:
            await self._start(record)

    async def _touch(self, task_id: int) -> None:
        """Let a commit settle what stands ready; the settling rules decide."""
        async with self.kernel.session.commit() as tx:
            record = self.kernel.session.tasks.get(task_id)
            if record is not None:
                tx.put_task(record)

    async def _probe(self) -> bool:
        """Try a commit while the store is full; without any live task the next writer finds out."""
        record = next(iter(self.kernel.session.tasks.values()), None)
        if record is None:
            return False
        await self._touch(record["id"])
        return not self.full

    # -- abort ---------------------------------------------------------------------------------------------------

    async def _cascade(self) -> None:
        """Mark what belongs to marked owners or to owners held with another outcome than completed (spec 6.8)."""
        session = self.kernel.session
        roots = [task_id for task_id, task in session.tasks.items() if _cascades(task)]
        if not roots:
            return
        children = children_of(session.tasks, session.conversations)
        marked = [
            task_id
            for task_id in below(roots, children)
            if not session.tasks[task_id]["abortRequested"] and not is_decided(session.tasks[task_id])
        ]
        conversations = conversations_below(roots, session.conversations, children)
        if not marked and not await self._queued(conversations):
            return
        async with session.commit() as tx:
            for conversation_id in conversations:
                await withdraw_queued(tx, conversation_id)
            for task_id in marked:
                record = session.tasks.get(task_id)
                if record is not None and not record["abortRequested"] and not is_decided(record):
                    tx.put_task(changed(record, abortRequested=True))
        for task_id in marked:
            self.invocations.signal_abort(task_id)

    async def _queued(self, conversations: list[int]) -> bool:
        from durable_tui.agent.documents import INBOX

        for conversation_id in conversations:
            items = (await self.kernel.session.value(INBOX, conversation_id))["items"]
            if any(item["mode"] != "write" for item in items):
                return True
        return False

    async def _abort(self, record: TaskRecord) -> None:
        reason = self.fitting.why_not(record)
        if reason is None and not await self._migrate(record):
            reason = "migration_failed"
        if reason is not None:
            await self._orphan(record, reason)
            return
        current = self.kernel.session.tasks.get(record["id"])
        definition = self.kernel.definition(record["kind"])
        if current is None or definition is None or self.closing:
            return
        context = TaskContext(self.kernel, current, aborting=True)
        self.invocations.start_abort(context, definition)

    async def _migrate(self, record: TaskRecord) -> bool:
        """Bring a task that is to be aborted to its code's version; False when its migration fails (spec 6.9)."""
        moved = self.fitting.migrated(record)
        if moved is None:
            return False
        checkpoint, version = moved
        if version != record["version"]:
            async with self.kernel.session.commit() as tx:
                current = self.kernel.session.tasks.get(record["id"])
                if current is not None and not is_decided(current):
                    tx.put_task(changed(current, state={**current["state"], "checkpoint": checkpoint}, version=version))
        return True

    async def _orphan(self, record: TaskRecord, reason: str) -> None:
        async with self.kernel.session.commit() as tx:
            current = self.kernel.session.tasks.get(record["id"])
            if current is None or is_decided(current):
                return
            await clean_up(self.kernel, tx, current, reason)
            decide(tx, current, {"status": "orphaned", "reason": reason})

    # -- start ---------------------------------------------------------------------------------------------------

    def why_blocked(self, record: TaskRecord) -> str | None:
        """Why a task stays put: a derived reason (spec 6.9, 6.11), or None."""
        limit = self.kernel.settings.restart_limit
        if limit and record.get("restarts", 0) >= limit:
            return "restart_limit"
        return self.fitting.why_not(record)

    async def _start(self, record: TaskRecord) -> None:
        task_id = record["id"]
        reason = self.why_blocked(record)
        if reason is not None:
            await self._block(record, reason)
            return
        if self.blocked.pop(task_id, None) is not None:
            self._tell_blocked()
        if task_id in self._unproven and self.invocations.any_of(self._unproven):
            return
        if status_of(record) == "pending" and not await self._reserve(record):
            return
        current = self.kernel.session.tasks.get(task_id)
        if current is None or status_of(current) != "running" or current["abortRequested"]:
            return
        if self.full or self.closing:
            return
        context = TaskContext(self.kernel, current)
        self.invocations.start(context)

    async def _block(self, record: TaskRecord, reason: str) -> None:
        if self.blocked.get(record["id"]) != reason:
            self.blocked[record["id"]] = reason
            self._tell_blocked()
        if record["id"] in self.kernel.undecided:
            verdict, rule = ("gaveUp", "6.11") if reason == "restart_limit" else ("blocked", "6.9")
            async with self.kernel.session.commit() as tx:
                await note_verdict(self.kernel, tx, record["id"], verdict, rule, detail=reason)

    async def _reserve(self, record: TaskRecord) -> bool:
        """Make a pending task running, migrating it first when its code is newer (spec 6.9)."""
        moved = self.fitting.migrated(record)
        if moved is None:
            await self._block(record, "migration_failed")
            return False
        checkpoint, version = moved
        verdict = await self._verdict(record)
        async with self.kernel.session.commit() as tx:
            current = self.kernel.session.tasks.get(record["id"])
            if current is None or status_of(current) != "pending" or current["abortRequested"]:
                return False
            changes: dict[str, Any] = {"state": {"status": "running", "checkpoint": checkpoint}, "version": version}
            if "startedAt" not in current:
                changes["startedAt"] = self.kernel.session.now()
            tx.put_task(changed(current, **changes))
            if verdict is not None:
                await note_verdict(self.kernel, tx, record["id"], verdict, "15")
        return True

    async def _verdict(self, record: TaskRecord) -> str | None:
        if record["id"] not in self.kernel.undecided:
            return None
        phase = checkpoint_of(record).get("phase")
        if record["kind"] == "pi.tool":
            if phase == "call":
                return "restarted"
            from durable_tui.agent.tool_task import rerun_allowed

            return "rerun" if await rerun_allowed(self.kernel, record) else None
        if record["kind"] in ("pi.generation", "pi.compaction"):
            return {"prepare": "restarted", "select": "restarted", "request": "resent", "summarize": "resent"}.get(
                str(phase), "resumed"
            )
        return "resumed"


def _cascades(task: TaskRecord) -> bool:
    if status_of(task) == "completing":
        return bool(outcome_of(task)["status"] != "completed")
    return task["abortRequested"]
