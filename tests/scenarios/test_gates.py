"""Tasks that wait at gates: for a time, a submission, an answer, a person (spec 6.12)."""

from __future__ import annotations

import asyncio
import dataclasses
from typing import Any

import pytest

from durable_tui.agent.documents import ASKS
from durable_tui.agent.extension import Extension
from durable_tui.delta import freeze
from durable_tui.engine import TaskHandle, TaskNotGated, advance_gated, new_task, time_gate
from durable_tui.storage import MemoryStorage
from durable_tui.storage.records import Batch, Gate, OwnerRow
from tests.scenarios.conftest import Open
from tests.tools.custom_tasks import (
    WAITS,
    AskWait,
    Clock,
    PersonWait,
    SubmissionWait,
    TimeWait,
    Wait,
    blocked_by,
    count_passes,
    define,
    finish,
    gate_held,
    outcome,
    record_of,
    start,
    waiting_kind,
)
from tests.tools.invariants import check_idle
from tests.tools.scenario import Rig
from tests.tools.strict_provider import say
from tests.tools.waiting import a_while, turns, until

SCRIPT = [say("slow", delay=3600)]  # the run that the test of a submission stops
HOUR = 3_600_000
every_wait = pytest.mark.parametrize("wait", WAITS, ids=lambda wait: type(wait).__name__)


async def _gated(opened: Open, wait: Wait, **more: Any) -> tuple[Rig, int]:
    """A session with a task that waits at its gate, and is called blocked by it."""
    kind = waiting_kind(wait, **more)
    rig = await opened(SCRIPT, extensions=[Extension("tasks", tasks=[kind])], now=Clock())
    await wait.prepare(rig)
    task_id = await start(rig, kind)
    await until(lambda: blocked_by(rig, task_id) == wait.reason)
    return rig, task_id


async def _rows(rig: Rig) -> list[Any]:
    return list((await rig.harness.recovery())["deaths"][-1]["tasks"])


# -- waiting, and going on ---------------------------------------------------------------------------------------------


@every_wait
async def test_spec_6_12_a_task_at_a_gate_is_live_holds_no_invocation_and_goes_on_when_it_opens(
    opened: Open, wait: Wait
) -> None:
    rig, task_id = await _gated(opened, wait)
    await a_while()
    [row] = rig.harness.inspect()
    assert (row["status"], row["blocked"], row.get("restarts")) == ("pending", wait.reason, None)
    assert row["gate"] in type(wait).__name__.lower(), "a front end can say what it waits for"
    assert not rig.harness.idle and not rig.harness._engine._invocations.is_at_work(task_id)
    await wait.come(rig, task_id)
    await until(lambda: task_id not in rig.harness._session.tasks)  # who waits for a task would wake the scheduler
    assert await outcome(rig, task_id) == {"status": "completed", "result": "came"}
    await rig.idle()
    await rig.check(idle=True)


@every_wait
async def test_spec_6_12_waiting_never_counts_a_restart(opened: Open, wait: Wait) -> None:
    rig, task_id = await _gated(opened, wait)
    for _ in range(6):
        await rig.crash()
        await rig.harness.resume()
        await until(lambda: blocked_by(rig, task_id) == wait.reason)

        async def told() -> bool:
            return any(row.get("verdict") for row in await _rows(rig))

        await until(told)
        [row] = await _rows(rig)
        assert (row["phase"], row["verdict"], row["rule"]) == ("two", "resumed", "6.12")
        assert "restarts" not in await record_of(rig, task_id)
    await wait.come(rig, task_id)
    assert (await outcome(rig, task_id))["result"] == "came"
    await rig.check(idle=True)


