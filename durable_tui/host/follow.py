"""Following a session that another process owns: read-only frames, in the shape a harness gives them (spec 4.2).

Looks at the newest commit a few times a second and reads what changed since, in short transactions; never writes.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar, cast

from durable_tui.engine.recovery import made_at
from durable_tui.host.reading import SESSION_SCOPE, conversation_scope, document_value
from durable_tui.session.watch import Frame
from durable_tui.views.shapes import shown

if TYPE_CHECKING:
    from durable_tui.storage.records import StoredEntry, TaskRecord
    from durable_tui.storage.sqlite.store import SqliteStorage
    from durable_tui.views.shapes import ConversationView, ShownEntry, TaskRow, TasksView

INTERVAL = 0.3  # seconds between two looks
ROOT = 1
DOCUMENTS: tuple[tuple[str, str, dict[str, Any]], ...] = (
    ("inbox", "pi.inbox", {"items": []}),
    ("agent", "pi.agent", {}),
    ("usage", "pi.usage", {"models": {}, "tools": {}}),
    ("draft", "dt.draft", {"text": ""}),
)
SESSION_DOCUMENTS: tuple[tuple[str, str, dict[str, Any]], ...] = (
    ("recovery", "dt.recovery", {"deaths": []}),
    ("session", "dt.session", {"cwd": "", "createdAt": 0}),
)
LIVE = ("run", "generation", "tools", "compactions")

V = TypeVar("V")


class Followed:
    """The root conversation of a session as it is stored, and as it grows. Nothing can be changed through it."""

    id = ROOT

    def __init__(self, storage: SqliteStorage, path: Path) -> None:
        self.storage = storage
        self.path = path
        self._closed = asyncio.Event()

    @classmethod
    async def open(cls, path: Path) -> Followed:
        """Raises what the storage raises."""
        from durable_tui.storage.sqlite.store import SqliteStorage

        return cls(await SqliteStorage.open(path, read_only=True), path)

    async def close(self) -> None:
        self._closed.set()
        await self.storage.close()

    async def entries(self, before: int | None = None, limit: int = 200) -> list[StoredEntry]:
        """The newest entries before an id, in order."""
        return (await self.storage.entries(ROOT, before=before, limit=limit, reverse=True))[::-1]

    async def watch(self, tail: int | None = None) -> AsyncGenerator[Frame[ConversationView], None]:
        """The view now, and again whenever commits have changed it."""
        newest = await self._newest()
        limit = tail or 1_000_000
        page = await self.storage.entries(ROOT, limit=limit + 1, reverse=True)
        entries = [shown(stored) for stored in reversed(page[:limit])]
        parts = await self._parts()
        yield self._frame(_view(entries, len(page) <= limit, parts), None, newest)
        async for seq in self._changes(newest[0]):
            ops: list[Any] = []
            last = entries[-1]["id"] if entries else 0
            added = [shown(stored) for stored in await self.storage.entries(ROOT, after=last)]
            if added:
                ops.append(["p", ["entries"], len(entries), 0, added])
                entries = [*entries, *added]
            former, parts = parts, await self._parts()
            ops += [["s", [key], value] for key, value in parts.items() if former.get(key) != value]
            ops += [["d", [key]] for key in former if key not in parts]
            if ops:
                yield self._frame(_view(entries, len(page) <= limit, parts), ops, seq)

    async def watch_tasks(self) -> AsyncGenerator[Frame[TasksView], None]:
        """The live tasks, whole, whenever commits were made."""
        newest = await self._newest()
        yield await self._tasks(newest)
        async for seq in self._changes(newest[0]):
            yield await self._tasks(seq)

    async def _changes(self, seq: int) -> AsyncGenerator[tuple[int, int], None]:
        while not self._closed.is_set():
            try:
                await asyncio.wait_for(self._closed.wait(), INTERVAL)
                return
            except TimeoutError:
                newest = await self._newest()
            if newest[0] != seq:
                seq = newest[0]
                yield newest

    async def _newest(self) -> tuple[int, int]:
        rows = await self.storage.commits(limit=1, reverse=True)
        return (rows[0].seq, rows[0].at) if rows else (0, 0)

    async def _parts(self) -> dict[str, Any]:
        scope = conversation_scope(ROOT)
        parts: dict[str, Any] = {"tools": [], "compactions": []}
        for key, kind, empty in DOCUMENTS:
            parts[key] = await document_value(self.storage, kind, scope) or empty
        for key, kind, empty in SESSION_DOCUMENTS:
            parts[key] = await document_value(self.storage, kind, SESSION_SCOPE) or empty
        live = await document_value(self.storage, "pi.live", scope) or {}
        parts.update({key: live[key] for key in LIVE if key in live})
        return parts

    async def _tasks(self, newest: tuple[int, int]) -> Frame[TasksView]:
        value: TasksView = {"tasks": [task_row(record) for record in await self.storage.live_tasks()]}
        return self._frame(value, None, newest)

    def _frame(self, value: V, ops: list[Any] | None, newest: tuple[int, int]) -> Frame[V]:
        return Frame(value, [["r", value]] if ops is None else ops, newest[0], newest[1])


def _view(entries: list[ShownEntry], first: bool, parts: dict[str, Any]) -> ConversationView:
    return cast("ConversationView", {"entries": entries, "first": first, **parts})


def task_row(record: TaskRecord) -> TaskRow:
    """One task as a task view has it, from its record alone: without what it is doing, which only its code knows."""
    state = record["state"]
    row: dict[str, Any] = {
        key: record[key]
        for key in ("id", "conversationId", "kind", "background", "abortRequested", "owner", "restarts", "startedAt")
        if key in record
    }
    row["status"] = state["status"]
    phase = state.get("checkpoint", {}).get("phase")
    if phase is not None:
        row["phase"] = phase
    provider = made_at(record)
    if provider is not None:
        row["provider"] = provider
    if state["status"] == "waiting":
        row["waitingOn"] = list(state["on"])
    return cast("TaskRow", row)
