"""Events from frames (spec 17.6): order, nesting, and that growing text is told once."""

from __future__ import annotations

import copy
import json
from dataclasses import dataclass, field
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from durable_tui.delta import apply_ops, freeze
from durable_tui.views.events import Events, with_records
from durable_tui.views.frames import plain
from durable_tui.views.text_changes import message_changes, text_change

USAGE = {"input": 1, "output": 2, "cacheRead": 0, "cacheWrite": 0, "totalTokens": 3}


def message(text: str = "", **more: Any) -> dict[str, Any]:
    return {"role": "assistant", "content": [{"type": "text", "text": text}], "stopReason": "stop", **more}


def entry(number: int, kind: str, model: list[Any] | None = None) -> dict[str, Any]:
    found: dict[str, Any] = {"id": number, "conversationId": 1, "kind": kind, "seq": number}
    return found if model is None else {**found, "model": model}


@dataclass
class Frame:
    value: Any
    ops: list[Any]
    seq: int
    at: int = 0


@dataclass
class Story:
    """Frames of a conversation, made by applying ops as a watch does."""

    events: Events = field(default_factory=Events)
    seq: int = 0
    view: Any = field(
        default_factory=lambda: freeze(
            {
                "entries": [], "tools": [], "compactions": [], "inbox": {"items": []}, "agent": {},
                "usage": {"models": {}, "tools": {}}, "draft": {"text": ""}, "recovery": {"deaths": []},
                "session": {"cwd": "/", "createdAt": 1}, "first": True, "tasks": [],
            }
        )
    )  # fmt: skip

    def start(self) -> list[dict[str, Any]]:
        return self.events.feed(Frame(self.view, [["r", self.view]], self.seq))

    def step(self, *ops: Any) -> list[dict[str, Any]]:
        self.seq += 1
        self.view = apply_ops(self.view, list(ops))
        return self.events.feed(Frame(self.view, list(ops), self.seq))

    def add(self, item: dict[str, Any]) -> list[Any]:
        return ["p", ["entries"], len(self.view["entries"]), 0, [item]]


def types(events: list[dict[str, Any]]) -> list[str]:
    return [event["type"] for event in events]


def running() -> Story:
    story = Story()
    story.start()
    story.step(
        story.add(entry(2, "pi.user", [{"role": "user", "content": "hi"}])),
        ["s", ["run"], {"taskId": 3, "inputs": [1]}],
        ["s", ["generation"], {"attempt": 1}],
    )
    return story


def test_spec_17_6_the_first_frame_is_a_snapshot_with_its_seq() -> None:
    (event,) = Story(seq=7).start()
    assert event["type"] == "snapshot" and event["seq"] == 7
    assert {"entries", "tools", "compactions", "inbox", "agent", "usage"} <= event.keys()
    assert "draft" not in event
    json.dumps(event)


def test_spec_17_6_a_run_from_input_to_answer_in_order() -> None:
    story = Story()
    story.start()
    first = story.step(
        story.add(entry(2, "pi.user", [{"role": "user", "content": "hi"}])),
        ["s", ["run"], {"taskId": 3, "inputs": [1]}],
        ["s", ["generation"], {"attempt": 1}],
    )
    assert types(first) == ["submission", "entry_appended", "run_start", "turn_start"]
    assert first[0]["record"] == {"id": 1, "status": "placed"}
    begun = story.step(["s", ["generation", "message"], message("He", usage=USAGE)])
    assert types(begun) == ["message_start"]
    grown = story.step(["a", ["generation", "message", "content", 0, "text"], "llo"])
    assert grown == [{"type": "message_update", "seq": 3, "changes": [["a", ["content", 0, "text"], "llo"]]}]
    end = story.step(
        story.add(entry(4, "pi.assistant", [message("Hello")])),
        ["d", ["run"]],
        ["d", ["generation"]],
        ["s", ["usage", "models", "p/m"], USAGE],
    )
    assert types(end) == [
        "submission", "message_end", "entry_appended", "turn_end", "run_end", "usage_changed",
    ]  # fmt: skip
    assert end[0]["record"] == {"id": 1, "status": "settled"}
    assert end[1]["entry"]["id"] == 4 and end[4]["inputs"] == [1]
    assert {event["seq"] for event in end} == {4}


