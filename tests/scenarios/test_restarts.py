"""Deaths in a row, the restart limit, and what the report of recovery says (spec 4.2, 6.11, 10, 15)."""

from __future__ import annotations

import asyncio
import dataclasses
import os
import socket
from typing import Any

import pytest

from durable_tui.agent.extension import Extension, ToolCall, tool
from durable_tui.engine.task import TaskDefinition, new_task
from durable_tui.engine.task_handle import TaskHandle
from durable_tui.models.provider import ModelError
from durable_tui.storage import MemoryStorage
from durable_tui.storage.errors import StorageRejected
from tests.scenarios.conftest import Open
from tests.tools.custom_tasks import define, finish, gated, outcome, start
from tests.tools.effects import Text
from tests.tools.scenario import FAST, Rig, codes
from tests.tools.strict_provider import call, say
from tests.tools.waiting import a_while, turns, until


async def _deaths(rig: Rig) -> list[Any]:
    return list((await rig.harness.recovery())["deaths"])


async def _verdicts(rig: Rig) -> dict[int, str | None]:
    """The verdicts of the newest report by task id."""
    return {row["taskId"]: row.get("verdict") for row in (await _deaths(rig))[-1]["tasks"]}


class Deadly:
    """A task whose phase `one` never ends; it counts how often it was begun."""

    def __init__(self, name: str = "t.deadly") -> None:
        self.begun = 0
        self.aborted = 0
        self.leave = False
        self.kind = define(name, one=self._one, two=finish, abort=self._abort)

    async def _one(self, context: TaskHandle) -> None:
        self.begun += 1
        if not self.leave:
            await asyncio.sleep(3600)
        async with context.commit() as tx:
            context.advance(tx, {"phase": "two"})

    async def _abort(self, context: TaskHandle) -> None:
        self.aborted += 1
        async with context.commit() as tx:
            context.end_aborted(tx)

    async def die(self, rig: Rig, times: int) -> None:
        """Die so often in the phase; afterwards the session is open and scheduling."""
        for _ in range(times):
            await until(lambda before=self.begun: self.begun > before or self._parked(rig))
            await rig.crash()
            await rig.harness.resume()

    def _parked(self, rig: Rig) -> bool:
        return self.begun > 0 and any(row["status"] == "running" for row in rig.harness.inspect())


# -- 6.11 ------------------------------------------------------------------------------------------------------------


async def _parked(opened: Open, **options: Any) -> tuple[Rig, Deadly, int]:
    deadly = Deadly()
    rig = await opened([say("x")], extensions=[Extension("tasks", tasks=[deadly.kind])], **options)
    task_id = await start(rig, deadly.kind)
    await deadly.die(rig, 5)
    await until(lambda: [row.get("blocked") for row in rig.harness.inspect()] == ["restart_limit"])
    return rig, deadly, task_id


async def test_spec_6_11_at_five_deaths_a_task_is_parked_and_says_so(opened: Open) -> None:
    rig, deadly, task_id = await _parked(opened)
    record = await rig.storage.task(task_id)
    assert (record["state"]["status"], record["restarts"]) == ("pending", 5)
    row = (await _deaths(rig))[-1]["tasks"][0]
    assert (row["verdict"], row["rule"]) == ("gaveUp", "6.11") and "5 times" in row["detail"]
    begun = deadly.begun
    assert (await (await rig.root.submit("others go on")).wait()).status == "done"
    assert deadly.begun == begun and not rig.harness.idle
    await rig.check()


async def test_spec_6_11_retry_releases_a_parked_task(opened: Open) -> None:
    rig, deadly, task_id = await _parked(opened)
    deadly.leave = True
    await rig.harness.retry_task(task_id)
    assert (await outcome(rig, task_id))["status"] == "completed"
    assert "restarts" not in await rig.storage.task(task_id)
    await rig.check(idle=True)


async def test_spec_6_11_abort_runs_the_abort_handler_of_a_parked_task(opened: Open) -> None:
    rig, deadly, task_id = await _parked(opened)
    await rig.harness.abort_task(task_id)
    assert (await outcome(rig, task_id))["status"] == "aborted" and deadly.aborted == 1
    await rig.check(idle=True)


