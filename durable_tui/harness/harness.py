"""The façade: one open session and everything that works in it (spec 19)."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Generator
from types import TracebackType
from typing import Any

from durable_tui.agent.documents import RECOVERY, SESSION, USAGE
from durable_tui.agent.extension import Registry
from durable_tui.agent.generation.phases import GENERATION
from durable_tui.agent.settings import Settings
from durable_tui.agent.tool_task import TOOL
from durable_tui.engine.kernel import Kernel, ModelSource, drop_waiter
from durable_tui.engine.ownership import ordinary_tasks
from durable_tui.engine.recovery import opens_keep_dying, recover
from durable_tui.engine.scheduler import Scheduler
from durable_tui.engine.task import changed, is_decided
from durable_tui.engine.task_rules import settle
from durable_tui.environment.base import EnvironmentFactory
from durable_tui.ground.aio import uninterrupted
from durable_tui.harness.conversation import Conversation, agent_value, write_first_documents
from durable_tui.harness.submission import Submission
from durable_tui.models.messages import Usage
from durable_tui.models.usage import total_usage
from durable_tui.session import Session, SessionClosed, SessionPoisoned, Watch
from durable_tui.session.session import CommitScope, SessionState
from durable_tui.storage.errors import Fenced, StorageError
from durable_tui.storage.protocol import Storage
from durable_tui.storage.records import OwnerRef, TaskRecord
from durable_tui.views.shapes import TasksView
from durable_tui.views.watch_sources import TasksSource, task_row


class Harness:
    """An open session: conversations, scheduling, recovery. Made by `Harness.open`; always close it."""

    def __init__(self, kernel: Kernel) -> None:
        self._kernel = kernel
        self._closed = False
        self._paused_reason: str | None = None
        kernel.session.on_state = self._on_state

    @staticmethod
    def open(
        storage: Storage,
        *,
        models: ModelSource,
        registry: Registry,
        environment: EnvironmentFactory,
        settings: Settings | None = None,
        now: Callable[[], int] | None = None,
    ) -> Opening:
        """Open a session on a store this process owns: `await Harness.open(…)` or `async with Harness.open(…)`.

        Does the recovery commit of spec 15 and starts nothing; `resume`, `submit` and the waits start scheduling.
        Raises StorageError when the store refuses; the store is then released.
        """
        return Opening(storage, models, registry, environment, settings or Settings(), now)

    # -- conversations -------------------------------------------------------------------------------------------

    async def root(self, agent: dict[str, Any] | None = None) -> Conversation:
        """The root conversation (id 1), made with this agent when it does not exist yet (spec 2, 12)."""
        kernel = self._kernel
        value = agent_value(agent or {})
        if 1 not in kernel.session.conversations:
            async with kernel.session.commit() as tx:
                if 1 not in kernel.session.conversations:
                    made = tx.create_conversation()
                    assert made["id"] == 1, "the root conversation has the first id of its session"
                    await write_first_documents(tx, 1, value)
                    now = kernel.session.now()
                    (await tx.document(SESSION)).value = {"cwd": str(value.get("cwd", "")), "createdAt": now}
                    kernel.started_at = now
        return Conversation(kernel, 1)

    def conversation(self, conversation_id: int) -> Conversation:
        """A conversation by id. Raises LookupError when there is none."""
        if conversation_id not in self._kernel.session.conversations:
            raise LookupError(f"there is no conversation {conversation_id} in this session")
        return Conversation(self._kernel, conversation_id)

    def conversations(self) -> list[Conversation]:
        """All conversations, in id order."""
        return [Conversation(self._kernel, conversation_id) for conversation_id in self._kernel.session.conversations]

    async def create_conversation(
        self, agent: dict[str, Any] | None = None, *, owner: OwnerRef | None = None
    ) -> Conversation:
        """A new conversation, ownerless or owned by a task (spec 12)."""
        async with self._kernel.session.commit() as tx:
            record = tx.create_conversation(owner=owner)
            await write_first_documents(tx, record["id"], agent_value(agent or {}))
        return Conversation(self._kernel, record["id"])

    async def submission(self, submission_id: int) -> Submission:
        """A submission by id. Raises LookupError when there is none."""
        record = await self._kernel.session.storage.submission(submission_id)
        if record is None:
            raise LookupError(f"there is no submission {submission_id} in this session")
        return Submission(self._kernel, record)

    # -- scheduling ----------------------------------------------------------------------------------------------

    async def resume(self) -> None:
        """Start scheduling: unfinished work goes on (spec 7, 15)."""
        self._kernel.session.check_open()
        self._kernel.scheduler.start()

    async def wait_for_task(self, task_id: int) -> TaskRecord:
        """Wait until a task is terminal; starts scheduling. Raises LookupError when there is none."""
        kernel = self._kernel
        future: asyncio.Future[TaskRecord] = asyncio.get_running_loop().create_future()
        kernel.ended.setdefault(task_id, []).append(future)
        try:
            try:
                record = await kernel.task(task_id)
            except StorageError:
                kernel.session.check_open()  # a closed store cannot be read, and this says so
                raise
            if record is None:
                raise LookupError(f"there is no task {task_id} in this session")
            if record["state"]["status"] == "terminal":
                return record
            kernel.session.check_open()
            kernel.scheduler.start()
            return await future
        finally:
            drop_waiter(kernel.ended, task_id, future)

    async def abort_task(self, task_id: int) -> None:
        """Mark a task for abort and join its run invocation (spec 6.8). Raises LookupError when it is not live."""
        kernel = self._kernel
        async with kernel.session.commit() as tx:
            record = tx.candidate(task_id)
            if record is None:
                raise LookupError(f"task {task_id} is not live")
            if not record["abortRequested"] and not is_decided(record):
                tx.put_task(changed(record, abortRequested=True))
        kernel.scheduler.invocations.signal_abort(task_id)
        await kernel.scheduler.invocations.join(task_id)

    async def retry_task(self, task_id: int) -> None:
        """Release a task parked by the restart limit (spec 6.11)."""
        async with self._kernel.session.commit() as tx:
            record = tx.candidate(task_id)
            if record is None:
                raise LookupError(f"task {task_id} is not live")
            if "restarts" in record:
                tx.put_task(changed(record, restarts=None))
        self._kernel.scheduler.wake()

    @property
    def idle(self) -> bool:
        """Whether no live ordinary work is reachable from any ownerless conversation (spec 6.5)."""
        session = self._kernel.session
        return not any(
            ordinary_tasks(conversation_id, session.tasks, session.conversations)
            for conversation_id, record in session.conversations.items()
            if "owner" not in record
        )

    async def wait_for_idle(self) -> None:
        """Wait until the session is idle; starts scheduling."""
        self._kernel.scheduler.start()
        while not self.idle:
            self._kernel.session.check_open()
            future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self._kernel.idle_waiters.append(future)
            await future

    # -- looking -------------------------------------------------------------------------------------------------

    def inspect(self) -> list[dict[str, Any]]:
        """Every live task: running, ready, waiting on what, completing, blocked and why. Starts nothing."""
        kernel = self._kernel
        tasks = kernel.session.tasks
        rows = [task_row(kernel, tasks[task_id]) for task_id in sorted(tasks)]
        for row in rows:
            reason = kernel.scheduler.why_blocked(tasks[row["id"]])
            if reason is not None and not kernel.scheduler.invocations.is_at_work(row["id"]):
                row["blocked"] = reason
        return rows

    def watch_tasks(self) -> Watch[TasksView]:
        """Frames of the live task graph and of what ended lately (spec 13)."""

        async def prepare(watch: Watch[TasksView]) -> TasksSource:
            return TasksSource(self._kernel, watch)

        return self._kernel.watching(Watch(prepare))

    async def recovery(self) -> Any:
        """The report of the deaths found so far (`dt.recovery`, spec 17.4)."""
        return await self._kernel.session.value(RECOVERY)

    async def usage(self) -> Usage:
        """What the session used: the sum over its conversations (spec 14)."""
        session = self._kernel.session
        return total_usage([await session.value(USAGE, conversation_id) for conversation_id in session.conversations])

    async def session_document(self) -> Any:
        """`dt.session`: `{title?, cwd, createdAt}`."""
        return await self._kernel.session.value(SESSION)

    async def rename(self, text: str) -> None:
        """Name the session; an empty text takes the name away."""
        async with self._kernel.session.commit() as tx:
            draft = await tx.document(SESSION)
            if text:
                draft.value["title"] = text
            else:
                draft.value.pop("title", None)

    @property
    def state(self) -> SessionState:
        """open, poisoned, fenced or closed."""
        return self._kernel.session.state

    @property
    def paused_reason(self) -> str | None:
        """Why this session should wait for a person before it goes on; None once scheduling began (spec 6.11)."""
        return None if self._kernel.scheduler.active else self._paused_reason

    @property
    def session_problem(self) -> str | None:
        """What keeps work from going on, in words; None when nothing does."""
        return self._kernel.problem

    @property
    def reports(self) -> list[str]:
        """The newest notes about hooks, prompt sections and steps that failed."""
        return list(self._kernel.reports)

    def on_problem(self, listener: Callable[[str | None], None] | None) -> None:
        """Call `listener` when `session_problem` changes."""
        self._kernel.on_problem = listener

    @property
    def paused_for_space(self) -> bool:
        return self._kernel.scheduler.full

    @property
    def seq(self) -> int:
        """The newest commit."""
        return self._kernel.session.seq

    @property
    def unfinished(self) -> int:
        """How many live tasks there are."""
        return len(self._kernel.session.tasks)

    def commit(self) -> CommitScope:
        """`async with harness.commit() as tx`: a commit of the front end's own."""
        return self._kernel.session.commit()

    # -- the end -------------------------------------------------------------------------------------------------

    def _on_state(self) -> None:
        session = self._kernel.session
        if session.state == "poisoned":
            self._kernel.set_problem(f"the session is poisoned ({session.reason}); close it and open it again")
            self._kernel.reject_waiters(SessionPoisoned(self._kernel.problem or "poisoned"))
            self._kernel.scheduler.invocations.end_all()
        elif session.state == "fenced":
            self._kernel.set_problem(session.reason or "another process owns this session now")
            self._kernel.reject_waiters(Fenced(self._kernel.problem or "fenced"))
            self._kernel.scheduler.invocations.end_all()

    async def close(self) -> None:
        """Seal admission, join every invocation, close the store in order (spec 13). Writes no outcomes.

        Idempotent; a cancelled caller does not leave the store open.
        """
        if self._closed:
            return
        self._closed = True
        closing, cancelled = await uninterrupted(self._close())
        closing.result()
        if cancelled:
            raise asyncio.CancelledError

    async def _close(self) -> None:
        kernel = self._kernel
        kernel.session.seal()
        for watch in list(kernel.watches):
            watch.finish()
        try:
            await kernel.scheduler.close()
            await kernel.stop_tidying()
        finally:
            try:
                await kernel.session.close()
            finally:
                kernel.reject_waiters(SessionClosed("the session was closed"))
                await kernel.cancelling.close()

    async def __aenter__(self) -> Harness:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()


