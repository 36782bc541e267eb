"""What is typed at the real screen is in the draft, in the inbox or placed, whatever happens to the program (case UI-Q03)."""

from __future__ import annotations

import random
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.tools.model_server import ModelServer, text_of
from tests.tools.pty_kit import wait_until
from tests.tools.screen_kit import Seat, Window, draft_of

pytestmark = pytest.mark.terminal

ROUNDS = 6
LONG = [{"text": "A long answer.", "delay": 300}]
STUBBORN = {"name": "bash", "args": {"command": "trap '' TERM; sleep 100"}}


@pytest.fixture
def seat(tmp_path: Path) -> Iterator[Seat]:
    seat = Seat(tmp_path)
    yield seat
    seat.wait_gone()


def texts(items: list[dict[str, Any]]) -> list[Any]:
    return [item["content"] for item in items]


def users(body: dict[str, Any]) -> list[str]:
    """The user messages of a request."""
    return [text_of(message) for message in body["messages"] if message["role"] == "user"]


# --- under SIGKILL ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("stored", [True, False], ids=["the draft was stored before", "at once"])
def test_ui_q03_ui_q10_ui_q11_ui_l05_killed_around_enter_the_text_is_in_the_draft_or_in_the_inbox(
    seat: Seat, stored: bool
) -> None:
    seed = random.SystemRandom().randrange(1 << 30)
    print(f"seed {seed}")
    rng = random.Random(seed)
    seat.write(LONG, extra="[settings]\nrestart_limit = 1000")
    with seat.open() as window:
        window.say("begin")
        window.wait_state("running")
        window.kill_app()
    queued = 0
    for number in range(ROUNDS):
        text = f"message number {number}"
        with seat.open() as window:
            window.wait_state("running")
            window.wait_taken()
            window.type(text)
            if stored:
                window.wait_store(lambda state, text=text: draft_of(state) == text, "the stored draft")
            window.press(rng.choice(["enter", "alt+enter"]))
            until = time.monotonic() + rng.uniform(0, 0.1)
            while time.monotonic() < until:
                window.pump(0.001)
            emptied = window.composing == ""
            window.kill_app()
        state = seat.state()
        taken = text in texts(state.inbox(1))
        if emptied:
            assert taken, f"seed {seed}: round {number}: the composer was empty and the text is nowhere"
        if stored or taken:
            assert taken != (draft_of(state) == text), f"seed {seed}: round {number}: taken {taken}"
        if draft_of(state):
            with seat.open() as window:
                window.wait_for(lambda text=text: window.composing == text)
                window.press("enter")
                window.wait_taken()
                window.kill_app()
        queued += taken or draft_of(state) == text
    kept = texts(seat.inbox())
    assert len(kept) == len(set(kept)) == queued, "in the order typed, each once"
    assert kept == sorted(kept, key=lambda text: int(str(text).split()[-1]))
    assert not seat.problems(idle=False)


def test_ui_l05_a_draft_survives_a_kill_and_a_switch_of_sessions(seat: Seat) -> None:
    with seat.open() as window:
        window.type("half a thought, nobody sent it")
        window.wait_store(lambda state: draft_of(state) == "half a thought, nobody sent it", "the stored draft")
        window.kill_app()
    with seat.open() as window:
        window.wait_for(lambda: window.composing == "half a thought, nobody sent it")
        window.type(" and more")
        window.press("ctrl+q")
        assert window.wait() == 0
    assert seat.draft() == "half a thought, nobody sent it and more", "quitting stores what was typed last"


def test_ui_l05_a_draft_is_stored_while_one_goes_on_typing(seat: Seat) -> None:
    with seat.open() as window:
        deadline = time.monotonic() + 15
        while not draft_of(seat.state()):
            assert time.monotonic() < deadline, "typing without a pause stored nothing"
            for letter in "abcde ":
                window.press(letter)
                window.pump(0.02)


# --- steer and follow-up ------------------------------------------------------------------------------------