async def test_spec_6_11_what_is_parked_waits_for_a_person_over_clean_reopens(opened: Open) -> None:
    rig, deadly, task_id = await _parked(opened)
    begun = deadly.begun
    await rig.close()
    await rig.reopen()
    await rig.harness.resume()
    await a_while()
    assert [row["blocked"] for row in rig.harness.inspect()] == ["restart_limit"] and deadly.begun == begun
    assert len(await _deaths(rig)) == 5
    await rig.crash()
    await rig.harness.resume()

    async def told() -> bool:
        row = (await _deaths(rig))[-1]["tasks"][0]
        return (row.get("verdict"), row.get("rule")) == ("gaveUp", "6.11")

    await until(told)
    assert (await rig.storage.task(task_id))["restarts"] == 5, "it was not running"
    deadly.leave = True
    await rig.harness.retry_task(task_id)
    assert (await outcome(rig, task_id))["status"] == "completed"
    await rig.check(idle=True)


@pytest.mark.parametrize("cleared", ["progress", "clean close"])
async def test_spec_6_11_a_changed_checkpoint_or_a_clean_close_clears_the_count(opened: Open, cleared: str) -> None:
    deadly = Deadly()
    hold = asyncio.Event()
    kind = dataclasses.replace(deadly.kind, phases={**deadly.kind.phases, "two": gated(lambda: hold)})
    rig = await opened([say("x")], extensions=[Extension("tasks", tasks=[kind])])
    task_id = await start(rig, kind)
    await deadly.die(rig, 3)
    assert (await rig.storage.task(task_id))["restarts"] == 3
    if cleared == "progress":
        deadly.leave = True
        await rig.crash()
        await rig.harness.resume()

        async def advanced() -> bool:
            return (await rig.storage.task(task_id))["state"]["checkpoint"]["phase"] == "two"

        await until(advanced)
    else:
        await until(lambda: [row["status"] for row in rig.harness.inspect()] == ["running"])
        await rig.close()
        await rig.reopen()
    assert "restarts" not in await rig.storage.task(task_id)
    await rig.check()


async def test_spec_6_11_only_tasks_found_running_are_counted(opened: Open) -> None:
    deadly = Deadly()
    rig = await opened([say("x")], extensions=[Extension("tasks", tasks=[deadly.kind])])
    async with rig.harness.commit() as tx:
        waiting = new_task(tx, conversation_id=1, definition=deadly.kind, input={}, running=False)["id"]
    for _ in range(6):
        await rig.crash()  # scheduling never began: nothing was running
    assert "restarts" not in await rig.storage.task(waiting)
    deadly.leave = True
    assert (await outcome(rig, waiting))["status"] == "completed"
    await rig.check(idle=True)


async def test_spec_6_11_the_inputs_of_a_parked_run_stay_placed_and_settle_on_abort(opened: Open) -> None:
    rig = await opened([say("x", delay=3600)], settings=dataclasses.replace(FAST, restart_limit=2))
    submission = await rig.root.submit("go", request_id="r")
    for death in range(2):
        await rig.provider.wait_requests(death + 1)
        await rig.crash()
        await rig.harness.resume()
    await until(lambda: [row.get("blocked") for row in rig.harness.inspect()] == ["restart_limit"])
    assert (await rig.storage.submission(submission.id))["status"] == "placed"
    await rig.root.abort()
    record = await rig.storage.submission(submission.id)
    assert (record["status"], record["reason"]) == ("unanswered", "aborted")
    assert len(rig.provider.requests) == 2
    await rig.check(idle=True)


