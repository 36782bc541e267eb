"""Tasks of any kind (contract 6): phases, memos, ownership, waits, held outcomes, blocked tasks, reloading."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import Any

import pytest

from durable_tui.harness.conversation import write_first_documents
from durable_tui.harness.extension import Extension, ToolCall, tool
from durable_tui.harness.generation import GENERATION
from durable_tui.harness.tasks import TaskContext, TaskDefinition, new_task
from durable_tui.session import DocumentDefinition
from durable_tui.session.documents import empty_object
from durable_tui.storage.errors import StorageRejected
from tests.scenarios.conftest import Open
from tests.tools.effects import Text
from tests.tools.scenario import Rig, text_of, wait_until
from tests.tools.strict_provider import call, say


def define(name: str, *, version: int = 1, first: str = "one", **phases: Any) -> TaskDefinition:
    """A definition; `abort` and `migrate` may be among the keywords."""
    abort, migrate = phases.pop("abort", None), phases.pop("migrate", None)
    return TaskDefinition(name, phases, lambda _: {"phase": first}, version, abort, migrate)


def install(rig: Rig, *definitions: TaskDefinition, name: str = "tasks") -> None:
    rig.harness._kernel.registry.install(Extension(name, tasks=definitions))


async def start(
    rig: Rig, definition: TaskDefinition, *, owner: int | None = None, background: bool = False, conversation: int = 1
) -> int:
    """A new task, and scheduling begun."""
    async with rig.harness.commit() as tx:
        made = new_task(
            tx, conversation_id=conversation, definition=definition, input={}, owner=owner, background=background,
            running=False,
        )
    await rig.harness.resume()
    return made["id"]


async def outcome(rig: Rig, task_id: int) -> Any:
    record = await asyncio.wait_for(rig.harness.wait_for_task(task_id), 10)
    return record["state"]["outcome"]


async def record_of(rig: Rig, task_id: int) -> Any:
    return await rig.storage.task(task_id)


async def finish(context: TaskContext) -> None:
    async with context.commit() as tx:
        context.complete(tx, None)


def gated(gate: Callable[[], asyncio.Event], then: Callable[[TaskContext, Any], None] | None = None) -> Any:
    """A phase that waits for an event, then completes, or does `then`."""

    async def phase(context: TaskContext) -> None:
        await gate().wait()
        async with context.commit() as tx:
            if then is None:
                context.complete(tx, None)
            else:
                then(context, tx)

    return phase


# -- 6.3 -------------------------------------------------------------------------------------------------------------


async def test_contract_6_3_a_phase_without_durable_progress_faults(opened: Open) -> None:
    async def idle(context: TaskContext) -> None:
        await context.memo("m", 1)  # a commit, but the checkpoint stays

    kind = define("t.idle", one=idle)
    rig = await opened([say("x")], extensions=[Extension("tasks", tasks=[kind])])
    ended = await outcome(rig, await start(rig, kind))
    assert ended["status"] == "faulted" and "without durable progress" in ended["error"]
    assert any("without durable progress" in line for line in rig.harness.reports)
    await rig.check(idle=True)


@pytest.mark.parametrize("error", [ValueError("a bug"), asyncio.CancelledError()], ids=["error", "unasked cancellation"])
async def test_contract_6_3_an_uncaught_error_faults(opened: Open, error: BaseException) -> None:
    async def raises(context: TaskContext) -> None:
        raise error

    kind = define("t.raises", one=raises)
    rig = await opened([say("x")], extensions=[Extension("tasks", tasks=[kind])])
    ended = await outcome(rig, await start(rig, kind))
    assert ended["status"] == "faulted"
    assert ("a bug" if isinstance(error, ValueError) else "nobody asked") in ended["error"]
    assert (await (await rig.root.submit("still works")).wait()).status == "done"
    await rig.check(idle=True)


async def test_contract_6_3_an_unknown_phase_faults(opened: Open) -> None:
    async def leap(context: TaskContext) -> None:
        async with context.commit() as tx:
            context.advance(tx, {"phase": "nowhere"})

    kind = define("t.leap", one=leap)
    rig = await opened([say("x")], extensions=[Extension("tasks", tasks=[kind])])
    ended = await outcome(rig, await start(rig, kind))
    assert ended["status"] == "faulted" and "nowhere" in ended["error"]
    await rig.check(idle=True)


async def test_contract_6_3_a_task_cancelled_before_its_first_step_is_taken_up_again(opened: Open) -> None:
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


async def test_contract_6_3_beginning_to_wait_is_progress_also_with_the_same_checkpoint(opened: Open) -> None:
    """What it waits for ends while the handler is still returning: woken, not faulted."""
    rounds: list[int] = []

    async def parent(context: TaskContext) -> None:
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


async def test_contract_6_4_the_first_memo_wins_over_checkpoints_and_reopening(opened: Open) -> None:
    seen: list[Any] = []
    gate = asyncio.Event()

    async def one(context: TaskContext) -> None:
        seen.append(await context.memo("token", {"n": 1}))
        seen.append(await context.memo("token", {"n": 2}))
        async with context.commit() as tx:
            context.advance(tx, {"phase": "two"})

    async def two(context: TaskContext) -> None:
        await gate.wait()
        seen.append(await context.memo("token", {"n": 3}))
        await finish(context)

    kind = define("t.memo", one=one, two=two)
    rig = await opened([say("x")], extensions=[Extension("tasks", tasks=[kind])])
    task_id = await start(rig, kind)

    async def second() -> bool:
        return bool((await record_of(rig, task_id))["state"].get("checkpoint", {}).get("phase") == "two")

    await wait_until(second)
    await rig.crash()
    assert (await record_of(rig, task_id))["memos"] == {"token": {"n": 1}}
    gate.set()
    assert (await outcome(rig, task_id))["status"] == "completed"
    assert seen == [{"n": 1}] * 3
    assert "memos" not in await record_of(rig, task_id)
    await rig.check(idle=True)


# -- 6.5, 6.7 --------------------------------------------------------------------------------------------------------


async def test_contract_6_5_only_conversation_owned_tasks_may_be_background_and_idle_skips_them(opened: Open) -> None:
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


async def test_contract_6_7_an_outcome_is_held_while_owned_work_lives_and_no_more_code_runs(opened: Open) -> None:
    gate, ran = asyncio.Event(), []
    notes = DocumentDefinition("t.notes", "task", empty_object)

    async def parent(context: TaskContext) -> None:
        async with context.commit() as tx:
            (await tx.document(notes, context.id)).value["a"] = 1
            new_task(tx, conversation_id=1, definition=child, input={}, owner=context.id, running=True)
            context.complete(tx, "held")
        ran.append(context.id)

    child = define("t.child", one=gated(lambda: gate))
    kind = define("t.parent", one=parent)
    rig = await opened([say("x")], extensions=[Extension("tasks", tasks=[kind, child])])
    task_id = await start(rig, kind)
    await wait_until(lambda: bool(ran))
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


async def test_contract_6_7_a_held_failure_aborts_the_owned_work(opened: Open) -> None:
    async def parent(context: TaskContext) -> None:
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


async def test_contract_6_7_a_completed_call_is_held_while_its_conversation_works(opened: Open) -> None:
    rig, hold, made = await _with_subagent(opened, fails=False)
    submission = await rig.root.submit("go")

    async def held() -> bool:
        return any(task["state"]["status"] == "completing" for task in await rig.storage.live_tasks())

    await wait_until(held)
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
    """Contract 10: failed and aborted calls abort conversations they own."""
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

    async def _child(self, context: TaskContext) -> None:
        fate = self.fates[self.children.index(context.id)]
        if fate == "hangs":
            await self.gate.wait()
        async with context.commit() as tx:
            if fate == "fails":
                context.fail(tx, "no good")
            else:
                context.complete(tx, None)

    async def _one(self, context: TaskContext) -> None:
        async with context.commit() as tx:
            for _ in self.fates:
                made = new_task(tx, conversation_id=1, definition=self.child, input={}, owner=context.id, running=True)
                self.children.append(made["id"])
            context.wait(tx, {"phase": "two"}, list(self.children), self.policy)

    async def open(self, opened: Open) -> Rig:
        return await opened([say("x")], extensions=[Extension("tasks", tasks=[self.parent, self.child])])


async def test_contract_6_6_all_settled_waits_for_all_whatever_they_come_to(opened: Open) -> None:
    family = Family(["fails", "hangs", "completes"], "allSettled")
    rig = await family.open(opened)
    task_id = await start(rig, family.parent)

    async def two_ended() -> bool:
        return len([t for t in await rig.storage.tasks() if t["state"]["status"] == "terminal"]) == 2

    await wait_until(two_ended)
    row = next(row for row in rig.harness.inspect() if row["id"] == task_id)
    assert row["status"] == "waiting" and row["waitingOn"] == family.children
    family.gate.set()
    assert (await outcome(rig, task_id))["status"] == "completed"
    states = [(await record_of(rig, child))["state"]["outcome"]["status"] for child in family.children]
    assert states == ["failed", "completed", "completed"]
    await rig.check(idle=True)


async def test_contract_6_6_fail_fast_marks_the_others_at_the_first_bad_outcome(opened: Open) -> None:
    family = Family(["hangs", "fails", "completes", "hangs"], "failFast")
    rig = await family.open(opened)
    task_id = await start(rig, family.parent)
    assert (await outcome(rig, task_id))["status"] == "completed"
    states = [(await record_of(rig, child))["state"]["outcome"]["status"] for child in family.children]
    assert states[1] == "failed" and states[0] == states[3] == "aborted"
    await rig.check(idle=True)


async def test_contract_6_6_fail_fast_counts_an_outcome_that_is_held(opened: Open) -> None:
    """A child that failed but holds its outcome while its own child ends already marks its sibling."""
    order: list[str] = []
    slow = asyncio.Event()

    async def deep_abort(context: TaskContext) -> None:
        await slow.wait()
        order.append("deep")
        async with context.commit() as tx:
            context.end_aborted(tx)

    async def sibling_abort(context: TaskContext) -> None:
        order.append("sibling")
        slow.set()
        async with context.commit() as tx:
            context.end_aborted(tx)

    async def failing(context: TaskContext) -> None:
        async with context.commit() as tx:
            new_task(tx, conversation_id=1, definition=deep, input={}, owner=context.id, running=True)
            context.fail(tx, "no good")

    async def parent(context: TaskContext) -> None:
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


async def test_contract_6_6_fail_fast_also_sees_what_failed_before_the_wait(opened: Open) -> None:
    family = Family(["fails", "hangs"], "failFast")

    async def late(context: TaskContext) -> None:
        async with context.commit() as tx:
            for _ in family.fates:
                made = new_task(tx, conversation_id=1, definition=family.child, input={}, owner=context.id, running=True)
                family.children.append(made["id"])
            context.advance(tx, {"phase": "wait"})

    async def wait(context: TaskContext) -> None:
        await context.kernel.session.storage.task(family.children[0])
        while context.kernel.session.tasks.get(family.children[0]) is not None:
            await asyncio.sleep(0)
        async with context.commit() as tx:
            context.wait(tx, {"phase": "two"}, family.children, "failFast")

    family.parent = define("t.parent", one=late, wait=wait, two=finish)
    rig = await family.open(opened)
    assert (await outcome(rig, await start(rig, family.parent)))["status"] == "completed"
    assert (await record_of(rig, family.children[1]))["state"]["outcome"]["status"] == "aborted"
    await rig.check(idle=True)


@pytest.mark.parametrize("on", ["nothing", "unknown", "ended"])
async def test_contract_6_6_waiting_on_nothing_that_lives_goes_on_at_once(opened: Open, on: str) -> None:
    ended: list[int] = []

    async def one(context: TaskContext) -> None:
        async with context.commit() as tx:
            context.wait(tx, {"phase": "two"}, {"nothing": [], "unknown": [987654], "ended": list(ended)}[on])

    plain, kind = define("t.plain", one=finish), define("t.waits", one=one, two=finish)
    rig = await opened([say("x")], extensions=[Extension("tasks", tasks=[kind, plain])])
    ended.append(await start(rig, plain))
    await outcome(rig, ended[0])
    assert (await outcome(rig, await start(rig, kind)))["status"] == "completed"
    await rig.check(idle=True)


@pytest.mark.parametrize("on", ["itself", "its owner", "another's, failFast"])
async def test_contract_6_6_waits_that_are_refused(opened: Open, on: str) -> None:
    gate = asyncio.Event()
    ids: dict[str, int] = {}

    async def one(context: TaskContext) -> None:
        async with context.commit() as tx:
            wanted = {"itself": context.id, "its owner": ids["owner"], "another's, failFast": ids["other"]}[on]
            policy: Any = "failFast" if "failFast" in on else "allSettled"
            context.wait(tx, {"phase": "two"}, [wanted], policy)

    held, kind = define("t.held", one=gated(lambda: gate)), define("t.waits", one=one, two=finish)
    rig = await opened([say("x")], extensions=[Extension("tasks", tasks=[kind, held])])
    ids["owner"], ids["other"] = await start(rig, held), await start(rig, held)
    ended = await outcome(rig, await start(rig, kind, owner=ids["owner"]))
    assert ended["status"] == "faulted" and "contract 6.6" in ended["error"]
    gate.set()
    await rig.idle()
    await rig.check(idle=True)


async def test_contract_6_6_all_settled_may_wait_for_what_it_does_not_own(opened: Open) -> None:
    gate = asyncio.Event()
    ids: list[int] = []

    async def one(context: TaskContext) -> None:
        async with context.commit() as tx:
            context.wait(tx, {"phase": "two"}, ids)

    held, kind = define("t.held", one=gated(lambda: gate)), define("t.waits", one=one, two=finish)
    rig = await opened([say("x")], extensions=[Extension("tasks", tasks=[kind, held])])
    ids.append(await start(rig, held))
    waiting = await start(rig, kind)
    await wait_until(lambda: any(row["status"] == "waiting" for row in rig.harness.inspect()))
    await rig.crash()
    gate.set()
    assert (await outcome(rig, waiting))["status"] == "completed"
    rows = (await rig.harness.recovery())["deaths"][-1]["tasks"]
    assert {row["kind"]: row["verdict"] for row in rows} == {"t.held": "resumed", "t.waits": "woken"}
    await rig.check(idle=True)


# -- 6.8 -------------------------------------------------------------------------------------------------------------


class Tower:
    """Three tasks, each owning the next; their abort handlers are counted, the lowest may be held."""

    def __init__(self) -> None:
        self.order: list[str] = []
        self.release = asyncio.Event()
        self.kinds = [define(f"t.{level}", one=self._phase(level), two=finish, abort=self._abort(level))
                      for level in ("top", "middle", "bottom")]

    def _phase(self, level: str) -> Any:
        async def one(context: TaskContext) -> None:
            if level == "bottom":
                await asyncio.sleep(3600)
            below = self.kinds[1 if level == "top" else 2]
            async with context.commit() as tx:
                made = new_task(tx, conversation_id=1, definition=below, input={}, owner=context.id, running=True)
                context.wait(tx, {"phase": "two"}, [made["id"]])

        return one

    def _abort(self, level: str) -> Any:
        async def abort(context: TaskContext) -> None:
            if level == "bottom":
                await self.release.wait()
            self.order.append(level)
            async with context.commit() as tx:
                context.end_aborted(tx, reason=level)

        return abort

    async def open(self, opened: Open) -> tuple[Rig, int]:
        rig = await opened([say("x")], extensions=[Extension("tasks", tasks=self.kinds)])
        top = await start(rig, self.kinds[0])
        await wait_until(lambda: len(rig.harness.inspect()) == 3)
        return rig, top


async def test_contract_6_8_abort_handlers_run_bottom_up(opened: Open) -> None:
    tower = Tower()
    rig, top = await tower.open(opened)
    await rig.harness.abort_task(top)
    assert (await record_of(rig, top))["abortRequested"]
    await asyncio.sleep(0.02)
    assert tower.order == [] and len(rig.harness.inspect()) == 3
    with pytest.raises(ValueError, match="cannot own new work"):
        await start(rig, tower.kinds[2], owner=top)
    tower.release.set()
    assert await outcome(rig, top) == {"status": "aborted", "reason": "top"}
    assert tower.order == ["bottom", "middle", "top"]
    await rig.check(idle=True)


async def test_contract_6_8_reopened_in_the_middle_of_an_abort(opened: Open) -> None:
    """Also when only the top's mark was stored: the cascade is derived again at open."""
    tower = Tower()
    rig, top = await tower.open(opened)
    async with rig.harness.commit() as tx:
        record = tx.candidate(top)
        assert record is not None
        tx.put_task({**record, "abortRequested": True})
        await rig.kill() if rig.backend == "memory" else None
    await rig.crash()
    tower.release.set()
    await rig.harness.resume()
    await rig.idle()
    rows = (await rig.harness.recovery())["deaths"][-1]["tasks"]
    if (await record_of(rig, top))["abortRequested"]:
        assert tower.order == ["bottom", "middle", "top"]
        assert {row["verdict"] for row in rows} == {"aborted"}
    await rig.check()


