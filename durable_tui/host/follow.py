"""Following a session that another process owns: read-only frames, of the shape its owner's have (spec 4.2, 13).

Looks at the newest commit a few times a second and reads what changed since, in short transactions; never writes.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from durable_tui.models.provider import ModelError
from durable_tui.session.watch import Frame
from durable_tui.storage.errors import SnapshotLost, StorageError
from durable_tui.storage.records import ROOT
from durable_tui.views.build import is_stored, resuming_ops
from durable_tui.views.look import Look, ReaderWords

if TYPE_CHECKING:
    from durable_tui.agent.extension import Registry
    from durable_tui.agent.shapes import SessionFacts
    from durable_tui.models.models import Models
    from durable_tui.storage import Follower, Reader
    from durable_tui.storage.records import StoredEntry
    from durable_tui.views.shapes import Position, SessionView

INTERVAL = 0.3  # seconds between two looks
T = TypeVar("T")


class FollowedSession:
    """A session another process owns, as far as it can be read; nothing can be changed through it.

    It is its own `harness`. `models`, which it closes, tell how large a model's context window is; a `restart_limit` of 0
    says that it is not known when a task is parked.
    """

    session_problem: str | None = None
    paused_reason: str | None = None
    paused_for_space = False

    def __init__(
        self, storage: Follower, path: Path, registry: Registry, *, models: Models | None = None, restart_limit: int = 0
    ) -> None:
        self.path = path
        self.registry = registry
        self.session: SessionFacts = {"cwd": "", "createdAt": 0}
        self.warnings: list[str] = list(storage.warnings)
        self._storage = storage
        self._closed = asyncio.Event()
        self._looking = asyncio.Lock()
        self._words = ReaderWords(registry, restart_limit)
        self._models = models
        self.root = FollowedConversation(storage, ROOT)

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

    async def watch(
        self, conversation_id: int, *, tail: int | None = None, since: Position | None = None
    ) -> AsyncGenerator[Frame[SessionView], None]:
        """As `Harness.watch`: the view now, and again whenever commits have changed it; each frame of one moment."""
        look = Look(self._storage, self._words, conversation_id, self._window)
        try:
            seq, at, since = await self._moment(lambda: self._begin(look, tail, since))
            value = look.view()
            yield Frame(value, [["r", value]] if since is None else resuming_ops(look.parts, since), seq, at)
            async for _ in self._changes(seq):
                seq, at, ops = await self._moment(look.again)
                if ops:
                    yield Frame(look.view(), ops, seq, at)
        except StorageError:
            if not self._closed.is_set():
                raise  # else it was closed in the midst of a look

    async def _begin(self, look: Look, tail: int | None, since: Position | None) -> Position | None:
        """Take the first look; whether it goes on where a copy stands."""
        if since is not None and not await is_stored(self._storage, since):
            since = None
        await look.begin(tail, since)
        return since

    async def _moment(self, looking: Callable[[], Awaitable[T]]) -> tuple[int, int, T]:
        """(seq, time, what was seen) of one moment: the newest commit then, and a look at what it left."""
        while True:
            try:
                async with self._looking, self._storage.snapshot():
                    rows = await self._storage.commits(limit=1, reverse=True)
                    seen = await looking()
                    return (rows[0].seq, rows[0].at, seen) if rows else (0, 0, seen)
            except SnapshotLost:
                continue

    async def _changes(self, seq: int) -> AsyncGenerator[int, None]:
        """The newest commit, each time there is another one than `seq` or the last told."""
        while not self._closed.is_set():
            try:
                await asyncio.wait_for(self._closed.wait(), INTERVAL)
                return
            except TimeoutError:
                newest = await self._storage.poll_seq()
            if newest != seq:
                seq = newest
                yield newest


class FollowedConversation:
    """One conversation of a followed session."""

    def __init__(self, storage: Reader, conversation_id: int) -> None:
        self.id = conversation_id
        self._storage = storage

    async def entries(self, before: int | None = None, limit: int = 200) -> list[StoredEntry]:
        """The newest entries before an id, in order."""
        return (await self._storage.entries(self.id, before=before, limit=limit, reverse=True))[::-1]
