"""What the parts of one harness share: the session, the installed code, the scheduler, caches of committed state."""

from __future__ import annotations

import asyncio
import logging
from collections import OrderedDict
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, Protocol, TypeVar
from weakref import WeakSet

from durable_tui.agent.documents import AGENT
from durable_tui.agent.extension import Extension, Registry, Tool, select_tools
from durable_tui.agent.generation.provider_cancel import Cancelling
from durable_tui.agent.settings import Settings
from durable_tui.engine.ownership import chain_of
from durable_tui.engine.task import TaskDefinition
from durable_tui.environment.base import Environment, EnvironmentFactory, EnvironmentScope
from durable_tui.session import Commit, Session, Transaction, Watch
from durable_tui.storage.errors import StorageError
from durable_tui.storage.records import EntryRecord, SubmissionRecord, TaskRecord

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from durable_tui.agent.model_context import ContextCache
    from durable_tui.engine.scheduler import Scheduler
    from durable_tui.models.provider import Model, ModelRequest, StreamEvent

log = logging.getLogger(__name__)
ENTRY_CACHE = 512
TIDY_EVERY = 400  # commits
V = TypeVar("V")


class ModelSource(Protocol):
    """What the harness needs of `durable_tui.models.Models`."""

    def resolve(self, name: str) -> Model: ...

    def stream(self, request: ModelRequest) -> AsyncIterator[StreamEvent]: ...

    def poll(self, request: ModelRequest, handle: dict[str, Any]) -> AsyncIterator[StreamEvent]: ...

    async def cancel(self, provider: str, handle: dict[str, Any]) -> None: ...


def _resolve(futures: Iterable[asyncio.Future[Any]], value: Any) -> None:
    for future in futures:
        if not future.done():
            future.set_result(value)


def drop_waiter(table: dict[int, list[asyncio.Future[Any]]], key: int, future: asyncio.Future[Any]) -> None:
    """Take a future out of a table of waiters."""
    waiting = table.get(key)
    if waiting is not None and future in waiting:
        waiting.remove(future)
        if not waiting:
            del table[key]


