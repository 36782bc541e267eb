"""Tasks of an extension: ownership, waiting, completing, abort order, blocking, memos (contract 6)."""

from __future__ import annotations

import asyncio
import dataclasses
from collections.abc import Callable
from typing import Any

import pytest

from durable_tui.harness.extension import Extension
from durable_tui.harness.tasks import Handler, TaskContext, TaskDefinition, new_task
from tests.scenarios.conftest import Open
from tests.tools.scenario import FAST, Rig, wait_until
from tests.tools.strict_provider import say


class Lab:
    """Task kinds for one test; `log` says what ran, `gates` hold it."""

    def __init__(self) -> None:
        self.log: list[str] = []
        self.gates: dict[str, asyncio.Event] = {}
        self.kinds: dict[str, TaskDefinition] = {}

    def gate(self, name: str) -> asyncio.Event:
        return self.gates.setdefault(name, asyncio.Event())

    def define(self, name: str, run: Handler, *, abort: Handler | None = None, version: int = 1,
               migrate: Callable[[Any, int], dict[str, Any]] | None = None, **phases: Handler) -> TaskDefinition:
        self.kinds[name] = TaskDefinition(
            name, {"run": run, **phases}, lambda _: {"phase": "run"}, version=version, abort=abort, migrate=migrate
        )
        return self.kinds[name]

    def extension(self) -> Extension:
        return Extension("lab", tasks=self.kinds.values())

    def held(self, name: str) -> Handler:
        """A handler that waits for its gate (its input) and completes."""

        async def run(context: TaskContext) -> None:
            self.log.append(f"{name} {context.input} runs")
            try:
                await self.gate(str(context.input)).wait()
            except asyncio.CancelledError:
                self.log.append(f"{name} {context.input} cancelled")
                raise
            async with context.commit() as tx:
                context.complete(tx, {"of": context.input})

        return run

    def noted_abort(self, name: str) -> Handler:
        async def abort(context: TaskContext) -> None:
            self.log.append(f"{name} {context.input} abort handler")
            async with context.commit() as tx:
                context.end_aborted(tx)

        return abort


@pytest.fixture
def lab() -> Lab:
    return Lab()


async def start(rig: Rig, definition: TaskDefinition, value: Any = None, **options: Any) -> int:
    async with rig.harness.commit() as tx:
        record = new_task(tx, conversation_id=1, definition=definition, input=value, running=False, **options)
    await rig.harness.resume()
    return record["id"]


async def outcome(rig: Rig, task_id: int) -> Any:
    record = await asyncio.wait_for(rig.harness.wait_for_task(task_id), 10)
    return record["state"]["outcome"]


async def test_contract_6_1_progress_is_only_what_is_committed(opened: Open, lab: Lab) -> None:
    async def one(context: TaskContext) -> None:
        async with context.commit() as tx:
            tx.append(1, "lab.note", data={"step": 1}, by_task=context.id)
            context.advance(tx, {"phase": "two", "seen": 1})

    async def two(context: TaskContext) -> None:
        assert context.checkpoint["seen"] == 1
        async with context.commit() as tx:
            context.complete(tx, "both")

    kind = lab.define("steps", one, two=two)
    rig = await opened([say("x")], extensions=[lab.extension()])
    assert await outcome(rig, await start(rig, kind)) == {"status": "completed", "result": "both"}
    await rig.check(idle=True)


@pytest.mark.parametrize("how", ["raises", "stands still", "unasked cancellation", "no such phase"])
async def test_contract_6_3_what_faults_a_task(opened: Open, lab: Lab, how: str) -> None:
    async def run(context: TaskContext) -> None:
        if how == "raises":
            raise KeyError("mistake")
        if how == "unasked cancellation":
            raise asyncio.CancelledError
        if how == "no such phase":
            async with context.commit() as tx:
                context.advance(tx, {"phase": "nowhere"})

    kind = lab.define("bad", run)
    rig = await opened([say("x")], extensions=[lab.extension()])
    found = await outcome(rig, await start(rig, kind))
    assert found["status"] == "faulted" and found["error"]
    assert (await (await rig.root.submit("still well")).wait()).status == "done"
    await rig.idle()
    await rig.check(idle=True)


async def test_contract_6_4_a_memo_keeps_the_first_value_over_phases_and_deaths(opened: Open, lab: Lab) -> None:
    async def run(context: TaskContext) -> None:
        lab.log.append(await context.memo("name", f"value {len(lab.log)}"))
        async with context.commit() as tx:
            context.advance(tx, {"phase": "two"})

    async def two(context: TaskContext) -> None:
        lab.log.append(await context.memo("name", f"value {len(lab.log)}"))
        await lab.gate("go").wait()
        async with context.commit() as tx:
            context.complete(tx, lab.log[-1])

    kind = lab.define("memo", run, two=two)
    rig = await opened([say("x")], extensions=[lab.extension()])
    task_id = await start(rig, kind)
    await wait_until(lambda: len(lab.log) == 2)
    await rig.crash()
    lab.gate("go").set()
    assert await outcome(rig, task_id) == {"status": "completed", "result": "value 0"}
    assert lab.log == ["value 0"] * 3
    await rig.check(idle=True)


