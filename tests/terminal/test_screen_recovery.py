"""What the real screen shows and does after it was killed (spec 15; case UI-R01)."""

from __future__ import annotations

import json
import os
import random
import re
import signal
import sqlite3
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from durable_tui.engine.rules import RULES
from tests.tools.model_server import ModelServer
from tests.tools.pty_kit import wait_until
from tests.tools.screen_kit import Seat, Window
from tests.tools.strict_server import StrictServer

pytestmark = pytest.mark.terminal

STEPS = 5
KILLS = 6
SLEEP = [
    {"text": "I run it.", "calls": [{"name": "bash", "args": {"command": "echo started; sleep 60"}}]},
    {"text": "I have been told."},
]


@pytest.fixture
def seat(tmp_path: Path) -> Iterator[Seat]:
    seat = Seat(tmp_path)
    yield seat
    seat.wait_gone()


def at_work_in_a_tool(window: Window) -> None:
    """`sleep 60` runs, and what it said before is stored."""
    window.say("run it")
    window.wait_store(
        lambda state: any(slot.get("output") for slot in state.live(1).get("tools") or ()), "the durable output"
    )


def killed_in_a_tool(seat: Seat, window: Window) -> None:
    """The screen is killed while `sleep 60` runs."""
    at_work_in_a_tool(window)
    window.kill_app()
    seat.wait_gone()


def test_five_steps_through_the_screen_survive_kills_and_nobody_types_again(seat: Seat, tmp_path: Path) -> None:
    seed = random.SystemRandom().randrange(1 << 30)
    print(f"seed {seed}")
    rng = random.Random(seed)
    with StrictServer(tmp_path / "requests.jsonl") as server:
        seat.served_by(server.url)
        with seat.open() as window:
            window.say("STEPS " + json.dumps({"count": STEPS, "seconds": 0.3}))
            window.kill_app()
            seat.wait_gone(3.0)
        for _ in range(KILLS):
            with seat.open(ready=False) as window:
                until = time.monotonic() + rng.uniform(0.4, 2.2)
                while time.monotonic() < until:
                    window.pump()
                if "All steps are done." in window.text:
                    break
                assert window.kill_app() == 137
                seat.wait_gone(3.0)
        with seat.open() as window:
            window.wait_for("All steps are done.", 60)
            window.wait_state("ready")
            assert "not decided yet" not in window.text
        assert not server.violations(), f"seed {seed}"
    for step in range(1, STEPS + 1):
        lines = (seat.project / f"step{step}.txt").read_text().splitlines()
        assert len(lines) == 1, f"seed {seed}: step{step}.txt was made {len(lines)} times"
    assert not seat.problems(), f"seed {seed}"
    assert len(seat.said()) == 1


def test_spec_15_paused_shows_the_found_rows_undecided_and_starting_decides_them(seat: Seat) -> None:
    with ModelServer(SLEEP, strict=True) as server:
        with seat.open_served(server) as window:
            killed_in_a_tool(seat, window)
        asked = len(server.requests)
        with seat.open("--paused", size=(120, 40)) as window:
            window.wait_for("found after a crash")
            window.wait_for("echo started; sleep 60")
            window.wait_state("paused")
            assert "interrupted" not in window.text and "running" not in "".join(window.screen[:2])
            before = seat.state()
            assert all("verdict" not in task for task in seat_recovery(seat)["tasks"])
            assert len(server.requests) == asked and seat.state().seqs == before.seqs, "nothing moves"
            window.press("f6", "enter")  # in one go: Enter belongs to what F6 leads to, and starts nothing
            window.wait_for("last commit")
            window.wait_for("It was unfinished when the process ended")
            window.press("escape")
            window.wait_for(lambda: "last commit" not in window.text)
            assert seat.state().seqs == before.seqs
            window.press("f8", "enter")
            window.wait_for("I have been told.")
            window.wait_for("recovered from a crash")
            window.wait_state("ready")
        assert len(server.requests) == asked + 1
        assert {task["verdict"] for task in seat_recovery(seat)["tasks"]} >= {"interrupted"}
        assert not server.violations
    assert not seat.problems()