def test_spec_17_6_an_answer_without_a_partial_still_starts() -> None:
    story = running()
    events = story.step(story.add(entry(4, "pi.assistant", [message("Hello")])), ["d", ["run"]], ["d", ["generation"]])
    assert types(events)[1:4] == ["message_start", "message_end", "entry_appended"]
    assert events[1]["message"]["content"] == []


def test_l02_a_message_replaced_as_a_whole_is_told_as_what_grew() -> None:
    story = running()
    story.step(["s", ["generation", "message"], message("a" * 1000)])
    events = story.step(["s", ["generation", "message"], message("a" * 1000 + "b")])
    assert events[0]["changes"] == [["a", ["content", 0, "text"], "b"]]


def test_l02_output_grows_with_the_answer_not_with_its_square() -> None:
    def size(deltas: int) -> int:
        story = running()
        total = 0
        story.step(["s", ["generation", "message"], message("")])
        for _ in range(deltas):
            events = story.step(["a", ["generation", "message", "content", 0, "text"], "0123456789"])
            total += sum(len(json.dumps(event)) for event in events)
        text = "0123456789" * deltas
        end = story.step(story.add(entry(4, "pi.assistant", [message(text)])), ["d", ["run"]], ["d", ["generation"]])
        return total + sum(len(json.dumps(event)) for event in end)

    short, double = size(400), size(800)
    per_delta = 120
    assert double < 10 * 8000 + 800 * per_delta
    assert double < 2.2 * short


def test_spec_17_6_tool_executions_nest_in_their_turn() -> None:
    story = running()
    call = {"type": "toolCall", "id": "c1", "name": "edit", "arguments": {"path": "a"}}
    slot = {"callId": "c1", "name": "edit", "taskId": 6, "status": "pending"}
    pending = story.step(
        story.add(entry(4, "pi.assistant", [message(content=[call]) | {"content": [call]}])),
        ["s", ["tools"], [slot]],
        ["d", ["generation"]],
    )
    assert types(pending) == ["message_start", "message_end", "entry_appended"]
    started = story.step(["s", ["tools", 0, "status"], "running"])
    assert started == [
        {"type": "tool_execution_start", "seq": 3, "toolCallId": "c1", "toolName": "edit", "args": {"path": "a"}}
    ]
    out = story.step(["s", ["tools", 0, "output"], "one\n"])
    assert out[0]["output"] == {"append": "one\n"}
    more = story.step(["a", ["tools", 0, "output"], "two\n"], ["s", ["tools", 0, "details"], {"n": 1}])
    assert more[0]["output"] == {"append": "two\n"} and more[0]["details"] == {"n": 1}
    window = story.step(["t", ["tools", 0, "output"], 4], ["a", ["tools", 0, "output"], "three\n"])
    assert window[0]["output"] == {"trimStart": 4, "append": "three\n"}
    result = {"role": "toolResult", "toolCallId": "c1", "toolName": "edit", "content": [], "isError": False}
    done = story.step(
        story.add(entry(8, "pi.tool-result", [result])),
        ["s", ["tools", 0, "status"], "done"],
        ["s", ["tools", 0, "entry"], 8],
    )
    assert types(done) == ["tool_execution_end", "entry_appended"] and done[0]["entry"] == 8
    nothing_left = story.step(["s", ["tools"], []], ["s", ["run", "taskId"], 9], ["s", ["generation"], {"attempt": 1}])
    assert types(nothing_left) == ["turn_end", "turn_start"]


