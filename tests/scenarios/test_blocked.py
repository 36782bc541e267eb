"""Tasks of any kind: abort, blocked tasks, orphans, reloading (spec 6.8 to 6.10, 7)."""

from __future__ import annotations

import asyncio
import logging
from typing import Any

import pytest

from durable_tui.agent.extension import Extension
from durable_tui.engine.task import TaskDefinition, new_task
from durable_tui.engine.task_handle import TaskHandle
from durable_tui.storage.errors import StorageRejected
from tests.scenarios.conftest import Open
from tests.tools.custom_tasks import define, finish, gated, install, outcome, record_of, start
from tests.tools.scenario import Rig
from tests.tools.strict_provider import call, say
from tests.tools.waiting import a_while, until

# -- 6.8 -------------------------------------------------------------------------------------------------------------


class Tower:
    """Three tasks, each owning the next; their abort handlers are counted, the lowest may be held."""

    def __init__(self) -> None:
        self.order: list[str] = []
        self.release = asyncio.Event()
        self.kinds = [
            define(f"t.{level}", one=self._phase(level), two=finish, abort=self._abort(level))
            for level in ("top", "middle", "bottom")
        ]

    def _phase(self, level: str) -> Any:
        async def one(context: TaskHandle) -> None:
            if level == "bottom":
                await asyncio.sleep(3600)
            below = self.kinds[1 if level == "top" else 2]
            async with context.commit() as tx:
                made = new_task(tx, conversation_id=1, definition=below, input={}, owner=context.id, running=True)
                context.wait(tx, {"phase": "two"}, [made["id"]])

        return one

    def _abort(self, level: str) -> Any:
        async def abort(context: TaskHandle) -> None:
            if level == "bottom":
                await self.release.wait()
            async with context.commit() as tx:
                context.end_aborted(tx, reason=level)
            self.order.append(level)

        return abort

    async def open(self, opened: Open) -> tuple[Rig, int]:
        rig = await opened([say("x")], extensions=[Extension("tasks", tasks=self.kinds)])
        top = await start(rig, self.kinds[0])
        await until(lambda: len(rig.harness.inspect()) == 3)
        return rig, top


async def test_spec_6_8_abort_handlers_run_bottom_up(opened: Open) -> None:
    tower = Tower()
    rig, top = await tower.open(opened)
    await rig.harness.abort_task(top)
    assert (await record_of(rig, top))["abortRequested"]
    await a_while()
    assert tower.order == [] and len(rig.harness.inspect()) == 3
    with pytest.raises(ValueError, match="cannot own new work"):
        await start(rig, tower.kinds[2], owner=top)
    tower.release.set()
    assert await outcome(rig, top) == {"status": "aborted", "reason": "top"}
    assert tower.order == ["bottom", "middle", "top"]
    await rig.check(idle=True)


@pytest.mark.parametrize("stored", ["only the mark", "the cascade", "the end of the lowest"])
async def test_spec_6_8_reopened_in_the_middle_of_an_abort(opened: Open, stored: str) -> None:
    """The cascade is derived again at open, and whatever has ended stays ended."""
    tower = Tower()
    rig, top = await tower.open(opened)
    inner, dead = rig.storage.commit, False

    async def commit(batch: Any) -> None:
        nonlocal dead
        if dead:
            raise StorageRejected("dead")
        await inner(batch)
        ended = [task for task in batch.tasks if task["state"]["status"] == "terminal"]
        marked = [task for task in batch.tasks if task["abortRequested"] and not ended]
        dead = (
            bool(marked) if stored == "only the mark" else bool(ended) if stored != "the cascade" else len(marked) > 1
        )

    rig.storage.commit = commit
    if stored == "the end of the lowest":
        tower.release.set()
    await rig.harness.abort_task(top)
    await until(lambda: dead)
    await rig.crash()
    before = tower.order
    tower.order = []
    tower.release.set()
    marks = [row["abortRequested"] for row in rig.harness.inspect()]
    assert marks == {"only the mark": [True, False, False], "the cascade": [True] * 3}.get(stored, [True] * 2)
    await rig.harness.resume()
    await rig.idle()
    assert tower.order == (["middle", "top"] if stored == "the end of the lowest" else ["bottom", "middle", "top"])
    assert before in ([], ["bottom"])
    rows = (await rig.harness.recovery())["deaths"][-1]["tasks"]
    assert {row["verdict"] for row in rows} == {"aborted"}
    await rig.check(idle=True)


