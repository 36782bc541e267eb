"""The engine of one session: it puts scheduling, execution, recovery and the task rules together (spec 6, 7, 15)."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from durable_tui.engine.definitions import Definitions, Lookup
from durable_tui.engine.ended_tasks import EndedTasks
from durable_tui.engine.execution import Invocations
from durable_tui.engine.gates import Gates, SomeAskBook, released
from durable_tui.engine.ownership import ordinary_tasks
from durable_tui.engine.recovery import RecoveryReport, opens_keep_dying, record_close, recover
from durable_tui.engine.reports import Reports
from durable_tui.engine.scheduler import QueueOwner, Scheduler
from durable_tui.engine.space import Space
from durable_tui.engine.task import TaskDefinition, new_task
from durable_tui.engine.task_record import mark_for_abort
from durable_tui.engine.task_rules import TaskRules
from durable_tui.engine.tidying import Tidying
from durable_tui.engine.waiters import Waiters
from durable_tui.session import Session, SomeDefinition, Transaction
from durable_tui.storage.errors import StorageError
from durable_tui.storage.records import TaskRecord

ANY_TASK = 0  # no task has this id: a change of whichever task is waited for


@dataclass(slots=True, frozen=True)
class EngineSettings:
    """`restart_limit` deaths in one step park a task (0: never); `space_interval` is in seconds."""

    restart_limit: int = 5
    space_interval: float = 1.0


class Engine:
    """Runs the tasks of one session. `lookup` gives the code of a kind, `queue` holds inputs for conversations.

    `asks` is where the answers are found that gates wait for (spec 6.12).
    `recorded` are the documents of a conversation of which the flight recorder keeps the end at a death (spec 5.7).
    """

    def __init__(
        self,
        session: Session,
        settings: EngineSettings,
        lookup: Lookup,
        queue: QueueOwner,
        asks: SomeAskBook,
        recorded: Sequence[SomeDefinition] = (),
    ) -> None:
        wakeup = asyncio.Event()
        self.session = session
        self.reports = Reports()
        self.definitions = Definitions(lookup, self.reports)
        self.ended_tasks = EndedTasks(session)
        self.recovery = RecoveryReport(session)
        self.tidying = Tidying(session)
        self._settings = settings
        self._queue = queue
        self._recorded = recorded
        self._task_changes: Waiters[None] = Waiters()
        session.observe(lambda commit: self._task_changes.resolve(ANY_TASK, None) if commit.tasks else None)
        self._gates = Gates(session, asks)
        self._space = Space(session, self.reports, settings.space_interval, wakeup.set)
        self._invocations = Invocations(
            session, self.definitions, self.ended_tasks, self._space, self.reports, wakeup.set
        )
        self._scheduler = Scheduler(
            session, self.definitions, self._invocations, self._gates, self.recovery, self._space, self.reports,
            self.tidying, queue, restart_limit=settings.restart_limit, wakeup=wakeup,
        )  # fmt: skip
        TaskRules(session, self.ended_tasks, self.recovery, self._scheduler.may_reserve)
        self.paused_reason: str | None = None

    async def recover(self) -> None:
        """Make the commit of opening (spec 15). Dispatches nothing."""
        await self._gates.load()
        # Those that were only waiting for their turn are innocent, but not proven: they wait for their turn again.
        found = [
            task_id for task_id, task in self.session.tasks.items() if task["state"]["status"] in ("running", "pending")
        ]
        deaths = await recover(
            self.session,
            self.recovery,
            self.definitions,
            restart_limit=self._settings.restart_limit,
            recorded=self._recorded,
            describe_queue=self._queue.describe,
        )
        self._scheduler.adopt_recovered(found, serial=deaths >= 2)
        if await opens_keep_dying(self.session.storage):
            self.paused_reason = "the last openings of this session died before they did anything"

    # -- scheduling ----------------------------------------------------------------------------------------------

    def start(self) -> None:
        """Begin scheduling, or go on. Idempotent."""
        self._scheduler.start()

    def wake(self) -> None:
        """Look through the tasks again soon: what is installed changed, or a task was released."""
        self._scheduler.wake()

    @property
    def started(self) -> bool:
        """Whether scheduling has begun."""
        return self._scheduler.active

    @property
    def is_full(self) -> bool:
        """Whether everything waits for space on the disk."""
        return self._space.full

    def add_task(
        self,
        tx: Transaction,
        *,
        conversation_id: int,
        definition: TaskDefinition,
        input: object,
        owner: int | None = None,
    ) -> TaskRecord:
        """Create a task in this commit, reserved at once when the scheduler may start it (spec 7)."""
        running = self._scheduler.can_start() and definition.blocked is None  # its reasons are asked of a record
        return new_task(
            tx, conversation_id=conversation_id, definition=definition, input=input, owner=owner, running=running
        )

    # -- looking -------------------------------------------------------------------------------------------------

    def why_blocked(self, record: TaskRecord) -> str | None:
        """Why a task that does not run stays put, derived anew; None when it may start."""
        return None if self._invocations.is_at_work(record["id"]) else self._scheduler.why_blocked(record)

    def blocked(self, task_id: int) -> str | None:
        """Why a task stays put as the scheduler last found it."""
        return self._scheduler.blocked.get(task_id)

    def on_blocked(self, listener: Callable[[], None]) -> Callable[[], None]:
        """Call `listener` when what is blocked changes; returns how to stop that."""
        return self._scheduler.on_blocked(listener)

    def was_asked_to_end(self, task_id: int) -> bool:
        """Whether somebody asked the task's invocation to end."""
        return self._invocations.was_asked(task_id)

    # -- waiting and ending --------------------------------------------------------------------------------------

    async def wait_for_task(self, task_id: int) -> TaskRecord:
        """Wait until a task is terminal; starts scheduling. Raises LookupError when there is none."""
        with self.ended_tasks.waiters.waiting_for(task_id) as ended:
            try:
                record = await self.ended_tasks.find(task_id)
            except StorageError:
                self.session.check_open()  # a closed store cannot be read, and this says so
                raise
            if record is None:
                raise LookupError(f"there is no task {task_id} in this session")
            if record["state"]["status"] == "terminal":
                return record
            self.session.check_open()
            self.start()
            return await ended

    def work_of(self, conversation_id: int, *, background: bool = False) -> list[int]:
        """The live ordinary work of a conversation and everything below it (spec 6.5)."""
        session = self.session
        return ordinary_tasks(conversation_id, session.tasks, session.conversations, background=background)

    def is_idle(self) -> bool:
        """Whether no live ordinary work is reachable from any ownerless conversation (spec 6.5)."""
        return not any(
            self.work_of(conversation_id)
            for conversation_id, record in self.session.conversations.items()
            if "owner" not in record
        )

    async def wait_until(self, is_idle: Callable[[], bool]) -> None:
        """Wait until a condition over the live tasks holds; starts scheduling."""
        self.start()
        while not is_idle():
            self.session.check_open()
            with self._task_changes.waiting_for(ANY_TASK) as change:
                await change

    def signal_abort(self, task_ids: Iterable[int]) -> None:
        """End the run invocations of tasks that were marked for abort in a commit."""
        for task_id in task_ids:
            self._invocations.signal_abort(task_id)

    async def abort_task(self, task_id: int) -> None:
        """Mark a task for abort and join its run invocation (spec 6.8). Raises LookupError when it is not live."""
        async with self.session.commit() as tx:
            if tx.candidate(task_id) is None:
                raise LookupError(f"task {task_id} is not live")
            mark_for_abort(tx, [task_id])
        self._invocations.signal_abort(task_id)
        await self._invocations.join(task_id)

    async def retry_task(self, task_id: int) -> None:
        """Let a task go on that a person must let go on: parked by the restart limit, or at a person's gate.

        Nothing else is touched (spec 6.11, 6.12). Raises LookupError when it is not live.
        """
        async with self.session.commit() as tx:
            record = tx.candidate(task_id)
            if record is None:
                raise LookupError(f"task {task_id} is not live")
            free = released(record, self.session.now())
            if free != record:
                tx.put_task(free)
        self.wake()

    # -- the end -------------------------------------------------------------------------------------------------

    def end_all(self, error: Exception) -> None:
        """Nothing can be stored any more: end every invocation and every wait."""
        self.reject_waits(error)
        self._invocations.end_all()

    def reject_waits(self, error: Exception) -> None:
        """Nothing will settle any more: every wait ends with the error (spec 13)."""
        self.ended_tasks.waiters.reject(error)
        self._task_changes.reject(error)

    async def close(self) -> None:
        """Start nothing more; end and join every invocation, and tell what that cut off (spec 13, 15)."""
        await self._scheduler.close()
        await record_close(self.session, self.recovery, self.definitions, self._queue.describe)
        await self.tidying.finished()
