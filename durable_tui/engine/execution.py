"""The in-memory executions of tasks: they run phases, and judge how those end (spec 6.3, 6.8)."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine
from dataclasses import dataclass, field

from durable_tui.delta import Json
from durable_tui.engine.definitions import Definitions
from durable_tui.engine.ended_tasks import EndedTasks
from durable_tui.engine.reports import Reports
from durable_tui.engine.space import Space
from durable_tui.engine.task import Abandonment, TaskDefinition
from durable_tui.engine.task_handle import InvocationEnded, TaskHandle
from durable_tui.engine.task_record import (
    changed,
    checkpoint_of,
    decide,
    describe,
    gate_of,
    is_decided,
    phase_of,
    status_of,
)
from durable_tui.session import Session, SessionClosed, SessionPoisoned
from durable_tui.storage.errors import Fenced, StorageError, StorageRejected, StorageUncertain
from durable_tui.storage.records import Gate, Outcome, TaskRecord

log = logging.getLogger(__name__)
FATAL = (Fenced, SessionPoisoned, SessionClosed, StorageUncertain)
REFUSALS = 3  # steps of one phase that the store may refuse, space not being the matter, before the task faults


@dataclass(slots=True)
class Invocation:
    """The in-memory execution of one task; `asked` says that somebody asked it to end."""

    handle: TaskHandle
    task: asyncio.Task[None] = field(init=False)
    asked: bool = False

    def end(self) -> None:
        if not self.asked:
            self.asked = True
            self.task.cancel()


class Invocations:
    """The invocations of one session: at most one a task. `wake` tells the scheduler that one ended."""

    def __init__(
        self,
        session: Session,
        definitions: Definitions,
        ended_tasks: EndedTasks,
        space: Space,
        reports: Reports,
        wake: Callable[[], None],
    ) -> None:
        self.closing = False
        self._session = session
        self._definitions = definitions
        self._ended_tasks = ended_tasks
        self._space = space
        self._reports = reports
        self._wake = wake
        self._running: dict[int, Invocation] = {}
        self._backoff: dict[int, float] = {}
        self._not_before: dict[int, float] = {}
        self._refusals: dict[int, int] = {}

    # -- from outside --------------------------------------------------------------------------------------------

    def start(self, record: TaskRecord, gate: Gate | None) -> None:
        """Run the phases of a reserved task; `gate` is the open one its reservation dropped."""
        handle = TaskHandle(self._session, self._ended_tasks, self._space, record)
        self._invoke(handle, self._drive(handle, gate))

    def start_abort(self, record: TaskRecord, definition: TaskDefinition) -> None:
        """Run the abort handler of a marked task whose owned work drained."""
        handle = TaskHandle(self._session, self._ended_tasks, self._space, record, aborting=True)
        self._invoke(handle, self._drive_abort(handle, definition))

    def get(self, task_id: int) -> Invocation | None:
        """The invocation of a task that runs now."""
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
        if invocation is not None and not invocation.handle.aborting:
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
        loop = asyncio.get_running_loop()
        self._not_before[task_id] = loop.time() + delay
        loop.call_later(delay + 0.01, self._wake)

    def is_resting(self, task_id: int) -> bool:
        """Whether a task is to be left alone for now."""
        return self._not_before.get(task_id, 0.0) > asyncio.get_running_loop().time()

    def rouse(self, task_id: int) -> None:
        """A resting task was marked for abort: that does not wait."""
        self._not_before.pop(task_id, None)

    def forget(self, task_id: int) -> None:
        """The task has ended, or made progress."""
        self._backoff.pop(task_id, None)
        self._not_before.pop(task_id, None)
        self._refusals.pop(task_id, None)

    def pause(self, task_id: int, error: StorageRejected) -> None:
        """A step the store rejected ends the invocation; the task stays running and is taken up again (spec 6.3)."""
        self._reports.add(f"a step of task {task_id} could not be stored: {error}")
        if not self._space.full:  # else the search for space decides when anything goes on
            self.rest(task_id)

    # -- ending a task without its own code ------------------------------------------------------------------------

    async def abandon(self, record: TaskRecord, why: Abandonment, outcome: Outcome) -> None:
        """Commit an outcome the task's own code did not decide, with what its kind leaves in order (spec 6.9)."""
        try:
            await self._commit_abandoned(record["id"], why, outcome, tidy=True)
        except (InvocationEnded, StorageError, *FATAL):
            raise
        except Exception as error:  # noqa: BLE001 - an extension's code; the task must end all the same
            self._reports.add(f"task {record['id']} ({record['kind']}) left its traces: {describe(error)}")
            await self._commit_abandoned(record["id"], why, outcome, tidy=False)

    async def _commit_abandoned(self, task_id: int, why: Abandonment, outcome: Outcome, *, tidy: bool) -> None:
        async with self._session.commit() as tx:
            current = self._session.tasks.get(task_id)
            if current is None or is_decided(current):
                return
            if tidy:
                await self._definitions.abandon(tx, current, why)
            decide(tx, current, outcome)

    # -- running -------------------------------------------------------------------------------------------------

    def _invoke(self, handle: TaskHandle, coroutine: Coroutine[None, None, None]) -> None:
        invocation = Invocation(handle)
        self._running[handle.id] = invocation
        invocation.task = asyncio.get_running_loop().create_task(
            self._watched(handle.id, invocation, coroutine), name=f"task {handle.id}"
        )

        def gone(_: asyncio.Task[None]) -> None:
            coroutine.close()  # cancelled before its first step, a task runs no `finally`
            self._forget(handle.id, invocation)

        invocation.task.add_done_callback(gone)

    def _forget(self, task_id: int, invocation: Invocation) -> None:
        invocation.handle.ended = True
        if self._running.get(task_id) is invocation:
            del self._running[task_id]
            self._wake()

    async def _watched(self, task_id: int, invocation: Invocation, coroutine: Coroutine[None, None, None]) -> None:
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

    async def _drive(self, handle: TaskHandle, gate: Gate | None) -> None:
        """Run phase after phase until the task ends, waits, or may not go on, in the order of 6.3."""
        definition: TaskDefinition | None = None
        while True:
            record = self._session.tasks[handle.id]
            before = checkpoint_of(record)
            handle.waited = False
            error: BaseException | None = None
            try:
                definition = self._definitions.code_for(record, definition)
                if definition.version != record["version"]:
                    async with handle.commit() as tx:
                        tx.put_task(changed(handle.record, state={"status": "pending", "checkpoint": before}))
                    return
                handler = definition.phases.get(str(before.get("phase")))
                if handler is None:
                    raise LookupError(f"{record['kind']} has no phase {before.get('phase')!r}")
                await handler(handle)
            except asyncio.CancelledError as cancelled:
                error = cancelled
            except Exception as raised:  # noqa: BLE001 - the task faults with it
                error = raised
            after = self._session.tasks.get(handle.id)
            if after is None or status_of(after) != "running" or self.closing or after["abortRequested"]:
                if after is not None and gate_of(after) is not None:
                    await self._stopped_at_gate(handle, after, before, gate)
                return
            gate = None
            invocation = self._running.get(handle.id)
            if isinstance(error, asyncio.CancelledError) and invocation is not None and invocation.asked:
                return
            if error is not None:
                await self._failed(handle, error)
                return
            if checkpoint_of(after) == before and not handle.waited:
                await self._fault(handle, f"phase {phase_of(record)} ended without durable progress")
                return
            self.forget(handle.id)

    async def _stopped_at_gate(self, handle: TaskHandle, after: TaskRecord, before: Json, gate: Gate | None) -> None:
        """A gate is progress, unless it is the one that just opened, at an unchanged checkpoint: that goes on for ever."""
        same = gate_of(after) == gate and checkpoint_of(after) == before
        if same and not self.closing and not after["abortRequested"]:
            await self._fault(handle, f"phase {phase_of(after)} ended at its gate without durable progress")
        else:
            self.forget(handle.id)

    async def _drive_abort(self, handle: TaskHandle, definition: TaskDefinition) -> None:
        error: BaseException | None = None
        try:
            if definition.abort is not None:
                await definition.abort(handle)
            else:
                await self.abandon(handle.record, Abandonment("aborted"), {"status": "aborted"})
        except asyncio.CancelledError as cancelled:
            error = cancelled
        except Exception as raised:  # noqa: BLE001 - the task faults with it
            error = raised
        record = self._session.tasks.get(handle.id)
        if self.closing or record is None or is_decided(record):
            return
        if isinstance(error, asyncio.CancelledError) and self.was_asked(handle.id):
            return
        if error is not None:
            await self._failed(handle, error)
        else:
            await self._fault(handle, "the abort handler ended without an outcome")

    async def _failed(self, handle: TaskHandle, error: BaseException) -> None:
        if isinstance(error, InvocationEnded):
            return
        if isinstance(error, FATAL):
            log.warning("task %s stops: %s", handle.id, error)
            return
        if isinstance(error, StorageRejected):
            if not error.full:
                self._refusals[handle.id] = self._refusals.get(handle.id, 0) + 1
            if self._refusals.get(handle.id, 0) < REFUSALS:
                self.pause(handle.id, error)
                return
        if not isinstance(error, asyncio.CancelledError):
            log.error("task %s failed", handle.id, exc_info=error)
        text = "cancelled, but nobody asked" if isinstance(error, asyncio.CancelledError) else describe(error)
        await self._fault(handle, text)

    async def _fault(self, handle: TaskHandle, message: str) -> None:
        self._reports.add(f"task {handle.id} faulted: {message}")
        record = self._session.tasks.get(handle.id)
        if record is None:
            return
        try:
            await self.abandon(record, Abandonment("faulted", message), {"status": "faulted", "error": message})
        except StorageRejected as rejected:
            self.pause(handle.id, rejected)
