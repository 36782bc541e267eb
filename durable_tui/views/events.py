"""Events of a headless run (spec 17.6), derived from the frames of a watch. Pure: no clock, no storage, no output.

`Events.feed(frame)` takes the frames of `Conversation.watch()` in order, `TaskEvents.feed(frame)` those of
`Harness.watch_tasks()`. Each returns the events of that commit, every one with `type` and `seq`. Growing text travels
as what was appended, never as the whole again.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from typing import Any, Protocol

from durable_tui.engine.recovery import PARKED

Event = dict[str, Any]
Json = Any

SNAPSHOT_KEYS = ("entries", "run", "generation", "tools", "compactions", "inbox", "agent", "usage", "recovery", "first")


class FrameLike(Protocol):
    """What is used of a frame: the value after commit `seq`, and the ops that led to it from the frame before."""

    @property
    def value(self) -> Any: ...

    @property
    def ops(self) -> Any: ...

    @property
    def seq(self) -> int: ...


def plain(value: Json) -> Json:
    """A detached copy made of dict, list and scalars, whatever sequence types a view uses."""
    if isinstance(value, str | bytes) or value is None:
        return value
    if isinstance(value, Mapping):
        return {key: plain(item) for key, item in value.items()}
    if isinstance(value, Sequence):
        return [plain(item) for item in value]
    return value


class Events:
    """Turns the frames of one conversation's watch into events. A frame that starts anew is a `snapshot`."""

    def __init__(self) -> None:
        self._view: Mapping[str, Any] | None = None
        self._last_entry = 0
        self._message_open = False
        self._running: dict[str, str] = {}  # callId -> toolName of executions announced and not ended
        self._arguments: dict[str, Any] = {}  # callId -> arguments as the model gave them

    def feed(self, frame: FrameLike) -> list[Event]:
        """The events of this frame, in order. `submission` events hold `{id, status}` only; see `with_records`."""
        view: Mapping[str, Any] = frame.value
        before, self._view = self._view, view
        if before is None or _starts_anew(frame.ops):
            events = [self._snapshot(view)]
        else:
            events = self._changes(before, view, frame.ops)
        for event in events:
            event["seq"] = frame.seq
        return events

    def _snapshot(self, view: Mapping[str, Any]) -> Event:
        entries = view["entries"]
        self._last_entry = entries[-1]["id"] if len(entries) else 0
        generation = view.get("generation") or {}
        self._message_open = "message" in generation
        self._running = {slot["callId"]: slot["name"] for slot in view["tools"] if slot["status"] == "running"}
        self._arguments = {}
        for entry in entries:
            self._note_calls(entry)
        event: Event = {"type": "snapshot"}
        for key in SNAPSHOT_KEYS:
            if key in view:
                event[key] = plain(view[key])
        return event

    def _changes(self, before: Mapping[str, Any], view: Mapping[str, Any], ops: Sequence[Any]) -> list[Event]:
        events: list[Event] = []
        run_before, run_now = before.get("run"), view.get("run")
        same_run = _same_run(run_before, run_now)
        same_turn = same_run and (run_before or {}).get("taskId") == (run_now or {}).get("taskId")
        new_entries = self._new_entries(view)
        self._recovery(before, view, events)
        self._submissions(before, view, events)
        # What closes comes first, so that starts and ends nest: message, tools, turn, run.
        closing = [entry for entry in new_entries if entry["kind"] == "pi.assistant"]
        if not same_turn or closing or "message" not in (view.get("generation") or {}):
            self._end_message(closing[:1], events)
        self._tools_ended(before, view, events)
        for entry in new_entries:
            if entry["kind"] == "pi.assistant" and entry is not closing[0]:
                self._end_message([entry], events)
            events.append({"type": "entry_appended", "entry": plain(entry)})
        if run_before is not None and not same_turn:
            events.append({"type": "turn_end"})
        if run_before is not None and not same_run:
            events.append({"type": "run_end", "inputs": plain(run_before["inputs"])})
        if run_now is not None and not same_run:
            events.append({"type": "run_start", "inputs": plain(run_now["inputs"])})
        if run_now is not None and not same_turn:
            events.append({"type": "turn_start"})
        self._generation(before, view, ops, events)
        self._tools_started(before, view, ops, events)
        self._compactions(before, view, events)
        for key, name in (("inbox", "inbox_update"), ("agent", "agent_changed"), ("usage", "usage_changed")):
            if before.get(key) is not view.get(key) and before.get(key) != view.get(key):
                payload = {"items": plain(view[key]["items"])} if key == "inbox" else {key: plain(view[key])}
                events.append({"type": name, **payload})
        return events

    # entries and messages

    def _new_entries(self, view: Mapping[str, Any]) -> list[Mapping[str, Any]]:
        entries = view["entries"]
        found: list[Mapping[str, Any]] = []
        index = len(entries) - 1
        while index >= 0 and entries[index]["id"] > self._last_entry:
            found.append(entries[index])
            index -= 1
        found.reverse()
        for entry in found:
            self._last_entry = entry["id"]
            self._note_calls(entry)
        return found

    def _note_calls(self, entry: Mapping[str, Any]) -> None:
        for message in entry.get("model") or ():
            if message.get("role") == "assistant":
                for block in message["content"]:
                    if block.get("type") == "toolCall":
                        self._arguments[block["id"]] = block.get("arguments", {})

    def _end_message(self, entries: Iterable[Mapping[str, Any]], events: list[Event]) -> None:
        for entry in entries:
            if not self._message_open:
                message = {**plain(entry["model"][0]), "content": []}
                events.append({"type": "message_start", "message": message})
            events.append({"type": "message_end", "entry": plain(entry)})
            self._message_open = False
            return
        if self._message_open:
            events.append({"type": "message_end"})
            self._message_open = False

    def _generation(
        self, before: Mapping[str, Any], view: Mapping[str, Any], ops: Sequence[Any], events: list[Event]
    ) -> None:
        old, new = before.get("generation") or {}, view.get("generation") or {}
        if old is new:
            return
        old_retry, new_retry = old.get("retry"), new.get("retry")
        if old_retry is not None and old_retry != new_retry:
            events.append({"type": "auto_retry_end"})
        if new_retry is not None and old_retry != new_retry:
            events.append({
                "type": "auto_retry_start", "attempt": new.get("attempt"), "at": new_retry.get("at"),
                "errorMessage": new_retry.get("error"),
            })  # fmt: skip
        deferred = new.get("deferred")
        if deferred is not None and deferred != old.get("deferred"):
            events.append({"type": "deferred_poll", "pollAt": deferred.get("pollAt")})
        message = new.get("message")
        if message is None:
            return
        if not self._message_open:
            self._message_open = True
            events.append({"type": "message_start", "message": plain(message)})
            return
        changes = _ops_below(ops, ["generation", "message"])
        if changes is None:
            changes = message_changes(old.get("message") or {}, message)
        changes = [op for op in changes if op[1][:1] != ["usage"]] if changes else []
        usage = message.get("usage")
        usage_moved = usage != (old.get("message") or {}).get("usage")
        if changes or usage_moved:
            event: Event = {"type": "message_update", "changes": plain(changes)}
            if usage_moved:
                event["usage"] = plain(usage)
            events.append(event)

    # tools

    def _tools_ended(self, before: Mapping[str, Any], view: Mapping[str, Any], events: list[Event]) -> None:
        if before["tools"] is view["tools"]:
            return
        now = {slot["callId"]: slot for slot in view["tools"]}
        was = {slot["callId"]: slot for slot in before["tools"]}
        for call_id, slot in now.items():
            if slot["status"] != "done" or was.get(call_id, {}).get("status") == "done":
                continue
            if call_id not in self._running:
                events.append(self._started(slot))
            self._running.pop(call_id, None)
            ended: Event = {"type": "tool_execution_end", "toolCallId": call_id, "toolName": slot["name"]}
            if "entry" in slot:
                ended["entry"] = slot["entry"]
            if "recovered" in slot:
                ended["recovered"] = slot["recovered"]
            events.append(ended)
        for call_id in [call_id for call_id in self._running if call_id not in now]:
            name = self._running.pop(call_id)
            events.append({"type": "tool_execution_end", "toolCallId": call_id, "toolName": name})

    def _tools_started(
        self, before: Mapping[str, Any], view: Mapping[str, Any], ops: Sequence[Any], events: list[Event]
    ) -> None:
        if before["tools"] is view["tools"]:
            return
        was = {slot["callId"]: slot for slot in before["tools"]}
        for index, slot in enumerate(view["tools"]):
            if slot["status"] != "running":
                continue
            if slot["callId"] not in self._running:
                self._running[slot["callId"]] = slot["name"]
                events.append(self._started(slot))
            update = _slot_update(was.get(slot["callId"], {}), slot, _ops_below(ops, ["tools", index, "output"], True))
            if update:
                events.append({
                    "type": "tool_execution_update", "toolCallId": slot["callId"], "toolName": slot["name"], **update,
                })  # fmt: skip

    def _started(self, slot: Mapping[str, Any]) -> Event:
        arguments = plain(self._arguments.get(slot["callId"], {}))
        return {
            "type": "tool_execution_start", "toolCallId": slot["callId"], "toolName": slot["name"], "args": arguments,
        }  # fmt: skip

    # the rest

    def _compactions(self, before: Mapping[str, Any], view: Mapping[str, Any], events: list[Event]) -> None:
        was = {item["taskId"]: item for item in before.get("compactions") or ()}
        now = {item["taskId"]: item for item in view.get("compactions") or ()}
        for task_id, item in was.items():
            if task_id not in now:
                events.append({"type": "compaction_end", "taskId": task_id, "reason": item.get("reason")})
        for task_id, item in now.items():
            if task_id not in was:
                events.append({
                    "type": "compaction_start", "taskId": task_id, "reason": item.get("reason"),
                    "blocking": item.get("blocking", False),
                })  # fmt: skip

    def _recovery(self, before: Mapping[str, Any], view: Mapping[str, Any], events: list[Event]) -> None:
        if before.get("recovery") is view.get("recovery"):
            return
        decided = {
            (death["foundBy"], row["taskId"], row.get("seq")) for death in deaths_of(before.get("recovery"))
            for row in death["tasks"] if "verdict" in row
        }  # fmt: skip
        for death in deaths_of(view.get("recovery")):
            for row in death["tasks"]:
                if "verdict" in row and (death["foundBy"], row["taskId"], row.get("seq")) not in decided:
                    events.append({"type": "recovery", "task": plain(row)})

    def _submissions(self, before: Mapping[str, Any], view: Mapping[str, Any], events: list[Event]) -> None:
        was, now = _statuses(before), _statuses(view)
        for submission_id in sorted(was.keys() | now.keys()):
            status = now.get(submission_id, "settled")
            if was.get(submission_id) != status:
                events.append({"type": "submission", "record": {"id": submission_id, "status": status}})