def test_spec_15_the_card_says_what_killed_the_screen(seat: Seat) -> None:
    seat.write(SLEEP)
    with seat.open() as window:
        killed_in_a_tool(seat, window)
    with seat.open("--paused", size=(120, 40)) as window:
        window.wait_for("found after a crash")
        window.wait_line("process", "died", ": killed by SIGKILL")
        window.press("f6", "enter")
        window.wait_line("ended", "killed by SIGKILL")
    assert not list((seat.home / "sessions").glob("*.files/ends")), "the launcher's file has done its work"
    assert "(killed by SIGKILL)" in seat.run("show", str(seat.path)).stdout


@pytest.mark.parametrize("leaving", ["quit", "SIGTERM", "SIGHUP"])
def test_spec_15_a_command_that_quitting_ended_has_a_card_that_tells_of_a_close(seat: Seat, leaving: str) -> None:
    seat.write(SLEEP)
    with seat.open() as window:
        at_work_in_a_tool(window)
        if leaving == "quit":
            window.press("ctrl+q")
        else:
            window.signal(signal.Signals[leaving])
        assert window.wait() == (0 if leaving == "quit" else 128 + signal.Signals[leaving])
        seat.wait_gone()
    assert not list((seat.home / "sessions").glob("*.files/ends")), "there was no death to tell of"
    with seat.open(size=(120, 40)) as window:
        wait_recovered(window, "found after a close", "taken up after a close")
        window.wait_line("process", "was closed")
        window.wait_for("may have partly run; the model was told")
        window.wait_for("interrupted by a close at")
        assert "crash" not in window.text and "died" not in window.text
    death = seat_recovery(seat)
    assert [task["phase"] for task in death["tasks"]] == ["execute"]
    assert not seat.problems()


def test_spec_15_a_screen_that_switches_away_from_a_command_ends_it_as_a_close(seat: Seat) -> None:
    seat.write(SLEEP)
    with seat.open() as window:
        at_work_in_a_tool(window)
        first = seat.path
        window.say("/new")
        wait_until(lambda: seat.state(first).session_documents.get("dt.recovery"), "the row of the close")
        window.kill_app()
    seat.wait_gone()
    (row,) = seat.state(first).session_documents["dt.recovery"]["deaths"]
    assert row["ended"] == "closed"


def wait_recovered(window: Window, found: str, decided: str) -> None:
    """Until the run went on to its end, and the card says so as it said before that something was found."""
    window.wait_for("I have been told.")
    window.wait_state("ready")
    window.wait_for(decided)
    first, then = (window.raw.find(text.encode()) for text in (found, decided))
    assert 0 <= first < then, "the rows stood there before any was decided"


def seat_recovery(seat: Seat) -> dict[str, list[dict[str, object]]]:
    """The newest death of `dt.recovery`."""
    death = seat.state().session_documents["dt.recovery"]["deaths"][-1]
    assert isinstance(death, dict)
    return death


def test_spec_15_ui_r01_found_rows_are_painted_first_and_each_explains_itself(seat: Seat) -> None:
    seat.write(SLEEP)
    with seat.open() as window:
        killed_in_a_tool(seat, window)
    with seat.open(size=(120, 40)) as window:
        wait_recovered(window, "found after a crash", "recovered from a crash")
        window.wait_for("may have partly run; the model was told")
        window.press("f6", "down", "enter")
        window.wait_for("rule")
        death = seat_recovery(seat)
        row = next(task for task in death["tasks"] if task.get("verdict") == "interrupted")
        assert re.search(rf"last commit +#{death['lastSeq']} ", window.text), window.text
        assert re.search(rf"decided +in commit #{row['seq']} ", window.text), window.text
        assert re.search(rf"rule +{RULES[row['rule']][:40]}", window.text), window.text
        assert str(death["pid"]) in window.text
        window.press("escape")
        window.wait_for(lambda: "last commit" not in window.text)
        assert not seat.state().live_ids, "case UI-R01: nothing is shown as running without a live task"
        window.press("f4")
        window.wait_for(lambda: "running" not in "".join(window.screen[:2]))
    assert not seat.problems()