@every_wait
@pytest.mark.parametrize("how", ["closed", "killed"])
async def test_spec_6_12_what_came_while_nothing_was_scheduled_is_found_at_the_next_opening(
    opened: Open, wait: Wait, how: str
) -> None:
    """In between there is an opening without the kind's code, which is where it comes."""
    rig, task_id = await _gated(opened, wait)
    extensions, rig.extensions = rig.extensions, []

    async def reopen() -> None:
        if how == "closed":
            await rig.close()
            await rig.reopen()
        else:
            await rig.crash()

    await reopen()
    await wait.come(rig, task_id)
    await a_while()
    assert gate_held(rig, task_id) is not None, "no commit opens a gate"
    rig.extensions = extensions
    await reopen()
    assert gate_held(rig, task_id) is not None and blocked_by(rig, task_id) is None
    assert (await outcome(rig, task_id))["result"] == "came"
    assert "restarts" not in await record_of(rig, task_id)
    await rig.check(idle=True)


Line = tuple[list[Batch], list[OwnerRow]]  # commits, and the openings that made them, none closed


async def _line(rig: Rig) -> Line:
    return list(rig.storage.log), [dataclasses.replace(row, closed_at=None) for row in await rig.storage.owners()]


async def _finished(wait: Wait, rig: Rig, task_id: int) -> Line:
    """What a front end does after a death: go on, and once the task is at its gate let come what it waits for."""
    try:
        assert "restarts" not in await record_of(rig, task_id) or gate_held(rig, task_id) is None
        await rig.harness.resume()
        await until(lambda: task_id not in rig.harness._session.tasks or blocked_by(rig, task_id) == wait.reason)
        if task_id in rig.harness._session.tasks:
            await wait.come(rig, task_id)
        assert (await outcome(rig, task_id))["result"] == "came"
        await rig.idle()
        assert not await check_idle(rig.storage)
        return await _line(rig)
    finally:
        await asyncio.wait_for(rig.harness.close(), 10)


@every_wait
async def test_spec_6_12_a_death_after_any_commit_finds_the_gate_or_the_reserved_phase(wait: Wait) -> None:
    """And after any commit of that recovery."""
    kind = waiting_kind(wait)

    def new_rig() -> Rig:
        return Rig(SCRIPT, extensions=[Extension("tasks", tasks=[kind])], now=Clock(), record=True)

    rig = await new_rig().open()
    await wait.prepare(rig)
    before = len(rig.storage.log)
    task_id = await start(rig, kind)
    whole, owners = await _finished(wait, rig, task_id)
    states = [task["state"] for batch in whole for task in batch.tasks if task["id"] == task_id]
    told = [(state["status"], "gate" in state) for state in states]
    expected = [("pending", False), ("running", False), ("pending", True), ("running", False), ("terminal", False)]
    if isinstance(wait, PersonWait):
        expected.insert(3, ("pending", True))  # retried: a person's word is stored before it acts
    assert told == expected
    deaths = 0
    for length in range(before + 1, len(whole)):
        dead = MemoryStorage.from_batches(whole[:length], owners=owners, record=True)
        recovery, later = await _finished(wait, await new_rig().open(dead), task_id)
        for inner in range(len(recovery)):
            dead = MemoryStorage.from_batches([*whole[:length], *recovery[:inner]], owners=later, record=True)
            await _finished(wait, await new_rig().open(dead), task_id)
            deaths += 1
    print(f"{type(wait).__name__}: {len(whole) - before} commits, {deaths} second deaths")
    assert deaths > len(whole) - before


# -- who else is concerned ---------------------------------------------------------------------------------------------