def test_spec_17_6_a_call_that_never_ran_starts_and_ends_and_an_aborted_one_ends() -> None:
    story = running()
    slots = [{"callId": "a", "name": "x", "status": "pending"}, {"callId": "b", "name": "y", "status": "running"}]
    assert types(story.step(["s", ["tools"], slots])) == ["tool_execution_start"]
    events = story.step(["s", ["tools", 0, "status"], "done"])
    assert types(events) == ["tool_execution_start", "tool_execution_end"]
    events = story.step(["s", ["tools"], []], ["d", ["run"]], ["d", ["generation"]])
    assert types(events) == ["submission", "tool_execution_end", "turn_end", "run_end"]
    assert events[1]["toolCallId"] == "b"


def test_spec_8_8_a_steer_and_a_handover_stay_one_run_new_inputs_make_another() -> None:
    story = running()
    steered = story.step(["s", ["run"], {"taskId": 9, "inputs": [1, 5]}])
    assert types(steered) == ["submission", "turn_end", "turn_start"]
    another = story.step(["s", ["run"], {"taskId": 12, "inputs": [11]}])
    assert types(another) == [
        "submission",
        "submission",
        "submission",
        "turn_end",
        "run_end",
        "run_start",
        "turn_start",
    ]
    assert another[4]["inputs"] == [1, 5] and another[5]["inputs"] == [11]


def test_spec_17_6_retries_polls_compactions_and_the_inbox() -> None:
    story = running()
    retry = {"at": 5000, "error": "503"}
    begun = story.step(["s", ["generation"], {"attempt": 1, "retry": retry}])
    assert begun == [
        {"type": "auto_retry_start", "seq": 2, "attempt": 1, "at": 5000, "errorMessage": "503"},
    ]
    assert types(story.step(["s", ["generation"], {"attempt": 2}])) == ["auto_retry_end"]
    polled = story.step(["s", ["generation", "deferred"], {"pollAt": 9}])
    assert polled == [{"type": "deferred_poll", "seq": 4, "pollAt": 9}]
    assert types(story.step(["s", ["compactions"], [{"taskId": 20, "reason": "manual"}]])) == ["compaction_start"]
    assert types(story.step(["s", ["compactions"], []])) == ["compaction_end"]
    item = {"id": 30, "mode": "followUp", "content": "then"}
    queued = story.step(["p", ["inbox", "items"], 0, 0, [item]])
    assert types(queued) == ["submission", "inbox_update"] and queued[1]["items"] == [item]
    assert types(story.step(["s", ["agent"], {"model": {"provider": "p", "modelId": "m"}}])) == ["agent_changed"]
    assert story.step(["s", ["draft", "text"], "not an event"]) == []


def test_spec_15_one_recovery_event_per_verdict() -> None:
    row = {"taskId": 4, "conversationId": 1, "kind": "pi.tool", "phase": "execute", "doing": "edit a"}
    story = Story()
    story.view = apply_ops(
        story.view, [["s", ["recovery", "deaths"], [{"foundBy": 2, "tasks": [row, {**row, "taskId": 5}]}]]]
    )
    story.start()
    decided = story.step(["s", ["recovery", "deaths", 0, "tasks", 0], {**row, "verdict": "rerun", "seq": 1}])
    assert decided == [{"type": "recovery", "seq": 1, "task": {**row, "verdict": "rerun", "seq": 1}}]
    rest = story.step(
        ["s", ["recovery", "deaths", 0, "tasks", 1], {**row, "taskId": 5, "verdict": "blocked", "seq": 2}]
    )
    assert [event["task"]["taskId"] for event in rest] == [5]


def test_spec_13_a_consumer_that_fell_behind_gets_a_fresh_snapshot_and_goes_on_from_it() -> None:
    story = running()
    story.view = apply_ops(story.view, [["s", ["generation", "message"], message("half")]])
    story.seq = 40
    (event,) = story.start()
    assert event["type"] == "snapshot" and event["seq"] == 40
    grown = story.step(["a", ["generation", "message", "content", 0, "text"], "!"])
    assert grown[0]["changes"] == [["a", ["content", 0, "text"], "!"]]


