"""Times for people."""

from __future__ import annotations

import time

import pytest

from durable_tui.ground.clock import clock, date_and_time

AT = 1_700_000_000_000


def test_a_time_is_shown_in_the_persons_zone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TZ", "UTC-2")
    time.tzset()
    try:
        assert (clock(AT), clock(AT, seconds=True), date_and_time(AT)) == ("00:13", "00:13:20", "2023-11-15 00:13:20")
    finally:
        monkeypatch.undo()
        time.tzset()


@pytest.mark.parametrize("at", [None, 0, 10**30])
def test_no_time_is_no_error(at: int | None) -> None:
    assert (clock(at), date_and_time(at)) == ("", "?")