def test_a_steer_lands_after_the_tool_round_and_a_follow_up_after_the_answer(seat: Seat) -> None:
    wait = {"name": "bash", "args": {"command": "while [ ! -e go ]; do sleep 0.05; done; echo went"}}
    script = {
        "match": {"the follow-up": [{"text": "Answer to the follow-up."}], "the steer": [{"text": "Answer."}]},
        "turns": [{"text": "I wait.", "calls": [wait]}],
    }
    with ModelServer(script, strict=True) as server, seat.open_served(server) as window:
        window.say("the first")
        window.wait_line("bash", "while")
        window.say("the follow-up", "alt+enter")
        window.say("the steer")
        window.wait_store(lambda state: len(state.inbox(1)) == 2, "both in the inbox")
        assert [(item["mode"], item["content"]) for item in seat.inbox()] == [
            ("followUp", "the follow-up"),
            ("steer", "the steer"),
        ]
        window.wait_line("tasks · 2")
        (seat.project / "go").touch()
        window.wait_for("Answer to the follow-up.")
        window.wait_state("ready")
        asked = [users(body) for body in server.requests]
        assert asked == [
            ["the first"],
            ["the first", "the steer"],
            ["the first", "the steer", "the follow-up"],
        ]
        assert not server.violations
    assert not seat.problems()


def test_q10_what_is_queued_sorts_after_the_answer_it_follows_live_and_reopened(seat: Seat) -> None:
    with ModelServer([{"text": "Answer of some length.", "delay": 1.5}], strict=True) as server:
        with seat.open_served(server) as window:
            window.say("one")
            window.say("two", "alt+enter")
            window.wait_for(lambda: window.text.count("Answer of some length.") == 2)
            window.wait_state("ready")
            window.wait_for(lambda: order(window) == ["one", "Answer of some length.", "two", "Answer of some length."])
            window.kill_app()
        with seat.open() as window:
            window.wait_for(lambda: order(window) == ["one", "Answer of some length.", "two", "Answer of some length."])


def order(window: Window) -> list[str]:
    """What was said in the transcript, from the top."""
    lines = [line.strip().removeprefix("▎").split("  ")[0].strip() for line in window.screen[2:-4]]
    return [line for line in lines if line in ("one", "two", "Answer of some length.")]


# --- Esc and what waits -------------------------------------------------------------------------------------


def test_ui_a01_ui_q01_ui_q02_ui_q06_ui_q07_esc_parks_the_queue_and_an_empty_enter_releases_it(seat: Seat) -> None:
    script = {
        "match": {
            "newer": [{"text": "Answer to the newer."}],
            "waits one": [{"text": "Answer to one."}],
            "waits two": [{"text": "Answer to two."}],
        },
        "turns": [{"text": "I run it.", "calls": [STUBBORN]}],
    }
    with ModelServer(script, strict=True) as server:
        with seat.open_served(server) as window:
            window.say("run the stubborn")
            wait_until(lambda: [line for line in seat.alive() if line.endswith("sleep 100")], "the stubborn command")
            window.say("waits one", "alt+enter")
            window.say("waits two", "alt+enter")
            window.press("escape")
            pressed = time.monotonic()
            window.wait_state("stopping")
            window.wait_state("parked")
            assert time.monotonic() - pressed < 3.5, "case UI-A01"
            wait_until(lambda: not [line for line in seat.alive() if line.endswith("sleep 100")], "its end", 1.0)
            window.press("f3")
            window.wait_line("waits one")
            window.wait_line("parked", "waits one")
            window.wait_for("empty Enter releases")
            window.press("f8")
            assert [item.get("parked") for item in seat.inbox()] == [True, True]
            asked = len(server.requests)
            window.kill_app()
        with seat.open() as window:  # reopening releases nothing
            window.wait_state("parked")
            window.say("newer")
            window.wait_for("Answer to the newer.")
            window.wait_state("parked")
            assert texts(seat.inbox()) == ["waits one", "waits two"], "a new input goes first, the parked stay"
            assert len(server.requests) == asked + 1
            window.press("enter")
            window.wait_for("Answer to one.")
            window.wait_state("parked")
            window.press("enter")
            window.wait_for("Answer to two.")
            window.wait_state("ready")
        assert not server.violations
    assert seat.said() == ["run the stubborn", "newer", "waits one", "waits two"]
    assert not seat.problems()


