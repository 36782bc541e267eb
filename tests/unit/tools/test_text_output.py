"""A command's bytes as text: cases T22-T24."""

from __future__ import annotations

import random
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from durable_tui.ground.text import clean
from durable_tui.tools.text_output import Cleaner, LiveText


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


@given(
    text=st.text(alphabet="a1\x1b[]0;m\\\x07P\n\x90\x9b\x9c\x9d", max_size=40),
    cuts=st.lists(st.integers(0, 80), max_size=4),
)
def test_t24_any_run_of_control_sequences_gives_the_same_text_however_cut(text: str, cuts: list[int]) -> None:
    assert cleaned(text.encode(), *cuts) == cleaned(text.encode()) == clean(text)


def test_t24_random_bytes_do_not_swallow_what_follows() -> None:
    data = random.Random(7).randbytes(4096)
    assert cleaned(data + b"\nthe end\n").endswith("\nthe end\n")
