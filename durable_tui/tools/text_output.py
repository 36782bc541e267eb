"""A command's bytes as text for the model and the screen. Pure.

They go through one `Cleaner` (decoding, control sequences), then into a `Tail` (the model's limited copy) and a
`LiveText` (what is appended to the running call's output).
"""

from __future__ import annotations

import codecs
import re

from durable_tui.ground.bounded_text import fold
from durable_tui.ground.text import INTRODUCERS, SEQUENCE, STRING_BODY, STRING_START

_PLAIN = bytes(number for number in range(128) if number in (9, 10) or 32 <= number < 127)
_HELD = 4096  # an unfinished sequence longer than this is dropped as it comes

_CONTROLS = re.compile(r"[\x00-\x07\x0b\x0c\x0e-\x1f\x7f-\x9f]")  # all but tab, newline, return, backspace
_UNFINISHED = re.compile(rf"(?:\x1b\[|\x9b)[0-?]*[ -/]*|{STRING_START}{STRING_BODY}|\x1b[ -/]*")
_STRING_START = re.compile(STRING_START)
_STRING_REST = re.compile(rf"{STRING_BODY}(\x07|\x1b\\|\x9c|\x18|\x1a|(?=[\n{INTRODUCERS}]))?")


def _unfinished_at(text: str) -> int:
    """Return where a control sequence begins that has no end yet; the length of the text when none does."""
    start = max(text.rfind(introducer) for introducer in INTRODUCERS)
    return start if start >= 0 and _UNFINISHED.fullmatch(text, start) else len(text)


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
        return _CONTROLS.sub("", SEQUENCE.sub("", text[:start]))


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
