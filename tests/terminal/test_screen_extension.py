"""A kind of task that an extension brings, killed in each of its phases: the screen tells it like a built-in one."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.tools.invariants import State
from tests.tools.screen_kit import Seat, Window

pytestmark = pytest.mark.terminal

EXTENSION = Path(__file__).parents[1] / "data" / "extensions" / "reports.py"
TURNS = [
    {"text": "I begin it.", "calls": [{"name": "report", "args": {"name": "July"}}]},
    {"text": "It is on its way."},
]


@pytest.fixture
def seat(tmp_path: Path) -> Iterator[Seat]:
    seat = Seat(tmp_path)
    seat.write(TURNS)
    folder = seat.home / "extensions"
    folder.mkdir(mode=0o700, exist_ok=True)
    shutil.copy(EXTENSION, folder)
    yield seat
    seat.wait_gone()


def report_of(state: State) -> dict[str, Any]:
    return next(task for task in state.tasks.values() if task["kind"] == "reports.report")


def stands_at(status: str, phase: str) -> Any:
    def holds(state: State) -> bool:
        stored = report_of(state)["state"] if any(t["kind"] == "reports.report" for t in state.tasks.values()) else {}
        return stored.get("status") == status and stored.get("checkpoint", {}).get("phase") == phase

    return holds


def killed_at(seat: Seat, window: Window, status: str, phase: str) -> None:
    window.wait_store(stands_at(status, phase), f"the report {status} in {phase}")
    assert window.kill_app() == 137
    seat.wait_gone(3.0)


def shown_as_found(window: Window, *texts: str) -> None:
    """Nothing moves yet, and the card tells each task that was found, in its own kind's words."""
    window.wait_state("paused")
    window.wait_for("found after a crash")
    for text in texts:
        window.wait_for(text)
    assert "reports.report (" not in window.text, "its words, not the name of its kind alone"


def started(window: Window) -> None:
    window.press("f8", "enter")
    window.wait_for("recovered from a crash")


def test_spec_18_a_kind_of_an_extension_killed_in_each_phase_is_told_like_a_built_in_one(seat: Seat) -> None:
    with seat.open(size=(120, 40)) as window:
        window.say("make the report")
        window.wait_for("It is on its way.")
        killed_at(seat, window, "running", "gather")

    with seat.open("--paused", size=(120, 40)) as window:
        shown_as_found(window, "report July")
        started(window)
        window.wait_for("resumed")
        (seat.project / "gather").touch()
        window.wait_line("report July", "waiting")
        killed_at(seat, window, "waiting", "collect")

    with seat.open("--paused", size=(120, 40)) as window:
        shown_as_found(window, "report July", "page 1", "page 2")
        (seat.project / "write").touch()
        started(window)
        killed_at(seat, window, "running", "collect")

    with seat.open("--paused", size=(120, 40)) as window:
        shown_as_found(window, "report July")
        (seat.project / "collect").touch()
        started(window)
        window.wait_store(lambda _: (seat.project / "printed").exists(), "the effect")
        killed_at(seat, window, "running", "send")

    with seat.open("--paused", size=(120, 40)) as window:
        shown_as_found(window, "report July")
        started(window)
        window.wait_for("the printer does not tell")
        window.wait_state("ready")
        window.press("f6", "down", "enter")
        window.wait_for("rule")
        window.press("escape")
    assert (seat.project / "printed").read_text() == "one report\n", "the effect is not repeated"
    state = seat.state()
    assert report_of(state)["state"]["outcome"]["error"]["message"] == "nobody knows whether it was printed"
    assert state.documents[1]["reports.notes"] == {}, "its own cleanup ran"
    verdicts = [
        row["verdict"]
        for death in state.session_documents["dt.recovery"]["deaths"]
        for row in death["tasks"]
        if row["kind"] == "reports.report"
    ]
    assert verdicts == ["resumed", "woken", "resumed", "interrupted"]
    assert not seat.problems()
