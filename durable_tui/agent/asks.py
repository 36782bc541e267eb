"""`dt.asks`: what somebody was asked, and what was answered (spec 17.4)."""

from __future__ import annotations

from durable_tui.agent.documents import ASKS
from durable_tui.agent.shapes import Asks
from durable_tui.engine.gates import AskBook


def is_answered(value: Asks, ask_id: str) -> bool | None:
    """Whether an ask has its answer; None when it is not known."""
    return next(("answer" in ask for ask in value["asks"] if ask["askId"] == ask_id), None)


ASK_BOOK = AskBook(ASKS, is_answered)
