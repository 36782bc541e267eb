"""The reference store's own extras: recorded commit lines, prefixes, deaths (spec 4)."""

from __future__ import annotations

import pytest

from durable_tui import storage as floor
from durable_tui.storage import Fenced, MemoryStorage, Owner
from durable_tui.storage.identity import this_owner
from tests.tools.batches import SESSION, base, batch, begin, delta, document, entry, put, task


def test_backends_are_imported_only_when_used() -> None:
    import subprocess
    import sys

    code = "import sys, durable_tui.storage; print([m for m in ('aiosqlite', 'sqlite3', 'psutil') if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
    assert isinstance(MemoryStorage(), Owner)
    assert issubclass(floor.SqliteStorage, object) and isinstance(MemoryStorage(), floor.MemoryStorage)
    with pytest.raises(AttributeError):
        _ = floor.Nothing


async def recorded() -> MemoryStorage:
    storage = MemoryStorage(record=True)
    await begin(storage)
    await put(storage, documents=[document(2, "k", SESSION, 2)], revisions=[base(2, {"n": 0})], tasks=[task(3)])
    await put(storage, revisions=[delta(2, ["s", ["n"], 1])], entries=[entry(storage.mint_id())])
    await put(storage, tasks=[task(3, status="terminal")])
    return storage


async def test_every_prefix_of_a_log_is_the_store_as_it_was_then() -> None:
    storage = await recorded()
    assert [made.seq for made in storage.log] == [1, 2, 3, 4]
    for length in range(5):
        prefix = MemoryStorage.from_batches(storage.log[:length])
        assert await prefix.poll_seq() == length
        assert prefix.epoch == 2 and prefix.previous is not None and prefix.previous.closed_at is None
        assert prefix.former_owner == "dead"
        assert len(await prefix.conversations()) == (length > 0)
        assert [held["id"] for held in await prefix.live_tasks()] == ([3] if length in (2, 3) else [])
        held = await prefix.document("k", SESSION)
        assert (held is None) == (length < 2) and (held is None or len(held.deltas) == (length > 2))
        assert all(row.epoch == 1 for row in await prefix.commits())
        following = batch(prefix, entries=[entry(prefix.mint_id())])
        await prefix.commit(following)
        assert following.seq == length + 1 and (await prefix.commits())[-1].epoch == 2
    assert len(await storage.commits()) == 4, "a prefix is a store of its own"


async def test_a_log_is_not_changed_by_what_its_maker_does_later() -> None:
    storage = MemoryStorage(record=True)
    made = batch(storage, conversations=[{"id": 1}])
    await storage.commit(made)
    made.conversations.append({"id": 2})
    assert storage.log[0].conversations == [{"id": 1}]


async def test_given_owners_are_the_openings_so_far() -> None:
    storage = await recorded()
    owners = [this_owner(4, 5), this_owner(7, 6)]
    prefix = MemoryStorage.from_batches(storage.log, owners=owners, former_owner="alive", record=True)
    assert prefix.epoch == 8 and prefix.previous == owners[-1] and prefix.former_owner == "alive"
    assert {row.epoch for row in await prefix.commits()} == {7}
    assert prefix.log == []


async def test_a_death_leaves_the_data_and_fences_the_dead() -> None:
    storage = await recorded()
    again = storage.crash()
    assert again.epoch == 2 and again.log == [] and await again.poll_seq() == 4
    with pytest.raises(Fenced):
        await put(storage, entries=[entry(storage.mint_id())])
    await put(again, entries=[entry(again.mint_id())])
    assert len(again.log) == 1
    third = again.crash(record=False, former_owner="alive")
    assert third.former_owner == "alive"
    await put(third, entries=[entry(third.mint_id())])
    assert third.log == [] and [row.epoch for row in await third.commits()] == [1, 1, 1, 1, 2, 3]