@pytest.mark.parametrize("deaths", [1, 2])
async def test_spec_6_11_from_the_second_death_on_recovered_tasks_start_one_at_a_time(
    opened: Open, deaths: int
) -> None:
    expected = 1 if deaths == 2 else 6
    together: list[int] = []
    active: set[int] = set()
    dying = True

    async def one(context: TaskHandle) -> None:
        active.add(context.id)
        together.append(len(active))
        try:
            if dying:
                await asyncio.sleep(3600)
            await until(lambda: max(together) == expected)  # until those that may start with it have
            await turns()  # and so has one that may not
        finally:
            active.discard(context.id)
        async with context.commit() as tx:
            context.advance(tx, {"phase": "two"})

    kind = define("t.many", one=one, two=finish)
    rig = await opened([say("x")], extensions=[Extension("tasks", tasks=[kind])])
    tasks = [await start(rig, kind) for _ in range(6)]
    await until(lambda: len(active) == 6)
    for death in range(deaths):
        await rig.kill()
        together.clear()
        dying = death + 1 < deaths
        await rig.reopen()
        if dying:
            await rig.harness.resume()
            await until(lambda: len(active) == 6)
    for task_id in tasks:
        assert (await outcome(rig, task_id))["status"] == "completed"
    assert max(together) == expected and len(together) == 6
    await rig.check(idle=True)


async def test_spec_6_11_the_innocent_are_not_parked_with_the_guilty(opened: Open) -> None:
    """Five tasks run; one kills the process whenever it begins. The others get through."""
    guilty = Deadly("t.guilty")
    innocents = define("t.innocent", one=finish)
    rig = await opened([say("x")], extensions=[Extension("tasks", tasks=[guilty.kind, innocents])])
    hold = asyncio.Event()
    begun: list[int] = []

    async def slowly(context: TaskHandle) -> None:
        begun.append(context.id)
        await gated(lambda: hold)(context)

    slow = define("t.slow", one=slowly)
    rig.extensions[0] = Extension("tasks", tasks=[guilty.kind, innocents, slow])
    rig.harness._agent.toolbox.registry.install(rig.extensions[0])
    guilty_id = await start(rig, guilty.kind)
    others = [await start(rig, slow) for _ in range(4)]
    await until(lambda: [row["status"] for row in rig.harness.inspect()] == ["running"] * 5)
    for _ in range(5):
        await rig.crash()
        before = guilty.begun + len(begun)
        await rig.harness.resume()
        await until(lambda before=before: guilty.begun + len(begun) > before)
        await turns()
    counts = [(await rig.storage.task(task_id)).get("restarts", 0) for task_id in others]
    assert (await rig.storage.task(guilty_id))["restarts"] == 5 and max(counts) < 5
    hold.set()
    for task_id in others:
        assert (await outcome(rig, task_id))["status"] == "completed"
    await rig.check()


async def test_spec_6_11_a_session_whose_opens_keep_dying_opens_paused(opened: Open) -> None:
    rig = await opened([say("x", delay=3600)])
    await rig.root.submit("go", request_id="r")
    await rig.provider.wait_requests(1)
    for _ in range(5):
        assert rig.harness.paused_reason is None
        await rig.crash()
    assert rig.harness.paused_reason is None, "the first of the last five did something"
    await rig.crash()
    assert rig.harness.paused_reason is not None and "died" in rig.harness.paused_reason
    await a_while()
    assert len(rig.provider.requests) == 1 and "restart_limit" not in str(rig.harness.inspect())
    rig.provider.script = [say("at last")]
    waiting = await rig.root.submit("and then")  # asking for something is a decision to go on, as `resume` is
    assert rig.harness.paused_reason is None
    assert (await asyncio.wait_for(waiting.wait(), 10)).status == "done"
    await rig.idle()
    await rig.close()
    await rig.reopen()
    assert rig.harness.paused_reason is None
    await rig.check(idle=True)


# -- 15 --------------------------------------------------------------------------------------------------------------