@every_wait
@pytest.mark.parametrize("when", ["at once", "found at opening"])
async def test_spec_6_12_an_abort_needs_no_open_gate(opened: Open, wait: Wait, when: str) -> None:
    aborted: list[int] = []

    async def abort(task: TaskHandle) -> None:
        aborted.append(task.id)
        async with task.commit() as tx:
            task.end_aborted(tx, reason="unwanted")

    rig, task_id = await _gated(opened, wait, abort=abort)
    if when == "found at opening":
        await rig.close()
        await rig.reopen()
        await rig.harness.abort_task(task_id)  # starts nothing
        await rig.crash()
        [row] = rig.harness.inspect()
        assert row["abortRequested"] and "blocked" not in row and gate_held(rig, task_id) is not None
        await rig.harness.resume()
    else:
        await rig.harness.abort_task(task_id)
    assert await outcome(rig, task_id) == {"status": "aborted", "reason": "unwanted"}
    assert aborted == [task_id]
    if not isinstance(wait, PersonWait):
        await wait.come(rig, task_id)  # too late
    await rig.idle()
    await rig.check(idle=True)


@every_wait
@pytest.mark.parametrize("status", ["waiting", "completing"])
async def test_spec_6_12_a_task_at_a_gate_keeps_its_owner_busy(opened: Open, wait: Wait, status: str) -> None:
    child = waiting_kind(wait, "t.child")

    async def one(task: TaskHandle) -> None:
        async with task.commit() as tx:
            made = new_task(tx, conversation_id=1, definition=child, input={}, owner=task.id, running=True)
            if status == "waiting":
                task.wait(tx, {"phase": "two"}, [made["id"]])
            else:
                task.complete(tx, "left")

    kind = define("t.owner", one=one, two=finish)
    rig = await opened(SCRIPT, extensions=[Extension("tasks", tasks=[child, kind])], now=Clock())
    await wait.prepare(rig)
    owner = await start(rig, kind)

    def stands() -> bool:
        return [(row["status"], row.get("blocked")) for row in rig.harness.inspect()] == [
            (status, None),
            ("pending", wait.reason),
        ]

    await until(stands)
    await rig.crash()
    assert stands() and not rig.harness.idle
    await rig.harness.resume()
    await a_while()
    assert stands() and not rig.harness.idle
    child_id = rig.harness.inspect()[1]["id"]
    await wait.come(rig, child_id)
    assert (await outcome(rig, owner))["status"] == "completed"
    assert (await record_of(rig, child_id))["state"]["outcome"]["result"] == "came"
    await rig.idle()
    await rig.check(idle=True)


@every_wait
async def test_spec_6_12_a_watch_says_blocked_with_the_gate_and_no_more_with_the_commit_that_opens_it(
    opened: Open, wait: Wait
) -> None:
    kind = waiting_kind(wait)
    rig = await opened(SCRIPT, extensions=[Extension("tasks", tasks=[kind])], now=Clock())
    await wait.prepare(rig)
    watch = rig.harness.watch_tasks()
    await anext(watch)
    task_id = await start(rig, kind)
    opened_at = 0
    async with asyncio.timeout(30):
        async for frame in watch:
            row = next(row for row in frame.value["tasks"] if row["id"] == task_id)
            state = (row["status"], row.get("phase"), row.get("blocked"))
            if row["status"] == "terminal":
                break
            if row.get("phase") == "two" and not opened_at:
                assert state == ("pending", "two", wait.reason), "the frame of the gate's own commit says so"
                opened_at = frame.seq
                await wait.come(rig, task_id)
            elif frame.seq > opened_at > 0 or state[1] == "one":
                assert "blocked" not in row
    assert opened_at
    await watch.aclose()


@pytest.mark.parametrize("clean", [True, False], ids=["after a close", "after a death"])
async def test_spec_6_12_a_watch_says_blocked_before_anything_is_scheduled(opened: Open, clean: bool) -> None:
    rig, task_id = await _gated(opened, PersonWait())
    if clean:
        await rig.close()
        await rig.reopen()
    else:
        await rig.crash()
    watch = rig.harness.watch_tasks()
    [row] = (await anext(watch)).value["tasks"]
    assert (row["id"], row["blocked"]) == (task_id, "idle")
    await watch.aclose()


