"""Text within limits of lines and bytes, at once or as it grows. Pure."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from typing import Literal

MAX_LINES = 2000
MAX_BYTES = 50 * 1024
MARGIN_LINES = 50  # room for a tool's own footer above its limit
MARGIN_BYTES = 4096


@dataclass(slots=True, frozen=True)
class Limited:
    """A text within limits. Lines count from 1; `first`..`last` are kept; a cut inside a line is `partial`.

    `text` is without the line break behind its last line; `newline` says that there was one.
    """

    text: str
    lines: int
    total_bytes: int
    first: int
    last: int
    partial: bool
    newline: bool

    @property
    def cut(self) -> bool:
        return self.partial or self.first > 1 or self.last < self.lines

    @property
    def kept(self) -> str:
        """What was kept, to the letter."""
        return self.text + "\n" if self.newline else self.text

    @property
    def dropped_lines(self) -> int:
        return max(self.first - 1, 0) + self.lines - self.last

    @property
    def dropped_bytes(self) -> int:
        return self.total_bytes - size(self.text) - self.newline


def size(text: str) -> int:
    """Return the bytes of the text in UTF-8."""
    return len(text) if text.isascii() else len(text.encode("utf-8", "surrogatepass"))


def first_bytes(text: str, limit: int) -> str:
    """Return the longest beginning of at most so many bytes that splits no character."""
    return text.encode("utf-8", "replace")[: max(limit, 0)].decode("utf-8", "ignore")


def last_bytes(text: str, limit: int) -> str:
    """Return the longest end of at most so many bytes that splits no character."""
    data = text.encode("utf-8", "replace")
    return data[max(len(data) - limit, 0) :].decode("utf-8", "ignore")


def limit_text(
    text: str, keep: Literal["head", "tail"], max_lines: int = MAX_LINES, max_bytes: int = MAX_BYTES
) -> Limited:
    """Return whole lines from one end of the text, so many at most; a line break at the end of the text is no byte.

    Of a line that is over the limit alone, the part at that end is kept.
    """
    lines = text.count("\n") + (not text.endswith("\n") and text != "")
    return _limit(text, keep, max_lines, max_bytes, lines, size(text))


def _limit(
    text: str, keep: Literal["head", "tail"], max_lines: int, max_bytes: int, lines: int, total_bytes: int
) -> Limited:
    """The same for the end of a longer text, of which `lines` and `total_bytes` are known."""
    body = text.removesuffix("\n")
    newline = len(body) < len(text)
    if not lines:
        return Limited("", 0, total_bytes, 0, 0, False, newline)
    head = keep == "head"
    rows = body.split("\n")
    rows = rows[:max_lines] if head else rows[-max_lines:]
    budget, count = max_bytes, 0
    for row in rows if head else reversed(rows):
        budget -= size(row) + (1 if count else 0)
        if budget < 0:
            break
        count += 1
    if count == 0:
        number = 1 if head else lines
        part = first_bytes(rows[0], max_bytes) if head else last_bytes(rows[-1], max_bytes)
        return Limited(part, lines, total_bytes, number, number, True, newline and not head)
    shown = "\n".join(rows[:count] if head else rows[len(rows) - count :])
    first, last = (1, count) if head else (lines - count + 1, lines)
    return Limited(shown, lines, total_bytes, first, last, False, newline or last < lines)


def fold(text: str) -> str:
    """Apply returns and backspaces: of a line that was written over (a progress bar) the last state stays."""
    if "\r" not in text and "\b" not in text:
        return text
    return "\n".join(_fold_line(line) for line in text.split("\n"))


def _fold_line(line: str) -> str:
    if "\r" in line:
        line = line.rstrip("\r")
        line = line[line.rfind("\r") + 1 :]
    if "\b" in line:
        kept: list[str] = []
        for character in line:
            if character != "\b":
                kept.append(character)
            elif kept:
                kept.pop()
        line = "".join(kept)
    return line


class Tail:
    """The end of a text that comes in pieces: at most so many lines and bytes, in memory of the same order.

    A final newline ends the last line and does not begin another. Of a single line over the limit its end is kept.
    """

    def __init__(self, max_lines: int = MAX_LINES, max_bytes: int = MAX_BYTES) -> None:
        self._max_lines = max_lines
        self._max_bytes = max_bytes
        self._blocks: deque[tuple[str, int, int]] = deque()  # text, bytes, newlines
        self._kept_bytes = 0
        self._kept_newlines = 0
        self._open = ""  # the line that may still be written over
        self._newlines = 0  # of the whole text
        self._bytes = 0  # of what left `_open`
        self._line_bytes = 0  # of the open line's part that left `_open`
        self.written = 0  # bytes appended, written over or not

    def append(self, text: str) -> None:
        """Add text at the end."""
        self.written += size(text)
        text = self._open + text
        end = text.rfind("\n") + 1
        if end:
            self._push(fold(text[:end]))
        self._open = text[end:]
        if "\r" in self._open:
            # what was written over is gone; a return at the end still waits for what follows
            body = self._open.rstrip("\r")
            self._open = body[body.rfind("\r") + 1 :] + ("\r" if len(body) < len(self._open) else "")
        if len(self._open) > 2 * self._max_bytes:
            # too long a line to hold: its beginning can no longer be written over
            cut = len(self._open) - self._max_bytes
            self._push(_fold_line(self._open[:cut]))
            self._open = self._open[cut:]

    def _push(self, text: str) -> None:
        count, newlines = size(text), text.count("\n")
        self._blocks.append((text, count, newlines))
        self._bytes += count
        self._newlines += newlines
        self._line_bytes = size(text[text.rfind("\n") + 1 :]) if newlines else self._line_bytes + count
        self._kept_bytes += count
        self._kept_newlines += newlines
        while len(self._blocks) > 1:
            _, oldest_bytes, oldest_newlines = self._blocks[0]
            enough_bytes = self._kept_bytes - oldest_bytes > self._max_bytes
            enough_lines = self._kept_newlines - oldest_newlines > self._max_lines
            if not (enough_bytes or enough_lines):
                break
            self._blocks.popleft()
            self._kept_bytes -= oldest_bytes
            self._kept_newlines -= oldest_newlines

    def result(self) -> Limited:
        """Return what is kept so far."""
        open_line = _fold_line(self._open)
        text = "".join(block for block, _, _ in self._blocks) + open_line
        unfinished = bool(open_line) or self._line_bytes > 0
        lines, total = self._newlines + unfinished, self._bytes + size(open_line)
        return _limit(text, "tail", self._max_lines, self._max_bytes, lines, total)