@pytest.mark.parametrize("how", ["raises", "commits nothing", "waits", "owns", "is cancelled"])
async def test_spec_6_8_an_abort_handler_that_does_not_end_its_task_faults_it(opened: Open, how: str) -> None:
    calls: list[str] = []

    async def abort(context: TaskHandle) -> None:
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


async def test_spec_6_8_a_rejected_abort_is_tried_again_without_haste(opened: Open) -> None:
    calls: list[float] = []

    async def abort(context: TaskHandle) -> None:
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
    await a_while(0.5)
    assert 1 <= len(calls) <= 3, "a refused abort was repeated in haste"
    refusing = False
    assert (await outcome(rig, task_id))["status"] == "aborted"
    await rig.check(idle=True)


async def test_spec_6_8_a_late_result_is_dropped(opened: Open) -> None:
    late: list[str] = []
    begun = asyncio.Event()

    async def stubborn(context: TaskHandle) -> None:
        begun.set()
        try:
            await asyncio.sleep(3600)
        except asyncio.CancelledError:
            pass
        try:
            async with context.commit() as tx:
                context.complete(tx, "too late")
        except Exception as error:
            late.append(type(error).__name__)
            raise

    kind = define("t.stubborn", one=stubborn)
    rig = await opened([say("x")], extensions=[Extension("tasks", tasks=[kind])])
    task_id = await start(rig, kind)
    await asyncio.wait_for(begun.wait(), 30)
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

    await until(told)
    row = (await rig.harness.recovery())["deaths"][-1]["tasks"][-1]
    assert (row["verdict"], row["detail"]) == ("blocked", reason)
    return rig, made["id"], reason


@pytest.mark.parametrize("name", BLOCKERS)
async def test_spec_6_9_a_blocked_task_stays_put_and_a_fitting_definition_wakes_it(opened: Open, name: str) -> None:
    rig, task_id, reason = await _blocked(opened, name)
    frame = await anext(rig.harness.watch_tasks())
    assert [row["blocked"] for row in frame.value["tasks"]] == [reason]
    assert [row["blocked"] for row in rig.harness.inspect()] == [reason]
    before = await record_of(rig, task_id)
    assert before["state"]["status"] == "pending" and before["version"] == 2 and not rig.harness.idle
    assert (await (await rig.root.submit("others go on")).wait()).status == "done"
    taken: list[Any] = []

    async def one(context: TaskHandle) -> None:
        taken.append(context.checkpoint)
        await finish(context)

    def migrate(checkpoint: Any, version: int) -> Any:
        return {**checkpoint, "from": version}

    install(rig, define("t.kind", version=4, one=one, migrate=migrate))
    assert (await outcome(rig, task_id))["status"] == "completed"
    assert taken == [{"phase": "one", "from": 2}] and (await record_of(rig, task_id))["version"] == 4
    await rig.check(idle=True)


@pytest.mark.parametrize("name", BLOCKERS)
async def test_spec_6_9_only_an_abort_makes_a_blocked_task_orphaned(opened: Open, name: str) -> None:
    rig, task_id, reason = await _blocked(opened, name)
    await rig.harness.abort_task(task_id)
    assert await outcome(rig, task_id) == {"status": "orphaned", "reason": reason}
    await rig.check(idle=True)


async def test_spec_6_9_an_abort_migrates_before_it_runs_the_abort_handler(opened: Open) -> None:
    seen: list[Any] = []

    async def abort(context: TaskHandle) -> None:
        seen.append(context.checkpoint)
        async with context.commit() as tx:
            context.end_aborted(tx)

    old = define("t.kind", version=1, one=gated(asyncio.Event))
    rig = await opened([say("x")], extensions=[Extension("tasks", tasks=[old])])
    task_id = await start(rig, old)
    await until(lambda: [row["status"] for row in rig.harness.inspect()] == ["running"])
    new = define("t.kind", version=2, one=finish, abort=abort, migrate=lambda c, v: {**c, "new": True})
    rig.extensions = [Extension("tasks", tasks=[new])]
    await rig.crash()
    await rig.harness.abort_task(task_id)
    await rig.harness.resume()
    assert (await outcome(rig, task_id))["status"] == "aborted"
    assert seen == [{"phase": "one", "new": True}]
    await rig.check(idle=True)


async def test_spec_6_9_the_inputs_of_an_orphaned_run_settle_with_its_reason(opened: Open) -> None:
    rig = await opened([say("slow", delay=3600)])
    rig.install(rig.built_in("pi.generation", version=2))
    submission = await rig.root.submit("go", request_id="r")
    await rig.provider.wait_requests(1)
    rig.extensions = []
    await rig.crash()
    await rig.harness.resume()
    await until(lambda: [row.get("blocked") for row in rig.harness.inspect()] == ["task_too_old"])
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


