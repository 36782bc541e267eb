"""Tasks of any kind: phases, memos, ownership, waits, held outcomes (spec 6.3 to 6.7)."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from durable_tui.agent.extension import Extension, ToolCall, tool
from durable_tui.engine.task import new_task
from durable_tui.engine.task_handle import TaskHandle
from durable_tui.harness.conversation import write_first_documents
from durable_tui.session import DocumentDefinition
from durable_tui.session.documents import empty_object
from tests.scenarios.conftest import Open
from tests.tools.custom_tasks import define, finish, gated, outcome, record_of, start
from tests.tools.effects import Text
from tests.tools.scenario import Rig, text_of
from tests.tools.strict_provider import call, say
from tests.tools.waiting import a_while, until

# -- 6.3 -------------------------------------------------------------------------------------------------------------


async def test_spec_6_3_a_phase_without_durable_progress_faults(opened: Open) -> None:
    async def idle(context: TaskHandle) -> None:
        await context.memo("m", 1)  # a commit, but the checkpoint stays

    kind = define("t.idle", one=idle)
    rig = await opened([say("x")], extensions=[Extension("tasks", tasks=[kind])])
    ended = await outcome(rig, await start(rig, kind))
    assert ended["status"] == "faulted" and "without durable progress" in ended["error"]
    assert any("without durable progress" in line for line in rig.harness.reports)
    await rig.check(idle=True)


@pytest.mark.parametrize(
    "error", [ValueError("a bug"), asyncio.CancelledError()], ids=["error", "unasked cancellation"]
)
async def test_spec_6_3_an_uncaught_error_faults(opened: Open, error: BaseException) -> None:
    async def raises(context: TaskHandle) -> None:
        raise error

    kind = define("t.raises", one=raises)
    rig = await opened([say("x")], extensions=[Extension("tasks", tasks=[kind])])
    ended = await outcome(rig, await start(rig, kind))
    assert ended["status"] == "faulted"
    assert ("a bug" if isinstance(error, ValueError) else "nobody asked") in ended["error"]
    assert (await (await rig.root.submit("still works")).wait()).status == "done"
    await rig.check(idle=True)


async def test_spec_6_3_an_unknown_phase_faults(opened: Open) -> None:
    async def leap(context: TaskHandle) -> None:
        async with context.commit() as tx:
            context.advance(tx, {"phase": "nowhere"})

    kind = define("t.leap", one=leap)
    rig = await opened([say("x")], extensions=[Extension("tasks", tasks=[kind])])
    ended = await outcome(rig, await start(rig, kind))
    assert ended["status"] == "faulted" and "nowhere" in ended["error"]
    await rig.check(idle=True)


async def test_spec_6_3_a_task_cancelled_before_its_first_step_is_taken_up_again(opened: Open) -> None:
    kind = define("t.plain", one=finish)
    rig = await opened([say("x")], extensions=[Extension("tasks", tasks=[kind])])
    cancelled: list[str] = []

    def factory(loop: asyncio.AbstractEventLoop, coroutine: Any, **options: Any) -> asyncio.Task[Any]:
        task: asyncio.Task[Any] = asyncio.Task(coroutine, loop=loop, **options)
        if "_watched" in coroutine.__qualname__ and not cancelled:
            cancelled.append(coroutine.__qualname__)
            task.cancel()
        return task

    loop = asyncio.get_running_loop()
    loop.set_task_factory(factory)
    try:
        ended = await outcome(rig, await start(rig, kind))
    finally:
        loop.set_task_factory(None)
    assert cancelled and ended["status"] == "completed"
    await rig.check(idle=True)


async def test_spec_6_3_beginning_to_wait_is_progress_also_with_the_same_checkpoint(opened: Open) -> None:
    """What it waits for ends while the handler is still returning: woken, not faulted."""
    rounds: list[int] = []

    async def parent(context: TaskHandle) -> None:
        rounds.append(len(rounds))
        if len(rounds) == 2:
            await finish(context)
            return
        async with context.commit() as tx:
            child = new_task(tx, conversation_id=1, definition=quick, input={}, owner=context.id, running=True)
            context.wait(tx, dict(context.checkpoint), [child["id"]])
        await asyncio.sleep(0.05)

    quick, kind = define("t.quick", one=finish), define("t.parent", one=parent)
    rig = await opened([say("x")], extensions=[Extension("tasks", tasks=[quick, kind])])
    ended = await outcome(rig, await start(rig, kind))
    assert ended["status"] == "completed" and rounds == [0, 1]
    await rig.check(idle=True)


# -- 6.4 -------------------------------------------------------------------------------------------------------------


async def test_spec_6_4_the_first_memo_wins_over_checkpoints_and_reopening(opened: Open) -> None:
    seen: list[Any] = []
    gate = asyncio.Event()

    async def one(context: TaskHandle) -> None:
        seen.append(await context.memo("token", {"n": 1}))
        seen.append(await context.memo("token", {"n": 2}))
        async with context.commit() as tx:
            context.advance(tx, {"phase": "two"})

    async def two(context: TaskHandle) -> None:
        await gate.wait()
        seen.append(await context.memo("token", {"n": 3}))
        await finish(context)

    kind = define("t.memo", one=one, two=two)
    rig = await opened([say("x")], extensions=[Extension("tasks", tasks=[kind])])
    task_id = await start(rig, kind)

    async def second() -> bool:
        return bool((await record_of(rig, task_id))["state"].get("checkpoint", {}).get("phase") == "two")

    await until(second)
    await rig.crash()
    assert (await record_of(rig, task_id))["memos"] == {"token": {"n": 1}}
    gate.set()
    assert (await outcome(rig, task_id))["status"] == "completed"
    assert seen == [{"n": 1}] * 3
    assert "memos" not in await record_of(rig, task_id)
    await rig.check(idle=True)


# -- 6.5, 6.7 --------------------------------------------------------------------------------------------------------


async def test_spec_6_5_only_conversation_owned_tasks_may_be_background_and_idle_skips_them(opened: Open) -> None:
    gate = asyncio.Event()
    kind = define("t.gated", one=gated(lambda: gate))
    rig = await opened([say("x")], extensions=[Extension("tasks", tasks=[kind])])
    front = await start(rig, kind)
    with pytest.raises(ValueError, match="background"):
        await start(rig, kind, owner=front, background=True)
    back = await start(rig, kind, background=True)
    assert not rig.harness.idle
    await rig.root.abort()
    assert rig.harness.idle, "abort without background ends ordinary work only"
    assert (await record_of(rig, front))["state"]["outcome"]["status"] == "aborted"
    assert (await record_of(rig, back))["state"]["status"] == "running"
    await rig.root.abort(background=True)
    assert (await outcome(rig, back))["status"] == "aborted"
    await rig.check(idle=True)


async def test_spec_6_7_an_outcome_is_held_while_owned_work_lives_and_no_more_code_runs(opened: Open) -> None:
    gate, ran = asyncio.Event(), []
    notes = DocumentDefinition("t.notes", "task", empty_object)

    async def parent(context: TaskHandle) -> None:
        async with context.commit() as tx:
            (await tx.document(notes, context.id)).value["a"] = 1
            new_task(tx, conversation_id=1, definition=child, input={}, owner=context.id, running=True)
            context.complete(tx, "held")
        ran.append(context.id)

    child = define("t.child", one=gated(lambda: gate))
    kind = define("t.parent", one=parent)
    rig = await opened([say("x")], extensions=[Extension("tasks", tasks=[kind, child])])
    task_id = await start(rig, kind)
    await until(lambda: bool(ran))
    record = await record_of(rig, task_id)
    assert record["state"] == {"status": "completing", "outcome": {"status": "completed", "result": "held"}}
    assert [row["status"] for row in rig.harness.inspect()] == ["completing", "running"]
    with pytest.raises(ValueError, match="cannot own new work"):
        await start(rig, child, owner=task_id)
    with pytest.raises(ValueError, match="cannot own new work"):
        await rig.harness.create_conversation(owner={"conversationId": 1, "taskId": task_id})
    assert (await rig.storage.documents({"kind": "task", "taskId": task_id}))[0].base == {"a": 1}
    await rig.crash()
    await rig.harness.resume()
    gate.set()
    assert (await outcome(rig, task_id))["result"] == "held"
    assert len(ran) == 1 and await rig.storage.documents({"kind": "task", "taskId": task_id}) == []
    with pytest.raises(ValueError, match="does not live"):
        await start(rig, child, owner=task_id)
    rows = (await rig.harness.recovery())["deaths"][-1]["tasks"]
    assert {row["kind"]: row["verdict"] for row in rows} == {"t.parent": "woken", "t.child": "resumed"}
    await rig.check(idle=True)


async def test_spec_6_7_who_waits_for_a_held_task_wakes_only_after_its_last_commit(opened: Open) -> None:
    """The waiter is settled in the same commit as the one it waits for, and comes first in the order of ids."""
    gate, seen = asyncio.Event(), []

    async def waits(context: TaskHandle) -> None:
        async with context.commit() as tx:
            made = new_task(tx, conversation_id=1, definition=held, input={}, owner=context.id, running=True)
            context.wait(tx, {"phase": "two", "on": made["id"]}, [made["id"]])

    async def wakes(context: TaskHandle) -> None:
        seen.append((await record_of(rig, context.checkpoint["on"]))["state"]["status"])
        await finish(context)

    async def holds(context: TaskHandle) -> None:
        async with context.commit() as tx:
            new_task(tx, conversation_id=1, definition=child, input={}, owner=context.id, running=True)
            context.complete(tx, None)

    kind, held = define("t.waits", one=waits, two=wakes), define("t.held", one=holds)
    child = define("t.child", one=gated(lambda: gate))
    rig = await opened([say("x")], extensions=[Extension("tasks", tasks=[kind, held, child])])
    task_id = await start(rig, kind)
    await until(lambda: [row["status"] for row in rig.harness.inspect()] == ["waiting", "completing", "running"])
    await a_while()
    assert seen == [], "it woke while the work of the one it waits for went on"
    gate.set()
    await outcome(rig, task_id)
    assert seen == ["terminal"]
    await rig.check(idle=True)


async def test_spec_6_7_a_held_failure_aborts_the_owned_work(opened: Open) -> None:
    async def parent(context: TaskHandle) -> None:
        async with context.commit() as tx:
            new_task(tx, conversation_id=1, definition=child, input={}, owner=context.id, running=True)
            context.fail(tx, "no good")

    child = define("t.child", one=gated(asyncio.Event))
    kind = define("t.parent", one=parent)
    rig = await opened([say("x")], extensions=[Extension("tasks", tasks=[kind, child])])
    task_id = await start(rig, kind)
    assert (await outcome(rig, task_id))["status"] == "failed"
    tasks = {task["kind"]: task for task in await rig.storage.tasks()}
    assert tasks["t.child"]["state"]["outcome"]["status"] == "aborted"
    assert tasks["t.child"]["endedAt"] <= tasks["t.parent"]["endedAt"]
    await rig.check(idle=True)


async def _with_subagent(opened: Open, *, fails: bool) -> tuple[Rig, asyncio.Event, list[int]]:
    """A tool that gives a conversation of its own some work and returns at once, or fails."""
    hold, made, rigs = asyncio.Event(), [], []

    @tool
    async def delegate(args: Text, call: ToolCall) -> str:
        """Hand work to a conversation of its own."""
        async with call.commit() as tx:
            child = tx.create_conversation(owner={"conversationId": call.conversation_id, "taskId": call.task_id})
            await write_first_documents(tx, child["id"], {"model": {"provider": "strict", "modelId": "m"}, "cwd": "."})
        made.append(child["id"])
        await rigs[0].harness.conversation(child["id"]).submit("sub work")
        await rigs[0].provider.wait_requests(2)
        if fails:
            raise RuntimeError("a bug")
        return "delegated"

    def script(request: Any, index: int) -> Any:
        if text_of(request.messages[0]) == "sub work":
            return say("sub answer", hold=hold)
        return call(("delegate", {"text": "x"})) if index == 0 else say("done")

    rig = await opened(script, extensions=[Extension("delegates", tools=[delegate])])
    rigs.append(rig)
    return rig, hold, made


async def test_spec_6_7_a_completed_call_is_held_while_its_conversation_works(opened: Open) -> None:
    rig, hold, made = await _with_subagent(opened, fails=False)
    submission = await rig.root.submit("go")

    async def held() -> bool:
        return any(task["state"]["status"] == "completing" for task in await rig.storage.live_tasks())

    await until(held)
    assert (await submission.refresh())["status"] == "placed" and len(rig.provider.requests) == 2
    assert not rig.harness.idle and not rig.harness.conversation(made[0]).idle
    hold.set()
    assert (await asyncio.wait_for(submission.wait(), 10)).status == "done"
    await rig.idle()
    child = await rig.entries(rig.harness.conversation(made[0]))
    assert text_of(child[-1]["model"][0]) == "sub answer"
    with pytest.raises(ValueError, match="has ended"):
        await rig.harness.conversation(made[0]).submit("more")
    await rig.check(idle=True)


async def test_a07_a_failing_call_ends_the_conversation_it_owns_first(opened: Open) -> None:
    """spec 10: failed and aborted calls abort conversations they own."""
    rig, _, made = await _with_subagent(opened, fails=True)
    settled = await asyncio.wait_for((await rig.root.submit("go")).wait(), 10)
    assert settled.status == "done"
    await rig.idle()
    tasks = await rig.storage.tasks()
    child = next(task for task in tasks if task["conversationId"] == made[0])
    owner = next(task for task in tasks if task["kind"] == "pi.tool")
    assert child["state"]["outcome"]["status"] == "aborted" and owner["state"]["outcome"]["status"] == "failed"
    assert child["endedAt"] <= owner["endedAt"]
    await rig.check(idle=True)


# -- 6.6 -------------------------------------------------------------------------------------------------------------


class Family:
    """A parent that waits for children; each child's fate is a word: completes, fails, or hangs until its gate opens."""

    def __init__(self, fates: list[str], policy: Any) -> None:
        self.gate = asyncio.Event()
        self.children: list[int] = []
        self.fates, self.policy = fates, policy
        self.child = define("t.child", one=self._child)
        self.parent = define("t.parent", one=self._one, two=finish)

    async def _child(self, context: TaskHandle) -> None:
        fate = self.fates[self.children.index(context.id)]
        if fate == "hangs":
            await self.gate.wait()
        async with context.commit() as tx:
            if fate == "fails":
                context.fail(tx, "no good")
            else:
                context.complete(tx, None)

    async def _one(self, context: TaskHandle) -> None:
        async with context.commit() as tx:
            for _ in self.fates:
                made = new_task(tx, conversation_id=1, definition=self.child, input={}, owner=context.id, running=True)
                self.children.append(made["id"])
            context.wait(tx, {"phase": "two"}, list(self.children), self.policy)

    async def open(self, opened: Open) -> Rig:
        return await opened([say("x")], extensions=[Extension("tasks", tasks=[self.parent, self.child])])


