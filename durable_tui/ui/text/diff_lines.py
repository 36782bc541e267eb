"""Diffs as lines: unified ones, or the numbered form of the edit tool (`+ 3 text`, `- 3 text`, `  3 text`)."""

from __future__ import annotations

import re
from collections.abc import Iterator

from durable_tui.ground.text import clean
from durable_tui.ui.glyphs import UNICODE, Glyphs
from durable_tui.ui.text.runs import Line, Run
from durable_tui.ui.text.wrap import wrap

_HUNK = re.compile(r"^@@ -(\d+)(?:,\d+)? \+(\d+)(?:,\d+)? @@(.*)$")
_NUMBERED = re.compile(r"^([+\- ])[ ]*(\d+)[ |]?(.*)$")


def rows(diff: str) -> Iterator[tuple[str, int | None, str]]:
    """(sign, line number, text): sign is `+`, `-`, a blank, or `@` for a break between hunks."""
    lines = clean(diff).split("\n")
    if lines and not lines[-1]:
        lines.pop()
    if not any(_HUNK.match(line) for line in lines):
        numbered = [_NUMBERED.match(line) for line in lines]
        if lines and sum(match is not None for match in numbered) * 2 >= len(lines):
            for line, match in zip(lines, numbered, strict=True):
                if match:
                    yield match.group(1), int(match.group(2)), match.group(3)
                else:
                    yield "@", None, line.strip()
            return
        for line in lines:
            sign = line[:1] if line[:1] in ("+", "-") else " "
            yield sign, None, line[1:] if line[:1] in ("+", "-", " ") else line
        return
    old = new = 0
    started = False
    for line in lines:
        hunk = _HUNK.match(line)
        if hunk:
            if started:
                yield "@", None, ""
            old, new, started = int(hunk.group(1)), int(hunk.group(2)), True
        elif not started or line.startswith("\\"):
            continue
        elif line.startswith("+"):
            yield "+", new, line[1:]
            new += 1
        elif line.startswith("-"):
            yield "-", old, line[1:]
            old += 1
        else:
            yield " ", new, line[1:]
            old += 1
            new += 1


def counts(diff: str) -> tuple[int, int]:
    """(added, removed) lines."""
    signs = [sign for sign, _, _ in rows(diff)]
    return signs.count("+"), signs.count("-")


def diff_lines(
    diff: str, cells: int, *, indent: int = 4, limit: int | None = None, glyphs: Glyphs = UNICODE
) -> list[Line]:
    """The diff with line numbers in the gutter; past `limit` lines it says how many more there are."""
    lines: list[Line] = []
    parts = list(rows(diff))
    digits = max((len(str(number)) for _, number, _ in parts if number is not None), default=1)
    for shown, (sign, number, text) in enumerate(parts):
        if limit is not None and shown >= limit:
            lines.append(
                Line([(" " * indent + f"{glyphs['ellipsis']} {len(parts) - shown} more lines", "faint")], indent)
            )
            break
        if sign == "@":
            lines.append(
                Line(
                    [
                        (" " * indent + glyphs["ellipsis"] * min(3, digits), "faint"),
                        (f"  {text}" if text else "", "faint"),
                    ],
                    indent,
                )
            )
            continue
        style = {"+": "added", "-": "removed"}.get(sign, "dim")
        label = "" if number is None else str(number)
        gutter: list[Run] = [(" " * indent + label.rjust(digits) + "  ", "faint"), (sign + " ", style)]
        blank: list[Run] = [(" " * (indent + digits + 4), "")]
        lines.extend(wrap([(text.expandtabs(4), style)] if text else [], cells, first=gutter, rest=blank))
    return lines
