"""Markdown as lines (cases UI-O04, UI-O05, UI-O07) and chunks of growing text (case U07)."""

from __future__ import annotations

import random
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from durable_tui.ui.adapter.chunks import HARD_CHARS, Chunker, chunks
from durable_tui.ui.text.diff_lines import counts, rows
from durable_tui.ui.text.markdown import markdown, settled
from durable_tui.ui.text.runs import Run, runs_text, width


def lines(text: str, cells: int = 60, **options: object) -> list[str]:
    return [line.text for line in markdown(text, cells, **options)]  # type: ignore[arg-type]


def inline(text: str) -> list[Run]:
    [line] = markdown(text, 200)
    return line.runs


def test_headings_lists_quotes_and_rules() -> None:
    assert lines("# Title\ntext\n- a\n  - b\n3. c\n> q\n---") == [
        "Title",
        "text",
        "• a",
        "  • b",
        "3. c",
        "│ q",
        "─" * 40,
    ]


def test_a_list_item_wraps_under_itself_and_copies_without_the_indent() -> None:
    [first, second] = markdown("- one two three", 10)
    assert (first.text, second.text) == ("• one two", "  three")
    assert second.gutter == 2 and second.join == " "


def test_inline_marks() -> None:
    assert inline("a **b** `c*d` *e* ~~f~~") == [
        ("a ", ""), ("b", "bold"), (" ", ""), ("c*d", "code.inline"), (" ", ""), ("e", "italic"), (" ", ""), ("f", "strike"),
    ]  # fmt: skip
    assert runs_text(inline("[label](http://x)")) == "label (http://x)"


@pytest.mark.parametrize(
    "text",
    ["2 * 3 * 4", "snake_case_name", "**open", "`open", "[/]", "[/tmp/x]", "a * b * c", "__init__", "[x](", "\\"],
)
def test_ui_o04_what_is_no_mark_stays(text: str) -> None:
    if text == "__init__":
        assert runs_text(inline(text)) == "init"
    else:
        assert runs_text(inline(text)) == text


def test_fences_nested_closed_and_open() -> None:
    assert lines("````md\n```\ninner\n```\n````\nafter") == ["  ```", "  inner", "  ```", "after"]
    assert lines("```py\nx = 1") == ["  x = 1"]
    [line] = markdown("```python\nx = 1\n```", 40)
    assert line.fill == "ground" and line.gutter == 2
    assert ("1", "code.number") in line.runs


def test_tables_align_and_wrap() -> None:
    table = lines("| a | b |\n|---|---|\n| 1 | two words here |", 20)
    assert table[0] == "a │ b             ".rstrip() or table[0].startswith("a │ b")
    assert all(width(line) <= 20 for line in table)
    assert any("two words" in line for line in table)


def test_ui_o07_a_growing_table_keeps_its_finished_lines() -> None:
    assert lines("| a | b |\n") == ["| a | b |"]
    assert lines("| a | b |\n|---|---|\n")[0].startswith("a │ b")


def test_ui_o07_chunks_render_as_the_whole() -> None:
    text = "\n".join(f"line {n}\n" if n % 3 else f"```py\nx{n} = {n}\n```\n" for n in range(200))
    whole = lines(text)
    parts: list[str] = []
    for chunk in chunks(text):
        if chunk.gap and parts:
            parts.append("")
        parts += lines(chunk.text, opening=chunk.opening)
    assert parts == whole


def test_a_long_fence_is_cut_and_stays_code() -> None:
    text = "```python\n" + "\n".join(f"x = {n}" for n in range(300)) + "\n```\nafter"
    found = chunks(text)
    assert len(found) > 3
    assert all(chunk.opening == "```python\n" for chunk in found[1:])
    shown = [line for chunk in found for line in lines(chunk.text, opening=chunk.opening)]
    assert shown == [*(f"  x = {n}" for n in range(300)), "after"]


