"""Observation (spec 13): a view and its ops, by committed state only."""

from __future__ import annotations

import asyncio
import contextlib
import json
import random
from typing import Any

import pytest

from tests.scenarios.conftest import Open
from tests.tools.folding import fold
from tests.tools.scenario import Rig
from tests.tools.strict_provider import call, say
from tests.tools.waiting import until


def _plain(value: Any) -> Any:
    """A view as ordinary JSON, whatever it is made of."""
    if isinstance(value, dict) or hasattr(value, "keys"):
        return {key: _plain(value[key]) for key in value}
    if isinstance(value, str | int | float | bool) or value is None:
        return value
    return [_plain(part) for part in value]


class Follower:
    """Watches and folds: after every frame the folded ops must equal the frame's own value."""

    def __init__(self, frames: Any) -> None:
        self.frames = frames
        self.value: Any = None
        self.seqs: list[int] = []
        self.whole = 0

    async def follow(self) -> None:
        async for frame in self.frames:
            ops = _plain(frame.ops)
            if len(ops) == 1 and ops[0][0] == "r":
                self.whole += 1
                self.value = ops[0][1]
            else:
                self.value = fold(self.value, [ops])
            assert json.dumps(self.value, sort_keys=True) == json.dumps(_plain(frame.value), sort_keys=True)
            self.seqs.append(frame.seq)

    async def caught_up(self, entries: list[Any]) -> None:
        """Until it has seen the last of these entries, and the end of the run."""
        await until(lambda: self.value and "run" not in self.value and self._last_entry() == entries[-1]["id"])

    def _last_entry(self) -> Any:
        return self.value["entries"][-1]["id"] if self.value["entries"] else None

    def phases(self) -> list[str | None]:
        """The phases of the tasks watched."""
        return [row.get("phase") for row in self.value["tasks"]] if self.value else []


async def _ended(task: asyncio.Task[None]) -> None:
    """End a follower; whatever it tripped over is raised."""
    task.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await task


@pytest.mark.parametrize("tail", [None, 2])
async def test_spec_13_the_view_and_the_ops_agree_through_a_whole_run(opened: Open, tail: int | None) -> None:
    rig = await opened(
        [
            call(("talk", {"text": "a", "lines": 5, "seconds": 0.002}), ("boom", {"text": "b"}), text="let me see"),
            say("the answer, at length", chunks=12, pace=0.002),
            say("more"),
        ]
    )
    follower = Follower(rig.root.watch(tail=tail))
    following = asyncio.create_task(follower.follow())
    await asyncio.sleep(0)
    await rig.root.submit("go")
    await rig.root.submit("then")
    await rig.idle()
    await follower.caught_up(await rig.entries())
    await _ended(following)
    assert follower.whole == 1 and len(follower.seqs) > 8
    assert all(later > earlier for earlier, later in zip(follower.seqs, follower.seqs[1:], strict=False))
    entries = follower.value["entries"]
    assert [entry["id"] for entry in entries] == [entry["id"] for entry in await rig.entries()][-len(entries) :]
    assert "run" not in follower.value and follower.value["tools"] == [] and follower.value["inbox"] == {"items": []}
    await rig.check(idle=True)


async def test_s07_snapshot_plus_changes_is_the_final_state_however_late(backend: str, opened: Open) -> None:
    rig = await opened([say("x")])
    commits, watches = (400, 60) if backend == "memory" else (120, 20)
    rng = random.Random(7)
    followers: list[Follower] = []
    following: list[asyncio.Task[None]] = []

    async def writer() -> None:
        for number in range(commits):
            await rig.root.write("pi.user", model=[{"role": "user", "content": f"w{number}", "timestamp": 1}])

    async def joiner() -> None:
        for _ in range(watches):
            for _ in range(rng.randrange(12)):
                await asyncio.sleep(0)
            follower = Follower(rig.root.watch())
            followers.append(follower)
            following.append(asyncio.create_task(follower.follow()))

    await asyncio.gather(writer(), joiner())
    await rig.idle()
    for follower in followers:
        await follower.caught_up(await rig.entries())
    final = [entry["id"] for entry in await rig.entries()]
    for task in following:
        task.cancel()
    for ended in await asyncio.gather(*following, return_exceptions=True):
        assert isinstance(ended, asyncio.CancelledError), ended
    for follower in followers:
        assert [entry["id"] for entry in follower.value["entries"]] == final
        assert all(later > earlier for earlier, later in zip(follower.seqs, follower.seqs[1:], strict=False))
    await rig.check(idle=True)


