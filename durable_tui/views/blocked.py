"""Who can let a blocked task go on, told from its row (spec 6.9, 6.11, 6.12)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from durable_tui.engine.recovery import PARKED, RESTART_LIMIT

if TYPE_CHECKING:
    from durable_tui.views.shapes import TaskRow


def waits_for_person(row: TaskRow) -> bool:
    """Whether only a person can let the task go on: by a word, an answer, or what the program lacks."""
    return "blocked" in row and (row["blocked"] in PARKED or row.get("gate") in ("ask", "person"))


def is_retriable(row: TaskRow) -> bool:
    """Whether a person's word alone lets the task go on: `retry_task` does."""
    return "blocked" in row and (row["blocked"] == RESTART_LIMIT or row.get("gate") == "person")


def is_held(row: TaskRow) -> bool:
    """Whether a live task cannot move by itself: a person must act, or other work end, first."""
    waits_for_work = row["status"] in ("waiting", "completing") or (
        "blocked" in row and row.get("gate") == "submission"
    )
    return waits_for_work or waits_for_person(row)