@pytest.mark.parametrize("how", ["raises", "commits nothing", "waits", "owns", "is cancelled"])
async def test_contract_6_8_an_abort_handler_that_does_not_end_its_task_faults_it(opened: Open, how: str) -> None:
    calls: list[str] = []

    async def abort(context: TaskContext) -> None:
        calls.append(how)
        if how == "raises":
            raise ValueError("a bug")
        if how == "is cancelled":
            raise asyncio.CancelledError
        if how == "commits nothing":
            return
        async with context.commit() as tx:
            if how == "waits":
                context.wait(tx, {"phase": "one"}, [])
            else:
                new_task(tx, conversation_id=1, definition=kind, input={}, owner=context.id, running=False)

    kind = define("t.bad", one=gated(asyncio.Event), abort=abort)
    rig = await opened([say("x")], extensions=[Extension("tasks", tasks=[kind])])
    task_id = await start(rig, kind)
    await rig.harness.abort_task(task_id)
    assert (await outcome(rig, task_id))["status"] == "faulted"
    assert calls == [how]
    assert len(await rig.storage.tasks()) == 1
    await rig.check(idle=True)


async def test_contract_6_8_a_rejected_abort_is_tried_again_without_haste(opened: Open) -> None:
    calls: list[float] = []

    async def abort(context: TaskContext) -> None:
        calls.append(asyncio.get_running_loop().time())
        async with context.commit() as tx:
            context.end_aborted(tx)

    kind = define("t.slow", one=gated(asyncio.Event), abort=abort)
    rig = await opened([say("x")], extensions=[Extension("tasks", tasks=[kind])])
    task_id = await start(rig, kind)
    inner, refusing = rig.storage.commit, True

    async def commit(batch: Any) -> None:
        if refusing and any(task["state"]["status"] == "terminal" for task in batch.tasks):
            raise StorageRejected("the database is locked")
        await inner(batch)

    rig.storage.commit = commit
    await rig.harness.abort_task(task_id)
    await asyncio.sleep(0.5)
    assert 1 <= len(calls) <= 3, "a refused abort was repeated in haste"
    refusing = False
    assert (await outcome(rig, task_id))["status"] == "aborted"
    await rig.check(idle=True)


