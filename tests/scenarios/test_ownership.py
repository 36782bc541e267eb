"""Trees of work over deaths: aborts, owned conversations, migration, one recovered task at a time (spec 6)."""

from __future__ import annotations

import asyncio
import dataclasses
from collections.abc import Callable
from typing import Any

import pytest

from durable_tui.agent.extension import Extension
from durable_tui.engine.task import Handler, TaskDefinition, new_task
from durable_tui.engine.task_handle import TaskHandle
from tests.scenarios.conftest import Open
from tests.tools.scenario import FAST, Rig
from tests.tools.strict_provider import say
from tests.tools.waiting import a_while, until


class Lab:
    """Task kinds for one test; `log` says what ran, `gates` hold it."""

    def __init__(self) -> None:
        self.log: list[str] = []
        self.gates: dict[str, asyncio.Event] = {}
        self.kinds: dict[str, TaskDefinition] = {}

    def gate(self, name: str) -> asyncio.Event:
        return self.gates.setdefault(name, asyncio.Event())

    def define(
        self,
        name: str,
        run: Handler,
        *,
        abort: Handler | None = None,
        version: int = 1,
        migrate: Callable[[Any, int], dict[str, Any]] | None = None,
        **phases: Handler,
    ) -> TaskDefinition:
        self.kinds[name] = TaskDefinition(
            name, {"run": run, **phases}, lambda _: {"phase": "run"}, version=version, abort=abort, migrate=migrate
        )
        return self.kinds[name]

    def extension(self) -> Extension:
        return Extension("lab", tasks=self.kinds.values())

    def held(self, name: str) -> Handler:
        """A handler that waits for its gate (its input) and completes."""

        async def run(context: TaskHandle) -> None:
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
        async def abort(context: TaskHandle) -> None:
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


def _parent(
    lab: Lab, child: TaskDefinition, inputs: list[str], policy: str = "allSettled", *, wait: bool = True
) -> Handler:
    async def run(context: TaskHandle) -> None:
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


async def _after(context: TaskHandle) -> None:
    async with context.commit() as tx:
        context.complete(tx, "after")


async def test_a05_an_abort_is_finished_after_a_death_right_behind_its_mark(opened: Open, lab: Lab) -> None:
    leaf = lab.define("leaf", lab.held("leaf"), abort=lab.noted_abort("leaf"))
    top = lab.define("top", _parent(lab, leaf, ["l1", "l2"]), abort=lab.noted_abort("top"), after=_after)
    rig = await opened([say("x")], extensions=[lab.extension()])
    task_id = await start(rig, top, "t")
    await until(lambda: len(lab.log) == 2)
    rig.dies_at(lambda batch, number: number > 1)
    await rig.harness.abort_task(task_id)
    await rig.kill()
    lab.log.clear()
    await rig.reopen()
    assert (await outcome(rig, task_id))["status"] == "aborted"
    assert not [line for line in lab.log if line.endswith("runs")]
    assert lab.log[-1] == "top t abort handler" and len(lab.log) == 3
    rows = (await rig.harness.recovery())["deaths"][-1]["tasks"]
    assert {row["verdict"] for row in rows} == {"aborted"}
    await rig.check(idle=True)


async def test_spec_6_9_a_migration_and_the_reservation_are_one_commit(opened: Open, lab: Lab) -> None:
    kind = lab.define("child", lab.held("child"))
    rig = await opened([say("x")], extensions=[lab.extension()], record=True)
    task_id = await start(rig, kind, "a")
    await until(lambda: len(lab.log) == 1)
    await rig.kill()

    async def moved(context: TaskHandle) -> None:
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


async def test_spec_6_8_owned_conversations_lose_their_queue_and_end_first(opened: Open, lab: Lab) -> None:
    async def run(context: TaskHandle) -> None:
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
    await until(lambda: len(lab.log) == 1)
    await until(lambda: len(rig.provider.requests) == 1)
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


async def test_spec_6_11_two_deaths_start_recovered_tasks_one_at_a_time(opened: Open, lab: Lab) -> None:
    kind = lab.define("child", lab.held("child"))
    rig = await opened([say("x")], extensions=[lab.extension()], settings=dataclasses.replace(FAST, restart_limit=9))
    tasks = [await start(rig, kind, name) for name in "abc"]
    await until(lambda: len(lab.log) == 3)
    for death in range(1, 5):
        await rig.kill()
        lab.log.clear()
        await rig.reopen()
        await rig.harness.resume()
        expected = ["child a runs", "child b runs", "child c runs"] if death == 1 else ["child a runs"]
        await until(lambda expected=expected: len(lab.log) >= len(expected))
        await a_while()
        assert lab.log == expected, "the innocent wait while the first proves itself"
    assert [row.get("restarts", 0) for row in rig.harness.inspect()] == [4, 2, 2]
    for name in "abc":
        lab.gate(name).set()
    for task_id in tasks:
        assert (await outcome(rig, task_id))["status"] == "completed"
    await rig.check(idle=True)