def _parent(lab: Lab, child: TaskDefinition, inputs: list[str], policy: str = "allSettled", *,
            wait: bool = True) -> Handler:
    async def run(context: TaskContext) -> None:
        async with context.commit() as tx:
            owned = [
                new_task(tx, conversation_id=1, definition=child, input=one, owner=context.id, running=True)["id"]
                for one in inputs
            ]
            if wait:
                context.wait(tx, {"phase": "after", "owned": owned}, owned, policy)  # type: ignore[arg-type]
            else:
                context.complete(tx, "early")

    return run


async def _after(context: TaskContext) -> None:
    async with context.commit() as tx:
        context.complete(tx, "after")


async def test_contract_6_6_waiting_ends_when_all_are_terminal(opened: Open, lab: Lab) -> None:
    child = lab.define("child", lab.held("child"))
    kind = lab.define("parent", _parent(lab, child, ["a", "b"]), after=_after)
    rig = await opened([say("x")], extensions=[lab.extension()])
    task_id = await start(rig, kind)
    await wait_until(lambda: len(lab.log) == 2)
    lab.gate("a").set()
    await asyncio.sleep(0.02)
    record = await rig.storage.task(task_id)
    assert record["state"]["status"] == "waiting"
    assert next(row for row in rig.harness.inspect() if row["id"] == task_id)["waitingOn"]
    await rig.crash()
    lab.gate("b").set()
    assert await outcome(rig, task_id) == {"status": "completed", "result": "after"}
    await rig.check(idle=True)


async def test_contract_6_6_fail_fast_aborts_the_others(opened: Open, lab: Lab) -> None:
    async def failing(context: TaskContext) -> None:
        await lab.gate("fail").wait()
        async with context.commit() as tx:
            context.fail(tx, "no luck")

    held = lab.define("held", lab.held("held"), abort=lab.noted_abort("held"))
    bad = lab.define("failing", failing)

    async def run(context: TaskContext) -> None:
        async with context.commit() as tx:
            owned = [
                new_task(tx, conversation_id=1, definition=one, input=name, owner=context.id, running=True)["id"]
                for one, name in ((held, "h"), (bad, "b"))
            ]
            context.wait(tx, {"phase": "after", "owned": owned}, owned, "failFast")

    kind = lab.define("parent", run, after=_after)
    rig = await opened([say("x")], extensions=[lab.extension()])
    task_id = await start(rig, kind)
    await wait_until(lambda: "held h runs" in lab.log)
    lab.gate("fail").set()
    assert (await outcome(rig, task_id))["status"] == "completed"
    statuses = {task["input"]: task["state"]["outcome"]["status"] for task in await rig.storage.tasks()
                if task.get("owner") == task_id}
    assert statuses == {"h": "aborted", "b": "failed"}
    assert lab.log == ["held h runs", "held h cancelled", "held h abort handler"]
    await rig.check(idle=True)


async def test_contract_6_7_a_task_with_live_work_is_completing(opened: Open, lab: Lab) -> None:
    child = lab.define("child", lab.held("child"))
    kind = lab.define("parent", _parent(lab, child, ["a"], wait=False))
    rig = await opened([say("x")], extensions=[lab.extension()])
    task_id = await start(rig, kind)
    await wait_until(lambda: len(lab.log) == 1)
    record = await rig.storage.task(task_id)
    assert record["state"] == {"status": "completing", "outcome": {"status": "completed", "result": "early"}}
    with pytest.raises(Exception, match="ending"):
        await start(rig, child, "late", owner=task_id)
    await rig.check()
    await rig.crash()
    lab.gate("a").set()
    assert await outcome(rig, task_id) == {"status": "completed", "result": "early"}
    ended = {task["id"]: task["endedAt"] for task in await rig.storage.tasks()}
    assert ended[task_id] == max(ended.values())
    await rig.check(idle=True)


async def test_contract_6_8_abort_goes_down_and_handlers_run_bottom_up(opened: Open, lab: Lab) -> None:
    leaf = lab.define("leaf", lab.held("leaf"), abort=lab.noted_abort("leaf"))
    middle = lab.define("middle", _parent(lab, leaf, ["l1", "l2"]), abort=lab.noted_abort("middle"), after=_after)
    top = lab.define("top", _parent(lab, middle, ["m"]), abort=lab.noted_abort("top"), after=_after)
    rig = await opened([say("x")], extensions=[lab.extension()])
    task_id = await start(rig, top, "t")
    await wait_until(lambda: len(lab.log) == 2)
    await rig.harness.abort_task(task_id)
    assert (await outcome(rig, task_id))["status"] == "aborted"
    handlers = [line for line in lab.log if line.endswith("abort handler")]
    assert sorted(handlers[:2]) == ["leaf l1 abort handler", "leaf l2 abort handler"]
    assert handlers[2:] == ["middle m abort handler", "top t abort handler"]
    await rig.check(idle=True)