def test_ui_o05_one_endless_line_is_cut_into_chunks() -> None:
    found = chunks("word " * 10_000)
    assert max(len(chunk.text) for chunk in found) <= HARD_CHARS
    assert all(chunk.continues for chunk in found[1:])
    assert "".join(chunk.text for chunk in found) == "word " * 10_000


@given(st.text(alphabet="a `|-\n#>*", max_size=400), st.integers(0, 10**6))
def test_u07_growing_gives_what_the_whole_gives(text: str, seed: int) -> None:
    chunker, at, dice = Chunker(), 0, random.Random(seed)
    while at < len(text):
        at = min(len(text), at + dice.randint(1, 9))
        before = list(chunker.closed)
        chunker.update(text[:at])
        assert chunker.closed[: len(before)] == before
    chunker.update(text)
    assert chunker.all() == chunks(text)
    assert chunker.restarts == 0


def test_u07_the_open_chunk_stays_small() -> None:
    chunker, text = Chunker(), ""
    for n in range(4000):
        text += f"some words of an answer {n} " + ("\n" if n % 4 == 0 else "")
        chunker.update(text)
        last = chunker.open()
        assert last is None or len(last.text) <= 2 * HARD_CHARS + 200


def test_a_replaced_text_starts_over() -> None:
    chunker = Chunker()
    chunker.update("abc\n" * 100)
    chunker.update("other")
    assert chunker.restarts == 1
    assert [chunk.text for chunk in chunker.all()] == ["other"]


@given(st.text(max_size=200), st.integers(1, 40))
def test_markdown_fits_any_width(text: str, cells: int) -> None:
    from durable_tui.ground.text import clean

    for line in markdown(clean(text), cells):
        assert width(line.text) <= max(cells, 4)


def shown(text: str, cells: int = 60) -> list[str]:
    """The lines of a text laid out in chunks."""
    out: list[str] = []
    for chunk in chunks(text):
        out += [""] if chunk.gap and out else []
        out += lines(chunk.text, cells, opening=chunk.opening, continues=chunk.continues)
    return out


@given(st.text(alphabet="ab \n*_>-#!.)1+=\\", max_size=600), st.integers(3, 40))
def test_no_letter_of_a_text_is_lost(text: str, cells: int) -> None:
    for found in (lines(text, cells), shown(text, cells)):
        assert [c for line in found for c in line if c in "ab"] == [c for c in text if c in "ab"]


@given(st.text(alphabet="a|- \n`~<>[]()!:&;#*1.\t\\", max_size=600))
def test_any_text_is_laid_out_without_control_characters(text: str) -> None:
    for line in shown(text):
        assert line.isprintable()


@pytest.mark.parametrize(
    "code", ["&#x1b;[31m", "&#10;", "&#9;", "&NewLine;", "&Tab;", "&#x202e;", "&#x2028;", "&#xfeff;"]
)
def test_a_character_given_by_its_number_is_as_safe_as_any(code: str) -> None:
    assert all(line.isprintable() for line in lines(f"a{code}b [x](/{code}) ![{code}](/x)"))


def calls(text: str) -> int:
    """How many functions are called to lay a text out."""
    count = 0

    def note(frame: object, event: str, argument: object) -> None:
        nonlocal count
        count += event in ("call", "c_call")

    shown("warm *up* [x](y)")
    sys.setprofile(note)
    try:
        shown(text)
    finally:
        sys.setprofile(None)
    return count


