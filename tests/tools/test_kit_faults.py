"""The failing store fails as its plan says, and only there."""

from __future__ import annotations

import asyncio

import pytest

from durable_tui.storage import MemoryStorage, StorageRejected, StorageUncertain
from tests.tools.batches import batch, begin, put
from tests.tools.faults import Fault, FaultyStorage


async def test_refusals_leave_nothing_and_uncertain_ones_what_the_plan_says() -> None:
    inner = MemoryStorage()
    faulty = FaultyStorage(
        inner,
        {
            2: Fault("reject"),
            3: Fault("full"),
            4: Fault("uncertain"),
            5: Fault("uncertain", "after"),
        },
    )
    await begin(faulty)
    for expected, full, stored in (
        (StorageRejected, False, 1),
        (StorageRejected, True, 1),
        (StorageUncertain, None, 1),
        (StorageUncertain, None, 2),
    ):
        with pytest.raises(expected) as failed:
            await put(faulty, conversations=[{"id": faulty.mint_id()}])
        assert getattr(failed.value, "full", None) == full
        assert len(await inner.commits()) == stored
    await put(faulty, conversations=[{"id": faulty.mint_id()}])
    assert faulty.count == 6 and len(await faulty.commits()) == 3


@pytest.mark.parametrize("when", ["before", "after"])
async def test_a_death_never_answers_and_leaves_what_was_stored(when: str) -> None:
    inner = MemoryStorage(record=True)
    died: list[int] = []
    faulty = FaultyStorage(inner, {2: Fault("die", when, lambda: died.append(1))})  # type: ignore[arg-type]
    await begin(faulty)
    waiting = asyncio.ensure_future(put(faulty, conversations=[{"id": faulty.mint_id()}]))
    await asyncio.sleep(0)
    assert died == [1] and faulty.dead and not waiting.done()
    reading = asyncio.ensure_future(faulty.conversations())
    later = asyncio.ensure_future(faulty.commit(batch(inner, conversations=[{"id": 9}])))
    await asyncio.sleep(0.01)
    assert not reading.done() and not later.done()
    for task in (waiting, reading, later):
        task.cancel()
    await asyncio.wait({waiting, reading, later})
    assert len(inner.log) == (2 if when == "after" else 1)


async def test_a_cancellation_meets_the_commit() -> None:
    inner = MemoryStorage()
    faulty = FaultyStorage(inner, lambda count, made: Fault("cancel") if made.conversations[0]["id"] == 2 else None)
    await begin(faulty)
    waiting = asyncio.ensure_future(put(faulty, conversations=[{"id": 2}]))
    with pytest.raises(asyncio.CancelledError):
        await waiting
    assert len(await inner.commits()) == 2
