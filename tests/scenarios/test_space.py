"""A full disk, a real one where this user may mount (spec 3.6; cases D04, UI-K15)."""

from __future__ import annotations

import asyncio
import dataclasses
import subprocess
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest

from durable_tui.session import SessionClosed
from durable_tui.storage import MemoryStorage, SqliteStorage
from durable_tui.storage.errors import StorageRejected
from tests.tools.faults import Fault, FaultyStorage
from tests.tools.scenario import FAST, Rig
from tests.tools.strict_provider import call, say
from tests.tools.waiting import a_while, until

QUICK = dataclasses.replace(FAST, space_interval=0.02)


class Disk:
    """A small disk that can be filled: a tmpfs, or, where mounting is not allowed, SQLite's own limit of pages."""

    def __init__(self, path: Path) -> None:
        self.path = path
        mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=2m", "none", str(path)], capture_output=True)
        self.real = mounted.returncode == 0

    async def fill(self, storage: Any) -> None:
        if not self.real:
            await storage._thread.run(lambda handle: handle.raw.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall())
            pages = await self._pragma(storage, "page_count")
            await self._pragma(storage, f"max_page_count={pages}")
            return
        with (self.path / "filler").open("wb", buffering=0) as filler:
            for size in (65536, 4096, 512, 1):
                try:
                    while filler.write(b"\0" * size):
                        pass
                except OSError:
                    continue

    async def free(self, storage: Any) -> None:
        if self.real:
            (self.path / "filler").unlink()
        else:
            await self._pragma(storage, "max_page_count=1000000")

    async def _pragma(self, storage: Any, text: str) -> int:
        rows = await storage._thread.run(lambda handle: handle.raw.execute(f"PRAGMA {text}").fetchall())
        return int(rows[0][0])

    def close(self) -> None:
        if self.real:
            subprocess.run(["umount", "-l", str(self.path)], capture_output=True, check=False)


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Disk]:
    place = tmp_path / "disk"
    place.mkdir()
    made = Disk(place)
    yield made
    made.close()


@pytest.fixture
async def small(disk: Disk) -> AsyncIterator[Rig]:
    """A rig on the small disk: a tool that waits at a gate, then another, then the answer."""
    script = [call(("gate", {"text": "g"}), text="x" * 2000), call(("note", {"text": "n"})), say("done")]
    rig = Rig(script, "sqlite", disk.path / "session.sqlite", settings=QUICK)
    await rig.open()
    yield rig
    await asyncio.wait_for(rig.harness.close(), 10)


async def test_d04_a_disk_that_fills_during_a_turn_pauses_it_and_space_lets_it_go_on(disk: Disk, small: Rig) -> None:
    problems: list[str | None] = []
    small.harness.on_problem(problems.append)
    submission = await small.root.submit("go", request_id="r")
    await small.effects.wait_started("gate")
    await disk.fill(small.storage)
    saved = await small.transcript()
    small.effects.gate("g").set()
    await until(lambda: small.harness.paused_for_space)
    problem = small.harness.session_problem
    assert problem is not None and "not saved" in problem and "no space left" in problem
    assert str(small.path) in problem and "bytes free" in problem, "case UI-K15: path and free bytes are named"
    frame = await anext(small.root.watch())
    assert [entry["id"] for entry in frame.value["entries"]] == [entry["id"] for entry in await small.entries()]
    await a_while(0.2)
    assert len(small.provider.requests) == 1 and small.effects.texts() == ["g"]
    assert await small.transcript() == saved and small.harness.state == "open"
    with pytest.raises(StorageRejected, match="no space left"):
        await small.root.submit("more " * 2000)
    await disk.free(small.storage)
    assert (await asyncio.wait_for(submission.wait(), 20)).status == "done"
    assert small.harness.session_problem is None and problems[-1] is None and not small.harness.paused_for_space
    assert small.effects.texts() == ["g", "n"]
    await small.idle()
    await small.check(idle=True)
    before = await small.transcript()
    await small.close()
    await small.reopen()
    assert await small.transcript() == before and (await small.harness.recovery())["deaths"] == []