class TaskEvents:
    """Turns the frames of `watch_tasks()` into `task_failed` and `parked` events."""

    def __init__(self) -> None:
        self._told: set[tuple[int, str]] = set()

    def feed(self, frame: FrameLike) -> list[Event]:
        """One `parked` per task and reason while it lasts, one `task_failed` per task that failed or faulted."""
        events: list[Event] = []
        first = not self._told and _starts_anew(frame.ops)
        parked: set[tuple[int, str]] = set()
        for row in frame.value["tasks"]:
            reason = row.get("blocked")
            if reason in PARKED:
                key = (row["id"], str(reason))
                parked.add(key)
                if key not in self._told:
                    events.append({"type": "parked", "seq": frame.seq, "taskId": row["id"], "reason": reason})
            elif row.get("outcome") in ("failed", "faulted"):
                key = (row["id"], row["outcome"])
                parked.add(key)
                if key not in self._told and not first:
                    events.append({
                        "type": "task_failed", "seq": frame.seq, "taskId": row["id"], "kind": row["kind"],
                        "message": row.get("message") or f"{row.get('doing') or row['kind']}: {row['outcome']}",
                    })  # fmt: skip
        self._told = parked
        return events


async def with_records(
    events: list[Event], record: Callable[[int], Awaitable[Mapping[str, Any] | None]]
) -> list[Event]:
    """Fill the `submission` events from the stored records, without running ahead of the commit they tell of."""
    for event in events:
        if event["type"] != "submission":
            continue
        status = event["record"]["status"]
        found = await record(event["record"]["id"])
        if found is None:
            continue
        full = dict(plain(found))
        if status != "settled":
            full["status"] = status
            dropped = ("answer", "reason", "detail") if status == "placed" else ("answer", "reason", "detail", "entry")
            for key in dropped:
                full.pop(key, None)
        event["record"] = full
    return events


