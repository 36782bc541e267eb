"""A task's record: read, and changed in a commit (spec 6, 17.2)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Literal, TypedDict, TypeGuard, Unpack, cast

from durable_tui.session import Transaction
from durable_tui.storage.records import Gate, GateForm, Outcome, TaskRecord, TaskState, WaitingState

if TYPE_CHECKING:
    from durable_tui.delta import Json, JsonObject

Policy = Literal["allSettled", "failFast"]
Status = Literal["pending", "running", "waiting", "completing", "terminal"]
TERMINAL: Literal["terminal"] = "terminal"
LARGEST = 2**53 - 1  # milliseconds, or an id: what every reader of JSON can hold


# -- reading a record ------------------------------------------------------------------------------------------------


def checkpoint_of(record: TaskRecord) -> JsonObject:
    """The checkpoint of a live task, in the shape its kind gave it; an empty object once its outcome is decided."""
    return cast("JsonObject", record["state"].get("checkpoint", {}))


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
    """What a pending task waits for that is not a task (spec 6.12); what has no form of one holds nobody."""
    gate = record["state"].get("gate")
    return gate if is_gate(gate) else None


def is_gate(value: object) -> TypeGuard[Gate]:
    """Whether a value has one of the forms of a gate (spec 17.2)."""
    if not isinstance(value, Mapping) or not isinstance(value.get("reason"), str) or not value["reason"]:
        return False
    form = value.keys() - {"reason"}
    if form == {"time", "since"}:
        return _is_number(value["time"]) and _is_number(value["since"])
    if form == {"submission"}:
        return _is_number(value["submission"])
    return (form == {"ask"} and isinstance(value["ask"], str)) or (form == {"person"} and value["person"] is True)


def _is_number(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= LARGEST


def gate_form(gate: Gate) -> GateForm:
    """What a gate waits for, by the key that says it (spec 17.2)."""
    if "time" in gate:
        return "time"
    if "submission" in gate:
        return "submission"
    return "ask" if "ask" in gate else "person"


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


class TaskChanges(TypedDict, total=False):
    """The keys of a record that commits change after the one that made it."""

    version: int
    abortRequested: bool
    restarts: int | None
    recovery: None
    startedAt: int
    endedAt: int
    memos: Mapping[str, Json] | None
    state: TaskState


def changed(record: TaskRecord, **changes: Unpack[TaskChanges]) -> TaskRecord:
    """A copy of a record with keys replaced; a value of None removes the key."""
    copy: dict[str, object] = dict(record)
    for key, value in changes.items():
        if value is None:
            copy.pop(key, None)
        else:
            copy[key] = value
    return cast(TaskRecord, copy)


def migrated_to(record: TaskRecord, checkpoint: JsonObject, version: int) -> TaskRecord:
    """A copy with the checkpoint that a newer version of its kind made of the stored one."""
    return changed(record, state=cast("TaskState", {**record["state"], "checkpoint": checkpoint}), version=version)


def moved(record: TaskRecord, state: TaskState) -> TaskRecord:
    """A copy in a new state that is progress: the count of restarts and the decision of recovery go (spec 6.11, 15)."""
    return changed(record, state=state, restarts=None, recovery=None)


def decide(tx: Transaction, record: TaskRecord, outcome: Outcome) -> TaskRecord:
    """Fix a task's outcome in this commit. The task rules turn it into `completing` while owned work lives (spec 6.7)."""
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
