"""A recovery is decided once, stored with the task, and then carried out (spec 15)."""

from __future__ import annotations

import asyncio
import dataclasses
from collections.abc import Awaitable, Callable
from typing import Any

from durable_tui.agent.extension import Extension, Tool
from durable_tui.engine import Abandonment, Decision, TaskDefinition, TaskHandle, new_task
from durable_tui.engine.gates import time_gate
from durable_tui.harness.submission import Submission
from durable_tui.session import DocumentDefinition, Transaction
from durable_tui.session.documents import empty_object
from durable_tui.storage.records import Gate, TaskRecord
from tests.tools.custom_tasks import count_passes, outcome, record_of
from tests.tools.effects import eyes
from tests.tools.scenario import Rig
from tests.tools.strict_provider import call, say
from tests.tools.waiting import a_while, until

Open = Callable[..., Awaitable[Rig]]


async def _rows(rig: Rig) -> list[Any]:
    return list((await rig.harness.recovery())["deaths"][-1]["tasks"])


async def _crashed_while_staring(opened: Open) -> tuple[Rig, Tool, Submission]:
    """A session that died while a safe tool of the extension `eyes` ran, opened again; nothing is scheduled yet."""
    began = asyncio.Event()
    extension = eyes(began)
    rig = await opened([call(("stare", {"text": "g"})), say("done")], extensions=[extension])
    submission = await rig.root.submit("go", request_id="r")
    await asyncio.wait_for(began.wait(), 10)
    return await rig.crash(), extension.tools[0], submission


async def test_spec_15_a_tool_that_goes_away_after_the_decision_is_told_as_the_transcript_has_it(opened: Open) -> None:
    """Decided `rerun`, then its tool is uninstalled: the stricter holds, and the report is put right with the result."""
    rig, _, submission = await _crashed_while_staring(opened)
    registry = rig.harness._agent.toolbox.registry
    scheduler = rig.harness._engine._scheduler
    start = scheduler._invocations.start

    def uninstall_first(record: TaskRecord, gate: Gate | None) -> None:
        if record["kind"] == "pi.tool":
            assert record["recovery"]["verdict"] == "rerun", "decided with the reservation"
            registry.uninstall("eyes")
        start(record, gate)

    scheduler._invocations.start = uninstall_first
    await rig.harness.resume()
    await asyncio.wait_for((await rig.harness.submission(submission.id)).wait(), 10)
    row = next(row for row in await _rows(rig) if row["kind"] == "pi.tool")
    assert row["verdict"] == "interrupted" and row["entry"], row
    assert (await rig.transcript())[2].startswith("error stare:")
    assert "was interrupted" in (await rig.transcript())[2]


async def test_spec_15_an_interruption_is_told_with_its_result_and_is_deciding_until_then(opened: Open) -> None:
    rig = await opened([call(("gate", {"text": "g"})), say("done")])
    await rig.root.submit("go", request_id="r")
    await rig.effects.wait_started("gate")
    await rig.crash()
    dead = rig.dies_at(lambda batch, number: any("outcome" in task["state"] for task in batch.tasks))
    await rig.harness.resume()
    await asyncio.wait_for(dead.wait(), 10)
    row = next(row for row in await _stored_rows(rig) if row["kind"] == "pi.tool")
    assert row["deciding"] == "interrupted" and "verdict" not in row
    await rig.crash()
    await rig.harness.resume()
    await rig.idle()
    deaths = (await rig.harness.recovery())["deaths"]
    first = next(row for row in deaths[-2]["tasks"] if row["kind"] == "pi.tool")
    second = next(row for row in deaths[-1]["tasks"] if row["kind"] == "pi.tool")
    assert "verdict" not in first and second["verdict"] == "interrupted" and "deciding" not in second
    await rig.check(idle=True)


async def _stored_rows(rig: Rig) -> list[Any]:
    from tests.tools.folding import fold

    stored = await rig.storage.document("dt.recovery", {"kind": "session"})
    return list(fold(stored.base, stored.deltas)["deaths"][-1]["tasks"])


# -- a kind of an extension's own --------------------------------------------------------------------------------------

NOTES: DocumentDefinition[Any] = DocumentDefinition("t.notes", "conversation", empty_object, history="latest")


