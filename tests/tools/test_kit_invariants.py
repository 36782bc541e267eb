"""The invariant checker itself goes red on each kind of broken state."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import pytest

from durable_tui.storage.records import Batch
from tests.tools.effects import Effect, Effects
from tests.tools.folding import BadOp, fold
from tests.tools.invariants import State, check_history, check_state


def _task(number: int, kind: str, state: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {
        "id": number,
        "conversationId": 1,
        "kind": kind,
        "version": 1,
        "input": {},
        "background": False,
        "abortRequested": False,
        "state": state,
        **more,
    }


def _entry(number: int, kind: str, message: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {"id": number, "conversationId": 1, "kind": kind, "model": [message], **more}


def _good() -> State:
    """One run in its tool round: a call done, a call running, a follow-up queued, an older input answered."""
    call = {"type": "toolCall", "id": "a", "name": "note", "arguments": {}}
    return State(
        conversations={1: {"id": 1}},
        entries={
            10: _entry(10, "pi.user", {"role": "user", "content": "first"}),
            11: _entry(11, "pi.assistant", {"role": "assistant", "content": [], "stopReason": "stop"}),
            12: _entry(12, "pi.user", {"role": "user", "content": "second"}),
            13: _entry(
                13,
                "pi.assistant",
                {"role": "assistant", "stopReason": "toolUse", "content": [call, {**call, "id": "b"}]},
                byTaskId=31,
            ),
            14: _entry(14, "pi.tool-result", {"role": "toolResult", "toolCallId": "a"}, byTaskId=32),
        },
        entry_seqs={10: 2, 11: 3, 12: 4, 13: 5, 14: 6},
        submissions={
            20: {"id": 20, "conversationId": 1, "type": "input", "status": "done", "entry": 10, "answer": 11},
            21: {"id": 21, "conversationId": 1, "type": "input", "status": "placed", "entry": 12, "requestId": "r"},
            22: {"id": 22, "conversationId": 1, "type": "input", "status": "queued"},
            23: {"id": 23, "conversationId": 1, "type": "input", "status": "unanswered", "reason": "aborted"},
        },
        tasks={
            30: _task(
                30,
                "pi.generation",
                {"status": "terminal", "outcome": {"status": "completed", "result": {}}},
                startedAt=1,
                endedAt=2,
            ),
            31: _task(
                31,
                "pi.generation",
                {"status": "waiting", "checkpoint": {"phase": "tools"}, "on": [32, 33], "policy": "allSettled"},
            ),
            32: _task(
                32,
                "pi.tool",
                {"status": "terminal", "outcome": {"status": "completed", "result": {"entryId": 14}}},
                owner=31,
                endedAt=3,
                input={"assistant": 13, "callId": "a"},
            ),
            33: _task(
                33,
                "pi.tool",
                {"status": "running", "checkpoint": {"phase": "execute"}},
                owner=31,
                input={"assistant": 13, "callId": "b"},
            ),
        },
        live_ids=[31, 33],
        document_ids=[40, 41],
        documents={
            1: {
                "pi.inbox": {"items": [{"id": 22, "mode": "followUp", "content": "x"}]},
                "pi.live": {
                    "run": {"taskId": 31, "inputs": [21]},
                    "generation": {"attempt": 1},
                    "tools": [
                        {"callId": "a", "name": "note", "taskId": 32, "status": "done", "entry": 14},
                        {"callId": "b", "name": "note", "taskId": 33, "status": "running"},
                    ],
                },
            }
        },
        session_documents={
            "dt.recovery": {
                "deaths": [
                    {
                        "epoch": 1,
                        "pid": 1,
                        "host": "h",
                        "openedAt": 1,
                        "foundBy": 2,
                        "foundAt": 2,
                        "tasks": [
                            {
                                "taskId": 30,
                                "conversationId": 1,
                                "kind": "pi.generation",
                                "phase": "request",
                                "doing": "asking m",
                                "verdict": "resent",
                                "seq": 3,
                                "rule": "15",
                            }
                        ],
                    }
                ]
            }
        },
        task_documents={30: [], 32: []},
        seqs=[1, 2, 3, 4, 5, 6],
        epochs=[1, 1, 1, 1, 2, 2],
    )


def test_a_good_state_passes() -> None:
    assert check_state(_good()) == []


def _set(*path: Any) -> Callable[[State], None]:
    """`_set("tasks", 33, "owner", 99)`: change one value; the last part is the value."""

    def change(state: State) -> None:
        holder: Any = getattr(state, path[0])
        for key in path[1:-2]:
            holder = holder[key]
        holder[path[-2]] = path[-1]

    return change


def _drop(*path: Any) -> Callable[[State], None]:
    def change(state: State) -> None:
        holder: Any = getattr(state, path[0])
        for key in path[1:-1]:
            holder = holder[key]
        del holder[path[-1]]

    return change


def _attr(name: str, value: Any) -> Callable[[State], None]:
    return lambda state: setattr(state, name, value)


LIVE = ("documents", 1, "pi.live")
ROW = ("session_documents", "dt.recovery", "deaths", 0, "tasks", 0)
BREAKS: list[tuple[str, Callable[[State], None], str]] = [
    ("seq repeats", _attr("seqs", [1, 2, 3, 4, 5, 5, 6]), "strictly"),
    ("epoch goes back", _attr("epochs", [2, 1]), "epoch"),
    ("id twice", _attr("document_ids", [40, 33]), "used 2 times"),
    ("entry without commit", _set("entry_seqs", 14, 77), "unknown"),
    ("entry committed early", _set("entry_seqs", 14, 1), "earlier"),
    ("index misses a live task", _attr("live_ids", [31]), "index"),
    ("task without conversation", _set("tasks", 30, "conversationId", 9), "does not exist"),
    ("owner missing", _set("tasks", 33, "owner", 99), "does not exist"),
    ("owner elsewhere", _set("tasks", 31, "conversationId", 2), "another conversation"),
    ("owner ended", _set("tasks", 33, "owner", 30), "ended owner"),
    ("background under a task", _set("tasks", 33, "background", True), "background"),
    ("owner cycle", _set("tasks", 31, "owner", 33), "reachable"),
    ("no phase", _set("tasks", 33, "state", "checkpoint", {}), "phase"),
    ("live and ended", _set("tasks", 33, "endedAt", 4), "ended"),
    ("no outcome", _set("tasks", 30, "state", {"status": "terminal"}), "outcome"),
    ("terminal without end", _drop("tasks", 30, "endedAt"), "endedAt"),
    ("ends before start", _set("tasks", 30, "endedAt", 0), "before it started"),
    ("terminal with documents", _set("task_documents", 30, ["x"]), "live documents"),
    ("terminal with memos", _set("tasks", 30, "memos", {"m": 1}), "memos"),
    ("went on too early", _set("tasks", 33, "owner", 30), "had not ended"),
    ("unknown status", _set("tasks", 33, "state", "status", "napping"), "unknown status"),
    ("waits on nothing", _set("tasks", 31, "state", "on", []), "waits on"),
    ("waits on the unknown", _set("tasks", 31, "state", "on", [99]), "waits on"),
    ("queued but not in the inbox", _set("documents", 1, "pi.inbox", {"items": []}), "0 times in the inbox"),
    ("queued and placed", _set("submissions", 22, "status", "placed"), "in the inbox"),
    ("polling unseen", _set("tasks", 31, "state", "checkpoint", {"phase": "poll", "pollAt": 9}), "to poll at"),
    ("polling in vain", _set(*LIVE, "generation", "deferred", {"pollAt": 9}), "to poll at"),
    ("two states", _set(*LIVE, "generation", {"retry": {}, "message": {}}), "more than one"),
    ("placed but not listed", _set(*LIVE, "run", "inputs", []), "listed 0 times"),
    ("listed but done", _set(*LIVE, "run", "inputs", [21, 20]), "listed 1 times"),
    ("placed without entry", _drop("submissions", 21, "entry"), "without its entry"),
    ("done without answer", _drop("submissions", 20, "answer"), "without an answer"),
    ("answered before asked", _set("submissions", 20, "entry", 12), "without an answer"),
    ("unanswered for nothing", _drop("submissions", 23, "reason"), "unanswered for None"),
    ("request id twice", _set("submissions", 22, "requestId", "r"), "2 submissions"),
    ("entry placed twice", _set("submissions", 21, "entry", 10), "placed by 2"),
    ("no run for a live generation", _drop(*LIVE, "run"), "no run"),
    ("run of a dead task", _set(*LIVE, "run", "taskId", 30), "the run names task 30"),
    ("slot of a stranger", _set(*LIVE, "tools", 0, "callId", "z"), "does not call"),
    ("slot task unknown", _set(*LIVE, "tools", 1, "taskId", 98), "no tool task"),
    ("slot done too early", _set(*LIVE, "tools", 1, "status", "done"), "its task is not"),
    ("slot still running", _set(*LIVE, "tools", 0, "status", "running"), "has ended"),
    ("slot entry unknown", _set(*LIVE, "tools", 0, "entry", 99), "unknown entry"),
    ("result without call", _set("entries", 14, "model", 0, "toolCallId", "q"), "nobody called"),
    ("result too early", _set("tasks", 33, "input", "callId", "a"), "still at work"),
    ("ended without result", _set("tasks", 32, "state", "outcome", "result", {"entryId": 99}), "without the result"),
    ("two messages", _set("entries", 10, "model", []), "not one user message"),
    ("unknown writer", _set("entries", 14, "byTaskId", 99), "unknown task"),
    ("verdict without a rule", _drop(*ROW, "rule"), "without seq or rule"),
    ("verdict by a rule without a sentence", _set(*ROW, "rule", "99"), "without seq or rule"),
    ("verdict of no kind", _set(*ROW, "verdict", "fine"), "without seq or rule"),
    ("row of nobody", _set(*ROW, "taskId", 99), "unknown task"),
    ("problem while reading", _attr("problems", ["does not fold"]), "does not fold"),
]


@pytest.mark.parametrize(("name", "change", "says"), BREAKS, ids=[name for name, _, _ in BREAKS])
def test_each_broken_state_is_found(name: str, change: Callable[[State], None], says: str) -> None:
    state = copy.deepcopy(_good())
    change(state)
    found = check_state(state)
    assert any(says in line for line in found), found


def test_two_results_for_one_call_are_found() -> None:
    state = _good()
    state.entries[15] = {**state.entries[14], "id": 15}
    state.entry_seqs[15] = 6
    assert any("2 results" in line for line in check_state(state))


def test_a_settled_call_without_result_is_found() -> None:
    state = _good()
    del state.entries[14]
    del state.entry_seqs[14]
    state.entries[16] = _entry(16, "pi.assistant", {"role": "assistant", "content": [], "stopReason": "stop"})
    state.entry_seqs[16] = 6
    assert any("no results for ['a', 'b']" in line for line in check_state(state))


def _batch(seq: int, **what: Any) -> Batch:
    return Batch(seq=seq, at=seq, **what)


def test_history_only_goes_forward() -> None:
    submission = {"id": 5, "conversationId": 1, "type": "input", "status": "placed"}
    task = _task(6, "pi.tool", {"status": "terminal", "outcome": {}}, endedAt=1)
    marked = {**_task(8, "pi.tool", {"status": "running"}), "abortRequested": True}
    entry = _entry(7, "pi.user", {"role": "user"})
    good = [
        _batch(1, submissions=[{**submission, "status": "queued"}]),
        _batch(2, submissions=[submission]),
        _batch(3, tasks=[task], entries=[entry]),
    ]
    assert check_history(good) == []
    assert any("strictly" in line for line in check_history([good[1], good[0]]))
    assert any(
        "goes from placed to queued" in line
        for line in check_history([good[1], _batch(3, submissions=[{**submission, "status": "queued"}])])
    )
    assert any("ended task 6" in line for line in check_history([*good, _batch(4, tasks=[task])]))
    assert any("written again" in line for line in check_history([*good, _batch(4, entries=[entry])]))
    assert any("older id" in line for line in check_history([*good, _batch(4, entries=[{**entry, "id": 3}])]))
    assert any(
        "loses its abort mark" in line
        for line in check_history([_batch(1, tasks=[marked]), _batch(2, tasks=[{**marked, "abortRequested": False}])])
    )


def test_folding_is_strict() -> None:
    ops = [
        ["s", ["a"], [1]],
        ["s", ["a", 1], 2],
        ["p", ["a"], 0, 1, ["x", "y"]],
        ["a", ["a", 0], "z"],
        ["m", ["a"], [2, 0, 1]],
        ["d", ["a", 1]],
        ["s", ["t"], "\U0001f600bc"],
        ["t", ["t"], 2],
    ]
    assert fold({}, [ops]) == {"a": [2, "y"], "t": "bc"}
    assert fold(1, [[["r", [1, 2]], ["p", [], 1, 1, [3]]]]) == [1, 3]
    for bad in (
        ["s", ["q", "r"], 1],
        ["d", ["q"]],
        ["a", ["t"], "x"],
        ["s", ["l", 2], 1],
        ["m", ["l"], [0, 0]],
        ["p", ["l"], 2, 0, []],
        ["x", []],
    ):
        with pytest.raises(BadOp):
            fold({"l": [1], "t": 3}, [[bad]])


def test_the_effect_log_reads_what_was_appended(tmp_path: Any) -> None:
    for log in (Effects(), Effects(tmp_path / "log")):
        log.append(4, "note", "two words")
        log.append(5, "peek", "")
        assert log.read() == [Effect(4, "note", "two words"), Effect(5, "peek", "")]
        assert log.texts("note") == ["two words"]
    assert {tool.name for tool in Effects().extension().tools} >= {"note", "peek", "slow", "boom", "seq", "step"}
