"""What the store refuses or loses while work runs (spec 3.6, 4.2, 13; cases D02, D04, D06, R07)."""

from __future__ import annotations

import asyncio
import dataclasses
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from durable_tui.session import SessionClosed, SessionPoisoned
from durable_tui.storage.errors import Fenced, StorageRejected, StorageUncertain
from tests.scenarios.conftest import Open
from tests.tools.scenario import FAST, Rig, codes
from tests.tools.strict_provider import call, say
from tests.tools.waiting import a_while, turns, until

SCRIPT = [
    call(("note", {"text": "a"}), ("peek", {"text": "b"})),
    call(("seq", {"text": "c", "seconds": 0})),
    say("done"),
]
QUICK = dataclasses.replace(FAST, space_interval=0.02)
Commit = Callable[[Any], Awaitable[None]]


def _wrap(rig: Rig, around: Callable[[Commit, Any, int], Awaitable[None]]) -> None:
    """Run `around(inner, batch, number)` instead of every commit of the store."""
    inner = rig.storage.commit
    count = 0

    async def commit(batch: Any) -> None:
        nonlocal count
        count += 1
        await around(inner, batch, count)

    rig.storage.commit = commit


@pytest.mark.parametrize("failing", range(1, 16))
async def test_spec_3_6_one_rejected_commit_never_ends_a_run(opened: Open, failing: int) -> None:
    """The session goes on: the step is tried again, no effect repeats, the answer is reached."""
    rig = await opened(SCRIPT, settings=QUICK)
    await rig.harness.wait_for_idle()

    async def around(inner: Commit, batch: Any, number: int) -> None:
        if number == failing:
            raise StorageRejected("the database is locked")
        await inner(batch)

    _wrap(rig, around)
    try:
        submission = await rig.root.submit("go", request_id="r")
    except StorageRejected:
        assert failing == 1
        submission = await rig.root.submit("go", request_id="r")
    settled = await asyncio.wait_for(submission.wait(), 20)
    assert settled.status == "done", settled
    assert sorted(rig.effects.texts("note")) == ["a"] and rig.effects.texts("seq") == ["c"]
    assert codes(await rig.entries()) == []
    assert rig.harness.state == "open"
    await rig.idle()
    await rig.check(idle=True)


@pytest.mark.parametrize("failing", range(1, 14))
async def test_d04_a_full_disk_pauses_and_goes_on_when_space_is_back(opened: Open, failing: int) -> None:
    rig = await opened(SCRIPT, settings=QUICK)
    await rig.harness.wait_for_idle()
    full = False
    problems: list[str | None] = []
    rig.harness.on_problem(problems.append)

    async def around(inner: Commit, batch: Any, number: int) -> None:
        nonlocal full
        if number == failing:
            full = True
        if full:
            raise StorageRejected("no space left on device", full=True)
        await inner(batch)

    _wrap(rig, around)
    try:
        submission = await rig.root.submit("go", request_id="r")
    except StorageRejected:
        assert failing == 1
        full = False
        submission = await rig.root.submit("go", request_id="r")
    else:
        waiting = asyncio.create_task(submission.wait())
        pausing = asyncio.create_task(until(lambda: rig.harness.paused_for_space, 20))
        await asyncio.wait({waiting, pausing}, return_when=asyncio.FIRST_COMPLETED)
        pausing.cancel()
        if not waiting.done():
            await until(lambda: rig.provider.active == 0)
            requests, effects = len(rig.provider.requests), len(rig.effects.read())
            await a_while(0.1)
            assert (len(rig.provider.requests), len(rig.effects.read())) == (requests, effects), "it works on unsaved"
            assert problems and problems[-1] and "space" in problems[-1]
            assert rig.harness.session_problem == problems[-1]
            full = False
        await asyncio.wait_for(waiting, 20)
    settled = await asyncio.wait_for(submission.wait(), 20)
    assert settled.status == "done", settled
    assert rig.harness.session_problem is None and not rig.harness.paused_for_space
    assert rig.effects.texts("note") == ["a"] and rig.effects.texts("seq") == ["c"]
    assert not [task for task in await rig.storage.tasks() if task["state"]["outcome"]["status"] == "faulted"]
    await rig.idle()
    await rig.check(idle=True)