async def test_a05_an_abort_is_finished_after_a_crash(opened: Open, lab: Lab) -> None:
    leaf = lab.define("leaf", lab.held("leaf"), abort=lab.noted_abort("leaf"))
    top = lab.define("top", _parent(lab, leaf, ["l1", "l2"]), abort=lab.noted_abort("top"), after=_after)
    rig = await opened([say("x")], extensions=[lab.extension()])
    task_id = await start(rig, top, "t")
    await wait_until(lambda: len(lab.log) == 2)
    inner = rig.storage.commit
    commits = 0

    async def only_the_mark(batch: Any) -> None:
        nonlocal commits
        commits += 1
        if commits > 1:
            await asyncio.sleep(3600)
        await inner(batch)

    rig.storage.commit = only_the_mark
    aborting = asyncio.create_task(rig.harness.abort_task(task_id))
    await asyncio.wait({aborting}, timeout=5)
    if rig.backend == "memory":
        rig.storage = rig.storage.crash()
    else:
        await rig.storage.abandon()
    lab.log.clear()
    await rig.reopen()
    assert (await outcome(rig, task_id))["status"] == "aborted"
    assert not [line for line in lab.log if line.endswith("runs")]
    assert lab.log[-1] == "top t abort handler" and len(lab.log) == 3
    rows = (await rig.harness.recovery())["deaths"][-1]["tasks"]
    assert {row["verdict"] for row in rows} == {"aborted"}
    await rig.check(idle=True)


async def test_contract_6_8_an_abort_handler_that_does_nothing_faults(opened: Open, lab: Lab) -> None:
    async def lazy(context: TaskContext) -> None:
        return

    kind = lab.define("held", lab.held("held"), abort=lazy)
    rig = await opened([say("x")], extensions=[lab.extension()])
    task_id = await start(rig, kind, "h")
    await wait_until(lambda: lab.log == ["held h runs"])
    await rig.harness.abort_task(task_id)
    assert (await outcome(rig, task_id))["status"] == "faulted"
    await rig.check(idle=True)


async def test_contract_6_8_a_late_result_after_the_mark_is_dropped(opened: Open, lab: Lab) -> None:
    async def deaf(context: TaskContext) -> None:
        lab.log.append("runs")
        while not lab.gate("end").is_set():
            try:
                await asyncio.wait_for(lab.gate("end").wait(), 5)
            except asyncio.CancelledError:
                lab.log.append("ignored")
        async with context.commit() as tx:
            context.complete(tx, "too late")

    kind = lab.define("deaf", deaf)
    rig = await opened([say("x")], extensions=[lab.extension()])
    task_id = await start(rig, kind)
    await wait_until(lambda: lab.log == ["runs"])
    aborting = asyncio.create_task(rig.harness.abort_task(task_id))
    await wait_until(lambda: "ignored" in lab.log)
    lab.gate("end").set()
    await aborting
    assert (await outcome(rig, task_id))["status"] == "aborted"
    await rig.check(idle=True)


async def test_contract_6_9_missing_code_blocks_and_installing_it_wakes(opened: Open, lab: Lab) -> None:
    kind = lab.define("child", lab.held("child"))
    rig = await opened([say("x")], extensions=[lab.extension()])
    task_id = await start(rig, kind, "a")
    await wait_until(lambda: len(lab.log) == 1)
    await rig.kill()
    rig.extensions = []
    await rig.reopen()
    await rig.harness.resume()
    await wait_until(lambda: [row.get("blocked") for row in rig.harness.inspect()] == ["missing_task"])
    assert (await (await rig.root.submit("others go on")).wait()).status == "done"
    rig.harness._kernel.registry.install(lab.extension())
    lab.gate("a").set()
    assert (await outcome(rig, task_id))["status"] == "completed"
    await rig.check(idle=True)


