"""Keeping a tool's output within limits, and its progress in the slot (spec 10)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

MARGIN_LINES = 50  # room for a tool's own footer above its limit
MARGIN_BYTES = 4096


@dataclass(slots=True, frozen=True)
class Limited:
    """A text within limits, and what was dropped of it."""

    text: str
    dropped_lines: int = 0
    dropped_bytes: int = 0


def limit_text(text: str, keep: Literal["head", "tail"], max_lines: int, max_bytes: int) -> Limited:
    """At most so many lines and UTF-8 bytes from one end, never cutting a character.

    A single over-long line is cut rather than dropped.
    """
    kept = _keep_lines(text, keep, max_lines)
    data = kept.encode("utf-8", "replace")
    if len(data) > max_bytes:
        part = data[:max_bytes] if keep == "head" else data[-max_bytes:]
        kept = part.decode("utf-8", "ignore")
        newline = kept.rfind("\n") if keep == "head" else kept.find("\n")
        if newline >= 0 and newline != len(kept) - 1:
            kept = kept[: newline + 1] if keep == "head" else kept[newline + 1 :]
    if len(kept) == len(text):
        return Limited(text)
    dropped = text[len(kept) :] if keep == "head" else text[: len(text) - len(kept)]
    return Limited(kept, dropped.count("\n"), len(dropped.encode("utf-8", "replace")))


def _keep_lines(text: str, keep: Literal["head", "tail"], max_lines: int) -> str:
    lines = text.count("\n") + (0 if text.endswith("\n") else 1)
    if lines <= max_lines:
        return text
    if keep == "head":
        position = -1
        for _ in range(max_lines):
            position = text.index("\n", position + 1)
        return text[: position + 1]
    position = len(text) - 1 if text.endswith("\n") else len(text)
    for _ in range(max_lines):
        position = text.rindex("\n", 0, position)
    return text[position + 1 :]


class Tail:
    """The newest part of a growing text, bounded; counts what it dropped."""

    def __init__(self, max_lines: int, max_bytes: int) -> None:
        self._max_lines = max_lines
        self._max_bytes = max_bytes
        self._parts: list[str] = []
        self._size = 0
        self.dropped_lines = 0
        self.dropped_bytes = 0
        self.written = 0

    def append(self, text: str) -> None:
        """Add text at the end."""
        self._parts.append(text)
        size = len(text.encode("utf-8", "replace"))
        self._size += size
        self.written += size
        if self._size > 4 * self._max_bytes:
            self.text()

    def text(self) -> str:
        """What is kept."""
        limited = limit_text("".join(self._parts), "tail", self._max_lines, self._max_bytes)
        self.dropped_lines += limited.dropped_lines
        self.dropped_bytes += limited.dropped_bytes
        self._parts = [limited.text]
        self._size = len(limited.text.encode("utf-8", "replace"))
        return limited.text
