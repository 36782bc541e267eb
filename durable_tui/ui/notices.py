"""What the screen says before there is anything else to show: the welcome, and why a session would not open."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from durable_tui.ground.clock import clock
from durable_tui.ground.text import one_line
from durable_tui.storage.errors import SessionLocked
from durable_tui.ui.adapter.header import Header
from durable_tui.ui.adapter.rows import Row
from durable_tui.ui.open_session import TOUR
from durable_tui.ui.text.runs import Run

UNASKED = ("Commands the model runs are not asked about first:", "they run at once, and may change files.")
NO_MODEL = (
    "No model is configured, so the built-in tour answers:",
    "a script that needs no network.",
    "A key such as OPENAI_API_KEY, or a local server, brings a real one.",
)


def welcome(facts: Header) -> list[list[Run]]:
    """What stands in an empty transcript: where one is, who answers, and that nobody is asked."""
    lines: list[list[Run]] = [
        [("Ask for something to do in ", "dim"), (facts.cwd or "this directory", "bold")],
        [],
        *([(text, "attention")] for text in UNASKED),
    ]
    if facts.model == TOUR:
        lines += [[], *([(text, "dim")] for text in NO_MODEL)]
    return lines


@dataclass(slots=True, frozen=True)
class Refusal:
    """Why a session would not open, and what can be done instead: follow, new, sessions, quit."""

    title: str
    text: str
    rows: list[Row]
    owned: bool  # by another process: nothing is wrong with it


def refusal(error: BaseException, path: Path | None) -> Refusal:
    """`path` is the session asked for; one that is open elsewhere can be followed."""
    rows = [
        Row("new", [("a new session", "bold"), ("  in this directory", "dim")]),
        Row("sessions", [("another session", "bold"), ("  choose one", "dim")]),
        Row("quit", [("quit", "bold")]),
    ]
    if not isinstance(error, SessionLocked):
        return Refusal("cannot open", one_line(str(error) or type(error).__name__, 600), rows, False)
    owner = error.owner
    text = f"Process {owner.get('pid', '?')} on {owner.get('host', 'this host')} owns it"
    text += f", since {clock(owner.get('startedAt'))}." if owner.get("startedAt") else "."
    text += " Two would get in each other's way."
    if path is not None:
        rows.insert(0, Row("follow", [("follow", "bold"), ("  read-only, as it grows", "dim")]))
    return Refusal("this session is open elsewhere", text, rows, True)
