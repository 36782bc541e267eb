"""Wrapping and clipping by cells (case U10)."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
from rich.cells import split_graphemes

from durable_tui.ui.text.runs import clip, clip_runs, cut_at, justify, runs_text, runs_width, slice_cells, width
from durable_tui.ui.text.wrap import breaks, wrap

FAMILY = "\U0001f468\u200d\U0001f469\u200d\U0001f467"
SAMPLES = [
    "ends with \u270c\ufe0f",
    f"family {FAMILY} here",
    "flag \U0001f1ef\U0001f1f5 x",
    "한글 텍스트 입니다",
    "ｆｕｌｌ　ｗｉｄｔｈ",
    "e\u0301a\u0308",
]


def clusters(text: str) -> list[str]:
    return [text[a:b] for a, b, _ in split_graphemes(text)[0]]


def test_u10_clusters_are_never_cut_and_lines_fit() -> None:
    for sample in SAMPLES:
        text = " ".join([sample] * 12)
        for cells in (3, 7, 16, 40):
            lines = wrap([(text, "")], cells)
            assert all(width(line.text) <= cells for line in lines)
            joined = "".join((line.join or "") + line.text for line in lines)
            assert joined == text
            assert all(part in clusters(text) for line in lines for part in clusters(line.text))


def test_u10_a_cluster_wider_than_the_line_stays_whole() -> None:
    assert [line.text for line in wrap([("漢字", "")], 1)] == ["漢", "字"]


def test_words_stay_whole_and_long_ones_are_cut() -> None:
    assert [text[a:b] for text in ["the quick brown fox"] for a, b, _ in breaks(text, 10)] == ["the quick", "brown fox"]
    assert [line.text for line in wrap([("abcdefghij", "")], 4)] == ["abcd", "efgh", "ij"]


def test_gutters_first_and_rest() -> None:
    lines = wrap([("one two three", "b")], 9, first=[("- ", "a")], rest=[("  ", "")])
    assert [line.text for line in lines] == ["- one two", "  three"]
    assert [line.gutter for line in lines] == [2, 2]
    assert lines[1].join == " "


def test_the_first_line_uses_the_room_that_only_the_rest_gives_up() -> None:
    lines = wrap([("x" * 10, "")], 10, rest=[("    ", "")])
    assert [line.text for line in lines] == ["x" * 10]


@given(st.text(alphabet="ab 漢é\u200d👨😀", max_size=60), st.integers(1, 20))
def test_u10_nothing_is_lost(text: str, cells: int) -> None:
    lines = breaks(text, cells)
    assert "".join((join or "") + text[a:b] for a, b, join in lines).rstrip(" ") == text.rstrip(" ")


@given(st.text(alphabet="ab漢é👨\u200d", max_size=30), st.integers(0, 20))
def test_clip_fits(text: str, cells: int) -> None:
    assert width(clip(text, cells)) <= cells
    assert width(text[: cut_at(text, cells)]) <= cells
    assert runs_width(clip_runs([(text, "a"), (text, "b")], cells)) <= max(cells, 0)


def test_clip_marks_what_is_missing() -> None:
    assert clip("abcdef", 4) == "abc…"
    assert clip("abc", 4) == "abc"


def test_slices_take_whole_clusters() -> None:
    assert slice_cells("a漢b", 1, 3) == "漢"
    assert slice_cells("abc", 1, 2) == "b"


def test_justify_gives_way_on_the_left() -> None:
    runs = justify([("a long left text", "")], [("right", "x")], 16)
    assert runs_text(runs) == "a long le… right"
    assert runs_width(runs) == 16
