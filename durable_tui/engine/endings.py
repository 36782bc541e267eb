"""How an opening ended, in words for people (spec 15, 17.4)."""

from __future__ import annotations

from dataclasses import dataclass

from durable_tui.engine.shapes import Death

UNKNOWN = "how it ended is unknown"


@dataclass(slots=True, frozen=True)
class Ending:
    """The words: a process `verb` ("died"), work is found after `occasion` ("a crash") and then `taken_up`.

    `cause` is what ended a process that died ("the machine was restarted"), "" when it is not known; `how` says that too.
    """

    verb: str
    occasion: str
    taken_up: str
    how: str
    cause: str = ""


def ending(death: Death) -> Ending:
    """The words for a row of `dt.recovery`. Rows from before `ended` was kept are of deaths."""
    if death.get("ended") == "closed":
        return Ending("was closed", "a close", "taken up after a close", "in order, ending what ran")
    cause = "the machine was restarted" if "end" in death else ""
    return Ending("died", "a crash", "recovered from a crash", cause or UNKNOWN, cause)