async def test_contract_6_8_a_late_result_is_dropped(opened: Open) -> None:
    late: list[str] = []

    async def stubborn(context: TaskContext) -> None:
        try:
            await asyncio.sleep(3600)
        except asyncio.CancelledError:
            pass
        try:
            async with context.commit() as tx:
                context.complete(tx, "too late")
        except Exception as error:  # noqa: BLE001
            late.append(type(error).__name__)
            raise

    kind = define("t.stubborn", one=stubborn)
    rig = await opened([say("x")], extensions=[Extension("tasks", tasks=[kind])])
    task_id = await start(rig, kind)
    await wait_until(lambda: [row["status"] for row in rig.harness.inspect()] == ["running"])
    await asyncio.sleep(0.01)
    await rig.harness.abort_task(task_id)
    assert late == ["InvocationEnded"], "abort_task returns when the run invocation is joined"
    assert (await outcome(rig, task_id))["status"] == "aborted"
    await rig.check(idle=True)


# -- 6.9, 6.10 -------------------------------------------------------------------------------------------------------


def _broken(checkpoint: Any, version: int) -> Any:
    raise ValueError("cannot be")


BLOCKERS: dict[str, TaskDefinition | None] = {
    "missing_task": None,
    "task_too_old": define("t.kind", version=1, one=finish),
    "migration_failed": define("t.kind", version=3, one=finish, migrate=_broken),
    "migration_failed: none": define("t.kind", version=3, one=finish),
    "migration_failed: junk": define("t.kind", version=3, one=finish, migrate=lambda c, v: {"phase": {1, 2}}),
    "migration_failed: no phase": define("t.kind", version=3, one=finish, migrate=lambda c, v: 7),
}


