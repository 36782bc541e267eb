"""From lines of runs to strips: what every line-API widget here shares."""

from __future__ import annotations

from collections.abc import Iterable

from rich.segment import Segment
from rich.style import Style
from textual.content import Content
from textual.strip import Strip

from durable_tui.ground.text import one_line
from durable_tui.ui.styles import Styles
from durable_tui.ui.text.runs import Run, width


def plain(text: str, limit: int = 300) -> Content:
    """Data for a frame's title: one line, cleaned, never markup."""
    return Content(one_line(text, limit))


def strip_of(runs: Iterable[Run], cells: int, styles: Styles, base: Style, *, fill: str = "", indent: int = 0) -> Strip:
    """Runs as a strip of exactly `cells` on the base style; `fill` grounds all behind the first `indent` cells."""
    ground = styles.style(fill) if fill else None
    segments: list[Segment] = []
    used = 0
    for text, tokens in runs:
        if not text:
            continue
        style = base + styles.style(tokens)
        if ground is not None and used >= indent:
            style = base + ground + styles.style(tokens)
        segments.append(Segment(text, style))
        used += width(text)
    if used < cells:
        segments.append(Segment(" " * (cells - used), base + ground if ground is not None else base))
        return Strip(segments, cells)
    strip = Strip(segments, used)
    return strip.crop(0, cells) if used > cells else strip


def restyle(strip: Strip, start: int, end: int, style: Style) -> Strip:
    """The strip with a style laid over a span of cells; end -1 means to the right edge."""
    end = strip.cell_length if end < 0 else min(end, strip.cell_length)
    start = min(max(start, 0), strip.cell_length)
    if start >= end:
        return strip
    before, middle, after = strip.crop(0, start), strip.crop(start, end), strip.crop(end, strip.cell_length)
    marked = Strip([Segment(text, (old or Style.null()) + style) for text, old, _ in middle], end - start)
    return Strip.join([before, marked, after])