def test_ui_q08_ui_q05_alt_up_takes_the_last_queued_back_and_each_can_be_edited_dropped_moved_promoted(
    seat: Seat,
) -> None:
    seat.write(LONG)
    with seat.open(size=(120, 30)) as window:
        window.say("begin")
        for text in ("first thing", "second thing", "third thing"):
            window.say(text, "alt+enter")
        window.press("alt+up")
        window.wait_for(lambda: window.composing == "third thing")
        window.wait_store(lambda state: texts(state.inbox(1)) == ["first thing", "second thing"], "the third is back")
        window.type(", better")
        window.press("alt+enter")
        window.wait_store(lambda state: texts(state.inbox(1))[2:] == ["third thing, better"], "the third, edited")
        window.press("f3")
        window.wait_line("Enter send", "e edit", "x drop", "p steer")
        window.press("J")
        window.wait_store(lambda state: texts(state.inbox(1))[0] == "second thing", "moved down")
        window.press("J")
        window.wait_store(lambda state: texts(state.inbox(1))[2] == "first thing", "moved down again, cursor and all")
        window.press("p")
        window.wait_store(lambda state: "steer" in [item["mode"] for item in state.inbox(1)], "promoted")
        window.press("x")
        window.wait_store(lambda state: len(state.inbox(1)) == 2, "dropped")
        assert texts(seat.inbox()) == ["second thing", "third thing, better"]
        window.wait_for(lambda: "first thing" not in window.text)
        window.press("e")
        window.wait_for(lambda: window.composing)
        window.wait_store(lambda state: len(state.inbox(1)) == 1, "one is edited")
        assert {window.composing, *texts(seat.inbox())} == {"second thing", "third thing, better"}
    assert not seat.problems(idle=False)


def test_q09_ui_q12_after_a_failed_run_what_waits_stays_visible_and_goes_before_a_new_input(seat: Seat) -> None:
    refused = {"status": 400, "body": {"error": {"message": "no such thing", "type": "invalid_request_error"}}}
    script = {
        "match": {"older": [{"text": "Answer to the older."}], "newer": [{"text": "Answer to the newer."}]},
        "turns": [{"calls": [{"name": "bash", "args": {"command": "sleep 1.5"}}]}, {"text": "", **refused}],
    }
    with ModelServer(script, strict=True) as server, seat.open_served(server) as window:
        window.say("will fail")
        window.wait_line("bash", "sleep 1.5")
        window.say("the older", "alt+enter")
        window.wait_for("no such thing")
        window.press("f3")
        window.wait_line("the older")
        window.press("f8")
        assert texts(seat.inbox()) == ["the older"]
        assert not window.composing
        window.say("the newer")
        window.wait_for("Answer to the newer.")
        assert window.text.index("Answer to the older.") < window.text.index("Answer to the newer.")
        assert seat.said() == ["will fail", "the older", "the newer"]


def test_ui_q13_enter_pressed_twice_sends_once(seat: Seat) -> None:
    with seat.open() as window:
        window.type("only once")
        window.write("\r\r\r")
        window.wait_for("It is done.")
        window.wait_state("ready")
    assert seat.said() == ["only once"]


def test_what_is_sent_while_the_run_is_stopping_is_kept_and_answered_next(seat: Seat) -> None:
    script = {"match": {"after": [{"text": "Answer to the after."}]}, "turns": [{"calls": [STUBBORN]}]}
    with ModelServer(script, strict=True) as server, seat.open_served(server) as window:
        window.say("run the stubborn")
        wait_until(lambda: [line for line in seat.alive() if line.endswith("sleep 100")], "the stubborn command")
        window.press("escape")
        window.wait_state("stopping")
        window.type("after")
        window.press("enter")
        window.wait_store(lambda state: draft_of(state) == "after" or "after" in texts(state.inbox(1)), "it is kept")
        window.wait_for("Answer to the after.")
        window.wait_taken()
    assert seat.draft() == ""