class Kernel:
    """The shared middle of one harness. Internal: front ends use Harness and Conversation."""

    def __init__(
        self,
        session: Session,
        *,
        models: ModelSource,
        registry: Registry,
        environment: EnvironmentFactory,
        settings: Settings,
        builtins: dict[str, TaskDefinition],
    ) -> None:
        self.session = session
        self.models = models
        self.registry = registry
        self.environment = environment
        self.settings = settings
        self.builtins = builtins
        self.scheduler: Scheduler
        self.contexts: dict[int, ContextCache] = {}
        self.undecided: dict[int, str] = {}  # found tasks without a verdict, and their status as found
        self.deciding: list[tuple[int, int, str]] = []
        self.verdicts: dict[int, str] = {}
        self.former_owner_dead = True
        self.problem: str | None = None
        self.on_problem: Callable[[str | None], None] | None = None
        self.reports: list[str] = []
        self.started_at = 0
        self.late: set[int] = set()  # run tasks whose conversation took an input while they were being aborted
        self.settled: dict[int, list[asyncio.Future[SubmissionRecord]]] = {}
        self.ended: dict[int, list[asyncio.Future[TaskRecord]]] = {}
        self.idle_waiters: list[asyncio.Future[None]] = []
        self._tidied = session.seq
        self._tidying: asyncio.Task[None] | None = None
        self.watches: WeakSet[Watch[Any]] = WeakSet()
        self._ended: OrderedDict[int, TaskRecord] = OrderedDict()
        self._entries: OrderedDict[int, EntryRecord] = OrderedDict()
        self.cancelling = Cancelling(self)
        session.observe(self._observe)

    # -- committed state -----------------------------------------------------------------------------------------

    def _observe(self, commit: Commit) -> None:
        if self.deciding:
            for seq, task_id, verdict in self.deciding:
                if seq == commit.seq:
                    self.undecided.pop(task_id, None)
                    self.verdicts[task_id] = verdict
            self.deciding.clear()
        for entry in commit.entries:
            self._remember(entry)
            cache = self.contexts.get(entry["conversationId"])
            if cache is not None:
                cache.add(entry, commit.seq)

        for submission in commit.submissions:
            if submission["status"] in ("done", "unanswered"):
                _resolve(self.settled.pop(submission["id"], ()), submission)
        if commit.tasks:
            waiters, self.idle_waiters = self.idle_waiters, []
            _resolve(waiters, None)
        for _, task in commit.tasks:
            if task["state"]["status"] == "terminal":
                _resolve(self.ended.pop(task["id"], ()), task)
                self._ended[task["id"]] = task
                if len(self._ended) > ENTRY_CACHE:
                    self._ended.popitem(last=False)

    def tidy_soon(self) -> None:
        """Let the store tidy up while nothing else needs it; after enough commits, in the background."""
        if self.session.seq - self._tidied < TIDY_EVERY or self._tidying is not None:
            return
        self._tidied = self.session.seq
        self._tidying = asyncio.get_running_loop().create_task(self._tidy())

    async def _tidy(self) -> None:
        try:
            await self.session.storage.checkpoint()
        except StorageError as error:
            log.warning("tidying up failed: %s", error)
        finally:
            self._tidying = None

    async def stop_tidying(self) -> None:
        """Wait for the tidying that runs, if any."""
        if self._tidying is not None:
            await asyncio.wait([self._tidying])

    def _remember(self, entry: EntryRecord) -> None:
        self._entries[entry["id"]] = entry
        if len(self._entries) > ENTRY_CACHE:
            self._entries.popitem(last=False)

    async def entry(self, entry_id: int) -> EntryRecord | None:
        """A committed entry, from memory when it is recent."""
        known = self._entries.get(entry_id)
        if known is None:
            stored = await self.session.storage.entry(entry_id)
            if stored is None:
                return None
            known = stored.record
            self._remember(known)
        return known

    async def task(self, task_id: int) -> TaskRecord | None:
        """A task as committed, live or ended, from memory when it is recent."""
        return self.session.tasks.get(task_id) or self._ended.get(task_id) or await self.session.storage.task(task_id)

    def recently_ended(self) -> list[TaskRecord]:
        """The tasks that ended lately in this process, oldest first."""
        return list(self._ended.values())

    def ended_task(self, task_id: int) -> TaskRecord | None:
        """A task that ended lately in this process, as it ended."""
        return self._ended.get(task_id)

    async def find_call(self, record: TaskRecord) -> dict[str, Any] | None:
        """The toolCall block that a `pi.tool` task answers; None when its entry or block is gone."""
        await self.entry(record["input"]["assistant"])
        return self.known_call(record)

    def known_call(self, record: TaskRecord) -> dict[str, Any] | None:
        """The same when its entry is in memory."""
        entry = self._entries.get(record["input"]["assistant"])
        if entry is None:
            return None
        for message in entry.get("model", ()):
            for block in message.get("content", ()):
                if block.get("type") == "toolCall" and block["id"] == record["input"]["callId"]:
                    return dict(block)
        return None

    # -- installed code ------------------------------------------------------------------------------------------

    def definition(self, kind: str) -> TaskDefinition | None:
        """The code for a kind of task: an extension's, else the built-in one."""
        return self.registry.task(kind) or self.builtins.get(kind)

    async def selection(self, conversation_id: int) -> tuple[list[Extension], dict[str, Tool]]:
        """The extensions and tools in effect for a conversation now (spec 12)."""
        agent = await self.session.value(AGENT, conversation_id)
        extensions = self.registry.extensions(agent.get("extensions"))
        return extensions, select_tools(extensions, agent.get("tools"))

    def known_tool(self, conversation_id: int, name: str) -> Tool | None:
        """A tool by the agent's choice as far as it is in memory."""
        state = self.session.cached_document(AGENT.address(conversation_id))
        agent = state.value if state is not None else {}
        return select_tools(self.registry.extensions(agent.get("extensions")), agent.get("tools")).get(name)

    async def environment_for(self, conversation_id: int, task_id: int = 0) -> Environment:
        """The environment of one call: the agent's directory, the session's folder for output."""
        agent = await self.session.value(AGENT, conversation_id)
        return self.environment(
            EnvironmentScope(
                cwd=agent.get("cwd", "."),
                files=self.session.storage.files,
                conversation_id=conversation_id,
                task_id=task_id,
                session=self.session.storage.label,
            )
        )

    def owner_chain(self, tx: Transaction, record: TaskRecord) -> list[int]:
        return chain_of(record, tx.candidates(), {**self.session.conversations, **tx.conversations})

    def watching(self, watch: Watch[V]) -> Watch[V]:
        """Remember a watch, to end it with the session; after its end a watch has no frames."""
        if self.session.sealed:
            watch.finish()
        self.watches.add(watch)
        return watch

    def reject_waiters(self, error: Exception) -> None:
        """Nothing will settle any more: every wait ends with the error (spec 13)."""
        futures: list[asyncio.Future[Any]] = [*self.idle_waiters]
        for table in (self.settled, self.ended):
            for waiting in table.values():
                futures.extend(waiting)
            table.clear()
        self.idle_waiters.clear()
        for future in futures:
            if not future.done():
                future.set_exception(error)

    # -- hooks and reports ---------------------------------------------------------------------------------------

    async def run_hooks(
        self, extensions: list[Extension], name: str, value: Any, accepts: Callable[[Any], bool] | None = None
    ) -> Any:
        """Run a hook off the line, in extension order; each may replace the value by returning another (spec 12).

        A hook that raises, or returns what is not of the value's kind (`accepts`), is reported and skipped.
        """
        for extension in extensions:
            hook = extension.hooks.get(name)
            if hook is None:
                continue
            try:
                answer = await hook(value)
            except Exception as error:  # noqa: BLE001 - a hook is somebody else's code; it is reported
                self.report(f"hook {name} of extension {extension.name} failed: {error}")
                continue
            if answer is None:
                continue
            if accepts(answer) if accepts is not None else isinstance(answer, type(value)):
                value = answer
            else:
                self.report(f"hook {name} of extension {extension.name} returned a {type(answer).__name__}")
        return value

    def report(self, text: str) -> None:
        """Keep a short note for the front end and the log."""
        log.warning("%s", text)
        self.reports.append(text)
        del self.reports[:-50]

    def set_problem(self, text: str | None) -> None:
        """Say what keeps work from going on, or that nothing does any more."""
        if text != self.problem:
            self.problem = text
            if self.on_problem is not None:
                self.on_problem(text)