class Reports:
    """A kind of task with child tasks, a document, cleanup, a verdict and words; nothing is said of it elsewhere."""

    def __init__(self) -> None:
        self.written, self.printed = asyncio.Event(), asyncio.Event()
        self.child = TaskDefinition("t.page", {"write": self.write}, lambda _: {"phase": "write"})
        self.kind = TaskDefinition(
            "t.report",
            {"gather": self.gather, "collect": self.collect, "send": self.send},
            lambda _: {"phase": "gather"},
            verdict=self.verdict,
            abandon=self.abandon,
            doing=lambda record: f"report {record['input']['name']}",
            elsewhere=lambda record: (
                "the printer" if record["state"].get("checkpoint", {}).get("phase") == "send" else None
            ),
            blocked=lambda record: None if self.has_paper else "no paper",
        )
        self.has_paper = True
        self.sent: list[int] = []

    async def write(self, task: TaskHandle) -> None:
        await self.written.wait()
        async with task.commit() as tx:
            task.complete(tx, task.input["page"])

    async def gather(self, task: TaskHandle) -> None:
        async with task.commit() as tx:
            notes = await tx.document(NOTES, task.conversation_id)
            notes.value["open"] = task.id
            pages = [
                new_task(tx, conversation_id=task.conversation_id, definition=self.child, input={"page": page},
                         owner=task.id, running=True)["id"]
                for page in (1, 2)
            ]  # fmt: skip
            task.wait(tx, {"phase": "collect", "pages": pages}, pages)

    async def collect(self, task: TaskHandle) -> None:
        async with task.commit() as tx:
            task.advance(tx, {"phase": "send", "pages": task.checkpoint["pages"]})

    async def send(self, task: TaskHandle) -> None:
        if task.decision is not None and task.decision["verdict"] == "interrupted":
            async with task.commit() as tx:
                await self._close(tx, task.conversation_id)
                task.fail(tx, "nobody knows whether it was printed")
            return
        self.sent.append(task.id)
        await self.printed.wait()
        async with task.commit() as tx:
            await self._close(tx, task.conversation_id)
            task.complete(tx, "sent")

    async def _close(self, tx: Transaction, conversation_id: int) -> None:
        notes = await tx.document(NOTES, conversation_id)
        notes.value.pop("open", None)

    async def verdict(self, record: TaskRecord) -> Decision:
        phase = record["state"]["checkpoint"]["phase"]  # type: ignore[typeddict-item]
        return (
            Decision("interrupted", "10", "the printer does not tell") if phase == "send" else Decision("resumed", "15")
        )

    async def abandon(self, tx: Transaction, record: TaskRecord, why: Abandonment) -> None:
        await self._close(tx, record["conversationId"])


async def _notes(rig: Rig) -> Any:
    return await rig.document("t.notes") or {}


async def _begin(rig: Rig, reports: Reports) -> int:
    rig.install(reports.kind, reports.child)
    async with rig.harness.commit() as tx:
        made = new_task(tx, conversation_id=1, definition=reports.kind, input={"name": "July"}, running=False)
    await rig.harness.resume()
    return made["id"]


async def test_spec_6_1_a_kind_of_an_extension_recovers_in_each_phase_and_is_told_like_a_built_in_one(
    opened: Open,
) -> None:
    rig, reports = await opened([say("x")]), Reports()
    task_id = await _begin(rig, reports)
    await until(lambda: [row["status"] for row in rig.harness.inspect()] == ["waiting", "running", "running"])
    await rig.crash()  # in the phase that waits for its pages
    rig.install(reports.kind, reports.child)
    row = next(row for row in rig.harness.inspect() if row["id"] == task_id)
    assert (row["doing"], row["waitingOn"]) == ("report July", [task_id + 1, task_id + 2])
    await rig.harness.resume()
    reports.written.set()
    reports.printed.set()
    assert (await outcome(rig, task_id))["result"] == "sent"
    rows = {row["taskId"]: row["verdict"] for row in await _rows(rig)}
    assert rows == {task_id: "woken", task_id + 1: "resumed", task_id + 2: "resumed"}
    assert await _notes(rig) == {}

    reports = Reports()
    second = await _begin(rig, reports)
    reports.written.set()
    await until(lambda: reports.sent == [second])  # in the phase with the effect
    row = next(row for row in rig.harness.inspect() if row["id"] == second)
    assert row["provider"] == "the printer", "who has it now is told as it is of a built-in one"
    await rig.crash()
    rig.install(reports.kind, reports.child)
    await rig.harness.resume()
    assert (await outcome(rig, second))["error"]["message"] == "nobody knows whether it was printed"
    row = next(row for row in await _rows(rig) if row["taskId"] == second)
    assert (row["verdict"], row["detail"]) == ("interrupted", "the printer does not tell")
    assert await _notes(rig) == {} and reports.sent == [second], "the effect is not repeated"
    await rig.check(idle=True)