async def _blocked(opened: Open, name: str) -> tuple[Rig, int, str]:
    """A task of version 2, found at open by code that cannot take it."""
    reason = name.partition(":")[0]
    kind = define("t.kind", version=2, one=finish)
    rig = await opened([say("x")], extensions=[Extension("tasks", tasks=[kind])])
    async with rig.harness.commit() as tx:
        made = new_task(tx, conversation_id=1, definition=kind, input={}, running=False)
    blocker = BLOCKERS[name]
    rig.extensions = [Extension("tasks", tasks=[] if blocker is None else [blocker])]
    await rig.crash()
    await rig.harness.resume()

    async def told() -> bool:
        rows = (await rig.harness.recovery())["deaths"][-1]["tasks"]
        return bool("verdict" in rows[-1])

    await wait_until(told)
    row = (await rig.harness.recovery())["deaths"][-1]["tasks"][-1]
    assert (row["verdict"], row["detail"]) == ("blocked", reason)
    return rig, made["id"], reason


@pytest.mark.parametrize("name", BLOCKERS)
async def test_contract_6_9_a_blocked_task_stays_put_and_a_fitting_definition_wakes_it(opened: Open, name: str) -> None:
    rig, task_id, reason = await _blocked(opened, name)
    frame = await anext(rig.harness.watch_tasks())
    assert [row["blocked"] for row in frame.value["tasks"]] == [reason]
    assert [row["blocked"] for row in rig.harness.inspect()] == [reason]
    before = await record_of(rig, task_id)
    assert before["state"]["status"] == "pending" and before["version"] == 2 and not rig.harness.idle
    assert (await (await rig.root.submit("others go on")).wait()).status == "done"
    taken: list[Any] = []

    async def one(context: TaskContext) -> None:
        taken.append(context.checkpoint)
        await finish(context)

    def migrate(checkpoint: Any, version: int) -> Any:
        return {**checkpoint, "from": version}

    install(rig, define("t.kind", version=4, one=one, migrate=migrate))
    assert (await outcome(rig, task_id))["status"] == "completed"
    assert taken == [{"phase": "one", "from": 2}] and (await record_of(rig, task_id))["version"] == 4
    await rig.check(idle=True)


