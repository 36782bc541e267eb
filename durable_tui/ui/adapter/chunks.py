"""Long and growing Markdown cut into chunks: of closed ones no more than addresses of links change, the open last one does.

A chunk ends where a block of the top level ends, so that it renders alone as it would in the whole. One that had to end
inside a block, as long code must, is followed by one that knows how to reopen that block.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace

SOFT_LINES = 6  # a chunk of this many lines ends before the next block of the top level, or item of a list there
HARD_LINES = 64  # and here inside code, a quote or a paragraph
LAST_LINES = 4 * HARD_LINES  # and here inside a table or an item of a list
HARD_CHARS = 4096  # a single line longer than this is cut at a blank, and four times as much text wherever it is
DEEPEST = 40  # items inside each other that are followed
MOST_LINKS = 32  # addresses written elsewhere that one chunk is told

_FENCE = re.compile(r"(`{3,}|~{3,})(.*)$")
_MARKER = re.compile(r"(?:[-+*]|(\d{1,9})[.)])(?=[ \t]|$)")
_RULE = re.compile(r"([-_*])(?:[ \t]*\1){2,}[ \t]*$")
_ENDS_A_LIST = re.compile(r"#{1,6}(?:[ \t]|$)|>")
_TABLE_RULE = re.compile(r"[ \t]*\|?[ \t]*:?-+:?[ \t]*(?:\|[ \t]*:?-+:?[ \t]*)*\|?[ \t]*$")
_DEFINITION = re.compile(r"\[((?:\\.|[^\[\]\\]){1,200})\]:[ \t]*\S")
_LABEL = re.compile(r"\[((?:\\.|[^\[\]\\]){1,200})\](?![(:])")
_UNDECIDED = frozenset(" \t\r\n-+*0123456789")  # a line that begins so may belong to the list above it


@dataclass(slots=True, frozen=True)
class Chunk:
    """`opening` is source that reopens the block the text starts in, itself not shown; `gap` asks for a blank line
    before it; `continues` says its first line goes on the last line of the chunk before."""

    text: str
    opening: str = ""
    gap: bool = False
    continues: bool = False


@dataclass(slots=True, frozen=True)
class _Fence:
    marks: str
    info: str
    column: int  # of the content of the item it stands in

    def closed_by(self, stripped: str) -> bool:
        match = _FENCE.match(stripped)
        return (
            match is not None
            and match.group(1)[0] == self.marks[0]
            and len(match.group(1)) >= len(self.marks)
            and not match.group(2).strip()
        )


def _label(text: str) -> str:
    """Labels that mean the same are equal."""
    return " ".join(text.split()).casefold()


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
        self._opening = ""
        self._fence: _Fence | None = None  # at _scan, as all below
        self._items: list[int] = []  # columns where the content of the open items begins, outermost first
        self._list = ""  # the delimiter of the open list of the top level, and the number of its last item
        self._number = 0
        self._table = ""  # its first two lines
        self._above = ""  # the line above; blank at the start
        self._defined: dict[str, str] = {}  # link definitions by their label
        self._wanted: dict[str, list[int]] = {}  # closed chunks that mention a label not defined yet
        self._defines = False  # whether the line above is such a definition

    def update(self, text: str) -> None:
        """Take the text as it is now."""
        if not text.startswith(self._text):
            self._reset()
            self.restarts += 1
        self._text = text
        while (stop := text.find("\n", self._scan)) >= 0:
            self._line(text[self._scan : stop], stop + 1)
        if self._may_close() and text[self._scan : self._scan + 1] not in ("", *_UNDECIDED):
            self._close(self._scan, gap=True)
            self._leave_items(0)
        if self._fence is None:
            self._cut_line(len(text))

    def _cut_line(self, end: int) -> None:
        """Close what a line up to `end` has too much, at blanks: those begin the next chunk."""
        while end - self._scan > HARD_CHARS:
            cut = self._text.rfind(" ", self._scan + HARD_CHARS // 2, self._scan + HARD_CHARS)
            self._scan = cut if cut > 0 else self._scan + HARD_CHARS
            self._close(self._scan, gap=False, continues=True)

    def _may_close(self) -> bool:
        """Whether a block of the top level that starts now starts a chunk."""
        return self._lines >= SOFT_LINES and self._fence is None and not self._above.strip()

    def _line(self, line: str, after: int) -> None:
        stripped = line.lstrip(" \t")
        indent = len(line) - len(stripped) and len(line[: len(line) - len(stripped)].expandtabs(4))
        fence = self._fence
        if fence is not None and stripped and indent < fence.column:
            fence = self._fence = None  # with the item it stood in
        if fence is not None:
            if indent < fence.column + 4 and fence.closed_by(stripped):
                self._fence = None
        elif self._scan + HARD_CHARS < after:
            self._leave_items(0)
            self._cut_line(after - 1)
            self._above, self._scan = "", after
            self._close(after, gap=False)
            return
        elif stripped:
            self._text_line(stripped, indent)
        else:
            self._table = ""
        self._defines = stripped[:1] == "[" and self._define(stripped, indent)
        self._above, self._scan = line, after
        self._lines += 1
        size = after - self._start
        many = LAST_LINES if (self._items and self._fence is None) or self._table else HARD_LINES
        full = self._lines >= many or size >= 4 * HARD_CHARS
        if full and (stripped or self._fence is not None):  # what follows a blank line is cut before it, in time
            self._close(after, gap=False, opening=self._reopening())

    def _text_line(self, stripped: str, indent: int) -> None:
        """Follow the lists, the fence and the table that a line begins or ends; close a chunk before it."""
        blank = not self._above.strip()
        if indent == 0 and stripped[0].isalpha():  # most lines begin nothing but a paragraph, if that
            if self._may_close():
                self._close(self._scan, gap=True)
            if blank:
                self._leave_items(0)
            return
        rule = _RULE.match(stripped) is not None
        marker = None if rule else _MARKER.match(stripped)
        opens = _FENCE.match(stripped)
        if opens and opens.group(1)[0] == "`" and "`" in opens.group(2):
            opens = None
        outside = not self._items or indent < self._items[0]
        if outside and self._lines >= SOFT_LINES and (blank or (marker and self._items)):
            self._close(self._scan, gap=blank, opening=self._counting(stripped, marker))
        if blank or rule or marker or opens or _ENDS_A_LIST.match(stripped):
            self._leave_items(indent, keep_list=marker is not None)
        at = indent
        while marker and len(self._items) < DEEPEST and at - (self._items[-1] if self._items else 0) < 4:
            if not self._items:
                self._count(stripped[marker.end() - 1], marker)
            rest = stripped[marker.end() :]
            stripped = rest.lstrip(" \t")
            blanks = len(rest.expandtabs(4)) - len(stripped.expandtabs(4))
            at += marker.end() + (blanks if stripped and blanks <= 4 else 1)
            self._items.append(at)
            marker = None if _RULE.match(stripped) else _MARKER.match(stripped)
            opens = _FENCE.match(stripped)
        column = self._items[-1] if self._items else 0
        if opens and at - column < 4 and not (opens.group(1)[0] == "`" and "`" in opens.group(2)):
            self._fence = _Fence(opens.group(1), opens.group(2).strip(), column)
        elif "|" in self._above and "|" in stripped and not self._items and _TABLE_RULE.match(stripped):
            self._table = self._table or f"{self._above}\n{stripped}\n"

    def _define(self, stripped: str, indent: int) -> bool:
        """Whether a line defines a link's address, which then all chunks that mention it are told."""
        match = _DEFINITION.match(stripped)
        if not match or self._fence or self._items or indent > 3 or (self._above.strip() and not self._defines):
            return False
        label = _label(match.group(1))
        if label not in self._defined:
            self._defined[label] = f"{stripped.rstrip()}\n"
            for index in self._wanted.pop(label, ()):
                chunk = self.closed[index]
                blank = "" if chunk.opening.startswith("[") else "\n"
                self.closed[index] = replace(chunk, opening=f"{self._defined[label]}{blank}{chunk.opening}")
        return True

    def _definitions(self, text: str, closing: bool) -> str:
        """The definitions known of the labels a chunk mentions; a closing one is told of the others later."""
        known = []
        for label in list(dict.fromkeys(map(_label, _LABEL.findall(text))))[:MOST_LINKS] if "[" in text else ():
            if label in self._defined:
                known.append(self._defined[label])
            elif closing:
                self._wanted.setdefault(label, []).append(len(self.closed))
        return "".join(known) + "\n" if known else ""

    def _leave_items(self, indent: int, keep_list: bool = False) -> None:
        while self._items and self._items[-1] > indent:
            self._items.pop()
        if not self._items and not keep_list:
            self._list = ""

    def _count(self, delimiter: str, marker: re.Match[str]) -> None:
        """An item of the top level: the next one of the open list, or the first one of another."""
        number = int(marker.group(1) or 0)
        self._number = self._number + 1 if self._list == delimiter else number
        self._list = delimiter

    def _counting(self, stripped: str, marker: re.Match[str] | None) -> str:
        """The item above an item, so that it gets its number where its own is another."""
        if marker is None or not marker.group(1) or self._list != stripped[marker.end() - 1]:
            return ""
        return f"{self._number}{self._list}\n" if int(marker.group(1)) != self._number + 1 else ""

    def _reopening(self) -> str:
        """Source after which the next line stands where it stands now: in an item, in a fence, in a table."""
        parts, column = [], 0
        for index, content in enumerate(self._items):
            mark = f"{self._number}{self._list}" if index == 0 and self._list in (".", ")") else "-"
            mark = mark if column + len(mark) < content else "-"
            parts.append(" " * min(max(content - column - len(mark) - 1, 0), 3) + mark + " ")
            column = content
        if self._fence is not None:
            return f"{''.join(parts)}{self._fence.marks}{self._fence.info}\n"
        return f"{''.join(parts).rstrip()}\n" if parts else self._table

    def _close(self, end: int, *, gap: bool, continues: bool = False, opening: str = "") -> None:
        self.closed.append(self._make(self._text[self._start : end]))
        self._start = end
        self._lines = 0
        self._gap = gap
        self._continues = continues
        self._opening = opening

    def _make(self, text: str, closing: bool = True) -> Chunk:
        return Chunk(text, self._definitions(text, closing) + self._opening, self._gap, self._continues)

    def open(self) -> Chunk | None:
        """The chunk still growing, or None when nothing stands behind the closed ones."""
        rest = self._text[self._start :]
        return self._make(rest, closing=False) if rest.strip() or (rest and not self.closed) else None

    def all(self) -> list[Chunk]:
        last = self.open()
        return [*self.closed, last] if last else list(self.closed)


def chunks(text: str) -> list[Chunk]:
    """A finished text in chunks."""
    chunker = Chunker()
    chunker.update(text)
    return chunker.all()
