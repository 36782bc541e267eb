"""Tables laid out in cells: columns as wide as they need to be, narrowed from the widest on."""

from __future__ import annotations

from collections.abc import Sequence

from durable_tui.ui.glyphs import Glyphs
from durable_tui.ui.text.runs import Line, Run, runs_width
from durable_tui.ui.text.wrap import wrap

LEAST = 4  # cells of a column; with less room rows are shown as text


def table_lines(rows: Sequence[Sequence[list[Run]]], sides: Sequence[str], cells: int, glyphs: Glyphs) -> list[Line]:
    """The lines of rows of equal length, the first one being the head; `sides` are left, right or center."""
    count = len(sides)
    room = cells - 3 * (count - 1)
    if room < count * LEAST:
        return [line for row in rows for line in wrap(_as_text(row), cells)]
    widths = [max(max(runs_width(row[column]) for row in rows), 1) for column in range(count)]
    while sum(widths) > room:
        widest = max(range(count), key=widths.__getitem__)
        widths[widest] = max(LEAST, widths[widest] - max(1, (sum(widths) - room) // 2))
    out: list[Line] = []
    for number, row in enumerate(rows):
        out += _row_lines(row, sides, widths, glyphs)
        if number == 0:
            rule = f"{glyphs['rule']}{glyphs['rule']}{glyphs['rule']}".join(glyphs["rule"] * size for size in widths)
            out.append(Line([(rule, "faint")], len(rule)))
    return out


def _as_text(row: Sequence[list[Run]]) -> list[Run]:
    return [run for column, runs in enumerate(row) for run in ([(" | ", ""), *runs] if column else runs)]


def _row_lines(row: Sequence[list[Run]], sides: Sequence[str], widths: Sequence[int], glyphs: Glyphs) -> list[Line]:
    bar: Run = (f" {glyphs['rail']} ", "faint")
    wrapped = [wrap(runs, size) for runs, size in zip(row, widths, strict=True)]
    out: list[Line] = []
    for level in range(max(map(len, wrapped))):
        runs: list[Run] = []
        for column, lines in enumerate(wrapped):
            part = lines[level].runs if level < len(lines) else []
            spare = widths[column] - runs_width(part)
            before = {"right": spare, "center": spare // 2}.get(sides[column], 0)
            after = spare - before if column < len(widths) - 1 else 0
            runs += [bar] if column else []
            runs += [(" " * before, ""), *part, (" " * after, "")]
        out.append(Line([run for run in runs if run[0]]))
    return out
