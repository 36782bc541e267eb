"""Unified diffs of what a tool changed, from the real old and new bytes, within bounds. Pure."""

from __future__ import annotations

import difflib
from bisect import bisect_right
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from durable_tui.ground.bounded_text import first_bytes, size
from durable_tui.ground.text import clean
from durable_tui.tools.editing import Replacement

CONTEXT = 3
MAX_LINES = 400
MAX_BYTES = 16 * 1024
_LINE_BYTES = 500  # a longer line is cut in the diff
_COMPARED = 400  # of a larger block on either side the lines are not compared one by one


@dataclass(slots=True, frozen=True)
class Change:
    """Old lines `start`..`end` (from 0, end exclusive) became `lines`."""

    start: int
    end: int
    lines: tuple[bytes, ...]


@dataclass(slots=True, frozen=True)
class Diff:
    """`text` is a unified diff without file headers, `added` and `removed` count lines."""

    text: str
    added: int
    removed: int


def compare(old: bytes, new: bytes) -> Diff:
    """The difference of two whole contents."""
    before, after = _lines(old), _lines(new)
    return _render(before, _changes(before, after, 0))


def of_replacements(old: bytes, replacements: Sequence[Replacement]) -> Diff:
    """The difference that replacements (in file order) make; its cost does not grow with the file between them."""
    before = _lines(old)
    starts = [0]
    for line in before:
        starts.append(starts[-1] + len(line))
    changes: list[Change] = []
    for first, last, items in _by_lines(starts, len(before), replacements):
        base = starts[first]
        block = old[base : starts[last]]
        pieces = []
        at = 0
        for item in items:
            pieces += [block[at : item.start - base], item.content]
            at = item.end - base
        pieces.append(block[at:])
        changes += _changes(before[first:last], _lines(b"".join(pieces)), first)
    return _render(before, changes)


def _by_lines(
    starts: list[int], count: int, replacements: Iterable[Replacement]
) -> list[tuple[int, int, list[Replacement]]]:
    """Replacements grouped by the whole lines they touch: first line, end line, and those within."""
    groups: list[tuple[int, int, list[Replacement]]] = []
    for item in replacements:
        first = min(bisect_right(starts, item.start) - 1, max(count - 1, 0))
        # the end of a span may join its line to the next one, which then changes too
        last = min(bisect_right(starts, max(item.end, item.start)), count)
        if groups and first < groups[-1][1]:
            before = groups[-1]
            groups[-1] = (before[0], max(before[1], last), [*before[2], item])
        else:
            groups.append((first, last, [item]))
    return groups


def _lines(data: bytes) -> list[bytes]:
    """Lines with their ends; only LF ends a line."""
    lines = [line + b"\n" for line in data.split(b"\n")]
    last = lines.pop()[:-1]
    return [*lines, last] if last else lines


def _changes(old: list[bytes], new: list[bytes], offset: int) -> list[Change]:
    head = 0
    while head < min(len(old), len(new)) and old[head] == new[head]:
        head += 1
    tail = 0
    while tail < min(len(old), len(new)) - head and old[-1 - tail] == new[-1 - tail]:
        tail += 1
    before, after = old[head : len(old) - tail], new[head : len(new) - tail]
    if not before and not after:
        return []
    if max(len(before), len(after)) > _COMPARED:
        return [Change(offset + head, offset + head + len(before), tuple(after))]
    matcher = difflib.SequenceMatcher(None, before, after, autojunk=False)
    return [
        Change(offset + head + i, offset + head + j, tuple(after[k:m]))
        for tag, i, j, k, m in matcher.get_opcodes()
        if tag != "equal"
    ]


def _render(old: list[bytes], changes: list[Change]) -> Diff:
    added = sum(len(change.lines) for change in changes)
    removed = sum(change.end - change.start for change in changes)
    # line ends are shown only where they are all the difference
    ends = any(
        [line.rstrip(b"\r\n") for line in old[change.start : change.end]]
        == [line.rstrip(b"\r\n") for line in change.lines]
        for change in changes
    )
    out: list[str] = []
    shift = 0
    for hunk in _hunks(changes):
        start = max(hunk[0].start - CONTEXT, 0)
        end = min(hunk[-1].end + CONTEXT, len(old))
        grown = sum(len(change.lines) - (change.end - change.start) for change in hunk)
        out.append(f"@@ -{_range(start, end - start)} +{_range(start + shift, end - start + grown)} @@")
        at = start
        for change in hunk:
            out += _rows(" ", old[at : change.start], ends)
            out += _rows("-", old[change.start : change.end], ends)
            out += _rows("+", change.lines, ends)
            at = change.end
            if len(out) > MAX_LINES:
                break
        else:
            out += _rows(" ", old[at:end], ends)
        shift += grown
        if len(out) > MAX_LINES:
            break
    return Diff(_bound(out), added, removed)


def _hunks(changes: list[Change]) -> list[list[Change]]:
    hunks: list[list[Change]] = []
    for change in changes:
        if hunks and change.start - hunks[-1][-1].end <= 2 * CONTEXT:
            hunks[-1].append(change)
        else:
            hunks.append([change])
    return hunks


def _range(start: int, count: int) -> str:
    """A range as in unified diffs: an empty one names the line before it."""
    first = start + 1 if count else start
    return str(first) if count == 1 else f"{first},{count}"


def _rows(sign: str, lines: Sequence[bytes], ends: bool) -> list[str]:
    rows = []
    for line in lines[: MAX_LINES + 1]:
        text = line.decode("utf-8", "replace").removesuffix("\n")
        if text.endswith("\r"):
            text = text[:-1] + ("␍" if ends else "")
        text = clean(text.replace("\r", "␍")).replace("\n", " ")  # a row stays one row
        if size(text) > _LINE_BYTES:
            text = first_bytes(text, _LINE_BYTES) + "…"
        rows.append(sign + text)
        if not line.endswith(b"\n"):
            rows.append("\\ No newline at end of file")
    return rows


def _bound(rows: list[str]) -> str:
    kept: list[str] = []
    budget = MAX_BYTES
    for row in rows[:MAX_LINES]:
        budget -= size(row) + 1
        if budget < 0:
            break
        kept.append(row)
    if len(kept) < len(rows):
        kept.append("… the rest of the diff is not shown")
    return "\n".join(kept)
