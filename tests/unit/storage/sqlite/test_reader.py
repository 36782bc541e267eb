"""Reading a session while others write it, and while nobody does (spec 4.2, 4.3)."""

from __future__ import annotations

import os
from pathlib import Path

from durable_tui.storage import Owner, Reader, SqliteReader, SqliteStorage
from tests.tools.batches import begin, entry, put
from tests.tools.sqlite_files import raw_of


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
