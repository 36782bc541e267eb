"""What a kind of task is, and a new task of it (spec 6)."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, cast

from durable_tui.delta import Json, JsonObject
from durable_tui.engine.shapes import Verdict
from durable_tui.engine.task_handle import TaskHandle
from durable_tui.engine.task_record import gate_of, moved
from durable_tui.session import Transaction
from durable_tui.storage.records import Gate, LiveState, TaskRecord

Handler = Callable[[TaskHandle], Awaitable[None]]


@dataclass(slots=True, frozen=True)
class Decision:
    """What recovery does with a task found at work, by which rule of the specification, and what it was decided on.

    `settled_by_result` says that the result is the truth about it: the report waits for the result's commit (spec 15).
    """

    verdict: Verdict
    rule: str
    detail: str | None = None
    settled_by_result: bool = False


@dataclass(slots=True, frozen=True)
class Abandonment:
    """Why a task ends without its own code: the reason its inputs settle with, and words for a person."""

    reason: str
    detail: str | None = None


@dataclass(slots=True, frozen=True)
class TaskDefinition:
    """A kind of task, with all that belongs to it. Only `name`, `phases` and `initial` are needed.

    - `phases`: one handler per phase, which makes progress only by committing (spec 6.1).
    - `initial(input)` is the first checkpoint `{phase, …}`; `migrate(checkpoint, version)` takes an older one here.
    - `abort` ends the task after its owned work drained; without it the outcome is simply `aborted`.
    - `abandon(tx, record, why)` leaves its traces in order when it ends without its own code (faulted, orphaned, or
      aborted without `abort`), in the commit of that outcome.
    - `verdict(record)` decides, off the line and without effects, what recovery does with it; without it the phase is
      entered again and that is called `resumed` (spec 15).
    - `doing(record)` is a short phrase for people, from memory alone; `recall(record)` brings what it reads there.
    - `blocked(record)` is the kind's own reason why a pending task may not start yet, or None.
    - `effect_phases` are the phases that act on the world outside the session; None says that all may (spec 4.1).
    - `elsewhere(record)` names who outside this process works on it while the task only waits, or None.
    """

    name: str
    phases: Mapping[str, Handler]
    initial: Callable[[Any], Mapping[str, object]]
    version: int = 1
    abort: Handler | None = None
    migrate: Callable[[Any, int], Mapping[str, object]] | None = None
    doing: Callable[[TaskRecord], str] | None = field(default=None, compare=False)
    recall: Callable[[TaskRecord], Awaitable[None]] | None = field(default=None, compare=False)
    verdict: Callable[[TaskRecord], Awaitable[Decision]] | None = field(default=None, compare=False)
    abandon: Callable[[Transaction, TaskRecord, Abandonment], Awaitable[None]] | None = field(
        default=None, compare=False
    )
    blocked: Callable[[TaskRecord], str | None] | None = field(default=None, compare=False)
    elsewhere: Callable[[TaskRecord], str | None] | None = field(default=None, compare=False)
    effect_phases: frozenset[str] | None = None


def new_task(
    tx: Transaction,
    *,
    conversation_id: int,
    definition: TaskDefinition,
    input: object,
    owner: int | None = None,
    background: bool = False,
    running: bool,
) -> TaskRecord:
    """Create a task in this commit, already reserved when `running` (spec 7)."""
    if background and owner is not None:
        raise ValueError("only tasks owned by their conversation may be background (spec 6.5)")
    checkpoint = cast("JsonObject", definition.initial(input))
    state: LiveState = {"status": "running" if running else "pending", "checkpoint": checkpoint}
    record: TaskRecord = {
        "id": tx.mint_id(),
        "conversationId": conversation_id,
        "kind": definition.name,
        "version": definition.version,
        "input": cast("Json", input),
        "background": background,
        "abortRequested": False,
        "state": state,
    }
    if owner is not None:
        record["owner"] = owner
    if running:
        record["startedAt"] = tx.session.now()
    return tx.put_task(record)


class TaskNotGated(Exception):
    """The task does not wait at a gate any more: it went on, ended, or is to be aborted (spec 6.12)."""


def advance_gated(
    tx: Transaction, task_id: int, *, definition: TaskDefinition, checkpoint: JsonObject, gate: Gate | None = None
) -> TaskRecord:
    """Give a task that waits at a gate another checkpoint from outside its handlers, in this commit (spec 6.12).

    It then waits at `gate`, or without one is ready to go on. `definition` is that of its kind, whose own code alone may
    do this. Raises TaskNotGated when the task is not at a gate as this commit would leave it, ValueError when it is of
    another kind or version than the definition or the definition has no such phase.
    """
    record = tx.candidate(task_id)
    if record is None or gate_of(record) is None or record["abortRequested"]:
        raise TaskNotGated(f"task {task_id} does not wait at a gate any more")
    if (record["kind"], record["version"]) != (definition.name, definition.version):
        stored, given = f"{record['kind']} v{record['version']}", f"{definition.name} v{definition.version}"
        raise ValueError(f"task {task_id} is a {stored}: the code of {given} may not move it (spec 6.12)")
    if checkpoint.get("phase") not in definition.phases:
        raise ValueError(f"task {task_id}: {definition.name} has no phase {checkpoint.get('phase')!r}")
    state: LiveState = {"status": "pending", "checkpoint": checkpoint}
    if gate is not None:
        state["gate"] = gate
    return tx.put_task(moved(record, state))
