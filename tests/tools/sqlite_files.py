"""Session files as they lie on the disk: made, changed behind the store's back, and looked into."""

from __future__ import annotations

import sqlite3
from pathlib import Path
from typing import Any

from durable_tui.storage import SqliteStorage
from tests.tools.batches import begin, entry, put


async def made(path: Path, entries: int = 0) -> Path:
    """Make a session with that many entries, closed in order."""
    storage = await SqliteStorage.open(path)
    await begin(storage)
    for _ in range(entries):
        await put(storage, entries=[entry(storage.mint_id(), data="x" * 3000)])
    await storage.close()
    return path


def change(path: Path, *statements: str) -> None:
    """Run statements on a session that nobody owns."""
    raw = sqlite3.connect(path)
    for statement in statements:
        raw.execute(statement)
    raw.commit()
    raw.close()


async def raw_of(storage: Any, job: Any) -> Any:
    """The result of `job(connection)`, run on the store's own thread."""
    return await storage._thread.run(lambda handle: job(handle.raw))


async def pragma(storage: Any, name: str) -> Any:
    """The value of one setting of the store's connection."""
    return await raw_of(storage, lambda raw: raw.execute(f"PRAGMA {name}").fetchone()[0])
