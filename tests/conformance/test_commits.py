"""A batch is atomic, ids and seqs belong to the store, a stale owner is fenced (spec 3.5, 3.6, 4)."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from durable_tui.storage import Fenced, StorageError, StorageRejected
from durable_tui.storage.records import Batch, FlightRow
from tests.conformance.backends import Backend
from tests.tools.batches import SESSION, base, batch, begin, delta, document, entry, put, submission, task


async def snapshot(storage: Any) -> Any:
    """Everything a store shows."""
    return (
        await storage.conversations(),
        await storage.entries(1),
        await storage.submissions(),
        await storage.tasks(),
        await storage.live_tasks(),
        await storage.documents(SESSION),
        await storage.commits(),
    )


def full(storage: Any, **more: Any) -> Batch:
    """A batch that touches every table, with `more` written beside."""
    first = storage.mint_id()
    for _ in range(5):
        storage.mint_id()
    made = batch(
        storage,
        conversations=[{"id": first}],
        entries=[entry(first + 1)],
        submissions=[submission(first + 2)],
        tasks=[task(first + 3)],
    )
    made.documents.append(document(first + 4, f"k{first}", SESSION, made.seq))
    made.revisions.append(base(first + 4, {"n": first}))
    for name, records in more.items():
        getattr(made, name).extend(records)
    return made


BAD: dict[str, Any] = {
    "an entry's id again": {"entries": [entry(2)]},
    "one id twice": {"entries": [entry(900), entry(900)]},
    "a request id again": {"submissions": [submission(901, requestId="r")]},
    "an address again": {"documents": [document(902, "held", SESSION, 3)]},
    "a revision of nothing": {"revisions": [base(903, 1)]},
    "two revisions of one document": {"revisions": [delta(5, ["s", ["a"], 1]), delta(5, ["s", ["b"], 1])]},
    "a recorded revision twice": {"flight": [FlightRow(1, 5, 1, 1, "base", 0), FlightRow(1, 5, 1, 2, "base", 0)]},
    "a recording that is no JSON": {"flight": [FlightRow(1, 5, 1, 1, "base", float("inf"))]},
    "no JSON": {"entries": [entry(904, data={"a": float("nan")})]},
    "an object": {"tasks": [task(905, input=object())]},
    "deep inside": {"revisions": [delta(5, ["s", ["a"], {1, 2}])]},
}


@pytest.mark.parametrize("bad", BAD)
async def test_spec_4_a_batch_that_fails_in_the_middle_leaves_nothing(backend: Backend, bad: str) -> None:
    storage = await backend.open()
    await begin(storage)
    await put(
        storage,
        entries=[entry(2)],
        submissions=[submission(3, requestId="r")],
        documents=[document(5, "held", SESSION, 2)],
        revisions=[base(5, {})],
    )
    before = await snapshot(storage)
    with pytest.raises(StorageRejected) as refused:
        await storage.commit(full(storage, **BAD[bad]))
    assert not refused.value.full
    assert await snapshot(storage) == before
    good = full(storage)
    await storage.commit(good)
    after = await snapshot(storage)
    assert after[0][-1] == good.conversations[0] and after[6][-1].seq == good.seq
    reopened = await backend.crash(storage)
    assert await snapshot(reopened) == after


async def test_spec_3_3_nothing_written_stores_nothing(backend: Backend) -> None:
    storage = await backend.open()
    await storage.commit(batch(storage))
    assert await storage.commits() == []


async def test_spec_2_seqs_only_grow(backend: Backend) -> None:
    storage = await backend.open()
    late = batch(storage, conversations=[{"id": 1}])
    await put(storage, conversations=[{"id": 2}])
    with pytest.raises(StorageRejected):
        await storage.commit(late)
    with pytest.raises(StorageRejected):
        await storage.commit(Batch(2, 0, conversations=[{"id": 3}]))
    assert [row.seq for row in await storage.commits()] == [2]


@pytest.mark.parametrize("end", ["close", "abandon", "crash"])
async def test_spec_2_ids_are_never_used_again(backend: Backend, end: str) -> None:
    storage = await backend.open()
    minted = [storage.mint_id() for _ in range(5)]
    assert minted == [1, 2, 3, 4, 5]
    # 1 to 5 were handed out before the commit of 3: none of them may come again, used or not.
    seq = await put(storage, conversations=[{"id": 3}])
    if end == "crash":
        storage = await backend.crash(storage)
    else:
        await getattr(storage, end)()
        storage = await backend.open()
    assert storage.mint_id() == 6
    assert storage.mint_seq() > seq
    await put(storage, entries=[entry(40)])
    assert storage.mint_id() == 41


async def test_spec_4_2_epochs_and_owners(backend: Backend) -> None:
    storage = await backend.open()
    assert [owner.epoch for owner in await storage.owners()] == [1]
    await begin(storage)
    await storage.close()
    await storage.close()
    storage = await backend.open()
    assert storage.epoch == 2
    assert storage.previous.epoch == 1 and storage.previous.closed_at >= storage.previous.opened_at
    assert storage.former_owner == "dead"
    storage = await backend.crash(storage)
    assert storage.epoch == 3 and storage.previous.epoch == 2 and storage.previous.closed_at is None
    rows = await storage.owners()
    assert [(row.epoch, row.closed_at is None) for row in rows] == [(1, False), (2, True), (3, True)]
    assert [row.epoch for row in await storage.owners(limit=2)] == [2, 3]
    assert rows[-1].pid and rows[-1].host and rows[-1].process_started_at <= rows[-1].opened_at


async def test_spec_4_2_a_stale_owner_is_fenced(backend: Backend) -> None:
    storage = await backend.open()
    await begin(storage)
    await backend.take_over(storage)
    for _ in range(2):
        with pytest.raises(Fenced):
            await put(storage, entries=[entry(2)])
    assert await storage.entry(2) is None
    await storage.close()
    reopened = await backend.open()
    assert reopened.previous.closed_at is None, "a stale owner's close must not mark the newer opening"


async def test_spec_3_6_a_closed_store_takes_and_gives_nothing(backend: Backend) -> None:
    storage = await backend.open()
    await begin(storage)
    await storage.close()
    with pytest.raises(StorageRejected):
        await storage.commit(Batch(9, 0, conversations=[{"id": 9}]))
    with pytest.raises(StorageError):
        await storage.conversations()


@pytest.mark.parametrize("cancels", [1, 2, 5])
@pytest.mark.parametrize("turns", range(6))
async def test_d02_cancelling_a_commit_leaves_all_or_nothing(backend: Backend, turns: int, cancels: int) -> None:
    storage = await backend.open()
    await begin(storage)
    made = full(storage)
    committing = asyncio.ensure_future(storage.commit(made))
    for _ in range(turns):
        await asyncio.sleep(0)
    for _ in range(cancels):
        committing.cancel()
        await asyncio.sleep(0)
    await asyncio.wait({committing})
    stored = made.seq in [row.seq for row in await storage.commits()]
    # A task cancelled before its first step never gave the batch to the store; from then on it is stored.
    assert stored == (turns > 0)
    found = await snapshot(storage)
    assert (len(found[0]), len(found[1]), len(found[2]), len(found[3]), len(found[5])) == (
        (2, 1, 1, 1, 1) if stored else (1, 0, 0, 0, 0)
    )
    following = full(storage)
    await storage.commit(following)
    after = await snapshot(storage)
    assert await snapshot(await backend.crash(storage)) == after


async def test_spec_3_5_a_cancelled_commit_that_fails_says_so_in_its_cause(backend: Backend) -> None:
    storage = await backend.open()
    await begin(storage)
    await put(storage, entries=[entry(2)])
    committing = asyncio.ensure_future(put(storage, entries=[entry(2)]))
    await asyncio.sleep(0)
    if committing.done():  # a store that never waits has failed already
        assert isinstance(committing.exception(), StorageRejected)
        return
    committing.cancel()
    with pytest.raises(asyncio.CancelledError) as cancelled:
        await committing
    assert committing.cancelled()
    assert isinstance(cancelled.value.__cause__, StorageRejected)
    assert len(await storage.commits()) == 2


async def test_spec_4_commits_and_reads_side_by_side_keep_their_order(backend: Backend) -> None:
    storage = await backend.open()
    await begin(storage)
    committing = [asyncio.ensure_future(put(storage, entries=[entry(10 + i)])) for i in range(30)]
    seen = await asyncio.gather(*(storage.entries(1) for _ in range(5)))
    await asyncio.gather(*committing)
    assert [found.record["id"] for found in await storage.entries(1)] == list(range(10, 40))
    for page in seen:
        assert [found.record["id"] for found in page] == list(range(10, 10 + len(page)))