class Opening:
    """What `Harness.open` gives: await it, or enter it."""

    def __init__(
        self,
        storage: Storage,
        models: ModelSource,
        registry: Registry,
        environment: EnvironmentFactory,
        settings: Settings,
        now: Callable[[], int] | None,
    ) -> None:
        self._storage = storage
        self._models = models
        self._registry = registry
        self._environment = environment
        self._settings = settings
        self._now = now
        self._harness: Harness | None = None

    def __await__(self) -> Generator[Any, None, Harness]:
        return self._open().__await__()

    async def __aenter__(self) -> Harness:
        self._harness = await self._open()
        return self._harness

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._harness is not None:
            await self._harness.close()

    async def _open(self) -> Harness:
        opening, cancelled = await uninterrupted(self._assemble())
        if opening.cancelled() or opening.exception() is not None:
            await self._storage.abandon()
        elif cancelled:
            with contextlib.suppress(StorageError):  # the store is released all the same
                await opening.result().close()  # in order: whoever opens next must not take it for a death
        if cancelled:
            raise asyncio.CancelledError
        return opening.result()

    async def _assemble(self) -> Harness:
        session = await Session.open(self._storage, now=self._now)
        kernel = Kernel(
            session,
            models=self._models,
            registry=self._registry,
            environment=self._environment,
            settings=self._settings,
            builtins={"pi.generation": GENERATION, "pi.tool": TOOL},
        )
        kernel.scheduler = Scheduler(kernel)
        previous = self._storage.previous
        ended = previous is None or previous.closed_at is not None
        kernel.former_owner_dead = ended or self._storage.former_owner_dead

        async def prepare(tx: Any) -> None:
            await settle(kernel, tx)

        session.preparers.append(prepare)
        kernel.started_at = (await session.value(SESSION))["createdAt"]
        harness = Harness(kernel)
        # Those that were only waiting for their turn are innocent, but not proven: they wait for their turn again.
        found = [
            task_id for task_id, task in session.tasks.items() if task["state"]["status"] in ("running", "pending")
        ]
        kernel.late.update(
            task_id
            for task_id, task in session.tasks.items()
            if task["kind"] == "pi.generation" and task["abortRequested"]
        )
        deaths = await recover(kernel)
        kernel.scheduler.adopt_recovered(found, serial=deaths >= 2)
        if await opens_keep_dying(kernel):
            harness._paused_reason = "the last openings of this session died before they did anything"
        return harness