async def test_d04_ending_while_the_disk_is_full_loses_nothing_that_was_shown_as_saved(disk: Disk, small: Rig) -> None:
    submission = await small.root.submit("go", request_id="r")
    await small.effects.wait_started("gate")
    await disk.fill(small.storage)
    small.effects.gate("g").set()
    await until(lambda: small.harness.paused_for_space)
    saved = await small.transcript()
    waiting = asyncio.create_task(submission.wait())
    await asyncio.sleep(0)
    try:
        await asyncio.wait_for(small.harness.close(), 10)
    except StorageRejected as error:
        assert error.full, "the close mark found no room; the store is released all the same"
    with pytest.raises(SessionClosed):
        await asyncio.wait_for(waiting, 5)
    if disk.real:
        await disk.free(small.storage)
    await small.reopen()
    assert await small.transcript() == saved
    again = await small.root.submit("go", request_id="r")
    assert again.id == submission.id
    assert (await asyncio.wait_for(again.wait(), 20)).status == "done"
    assert small.effects.texts("gate") == ["g"]
    await small.idle()
    await small.check(idle=True)


async def test_d04_opening_on_a_full_disk_says_so_and_works_once_space_is_back(disk: Disk, small: Rig) -> None:
    if not disk.real:
        small.storage = await _limited(small)
        await _opens_refused(small)
        return
    await small.close()
    await disk.fill(None)
    assert small.path is not None
    with pytest.raises(StorageRejected) as caught:
        await SqliteStorage.open(small.path)
    assert caught.value.full and "no space left" in str(caught.value)
    await disk.free(None)
    await small.reopen()
    small.effects.gate("g").set()
    assert (await asyncio.wait_for((await small.root.submit("hello")).wait(), 20)).status == "done"


async def _limited(rig: Rig) -> Any:
    await rig.close()
    return MemoryStorage()


async def _opens_refused(rig: Rig) -> None:
    """Without a disk of one's own: the recovery commit of an opening is refused, and the next opening works."""
    first = Rig([say("x")], settings=QUICK)
    await first.open()
    await first.kill()
    refusing = FaultyStorage(first.storage, {1: Fault("full")})
    with pytest.raises(StorageRejected):
        await first.open(refusing)
    await first.open(first.storage.crash())
    await first.harness.close()
    await rig.reopen()


# -- refusals of one's own -------------------------------------------------------------------------------------------


class Room:
    """A storage that is full while `full` is set; `bytes_left` refuses only batches with entries or more."""

    def __init__(self) -> None:
        self.full = False
        self.refused = 0

    def plan(self, number: int, batch: Any) -> Fault | None:
        if self.full:
            self.refused += 1
            return Fault("full")
        return None


async def _rig(script: Any, **options: Any) -> tuple[Rig, Room]:
    room = Room()
    rig = Rig(script, settings=QUICK, **options)
    await rig.open(FaultyStorage(MemoryStorage(), room.plan))
    return rig, room


async def _partial(rig: Rig) -> bool:
    """Whether a part of the answer is stored."""
    return "message" in ((await rig.document("pi.live") or {}).get("generation") or {})


async def _close(rig: Rig) -> None:
    rig.storage = rig.storage.inner
    await rig.harness.close()


async def test_spec_3_6_a_refused_submit_alone_tells_the_problem_and_the_next_commit_clears_it() -> None:
    rig, room = await _rig([say("hello")])
    room.full = True
    with pytest.raises(StorageRejected):
        await rig.root.submit("go")
    assert rig.harness.paused_for_space and "not saved" in (rig.harness.session_problem or "")
    assert await rig.entries() == [] and rig.provider.requests == []
    room.full = False
    assert (await (await rig.root.submit("go")).wait()).status == "done"
    assert not rig.harness.paused_for_space and rig.harness.session_problem is None
    await rig.check(idle=True)
    await _close(rig)


async def test_spec_3_6_a_refused_partial_tells_the_problem_and_the_answer_is_not_lost() -> None:
    rig, room = await _rig([say("word " * 40, chunks=40, pace=0.005)])
    submission = await rig.root.submit("go")
    await rig.provider.wait_requests(1)
    await until(lambda: _partial(rig))
    room.full = True
    await until(lambda: rig.harness.paused_for_space)
    await until(lambda: rig.provider.active == 0)
    await a_while()
    assert (await submission.refresh())["status"] == "placed" and len(rig.provider.requests) == 1
    room.full = False
    settled = await asyncio.wait_for(submission.wait(), 10)
    assert settled.status == "done" and len(rig.provider.requests) == 1
    assert (await rig.transcript())[-1] == "ai: " + "word " * 40
    await rig.idle()
    await rig.check(idle=True)
    await _close(rig)