async def test_spec_6_6_all_settled_waits_for_all_whatever_they_come_to(opened: Open) -> None:
    family = Family(["fails", "hangs", "completes"], "allSettled")
    rig = await family.open(opened)
    task_id = await start(rig, family.parent)

    async def two_ended() -> bool:
        return len([t for t in await rig.storage.tasks() if t["state"]["status"] == "terminal"]) == 2

    await until(two_ended)
    row = next(row for row in rig.harness.inspect() if row["id"] == task_id)
    assert row["status"] == "waiting" and row["waitingOn"] == family.children
    family.gate.set()
    assert (await outcome(rig, task_id))["status"] == "completed"
    states = [(await record_of(rig, child))["state"]["outcome"]["status"] for child in family.children]
    assert states == ["failed", "completed", "completed"]
    await rig.check(idle=True)


async def test_spec_6_6_fail_fast_marks_the_others_at_the_first_bad_outcome(opened: Open) -> None:
    family = Family(["hangs", "fails", "completes", "hangs"], "failFast")
    rig = await family.open(opened)
    task_id = await start(rig, family.parent)
    assert (await outcome(rig, task_id))["status"] == "completed"
    states = [(await record_of(rig, child))["state"]["outcome"]["status"] for child in family.children]
    assert states[1] == "failed" and states[0] == states[3] == "aborted"
    await rig.check(idle=True)


