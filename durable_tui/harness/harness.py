"""The façade: one open session and everything that works in it (spec 19)."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Generator, Mapping
from types import TracebackType

from durable_tui.agent.agent import Agent, ModelSource
from durable_tui.agent.documents import SESSION, USAGE
from durable_tui.agent.extension import Registry
from durable_tui.agent.generation.provider_cancel import ProviderCancel
from durable_tui.agent.settings import Settings
from durable_tui.agent.shapes import SessionFacts
from durable_tui.engine.recovery import RECOVERY
from durable_tui.engine.shapes import Recovery
from durable_tui.environment.base import EnvironmentFactory
from durable_tui.ground.aio import uninterrupted
from durable_tui.harness.assembly import make_agent
from durable_tui.harness.conversation import Conversation, agent_value, write_first_documents
from durable_tui.harness.submission import Submission
from durable_tui.models.messages import Usage
from durable_tui.models.provider import ModelError
from durable_tui.models.usage import total_usage
from durable_tui.session import Session, SessionClosed, SessionPoisoned, Watch
from durable_tui.session.session import CommitScope, SessionState
from durable_tui.storage.ends import end_path
from durable_tui.storage.errors import Fenced, StorageError
from durable_tui.storage.protocol import Owner
from durable_tui.storage.records import ROOT, OwnerRef, TaskRecord
from durable_tui.views.build import task_row
from durable_tui.views.shapes import Position, SessionView, TaskRow, TasksView
from durable_tui.views.watch_sources import OwnerWords, Watches


class Harness:
    """An open session: conversations, scheduling, recovery. Made by `Harness.open`; always close it."""

    def __init__(self, agent: Agent, cancel: ProviderCancel) -> None:
        self._agent = agent
        self._engine = agent.engine
        self._session = agent.session
        self._cancel = cancel
        self._watches = Watches(agent.engine, self._window)
        self._closed = False
        self._session.on_state = self._on_state

    @staticmethod
    def open(
        storage: Owner,
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

    async def root(self, agent: Mapping[str, object] | None = None) -> Conversation:
        """The root conversation (id 1), made with this agent when it does not exist yet (spec 2, 12)."""
        session = self._session
        value = agent_value(agent or {})
        if ROOT not in session.conversations:
            async with session.commit() as tx:
                if ROOT not in session.conversations:
                    made = tx.create_conversation()
                    assert made["id"] == ROOT, "the root conversation has the first id of its session"
                    await write_first_documents(tx, ROOT, value)
                    facts: SessionFacts = {"cwd": value.get("cwd", ""), "createdAt": session.now()}
                    (await tx.document(SESSION)).value = facts
        return self._conversation(ROOT)

    def _conversation(self, conversation_id: int) -> Conversation:
        return Conversation(self._agent, self._watches, conversation_id)

    def conversation(self, conversation_id: int) -> Conversation:
        """A conversation by id. Raises LookupError when there is none."""
        if conversation_id not in self._session.conversations:
            raise LookupError(f"there is no conversation {conversation_id} in this session")
        return self._conversation(conversation_id)

    def conversations(self) -> list[Conversation]:
        """All conversations, in id order."""
        return [self._conversation(conversation_id) for conversation_id in self._session.conversations]

    async def create_conversation(
        self, agent: Mapping[str, object] | None = None, *, owner: OwnerRef | None = None
    ) -> Conversation:
        """A new conversation, ownerless or owned by a task (spec 12)."""
        async with self._session.commit() as tx:
            record = tx.create_conversation(owner=owner)
            await write_first_documents(tx, record["id"], agent_value(agent or {}))
        return self._conversation(record["id"])

    async def submission(self, submission_id: int) -> Submission:
        """A submission by id. Raises LookupError when there is none."""
        record = await self._session.storage.submission(submission_id)
        if record is None:
            raise LookupError(f"there is no submission {submission_id} in this session")
        return Submission(self._agent, record)

    # -- scheduling ----------------------------------------------------------------------------------------------

    async def resume(self) -> None:
        """Start scheduling: unfinished work goes on (spec 7, 15)."""
        self._session.check_open()
        self._engine.start()

    async def wait_for_task(self, task_id: int) -> TaskRecord:
        """Wait until a task is terminal; starts scheduling. Raises LookupError when there is none."""
        return await self._engine.wait_for_task(task_id)

    async def abort_task(self, task_id: int) -> None:
        """Mark a task for abort and join its run invocation (spec 6.8). Raises LookupError when it is not live."""
        await self._engine.abort_task(task_id)

    async def retry_task(self, task_id: int) -> None:
        """Let a task go on that waits for a person: parked by the restart limit, or at a person's gate (spec 6.11, 6.12).

        Raises LookupError when it is not live.
        """
        await self._engine.retry_task(task_id)

    @property
    def idle(self) -> bool:
        """Whether no live ordinary work is reachable from any ownerless conversation (spec 6.5)."""
        return self._engine.is_idle()

    async def wait_for_idle(self) -> None:
        """Wait until the session is idle; starts scheduling."""
        await self._engine.wait_until(self._engine.is_idle)

    # -- looking -------------------------------------------------------------------------------------------------

    def inspect(self) -> list[TaskRow]:
        """Every live task: running, ready, waiting on what, completing, blocked and why. Starts nothing."""
        words = OwnerWords(self._engine, fresh=True)
        return [task_row(record, words) for _, record in sorted(self._session.tasks.items())]

    def watch(
        self, conversation_id: int, *, tail: int | None = None, since: Position | None = None
    ) -> Watch[SessionView]:
        """Frames of all there is to see: one conversation, its queue and live parts, the report, the tasks (spec 13).

        `tail` as for `Conversation.watch`. `since` is where a copy made of earlier frames stands, of this process or one
        before it: then the first frame's ops take that copy on, unless its last commit is not in the store (any more).
        Raises LookupError when there is no such conversation.
        """
        return self._watches.session(self.conversation(conversation_id).id, tail, since)

    def watch_tasks(self) -> Watch[TasksView]:
        """Frames of the live task graph and of what ended lately (spec 13)."""
        return self._watches.tasks()

    def _window(self, model: str) -> int | None:
        try:
            return self._agent.models.resolve(model).context_window
        except ModelError:
            return None

    async def recovery(self) -> Recovery:
        """The report of the deaths found so far (`dt.recovery`, spec 17.4)."""
        return await self._session.value(RECOVERY)

    async def usage(self) -> Usage:
        """What the session used: the sum over its conversations (spec 14)."""
        session = self._session
        tables = [await session.value(USAGE, conversation_id) for conversation_id in session.conversations]
        return total_usage(tables)

    async def session_document(self) -> SessionFacts:
        """`dt.session`: `{title?, cwd, createdAt}`."""
        return await self._session.value(SESSION)

    async def rename(self, text: str) -> None:
        """Name the session; an empty text takes the name away."""
        async with self._session.commit() as tx:
            draft = await tx.document(SESSION)
            if text:
                draft.value["title"] = text
            else:
                draft.value.pop("title", None)

    @property
    def state(self) -> SessionState:
        """open, poisoned, fenced or closed."""
        return self._session.state

    @property
    def epoch(self) -> int:
        """The number of this opening (spec 4.2)."""
        return self._session.storage.epoch

    @property
    def end_file(self) -> str | None:
        """Where the launcher is to tell how this opening ended; None once it has ended in order (spec 15)."""
        files = self._session.storage.files
        return end_path(files, self.epoch) if files and not self._session.closed_in_order else None

    @property
    def paused_reason(self) -> str | None:
        """Why this session should wait for a person before it goes on; None once scheduling began (spec 6.11)."""
        return None if self._engine.started else self._engine.paused_reason

    @property
    def session_problem(self) -> str | None:
        """What keeps work from going on, in words; None when nothing does."""
        return self._engine.reports.problem

    @property
    def reports(self) -> list[str]:
        """The newest notes about hooks, prompt sections and steps that failed."""
        return list(self._engine.reports.notes)

    def on_problem(self, listener: Callable[[str | None], None] | None) -> None:
        """Call `listener` when `session_problem` changes."""
        self._engine.reports.on_problem = listener

    @property
    def paused_for_space(self) -> bool:
        return self._engine.is_full

    @property
    def seq(self) -> int:
        """The newest commit."""
        return self._session.seq

    @property
    def unfinished(self) -> int:
        """How many live tasks there are."""
        return len(self._session.tasks)

    def commit(self) -> CommitScope:
        """`async with harness.commit() as tx`: a commit of the front end's own."""
        return self._session.commit()

    # -- the end -------------------------------------------------------------------------------------------------

    def _on_state(self) -> None:
        session, reports = self._session, self._engine.reports
        if session.state == "poisoned":
            reports.set_problem(f"the session is poisoned ({session.reason}); close it and open it again")
            self._end_all(SessionPoisoned(reports.problem or "poisoned"))
        elif session.state == "fenced":
            reports.set_problem(session.reason or "another process owns this session now")
            self._end_all(Fenced(reports.problem or "fenced"))

    def _end_all(self, error: Exception) -> None:
        self._agent.settlements.waiters.reject(error)
        self._engine.end_all(error)

    async def close(self) -> None:
        """Seal admission, join every invocation, close the store in order (spec 13). Writes no outcomes; work that it
        ends where an effect may have happened is in the report (spec 15).

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
        self._session.seal()
        self._watches.finish()
        try:
            await self._engine.close()
        finally:
            try:
                await self._session.close()
            finally:
                closed = SessionClosed("the session was closed")
                self._agent.settlements.waiters.reject(closed)
                self._engine.reject_waits(closed)
                await self._cancel.close()

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
        storage: Owner,
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

    def __await__(self) -> Generator[object, None, Harness]:
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
        agent, cancel = make_agent(session, self._models, self._registry, self._environment, self._settings)
        harness = Harness(agent, cancel)
        await agent.engine.recover()
        return harness