@pytest.mark.parametrize(("stored", "installed", "reason"), [(2, 1, "task_too_old"), (1, 2, "migration_failed")])
async def test_contract_6_9_versions_that_do_not_fit_block_and_abort_orphans_or_ends(
    opened: Open, lab: Lab, stored: int, installed: int, reason: str
) -> None:
    kind = lab.define("child", lab.held("child"), version=stored)
    rig = await opened([say("x")], extensions=[lab.extension()])
    task_id = await start(rig, kind, "a")
    await wait_until(lambda: len(lab.log) == 1)
    await rig.kill()

    def refuse(checkpoint: Any, version: int) -> dict[str, Any]:
        raise ValueError("cannot")

    lab.define("child", lab.held("child"), version=installed, migrate=refuse)
    rig.extensions = [lab.extension()]
    await rig.reopen()
    await rig.harness.resume()
    await wait_until(lambda: [row.get("blocked") for row in rig.harness.inspect()] == [reason])
    rows = (await rig.harness.recovery())["deaths"][-1]["tasks"]
    assert [row["verdict"] for row in rows] == ["blocked"]
    await rig.harness.abort_task(task_id)
    found = await outcome(rig, task_id)
    assert found == {"status": "orphaned", "reason": reason}
    await rig.check(idle=True)


async def test_contract_6_9_a_migration_and_the_reservation_are_one_commit(opened: Open, lab: Lab) -> None:
    kind = lab.define("child", lab.held("child"))
    rig = await opened([say("x")], extensions=[lab.extension()], record=True)
    task_id = await start(rig, kind, "a")
    await wait_until(lambda: len(lab.log) == 1)
    await rig.kill()

    async def moved(context: TaskContext) -> None:
        async with context.commit() as tx:
            context.complete(tx, context.checkpoint)

    lab.define("child", moved, version=2, migrate=lambda checkpoint, version: {"phase": "run", "was": version})
    rig.extensions = [lab.extension()]
    await rig.reopen()
    assert await outcome(rig, task_id) == {"status": "completed", "result": {"phase": "run", "was": 1}}
    if rig.backend == "memory":
        states = [(task["version"], task["state"]["status"]) for batch in rig.storage.log for task in batch.tasks]
        assert states == [(1, "pending"), (2, "running"), (2, "terminal")]
    await rig.check(idle=True)


async def test_contract_6_5_background_work_does_not_keep_the_session_busy(opened: Open, lab: Lab) -> None:
    kind = lab.define("child", lab.held("child"))
    rig = await opened([say("x")], extensions=[lab.extension()])
    task_id = await start(rig, kind, "a", background=True)
    await wait_until(lambda: len(lab.log) == 1)
    await rig.idle()
    await rig.root.abort()
    assert (await rig.storage.task(task_id))["state"]["status"] == "running"
    await rig.root.abort(background=True)
    assert (await outcome(rig, task_id))["status"] == "aborted"
    with pytest.raises(ValueError, match="background"):
        await start(rig, kind, "b", background=True, owner=task_id)
    await rig.check(idle=True)


async def test_contract_6_8_owned_conversations_lose_their_queue_and_end_first(opened: Open, lab: Lab) -> None:
    async def run(context: TaskContext) -> None:
        child = await rig.harness.create_conversation(
            agent={"model": "strict/m", "cwd": "."}, owner={"conversationId": 1, "taskId": context.id}
        )
        await child.submit("work")
        await child.submit("more work")
        lab.log.append(str(child.id))
        async with context.commit() as tx:
            context.complete(tx, "delegated")

    kind = lab.define("delegate", run, abort=lab.noted_abort("delegate"))
    rig = await opened([say("slow", delay=60)], extensions=[lab.extension()])
    task_id = await start(rig, kind, "d")
    await wait_until(lambda: len(lab.log) == 1)
    await wait_until(lambda: len(rig.provider.requests) == 1)
    child = rig.harness.conversation(int(lab.log[0]))
    assert (await rig.storage.task(task_id))["state"]["status"] == "completing"
    assert not rig.harness.idle
    await rig.check()
    await rig.root.abort()
    await rig.idle()
    records = await rig.storage.submissions(child.id)
    assert [(record["status"], record["reason"]) for record in records] == [("unanswered", "aborted")] * 2
    ended = {task["conversationId"]: task["endedAt"] for task in await rig.storage.tasks()}
    assert ended[1] >= ended[child.id]
    await rig.check(idle=True)


async def test_contract_6_11_two_deaths_start_recovered_tasks_one_at_a_time(opened: Open, lab: Lab) -> None:
    kind = lab.define("child", lab.held("child"))
    rig = await opened([say("x")], extensions=[lab.extension()], settings=dataclasses.replace(FAST, restart_limit=9))
    tasks = [await start(rig, kind, name) for name in "abc"]
    await wait_until(lambda: len(lab.log) == 3)
    await rig.crash()
    await rig.harness.resume()
    await wait_until(lambda: len(lab.log) == 6)
    await rig.crash()
    await rig.harness.resume()
    await asyncio.sleep(0.05)
    assert lab.log[6:] == ["child a runs"], "the innocent wait while the first proves itself"
    for name in "abc":
        lab.gate(name).set()
    for task_id in tasks:
        assert (await outcome(rig, task_id))["status"] == "completed"
    await rig.check(idle=True)
