"""The one watch of a session (spec 13): plain frames, resumed where a copy stands, and the same for a follower."""

from __future__ import annotations

import asyncio
import gc
import itertools
import json
import random
from collections.abc import AsyncIterator
from contextlib import aclosing, asynccontextmanager
from typing import Any

import pytest

from durable_tui.agent.documents import DRAFT
from durable_tui.agent.extension import Extension, Registry
from durable_tui.engine import TaskHandle, new_task
from durable_tui.host import follow
from durable_tui.host.follow import FollowedSession
from durable_tui.session import DocumentDefinition
from durable_tui.views import build
from durable_tui.views.frames import plain, plain_frame
from durable_tui.views.look import ReaderWords
from tests.scenarios.conftest import Open
from tests.tools.custom_tasks import PersonWait, blocked_by, define, finish, outcome, start, waiting_kind
from tests.tools.folding import fold
from tests.tools.scenario import Rig
from tests.tools.strict_provider import call, say
from tests.tools.waiting import until

NOTES: DocumentDefinition[dict[str, int]] = DocumentDefinition("t.notes", "conversation", dict, history="latest")


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


async def test_spec_13_one_commit_is_one_frame_also_when_it_opens_a_gate(opened: Open) -> None:
    """A task waits for the submission that the answer settles; a copy of each frame goes on from where it stands."""
    rig = await opened([call(("gate", {"text": "g"})), say("done")])

    async def one(task: TaskHandle) -> None:
        async with task.commit() as tx:
            task.advance(tx, {"phase": "two"}, gate={"reason": "accept", "submission": task.input})

    kind = define("t.k", one=one, two=finish)
    rig.install(kind)
    async with copying(rig.harness.watch(rig.root.id), Copy()) as copy:
        submission = await rig.root.submit("go")
        await rig.effects.wait_started("gate")
        async with rig.harness.commit() as tx:
            made = new_task(tx, conversation_id=1, definition=kind, input=submission.id, running=False)
        rig.harness._engine.wake()
        await until(lambda: blocked_by(rig, made["id"]) == "accept")
        rig.effects.gate("g").set()
        await outcome(rig, made["id"])
        await until(lambda: "run" not in copy.value and copy.value["entries"][-1]["kind"] == "pi.assistant")
    for where, value in copy.at:
        resumed = Copy(value)
        async with aclosing(rig.harness.watch(rig.root.id, since=where)) as frames:
            resumed.take(await anext(frames))
        assert resumed.whole == 0


async def test_spec_13_a_watch_prepared_while_commits_land_shows_what_is_stored(opened: Open) -> None:
    rig = await opened([say("x")])
    await rig.root.set_draft("kept")

    async def write() -> None:
        for number in itertools.count():
            async with rig.root.commit() as tx:
                (await tx.document(NOTES, rig.root.id)).value["n"] = number
            await asyncio.sleep(0)

    for _ in range(5):  # each time with nothing in memory
        await rig.kill()
        await rig.reopen()
        seq = rig.harness._session.seq
        writer = asyncio.create_task(write())
        await until(lambda seq=seq: rig.harness._session.seq > seq + 2)
        async with aclosing(rig.harness.watch(rig.root.id)) as frames:
            view = (await anext(frames)).value
        writer.cancel()
        await asyncio.gather(writer, return_exceptions=True)
        assert (view["draft"]["text"], view["agent"]["model"]["modelId"]) == ("kept", "m")


async def test_spec_13_a_watch_that_nobody_holds_is_fed_no_longer(opened: Open) -> None:
    rig = await opened([say("x")])
    await rig.root.set_draft("a")
    before = len(rig.harness._session._observers)
    for _ in range(20):
        async for _frame in rig.harness.watch(rig.root.id):
            break
    gc.collect()
    await rig.root.set_draft("b")
    assert len(rig.harness._session._observers) == before


@pytest.fixture
def quick_looks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(follow, "INTERVAL", 0.002)


async def followed(rig: Rig) -> FollowedSession:
    assert rig.path is not None
    registry = Registry()
    registry.install(rig.effects.extension())
    return await FollowedSession.open(rig.path, registry, restart_limit=5)


@pytest.mark.usefixtures("quick_looks")
class TestFollower:
    @pytest.fixture
    def backend(self) -> str:
        return "sqlite"

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

    async def test_spec_13_a_follower_misses_nothing_of_a_long_absence(
        self, opened: Open, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        rig = await opened([say("x")])
        session = await followed(rig)
        frames = session.watch(rig.root.id)
        copy = Copy()
        copy.take(await anext(frames))
        monkeypatch.setattr(build, "PAGE", 100)
        for _ in range(5):
            async with rig.root.commit() as tx:
                for number in range(50):
                    tx.append(rig.root.id, "pi.user", model=[{"role": "user", "content": str(number), "timestamp": 1}])
        copy.take(await anext(frames))
        assert len(copy.value["entries"]) == 250
        await frames.aclose()
        await session.close()

    async def test_spec_13_closing_a_follower_in_the_midst_of_a_look_ends_its_watch(self, opened: Open) -> None:
        rig = await opened([say("x")])
        for _ in range(20):
            session = await followed(rig)
            following = asyncio.create_task(Copy().follow(session.watch(rig.root.id)))
            await asyncio.sleep(random.uniform(0, 0.01))
            await session.close()
            await asyncio.wait_for(following, 10)

    async def test_spec_6_12_a_follower_calls_what_is_marked_or_due_not_blocked(self, opened: Open) -> None:
        kind = waiting_kind(PersonWait())
        rig = await opened([say("x")], extensions=[Extension("tasks", tasks=[kind])])
        task_id = await start(rig, kind)
        await until(lambda: blocked_by(rig, task_id) == PersonWait.reason)
        words = ReaderWords(Registry(), restart_limit=5)
        record: Any = await rig.storage.task(task_id)
        assert words.blocked(record) == PersonWait.reason
        assert words.blocked({**record, "abortRequested": True, "restarts": 9}) is None
        assert words.blocked({**record, "restarts": 9}) == "restart_limit"
        due = {**record["state"], "gate": {"reason": "tea", "time": 5, "since": 1}}
        assert words.blocked({**record, "state": due}) is None

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
