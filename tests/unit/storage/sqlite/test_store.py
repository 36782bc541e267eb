"""The store over its life: tidying up, and the close (spec 4)."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path

import pytest

from durable_tui.storage import SqliteStorage
from tests.tools.batches import begin, entry, put


async def test_spec_4_checkpoints_happen_when_idle_and_at_close(tmp_path: Path) -> None:
    storage = await SqliteStorage.open(tmp_path / "a.sqlite", "process")
    await begin(storage)
    size = os.path.getsize(tmp_path / "a.sqlite")
    for _ in range(100):
        await put(storage, entries=[entry(storage.mint_id(), data="x" * 2000)])
    assert os.path.getsize(tmp_path / "a.sqlite") == size, "nothing is checkpointed inside commits"
    await storage.checkpoint()
    grown = os.path.getsize(tmp_path / "a.sqlite")
    assert grown > size
    await put(storage, entries=[entry(storage.mint_id(), data="x" * 90_000)])
    await storage.checkpoint()
    assert os.path.getsize(tmp_path / "a.sqlite") == grown, "one commit is not worth a checkpoint"
    await storage.close()
    assert os.path.getsize(tmp_path / "a.sqlite") > grown
    assert not (tmp_path / "a.sqlite-wal").exists()


async def test_d02_a_cancelled_close_still_closes(tmp_path: Path) -> None:
    storage = await SqliteStorage.open(tmp_path / "a.sqlite")
    await begin(storage)
    closing = asyncio.ensure_future(storage.close())
    await asyncio.sleep(0)
    closing.cancel()
    with pytest.raises(asyncio.CancelledError):
        await closing
    again = await SqliteStorage.open(tmp_path / "a.sqlite")
    assert again.previous is not None and again.previous.closed_at is not None
    await again.close()
