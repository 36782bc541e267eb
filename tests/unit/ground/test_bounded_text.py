"""Text within limits: cases T23, T25, T26, T29."""

from __future__ import annotations

from typing import Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from durable_tui.ground.bounded_text import Tail, first_bytes, last_bytes, limit_text, size


def tail(text: str, max_lines: int = 2000, max_bytes: int = 50 * 1024, piece: int = 1 << 30) -> Tail:
    found = Tail(max_lines, max_bytes)
    for at in range(0, len(text), piece):
        found.append(text[at : at + piece])
    return found


@pytest.mark.parametrize("piece", [1, 7, 1000, 1 << 30])
def test_t26_counts_lines_without_one_too_many(piece: int) -> None:
    limited = tail("".join(f"{n}\n" for n in range(1, 4001)), piece=piece).result()
    assert (limited.lines, limited.first, limited.last, limited.partial) == (4000, 2001, 4000, False)
    assert limited.text.split("\n")[0] == "2001" and limited.text.endswith("\n4000")


@pytest.mark.parametrize("ending", ["", "\n"])
@pytest.mark.parametrize("piece", [999, 1 << 30])
def test_t25_the_end_of_one_long_line_is_kept(ending: str, piece: int) -> None:
    limited = tail("z" * 250_000 + "LAST" + ending, piece=piece).result()
    assert limited.text.endswith("zLAST") and size(limited.text) == 50 * 1024
    assert limited.partial and limited.cut
    assert limited.lines == 1
    assert limited.total_bytes == 250_004 + len(ending)


def test_t23_the_cut_falls_between_characters() -> None:
    limited = tail("漢" * 60_000).result()
    assert set(limited.text) == {"漢"}
    assert 50 * 1024 - 3 < size(limited.text) <= 50 * 1024


@pytest.mark.parametrize("piece", [1, 3, 1 << 30])
@pytest.mark.parametrize(
    ("text", "right"),
    [
        ("10%\r50%\r100%\r\nok\n", "100%\nok"),
        ("10%\r50%\r100%\r", "100%"),
        ("a\r\nb\r\r\nc", "a\nb\nc"),
        ("N\bNA\bAME", "NAME"),
        ("\b\bx", "x"),
        ("", ""),
        ("\n", ""),
        ("\n\n", "\n"),
    ],
)
def test_a_line_that_is_written_over_keeps_its_last_state(text: str, right: str, piece: int) -> None:
    assert tail(text, piece=piece).result().text == right


@given(
    lines=st.lists(st.text(alphabet="ab漢", max_size=30), max_size=40),
    final=st.booleans(),
    max_lines=st.integers(1, 20),
    max_bytes=st.integers(4, 80),
    piece=st.integers(1, 50),
)
def test_the_tail_is_what_a_plain_count_gives(
    lines: list[str], final: bool, max_lines: int, max_bytes: int, piece: int
) -> None:
    text = "\n".join(lines) + ("\n" if final else "")
    limited = tail(text, max_lines, max_bytes, piece).result()
    rows = text.split("\n")
    if rows[-1] == "":
        rows.pop()
    assert limited.lines == len(rows)
    assert limited.total_bytes == size(text)
    shown = limited.text
    assert size(shown) <= max_bytes and shown.count("\n") < max_lines
    if not rows:
        assert shown == "" and not limited.cut
    elif limited.partial:
        assert rows[-1].endswith(shown) and size(rows[-1]) > max_bytes
    else:
        assert shown == "\n".join(rows[limited.first - 1 :])
        earlier = rows[limited.first - 2 :] if limited.first > 1 else None
        # one more line would break a limit
        assert earlier is None or len(earlier) > max_lines or size("\n".join(earlier)) > max_bytes


def test_t29_memory_does_not_grow_with_the_text() -> None:
    found = Tail()
    for _ in range(300):
        found.append("a" * 100_000)
    assert found.result().total_bytes == 30_000_000
    for _ in range(300):
        found.append("y\n" * 50_000)
    held = sum(len(block) for block, _, _ in found._blocks) + len(found._open)
    assert held < 1_000_000
    assert found.result().lines == 1 + 300 * 50_000 - 1


@given(text=st.text(max_size=40), limit=st.integers(0, 60))
def test_cuts_split_no_character(text: str, limit: int) -> None:
    whole = text.encode("utf-8", "replace").decode()
    assert whole.startswith(first_bytes(text, limit)) and whole.endswith(last_bytes(text, limit))
    assert size(first_bytes(text, limit)) <= limit and size(last_bytes(text, limit)) <= limit
    assert size(first_bytes(text, limit)) > min(limit, size(whole)) - 4


@given(
    lines=st.lists(st.text(alphabet="ab漢", max_size=30), max_size=40),
    final=st.booleans(),
    keep=st.sampled_from(["head", "tail"]),
    max_lines=st.integers(1, 20),
    max_bytes=st.integers(4, 80),
)
def test_what_is_kept_and_what_is_dropped_make_up_the_text(
    lines: list[str], final: bool, keep: Literal["head", "tail"], max_lines: int, max_bytes: int
) -> None:
    text = "\n".join(lines) + ("\n" if final else "")
    limited = limit_text(text, keep, max_lines, max_bytes)
    assert text.startswith(limited.kept) if keep == "head" else text.endswith(limited.kept)
    assert size(limited.text) <= max_bytes and size(limited.kept) + limited.dropped_bytes == size(text)
    shown = limited.text.count("\n") + 1 if limited.lines else 0
    assert limited.dropped_lines + shown == limited.lines
    assert limited.cut == (limited.dropped_bytes > 0)
