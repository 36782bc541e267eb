"""What a kind of task is, and its record read and changed (spec 6)."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal, cast

from durable_tui.delta import JsonObject
from durable_tui.session import Transaction
from durable_tui.storage.records import Gate, LiveState, Outcome, TaskRecord, TaskState, WaitingState

if TYPE_CHECKING:
    from durable_tui.engine.shapes import Verdict
    from durable_tui.engine.task_handle import TaskHandle

Policy = Literal["allSettled", "failFast"]
Status = Literal["pending", "running", "waiting", "completing", "terminal"]
Handler = Callable[["TaskHandle"], Awaitable[None]]
TERMINAL: Literal["terminal"] = "terminal"


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
    initial: Callable[[Any], JsonObject]
    version: int = 1
    abort: Handler | None = None
    migrate: Callable[[Any, int], JsonObject] | None = None
    doing: Callable[[TaskRecord], str] | None = field(default=None, compare=False)
    recall: Callable[[TaskRecord], Awaitable[None]] | None = field(default=None, compare=False)
    verdict: Callable[[TaskRecord], Awaitable[Decision]] | None = field(default=None, compare=False)
    abandon: Callable[[Transaction, TaskRecord, Abandonment], Awaitable[None]] | None = field(
        default=None, compare=False
    )
    blocked: Callable[[TaskRecord], str | None] | None = field(default=None, compare=False)
    elsewhere: Callable[[TaskRecord], str | None] | None = field(default=None, compare=False)
    effect_phases: frozenset[str] | None = None


# -- reading a record ------------------------------------------------------------------------------------------------


def checkpoint_of(record: TaskRecord) -> Any:
    """The checkpoint of a live task; an empty object once its outcome is decided."""
    return record["state"].get("checkpoint", {})


def phase_of(record: TaskRecord) -> str | None:
    """The phase a live task stands in."""
    phase = checkpoint_of(record).get("phase")
    return None if phase is None else str(phase)


def status_of(record: TaskRecord) -> Status:
    return record["state"]["status"]


def outcome_of(record: TaskRecord) -> Outcome | None:
    """The outcome, once it is decided."""
    return cast("Outcome | None", record["state"].get("outcome"))


def outcome_detail(outcome: Outcome) -> str | None:
    """What an outcome says of its cause: an error's message, or a reason."""
    if outcome["status"] == "failed":
        return outcome["error"]["message"]
    if outcome["status"] == "faulted":
        return outcome["error"]
    if outcome["status"] == "completed":
        return None
    return outcome.get("reason")


def gate_of(record: TaskRecord) -> Gate | None:
    """What a pending task waits for that is not a task (spec 6.12)."""
    return cast("Gate | None", record["state"].get("gate"))


def waiting_of(record: TaskRecord) -> WaitingState | None:
    """The state of a waiting task: what it waits for, and by which policy."""
    state = record["state"]
    return state if state["status"] == "waiting" else None


def is_decided(record: TaskRecord) -> bool:
    """Whether the outcome is fixed, held (`completing`) or final (`terminal`)."""
    return record["state"]["status"] in ("completing", TERMINAL)


def describe(error: BaseException) -> str:
    """An error as one line for a record."""
    text = " ".join(str(error).split())
    return f"{type(error).__name__}: {text}" if text else type(error).__name__


# -- changing it in a commit -----------------------------------------------------------------------------------------


def new_task(
    tx: Transaction,
    *,
    conversation_id: int,
    definition: TaskDefinition,
    input: Any,
    owner: int | None = None,
    background: bool = False,
    running: bool,
) -> TaskRecord:
    """Create a task in this commit, already reserved when `running` (spec 7)."""
    if background and owner is not None:
        raise ValueError("only tasks owned by their conversation may be background (spec 6.5)")
    checkpoint = definition.initial(input)
    state: LiveState = {"status": "running" if running else "pending", "checkpoint": checkpoint}
    record: TaskRecord = {
        "id": tx.mint_id(),
        "conversationId": conversation_id,
        "kind": definition.name,
        "version": definition.version,
        "input": input,
        "background": background,
        "abortRequested": False,
        "state": state,
    }
    if owner is not None:
        record["owner"] = owner
    if running:
        record["startedAt"] = tx.session.now()
    return tx.put_task(record)


def changed(record: TaskRecord, **changes: Any) -> TaskRecord:
    """A copy of a record with keys replaced; a value of None removes the key."""
    copy: dict[str, Any] = dict(record)
    for key, value in changes.items():
        if value is None:
            copy.pop(key, None)
        else:
            copy[key] = value
    return cast(TaskRecord, copy)


def moved(record: TaskRecord, state: TaskState) -> TaskRecord:
    """A copy in a new state that is progress: the count of restarts and the decision of recovery go (spec 6.11, 15)."""
    return changed(record, state=state, restarts=None, recovery=None)


def decide(tx: Transaction, record: TaskRecord, outcome: Outcome) -> TaskRecord:
    """Fix a task's outcome in this commit. The task rules turn it into `completing` while owned work lives (6.7)."""
    return tx.put_task(changed(moved(record, {"status": TERMINAL, "outcome": outcome}), memos=None))


def mark_for_abort(tx: Transaction, task_ids: Iterable[int]) -> list[int]:
    """Mark those of the tasks that are live, undecided and unmarked; the ids of the marked ones (spec 6.8)."""
    marked = []
    for task_id in task_ids:
        record = tx.candidate(task_id)
        if record is not None and not record["abortRequested"] and not is_decided(record):
            tx.put_task(changed(record, abortRequested=True))
            marked.append(task_id)
    return marked