async def test_spec_3_6_a_long_lack_of_space_costs_no_growing_effort() -> None:
    rig, room = await _rig([call(*(("gate", {"text": str(number)}) for number in range(4))), say("done")])
    submission = await rig.root.submit("go")
    await rig.effects.wait_started("gate", 4)
    room.full = True
    for number in range(4):
        rig.effects.gate(str(number)).set()
    await until(lambda: rig.harness.paused_for_space)
    counts = []
    for _ in range(4):
        before = room.refused
        await asyncio.sleep(0.3)
        counts.append(room.refused - before)
    assert counts[-1] <= 1.5 * counts[0] + 10, counts
    room.full = False
    assert (await asyncio.wait_for(submission.wait(), 10)).status == "done"
    assert sorted(rig.effects.texts()) == ["0", "1", "2", "3"]
    await rig.idle()
    await rig.check(idle=True)
    await _close(rig)


async def test_spec_3_6_an_abort_while_the_disk_is_full_ends_once_space_is_back() -> None:
    rig, room = await _rig([call(("gate", {"text": "g"})), say("done")])
    submission = await rig.root.submit("go")
    await rig.effects.wait_started("gate")
    await rig.root.stop()
    room.full = True
    await until(lambda: room.refused)
    room.full = False
    settled = await asyncio.wait_for(submission.wait(), 10)
    assert (settled.status, settled.reason) == ("unanswered", "aborted")
    await rig.idle()
    await rig.check(idle=True)
    await _close(rig)


async def test_spec_3_6_closing_while_full_does_not_hang() -> None:
    rig, room = await _rig([call(("gate", {"text": "g"})), say("done")])
    submission = await rig.root.submit("go", request_id="r")
    await rig.effects.wait_started("gate")
    room.full = True
    rig.effects.gate("g").set()
    await until(lambda: rig.harness.paused_for_space)
    await asyncio.wait_for(rig.harness.close(), 10)
    room.full = False
    await rig.open(rig.storage.inner.crash())
    again = await rig.harness.submission(submission.id)
    assert (await asyncio.wait_for(again.wait(), 10)).status == "done"
    assert rig.effects.texts("gate") == ["g"]
    await rig.idle()
    await rig.check(idle=True)
    await rig.harness.close()


@pytest.mark.parametrize("failing", range(1, 16))
async def test_d04_full_from_any_commit_on_starts_nothing_that_could_not_be_recorded(failing: int) -> None:
    """From the first refusal until space is back no request is made and no tool begins."""
    started: list[str] = []
    room = Room()

    def plan(number: int, batch: Any) -> Fault | None:
        if number == failing + 1:  # the first commit made the root conversation
            room.full = True
        return room.plan(number, batch)

    script = [
        call(("note", {"text": "a"}), ("peek", {"text": "b"})),
        call(("seq", {"text": "c", "seconds": 0})),
        say("done"),
    ]
    rig = Rig(script, settings=QUICK)
    await rig.open(FaultyStorage(MemoryStorage(), plan))

    async def before(request: Any, number: int) -> None:
        if room.refused:
            started.append(f"request {number}")

    rig.provider.before = before
    rig.effects.before = lambda effect: started.append(effect.name) if room.refused else None
    answered = False
    try:
        submission = await rig.root.submit("go", request_id="r")
    except StorageRejected:
        assert failing == 1
    else:

        async def wait() -> None:
            nonlocal answered
            await submission.wait()
            answered = True

        waiting = asyncio.create_task(wait())
        await until(lambda: room.refused or answered)
        waiting.cancel()
    await a_while(0.15)
    assert started == []
    reached, room.full, room.refused = room.refused > 0, False, 0
    submission = await rig.root.submit("go", request_id="r")
    assert (await asyncio.wait_for(submission.wait(), 10)).status == "done"
    assert sorted(rig.effects.texts()) == ["a", "b", "c"]
    assert reached or failing > 10
    outcomes = {task["state"]["outcome"]["status"] for task in await rig.storage.tasks()}
    assert outcomes == {"completed"} and rig.harness.session_problem is None
    await rig.idle()
    await rig.check(idle=True)
    await _close(rig)
