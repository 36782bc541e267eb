"""Numbers of bytes for people; cleaning is tested where its text is shown and where it comes from."""

from __future__ import annotations

import pytest

from durable_tui.ground.text import one_line, show_bytes


@pytest.mark.parametrize(
    ("count", "shown"),
    [(0, "0 bytes"), (1023, "1023 bytes"), (51200, "50.0 KiB"), (5 << 30, "5.0 GiB"), (9 << 40, "9216.0 GiB")],
)
def test_bytes_for_people(count: int, shown: str) -> None:
    assert show_bytes(count) == shown


@pytest.mark.parametrize(("text", "limit", "shown"), [("a\n\tb", 3, "a b"), ("abcd", 3, "ab…"), ("ab  cd", 4, "ab…")])
def test_a_line_that_is_cut_says_so(text: str, limit: int, shown: str) -> None:
    assert one_line(text, limit) == shown