async def test_spec_6_6_fail_fast_counts_an_outcome_that_is_held(opened: Open) -> None:
    """A child that failed but holds its outcome while its own child ends already marks its sibling."""
    order: list[str] = []
    slow = asyncio.Event()

    async def deep_abort(context: TaskHandle) -> None:
        await slow.wait()
        order.append("deep")
        async with context.commit() as tx:
            context.end_aborted(tx)

    async def sibling_abort(context: TaskHandle) -> None:
        order.append("sibling")
        slow.set()
        async with context.commit() as tx:
            context.end_aborted(tx)

    async def failing(context: TaskHandle) -> None:
        async with context.commit() as tx:
            new_task(tx, conversation_id=1, definition=deep, input={}, owner=context.id, running=True)
            context.fail(tx, "no good")

    async def parent(context: TaskHandle) -> None:
        async with context.commit() as tx:
            made = [
                new_task(tx, conversation_id=1, definition=kind, input={}, owner=context.id, running=True)["id"]
                for kind in (fails, sibling)
            ]
            context.wait(tx, {"phase": "two"}, made, "failFast")

    deep = define("t.deep", one=gated(asyncio.Event), abort=deep_abort)
    fails = define("t.fails", one=failing)
    sibling = define("t.sibling", one=gated(asyncio.Event), abort=sibling_abort)
    top = define("t.top", one=parent, two=finish)
    rig = await opened([say("x")], extensions=[Extension("tasks", tasks=[deep, fails, sibling, top])])
    assert (await outcome(rig, await start(rig, top)))["status"] == "completed"
    assert order == ["sibling", "deep"]
    await rig.check(idle=True)