@pytest.mark.parametrize("name", BLOCKERS)
async def test_contract_6_9_only_an_abort_makes_a_blocked_task_orphaned(opened: Open, name: str) -> None:
    rig, task_id, reason = await _blocked(opened, name)
    await rig.harness.abort_task(task_id)
    assert await outcome(rig, task_id) == {"status": "orphaned", "reason": reason}
    await rig.check(idle=True)


async def test_contract_6_9_an_abort_migrates_before_it_runs_the_abort_handler(opened: Open) -> None:
    seen: list[Any] = []

    async def abort(context: TaskContext) -> None:
        seen.append(context.checkpoint)
        async with context.commit() as tx:
            context.end_aborted(tx)

    old = define("t.kind", version=1, one=gated(asyncio.Event))
    rig = await opened([say("x")], extensions=[Extension("tasks", tasks=[old])])
    task_id = await start(rig, old)
    await wait_until(lambda: [row["status"] for row in rig.harness.inspect()] == ["running"])
    new = define("t.kind", version=2, one=finish, abort=abort, migrate=lambda c, v: {**c, "new": True})
    rig.extensions = [Extension("tasks", tasks=[new])]
    await rig.crash()
    await rig.harness.abort_task(task_id)
    await rig.harness.resume()
    assert (await outcome(rig, task_id))["status"] == "aborted"
    assert seen == [{"phase": "one", "new": True}]
    await rig.check(idle=True)