async def test_spec_6_12_a_closed_gate_is_no_reason_to_look_again_and_again(opened: Open) -> None:
    rig, _ = await _gated(opened, SubmissionWait())
    passes = count_passes(rig)
    for number in range(5):
        await rig.harness.rename(f"commit {number} opens nothing")
    await a_while()
    assert passes() <= 1, "the one that the commit with the gate asked for"


# -- a time, a person --------------------------------------------------------------------------------------------------


async def test_spec_6_12_a_clock_that_went_back_makes_a_task_wait_again_and_no_longer_than_it_was_to(
    opened: Open,
) -> None:
    rig, task_id = await _gated(opened, TimeWait())
    clock = rig.now
    assert isinstance(clock, Clock)
    began = clock.now
    await rig.close()
    clock.now = began - 5 * HOUR
    await rig.reopen()
    await rig.harness.resume()
    await until(lambda: gate_held(rig, task_id) == time_gate("tea", began - 4 * HOUR, began - 5 * HOUR))
    await until(lambda: blocked_by(rig, task_id) == "tea")
    await TimeWait().come(rig, task_id)
    assert (await outcome(rig, task_id))["result"] == "came"


@pytest.mark.parametrize("moved", [-HOUR, 0, HOUR])
async def test_spec_6_12_a_persons_word_survives_a_death_and_whatever_the_clock_does(opened: Open, moved: int) -> None:
    rig, task_id = await _gated(opened, PersonWait())
    await rig.close()
    await rig.reopen()
    await rig.harness.retry_task(task_id)  # starts nothing
    assert isinstance(rig.now, Clock)
    assert gate_held(rig, task_id) == time_gate("idle", rig.now.now, rig.now.now)
    rig.now.now += moved
    await rig.crash()
    assert blocked_by(rig, task_id) is None
    assert (await outcome(rig, task_id))["result"] == "came"


@pytest.mark.parametrize("wait", [TimeWait(), SubmissionWait(), AskWait()], ids=lambda wait: type(wait).__name__)
async def test_spec_6_12_retry_opens_no_gate_but_a_persons(opened: Open, wait: Wait) -> None:
    rig, task_id = await _gated(opened, wait)
    held = gate_held(rig, task_id)
    await rig.harness.retry_task(task_id)
    await a_while()
    assert gate_held(rig, task_id) == held and blocked_by(rig, task_id) == wait.reason


# -- from outside its handlers -----------------------------------------------------------------------------------------


@every_wait
async def test_spec_6_12_the_code_of_its_kind_gives_a_gated_task_another_checkpoint(opened: Open, wait: Wait) -> None:
    rig, task_id = await _gated(opened, wait)
    kind = rig.extensions[0].tasks[0]
    gate: Gate = {"reason": "second thoughts", "person": True}
    async with rig.harness.commit() as tx:
        advance_gated(tx, task_id, definition=kind, checkpoint={"phase": "two", "gate": {}, "n": 1}, gate=gate)
    assert blocked_by(rig, task_id) == "second thoughts"
    if not isinstance(wait, PersonWait):  # it is at another person's gate now
        await wait.come(rig, task_id)
    await a_while()
    assert gate_held(rig, task_id) == gate, "what it waited for before opens nothing"
    await rig.crash()
    assert (await record_of(rig, task_id))["state"]["checkpoint"]["n"] == 1
    await rig.harness.resume()
    await until(lambda: blocked_by(rig, task_id) == "second thoughts")
    async with rig.harness.commit() as tx:
        advance_gated(tx, task_id, definition=kind, checkpoint={"phase": "two", "gate": {"reason": "none"}})
    assert (await outcome(rig, task_id))["result"] == "came"
    await rig.idle()
    await rig.check(idle=True)