async def test_spec_15_the_report_names_who_died(opened: Open) -> None:
    rig = await opened([call(("gate", {"text": "g"})), say("done")])
    await rig.root.submit("go")
    await rig.effects.wait_started("gate")
    await until(lambda: [row["status"] for row in rig.harness.inspect()] == ["waiting", "running"])
    last = (await rig.storage.commits(reverse=True, limit=1))[0]
    owner = (await rig.storage.owners())[-1]
    await rig.crash()
    death = (await _deaths(rig))[-1]
    assert (death["epoch"], death["pid"], death["host"]) == (owner.epoch, os.getpid(), socket.gethostname())
    assert (death["lastSeq"], death["lastAt"]) == (last.seq, last.at)
    assert death["openedAt"] == owner.opened_at <= death["foundAt"]
    assert death["foundBy"] == rig.storage.epoch == owner.epoch + 1
    rows = death["tasks"]
    assert [(row["kind"], row["phase"]) for row in rows] == [("pi.generation", "tools"), ("pi.tool", "execute")]
    assert [row["doing"] for row in rows] == ["waiting for its tools", "gate"]
    await rig.check()


async def _cut_off(rig: Rig, stop: Any) -> None:
    """From the first batch that `stop` picks on, nothing is stored any more."""
    inner, dead = rig.storage.commit, asyncio.Event()

    async def commit(batch: Any) -> None:
        if dead.is_set() or stop(batch):
            dead.set()
            raise StorageRejected("dead")
        await inner(batch)

    rig.storage.commit = commit
    await rig.root.submit("go", request_id="r")
    await asyncio.wait_for(dead.wait(), 10)


def _enters(kind: str, phase: str) -> Any:
    return lambda batch: any(
        task["kind"] == kind and task["state"].get("checkpoint", {}).get("phase") == phase for task in batch.tasks
    )


@pytest.mark.parametrize(
    ("dies_before", "found", "verdict"),
    [
        (("pi.generation", "request"), ("pi.generation", "prepare"), "restarted"),
        (("pi.generation", "tools"), ("pi.generation", "request"), "resent"),
        (("pi.tool", "execute"), ("pi.tool", "call"), "restarted"),
    ],
)
async def test_spec_15_verdicts_of_reservations(
    opened: Open, dies_before: tuple[str, str], found: tuple[str, str], verdict: str
) -> None:
    rig = await opened([call(("note", {"text": "n"})), say("done")], record=True)
    await _cut_off(rig, _enters(*dies_before))
    await rig.crash()
    row = (await _deaths(rig))[-1]["tasks"][-1]
    assert (row["kind"], row["phase"]) == found and "verdict" not in row
    await rig.harness.resume()
    await rig.idle()
    row = (await _deaths(rig))[-1]["tasks"][-1]
    assert (row["verdict"], row["rule"]) == (verdict, "15")
    if isinstance(rig.storage, MemoryStorage):
        batch = next(batch for batch in rig.storage.log if batch.seq == row["seq"])
        assert [(task["id"], task["state"]["status"]) for task in batch.tasks] == [(row["taskId"], "running")]
        assert 0 <= batch.at - row["at"] < 10_000
    assert rig.effects.texts("note") == ["n"]
    await rig.check(idle=True)


@pytest.mark.parametrize(
    ("stored", "current", "former_dead", "verdict"),
    [
        ("safe", "safe", True, "rerun"),
        ("safe", "unsafe", True, "interrupted"),
        ("unsafe", "safe", True, "interrupted"),
        ("verify", "safe", True, "interrupted"),
        ("safe", None, True, "interrupted"),
        ("safe", "safe", False, "interrupted"),
    ],
)
async def test_spec_10_the_stricter_policy_decides_and_the_former_owner_must_be_dead(
    opened: Open, stored: Any, current: Any, former_dead: bool, verdict: str
) -> None:
    ran: list[str] = []
    hang = True

    def policy(replay: Any) -> Extension:
        @tool(replay="unsafe")
        async def probe(args: Text, call: ToolCall) -> str:
            """Look."""
            ran.append(replay)
            call.output("half a line")
            await asyncio.sleep(3600 if hang else 0)
            return "seen"

        object.__setattr__(probe, "replay", replay)  # past the check: "verify" is only found in old sessions
        return Extension("probing", tools=[probe])

    rig = await opened([call(("probe", {"text": "p"})), say("done")], extensions=[policy(stored)], record=True)
    await rig.root.submit("go", request_id="r")

    async def shown() -> bool:
        slots = (await rig.document("pi.live") or {}).get("tools", [])
        return bool(slots and slots[0].get("output"))

    await until(shown)
    await rig.kill()
    hang = False
    rig.extensions = [] if current is None else [policy(current)]
    if rig.backend == "memory":
        rig.storage.former_owner = "dead" if former_dead else "unknown"
        await rig.reopen()
    else:
        await rig.reopen()
        rig.harness._engine.recovery.former_owner_dead = former_dead
    await rig.harness.resume()
    await rig.idle()
    row = (await _deaths(rig))[-1]["tasks"][-1]
    assert row["verdict"] == verdict
    assert len(ran) == (2 if verdict == "rerun" else 1)
    result = next(entry for entry in await rig.entries() if entry["kind"] == "pi.tool-result")
    if verdict == "rerun":
        assert result["model"][0]["content"][0]["text"] == "seen" and "entry" not in row
    else:
        text = result["model"][0]["content"][0]["text"]
        assert text.startswith("half a line") and codes([result]) == ["interrupted"]
        assert (row["entry"], row["rule"]) == (result["id"], "10")
    await rig.check(idle=True)


