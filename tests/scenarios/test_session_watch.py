"""The one watch of a session (spec 13): plain frames, resumed where a copy stands, and the same for a follower."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import aclosing, asynccontextmanager
from typing import Any

import pytest

from durable_tui.agent.documents import DRAFT
from durable_tui.agent.extension import Registry
from durable_tui.host import follow
from durable_tui.host.follow import FollowedSession
from durable_tui.views.frames import plain, plain_frame
from tests.scenarios.conftest import Open
from tests.tools.folding import fold
from tests.tools.scenario import Rig
from tests.tools.strict_provider import call, say
from tests.tools.waiting import until


class Copy:
    """What a consumer elsewhere holds: made of frames that went through JSON text, and kept as of every commit."""

    def __init__(self, value: Any = None) -> None:
        self.value = value
        self.whole = 0
        self.at: list[tuple[dict[str, int], Any]] = []  # (where it stood, the value there)

    def take(self, frame: Any) -> None:
        sent = json.loads(json.dumps(plain_frame(frame)))
        if sent["ops"][0][0] == "r":
            self.whole += 1
            self.value = sent["ops"][0][1]
        else:
            self.value = fold(self.value, [sent["ops"]])
        assert self.value == plain(frame.value)
        where = {"seq": sent["seq"], "at": sent["at"]}
        if not self.value["first"]:
            where["oldest"] = self.value["entries"][0]["id"]
        self.at.append((where, json.loads(json.dumps(self.value))))

    async def follow(self, frames: Any) -> None:
        async with aclosing(frames):
            async for frame in frames:
                self.take(frame)


@asynccontextmanager
async def copying(frames: Any, copy: Copy) -> AsyncIterator[Copy]:
    following = asyncio.create_task(copy.follow(frames))
    await until(lambda: copy.at or following.done())
    try:
        yield copy
    finally:
        following.cancel()
        (ended,) = await asyncio.gather(following, return_exceptions=True)
        assert isinstance(ended, asyncio.CancelledError), ended


ROUND = call(("talk", {"text": "a", "lines": 4, "seconds": 0.002}), ("boom", {"text": "b"}), text="let me see")


async def a_run(rig: Rig) -> None:
    await rig.root.submit("go")
    await rig.root.submit("then")
    await rig.idle()


@pytest.mark.parametrize("tail", [None, 2])
async def test_spec_13_one_watch_tells_all_that_the_two_narrow_ones_do(opened: Open, tail: int | None) -> None:
    rig = await opened([ROUND, say("the answer", chunks=12, pace=0.002), say("more")])
    async with copying(rig.harness.watch(rig.root.id, tail=tail), Copy()) as copy:
        await a_run(rig)
        await until(lambda: "run" not in copy.value and len(copy.value["inbox"]["items"]) == 0)
        conversation, tasks = rig.root.watch(), rig.harness.watch_tasks()
        narrow = {**plain((await anext(conversation)).value), **plain((await anext(tasks)).value)}
        await until(lambda: copy.value["tasks"] == narrow["tasks"])
    assert copy.value == narrow
    assert copy.whole == 1 and {row["kind"] for row in copy.value["tasks"]} == {"pi.generation", "pi.tool"}
    assert any(row["status"] == "running" for _, value in copy.at for row in value["tasks"])
    seqs = [where["seq"] for where, _ in copy.at]
    assert seqs == sorted(seqs)
    await rig.check(idle=True)


@pytest.mark.parametrize("tail", [None, 2])
async def test_spec_13_a_copy_goes_on_from_any_commit_it_stood_at(opened: Open, tail: int | None) -> None:
    rig = await opened([ROUND, say("the answer", chunks=6, pace=0.002), say("more"), say("after it all")])
    async with copying(rig.harness.watch(rig.root.id, tail=tail), Copy()) as copy:
        await a_run(rig)
        await until(lambda: "run" not in copy.value and copy.value["entries"])
    await rig.kill()
    await rig.reopen()
    assert len(copy.at) > 10
    for where, value in copy.at:
        resumed = Copy(value)
        async with aclosing(rig.harness.watch(rig.root.id, tail=tail, since=where)) as frames:
            resumed.take(await anext(frames))
        assert resumed.whole == 0, "nothing of the copy was thrown away"
    async with copying(rig.harness.watch(rig.root.id, since=copy.at[3][0]), Copy(copy.at[3][1])) as resumed:
        await (await rig.root.submit("and now")).wait()
        await until(lambda: "run" not in resumed.value and resumed.value["entries"][-1]["kind"] == "pi.assistant")
    assert resumed.whole == 0
    await rig.check(idle=True)


async def test_spec_13_a_copy_of_commits_that_are_not_stored_starts_anew(opened: Open) -> None:
    rig = await opened([say("x")])
    await (await rig.root.submit("go")).wait()
    await rig.idle()
    async with aclosing(rig.harness.watch(rig.root.id)) as frames:
        now = await anext(frames)
    for where in ({"seq": now.seq + 50, "at": now.at}, {"seq": now.seq, "at": now.at - 1}, {"seq": 0, "at": 0}):
        async with aclosing(rig.harness.watch(rig.root.id, since=where)) as frames:
            assert (await anext(frames)).ops[0][0] == "r"
    with pytest.raises(LookupError, match="no conversation 99"):
        rig.harness.watch(99)


@pytest.fixture
def quick_looks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(follow, "INTERVAL", 0.002)


@pytest.fixture
def backend() -> str:
    return "sqlite"


async def followed(rig: Rig) -> FollowedSession:
    assert rig.path is not None
    registry = Registry()
    registry.install(rig.effects.extension())
    return await FollowedSession.open(rig.path, registry, restart_limit=5)


@pytest.mark.usefixtures("quick_looks")
class TestFollower:
    async def test_spec_13_a_follower_sees_what_the_owner_sees(self, opened: Open) -> None:
        rig = await opened([call(("gate", {"text": "g"}), ("boom", {"text": "b"})), say("done")])
        session = await followed(rig)
        owners, others = rig.harness.watch(rig.root.id), session.watch(rig.root.id)
        async with copying(owners, Copy()) as own, copying(others, Copy()) as other:
            submission = await rig.root.submit("go")
            await rig.effects.wait_started("gate")
            await until(lambda: any(row.get("phase") == "execute" for row in other.value["tasks"]))
            rig.effects.gate("g").set()
            await submission.wait()
            await rig.idle()
            await until(lambda: "run" not in own.value and other.value["entries"] == own.value["entries"])
            own.value["context"]["window"] = None  # the follower was given no models to ask
            await until(lambda: other.value == own.value)
            standing, value = other.at[2]
        assert len(own.value["tasks"]) == 4 and all(row["outcome"] for row in own.value["tasks"])
        resumed = Copy(value)
        async with aclosing(session.watch(rig.root.id, since=standing)) as frames:
            resumed.take(await anext(frames))
        assert resumed.whole == 0
        await session.close()

    async def test_spec_13_a_look_is_of_one_moment(self, opened: Open) -> None:
        """Each commit writes one number in two places; no frame has two numbers."""
        rig = await opened([say("x")])
        session = await followed(rig)
        async with copying(session.watch(rig.root.id), Copy()) as copy:
            for number in range(300):
                async with rig.root.commit() as tx:
                    tx.append(rig.root.id, "pi.user", model=[{"role": "user", "content": str(number), "timestamp": 1}])
                    (await tx.document(DRAFT, rig.root.id)).value["text"] = str(number)
                await asyncio.sleep(0)
            await until(lambda: copy.value["draft"]["text"] == "299")
        assert len(copy.at) > 5
        for _, value in copy.at:
            said = value["entries"][-1]["model"][0]["content"] if value["entries"] else ""
            assert value["draft"]["text"] == said
        await session.close()

    async def test_spec_13_a_task_that_ends_between_two_looks_is_seen(
        self, opened: Open, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        rig = await opened([call(("boom", {"text": "b"})), say("done")])
        session = await followed(rig)
        monkeypatch.setattr(follow, "INTERVAL", 0.4)
        async with copying(session.watch(rig.root.id), Copy()) as copy:
            await (await rig.root.submit("go")).wait()
            await rig.idle()
            await until(lambda: len(copy.value["entries"]) == 5)
        kinds = [(row["kind"], row["status"]) for row in copy.value["tasks"]]
        assert kinds == [("pi.generation", "terminal"), ("pi.tool", "terminal"), ("pi.generation", "terminal")]
        await session.close()
