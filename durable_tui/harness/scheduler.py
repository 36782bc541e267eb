"""Starts, resumes and ends tasks, driven by committed changes alone (contract 6, 7)."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from durable_tui.harness.cleanup import clean_up, withdraw_queued
from durable_tui.harness.fitting import Fitting
from durable_tui.harness.graph import below, children_of, conversations_below
from durable_tui.harness.recovery import note_verdict
from durable_tui.harness.tasks import (
    InvocationEnded,
    TaskContext,
    TaskDefinition,
    changed,
    checkpoint_of,
    decide,
    describe,
    is_decided,
    outcome_of,
    status_of,
)
from durable_tui.session import Commit, SessionClosed, SessionPoisoned
from durable_tui.storage.errors import Fenced, StorageRejected, StorageUncertain
from durable_tui.storage.records import TaskRecord

if TYPE_CHECKING:
    from durable_tui.harness.kernel import Kernel

log = logging.getLogger(__name__)
FATAL = (Fenced, SessionPoisoned, SessionClosed, StorageUncertain)


@dataclass(slots=True)
class Invocation:
    """The in-memory execution of one task; `asked` says that somebody asked it to end."""

    context: TaskContext
    task: asyncio.Task[None] = field(init=False)
    asked: bool = False

    def end(self) -> None:
        if not self.asked:
            self.asked = True
            self.task.cancel()


class Scheduler:
    """One per harness. `start()` begins; until then nothing is dispatched (contract 7, 15)."""

    def __init__(self, kernel: Kernel) -> None:
        self.kernel = kernel
        self.active = False
        self.closing = False
        self.full = False
        self.serial = False
        self.blocked: dict[int, str] = {}
        self._on_blocked: list[Callable[[], None]] = []
        self._unproven: set[int] = set()
        self._invocations: dict[int, Invocation] = {}
        self.fitting = Fitting(kernel)
        self._backoff: dict[int, float] = {}
        self._not_before: dict[int, float] = {}
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
        """The tasks found at open; after two deaths in a row they start one at a time (contract 6.11)."""
        self.serial = serial
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

    async def join(self, task_id: int) -> None:
        """Wait until no invocation of the task runs."""
        invocation = self._invocations.get(task_id)
        if invocation is not None and invocation.task is not asyncio.current_task():
            await asyncio.wait([invocation.task])

    def signal_abort(self, task_id: int) -> None:
        """End the run invocation of a task that was marked."""
        invocation = self._invocations.get(task_id)
        if invocation is not None and not invocation.context.aborting:
            invocation.end()

    def was_asked(self, task_id: int) -> bool:
        """Whether somebody asked the task's invocation to end."""
        invocation = self._invocations.get(task_id)
        return invocation is None or invocation.asked

    def is_invocation(self) -> bool:
        """Whether the caller runs inside a task's own invocation, which must not wait for itself."""
        current = asyncio.current_task()
        return any(invocation.task is current for invocation in self._invocations.values())

    async def close(self) -> None:
        """Start nothing more; end and join every invocation (contract 13)."""
        self.closing = True
        self.wake()
        self._space.set()
        self.end_all()
        if self._pump is not None:
            await asyncio.wait([self._pump])  # a pass in the middle may still have invoked something
        self.end_all()
        while running := [invocation.task for invocation in self._invocations.values() if not invocation.task.done()]:
            await asyncio.wait(running)
        if self._space_timer is not None:
            self._space_timer.cancel()

    def _rejected(self, error: StorageRejected) -> None:
        """Any commit was refused; for lack of space: start nothing until one succeeds (contract 3.6)."""
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
                self._not_before.pop(task_id, None)
            if status_of(after) == "terminal":
                self.blocked.pop(task_id, None)
                self.fitting.forget(task_id)
                self._backoff.pop(task_id, None)
                self._not_before.pop(task_id, None)
        self.wake()

    async def _run(self) -> None:
        while True:
            await self._wakeup.wait()
            self._wakeup.clear()
            if self.closing:
                return
            if self.kernel.session.state != "open":
                self.end_all()  # what ended because nothing can be stored any more must not be started again
                return
            if not self.active:
                continue
            try:
                await self._pass()
            except FATAL as error:
                log.warning("the scheduler stops: %s", error)
                self.end_all()
                return
            except StorageRejected as error:
                if not error.full:  # else the search for space wakes it
                    self._wake_later(0.2)
            except Exception:
                log.exception("the scheduler failed to look through the tasks")
                self._wake_later(1.0)

    def end_all(self) -> None:
        """The session can store nothing more: end every invocation."""
        for invocation in list(self._invocations.values()):
            invocation.end()

    def _wake_later(self, seconds: float) -> None:
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
            if record is None or self.closing or self._resting(task_id):
                continue
            try:
                await self._advance(record, bool(children.get(task_id)))
            except FATAL:
                raise
            except StorageRejected as error:
                if error.full:
                    raise
                self._pause(task_id, error)
            except Exception as error:
                # One task's trouble must not keep the others from going on.
                log.exception("task %s: the scheduler failed", task_id)
                self._rest(task_id)
                self.kernel.report(f"task {task_id} cannot go on: {describe(error)}")

    async def _advance(self, record: TaskRecord, has_work: bool) -> None:
        """Do what stands next for one task; `has_work` says that ordinary work it owns lives."""
        tasks = self.kernel.session.tasks
        task_id, status = record["id"], status_of(record)
        invocation = self._invocations.get(task_id)
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
        """Mark what belongs to marked owners or to owners held with another outcome than completed (contract 6.8)."""
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
            self.signal_abort(task_id)

    async def _queued(self, conversations: list[int]) -> bool:
        from durable_tui.harness.documents import INBOX

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
        self._invoke(context, self._drive_abort(context, definition))

    async def _migrate(self, record: TaskRecord) -> bool:
        """Bring a task that is to be aborted to its code's version; False when its migration fails (contract 6.9)."""
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

    async def _drive_abort(self, context: TaskContext, definition: TaskDefinition) -> None:
        error: BaseException | None = None
        try:
            if definition.abort is not None:
                await definition.abort(context)
            else:
                async with context.commit() as tx:
                    await clean_up(self.kernel, tx, context.record, "aborted")
                    context.end_aborted(tx)
        except asyncio.CancelledError as cancelled:
            error = cancelled
        except Exception as raised:  # noqa: BLE001 - the task faults with it
            error = raised
        if self.closing or is_decided_or_gone(self.kernel, context.id):
            return
        if isinstance(error, asyncio.CancelledError) and self.was_asked(context.id):
            return
        if error is not None:
            await self._failed(context, error)
        else:
            await self._fault(context, "the abort handler ended without an outcome")

    # -- start ---------------------------------------------------------------------------------------------------

    def why_blocked(self, record: TaskRecord) -> str | None:
        """Why a task stays put: a derived reason (contract 6.9, 6.11), or None."""
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
        if task_id in self._unproven and any(other in self._unproven for other in self._invocations):
            return
        if status_of(record) == "pending" and not await self._reserve(record):
            return
        current = self.kernel.session.tasks.get(task_id)
        if current is None or status_of(current) != "running" or current["abortRequested"]:
            return
        if self.full or self.closing:
            return
        context = TaskContext(self.kernel, current)
        self._invoke(context, self._drive(context))

    async def _block(self, record: TaskRecord, reason: str) -> None:
        if self.blocked.get(record["id"]) != reason:
            self.blocked[record["id"]] = reason
            self._tell_blocked()
        if record["id"] in self.kernel.undecided:
            verdict, rule = ("gaveUp", "6.11") if reason == "restart_limit" else ("blocked", "6.9")
            async with self.kernel.session.commit() as tx:
                await note_verdict(self.kernel, tx, record["id"], verdict, rule, detail=reason)

    async def _reserve(self, record: TaskRecord) -> bool:
        """Make a pending task running, migrating it first when its code is newer (contract 6.9)."""
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
            from durable_tui.harness.toolcall import rerun_allowed

            return "rerun" if await rerun_allowed(self.kernel, record) else None
        if record["kind"] in ("pi.generation", "pi.compaction"):
            return {"prepare": "restarted", "select": "restarted", "request": "resent", "summarize": "resent"}.get(
                str(phase), "resumed"
            )
        return "resumed"

    def _invoke(self, context: TaskContext, coroutine: Any) -> None:
        invocation = Invocation(context)
        self._invocations[context.id] = invocation
        invocation.task = asyncio.get_running_loop().create_task(
            self._watched(context.id, invocation, coroutine), name=f"task {context.id}"
        )

        def gone(_: asyncio.Task[None]) -> None:
            coroutine.close()  # cancelled before its first step, a task runs no `finally`
            self._forget(context.id, invocation)

        invocation.task.add_done_callback(gone)

    def _forget(self, task_id: int, invocation: Invocation) -> None:
        invocation.context.ended = True
        if self._invocations.get(task_id) is invocation:
            del self._invocations[task_id]
            self.wake()

    async def _watched(self, task_id: int, invocation: Invocation, coroutine: Any) -> None:
        try:
            await coroutine
        except asyncio.CancelledError:
            pass
        except FATAL as error:
            log.warning("task %s stops: %s", task_id, error)
        except Exception:
            log.exception("task %s: the scheduler failed", task_id)
        finally:
            self._forget(task_id, invocation)

    async def _drive(self, context: TaskContext) -> None:
        """Run phase after phase until the task ends, waits, or may not go on, in the order of contract 6.3."""
        definition: TaskDefinition | None = None
        while True:
            record = self.kernel.session.tasks[context.id]
            before = checkpoint_of(record)
            context.waited = False
            error: BaseException | None = None
            try:
                definition = self.fitting.code_for(record, definition)
                if definition.version != record["version"]:
                    async with context.commit() as tx:
                        state = {"status": "pending", "checkpoint": before}
                        tx.put_task(changed(context.record, state=state))
                    return
                handler = definition.phases.get(before.get("phase"))
                if handler is None:
                    raise LookupError(f"{record['kind']} has no phase {before.get('phase')!r}")
                await handler(context)
            except asyncio.CancelledError as cancelled:
                error = cancelled
            except Exception as raised:  # noqa: BLE001 - the task faults with it
                error = raised
            after = self.kernel.session.tasks.get(context.id)
            if after is None or status_of(after) != "running" or self.closing or after["abortRequested"]:
                return
            invocation = self._invocations.get(context.id)
            if isinstance(error, asyncio.CancelledError) and invocation is not None and invocation.asked:
                return
            if error is not None:
                await self._failed(context, error)
                return
            if checkpoint_of(after) == before and not context.waited:
                await self._fault(context, f"phase {before.get('phase')} ended without durable progress")
                return
            self._backoff.pop(context.id, None)

    def is_at_work(self, task_id: int) -> bool:
        """Whether an invocation of the task runs."""
        return task_id in self._invocations

    async def _failed(self, context: TaskContext, error: BaseException) -> None:
        if isinstance(error, InvocationEnded):
            return
        if isinstance(error, FATAL):
            log.warning("task %s stops: %s", context.id, error)
            return
        if isinstance(error, StorageRejected):
            self._pause(context.id, error)
            return
        if not isinstance(error, asyncio.CancelledError):
            log.error("task %s failed", context.id, exc_info=error)
        text = "cancelled, but nobody asked" if isinstance(error, asyncio.CancelledError) else describe(error)
        await self._fault(context, text)

    def _pause(self, task_id: int, error: StorageRejected) -> None:
        """A step the store rejected ends the invocation; the task stays running and is taken up again (6.3)."""
        self.kernel.report(f"a step of task {task_id} could not be stored: {error}")
        if not self.full:  # else the search for space decides when anything goes on
            self._rest(task_id)

    def _rest(self, task_id: int) -> None:
        """Leave a task alone for a while, longer each time."""
        delay = min(self._backoff.get(task_id, 0.1) * 2, 10.0)
        self._backoff[task_id] = delay
        self._not_before[task_id] = asyncio.get_running_loop().time() + delay
        self._wake_later(delay + 0.01)

    def _resting(self, task_id: int) -> bool:
        return self._not_before.get(task_id, 0.0) > asyncio.get_running_loop().time()

    async def _fault(self, context: TaskContext, message: str) -> None:
        self.kernel.report(f"task {context.id} faulted: {message}")
        try:
            async with self.kernel.session.commit() as tx:
                record = self.kernel.session.tasks.get(context.id)
                if record is None or is_decided(record):
                    return
                await clean_up(self.kernel, tx, record, "faulted", detail=message)
                decide(tx, record, {"status": "faulted", "error": message})
        except StorageRejected as rejected:
            self._pause(context.id, rejected)


def _cascades(task: TaskRecord) -> bool:
    if status_of(task) == "completing":
        return bool(outcome_of(task)["status"] != "completed")
    return task["abortRequested"]


def is_decided_or_gone(kernel: Kernel, task_id: int) -> bool:
    """Whether a task needs no more code."""
    record = kernel.session.tasks.get(task_id)
    return record is None or is_decided(record)
