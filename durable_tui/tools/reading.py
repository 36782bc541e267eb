"""Which lines of a file are shown, within limits, from bytes that come in pieces (cases T30, T33). Pure."""

from __future__ import annotations

from dataclasses import dataclass

from durable_tui.ground.bounded_text import MAX_BYTES, MAX_LINES
from durable_tui.ground.text import show_bytes
from durable_tui.tools.editing import BOM

_SIGNATURES = (
    (b"%PDF-", "a PDF document"),
    (b"PK\x03\x04", "a ZIP archive"),
    (b"\x1f\x8b", "gzip data"),
    (b"\x7fELF", "a program"),
    (b"SQLite format 3", "an SQLite database"),
    (b"\xff\xfe", "UTF-16 text"),
    (b"\xfe\xff", "UTF-16 text"),
)


def binary_kind(start: bytes) -> str | None:
    """Return what a file is, by its first bytes, when it is neither text nor an image; None for text."""
    for signature, name in _SIGNATURES:
        if start.startswith(signature):
            return name
    return "a binary file" if b"\0" in start else None


@dataclass(slots=True, frozen=True)
class Shown:
    """Lines `first`..`last` (from 1) as UTF-8 bytes; `lines` in the whole file, None if it was not read to its end.

    `cut_line` is the size of the only shown line when it was cut at its end.
    """

    data: bytes
    first: int
    last: int
    lines: int | None
    cut_line: int | None

    def text(self) -> tuple[str, bool]:
        """As shown, and whether bytes that are no UTF-8 became U+FFFD."""
        data = self.data
        if self.first == 1:
            data = data.removeprefix(BOM)
        if self.cut_line is not None:
            data = _whole_characters(data)
        try:
            text = data.decode("utf-8")
            replaced = False
        except UnicodeDecodeError:
            text = data.decode("utf-8", "replace")
            replaced = True
        return text.replace("\r\n", "\n").removesuffix("\n").removesuffix("\r"), replaced


class LineWindow:
    """Takes a file's bytes in order; keeps whole lines from `offset` on, `limit` of them and the byte limit at most."""

    def __init__(self, offset: int = 1, limit: int = MAX_LINES, max_bytes: int = MAX_BYTES) -> None:
        self._offset = offset
        self._limit = min(limit, MAX_LINES)
        self._max_bytes = max_bytes
        self._line = 1  # the line that the next byte belongs to
        self._kept: list[bytes] = []
        self._kept_bytes = 0
        self._kept_lines = 0
        self._part: list[bytes] = []  # the kept part of a wanted line
        self._part_bytes = 0  # its whole size so far
        self._cut_line: int | None = None
        self._full = False
        self._read = 0
        self._open = False  # the last line has no newline yet
        self.nul = False  # a NUL was found in what is shown

    @property
    def full(self) -> bool:
        """No more lines will be shown; what follows is only counted."""
        return self._full

    def feed(self, data: bytes) -> None:
        self._read += len(data)
        at = 0
        while at < len(data):
            if self._full or self._line < self._offset:
                at = self._skip(data, at)
                continue
            end = data.find(b"\n", at) + 1
            piece = data[at : end or len(data)]
            self._take(piece)
            at += len(piece)
            if end:
                self._end_line()
        if data:
            self._open = not data.endswith(b"\n")

    def _skip(self, data: bytes, at: int) -> int:
        """Count lines without keeping them."""
        if self._full:
            self._line += data.count(b"\n", at)
            return len(data)
        while self._line < self._offset:
            end = data.find(b"\n", at) + 1
            if not end:
                return len(data)
            self._line += 1
            at = end
        return at

    def _take(self, piece: bytes) -> None:
        room = self._max_bytes + 1 - self._part_bytes
        if room > 0:
            self._part.append(piece[:room])
        self._part_bytes += len(piece)
        if self._kept_lines and self._kept_bytes + self._part_bytes > self._max_bytes + 1:
            self._part.clear()  # it does not fit behind the lines before it
            self._full = True

    def _end_line(self) -> None:
        self._line += 1
        self._finish_line()

    def _finish_line(self) -> None:
        if self._full or not self._part:
            return
        line = b"".join(self._part)
        if self._part_bytes > self._max_bytes + 1:
            self._cut_line = self._part_bytes
            line = line[: self._max_bytes]
        self._kept.append(line)
        self._kept_bytes += len(line)
        self._kept_lines += 1
        self._part.clear()
        self._part_bytes = 0
        self._full = self._cut_line is not None or self._kept_lines >= self._limit

    def result(self, complete: bool = True) -> Shown:
        """Return what is shown; `complete` says that the whole file was fed."""
        self._finish_line()
        data = b"".join(self._kept)
        self.nul = b"\0" in data
        lines = self._line - 1 + self._open if complete else None
        last = self._offset + self._kept_lines - 1
        return Shown(data, self._offset, last, lines, self._cut_line)


def footer(shown: Shown, path: str, size: int) -> str:
    """One line on what is not shown and how to go on; "" when everything is."""
    on = f"Use offset={shown.last + 1} to go on."
    if shown.cut_line is not None:
        cut = (
            f"[Line {shown.first} has {show_bytes(shown.cut_line)}; only its first {show_bytes(len(shown.data))} "
            f"are shown. For more of it use bash: sed -n '{shown.first}p' {path} | head -c N | tail -c M."
        )
        return cut + (f" {on}]" if shown.lines is None or shown.last < shown.lines else "]")
    if shown.lines is None:
        return f"[Lines {shown.first}-{shown.last} of a file of {show_bytes(size)} shown. {on}]"
    if shown.last >= shown.lines:
        return ""
    return f"[Lines {shown.first}-{shown.last} of {shown.lines} shown. {on}]"


def _whole_characters(data: bytes) -> bytes:
    """Without a character that was cut at the end."""
    for back in range(1, min(4, len(data)) + 1):
        byte = data[-back]
        if byte < 0x80:
            return data
        if byte >= 0xC0:
            width = 2 if byte < 0xE0 else 3 if byte < 0xF0 else 4
            return data if back >= width else data[:-back]
    return data
