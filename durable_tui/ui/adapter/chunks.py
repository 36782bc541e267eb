"""Long and growing Markdown cut into chunks: closed ones never change again, only the open last one does.

A chunk ends at a blank line where possible, so that it renders alone as it would in the whole; one that starts inside a
code fence knows the fence's info string.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

SOFT_LINES = 16  # a chunk of this many lines ends at the next blank line outside a fence
HARD_LINES = 64  # and at the latest here
HARD_CHARS = 4096  # a single line longer than this is cut at a blank
FENCE = re.compile(r"^[ \t]*(`{3,}|~{3,})(.*)$")


@dataclass(slots=True, frozen=True)
class Chunk:
    """`fence` is the info string of the fence it starts in, or None; `gap` asks for a blank line before it;
    `continues` says its first line goes on the last line of the chunk before."""

    text: str
    fence: str | None = None
    gap: bool = False
    continues: bool = False


class Chunker:
    """Feeds on ever longer versions of one text. `closed` only grows, unless the text was replaced."""

    def __init__(self) -> None:
        self.closed: list[Chunk] = []
        self.restarts = 0  # how often the text was replaced instead of grown
        self._text = ""
        self._reset()

    def _reset(self) -> None:
        self.closed = []
        self._start = 0  # of the open chunk
        self._scan = 0  # of the first line not looked at
        self._lines = 0
        self._gap = False
        self._continues = False
        self._fence: tuple[str, str] | None = None  # (marks, info) at _scan
        self._fence_start: str | None = None  # info at _start

    def update(self, text: str) -> None:
        """Take the text as it is now."""
        if not text.startswith(self._text):
            self._reset()
            self.restarts += 1
        self._text = text
        while (stop := text.find("\n", self._scan)) >= 0:
            self._line(text[self._scan : stop], stop + 1)
        while len(text) - max(self._scan, self._start) > HARD_CHARS and self._fence is None:
            begin = max(self._scan, self._start)
            cut = text.rfind(" ", begin + HARD_CHARS // 2, begin + HARD_CHARS)
            cut = cut + 1 if cut > 0 else begin + HARD_CHARS
            self._scan = cut
            self._close(cut, gap=False, continues=True)

    def _line(self, line: str, after: int) -> None:
        if self._scan + HARD_CHARS < after and self._fence is None:
            long_end = after - 1
            while long_end - self._scan > HARD_CHARS:
                cut = self._text.rfind(" ", self._scan + HARD_CHARS // 2, self._scan + HARD_CHARS)
                self._scan = cut + 1 if cut > 0 else self._scan + HARD_CHARS
                self._close(self._scan, gap=False, continues=True)
            self._scan = after
            self._close(after, gap=False, continues=False)
            return
        self._scan = after
        self._lines += 1
        match = FENCE.match(line)
        if match:
            marks, info = match.group(1), match.group(2).strip()
            if self._fence is None:
                if not (marks[0] == "`" and "`" in info):
                    self._fence = (marks, info)
            elif marks[0] == self._fence[0][0] and len(marks) >= len(self._fence[0]) and not info:
                self._fence = None
        inside = self._fence is not None
        if not inside and not line.strip() and self._lines >= SOFT_LINES:
            self._close(after, gap=True, continues=False)
        elif self._lines >= HARD_LINES and (
            inside or not line.lstrip().startswith("|") or self._lines >= 4 * HARD_LINES
        ):
            self._close(after, gap=False, continues=False)

    def _close(self, end: int, *, gap: bool, continues: bool) -> None:
        self.closed.append(self._make(self._text[self._start : end]))
        self._start = end
        self._lines = 0
        self._gap = gap
        self._continues = continues
        self._fence_start = self._fence[1] if self._fence else None

    def _make(self, text: str) -> Chunk:
        return Chunk(text, self._fence_start, self._gap, self._continues)

    def open(self) -> Chunk | None:
        """The chunk still growing, or None when nothing stands behind the closed ones."""
        rest = self._text[self._start :]
        return self._make(rest) if rest.strip() or (rest and not self.closed) else None

    def all(self) -> list[Chunk]:
        last = self.open()
        return [*self.closed, last] if last else list(self.closed)


def chunks(text: str) -> list[Chunk]:
    """A finished text in chunks."""
    chunker = Chunker()
    chunker.update(text)
    return chunker.all()