async def test_spec_15_the_other_verdicts(opened: Open) -> None:
    """Retry and custom phases `resumed`, waiting and completing `woken`, marks `aborted`, `blocked` with its reason."""
    hold = asyncio.Event()
    held = define("t.held", one=gated(lambda: hold))
    gone = define("t.gone", one=finish)

    async def completing(context: TaskHandle) -> None:
        async with context.commit() as tx:
            new_task(tx, conversation_id=1, definition=held, input={}, owner=context.id, running=True)
            context.complete(tx, None)

    async def waiting(context: TaskHandle) -> None:
        async with context.commit() as tx:
            made = new_task(tx, conversation_id=1, definition=held, input={}, owner=context.id, running=True)
            context.wait(tx, {"phase": "two"}, [made["id"]])

    holds, waits = define("t.holds", one=completing), define("t.waits", one=waiting, two=finish)
    kinds: list[TaskDefinition] = [held, holds, waits]
    rig = await opened(
        [say("x", error=ModelError("down", "network"))],
        extensions=[Extension("tasks", tasks=[*kinds, gone])],
        settings=dataclasses.replace(FAST, base_delay=3600.0, max_delay=3600.0),
    )
    ids = {"holds": await start(rig, holds), "waits": await start(rig, waits), "marked": await start(rig, held)}
    await rig.root.submit("go")

    async def retrying() -> bool:
        return "retry" in (await rig.document("pi.live")).get("generation", {})

    await until(retrying)
    await until(
        lambda: (
            sorted(row["status"] for row in rig.harness.inspect())
            == ["completing", "pending", "running", "running", "running", "waiting"]
        )
    )
    async with rig.harness.commit() as tx:
        ids["gone"] = new_task(tx, conversation_id=1, definition=gone, input={}, running=False)["id"]
        record = tx.candidate(ids["marked"])
        assert record is not None
        tx.put_task({**record, "abortRequested": True})
        _die_after_this_commit(rig)
    await rig.kill()
    rig.extensions = [Extension("tasks", tasks=kinds)]
    await rig.reopen()
    ids["retry"] = next(row["taskId"] for row in (await _deaths(rig))[-1]["tasks"] if row["kind"] == "pi.generation")
    hold.set()
    await rig.harness.resume()
    await until(lambda: {row["kind"] for row in rig.harness.inspect()} == {"pi.generation", "t.gone"})
    await rig.root.abort()
    found = await _verdicts(rig)
    assert {name: found[task_id] for name, task_id in ids.items()} == {
        "holds": "woken",
        "waits": "woken",
        "marked": "aborted",
        "gone": "blocked",
        "retry": "resumed",
    }
    assert set(found.values()) == {"woken", "aborted", "blocked", "resumed"}
    details = {row["taskId"]: row.get("detail") for row in (await _deaths(rig))[-1]["tasks"]}
    assert details[ids["gone"]] == "missing_task"
    await rig.check(idle=True)


