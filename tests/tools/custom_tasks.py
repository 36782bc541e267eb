"""Custom tasks for tests: definitions in a line, starting one, waiting for its outcome (spec 6)."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, Protocol

from durable_tui.agent.documents import ASKS
from durable_tui.engine.gates import again, time_gate
from durable_tui.engine.task import TaskDefinition, new_task
from durable_tui.engine.task_handle import TaskHandle
from durable_tui.engine.task_record import gate_of
from durable_tui.session import Transaction
from durable_tui.storage.records import Gate
from tests.tools.scenario import Rig


def define(name: str, *, version: int = 1, first: str = "one", **phases: Any) -> TaskDefinition:
    """A definition; `abort` and `migrate` may be among the keywords."""
    abort, migrate = phases.pop("abort", None), phases.pop("migrate", None)
    return TaskDefinition(name, phases, lambda _: {"phase": first}, version, abort, migrate)


def install(rig: Rig, *definitions: TaskDefinition, name: str = "tasks") -> None:
    rig.install(*definitions, name=name)


async def start(
    rig: Rig, definition: TaskDefinition, *, owner: int | None = None, background: bool = False, conversation: int = 1
) -> int:
    """A new task, and scheduling begun."""
    async with rig.harness.commit() as tx:
        made = new_task(
            tx,
            conversation_id=conversation,
            definition=definition,
            input={},
            owner=owner,
            background=background,
            running=False,
        )
    await rig.harness.resume()
    return made["id"]


async def outcome(rig: Rig, task_id: int) -> Any:
    record = await asyncio.wait_for(rig.harness.wait_for_task(task_id), 10)
    return record["state"]["outcome"]


async def record_of(rig: Rig, task_id: int) -> Any:
    return await rig.storage.task(task_id)


async def finish(context: TaskHandle) -> None:
    async with context.commit() as tx:
        context.complete(tx, None)


def gated(gate: Callable[[], asyncio.Event], then: Callable[[TaskHandle, Any], None] | None = None) -> Any:
    """A phase that waits for an event, then completes, or does `then`."""

    async def phase(context: TaskHandle) -> None:
        await gate().wait()
        async with context.commit() as tx:
            if then is None:
                context.complete(tx, None)
            else:
                then(context, tx)

    return phase


# -- kinds that wait at a gate -----------------------------------------------------------------------------------------


class Clock:
    """A wall clock that stands until it is moved: `Rig(…, now=Clock())`."""

    def __init__(self, now: int = 1_700_000_000_000) -> None:
        self.now = now

    def __call__(self) -> int:
        return self.now


class Wait(Protocol):
    """Something to wait for at a gate. `reason` is what the task is called blocked by."""

    reason: str

    async def prepare(self, rig: Rig) -> None:
        """What the session must hold before the task begins. May be repeated."""

    async def gate(self, task: TaskHandle, tx: Transaction) -> Gate:
        """The gate, made in the commit that waits at it."""

    async def come(self, rig: Rig, task_id: int) -> None:
        """Let it come. May be repeated."""


class TimeWait:
    """A wait for an hour of the session's clock."""

    reason = "tea"

    async def prepare(self, rig: Rig) -> None:
        assert isinstance(rig.now, Clock)

    async def gate(self, task: TaskHandle, tx: Transaction) -> Gate:
        now = task.session.now()
        return time_gate(self.reason, now + 3_600_000, now)

    async def come(self, rig: Rig, task_id: int) -> None:
        assert isinstance(rig.now, Clock)
        rig.now.now += 3_600_000
        rig.harness._engine.wake()  # the timer's longest sleep is of real time


class SubmissionWait:
    """A wait for an input that is parked in the root's inbox; it is withdrawn, so that no model is asked."""

    reason = "accept"

    async def prepare(self, rig: Rig) -> None:
        if not await rig.inbox():
            first = await rig.root.submit("go", request_id="first")
            await rig.root.submit("later", request_id="later")
            await rig.root.stop()
            await first.wait()
            await rig.idle()

    async def gate(self, task: TaskHandle, tx: Transaction) -> Gate:
        record = await task.session.storage.submission_by_request(1, "later")
        assert record is not None
        return {"reason": self.reason, "submission": record["id"]}

    async def come(self, rig: Rig, task_id: int) -> None:
        for item in await rig.inbox():
            await rig.root.withdraw(item["id"])


class AskWait:
    """A wait for the answer to an ask that is made with the gate."""

    reason = "approval"

    async def prepare(self, rig: Rig) -> None:
        pass

    async def gate(self, task: TaskHandle, tx: Transaction) -> Gate:
        asks = await tx.document(ASKS)
        asks.value["asks"].append(
            {"askId": f"ask-{task.id}", "conversationId": 1, "taskId": task.id, "at": task.session.now()}
        )
        return {"reason": self.reason, "ask": f"ask-{task.id}"}

    async def come(self, rig: Rig, task_id: int) -> None:
        async with rig.harness.commit() as tx:
            for ask in (await tx.document(ASKS)).value["asks"]:
                if ask["askId"] == f"ask-{task_id}":
                    ask["answer"] = {"decision": "once", "at": 1}


class PersonWait:
    """A wait for a person."""

    reason = "idle"

    async def prepare(self, rig: Rig) -> None:
        pass

    async def gate(self, task: TaskHandle, tx: Transaction) -> Gate:
        return {"reason": self.reason, "person": True}

    async def come(self, rig: Rig, task_id: int) -> None:
        await rig.harness.retry_task(task_id)


WAITS: tuple[Wait, ...] = (TimeWait(), SubmissionWait(), AskWait(), PersonWait())


def waiting_kind(wait: Wait, name: str = "t.waits", **more: Any) -> TaskDefinition:
    """A kind that stores that it waits, then waits, then completes; a time is looked at again before it does."""

    async def one(task: TaskHandle) -> None:
        async with task.commit() as tx:
            gate = await wait.gate(task, tx)
            task.advance(tx, {"phase": "two", "gate": dict(gate)}, gate=gate)

    async def two(task: TaskHandle) -> None:
        gate: Gate = task.checkpoint["gate"]
        now = task.session.now()
        async with task.commit() as tx:
            later = again(gate["reason"], gate["time"], gate["since"], now) if "time" in gate else None
            if later is not None:
                task.advance(tx, {"phase": "two", "gate": dict(later)}, gate=later)
            else:
                task.complete(tx, "came")

    return define(name, one=one, two=two, **more)


def gate_held(rig: Rig, task_id: int) -> Gate | None:
    """The gate of a live task as committed."""
    record = rig.harness._session.tasks.get(task_id)
    return None if record is None else gate_of(record)


def blocked_by(rig: Rig, task_id: int) -> str | None:
    """Why a task is blocked, as inspect says it; None when it is not, or has ended."""
    return next((row.get("blocked") for row in rig.harness.inspect() if row["id"] == task_id), None)


def count_passes(rig: Rig) -> Callable[[], int]:
    """From now on, how often the scheduler has looked at the live tasks."""
    scheduler = rig.harness._engine._scheduler
    inner, passes = scheduler._pass, 0

    async def counted() -> None:
        nonlocal passes
        passes += 1
        await inner()

    scheduler._pass = counted  # type: ignore[method-assign]
    return lambda: passes
