"""Events of a headless run (spec 17.6), derived from the frames of a session's watch. Pure: no clock, no storage.

`Events.feed(frame)` takes the frames of `Harness.watch()` in order and returns the events of that commit. Growing text
travels as what was appended, never as the whole again.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Literal, TypeVar, cast

from durable_tui.engine.recovery import PARKED
from durable_tui.views.frames import plain, starts_anew
from durable_tui.views.text_changes import message_changes, ops_below, text_change, told_change

if TYPE_CHECKING:
    from durable_tui.agent.shapes import LiveCompaction, LiveGeneration, Run, Slot
    from durable_tui.delta import JsonObject, Op
    from durable_tui.engine.shapes import Death, Recovery
    from durable_tui.models.messages import PartialMessage, Usage
    from durable_tui.session.watch import Frame
    from durable_tui.storage.records import SubmissionRecord
    from durable_tui.views.event_shapes import (
        Event,
        MessageUpdate,
        Parked,
        Snapshot,
        SubmissionStatus,
        TaskFailed,
        ToolEnd,
        ToolStart,
        ToolUpdate,
    )
    from durable_tui.views.shapes import SessionView, ShownEntry, TaskRow

Status = Literal["queued", "placed", "settled"]
SNAPSHOT_KEYS = ("entries", "run", "generation", "tools", "compactions", "inbox", "agent", "usage", "recovery", "first")
NO_GENERATION: LiveGeneration = {"attempt": 0}
NO_ARGUMENTS: JsonObject = {}
T = TypeVar("T")


class Events:
    """Turns the frames of a watch into events. A frame that starts anew is a `snapshot`."""

    def __init__(self) -> None:
        self._view: SessionView | None = None
        self._seq = 0
        self._last_entry = 0
        self._message_open = False
        self._running: dict[str, str] = {}  # callId -> toolName of executions announced and not ended
        self._arguments: dict[str, JsonObject] = {}  # callId -> arguments as the model gave them
        self._tasks = TaskEvents()

    def feed(self, frame: Frame[SessionView]) -> list[Event]:
        """The events of this frame, in order. `submission` events hold `{id, status}` only; see `with_records`."""
        view = frame.value
        before, self._view = self._view, view
        self._seq = frame.seq
        anew = before is None or starts_anew(frame.ops)
        events = [self._snapshot(view)] if before is None or anew else self._changes(before, view, frame.ops)
        if before is None or view["tasks"] is not before["tasks"]:
            events += self._tasks.feed(view["tasks"], frame.seq, anew=anew)
        return events

    def _snapshot(self, view: SessionView) -> Event:
        entries = view["entries"]
        self._last_entry = entries[-1]["id"] if len(entries) else 0
        self._message_open = "message" in _generation(view)
        self._running = {slot["callId"]: slot["name"] for slot in view["tools"] if slot["status"] == "running"}
        self._arguments = {}
        for entry in entries:
            self._note_calls(entry)
        shown = {key: _plain(value) for key, value in view.items() if key in SNAPSHOT_KEYS}
        return cast("Snapshot", {"type": "snapshot", "seq": self._seq, **shown})

    def _changes(self, before: SessionView, view: SessionView, ops: Sequence[Op]) -> list[Event]:
        seq = self._seq
        events: list[Event] = []
        run_before, run_now = before.get("run"), view.get("run")
        same_run = _same_run(run_before, run_now)
        same_turn = same_run and _task_of(run_before) == _task_of(run_now)
        new_entries = self._new_entries(view)
        self._recovery(before, view, events)
        self._submissions(before, view, events)
        # What closes comes first, so that starts and ends nest: message, tools, turn, run.
        closing = [entry for entry in new_entries if entry["kind"] == "pi.assistant"]
        if not same_turn or closing or "message" not in _generation(view):
            self._end_message(closing[0] if closing else None, events)
        self._tools_ended(before, view, events)
        for entry in new_entries:
            if entry["kind"] == "pi.assistant" and entry is not closing[0]:
                self._end_message(entry, events)
            events.append({"type": "entry_appended", "seq": seq, "entry": _plain(entry)})
        if run_before is not None and not same_turn:
            events.append({"type": "turn_end", "seq": seq})
        if run_before is not None and not same_run:
            events.append({"type": "run_end", "seq": seq, "inputs": _plain(run_before["inputs"])})
        if run_now is not None and not same_run:
            events.append({"type": "run_start", "seq": seq, "inputs": _plain(run_now["inputs"])})
        if run_now is not None and not same_turn:
            events.append({"type": "turn_start", "seq": seq})
        self._generation(before, view, ops, events)
        self._tools_started(before, view, ops, events)
        self._compactions(before, view, events)
        if _differ(before["inbox"], view["inbox"]):
            events.append({"type": "inbox_update", "seq": seq, "items": _plain(view["inbox"]["items"])})
        if _differ(before["agent"], view["agent"]):
            events.append({"type": "agent_changed", "seq": seq, "agent": _plain(view["agent"])})
        if _differ(before["usage"], view["usage"]):
            events.append({"type": "usage_changed", "seq": seq, "usage": _plain(view["usage"])})
        return events

    # entries and messages

    def _new_entries(self, view: SessionView) -> list[ShownEntry]:
        entries = view["entries"]
        added: list[ShownEntry] = []
        index = len(entries) - 1
        while index >= 0 and entries[index]["id"] > self._last_entry:
            added.append(entries[index])
            index -= 1
        added.reverse()
        for entry in added:
            self._last_entry = entry["id"]
            self._note_calls(entry)
        return added

    def _note_calls(self, entry: ShownEntry) -> None:
        for message in entry.get("model") or ():
            if message["role"] == "assistant":
                for block in message["content"]:
                    if block["type"] == "toolCall":
                        self._arguments[block["id"]] = block.get("arguments", NO_ARGUMENTS)

    def _end_message(self, entry: ShownEntry | None, events: list[Event]) -> None:
        """End the message under way; with an entry one that was never under way is started and ended."""
        if entry is not None:
            if not self._message_open:
                begun = cast("PartialMessage", {**_plain(entry["model"][0]), "content": []})
                events.append({"type": "message_start", "seq": self._seq, "message": begun})
            events.append({"type": "message_end", "seq": self._seq, "entry": _plain(entry)})
        elif self._message_open:
            events.append({"type": "message_end", "seq": self._seq})
        self._message_open = False

    def _generation(self, before: SessionView, view: SessionView, ops: Sequence[Op], events: list[Event]) -> None:
        old, new = _generation(before), _generation(view)
        if old is new:
            return
        self._retry(old, new, events)
        message = new.get("message")
        if message is None:
            return
        if not self._message_open:
            self._message_open = True
            events.append({"type": "message_start", "seq": self._seq, "message": _plain(message)})
            return
        former = old.get("message")
        changes = ops_below(ops, ["generation", "message"])
        if changes is None:
            changes = message_changes(former, message)
        changes = [op for op in changes if list(cast("Sequence[str]", op[1]))[:1] != ["usage"]]
        usage = _usage(message)
        usage_moved = usage != _usage(former)
        if changes or usage_moved:
            update: MessageUpdate = {"type": "message_update", "seq": self._seq, "changes": _plain(changes)}
            if usage_moved:
                update["usage"] = _plain(usage)
            events.append(update)

    def _retry(self, old: LiveGeneration, new: LiveGeneration, events: list[Event]) -> None:
        seq = self._seq
        old_retry, new_retry = old.get("retry"), new.get("retry")
        if old_retry is not None and old_retry != new_retry:
            events.append({"type": "auto_retry_end", "seq": seq})
        if new_retry is not None and old_retry != new_retry:
            events.append({
                "type": "auto_retry_start", "seq": seq, "attempt": new.get("attempt"), "at": new_retry.get("at"),
                "errorMessage": new_retry.get("error"),
            })  # fmt: skip
        deferred = new.get("deferred")
        if deferred is not None and deferred != old.get("deferred"):
            events.append({"type": "deferred_poll", "seq": seq, "pollAt": deferred.get("pollAt")})

    # tools

    def _tools_ended(self, before: SessionView, view: SessionView, events: list[Event]) -> None:
        if before["tools"] is view["tools"]:
            return
        now = _slots(view)
        was = _slots(before)
        for call_id, slot in now.items():
            if slot["status"] != "done" or (call_id in was and was[call_id]["status"] == "done"):
                continue
            if call_id not in self._running:
                events.append(self._started(slot))
            self._running.pop(call_id, None)
            ended: ToolEnd = {
                "type": "tool_execution_end", "seq": self._seq, "toolCallId": call_id, "toolName": slot["name"],
            }  # fmt: skip
            if "entry" in slot:
                ended["entry"] = slot["entry"]
            if "recovered" in slot:
                ended["recovered"] = slot["recovered"]
            events.append(ended)
        for call_id in [call_id for call_id in self._running if call_id not in now]:
            name = self._running.pop(call_id)
            events.append({"type": "tool_execution_end", "seq": self._seq, "toolCallId": call_id, "toolName": name})

    def _tools_started(self, before: SessionView, view: SessionView, ops: Sequence[Op], events: list[Event]) -> None:
        if before["tools"] is view["tools"]:
            return
        was = _slots(before)
        for index, slot in enumerate(view["tools"]):
            if slot["status"] != "running":
                continue
            if slot["callId"] not in self._running:
                self._running[slot["callId"]] = slot["name"]
                events.append(self._started(slot))
            told = ops_below(ops, ["tools", index, "output"], text=True)
            update = self._updated(was.get(slot["callId"]), slot, told)
            if update is not None:
                events.append(update)

    def _updated(self, old: Slot | None, new: Slot, ops: list[Op] | None) -> ToolUpdate | None:
        update: ToolUpdate = {
            "type": "tool_execution_update", "seq": self._seq, "toolCallId": new["callId"], "toolName": new["name"],
        }  # fmt: skip
        bare = len(update)
        before, after = old.get("output") if old is not None else None, new.get("output")
        if before != after:
            update["output"] = told_change(ops) or text_change(before or "", after or "")
        if "details" in new and (old is None or new["details"] != old.get("details")):
            update["details"] = _plain(new["details"])
        if "diagnostics" in new and (old is None or new["diagnostics"] != old.get("diagnostics")):
            update["diagnostics"] = _plain(new["diagnostics"])
        return update if len(update) > bare else None

    def _started(self, slot: Slot) -> ToolStart:
        arguments = _plain(self._arguments.get(slot["callId"], NO_ARGUMENTS))
        return {
            "type": "tool_execution_start", "seq": self._seq, "toolCallId": slot["callId"], "toolName": slot["name"],
            "args": arguments,
        }  # fmt: skip

    # the rest

    def _compactions(self, before: SessionView, view: SessionView, events: list[Event]) -> None:
        was = _by_task(before["compactions"])
        now = _by_task(view["compactions"])
        for task_id, item in was.items():
            if task_id not in now:
                events.append({
                    "type": "compaction_end", "seq": self._seq, "taskId": task_id, "reason": item["reason"],
                })  # fmt: skip
        for task_id, item in now.items():
            if task_id not in was:
                events.append({
                    "type": "compaction_start", "seq": self._seq, "taskId": task_id, "reason": item["reason"],
                    "blocking": item.get("blocking", False),
                })  # fmt: skip

    def _recovery(self, before: SessionView, view: SessionView, events: list[Event]) -> None:
        if before["recovery"] is view["recovery"]:
            return
        decided = {
            (death["foundBy"], row["taskId"], row.get("seq")) for death in deaths_of(before["recovery"])
            for row in death["tasks"] if "verdict" in row
        }  # fmt: skip
        for death in deaths_of(view["recovery"]):
            for row in death["tasks"]:
                if "verdict" in row and (death["foundBy"], row["taskId"], row.get("seq")) not in decided:
                    events.append({"type": "recovery", "seq": self._seq, "task": _plain(row)})

    def _submissions(self, before: SessionView, view: SessionView, events: list[Event]) -> None:
        was, now = _statuses(before), _statuses(view)
        for submission_id in sorted(was.keys() | now.keys()):
            status = now.get(submission_id, "settled")
            if was.get(submission_id) != status:
                record: SubmissionStatus = {"id": submission_id, "status": status}
                events.append({"type": "submission", "seq": self._seq, "record": record})


class TaskEvents:
    """Turns the rows of tasks into `task_failed` and `parked` events."""

    def __init__(self) -> None:
        self._told: set[tuple[int, str]] = set()

    def feed(self, rows: Sequence[TaskRow], seq: int, *, anew: bool) -> list[TaskFailed | Parked]:
        """One `parked` per task and reason while it lasts, one `task_failed` per task that failed or faulted.

        What had failed before the first rows, or before a whole view of rows that told nothing, is no news.
        """
        events: list[TaskFailed | Parked] = []
        old_news = anew and not self._told
        told: set[tuple[int, str]] = set()
        for row in rows:
            reason, outcome = row.get("blocked"), row.get("outcome")
            if reason is not None and reason in PARKED:
                key = (row["id"], reason)
                if key not in self._told:
                    events.append({"type": "parked", "seq": seq, "taskId": row["id"], "reason": reason})
            elif outcome in ("failed", "faulted"):
                key = (row["id"], outcome)
                if key not in self._told and not old_news:
                    message = f"{row.get('doing') or row['kind']}: {outcome}"
                    events.append({
                        "type": "task_failed", "seq": seq, "taskId": row["id"], "kind": row["kind"], "message": message,
                    })  # fmt: skip
            else:
                continue
            told.add(key)
        self._told = told
        return events


async def with_records(
    events: list[Event], record: Callable[[int], Awaitable[Mapping[str, object] | None]]
) -> list[Event]:
    """Fill the `submission` events from the stored records, without running ahead of the commit they tell of."""
    for event in events:
        if event["type"] != "submission":
            continue
        status = event["record"]["status"]
        stored = await record(event["record"]["id"])
        if stored is None:
            continue
        full: dict[str, object] = dict(_plain(stored))
        if status != "settled":
            full["status"] = status
            later = ("answer", "reason", "detail") if status == "placed" else ("answer", "reason", "detail", "entry")
            for key in later:
                full.pop(key, None)
        event["record"] = cast("SubmissionRecord", full)
    return events


def deaths_of(recovery: Recovery | None) -> Sequence[Death]:
    """The deaths of a `dt.recovery` value, oldest first; none when there is no such document."""
    return recovery["deaths"] if recovery else ()


def _plain(value: T) -> T:
    """The value as plain JSON, of the shape it had."""
    return cast(T, plain(value))


def _differ(before: object, now: object) -> bool:
    return before is not now and before != now


def _generation(view: SessionView) -> LiveGeneration:
    return view.get("generation", NO_GENERATION)


def _usage(message: PartialMessage | None) -> Usage | None:
    """What a partial message counts so far, when the provider tells it before the end."""
    return cast("Usage | None", message.get("usage")) if message is not None else None


def _task_of(run: Run | None) -> int | None:
    return run["taskId"] if run is not None else None


def _same_run(old: Run | None, new: Run | None) -> bool:
    """A run goes on while its inputs do: steers add to them, a handover changes only the task id (spec 8.8)."""
    if old is None or new is None:
        return old is None and new is None
    return list(new["inputs"])[: len(old["inputs"])] == list(old["inputs"])


def _statuses(view: SessionView) -> Mapping[int, Status]:
    statuses: dict[int, Status] = {item["id"]: "queued" for item in view["inbox"]["items"]}
    run = view.get("run")
    for submission_id in run["inputs"] if run is not None else ():
        statuses[submission_id] = "placed"
    return statuses


def _slots(view: SessionView) -> dict[str, Slot]:
    return {slot["callId"]: slot for slot in view["tools"]}


def _by_task(compactions: Sequence[LiveCompaction]) -> dict[int, LiveCompaction]:
    return {item["taskId"]: item for item in compactions}
