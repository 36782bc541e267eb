"""Custom tasks for tests: definitions in a line, starting one, waiting for its outcome (spec 6)."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

from durable_tui.engine.task import TaskDefinition, new_task
from durable_tui.engine.task_handle import TaskHandle
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