async def test_spec_6_12_a_task_that_is_at_no_gate_any_more_is_given_no_checkpoint(opened: Open) -> None:
    rig, task_id = await _gated(opened, PersonWait())
    kind, checkpoint = rig.extensions[0].tasks[0], {"phase": "two", "gate": {"reason": "none"}}
    wrong = [
        (dataclasses.replace(kind, name="t.other"), checkpoint, "is a t.waits v1: the code of t.other v1 may not"),
        (dataclasses.replace(kind, version=2), checkpoint, "is a t.waits v1: the code of t.waits v2 may not"),
        (kind, {"phase": "three"}, "t.waits has no phase 'three'"),
        (kind, {}, "t.waits has no phase None"),
    ]
    for definition, given, text in wrong:
        with pytest.raises(ValueError, match=text):
            async with rig.harness.commit() as tx:
                advance_gated(tx, task_id, definition=definition, checkpoint=given)
    with pytest.raises(ValueError, match="nobody knows of its gate"):
        async with rig.harness.commit() as tx:
            nothing: Gate = {"reason": "accept", "submission": 999_999}
            advance_gated(tx, task_id, definition=kind, checkpoint=checkpoint, gate=nothing)
    assert gate_held(rig, task_id) == {"reason": "idle", "person": True}

    async def refused() -> None:
        with pytest.raises(TaskNotGated):
            async with rig.harness.commit() as tx:
                advance_gated(tx, task_id, definition=kind, checkpoint=checkpoint)

    with pytest.raises(TaskNotGated):
        async with rig.harness.commit() as tx:
            advance_gated(tx, task_id, definition=kind, checkpoint=checkpoint)
            advance_gated(tx, task_id, definition=kind, checkpoint=checkpoint)  # ready to go on, and at no gate
    async with rig.harness.commit() as tx:
        fresh = new_task(tx, conversation_id=1, definition=kind, input={}, running=False)["id"]
        with pytest.raises(TaskNotGated):
            advance_gated(tx, fresh, definition=kind, checkpoint=checkpoint)
    await rig.close()
    await rig.reopen()
    await rig.harness.abort_task(task_id)
    await refused()  # marked
    await rig.harness.resume()
    await until(lambda: task_id not in rig.harness._session.tasks)
    await refused()  # ended
    with pytest.raises(TaskNotGated):
        async with rig.harness.commit() as tx:
            advance_gated(tx, 999_999, definition=kind, checkpoint=checkpoint)


async def test_spec_6_12_a_checkpoint_given_just_before_the_reservation_is_not_lost(opened: Open) -> None:
    """The scheduler has found the gate open and waits for the commit line: what stands there then is what counts."""
    rig, task_id = await _gated(opened, TimeWait())
    kind = rig.extensions[0].tasks[0]
    gate: Gate = {"reason": "not yet", "person": True}
    async with rig.harness.commit() as tx:
        await TimeWait().come(rig, task_id)
        await turns()
        advance_gated(tx, task_id, definition=kind, checkpoint={"phase": "two", "gate": {}, "n": 1}, gate=gate)
    await until(lambda: blocked_by(rig, task_id) == "not yet")
    await a_while()
    state = (await record_of(rig, task_id))["state"]
    assert (state["status"], state["checkpoint"]["n"], state["gate"]) == ("pending", 1, gate)


# -- gates that cannot be --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "gate",
    [
        {"reason": "accept", "submission": 999_999},
        {"reason": "approval", "ask": "nobody asked"},
        {"reason": "idle"},
        {"reason": "", "person": True},
        {"reason": "restart_limit", "person": True},
        {"reason": "tea", "time": 5},
        {"reason": "tea", "time": 5, "since": 1, "person": True},
        {"reason": "tea", "time": "soon", "since": 0},
        {"reason": "tea", "time": 2**60, "since": 0},
        {"reason": "tea", "person": False},
        {"reason": 5, "person": True},
    ],
    ids=[
        "no submission",
        "no ask",
        "nothing",
        "no reason",
        "a reason of ours",
        "no beginning",
        "two things",
        "no number",
        "no time a reader can hold",
        "no person",
        "no word",
    ],
)
async def test_spec_6_12_a_gate_that_could_never_open_is_refused(opened: Open, gate: Any) -> None:
    async def one(task: TaskHandle) -> None:
        async with task.commit() as tx:
            task.advance(tx, {"phase": "two"}, gate=gate)

    kind = define("t.k", one=one, two=finish)
    rig = await opened([say("x")], extensions=[Extension("tasks", tasks=[kind])])
    ended = await outcome(rig, await start(rig, kind))
    assert ended["status"] == "faulted" and "spec 6.12" in ended["error"], ended