def test_ui_r02_a_dead_owners_pid_that_another_process_has_now_keeps_nobody_out(seat: Seat) -> None:
    seat.write(SLEEP)
    with seat.open() as window:
        killed_in_a_tool(seat, window)
    with sqlite3.connect(seat.path) as raw:
        raw.execute("UPDATE owners SET pid = ? WHERE epoch = (SELECT max(epoch) FROM owners)", (os.getpid(),))
    raw.close()
    with seat.open() as window:
        window.wait_for("I have been told.")


def test_ui_r05_ui_r10_messages_and_context_come_from_the_store_and_not_from_a_cache(seat: Seat) -> None:
    seat.write([{"text": "The answer stands in the store."}])
    with seat.open() as window:
        window.say("where does it stand")
        window.wait_for("The answer stands in the store.")
        window.wait_state("ready")
        window.wait_state("tokens")
        context = re.search(r"\S+ tokens", window.text)
        window.kill_app()
    for cache in seat.home.glob("index.sqlite*"):
        cache.unlink()
    with seat.open() as window:
        window.wait_for("The answer stands in the store.")
        assert context and context[0] in window.screen[0]
        assert "found after a crash" not in window.text, "nothing was unfinished"


def test_ui_r13_killed_while_a_command_floods(seat: Seat) -> None:
    seat.write([{"calls": [{"name": "bash", "args": {"command": "yes flood | head -c 2G"}}]}, {"text": "It goes on."}])
    with seat.open() as window:
        window.say("flood")
        window.wait_line("flood", "│")
        window.kill_app()
        seat.wait_gone()
    assert sum(file.stat().st_size for file in (seat.home / "sessions").glob("*.sqlite*")) < 20_000_000
    with seat.open() as window:
        window.wait_for("It goes on.")
        window.wait_state("ready")
    assert not seat.problems()


def test_ui_r19_an_empty_session_opens_again(seat: Seat) -> None:
    for _ in range(2):
        with seat.open() as window:
            window.press("ctrl+q")
            assert window.wait() == 0
    with seat.open() as window:
        window.say("now")
        window.wait_for("It is done.")


def test_ui_r18_ui_r21_the_hint_after_a_kill_names_the_home_and_works_as_it_stands(tmp_path: Path) -> None:
    seat = Seat(tmp_path / "a home's place")
    with seat.open(size=(200, 30)) as window:
        window.say("hello")
        window.wait_for("It is done.")
        window.wait_state("ready")
        assert window.kill_app() == 137
        hint = re.search(rb"Continue: ([^\r\n]+)", window.raw)
        assert hint, window.raw[-500:]
    environment = {name: value for name, value in seat.environment.items() if name != "DURABLE_TUI_HOME"}
    assert b"DURABLE_TUI_HOME=" in hint[1]
    seat.environment = environment
    seat.command = lambda *words: ["sh", "-c", "exec env " + hint[1].decode()]  # type: ignore[method-assign]
    with Window(seat, (), (100, 30), {}) as window:
        window.wait_ready()
        window.wait_for("It is done.")
    seat.wait_gone()


def test_ui_a07_a_child_that_keeps_the_output_open_does_not_hold_the_call(seat: Seat) -> None:
    seat.write([{"calls": [{"name": "bash", "args": {"command": "sleep 100 & echo done"}}]}, {"text": "It went on."}])
    with seat.open() as window:
        window.say("start it")
        window.wait_for("It went on.")
        assert not [line for line in seat.alive() if line.endswith("sleep 100")], "it went with its call"
        window.press("ctrl+q")
        assert window.wait() == 0
    assert not seat.problems()
