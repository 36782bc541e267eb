"""Text for the model and the screen: control sequences removed, lines and bytes limited. Pure.

A command's bytes go through one `Cleaner` (decoding, control sequences), then into a `Tail` (the model's limited copy)
and a `LiveText` (what is appended to the running call's output).
"""

from __future__ import annotations

import codecs
import re
from collections import deque
from dataclasses import dataclass

MAX_LINES = 2000
MAX_BYTES = 50 * 1024

_PLAIN = bytes(number for number in range(128) if number in (9, 10) or 32 <= number < 127)
_INTRODUCERS = "\x1b\x90\x98\x9b\x9d\x9e\x9f"
_HELD = 4096  # an unfinished sequence longer than this is dropped as it comes

# A string sequence (OSC, DCS, SOS, PM, APC) ends at its terminator, or where a line or another sequence begins: in
# binary output its beginning may stand without an end, and must not swallow the rest.
_STRING_BODY = r"[^\n\x07\x18\x1a\x1b\x9c]*"
_STRING_END = r"(?:\x07|\x1b\\|\x9c|\x18|\x1a|(?=[\n\x1b])|\Z)"
_SEQUENCES = re.compile(
    r"(?:\x1b\[|\x9b)[0-?]*[ -/]*[@-~]"  # CSI
    rf"|(?:\x1b[\]PX^_]|[\x90\x98\x9d\x9e\x9f]){_STRING_BODY}{_STRING_END}"
    r"|\x1b[ -/]*[0-~]"  # every other escape
    r"|[\x00-\x07\x0b\x0c\x0e-\x1f\x7f-\x9f]"  # what is left of C0 and C1: all but tab, newline, return, backspace
)
_UNFINISHED = re.compile(
    r"(?:\x1b\[|\x9b)[0-?]*[ -/]*"
    rf"|(?:\x1b[\]PX^_]|[\x90\x98\x9d\x9e\x9f]){_STRING_BODY}"
    r"|\x1b[ -/]*"
)
_STRING_START = re.compile(r"\x1b[\]PX^_]|[\x90\x98\x9d\x9e\x9f]")
_STRING_REST = re.compile(rf"{_STRING_BODY}(\x07|\x1b\\|\x9c|\x18|\x1a|(?=[\n\x1b]))?")


def size(text: str) -> int:
    """Bytes of the text in UTF-8."""
    return len(text) if text.isascii() else len(text.encode("utf-8", "surrogatepass"))


def show_bytes(count: int) -> str:
    """A number of bytes for people: `999 bytes`, `50.0 KiB`, `1.2 GiB`."""
    if count < 1024:
        return f"{count} bytes"
    amount = float(count)
    for unit in ("KiB", "MiB", "GiB"):
        amount /= 1024
        if amount < 1024 or unit == "GiB":
            break
    return f"{amount:.1f} {unit}"


def clean(text: str) -> str:
    """A finished text as the model and a line of the screen should see it."""
    return fold(_SEQUENCES.sub("", text[: _unfinished_at(text)]))


def _unfinished_at(text: str) -> int:
    """Where a control sequence begins that has no end yet; the length of the text when none does."""
    start = max(text.rfind(introducer) for introducer in _INTRODUCERS)
    return start if start >= 0 and _UNFINISHED.fullmatch(text, start) else len(text)


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


def first_bytes(text: str, limit: int) -> str:
    """The longest beginning of at most so many bytes that splits no character."""
    return text.encode("utf-8", "replace")[: max(limit, 0)].decode("utf-8", "ignore")


def last_bytes(text: str, limit: int) -> str:
    """The longest end of at most so many bytes that splits no character."""
    data = text.encode("utf-8", "replace")
    return data[max(len(data) - limit, 0) :].decode("utf-8", "ignore")


class Cleaner:
    """Bytes in pieces to text without control sequences, whatever the pieces split. Returns and backspaces stay."""

    def __init__(self) -> None:
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._held = ""  # an unfinished control sequence
        self._in_string = False  # inside a string sequence too long to hold

    def feed(self, data: bytes, final: bool = False) -> str:
        """The text of these bytes, bytes that are no UTF-8 as U+FFFD. `final` flushes what is unfinished."""
        if not self._held and not self._in_string and not data.translate(None, _PLAIN):
            return self._decoder.decode(data, final)  # an unfinished character before it becomes U+FFFD in front
        text = self._held + self._decoder.decode(data, final)
        self._held = ""
        if self._in_string and text:
            rest = _STRING_REST.match(text)
            if rest is not None:
                self._in_string = rest.group(1) is None
                text = text[rest.end() :]
        start = _unfinished_at(text)
        if start < len(text) and not final:
            self._in_string = len(text) - start > _HELD and _STRING_START.match(text, start) is not None
            self._held = "" if self._in_string else text[start:][:_HELD]
        return _SEQUENCES.sub("", text[:start])


@dataclass(slots=True, frozen=True)
class Limited:
    """A text within limits. Lines count from 1; `first`..`last` are shown; a cut inside a line is `partial`."""

    text: str
    lines: int
    total_bytes: int
    first: int
    last: int
    partial: bool

    @property
    def cut(self) -> bool:
        return self.partial or self.first > 1 or self.last < self.lines


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

    def feed(self, text: str) -> None:
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
            _, first_bytes_, first_newlines = self._blocks[0]
            enough_bytes = self._kept_bytes - first_bytes_ > self._max_bytes
            enough_lines = self._kept_newlines - first_newlines > self._max_lines
            if not (enough_bytes or enough_lines):
                break
            self._blocks.popleft()
            self._kept_bytes -= first_bytes_
            self._kept_newlines -= first_newlines

    def result(self) -> Limited:
        """What is kept so far."""
        open_line = _fold_line(self._open)
        text = "".join(block for block, _, _ in self._blocks) + open_line
        unfinished = bool(open_line) or self._line_bytes > 0
        lines = self._newlines + unfinished
        total = self._bytes + size(open_line)
        return _last_lines(text, lines, total, self._max_lines, self._max_bytes)


def _last_lines(text: str, lines: int, total: int, max_lines: int, max_bytes: int) -> Limited:
    body = text.removesuffix("\n")
    kept = body.split("\n")[-max_lines:] if lines else []
    budget = max_bytes
    count = 0
    for line in reversed(kept):
        budget -= size(line) + (1 if count else 0)
        if budget < 0:
            break
        count += 1
    if kept and count == 0:
        return Limited(last_bytes(kept[-1], max_bytes), lines, total, lines, lines, True)
    chosen = kept[len(kept) - count :]
    return Limited("\n".join(chosen), lines, total, lines - count + 1 if count else 0, lines, False)


class LiveText:
    """The cleaned text as it may be appended to what was shown: a line written over begins anew on a line of its own."""

    def __init__(self) -> None:
        self._open = False  # something of the current line was shown
        self._pending = ""  # returns and backspaces whose effect is not known yet

    def feed(self, text: str, final: bool = False) -> str:
        text = self._pending + text
        self._pending = ""
        if not final:
            body = text.rstrip("\r")
            self._pending = text[len(body) :][-1:]
            text = body
        if not text:
            return ""
        first, newline, rest = text.partition("\n")
        prefix = "\n" if self._open and "\r" in first.rstrip("\r") else ""
        shown = prefix + fold(first + newline + rest)
        if shown:
            self._open = not shown.endswith("\n")
        return shown