async def test_contract_6_9_the_inputs_of_an_orphaned_run_settle_with_its_reason(opened: Open) -> None:
    newer = TaskDefinition("pi.generation", dict(GENERATION.phases), GENERATION.initial, 2, GENERATION.abort)
    rig = await opened([say("slow", delay=3600)], extensions=[Extension("newer", tasks=[newer])])
    submission = await rig.root.submit("go", request_id="r")
    await rig.provider.wait_requests(1)
    rig.extensions = []
    await rig.crash()
    await rig.harness.resume()
    await wait_until(lambda: [row.get("blocked") for row in rig.harness.inspect()] == ["task_too_old"])
    record = await rig.storage.submission(submission.id)
    assert record["status"] == "placed", "blocked, not lost"
    await rig.root.abort()
    record = await rig.storage.submission(submission.id)
    assert (record["status"], record["reason"]) == ("unanswered", "task_too_old")
    live = await rig.document("pi.live")
    assert not {"run", "generation"} & set(live)
    rig.provider.script = [say("fine")]
    assert (await (await rig.root.submit("again")).wait()).status == "done"
    await rig.check(idle=True)


async def test_contract_6_9_an_orphaned_tool_leaves_a_done_slot_and_the_run_goes_on(opened: Open) -> None:
    from durable_tui.harness.toolcall import TOOL

    newer = TaskDefinition("pi.tool", dict(TOOL.phases), TOOL.initial, 2, TOOL.abort)
    rig = await opened([call(("gate", {"text": "g"})), say("done")], extensions=[Extension("newer", tasks=[newer])])
    submission = await rig.root.submit("go", request_id="r")
    await rig.effects.wait_started("gate")
    rig.extensions = []
    await rig.crash()
    await rig.harness.resume()
    await wait_until(lambda: "task_too_old" in [row.get("blocked") for row in rig.harness.inspect()])
    tool_id = next(row["id"] for row in rig.harness.inspect() if row["kind"] == "pi.tool")
    await rig.harness.abort_task(tool_id)
    assert (await outcome(rig, tool_id))["status"] == "orphaned"
    assert (await asyncio.wait_for((await rig.harness.submission(submission.id)).wait(), 10)).status == "done"
    await rig.check(idle=True)