def _die_after_this_commit(rig: Rig) -> None:
    inner, last = rig.storage.commit, True

    async def commit(batch: Any) -> None:
        nonlocal last
        if not last:
            raise StorageRejected("dead")
        last = False
        await inner(batch)

    rig.storage.commit = commit


async def test_spec_15_a_found_call_that_faults_is_told_as_interrupted(opened: Open) -> None:
    async def broken(context: TaskHandle) -> None:
        raise RuntimeError("a bug in recovery")

    rig = await opened([call(("gate", {"text": "g"})), say("done")])
    submission = await rig.root.submit("go", request_id="r")
    await rig.effects.wait_started("gate")
    await rig.crash()
    phases = {**rig.built_in("pi.tool").phases, "execute": broken}
    rig.install(rig.built_in("pi.tool", phases=phases))
    settled = await asyncio.wait_for((await rig.harness.submission(submission.id)).wait(), 10)
    assert settled.status == "done", "a faulted call does not end the run"
    row = (await _deaths(rig))[-1]["tasks"][-1]
    assert (row["kind"], row["verdict"]) == ("pi.tool", "interrupted")
    assert (await rig.storage.task(row["taskId"]))["state"]["outcome"]["status"] == "faulted"
    await rig.check(idle=True)


async def test_spec_15_undecided_rows_are_linked_to_the_next_death_and_decided_after_a_clean_close(
    opened: Open,
) -> None:
    rig = await opened([call(("gate", {"text": "g"})), say("done")])
    await rig.root.submit("go")
    await rig.effects.wait_started("gate")
    await rig.crash()
    await rig.crash()
    first, second = await _deaths(rig)
    assert first["foundBy"] == second["epoch"], "the opening that found the first death is the one that died next"
    await rig.close()
    await rig.reopen()
    assert len(await _deaths(rig)) == 2, "a clean end is no death"
    await rig.harness.resume()
    await rig.idle()
    first, second = await _deaths(rig)
    assert [row.get("verdict") for row in first["tasks"]] == [None, None]
    assert [row.get("verdict") for row in second["tasks"]] == ["woken", "interrupted"]
    await rig.check(idle=True)


async def test_spec_15_the_last_hundred_deaths_are_kept(opened: Open, backend: str) -> None:
    rig = await opened([say("x", delay=3600)])
    await rig.root.submit("go", request_id="r")
    await rig.provider.wait_requests(1)
    for _ in range(104 if backend == "memory" else 102):
        await rig.crash()
    deaths = await _deaths(rig)
    assert len(deaths) == 100 and deaths[-1]["foundBy"] == rig.storage.epoch
    assert [death["epoch"] for death in deaths] == list(range(rig.storage.epoch - 100, rig.storage.epoch))
    rig.provider.script = [say("done")]
    await rig.harness.resume()
    await rig.idle()
    assert (await _deaths(rig))[-1]["tasks"][0]["verdict"] == "resent"
    await rig.check(idle=True)


async def test_spec_15_a_phrase_that_raises_keeps_nothing_from_opening(opened: Open) -> None:
    def broken(record: Any) -> str:
        raise ValueError("no words")

    kind = dataclasses.replace(define("t.mute", one=gated(asyncio.Event)), doing=broken)

    def summary(arguments: Any) -> str:
        raise ValueError("no words")

    @tool(summary=summary)
    async def mute(args: Text, call: ToolCall) -> str:
        """Hang."""
        await asyncio.sleep(3600)
        return ""

    rig = await opened(
        [call(("mute", {"text": "m"})), say("done")], extensions=[Extension("mute", tools=[mute], tasks=[kind])]
    )
    await start(rig, kind)
    await rig.root.submit("go")
    await until(lambda: len(rig.harness.inspect()) == 3)
    await rig.crash()
    rows = {row["kind"]: row["doing"] for row in (await _deaths(rig))[-1]["tasks"]}
    assert rows["t.mute"].startswith("t.mute") and rows["pi.tool"].startswith("mute")
    frame = await anext(rig.harness.watch_tasks())
    assert len(frame.value["tasks"]) == 3
    await rig.root.abort()
    await rig.check(idle=True)
