"""The in-memory executions of tasks: they run phases, and judge how those end (spec 6.3, 6.8)."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Coroutine
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from durable_tui.agent.cleanup import clean_up
from durable_tui.engine.task import (
    InvocationEnded,
    TaskContext,
    TaskDefinition,
    changed,
    checkpoint_of,
    decide,
    describe,
    is_decided,
    status_of,
)
from durable_tui.session import SessionClosed, SessionPoisoned
from durable_tui.storage.errors import Fenced, StorageRejected, StorageUncertain

if TYPE_CHECKING:
    from durable_tui.engine.scheduler import Scheduler

log = logging.getLogger(__name__)
FATAL = (Fenced, SessionPoisoned, SessionClosed, StorageUncertain)
REFUSALS = 3  # steps of one phase that the store may refuse, space not being the matter, before the task faults


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


class Invocations:
    """The invocations of one scheduler: at most one a task."""

    def __init__(self, scheduler: Scheduler) -> None:
        self.kernel = scheduler.kernel
        self._scheduler = scheduler
        self._running: dict[int, Invocation] = {}
        self._backoff: dict[int, float] = {}
        self._not_before: dict[int, float] = {}
        self._refusals: dict[int, int] = {}

    # -- from outside --------------------------------------------------------------------------------------------

    def start(self, context: TaskContext) -> None:
        """Run the phases of a reserved task."""
        self._invoke(context, self._drive(context))

    def start_abort(self, context: TaskContext, definition: TaskDefinition) -> None:
        """Run the abort handler of a marked task whose owned work drained."""
        self._invoke(context, self._drive_abort(context, definition))

    def get(self, task_id: int) -> Invocation | None:
        return self._running.get(task_id)

    def any_of(self, task_ids: set[int]) -> bool:
        """Whether one of these tasks is at work."""
        return any(task_id in task_ids for task_id in self._running)

    def is_at_work(self, task_id: int) -> bool:
        """Whether an invocation of the task runs."""
        return task_id in self._running

    async def join(self, task_id: int) -> None:
        """Wait until no invocation of the task runs."""
        invocation = self._running.get(task_id)
        if invocation is not None and invocation.task is not asyncio.current_task():
            await asyncio.wait([invocation.task])

    def signal_abort(self, task_id: int) -> None:
        """End the run invocation of a task that was marked."""
        invocation = self._running.get(task_id)
        if invocation is not None and not invocation.context.aborting:
            invocation.end()

    def was_asked(self, task_id: int) -> bool:
        """Whether somebody asked the task's invocation to end."""
        invocation = self._running.get(task_id)
        return invocation is None or invocation.asked

    def end_all(self) -> None:
        """End every invocation: the session closes or can store nothing more."""
        for invocation in list(self._running.values()):
            invocation.end()

    async def joined(self) -> None:
        """Wait until none runs any more."""
        while running := [invocation.task for invocation in self._running.values() if not invocation.task.done()]:
            await asyncio.wait(running)

    # -- leaving a task alone for a while --------------------------------------------------------------------------

    def rest(self, task_id: int) -> None:
        """Leave a task alone for a while, longer each time."""
        delay = min(self._backoff.get(task_id, 0.1) * 2, 10.0)
        self._backoff[task_id] = delay
        self._not_before[task_id] = asyncio.get_running_loop().time() + delay
        self._scheduler.wake_later(delay + 0.01)

    def resting(self, task_id: int) -> bool:
        return self._not_before.get(task_id, 0.0) > asyncio.get_running_loop().time()

    def rouse(self, task_id: int) -> None:
        """A resting task was marked for abort: that does not wait."""
        self._not_before.pop(task_id, None)

    def forget(self, task_id: int) -> None:
        """The task has ended."""
        self._backoff.pop(task_id, None)
        self._not_before.pop(task_id, None)
        self._refusals.pop(task_id, None)

    def pause(self, task_id: int, error: StorageRejected) -> None:
        """A step the store rejected ends the invocation; the task stays running and is taken up again (spec 6.3)."""
        self.kernel.report(f"a step of task {task_id} could not be stored: {error}")
        if not self._scheduler.full:  # else the search for space decides when anything goes on
            self.rest(task_id)

    # -- running -------------------------------------------------------------------------------------------------

    def _invoke(self, context: TaskContext, coroutine: Coroutine[Any, Any, None]) -> None:
        invocation = Invocation(context)
        self._running[context.id] = invocation
        invocation.task = asyncio.get_running_loop().create_task(
            self._watched(context.id, invocation, coroutine), name=f"task {context.id}"
        )

        def gone(_: asyncio.Task[None]) -> None:
            coroutine.close()  # cancelled before its first step, a task runs no `finally`
            self._forget(context.id, invocation)

        invocation.task.add_done_callback(gone)

    def _forget(self, task_id: int, invocation: Invocation) -> None:
        invocation.context.ended = True
        if self._running.get(task_id) is invocation:
            del self._running[task_id]
            self._scheduler.wake()

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
        """Run phase after phase until the task ends, waits, or may not go on, in the order of spec 6.3."""
        definition: TaskDefinition | None = None
        while True:
            record = self.kernel.session.tasks[context.id]
            before = checkpoint_of(record)
            context.waited = False
            error: BaseException | None = None
            try:
                definition = self._scheduler.fitting.code_for(record, definition)
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
            if after is None or status_of(after) != "running" or self._scheduler.closing or after["abortRequested"]:
                return
            invocation = self._running.get(context.id)
            if isinstance(error, asyncio.CancelledError) and invocation is not None and invocation.asked:
                return
            if error is not None:
                await self._failed(context, error)
                return
            if checkpoint_of(after) == before and not context.waited:
                await self._fault(context, f"phase {before.get('phase')} ended without durable progress")
                return
            self.forget(context.id)

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
        record = self.kernel.session.tasks.get(context.id)
        if self._scheduler.closing or record is None or is_decided(record):
            return
        if isinstance(error, asyncio.CancelledError) and self.was_asked(context.id):
            return
        if error is not None:
            await self._failed(context, error)
        else:
            await self._fault(context, "the abort handler ended without an outcome")

    async def _failed(self, context: TaskContext, error: BaseException) -> None:
        if isinstance(error, InvocationEnded):
            return
        if isinstance(error, FATAL):
            log.warning("task %s stops: %s", context.id, error)
            return
        if isinstance(error, StorageRejected):
            if not error.full:
                self._refusals[context.id] = self._refusals.get(context.id, 0) + 1
            if self._refusals.get(context.id, 0) < REFUSALS:
                self.pause(context.id, error)
                return
        if not isinstance(error, asyncio.CancelledError):
            log.error("task %s failed", context.id, exc_info=error)
        text = "cancelled, but nobody asked" if isinstance(error, asyncio.CancelledError) else describe(error)
        await self._fault(context, text)

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
            self.pause(context.id, rejected)