@pytest.mark.parametrize(
    "part",
    [">", "*", "[", "![", "[a](", "_a ", "**a ", "`", "<!--", "- ", "a", "a *b* c ", "\n", "> a\n", "- a\n", "a|b\n", "[a]: b\n",
     "[a]\n\n", "```\na\n", "1. a\n   b\n\n"],
)  # fmt: skip
def test_ui_o06_the_work_is_bounded_by_the_length(part: str) -> None:
    text = part * (1500 // len(part))
    assert calls(text) < 300 * len(text)  # as many times as there are characters would be thousands


@pytest.mark.parametrize("mark", [">", "- ", "* > ", "1. "])
def test_what_is_nested_too_deep_is_shown_as_it_was_written(mark: str) -> None:
    found = "".join(lines(mark * 200 + "the words", 4000))
    assert found.endswith("the words") and found.count(mark.strip()) >= 100


def test_u07_a_cut_list_goes_on_counting_and_keeps_its_depth() -> None:
    text = "\n".join(f"1. item {n}\n   - below\n     more" for n in range(30))
    assert len(chunks(text)) > 5
    assert shown(text) == lines(text)
    assert shown(text)[-3:] == ["30. item 29", "    • below", "      more"]


def test_u07_a_long_item_is_cut_and_stays_one() -> None:
    code = "".join(f"   x = {n}\n" for n in range(200))
    text = f"1. make it:\n   ```python\n{code}   ```\n" + "   words\n" * 600 + "2. done\n"
    assert len(chunks(text)) > 4
    assert shown(text) == lines(text)


def test_u07_a_long_table_is_cut_and_stays_one() -> None:
    text = "| a | b |\n|---|---|\n" + "| 1 | 2 |\n" * 600
    found = chunks(text)
    assert len(found) > 2 and found[1].opening == "| a | b |\n|---|---|\n"
    assert shown(text) == lines(text)


def test_u07_an_address_that_comes_last_is_told_to_the_chunks_above() -> None:
    text = "See [the docs][d].\n\n" + "words\n\n" * 30
    chunker = Chunker()
    chunker.update(text)
    before = list(chunker.closed)
    chunker.update(text + "[d]: http://d\n")
    [first, *rest] = chunker.closed
    assert first.opening == "[d]: http://d\n\n" and first.text == before[0].text
    assert rest[: len(before) - 1] == before[1:]
    assert shown(text + "[d]: http://d\n")[0] == "See the docs (http://d)."


def test_a_word_cut_in_two_begins_no_block() -> None:
    long = "word " * (HARD_CHARS // 10) + "x" * (HARD_CHARS - 1 - 5 * (HARD_CHARS // 10))
    for mark in ("# a", "- a", "> a", "1. a", "    a", "```"):
        text = f"{long} {mark} and more"
        [first, second] = chunks(text)
        assert second.continues and first.text + second.text == text
        assert "".join(lines(second.text, continues=True)) == f"{mark} and more".strip()


@pytest.mark.parametrize(
    ("text", "kept"),
    [
        ("text\n-", "text\n"),
        ("text\n---", "text\n"),
        ("text\n==", "text\n"),
        ("- a\n  -", "- a\n"),
        ("- a\n12", "- a\n"),
        ("text\n``", "text\n"),
        ("| a |\n|--", "| a |\n"),
        ("> a\n>", "> a\n"),
        ("*", ""),
        ("text\n- a", "text\n- a"),
        ("text\n---\n", "text\n---\n"),
        ("text *", "text *"),
    ],
)
def test_ui_o07_marks_at_the_growing_end_wait_for_what_they_mean(text: str, kept: str) -> None:
    assert settled(text) == kept


def test_ui_o07_a_list_that_follows_a_paragraph_never_makes_it_a_heading() -> None:
    text = "The files:\n- a\n- b\n"
    for at in range(1, len(text) + 1):
        for line in markdown(settled(text[:at]), 60):
            assert not any("heading" in style for _, style in line.runs)


@given(st.text(alphabet="ab *_`~-|\n>#1.[](", max_size=200))
def test_ui_o07_finished_blocks_keep_their_look_while_more_comes(text: str) -> None:
    finished = "A *first* paragraph\n\n- an item\n\n# a heading\n\n"
    whole = shown(finished + text)
    assert whole[:5] == ["A first paragraph", "", "• an item", "", "a heading"]


def test_unified_diff_rows() -> None:
    diff = "@@ -2,3 +2,3 @@\n a\n-b\n+c\n\\ No newline at end of file"
    assert list(rows(diff)) == [(" ", 2, "a"), ("-", 3, "b"), ("+", 3, "c")]
    assert counts(diff) == (1, 1)