def deaths_of(recovery: Any) -> Sequence[Any]:
    """The deaths of a `dt.recovery` value, oldest first; none when there is no such document."""
    return (recovery or {}).get("deaths") or ()


def message_changes(old: Mapping[str, Any], new: Mapping[str, Any]) -> list[Any]:
    """Ops that take one partial message to the next, for a step that replaced it as a whole. Appends stay appends."""
    changes: list[Any] = []
    blocks_before, blocks = old.get("content") or [], new.get("content") or []
    for index, block in enumerate(blocks):
        if index >= len(blocks_before):
            changes.append(["p", ["content"], index, 0, [block]])
        elif block != blocks_before[index]:
            changes.extend(_block_changes(blocks_before[index], block, index))
    if len(blocks_before) > len(blocks):
        changes.append(["p", ["content"], len(blocks), len(blocks_before) - len(blocks), []])
    for key, value in new.items():
        if key not in ("content", "usage") and old.get(key) != value:
            changes.append(["s", [key], value])
    return changes


def _block_changes(old: Mapping[str, Any], new: Mapping[str, Any], index: int) -> list[Any]:
    key = {"text": "text", "thinking": "thinking"}.get(new.get("type", ""))
    if key and old.get("type") == new["type"] and new[key].startswith(old[key]):
        changes: list[Any] = []
        if len(new[key]) > len(old[key]):
            changes.append(["a", ["content", index, key], new[key][len(old[key]) :]])
        others = [name for name in new if name != key and old.get(name) != new[name]]
        changes.extend(["s", ["content", index, name], new[name]] for name in others)
        return changes
    return [["s", ["content", index], new]]