async def test_spec_6_9_an_orphaned_tool_leaves_a_done_slot_and_the_run_goes_on(opened: Open) -> None:
    rig = await opened([call(("gate", {"text": "g"})), say("done")])
    rig.install(rig.built_in("pi.tool", version=2))
    submission = await rig.root.submit("go", request_id="r")
    await rig.effects.wait_started("gate")
    rig.extensions = []
    await rig.crash()
    await rig.harness.resume()
    await until(lambda: "task_too_old" in [row.get("blocked") for row in rig.harness.inspect()])
    tool_id = next(row["id"] for row in rig.harness.inspect() if row["kind"] == "pi.tool")
    await rig.harness.abort_task(tool_id)
    assert (await outcome(rig, tool_id))["status"] == "orphaned"
    assert (await asyncio.wait_for((await rig.harness.submission(submission.id)).wait(), 10)).status == "done"
    await rig.check(idle=True)


async def test_spec_6_9_a_fault_cleans_up_in_the_commit_that_ends_the_run(opened: Open) -> None:
    async def broken(context: TaskHandle) -> None:
        raise RuntimeError("a bug in the harness")

    rig = await opened([say("x")])
    phases = {**rig.built_in("pi.generation").phases, "request": broken}
    rig.install(rig.built_in("pi.generation", phases=phases), name="bad")
    settled = await asyncio.wait_for((await rig.root.submit("go")).wait(), 10)
    assert (settled.status, settled.reason) == ("unanswered", "faulted") and "a bug" in (settled.detail or "")
    assert "run" not in (await rig.document("pi.live"))
    rig.harness._agent.toolbox.registry.uninstall("bad")
    assert (await (await rig.root.submit("again")).wait()).status == "done"
    await rig.check(idle=True)


@pytest.mark.parametrize("change", ["replace", "newer", "uninstall", "cannot take it"])
async def test_spec_6_10_reloading_hands_over_at_the_next_phase_boundary(opened: Open, change: str) -> None:
    ran: list[str] = []
    gate = asyncio.Event()

    def version(label: str, **more: Any) -> TaskDefinition:
        async def one(context: TaskHandle) -> None:
            ran.append(f"{label} one")
            await gate.wait()
            async with context.commit() as tx:
                context.advance(tx, {"phase": "two"})

        async def two(context: TaskHandle) -> None:
            ran.append(f"{label} two")
            await finish(context)

        return define("t.kind", one=one, two=two, **more)

    old = version("old")
    rig = await opened([say("x")], extensions=[Extension("tasks", tasks=[old])])
    task_id = await start(rig, old)
    await until(lambda: bool(ran))
    if change == "replace":
        install(rig, version("new"))
    elif change == "newer":
        install(rig, version("new", version=2, migrate=lambda c, v: c))
    elif change == "uninstall":
        rig.harness._agent.toolbox.registry.uninstall("tasks")
    else:
        install(rig, version("new", version=2, migrate=_broken))
    gate.set()
    assert (await outcome(rig, task_id))["status"] == "completed"
    assert ran == ["old one", "new two" if change in ("replace", "newer") else "old two"]
    assert (await record_of(rig, task_id))["version"] == (2 if change == "newer" else 1)
    await rig.check(idle=True)


async def test_spec_7_one_task_that_cannot_be_started_keeps_no_other_from_going_on(
    opened: Open, caplog: pytest.LogCaptureFixture
) -> None:
    """Its code raises where the scheduler asks it: reported, left alone for a while, the others run."""
    bad, good = define("t.bad", one=finish), define("t.good", one=finish)
    rig = await opened([say("x")], extensions=[Extension("tasks", tasks=[bad, good])])
    definitions = rig.harness._engine.definitions
    original = definitions._lookup

    def definition(kind: str) -> Any:
        if kind == "t.bad" and broken:
            raise RuntimeError("a broken registry")
        return original(kind)

    broken = True
    definitions._lookup = definition
    with caplog.at_level(logging.CRITICAL):
        first, second = await start(rig, bad), await start(rig, good)
        assert (await outcome(rig, second))["status"] == "completed"
    assert any("a broken registry" in line for line in rig.harness.reports)
    broken = False
    assert (await outcome(rig, first))["status"] == "completed"
    await rig.check(idle=True)
