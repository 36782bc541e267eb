"""Gates: when each form is open, and when the scheduler is woken for a time (spec 6.12)."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any

import pytest

from durable_tui.agent.asks import ASK_BOOK
from durable_tui.agent.documents import ASKS
from durable_tui.engine.gates import LONGEST_SLEEP, Gates, Timer, again, released, time_gate
from durable_tui.session import DocumentState
from tests.tools.schedules import run

NOW = 1_000_000


def _session(now: int = NOW, submissions: Any = (), asks: DocumentState | None = None) -> Any:
    return SimpleNamespace(
        now=lambda: now, submissions=submissions, preparers=[], cached_document={ASKS.address(): asks}.get
    )


def _is_open(gate: Any, session: Any) -> bool:
    return Gates(session, ASK_BOOK).is_open(gate)


def _asks(*asks: Any, version: int = 1) -> DocumentState:
    return DocumentState({}, version, {"asks": list(asks)}, 0)  # type: ignore[typeddict-item]


@pytest.mark.parametrize(
    ("now", "opened"), [(NOW - 1, True), (NOW, False), (NOW + 4999, False), (NOW + 5000, True), (NOW + 9000, True)]
)
def test_a_gate_opens_at_its_time_and_when_the_clock_went_back_behind_its_beginning(now: int, opened: bool) -> None:
    assert _is_open(time_gate("retry", NOW + 5000, NOW), _session(now)) is opened


def test_a_gate_on_a_submission_is_closed_while_that_is_unsettled() -> None:
    gate = {"reason": "accept", "submission": 7}
    assert not _is_open(gate, _session(submissions={7: {"status": "placed"}}))
    assert _is_open(gate, _session(submissions={8: {"status": "placed"}}))


@pytest.mark.parametrize(
    ("asks", "opened"),
    [
        (None, False),
        (_asks(), False),
        (_asks({"askId": "a", "at": NOW}), False),
        (_asks({"askId": "b", "at": NOW, "answer": {"decision": "once", "at": NOW}}), False),
        (_asks({"askId": "a", "at": NOW, "answer": {"decision": "deny", "at": NOW}}), True),
        (_asks({"askId": "a", "at": NOW, "answer": {"decision": "once", "at": NOW}}, version=2), False),
    ],
    ids=["no document", "no ask", "unanswered", "another's answer", "answered", "a newer program's document"],
)
def test_a_gate_on_an_ask_opens_with_its_answer(asks: DocumentState | None, opened: bool) -> None:
    assert _is_open({"reason": "approval", "ask": "a"}, _session(asks=asks)) is opened


def test_a_persons_gate_opens_by_release_alone_whatever_the_clock_does_then() -> None:
    state = {"status": "pending", "checkpoint": {"phase": "one"}, "gate": {"reason": "idle", "person": True}}
    record: Any = {"id": 5, "abortRequested": False, "state": state}
    assert not _is_open(state["gate"], _session())
    free = released(record, NOW)
    assert free["state"] == {**state, "gate": {"reason": "idle", "time": NOW, "since": NOW}}
    for now in (NOW - 3_600_000, NOW, NOW + 1):
        assert _is_open(free["state"]["gate"], _session(now))  # type: ignore[typeddict-item]


@pytest.mark.parametrize("gate", [time_gate("retry", NOW + 1, NOW), {"reason": "a", "ask": "a"}, None])
def test_release_leaves_every_other_gate_alone_and_clears_the_count(gate: Any) -> None:
    state = {"status": "pending", "checkpoint": {"phase": "one"}, **({"gate": gate} if gate else {})}
    record: Any = {"id": 5, "restarts": 5, "state": state}
    assert released(record, NOW) == {"id": 5, "state": state}


def test_release_leaves_what_is_decided_alone() -> None:
    record: Any = {"id": 5, "restarts": 5, "state": {"status": "completing", "outcome": {"status": "aborted"}}}
    assert released(record, NOW) is record


def test_a_phase_waits_again_at_most_as_long_as_it_was_to_wait() -> None:
    assert again("retry", NOW, NOW - 5000, NOW) is None, "its time has come"
    waits = again("retry", NOW + 3_600_000, NOW + 3_595_000, NOW)
    assert waits == {"reason": "retry", "time": NOW + 5000, "since": NOW}, "an hour back, five seconds to wait"


def test_the_timer_wakes_once_for_the_least_time() -> None:
    async def body() -> list[float]:
        loop, woken = asyncio.get_running_loop(), []
        timer = Timer(_session(), lambda: woken.append(loop.time() - began))
        for times in ([NOW + 5000, NOW + 2000], [NOW - 1], [], [NOW + 3_600_000]):
            began = loop.time()
            timer.arm([time_gate("retry", at, NOW - 10) for at in times])
            await asyncio.sleep(100)
            woken.append(-1)
        return woken

    assert run(body()) == pytest.approx([2.0, -1, 0.0, -1, -1, LONGEST_SLEEP, -1])


def test_the_timer_can_be_taken_back() -> None:
    async def body() -> list[int]:
        woken: list[int] = []
        timer = Timer(_session(), lambda: woken.append(1))
        timer.arm([time_gate("retry", NOW + 1000, NOW)])
        timer.cancel()
        await asyncio.sleep(60)
        return woken

    assert run(body()) == []