def _starts_anew(ops: Sequence[Any]) -> bool:
    return len(ops) == 1 and ops[0][0] == "r"


def _ops_below(ops: Sequence[Any], prefix: list[Any], text: bool = False) -> list[Any] | None:
    """The ops under `prefix` with paths relative to it (those on the `text` at it); None when it is replaced itself."""
    found = []
    for op in ops:
        path = list(op[1]) if op[0] != "r" else []
        if path[: len(prefix)] == prefix and (len(path) > len(prefix) or (text and op[0] in ("a", "t"))):
            found.append([op[0], path[len(prefix) :], *op[2:]])
        elif path == prefix[: len(path)]:
            return None
    return found


def _same_run(old: Any, new: Any) -> bool:
    """A run goes on while its inputs do: steers add to them, a handover changes only the task id (spec 8.8)."""
    if old is None or new is None:
        return old is None and new is None
    return list(new["inputs"])[: len(old["inputs"])] == list(old["inputs"])


def _statuses(view: Mapping[str, Any]) -> dict[int, str]:
    found: dict[int, str] = {item["id"]: "queued" for item in (view.get("inbox") or {}).get("items") or ()}
    for submission_id in (view.get("run") or {}).get("inputs") or ():
        found[submission_id] = "placed"
    return found


def _slot_update(old: Mapping[str, Any], new: Mapping[str, Any], ops: list[Any] | None) -> Event:
    update: Event = {}
    before, after = old.get("output"), new.get("output")
    if before != after:
        update["output"] = _told_change(ops) or text_change(before or "", after or "")
    for key in ("details", "diagnostics"):
        if key in new and new[key] != old.get(key):
            update[key] = plain(new[key])
    return update


def _told_change(ops: list[Any] | None) -> Event | None:
    """At most one trim, then appends, as the ops say it; None for anything else."""
    trims = [op for op in ops or () if op[0] == "t"]
    if not ops or len(trims) > 1 or (trims and ops[0] is not trims[0]):
        return None
    change: Event = {"trimStart": trims[0][2]} if trims else {}
    more = "".join(op[2] for op in ops if op[0] == "a")
    return {**change, "append": more} if more else change


def text_change(old: str, new: str) -> Event:
    """How a bounded tail moved: `{append}`, `{trimStart, append}` (UTF-16 units cut from the front), or `{set}`."""
    if new.startswith(old):
        return {"append": new[len(old) :]}
    probe = new[:64]
    start, tries = old.find(probe) if probe else -1, 16
    while start >= 0 and tries:
        tries -= 1
        kept = old[start:]
        if new.startswith(kept):
            change: Event = {"trimStart": len(old[:start].encode("utf-16-le", "surrogatepass")) // 2}
            if len(new) > len(kept):
                change["append"] = new[len(kept) :]
            return change
        start = old.find(probe, start + 1)
    return {"set": new}
