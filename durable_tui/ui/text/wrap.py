"""Wrapping by cells: at blanks where possible, between clusters where not, never inside one."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from rich.cells import split_graphemes

from durable_tui.ui.text.runs import Line, Run, cut_at, runs_text, slice_runs, width

_WORDS = re.compile(r"[^\S\u00a0\u202f]+|(?:\S|[\u00a0\u202f])+")


def _pieces(text: str) -> Iterator[tuple[int, int, int, bool]]:
    """(start, end, cells, is_blank): words, blanks, and single wide clusters, between which a line may break."""
    for match in _WORDS.finditer(text):
        word = match.group()
        start = match.start()
        if word.isspace():
            yield start, match.end(), width(word), True
        elif word.isascii():
            yield start, match.end(), len(word), False
        else:
            spans, _ = split_graphemes(word)
            begin, cells = 0, 0
            for left, right, size in spans:
                if size >= 2:
                    if left > begin:
                        yield start + begin, start + left, cells, False
                    yield start + left, start + right, size, False
                    begin, cells = right, 0
                else:
                    cells += size
            if begin < len(word):
                yield start + begin, match.end(), cells, False


def breaks(text: str, cells: int, later: int | None = None) -> list[tuple[int, int, str | None]]:
    """(start, end, join) of each line of at most `cells` cells; `join` is what was swallowed before it, None first.

    The lines after the first have `later` cells when that is given.
    """
    cells = max(cells, 1)
    later = cells if later is None else max(later, 1)
    if width(text) <= cells:
        return [(0, len(text), None)]
    lines: list[tuple[int, int, str | None]] = []
    start, end, used = 0, 0, 0
    join: str | None = None
    for left, right, size, blank in _pieces(text):
        if used + size <= cells:
            end, used = right, used + size
            continue
        if blank:
            lines.append((start, end, join))
            cells = later
            start = end = right
            used, join = 0, text[left:right]
            continue
        if end > start:
            kept = len(text[start:end].rstrip()) + start
            lines.append((start, kept if kept > start else end, join))
            join = text[kept:left] if kept > start else ""
            cells = later
            start = end = left
            used = 0
        while size > cells:
            cut = max(cut_at(text[left:right], cells), 1) if cells > 1 else _first(text[left:right])
            lines.append((left, left + cut, join))
            cells = later
            left, join = left + cut, ""
            size = width(text[left:right])
            start = left
        end, used = right, size
    if end > start or not lines:
        lines.append((start, end, join))
    return lines


def _first(text: str) -> int:
    spans, _ = split_graphemes(text)
    return int(spans[0][1]) if spans else 1


def wrap(
    runs: Sequence[Run],
    cells: int,
    *,
    first: Sequence[Run] = (),
    rest: Sequence[Run] = (),
    fill: str = "",
) -> list[Line]:
    """Runs without line breaks as lines; `first` and `rest` are gutters put before the first and the other lines."""
    first_width = sum(width(text) for text, _ in first)
    rest_width = sum(width(text) for text, _ in rest)
    lines: list[Line] = []
    for start, end, join in breaks(runs_text(runs), cells - first_width, cells - rest_width):
        head = list(rest if lines else first)
        lines.append(Line(head + slice_runs(runs, start, end), rest_width if lines else first_width, join, fill))
    return lines
