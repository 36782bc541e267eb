"""Outside text made safe (cases U03, UI-O01, UI-U05), and never markup (case U01)."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from durable_tui.ground.text import clean, one_line
from durable_tui.ui.text.runs import runs_text
from durable_tui.ui.text.safe import output_lines

HOSTILE = [
    "\x1b]52;c;ZXZpbA==\x07",
    "\x1b]0;a b\\c\x1b\\",
    "\x1b[2J\x1b[H",
    "\x1b[?1049h",
    "\x1bPq#0;2;0\x1b\\",
    "\x9b31m",
    "\x1b]8;;http://x\x1b\\link\x1b]8;;\x1b\\",
    "\x1b",
    "\x1b[38;5",
    "\x1b]never closed",
]


def shown(text: str) -> str:
    return "\n".join(runs_text(runs) for runs in output_lines(text))


@pytest.mark.parametrize("hostile", HOSTILE)
def test_u03_sequences_leave_no_litter(hostile: str) -> None:
    for text in (clean(f"before{hostile}\nafter"), shown(f"before{hostile}\nafter")):
        assert "\x1b" not in text and "\x9b" not in text and "\x07" not in text
        assert text in ("before\nafter", "beforelink\nafter")


def test_u03_backspaces_and_progress_act() -> None:
    assert shown("abc" + "\b" * 20 + "X") == "Xbc"
    assert shown("50%\r100%\r") == "100%"
    assert shown("long line\r\x1b[Kshort") == "short"
    assert shown("a\r\nb\r\n") == "a\nb\n"


def test_ui_o01_colour_becomes_style_and_the_rest_goes() -> None:
    [runs] = output_lines("\x1b[31mred\x1b[0m\x1b[2J\x1b]0;x\x07\x1b[?1049h plain")
    assert runs == [("red", "ansi.red"), (" plain", "")]
    [runs] = output_lines("\x1b[1;38;2;1;2;3;48;5;200mx\x1b[22;39;49my")
    assert runs == [("x", "bold ansi.#010203 on.c200"), ("y", "")]


def test_colour_lasts_over_lines_and_reset_ends_it() -> None:
    first, second, third = output_lines("\x1b[32ma\nb\x1b[m\nc")
    assert first == [("a", "ansi.green")]
    assert second == [("b", "ansi.green")]
    assert third == [("c", "")]


def test_ui_u05_bom_surrogates_and_direction_overrides() -> None:
    assert clean("\ufeffx") == "x"
    assert clean("a\ud800b") == "a\ufffdb"
    assert clean("safe\u202eevil\u2066") == "safeevil"
    assert shown("a\ud800\u202eb") == "a\ufffdb"
    assert clean("a\u2028b") == "a\nb"


@pytest.mark.parametrize("text", ["[/]", "[/", "see [/usr/bin]", "[n=7,kind=open]", "[link='a", "[bold]x[/bold"])
def test_u01_markup_is_only_text(text: str) -> None:
    assert clean(text) == text
    assert shown(text) == text
    assert one_line(text) == text


@given(st.text())
def test_u03_nothing_dangerous_ever_remains(text: str) -> None:
    for out in (clean(text), shown(text)):
        assert not any(ord(c) < 32 and c not in "\n\t" for c in out)
        assert not any(0x7F <= ord(c) < 0xA0 or 0xD800 <= ord(c) < 0xE000 for c in out)


@given(st.text(alphabet="ab\x1b[]0;m\\\x07P\n\x9b", max_size=60))
def test_u03_random_sequences_never_pass(text: str) -> None:
    assert "\x1b" not in clean(text)
    assert "\x1b" not in shown(text)
    assert shown(text).count("\n") == text.count("\n")


def test_one_line_is_bounded_and_single() -> None:
    assert one_line("a\n\tb  c") == "a b c"
    assert len(one_line("x" * 10_000)) == 400
