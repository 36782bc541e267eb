"""What a reader of a session sees of it: the parts of a view and the words for its tasks, read from the store (spec 13)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, cast

from durable_tui.agent.documents import LIVE
from durable_tui.agent.kinds import describing_kinds
from durable_tui.engine.definitions import Definitions
from durable_tui.engine.recovery import RECOVERY, RESTART_LIMIT
from durable_tui.engine.reports import Reports
from durable_tui.engine.task_record import gate_of
from durable_tui.ground.clock import now_ms
from durable_tui.session import stored_value
from durable_tui.views.build import (
    ENDED_SHOWN,
    PLACES,
    appended,
    entries_after,
    initial,
    live_part,
    load_entries,
    session_view,
    task_row,
    view_context,
)

if TYPE_CHECKING:
    from durable_tui.agent.extension import Registry
    from durable_tui.agent.shapes import Live
    from durable_tui.delta import Json, Op
    from durable_tui.engine.shapes import Verdict
    from durable_tui.engine.task import TaskDefinition
    from durable_tui.session import SomeDefinition
    from durable_tui.storage.protocol import Reader
    from durable_tui.storage.records import EntryRecord, TaskRecord
    from durable_tui.views.build import Parts, Window
    from durable_tui.views.shapes import Position, SessionView, ShownEntry


class Look:
    """The parts of a view, read from the store and brought up to date with the ops that do so."""

    def __init__(self, storage: Reader, words: ReaderWords, conversation_id: int, window: Window) -> None:
        self.parts: Parts = {}
        self._storage = storage
        self._words = words
        self._id = conversation_id
        self._window = window
        self._live: set[int] = set()
        self._ended: list[TaskRecord] = []
        self._newest_task = 0

    def view(self) -> SessionView:
        return session_view(self.parts)

    async def begin(self, tail: int | None, since: Position | None) -> None:
        entries, first = await load_entries(self._storage, self._id, tail, since)
        live = await self._storage.live_tasks()
        self._live = {record["id"] for record in live}
        self._newest_task = max([*self._live, *(entry["id"] for entry in entries[-1:])], default=0)
        self.parts = {"entries": entries, "first": first, **await self._rest(entries, live)}

    async def again(self) -> list[Op]:
        """Read what is new; the ops that took the parts there."""
        former, entries = self.parts, cast("list[ShownEntry]", self.parts["entries"])
        ops: list[Op] = []
        added = await entries_after(self._storage, self._id, entries[-1]["id"] if entries else 0)
        if added:
            ops.append(appended(len(entries), added))
            entries = [*entries, *added]
        rest = await self._rest(entries, await self._tasks())
        self.parts = {"entries": entries, "first": former["first"], **rest}
        ops += [["s", [key], value] for key, value in rest.items() if key not in former or former[key] != value]
        ops += [["d", [key]] for key in former if key not in self.parts]
        return ops

    async def _tasks(self) -> list[TaskRecord]:
        """The live tasks; those that ended since the last look are noted, also one that began after it."""
        live = await self._storage.live_tasks()
        now = {record["id"] for record in live}
        ended = [record for gone in sorted(self._live - now) if (record := await self._storage.task(gone)) is not None]
        while page := await self._storage.tasks(after=self._newest_task):
            ended += [record for record in page if record["id"] not in now and record["id"] not in self._live]
            self._newest_task = page[-1]["id"]
        self._live = now
        self._ended = [*self._ended, *ended][-ENDED_SHOWN:]
        return [*self._ended, *live]

    async def _rest(self, entries: list[ShownEntry], tasks: list[TaskRecord]) -> Parts:
        """All of the view but its entries."""
        parts: Parts = {key: await self._value(definition) for key, definition in PLACES}
        parts.update(live_part(cast("Live", await self._value(LIVE))))
        size = view_context({"entries": entries, **parts}, self._window)
        if size is not None:
            parts["context"] = size
        await self._words.recall(tasks, self._storage)
        parts["tasks"] = [task_row(record, self._words) for record in sorted(tasks, key=lambda record: record["id"])]
        return parts

    async def _value(self, definition: SomeDefinition) -> Json:
        owner = self._id if definition.scope == "conversation" else 0
        value = await stored_value(self._storage, definition, owner)
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
        inputs = [record["input"] for record in records]
        answered = [given.get("assistant") for given in inputs if isinstance(given, Mapping)]
        named = {entry_id for entry_id in answered if isinstance(entry_id, int)}
        for forgotten in self._entries.keys() - named:
            del self._entries[forgotten]
        for entry_id in named - self._entries.keys():
            stored = await storage.entry(entry_id)
            if stored is not None:
                self._entries[entry_id] = stored.record
        report = await stored_value(storage, RECOVERY)
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
        if record["abortRequested"]:
            return None  # what is marked stays for nothing but its own work (spec 6.12)
        if self._restart_limit and record.get("restarts", 0) >= self._restart_limit:
            return RESTART_LIMIT
        gate = gate_of(record)
        if gate is None or ("time" in gate and gate["time"] <= now_ms()):
            return None
        return gate["reason"]

    def verdict(self, record: TaskRecord) -> Verdict | None:
        return self._verdicts.get(record["id"])
