"""Light Markdown (UI-O04, UI-O05, UI-O07) and chunks of growing text (U07)."""

from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from durable_tui.ui.adapter.chunks import HARD_CHARS, Chunker, chunks
from durable_tui.ui.text.diff_lines import counts, rows
from durable_tui.ui.text.markdown import inline, markdown
from durable_tui.ui.text.runs import runs_text, width


def lines(text: str, cells: int = 60, **options: object) -> list[str]:
    return [line.text for line in markdown(text, cells, **options)]  # type: ignore[arg-type]


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
    "text", ["2*3*4", "snake_case_name", "**open", "`open", "[/]", "[/tmp/x]", "a * b * c", "__init__", "[x](", "\\"]
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
        parts += lines(chunk.text, fence=chunk.fence)
    assert parts == whole


def test_a_long_fence_is_cut_and_stays_code() -> None:
    text = "```python\n" + "\n".join(f"x = {n}" for n in range(300)) + "\n```\nafter"
    found = chunks(text)
    assert len(found) > 3
    assert all(chunk.fence == "python" for chunk in found[1:])
    shown = [line for chunk in found for line in lines(chunk.text, fence=chunk.fence)]
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


def test_unified_diff_rows() -> None:
    diff = "@@ -2,3 +2,3 @@\n a\n-b\n+c\n\\ No newline at end of file"
    assert list(rows(diff)) == [(" ", 2, "a"), ("-", 3, "b"), ("+", 3, "c")]
    assert counts(diff) == (1, 1)
