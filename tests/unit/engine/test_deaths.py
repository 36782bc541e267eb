"""The rows of the report and the words for how an opening ended (spec 15, 17.4)."""

from __future__ import annotations

from typing import Any

import pytest

from durable_tui.engine.deaths import KEPT_DEATHS, keep
from durable_tui.engine.endings import ending


def _row(epoch: int, **more: Any) -> Any:
    return {"epoch": epoch, "ended": "died", "foundBy": epoch + 1, "tasks": [], **more}


@pytest.mark.parametrize(
    ("end", "words"),
    [
        ({"by": "launcher", "signal": "SIGKILL", "at": 1}, "killed by SIGKILL"),
        ({"by": "launcher", "signal": "SIGSEGV", "at": 1}, "killed by SIGSEGV"),
        ({"by": "launcher", "signal": "SIGHUP", "at": 1}, "ended by SIGHUP"),
        ({"by": "launcher", "status": 143, "at": 1}, "ended by SIGTERM"),
        ({"by": "launcher", "status": 1, "at": 1}, "ended with status 1"),
        ({"by": "boot"}, "the machine was restarted"),
    ],
)
def test_spec_17_4_how_an_opening_died_is_told_in_words(end: Any, words: str) -> None:
    told = ending(_row(3, end=end))
    assert (told.verb, told.cause, told.how, told.occasion) == ("died", words, words, "a crash")


@pytest.mark.parametrize("row", [_row(3), {"epoch": 3, "tasks": []}, _row(3, end={"by": "runner"})])
def test_spec_17_4_an_end_nobody_saw_is_called_unknown(row: Any) -> None:
    told = ending(row)
    assert (told.verb, told.cause, told.how) == ("died", "", "how it ended is unknown")


def test_spec_15_a_close_is_not_called_a_death() -> None:
    told = ending(_row(3, ended="closed"))
    assert (told.verb, told.occasion, told.taken_up) == ("was closed", "a close", "taken up after a close")
    assert told.how == "in order, ending what ran"


def test_spec_15_a_row_stands_for_its_opening_and_the_newest_hundred_are_kept() -> None:
    deaths = [_row(epoch) for epoch in range(1, KEPT_DEATHS)]
    keep(deaths, _row(KEPT_DEATHS, ended="closed"))
    keep(deaths, _row(KEPT_DEATHS))
    assert len(deaths) == KEPT_DEATHS and deaths[-1]["ended"] == "died" and deaths[0]["epoch"] == 1
    keep(deaths, _row(KEPT_DEATHS + 1, ended="closed"))
    assert [row["epoch"] for row in deaths] == list(range(2, KEPT_DEATHS + 2))