@pytest.mark.parametrize("applied", [False, True], ids=["lost", "applied"])
@pytest.mark.parametrize("failing", range(1, 13))
async def test_spec_3_6_an_uncertain_commit_poisons_and_reopening_goes_on(
    opened: Open, failing: int, applied: bool
) -> None:
    rig = await opened(SCRIPT, settings=QUICK)
    await rig.harness.wait_for_idle()
    seen: list[int] = []

    async def around(inner: Commit, batch: Any, number: int) -> None:
        if number == failing:
            if applied:
                await inner(batch)
            raise StorageUncertain("the connection broke during COMMIT")
        await inner(batch)

    _wrap(rig, around)

    async def watch() -> None:
        async for frame in rig.root.watch():
            seen.append(frame.seq)

    watching = asyncio.create_task(watch())
    await asyncio.sleep(0)
    try:
        submission = await rig.root.submit("go", request_id="r")
        with pytest.raises((SessionPoisoned, StorageUncertain)):
            await asyncio.wait_for(submission.wait(), 20)
    except StorageUncertain:
        assert failing == 1
    assert rig.harness.state == "poisoned" and "poisoned" in (rig.harness.session_problem or "")
    with pytest.raises(SessionPoisoned):
        await rig.root.submit("more")
    requests = len(rig.provider.requests)
    effects = len(rig.effects.read())
    await a_while()
    assert (len(rig.provider.requests), len(rig.effects.read())) == (requests, effects)
    watching.cancel()
    await asyncio.gather(watching, return_exceptions=True)
    await rig.harness.close()
    if rig.backend == "memory":
        rig.storage = rig.storage.crash()
    await rig.reopen()
    deaths = (await rig.harness.recovery())["deaths"]
    assert len(deaths) == 1, "a poisoned session is unclean"
    again = await rig.root.submit("go", request_id="r")
    assert (await asyncio.wait_for(again.wait(), 20)).status == "done"
    assert len(rig.effects.texts("note")) <= 1 and len(rig.effects.texts("seq")) <= 1
    await rig.idle()
    await rig.check(idle=True)


@pytest.mark.parametrize("backend", ["memory"])  # a second opening of a file is refused by its lock
async def test_spec_4_2_a_fenced_owner_stops_and_changes_nothing(opened: Open, backend: str) -> None:
    rig = await opened([call(("gate", {"text": "g"})), say("done")])
    submission = await rig.root.submit("go", request_id="r")
    await rig.effects.wait_started("gate")
    old, first = rig.harness, rig.storage
    rig.storage = first.crash()
    rig.effects.gate("g").set()
    with pytest.raises(Fenced):
        await asyncio.wait_for(submission.wait(), 10)
    assert old.state == "fenced"
    await old.close()
    await rig.reopen()
    await rig.harness.resume()
    await rig.idle()
    assert (await rig.storage.submission(submission.id))["status"] == "done"
    assert codes(await rig.entries()) == ["interrupted"]
    await rig.check(idle=True)


async def test_spec_13_closing_rejects_waits_unless_settled(opened: Open) -> None:
    rig = await opened([say("one"), call(("gate", {"text": "g"})), say("done")])
    first = await rig.root.submit("first")
    await first.wait()
    second = await rig.root.submit("second")
    await rig.effects.wait_started("gate")
    waiting = asyncio.create_task(second.wait())
    idle = asyncio.create_task(rig.harness.wait_for_idle())
    await turns()
    await rig.close()
    for task in (waiting, idle):
        with pytest.raises(SessionClosed):
            await asyncio.wait_for(task, 5)
    assert (await first.wait()).status == "done"
    with pytest.raises(SessionClosed):
        await rig.root.submit("third")
    await rig.reopen()
    await rig.harness.resume()
    await rig.idle()
    await rig.check(idle=True)


@pytest.mark.parametrize("steps", range(0, 40, 3))
async def test_d02_a_cancelled_commit_is_all_there_or_not_at_all(opened: Open, steps: int) -> None:
    rig = await opened([say("x")])

    async def write() -> None:
        async with rig.harness.commit() as tx:
            for number in range(6):
                tx.append(1, "pi.user", model=[{"role": "user", "content": f"w{number}", "timestamp": 1}])

    task = asyncio.create_task(write())
    for _ in range(steps):
        await asyncio.sleep(0)
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    assert len(await rig.entries()) in (0, 6)
    before = await rig.transcript()
    await write()
    assert len(await rig.transcript()) == len(before) + 6
    await rig.crash()
    assert len(await rig.transcript()) == len(before) + 6
    await rig.check(idle=True)


async def test_d02_a_raising_body_stores_nothing_and_uses_no_seq(opened: Open) -> None:
    rig = await opened([say("x")])
    seq = rig.harness.seq
    with pytest.raises(ZeroDivisionError):
        async with rig.harness.commit() as tx:
            tx.append(1, "pi.user", model=[{"role": "user", "content": "w", "timestamp": 1}])
            raise ZeroDivisionError
    async with rig.harness.commit():
        pass
    assert rig.harness.seq == seq and await rig.entries() == []
    await (await rig.root.submit("go")).wait()
    await rig.check(idle=True)