async def test_spec_13_a_slow_consumer_gets_one_whole_view(opened: Open) -> None:
    rig = await opened([say("x")])
    frames = rig.root.watch()
    first = await anext(frames)
    for number in range(150):
        await rig.root.write("pi.user", model=[{"role": "user", "content": f"w{number}", "timestamp": 1}])
    second = await anext(frames)
    assert second.ops[0][0] == "r" and len(second.value["entries"]) == len(first.value["entries"]) + 150
    await frames.aclose()
    await rig.check(idle=True)


async def test_spec_13_a_raising_consumer_ends_only_its_own_watch(opened: Open) -> None:
    rig = await opened([call(("gate", {"text": "g"})), say("done")])

    async def careless() -> None:
        async for frame in rig.root.watch():
            if frame.value.get("run"):
                raise ValueError("oops")

    careful = Follower(rig.root.watch())
    tasks = [asyncio.create_task(careless()), asyncio.create_task(careful.follow())]
    await asyncio.sleep(0)
    submission = await rig.root.submit("go")
    await rig.effects.wait_started("gate")
    await asyncio.wait({tasks[0]}, timeout=5)
    assert isinstance(tasks[0].exception(), ValueError)
    rig.effects.gate("g").set()
    assert (await submission.wait()).status == "done"
    await careful.caught_up(await rig.entries())
    await _ended(tasks[1])
    assert careful.value["entries"][-1]["kind"] == "pi.assistant"
    await rig.check(idle=True)


async def test_spec_13_the_task_watch_follows_and_explains(opened: Open) -> None:
    rig = await opened([call(("gate", {"text": "g"})), say("done")])
    follower = Follower(rig.harness.watch_tasks())
    following = asyncio.create_task(follower.follow())
    submission = await rig.root.submit("go")
    await rig.effects.wait_started("gate")
    await until(lambda: "execute" in follower.phases())
    rows = {row["kind"]: row for row in follower.value["tasks"]}
    assert rows["pi.generation"]["status"] == "waiting"
    assert rows["pi.generation"]["waitingOn"] == [rows["pi.tool"]["id"]]
    assert rows["pi.tool"]["phase"] == "execute" and rows["pi.tool"]["doing"]
    rig.effects.gate("g").set()
    await submission.wait()
    await rig.idle()
    await until(lambda: all(row["status"] == "terminal" for row in follower.value["tasks"]))
    await _ended(following)
    await rig.check(idle=True)


async def test_ui_r05_the_view_after_a_restart_comes_from_the_store(opened: Open) -> None:
    rig: Rig = await opened([call(("gate", {"text": "g"})), say("done")])
    await rig.root.submit("go")
    await rig.effects.wait_started("gate")
    await rig.crash()
    frame = await anext(rig.root.watch())
    assert [slot["status"] for slot in frame.value["tools"]] == ["running"]
    assert frame.value["recovery"]["deaths"][-1]["tasks"]
    await rig.harness.resume()
    await rig.idle()
    frame = await anext(rig.root.watch())
    assert list(frame.value["tools"]) == [] and "run" not in frame.value
    assert all("verdict" in row for row in frame.value["recovery"]["deaths"][-1]["tasks"])
    await rig.check(idle=True)
