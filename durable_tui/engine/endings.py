"""How an opening ended, in words for people (spec 15, 17.4)."""

from __future__ import annotations

import signal
from dataclasses import dataclass

from durable_tui.engine.shapes import Death, End

UNKNOWN = "how it ended is unknown"
_ASKING = ("SIGHUP", "SIGINT", "SIGTERM")  # by these a program is asked to end; by any other it is killed
_ASKED = {128 + signal.Signals[name]: name for name in _ASKING}  # the status of one that then ends by itself


@dataclass(slots=True, frozen=True)
class Ending:
    """The words: a process `verb` ("died"), work is found after `occasion` ("a crash") and then `taken_up`.

    `cause` is what ended a process that died ("killed by SIGKILL"), "" when it is not known; `how` says that too.
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
    cause = _cause(death["end"]) if "end" in death else ""
    return Ending("died", "a crash", "recovered from a crash", cause or UNKNOWN, cause)


def _cause(end: End) -> str:
    if end["by"] == "boot":
        return "the machine was restarted"
    if "signal" in end:
        return f"{'ended' if end['signal'] in _ASKING else 'killed'} by {end['signal']}"
    if "status" in end:
        asked = _ASKED.get(end["status"])
        return f"ended by {asked}" if asked else f"ended with status {end['status']}"
    return ""
