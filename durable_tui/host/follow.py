"""Following a session that another process owns: read-only frames, of the shape its owner's have (spec 4.2, 13).

Looks at the newest commit a few times a second and reads what changed since, in short transactions; never writes.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar, cast

from durable_tui.agent.documents import LIVE
from durable_tui.agent.kinds import describing_kinds
from durable_tui.engine.definitions import Definitions
from durable_tui.engine.recovery import RECOVERY, RESTART_LIMIT
from durable_tui.engine.reports import Reports
from durable_tui.engine.task_record import gate_of
from durable_tui.host.reading import document_value
from durable_tui.models.provider import ModelError
from durable_tui.session.watch import Frame
from durable_tui.storage.records import ROOT
from durable_tui.views.build import PLACES, context_size, conversation_view, initial, live_part, shown_entry, task_row
from durable_tui.views.watch_sources import ENDED_SHOWN

if TYPE_CHECKING:
    from durable_tui.agent.extension import Registry
    from durable_tui.engine.shapes import Recovery, Verdict
    from durable_tui.engine.task import TaskDefinition
    from durable_tui.models.models import Models
    from durable_tui.session import DocumentDefinition
    from durable_tui.storage import Reader
    from durable_tui.storage.records import EntryRecord, StoredEntry, TaskRecord
    from durable_tui.views.build import Window
    from durable_tui.views.shapes import ConversationView, ShownEntry, TasksView

INTERVAL = 0.3  # seconds between two looks
EVERYTHING = 1_000_000  # entries
V = TypeVar("V")


class FollowedSession:
    """A session another process owns, as far as it can be read; nothing can be changed through it.

    It is its own `harness`. `models`, which it closes, tell how large a model's context window is; a `restart_limit` of 0
    says that it is not known when a task is parked.
    """

    session_problem: str | None = None
    paused_reason: str | None = None
    paused_for_space = False

    def __init__(
        self, storage: Reader, path: Path, registry: Registry, *, models: Models | None = None, restart_limit: int = 0
    ) -> None:
        self.path = path
        self.registry = registry
        self.session: dict[str, str] = {}
        self.warnings: list[str] = list(storage.warnings)
        self._storage = storage
        self._closed = asyncio.Event()
        self._words = ReaderWords(registry, restart_limit)
        self._ended: dict[int, TaskRecord] = {}
        self._models = models
        self.root = FollowedConversation(self, storage, ROOT, self._window)

    @classmethod
    async def open(
        cls, path: Path, registry: Registry, *, models: Models | None = None, restart_limit: int = 0
    ) -> FollowedSession:
        """Raises what the storage raises."""
        from durable_tui.storage import SqliteReader

        return cls(await SqliteReader.open(path), path, registry, models=models, restart_limit=restart_limit)

    @property
    def harness(self) -> FollowedSession:
        return self

    @property
    def id(self) -> str:
        return self.path.stem

    async def close(self) -> None:
        """Stop looking; every watch ends."""
        self._closed.set()
        await self._storage.close()
        if self._models is not None:
            await self._models.close()

    def _window(self, model: str) -> int | None:
        try:
            return self._models.resolve(model).context_window if self._models is not None else None
        except ModelError:
            return None

    async def watch_tasks(self) -> AsyncGenerator[Frame[TasksView], None]:
        """The live tasks and those seen to end, whole, whenever commits were made."""
        newest = await self.newest()
        live: dict[int, TaskRecord] = {}
        yield await self._tasks(newest, live)
        async for commit in self.changes(newest[0]):
            yield await self._tasks(commit, live)

    async def _tasks(self, newest: tuple[int, int], live: dict[int, TaskRecord]) -> Frame[TasksView]:
        now = {record["id"]: record for record in await self._storage.live_tasks()}
        for task_id in live.keys() - now.keys():
            ended = await self._storage.task(task_id)
            if ended is not None:
                self._ended[task_id] = ended
        live.clear()
        live.update(now)
        self._ended = dict(list(self._ended.items())[-ENDED_SHOWN:])
        shown = [*self._ended.values(), *now.values()]
        await self._words.recall(shown, self._storage)
        rows = [task_row(record, self._words) for record in sorted(shown, key=lambda record: record["id"])]
        value: TasksView = {"tasks": rows}
        return frame(value, None, newest)

    async def changes(self, seq: int) -> AsyncGenerator[tuple[int, int], None]:
        """The newest commit and its time, each time there is a newer one than `seq` or the last told."""
        while not self._closed.is_set():
            try:
                await asyncio.wait_for(self._closed.wait(), INTERVAL)
                return
            except TimeoutError:
                newest = await self.newest()
            if newest[0] != seq:
                seq = newest[0]
                yield newest

    async def newest(self) -> tuple[int, int]:
        """The newest commit and its time; zeros before the first."""
        rows = await self._storage.commits(limit=1, reverse=True)
        return (rows[0].seq, rows[0].at) if rows else (0, 0)


class FollowedConversation:
    """One conversation of a followed session, as it is stored and as it grows."""

    def __init__(self, session: FollowedSession, storage: Reader, conversation_id: int, window: Window) -> None:
        self.id = conversation_id
        self._session = session
        self._storage = storage
        self._window = window

    async def entries(self, before: int | None = None, limit: int = 200) -> list[StoredEntry]:
        """The newest entries before an id, in order."""
        return (await self._storage.entries(self.id, before=before, limit=limit, reverse=True))[::-1]

    async def watch(self, tail: int | None = None) -> AsyncGenerator[Frame[ConversationView], None]:
        """The view now, and again whenever commits have changed it."""
        newest = await self._session.newest()
        limit = tail or EVERYTHING
        page = await self._storage.entries(self.id, limit=limit + 1, reverse=True)
        entries = [shown_entry(stored.record, stored.seq) for stored in reversed(page[:limit])]
        first = len(page) <= limit
        parts = await self._parts(entries)
        yield frame(conversation_view({"entries": entries, "first": first, **parts}), None, newest)
        async for commit in self._session.changes(newest[0]):
            ops: list[Any] = []
            last = entries[-1]["id"] if entries else 0
            added = [
                shown_entry(stored.record, stored.seq) for stored in await self._storage.entries(self.id, after=last)
            ]
            if added:
                ops.append(["p", ["entries"], len(entries), 0, added])
                entries = [*entries, *added]
            former, parts = parts, await self._parts(entries)
            ops += [["s", [key], value] for key, value in parts.items() if former.get(key) != value]
            ops += [["d", [key]] for key in former if key not in parts]
            if ops:
                yield frame(conversation_view({"entries": entries, "first": first, **parts}), ops, commit)

    async def _parts(self, entries: list[ShownEntry]) -> dict[str, Any]:
        """All of the view but its entries."""
        parts = {key: await self._value(definition) for key, definition in PLACES}
        parts.update(live_part(await self._value(LIVE)))
        size = context_size(entries, parts["agent"], self._window)
        if size is not None:
            parts["context"] = size
        return parts

    async def _value(self, definition: DocumentDefinition[Any]) -> Any:
        owner = self.id if definition.scope == "conversation" else 0
        value = await document_value(self._storage, definition.kind, definition.scope_of(owner))
        return initial(definition) if value is None else value


class ReaderWords:
    """What a reader of a session knows of its tasks: what their records and the report say, and the words of kinds."""

    def __init__(self, registry: Registry, restart_limit: int = 0) -> None:
        self._registry = registry
        self._restart_limit = restart_limit
        self._entries: dict[int, EntryRecord] = {}
        self._verdicts: dict[int, Verdict] = {}
        self._built_in = describing_kinds(self._entries.get, registry)
        self._definitions = Definitions(self._kind, Reports())

    def _kind(self, kind: str) -> TaskDefinition | None:
        return self._registry.task(kind) or self._built_in.get(kind)

    async def recall(self, records: Iterable[TaskRecord], storage: Reader) -> None:
        """Read what the words of some tasks need: the entries they answer, and the newest report."""
        named: set[int] = {
            record["input"]["assistant"]
            for record in records
            if isinstance(record["input"], Mapping) and isinstance(record["input"].get("assistant"), int)
        }
        for forgotten in self._entries.keys() - named:
            del self._entries[forgotten]
        for entry_id in named - self._entries.keys():
            stored = await storage.entry(entry_id)
            if stored is not None:
                self._entries[entry_id] = stored.record
        report = cast("Recovery | None", await document_value(storage, RECOVERY.kind, {"kind": "session"}))
        owners = await storage.owners(limit=1)
        epoch = owners[-1].epoch if owners else 0
        self._verdicts = {
            row["taskId"]: row["verdict"]
            for death in (report["deaths"] if report else ())
            if death["foundBy"] == epoch
            for row in death["tasks"]
            if "verdict" in row
        }

    def doing(self, record: TaskRecord) -> str:
        return self._definitions.doing(record)

    def elsewhere(self, record: TaskRecord) -> str | None:
        return self._definitions.elsewhere(record)

    def blocked(self, record: TaskRecord) -> str | None:
        if self._restart_limit and record.get("restarts", 0) >= self._restart_limit:
            return RESTART_LIMIT
        gate = gate_of(record)
        return gate["reason"] if gate is not None else None

    def verdict(self, record: TaskRecord) -> Verdict | None:
        return self._verdicts.get(record["id"])


def frame(value: V, ops: list[Any] | None, newest: tuple[int, int]) -> Frame[V]:
    """A frame as of a commit; without ops the whole view."""
    return Frame(value, [["r", value]] if ops is None else ops, newest[0], newest[1])