async def test_spec_6_6_fail_fast_also_sees_what_failed_before_the_wait(opened: Open) -> None:
    family = Family(["fails", "hangs"], "failFast")

    async def late(context: TaskHandle) -> None:
        async with context.commit() as tx:
            for _ in family.fates:
                made = new_task(
                    tx, conversation_id=1, definition=family.child, input={}, owner=context.id, running=True
                )
                family.children.append(made["id"])
            context.advance(tx, {"phase": "wait"})

    async def wait(context: TaskHandle) -> None:
        await context.session.storage.task(family.children[0])
        while context.session.tasks.get(family.children[0]) is not None:
            await asyncio.sleep(0)
        async with context.commit() as tx:
            context.wait(tx, {"phase": "two"}, family.children, "failFast")

    family.parent = define("t.parent", one=late, wait=wait, two=finish)
    rig = await family.open(opened)
    assert (await outcome(rig, await start(rig, family.parent)))["status"] == "completed"
    assert (await record_of(rig, family.children[1]))["state"]["outcome"]["status"] == "aborted"
    await rig.check(idle=True)


@pytest.mark.parametrize("on", ["nothing", "unknown", "ended"])
async def test_spec_6_6_waiting_on_nothing_that_lives_goes_on_at_once(opened: Open, on: str) -> None:
    ended: list[int] = []

    async def one(context: TaskHandle) -> None:
        async with context.commit() as tx:
            context.wait(tx, {"phase": "two"}, {"nothing": [], "unknown": [987654], "ended": list(ended)}[on])

    plain, kind = define("t.plain", one=finish), define("t.waits", one=one, two=finish)
    rig = await opened([say("x")], extensions=[Extension("tasks", tasks=[kind, plain])])
    ended.append(await start(rig, plain))
    await outcome(rig, ended[0])
    assert (await outcome(rig, await start(rig, kind)))["status"] == "completed"
    await rig.check(idle=True)