async def test_spec_6_9_a_kind_of_an_extension_says_why_it_is_blocked_and_cleans_up_when_it_faults(
    opened: Open,
) -> None:
    rig, reports = await opened([say("x")]), Reports()
    reports.has_paper = False
    task_id = await _begin(rig, reports)
    await until(lambda: [row.get("blocked") for row in rig.harness.inspect()] == ["no paper"])
    reports.has_paper = True
    rig.harness._engine.wake()
    await until(lambda: len(rig.harness.inspect()) == 3)
    assert (await _notes(rig)) == {"open": task_id}

    async def broken(task: TaskHandle) -> None:
        raise RuntimeError("out of ink")

    phases = {**reports.kind.phases, "collect": broken}
    rig.install(TaskDefinition("t.report", phases, reports.kind.initial, abandon=reports.abandon), reports.child)
    reports.written.set()
    assert (await outcome(rig, task_id))["status"] == "faulted"
    assert await _notes(rig) == {}, "its own cleanup ran in the commit of the fault"
    await rig.check(idle=True)


async def test_spec_6_9_a_cleanup_that_raises_does_not_keep_its_task_alive(opened: Open) -> None:
    rig = await opened([say("x")])

    async def broken(*_: object) -> None:
        raise RuntimeError("out of ink")

    kind = TaskDefinition("t.bad", {"one": broken}, lambda _: {"phase": "one"}, abandon=broken)
    rig.install(kind)
    async with rig.harness.commit() as tx:
        made = new_task(tx, conversation_id=1, definition=kind, input={}, running=False)
    await rig.harness.resume()
    assert (await outcome(rig, made["id"]))["status"] == "faulted"
    assert (await record_of(rig, made["id"]))["state"]["status"] == "terminal"
    assert any("left its traces" in note and "out of ink" in note for note in rig.harness.reports)


# -- what a kind says is somebody else's code ---------------------------------------------------------------------------


async def _no(*_: object) -> Any:
    raise RuntimeError("out of paper")


async def test_spec_15_a_kind_that_cannot_say_what_became_of_its_task_is_entered_again(opened: Open) -> None:
    rig, hold = await opened([say("x")]), asyncio.Event()

    async def one(task: TaskHandle) -> None:
        await hold.wait()
        async with task.commit() as tx:
            task.complete(tx, None)

    def broken(record: TaskRecord) -> str:
        raise RuntimeError("out of ink")

    kind = TaskDefinition("t.k", {"one": one}, lambda _: {"phase": "one"}, verdict=_no, elsewhere=broken, doing=broken)
    rig.install(kind)
    async with rig.harness.commit() as tx:
        made = new_task(tx, conversation_id=1, definition=kind, input={}, running=False)
    await rig.harness.resume()
    await until(lambda: [row["status"] for row in rig.harness.inspect()] == ["running"])
    await rig.crash()
    rig.install(kind)
    watch = rig.harness.watch_tasks()
    assert [row["status"] for row in (await anext(watch)).value["tasks"]] == ["pending"]
    hold.set()
    assert (await outcome(rig, made["id"]))["status"] == "completed"
    assert [row["verdict"] for row in await _rows(rig)] == ["resumed"]
    assert any("out of paper" in note for note in rig.harness.reports)
    await watch.aclose()


async def test_spec_15_a_rerun_that_the_tool_does_not_take_any_more_is_an_interruption(opened: Open) -> None:
    rig, stare, submission = await _crashed_while_staring(opened)

    def picky(arguments: Any) -> Any:
        raise ValueError("text is now called words")

    rig.harness._agent.toolbox.registry.install(Extension("eyes", tools=[dataclasses.replace(stare, validate=picky)]))
    await asyncio.wait_for((await rig.harness.submission(submission.id)).wait(), 10)
    row = next(row for row in await _rows(rig) if row["kind"] == "pi.tool")
    assert row["verdict"] == "interrupted" and row["entry"]
    assert "text is now called words" in (await rig.transcript())[2]


async def test_spec_6_12_a_gated_task_whose_code_is_gone_is_told_as_blocked_and_wakes_nobody(opened: Open) -> None:
    rig = await opened([say("x")])

    async def one(task: TaskHandle) -> None:
        now = task.session.now()
        async with task.commit() as tx:
            task.advance(tx, {"phase": "two"}, gate=time_gate("tea", now + 3_600_000, now))

    kind = TaskDefinition("t.tea", {"one": one, "two": _no}, lambda _: {"phase": "one"})
    rig.install(kind)
    async with rig.harness.commit() as tx:
        new_task(tx, conversation_id=1, definition=kind, input={}, running=False)
    await rig.harness.resume()
    await until(lambda: "gate" in next(iter(rig.harness._session.tasks.values()))["state"])
    await rig.crash()
    later = rig.harness._session.now() + 7_200_000
    rig.harness._session.now = lambda: later
    passes = count_passes(rig)
    await rig.harness.resume()

    async def told() -> bool:
        return "verdict" in (await _rows(rig))[0]

    await until(told)
    assert (await _rows(rig))[0]["verdict"] == "blocked"
    await a_while()
    assert passes() < 10, "an open gate is no reason to look again and again"
