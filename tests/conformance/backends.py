"""The backends the conformance suite runs on, and how each is opened, lost and opened again."""

from __future__ import annotations

from abc import ABC, abstractmethod
from pathlib import Path
from typing import Any

from durable_tui.storage import MemoryStorage, SqliteStorage


class Backend(ABC):
    """One store of one test. `open()` opens it, anew after `close()`, `abandon()` or `crash()`."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.opened: list[Any] = []

    async def open(self) -> Any:
        storage = await self._open()
        self.opened.append(storage)
        return storage

    @abstractmethod
    async def _open(self) -> Any: ...

    async def crash(self, storage: Any) -> Any:
        """A new opening of what a dead process left."""
        await storage.abandon()
        return await self.open()

    @abstractmethod
    async def take_over(self, storage: Any) -> None:
        """Let a newer opening exist while `storage` still believes to own the store."""

    async def end(self) -> None:
        for storage in self.opened:
            await storage.abandon()


class Memory(Backend):
    async def _open(self) -> Any:
        return self.opened[-1].crash() if self.opened else MemoryStorage()

    async def crash(self, storage: Any) -> Any:
        return await self.open()

    async def take_over(self, storage: Any) -> None:
        await self.open()


class Sqlite(Backend):
    @property
    def path(self) -> Path:
        return self.folder / "session.sqlite"

    async def _open(self) -> Any:
        return await SqliteStorage.open(self.path)

    async def take_over(self, storage: Any) -> None:
        import sqlite3

        raw = sqlite3.connect(self.path)
        with raw:
            raw.execute(
                "INSERT INTO owners (epoch, pid, host, boot_id, process_started_at, opened_at)"
                " SELECT max(epoch) + 1, 1, 'elsewhere', '', 0, 0 FROM owners"
            )
        raw.close()


BACKENDS: dict[str, type[Backend]] = {"memory": Memory, "sqlite": Sqlite}