async def test_contract_6_9_a_fault_cleans_up_in_the_commit_that_ends_the_run(opened: Open) -> None:
    async def broken(context: TaskContext) -> None:
        raise RuntimeError("a bug in the harness")

    phases = {**GENERATION.phases, "request": broken}
    bad = TaskDefinition("pi.generation", phases, GENERATION.initial, 1, GENERATION.abort)
    rig = await opened([say("x")], extensions=[Extension("bad", tasks=[bad])])
    settled = await asyncio.wait_for((await rig.root.submit("go")).wait(), 10)
    assert (settled.status, settled.reason) == ("unanswered", "faulted") and "a bug" in (settled.detail or "")
    assert "run" not in (await rig.document("pi.live"))
    rig.harness._kernel.registry.uninstall("bad")
    assert (await (await rig.root.submit("again")).wait()).status == "done"
    await rig.check(idle=True)


@pytest.mark.parametrize("change", ["replace", "newer", "uninstall", "cannot take it"])
async def test_contract_6_10_reloading_hands_over_at_the_next_phase_boundary(opened: Open, change: str) -> None:
    ran: list[str] = []
    gate = asyncio.Event()

    def version(label: str, **more: Any) -> TaskDefinition:
        async def one(context: TaskContext) -> None:
            ran.append(f"{label} one")
            await gate.wait()
            async with context.commit() as tx:
                context.advance(tx, {"phase": "two"})

        async def two(context: TaskContext) -> None:
            ran.append(f"{label} two")
            await finish(context)

        return define("t.kind", one=one, two=two, **more)

    old = version("old")
    rig = await opened([say("x")], extensions=[Extension("tasks", tasks=[old])])
    task_id = await start(rig, old)
    await wait_until(lambda: bool(ran))
    if change == "replace":
        install(rig, version("new"))
    elif change == "newer":
        install(rig, version("new", version=2) if False else
                TaskDefinition("t.kind", version("new").phases, old.initial, 2, None, lambda c, v: c))
    elif change == "uninstall":
        rig.harness._kernel.registry.uninstall("tasks")
    else:
        install(rig, TaskDefinition("t.kind", version("new").phases, old.initial, 2, None, _broken))
    gate.set()
    assert (await outcome(rig, task_id))["status"] == "completed"
    assert ran == ["old one", "new two" if change in ("replace", "newer") else "old two"]
    assert (await record_of(rig, task_id))["version"] == (2 if change == "newer" else 1)
    await rig.check(idle=True)


async def test_contract_7_one_task_that_cannot_be_started_keeps_no_other_from_going_on(
    opened: Open, caplog: pytest.LogCaptureFixture
) -> None:
    """Its code raises where the scheduler asks it: reported, left alone for a while, the others run."""
    bad, good = define("t.bad", one=finish), define("t.good", one=finish)
    rig = await opened([say("x")], extensions=[Extension("tasks", tasks=[bad, good])])
    original = rig.harness._kernel.definition

    def definition(kind: str) -> Any:
        if kind == "t.bad" and broken:
            raise RuntimeError("a broken registry")
        return original(kind)

    broken = True
    rig.harness._kernel.definition = definition  # type: ignore[method-assign]
    with caplog.at_level(logging.CRITICAL):
        first, second = await start(rig, bad), await start(rig, good)
        assert (await outcome(rig, second))["status"] == "completed"
    assert any("a broken registry" in line for line in rig.harness.reports)
    broken = False
    assert (await outcome(rig, first))["status"] == "completed"
    await rig.check(idle=True)
