"""Styled text as plain data: a run is `(text, tokens)`, tokens being blank-separated names `styles.Styles` knows.

Tokens keep rendered lines independent of the theme, so that a theme change repaints without laying out again.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from rich.cells import cell_len, split_graphemes

Run = tuple[str, str]


@dataclass(slots=True)
class Line:
    """One line on the screen.

    `gutter` cells at its left are decoration and are left out of copied text. `join` says how its text continues the
    line above when copied: None starts a new source line, a string is what the wrap swallowed. `fill` is a token whose
    background runs to the right edge.
    """

    runs: list[Run] = field(default_factory=list)
    gutter: int = 0
    join: str | None = None
    fill: str = ""

    @property
    def text(self) -> str:
        return "".join(text for text, _ in self.runs)


def width(text: str) -> int:
    """Cells a text without control characters takes."""
    return len(text) if text.isascii() else cell_len(text)


def runs_text(runs: Iterable[Run]) -> str:
    return "".join(text for text, _ in runs)


def runs_width(runs: Iterable[Run]) -> int:
    return sum(width(text) for text, _ in runs)


def clip(text: str, cells: int, ellipsis: str = "…") -> str:
    """The text in at most `cells` cells, ending in an ellipsis when something was left out; clusters stay whole."""
    if cells <= 0:
        return ""
    if width(text) <= cells:
        return text
    room = cells - width(ellipsis)
    if room < 0:
        return ""
    return text[: cut_at(text, room)] + ellipsis


def cut_at(text: str, cells: int) -> int:
    """The index at which a prefix of at most `cells` cells ends, never inside a cluster."""
    if text.isascii():
        return min(len(text), max(cells, 0))
    used = 0
    spans, _ = split_graphemes(text)
    index = len(text)
    for start, _end, size in spans:
        if used + size > cells:
            index = start
            break
        used += size
    # Lone joiners count differently alone and together; whole clusters are given back until it fits.
    while index and cell_len(text[:index]) > cells:
        index = next((start for start, end, _ in reversed(spans) if start < index <= end), 0)
    return index


def clip_runs(runs: Sequence[Run], cells: int, ellipsis: str = "…") -> list[Run]:
    """The runs in at most `cells` cells."""
    if runs_width(runs) <= cells:
        return list(runs)
    out: list[Run] = []
    room = max(cells - width(ellipsis), 0)
    for text, style in runs:
        size = width(text)
        if size <= room:
            out.append((text, style))
            room -= size
            continue
        part = text[: cut_at(text, room)]
        out.append((part + (ellipsis if cells >= width(ellipsis) else ""), style))
        break
    return out


def slice_runs(runs: Sequence[Run], start: int, end: int) -> list[Run]:
    """The runs between two character offsets."""
    out: list[Run] = []
    at = 0
    for text, style in runs:
        stop = at + len(text)
        if stop > start and at < end:
            out.append((text[max(start - at, 0) : end - at], style))
        at = stop
        if at >= end:
            break
    return out


def slice_cells(text: str, start: int, end: int) -> str:
    """The part of a line between two cell columns; a cluster belongs to the column it starts in."""
    if text.isascii():
        return text[max(start, 0) : max(end, 0)]
    out: list[str] = []
    at = 0
    spans, _ = split_graphemes(text)
    for begin, stop, size in spans:
        if start <= at < end:
            out.append(text[begin:stop])
        at += size
        if at >= end:
            break
    return "".join(out)


def justify(left: Sequence[Run], right: Sequence[Run], cells: int, ellipsis: str = "…") -> list[Run]:
    """Left runs and right runs on one line of `cells`; the left gives way first."""
    right_width = runs_width(right)
    if not right or right_width + 6 > cells:
        return clip_runs(left, cells, ellipsis)
    fitted = clip_runs(left, cells - right_width - 1, ellipsis)
    gap = cells - right_width - runs_width(fitted)
    return [*fitted, (" " * gap, ""), *right]
