"""The store over its life: tidying up, followers, the close (spec 4)."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path

import pytest

from durable_tui.storage import Owner, Reader, SqliteReader, SqliteStorage
from tests.tools.batches import begin, entry, put
from tests.tools.sqlite_files import raw_of


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


async def test_a_file_that_is_read_while_it_is_written_stays_readable(tmp_path: Path) -> None:
    path = tmp_path / "a.sqlite"
    owner = await SqliteStorage.open(path)
    await begin(owner)
    follower = await SqliteReader.open(path)
    assert follower.read_only and isinstance(follower, Reader) and not isinstance(follower, Owner)
    assert await follower.poll_seq() == 1
    for number in range(5):
        seq = await put(owner, entries=[entry(owner.mint_id())])
        assert await follower.poll_seq() == seq
        assert len(await follower.entries(1)) == number + 1
    statements: list[str] = []
    await raw_of(follower, lambda raw: raw.set_trace_callback(statements.append))
    for _ in range(3):
        await follower.poll_seq()
    assert all("data_version" in statement for statement in statements), "nothing new costs no query"
    await follower.close()
    await owner.close()
    assert os.listdir(tmp_path) == ["a.sqlite"]


async def test_a_follower_of_a_session_at_rest_notices_every_later_opening(tmp_path: Path) -> None:
    path = tmp_path / "a.sqlite"
    owner = await SqliteStorage.open(path)
    await begin(owner)
    await owner.close()
    before = path.read_bytes()
    follower = await SqliteReader.open(path)
    assert await follower.poll_seq() == 1
    assert path.read_bytes() == before and os.listdir(tmp_path) == ["a.sqlite"], "reading leaves nothing behind"
    for _ in range(3):
        owner = await SqliteStorage.open(path)
        seq = await put(owner, entries=[entry(owner.mint_id(), data="x" * 9000)])
        await owner.close()
        assert await follower.poll_seq() == seq
    owner = await SqliteStorage.open(path)
    seq = await put(owner, entries=[entry(owner.mint_id())])
    assert await follower.poll_seq() == seq
    assert [found.record["id"] for found in await follower.entries(1)] == [2, 3, 4, 5]
    seq = await put(owner, entries=[entry(owner.mint_id())])
    assert await follower.poll_seq() == seq and len(await follower.owners()) == 5
    await owner.close()
    await follower.close()


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
