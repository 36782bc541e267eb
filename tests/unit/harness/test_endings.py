"""The end of watches, waits and sessions (spec 3.6, 7, 13)."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import pytest

from durable_tui.agent.extension import Extension
from durable_tui.engine.task import new_task
from durable_tui.engine.task_handle import TaskHandle
from durable_tui.session import SessionClosed, SessionPoisoned
from durable_tui.session.watch import BEHIND
from durable_tui.storage import MemoryStorage
from durable_tui.storage.errors import Fenced
from tests.tools.custom_tasks import define, finish, gated, start
from tests.tools.faults import Fault, FaultyStorage
from tests.tools.folding import fold
from tests.tools.scenario import Rig
from tests.tools.strict_provider import call, say
from tests.tools.waiting import a_while, turns, until

Made = Callable[..., Awaitable[Rig]]
NOTE = {"role": "user", "content": "w", "timestamp": 1}


@pytest.fixture
async def made() -> AsyncIterator[Made]:
    rigs: list[Rig] = []

    async def make(script: Any, storage: Any = None, **options: Any) -> Rig:
        rig = Rig(script, **options)
        rigs.append(rig)
        return await rig.open(storage)

    yield make
    for rig in rigs:
        with contextlib.suppress(Fenced):
            await asyncio.wait_for(rig.harness.close(), 10)


class SlowStorage(FaultyStorage):
    """Holds every commit until `gate` is open; `asked` counts those that were handed over."""

    def __init__(self) -> None:
        super().__init__(MemoryStorage(), {})
        self.gate = asyncio.Event()
        self.gate.set()
        self.asked = 0

    async def commit(self, batch: Any) -> None:
        self.asked += 1
        await self.gate.wait()
        await self.inner.commit(batch)


def _plain(value: Any) -> Any:
    if hasattr(value, "keys"):
        return {key: _plain(value[key]) for key in value}
    if isinstance(value, str | int | float | bool) or value is None:
        return value
    return [_plain(part) for part in value]


# -- watches ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("frames", [BEHIND, BEHIND + 1])
async def test_spec_13_more_than_a_hundred_frames_behind_gives_one_whole_frame(made: Made, frames: int) -> None:
    rig = await made([say("x")])
    watch = rig.root.watch()
    view = _plain((await anext(watch)).value)
    for _ in range(frames):
        await rig.root.write("pi.user", model=[NOTE])
    following = await anext(watch)
    assert (following.ops[0][0] == "r") == (frames > BEHIND)
    taken = 1
    while len(_plain(following.value)["entries"]) < frames:
        view = fold(view, [_plain(following.ops)])
        following = await anext(watch)
        taken += 1
    assert taken == (1 if frames > BEHIND else frames)
    await rig.root.write("pi.user", model=[NOTE])
    assert (await anext(watch)).ops[0][0] == "p", "afterwards it follows frame by frame again"
    await watch.aclose()


@pytest.mark.parametrize("tail", [0, 1, 3, 50])
async def test_s07_a_tail_has_the_newest_entries_and_everything_after(made: Made, tail: int) -> None:
    rig = await made([say("x")])
    for number in range(10):
        await rig.root.write("pi.user", model=[{**NOTE, "content": str(number)}])
    watch = rig.root.watch(tail=tail)
    frame = await anext(watch)
    view = _plain(frame.value)
    assert [entry["model"][0]["content"] for entry in view["entries"]] == [str(n) for n in range(10)][
        max(0, 10 - tail) :
    ]
    assert view["first"] == (tail >= 10)
    if 0 < tail < 10:
        older = await rig.root.entries(before=view["entries"][0]["id"])
        assert len(older) == 10 - tail
    await (await rig.root.submit("go")).wait()
    await rig.idle()
    while frame.seq < rig.harness.seq:
        frame = await anext(watch)
        view = fold(view, [_plain(frame.ops)])
        assert view == _plain(frame.value)
    assert [entry["id"] for entry in view["entries"]] == [e["id"] for e in await rig.entries()][max(0, 10 - tail) :]
    await watch.aclose()


@pytest.mark.parametrize("what", ["conversation", "tasks"])
async def test_spec_13_stopping_a_watch_ends_it_at_once_and_stops_no_work(made: Made, what: str) -> None:
    rig = await made([call(("gate", {"text": "g"})), say("done")])
    watch = rig.root.watch() if what == "conversation" else rig.harness.watch_tasks()
    await anext(watch)
    observers = len(rig.harness._session._observers)
    waiting = asyncio.ensure_future(anext(watch))
    await asyncio.sleep(0)
    await watch.aclose()
    with pytest.raises(StopAsyncIteration):
        await asyncio.wait_for(waiting, 5)
    assert len(rig.harness._session._observers) == observers - 1, "nothing feeds it any more"
    submission = await rig.root.submit("go")
    await rig.effects.wait_started("gate")
    with pytest.raises(StopAsyncIteration):
        await anext(watch)
    rig.effects.gate("g").set()
    assert (await submission.wait()).status == "done"


async def test_spec_13_closing_ends_watches_and_later_ones_have_no_frames(made: Made) -> None:
    rig = await made([say("x")])
    watches = [rig.root.watch(), rig.root.watch(tail=2), rig.harness.watch_tasks()]
    for watch in watches:
        await anext(watch)
    waiting = [asyncio.ensure_future(anext(watch)) for watch in watches]
    fresh = rig.root.watch()
    await asyncio.sleep(0)
    await rig.harness.close()
    for pending in [*waiting, asyncio.ensure_future(anext(fresh)), asyncio.ensure_future(anext(rig.root.watch()))]:
        with pytest.raises(StopAsyncIteration):
            await asyncio.wait_for(pending, 5)


# -- closing ---------------------------------------------------------------------------------------------------------


async def test_spec_13_close_seals_admission_and_what_was_admitted_is_stored_but_reaches_no_watch(
    made: Made,
) -> None:
    storage = SlowStorage()
    rig = await made([say("x")], storage)
    watch = rig.root.watch()
    await anext(watch)
    asked = storage.asked
    storage.gate.clear()
    admitted = [asyncio.create_task(rig.root.write("pi.user", model=[NOTE])) for _ in range(3)]
    await until(lambda: storage.asked == asked + 1)
    closing = asyncio.create_task(rig.harness.close())
    await turns()
    with pytest.raises(SessionClosed):
        await rig.root.write("pi.user", model=[NOTE])
    assert not closing.done()
    storage.gate.set()
    await asyncio.wait_for(closing, 5)
    assert [(await task).record["status"] for task in admitted] == ["done"] * 3
    with pytest.raises(StopAsyncIteration):
        await anext(watch)
    rig.storage = storage.inner.crash()
    await rig.reopen()
    assert len(await rig.entries()) == 3 and (await rig.harness.recovery())["deaths"] == []


async def test_spec_13_no_phase_begins_after_close_also_when_its_reservation_was_under_way(made: Made) -> None:
    storage = SlowStorage()
    ran: list[int] = []

    async def one(context: TaskHandle) -> None:
        ran.append(context.id)
        await asyncio.sleep(3600)

    kind = define("t.kind", one=one)
    rig = await made([say("x")], storage, extensions=[Extension("tasks", tasks=[kind])])
    async with rig.harness.commit() as tx:
        task_id = new_task(tx, conversation_id=1, definition=kind, input={}, running=False)["id"]
    asked = storage.asked
    storage.gate.clear()
    await rig.harness.resume()
    await until(lambda: storage.asked == asked + 1)
    closing = asyncio.create_task(rig.harness.close())
    await turns()
    storage.gate.set()
    await asyncio.wait_for(closing, 5)
    await turns()
    assert ran == []
    assert [task.get_name() for task in asyncio.all_tasks() if task.get_name() == f"task {task_id}"] == []


async def test_spec_13_close_joins_stubborn_work_and_is_idempotent(made: Made) -> None:
    rig = await made([call(("stubborn", {"seconds": 0.1})), say("done")])
    await rig.root.submit("go")
    await rig.effects.wait_started("stubborn")
    first = asyncio.create_task(rig.harness.close())
    await turns()
    first.cancel()
    with pytest.raises(asyncio.CancelledError):
        await first
    assert not [task for task in asyncio.all_tasks() if task.get_name().startswith("task ")], (
        "close joins, cancelled or not"
    )
    await rig.harness.close()
    assert rig.harness.state == "closed"


# -- waits -----------------------------------------------------------------------------------------------------------

Waits = dict[str, Callable[[], Awaitable[Any]]]


async def _waits(rig: Rig) -> Waits:
    submission = await rig.root.submit("go", request_id="r")
    await rig.effects.wait_started("gate")
    task_id = rig.harness.inspect()[0]["id"]
    return {
        "submission": submission.wait,
        "task": lambda: rig.harness.wait_for_task(task_id),
        "idle": rig.harness.wait_for_idle,
        "conversation idle": rig.root.wait_for_idle,
    }


@pytest.mark.parametrize("end", ["close", "poison", "fence"])
async def test_spec_13_waits_reject_when_the_session_ends_and_afterwards(made: Made, end: str) -> None:
    plan: dict[int, Fault] = {}
    storage = FaultyStorage(MemoryStorage(), lambda number, batch: plan.get(0))
    rig = await made([call(("gate", {"text": "g"})), say("done")], storage)
    waits = await _waits(rig)
    waiting = {name: asyncio.ensure_future(wait()) for name, wait in waits.items()}
    await turns()
    error: type[Exception] = {"close": SessionClosed, "poison": SessionPoisoned, "fence": Fenced}[end]
    if end == "close":
        await rig.harness.close()
    else:
        if end == "poison":
            plan[0] = Fault("uncertain")
        else:
            storage.inner.crash()
        rig.effects.gate("g").set()
    for name, pending in waiting.items():
        with pytest.raises(error):
            await asyncio.wait_for(pending, 5)
        assert pending.done(), name
    for name, wait in waits.items():
        with pytest.raises(error):
            await asyncio.wait_for(wait(), 5)
        assert name
    await until(lambda: not [task for task in asyncio.all_tasks() if task.get_name().startswith("task ")])


async def test_spec_13_waits_begun_while_closing_reject_too(made: Made) -> None:
    storage = SlowStorage()
    rig = await made([call(("gate", {"text": "g"})), say("done")], storage)
    waits = await _waits(rig)
    storage.gate.clear()
    writing = asyncio.create_task(rig.root.write("pi.user", model=[NOTE]))
    await turns()
    closing = asyncio.create_task(rig.harness.close())
    await turns()
    late = [asyncio.ensure_future(wait()) for wait in waits.values()]
    await turns()
    storage.gate.set()
    await asyncio.gather(closing, writing)
    for pending in late:
        with pytest.raises(SessionClosed):
            await asyncio.wait_for(pending, 5)


async def test_spec_8_6_cancelled_waits_leave_nothing_behind(made: Made) -> None:
    rig = await made([call(("gate", {"text": "g"})), say("done")])
    waits = await _waits(rig)
    for wait in (waits["submission"], waits["task"]):
        pending = asyncio.ensure_future(wait())
        await turns()
        pending.cancel()
        with pytest.raises(asyncio.CancelledError):
            await pending
    assert not rig.harness._agent.settlements.waiters._waiting
    assert not rig.harness._engine.ended_tasks.waiters._waiting
    rig.effects.gate("g").set()
    await rig.idle()


async def test_spec_7_what_starts_scheduling_and_what_does_not(made: Made) -> None:
    hold = asyncio.Event()
    held, plain = define("t.held", one=gated(lambda: hold)), define("t.plain", one=finish)
    rig = await made([say("x")], extensions=[Extension("tasks", tasks=[held, plain])])

    async def ready() -> int:
        async with rig.harness.commit() as tx:
            return new_task(tx, conversation_id=1, definition=plain, input={}, running=False)["id"]

    task_id = await ready()
    rig.harness.inspect()
    await anext(rig.harness.watch_tasks())
    await anext(rig.root.watch())
    await rig.root.configure(thinkingLevel="low")
    await rig.root.write("pi.user", model=[NOTE])
    await rig.root.set_draft("words")
    await rig.harness.rename("name")
    other = await ready()
    await rig.harness.abort_task(other)
    await a_while()
    assert [row["status"] for row in rig.harness.inspect()] == ["pending", "pending"], "nothing has started"
    assert (await rig.harness.wait_for_task(task_id))["state"]["status"] == "terminal"
    assert (await rig.harness.wait_for_task(other))["state"]["outcome"]["status"] == "aborted"
    await start(rig, held)
    hold.set()
    await rig.idle()
    await rig.check(idle=True)


async def test_spec_3_7_a_body_left_open_in_a_generator_does_not_block_the_line(made: Made) -> None:
    """The generator is closed by another task, in another context than its body ran in."""
    rig = await made([say("x")])

    async def body() -> AsyncIterator[None]:
        async with rig.harness.commit() as tx:
            tx.append(1, "pi.user", model=[NOTE])
            yield

    generator: Any = body()
    await anext(generator)
    await asyncio.create_task(generator.aclose())
    await asyncio.wait_for(asyncio.create_task(rig.harness.rename("still open")), 5)
    assert await rig.entries() == [] and rig.harness.state == "open"


async def test_spec_6_5_a_conversation_names_its_owner_rightly(made: Made) -> None:
    hold = asyncio.Event()
    kind = define("t.held", one=gated(lambda: hold))
    rig = await made([say("x")], extensions=[Extension("tasks", tasks=[kind])])
    owner = await start(rig, kind)
    for reference, why in (((1, 999), "does not live"), ((2, owner), "another conversation")):
        with pytest.raises(ValueError, match=why):
            await rig.harness.create_conversation(owner={"conversationId": reference[0], "taskId": reference[1]})
    child = await rig.harness.create_conversation(owner={"conversationId": 1, "taskId": owner})
    assert (await (await child.submit("x")).wait()).reason == "no_model"
    hold.set()
    await rig.idle()
    await rig.check(idle=True)