async def test_spec_6_12_a_stored_gate_of_no_form_keeps_no_session_shut_and_holds_nobody(opened: Open) -> None:
    rig, task_id = await _gated(opened, PersonWait())
    record: Any = await rig.storage.task(task_id)
    record = {**record, "state": {**record["state"], "gate": {"reason": "tea", "time": "soon", "since": 0}}}
    await rig.storage.commit(Batch(seq=rig.storage.mint_seq(), at=1, tasks=[freeze(record)]))
    await rig.crash()
    await rig.harness.resume()
    assert (await outcome(rig, task_id))["status"] == "completed"


async def test_spec_6_12_an_abort_handler_may_not_wait_at_a_gate(opened: Open) -> None:
    async def abort(task: TaskHandle) -> None:
        async with task.commit() as tx:
            task.advance(tx, {"phase": "two"}, gate={"reason": "idle", "person": True})

    rig, task_id = await _gated(opened, PersonWait(), abort=abort)
    await rig.harness.abort_task(task_id)
    ended = await outcome(rig, task_id)
    assert ended["status"] == "faulted" and "may not wait" in ended["error"]


async def test_spec_6_12_the_gate_that_opened_is_no_progress_once_more(opened: Open) -> None:
    """A phase that goes back to it would be reserved again at once, for ever."""
    entered = 0

    async def one(task: TaskHandle) -> None:
        nonlocal entered
        entered += 1
        async with task.commit() as tx:
            gate = await SubmissionWait().gate(task, tx)
            task.advance(tx, {"phase": "one"}, gate=gate)

    kind = define("t.k", one=one)
    rig = await opened(SCRIPT, extensions=[Extension("tasks", tasks=[kind])])
    await SubmissionWait().prepare(rig)
    task_id = await start(rig, kind)
    await until(lambda: blocked_by(rig, task_id) == "accept")
    await SubmissionWait().come(rig, task_id)
    ended = await outcome(rig, task_id)
    assert ended["status"] == "faulted" and "at its gate without durable progress" in ended["error"]
    assert entered == 2


async def test_spec_6_12_a_phase_may_wait_for_a_person_again_with_the_same_checkpoint(opened: Open) -> None:
    entered = 0

    async def one(task: TaskHandle) -> None:
        nonlocal entered
        entered += 1
        async with task.commit() as tx:
            if entered < 4:
                task.advance(tx, {"phase": "one"}, gate={"reason": "idle", "person": True})
            else:
                task.complete(tx, entered)

    kind = define("t.k", one=one)
    rig = await opened([say("x")], extensions=[Extension("tasks", tasks=[kind])])
    task_id = await start(rig, kind)
    for times in (1, 2, 3):
        await until(lambda: blocked_by(rig, task_id) == "idle")
        assert entered == times
        await rig.harness.retry_task(task_id)
    assert (await outcome(rig, task_id))["result"] == 4


async def test_spec_6_12_an_ask_that_is_taken_away_opens_nothing(opened: Open) -> None:
    rig, task_id = await _gated(opened, AskWait())
    async with rig.harness.commit() as tx:
        (await tx.document(ASKS)).value["asks"] = []
    await a_while()
    assert blocked_by(rig, task_id) == "approval"
    await rig.harness.abort_task(task_id)
    assert (await outcome(rig, task_id))["status"] == "aborted"