@pytest.mark.parametrize("on", ["itself", "its owner", "another's, failFast"])
async def test_spec_6_6_waits_that_are_refused(opened: Open, on: str) -> None:
    gate = asyncio.Event()
    ids: dict[str, int] = {}

    async def one(context: TaskHandle) -> None:
        async with context.commit() as tx:
            wanted = {"itself": context.id, "its owner": ids["owner"], "another's, failFast": ids["other"]}[on]
            policy: Any = "failFast" if "failFast" in on else "allSettled"
            context.wait(tx, {"phase": "two"}, [wanted], policy)

    held, kind = define("t.held", one=gated(lambda: gate)), define("t.waits", one=one, two=finish)
    rig = await opened([say("x")], extensions=[Extension("tasks", tasks=[kind, held])])
    ids["owner"], ids["other"] = await start(rig, held), await start(rig, held)
    ended = await outcome(rig, await start(rig, kind, owner=ids["owner"]))
    assert ended["status"] == "faulted" and "spec 6.6" in ended["error"]
    gate.set()
    await rig.idle()
    await rig.check(idle=True)


async def test_spec_6_6_all_settled_may_wait_for_what_it_does_not_own(opened: Open) -> None:
    gate = asyncio.Event()
    ids: list[int] = []

    async def one(context: TaskHandle) -> None:
        async with context.commit() as tx:
            context.wait(tx, {"phase": "two"}, ids)

    held, kind = define("t.held", one=gated(lambda: gate)), define("t.waits", one=one, two=finish)
    rig = await opened([say("x")], extensions=[Extension("tasks", tasks=[kind, held])])
    ids.append(await start(rig, held))
    waiting = await start(rig, kind)
    await until(lambda: any(row["status"] == "waiting" for row in rig.harness.inspect()))
    await rig.crash()
    gate.set()
    assert (await outcome(rig, waiting))["status"] == "completed"
    rows = (await rig.harness.recovery())["deaths"][-1]["tasks"]
    assert {row["kind"]: row["verdict"] for row in rows} == {"t.held": "resumed", "t.waits": "woken"}
    await rig.check(idle=True)
