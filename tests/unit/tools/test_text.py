"""Cleaning and limiting: cases T22-T26, T29."""

from __future__ import annotations

import random
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from durable_tui.tools.text_output import Cleaner, LiveText, Tail, clean, first_bytes, last_bytes, show_bytes, size


def cleaned(data: bytes, *cuts: int) -> str:
    """The text of a stream cut at these places."""
    cleaner = Cleaner()
    places = [0, *sorted(cut % (len(data) + 1) for cut in cuts), len(data)]
    pieces = [data[a:b] for a, b in pairwise(places)]
    return "".join([cleaner.feed(piece) for piece in pieces] + [cleaner.feed(b"", final=True)])


SAMPLES = [
    ("plain\ttext\n", "plain\ttext\n"),
    ("\x1b[31mred\x1b[0m", "red"),
    ("\x1b[38;2;1;2;3mx\x1b[K", "x"),
    ("\x1b]0;title\x07a", "a"),
    ("\x1b]8;;http://x\x1b\\link\x1b]8;;\x1b\\", "link"),
    ("a\x1bPq#0;sixel\x1b\\b", "ab"),
    ("a\x1b_Gkitty\x1b\\b", "ab"),
    ("\x1b(Bx\x1b7y\x1b=z", "xyz"),
    ("a\x00b\x07c\x0bd\x7fe", "abcde"),
    ("a\x9b31mb\x85c\x9d0;t\x9cd", "abcd"),
    ("a\x1b]0;never ended\nb", "a\nb"),
    ("é漢🎉\x1b[1m漢", "é漢🎉漢"),
    ("end\x1b", "end"),
    ("end\x1b[12", "end"),
    ("end\x1b]0;x", "end"),
    ("x\x1b]" + "t" * 9000 + "\x07y", "xy"),
    ("x\x1b]" + "t" * 9000 + "\x1b\\y", "xy"),
]


@pytest.mark.parametrize(("text", "right"), SAMPLES)
def test_control_sequences_go_wherever_the_stream_is_cut(text: str, right: str) -> None:
    data = text.encode()
    assert cleaned(data) == right
    step = max(len(data) // 400, 1)
    for cut in range(0, len(data), step):
        assert cleaned(data, cut) == right, cut
    if len(data) < 300:
        assert cleaned(data, *range(len(data))) == right
    assert clean(text) == right


@given(data=st.binary(max_size=60), cuts=st.lists(st.integers(0, 60), max_size=4))
def test_t23_t24_any_bytes_give_the_same_clean_text_however_cut(data: bytes, cuts: list[int]) -> None:
    text = cleaned(data, *cuts)
    assert text == cleaned(data)
    assert not any((ord(c) < 32 and c not in "\t\n\r\b") or 0x7F <= ord(c) <= 0x9F for c in text)
    text.encode("utf-8")


def tail(text: str, max_lines: int = 2000, max_bytes: int = 50 * 1024, piece: int = 1 << 30) -> Tail:
    found = Tail(max_lines, max_bytes)
    for at in range(0, len(text), piece):
        found.feed(text[at : at + piece])
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
        found.feed("a" * 100_000)
    assert found.result().total_bytes == 30_000_000
    for _ in range(300):
        found.feed("y\n" * 50_000)
    held = sum(len(block) for block, _, _ in found._blocks) + len(found._open)
    assert held < 1_000_000
    assert found.result().lines == 1 + 300 * 50_000 - 1


def live(text: str, piece: int) -> str:
    stream = LiveText()
    out = [stream.feed(text[at : at + piece]) for at in range(0, len(text), piece)]
    return "".join([*out, stream.feed("", final=True)])


@pytest.mark.parametrize("piece", [1, 2, 5, 1000])
def test_live_text_never_runs_states_of_a_line_together(piece: int) -> None:
    shown = live("10%\r50%\r100%\r\nnext\r\nlast", piece)
    assert "\r" not in shown
    lines = shown.split("\n")
    assert set(lines) <= {"10%", "50%", "100%", "1", "10", "5", "50", "100", "next", "last"}
    assert lines[-2:] == ["next", "last"] and "100%" in lines


@given(text=st.text(alphabet="ab\n", max_size=60), piece=st.integers(1, 60))
def test_live_text_without_returns_is_the_text(text: str, piece: int) -> None:
    assert live(text, piece) == text


@given(text=st.text(max_size=40), limit=st.integers(0, 60))
def test_cuts_split_no_character(text: str, limit: int) -> None:
    whole = text.encode("utf-8", "replace").decode()
    assert whole.startswith(first_bytes(text, limit)) and whole.endswith(last_bytes(text, limit))
    assert size(first_bytes(text, limit)) <= limit and size(last_bytes(text, limit)) <= limit
    assert size(first_bytes(text, limit)) > min(limit, size(whole)) - 4


@pytest.mark.parametrize(
    ("count", "shown"),
    [(0, "0 bytes"), (1023, "1023 bytes"), (51200, "50.0 KiB"), (5 << 30, "5.0 GiB"), (9 << 40, "9216.0 GiB")],
)
def test_bytes_for_people(count: int, shown: str) -> None:
    assert show_bytes(count) == shown


def test_t24_random_bytes_do_not_swallow_what_follows() -> None:
    data = random.Random(7).randbytes(4096)
    assert cleaned(data + b"\nthe end\n").endswith("\nthe end\n")