def test_spec_17_6_task_events_tell_each_failure_and_each_parking_once() -> None:
    story = Story()
    story.start()

    def step(*items: dict[str, Any]) -> list[dict[str, Any]]:
        return story.step(["s", ["tasks"], list(items)])

    live = {"id": 3, "kind": "pi.tool", "status": "pending", "blocked": "restart_limit"}
    assert step(live) == [{"type": "parked", "seq": 1, "taskId": 3, "reason": "restart_limit"}]
    assert step(live) == []
    free = {"id": 3, "kind": "pi.tool", "status": "running"}
    assert step(free) == []
    assert types(step(live)) == ["parked"]
    failed = {"id": 3, "kind": "pi.tool", "status": "terminal", "outcome": "failed", "doing": "edit a"}
    assert step(failed) == [
        {"type": "task_failed", "seq": 5, "taskId": 3, "kind": "pi.tool", "message": "edit a: failed"}
    ]
    assert step(failed) == []


def test_spec_17_6_what_had_failed_before_the_first_frame_is_no_news_but_what_is_parked_is() -> None:
    story = Story()
    failed = {"id": 3, "kind": "pi.tool", "status": "terminal", "outcome": "failed", "doing": "edit a"}
    live = {"id": 4, "kind": "pi.tool", "status": "pending", "blocked": "restart_limit"}
    story.view = apply_ops(story.view, [["s", ["tasks"], [failed, live]]])
    assert types(story.start()) == ["snapshot", "parked"]
    assert types(story.step(["s", ["tasks"], [failed]])) == []


async def test_spec_17_6_submission_events_do_not_run_ahead_of_their_commit() -> None:
    stored = {"id": 1, "conversationId": 1, "type": "input", "status": "done", "entry": 2, "answer": 9}

    async def record(_: int) -> dict[str, Any]:
        return stored

    def event(status: str) -> list[dict[str, Any]]:
        return [{"type": "submission", "seq": 1, "record": {"id": 1, "status": status}}]

    (queued,) = await with_records(event("queued"), record)
    assert queued["record"] == {"id": 1, "conversationId": 1, "type": "input", "status": "queued"}
    (placed,) = await with_records(event("placed"), record)
    assert placed["record"]["entry"] == 2 and "answer" not in placed["record"]
    (settled,) = await with_records(event("settled"), record)
    assert settled["record"] == stored


texts = st.text(max_size=20)
parts = st.one_of(
    st.builds(lambda text: {"type": "text", "text": text}, texts),
    st.builds(lambda text: {"type": "thinking", "thinking": text}, texts),
    st.builds(lambda name: {"type": "toolCall", "id": "1", "name": name, "arguments": {}}, texts),
)
messages = st.builds(lambda content, stop: {"content": content, "stopReason": stop}, st.lists(parts, max_size=4), texts)


@given(messages, messages)
def test_spec_5_changes_of_a_replaced_message_give_exactly_the_new_one(old: Any, new: Any) -> None:
    assert plain(apply_ops(freeze(old), message_changes(copy.deepcopy(old), new))) == plain(freeze(new))


@given(st.text(max_size=40), st.integers(0, 40), st.text(max_size=20))
def test_spec_17_6_output_changes_give_exactly_the_new_output(old: str, cut: int, more: str) -> None:
    new = old[cut:] + more
    change = text_change(old, new)
    if "set" in change:
        result = change["set"]
    else:
        units = old.encode("utf-16-le", "surrogatepass")[change.get("trimStart", 0) * 2 :]
        result = units.decode("utf-16-le", "surrogatepass") + change.get("append", "")
    assert result == new


@pytest.mark.parametrize("growth", ["x", "a sliding window of text " * 5])
def test_l02_a_sliding_window_is_not_told_anew(growth: str) -> None:
    old = "".join(f"line {number}\n" for number in range(100))
    new = old[700:] + growth
    assert text_change(old, new) == {"trimStart": 700, "append": growth}
