"""Esc in every phase of a request, at the real screen and a real model server (case A02)."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.tools.model_server import ModelServer
from tests.tools.screen_kit import Seat

pytestmark = pytest.mark.terminal

SLOW = " ".join(f"word{number}" for number in range(300))


@pytest.fixture
def seat(tmp_path: Path) -> Iterator[Seat]:
    seat = Seat(tmp_path)
    yield seat
    seat.wait_gone()


def test_a02_esc_stops_the_third_attempt_and_a_later_turn_and_leaves_the_other_keys_alone(seat: Seat) -> None:
    down = {"status": 503, "body": "overloaded", "times": 1}
    script = {
        "match": {"second": [{"text": SLOW, "delay": 60}], "third": [{"text": "An answer."}]},
        "turns": [{"text": SLOW, "delay": 60, "faults": [down, down]}],
    }
    with ModelServer(script, strict=True) as server, seat.open_served(server) as window:
        window.say("first")
        window.wait_for("attempt 3")
        window.wait_for("word1 ")
        asked = len(server.requests)
        window.press("escape")
        pressed = time.monotonic()
        window.wait_state("ready")
        assert time.monotonic() - pressed < 3
        assert asked == 3 and "attempts" not in window.text, "the third attempt was stopped; none was used up"
        window.say("second")
        window.wait_state("running")
        window.wait_for(lambda: len(server.requests) == 4)
        window.press("escape")
        window.wait_state("ready")
        window.press("up")
        window.wait_for(lambda: window.composing == "second")
        window.press("up")
        window.wait_for(lambda: window.composing == "first")
        window.press("down", "down")
        window.wait_taken()
        window.say("third")
        window.wait_for("An answer.")
        window.wait_state("ready")
        assert len(server.requests) == 5 and not server.violations
    assert seat.said() == ["first", "second", "third"]
    assert not seat.problems()


def test_a01_esc_in_the_wait_before_a_retry_sends_nothing_more_and_shows_no_error(seat: Seat) -> None:
    down = {"status": 429, "body": "slow down", "headers": {"retry-after": "40"}}
    with ModelServer([{"text": "never", **down}], strict=True) as server, seat.open_served(server) as window:
        window.say("go")
        window.wait_for("retry")
        window.press("escape")
        window.wait_state("ready")
        window.pump(0.5)
        assert len(server.requests) == 1
        (settled,) = seat.state().submissions.values()
        assert (settled["status"], settled["reason"]) == ("unanswered", "aborted")
    assert not seat.problems()
