"""Markdown as lines: markdown-it reads it (CommonMark, tables and strikethrough of GFM), this lays out what it found.

Source lines and single blank lines stay as they were written, so a growing text keeps the look of its finished lines.
Raw HTML is text. The text must be clean (`safe.clean`).
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING

from durable_tui.ui.glyphs import UNICODE, Glyphs
from durable_tui.ui.text import code as code_text
from durable_tui.ui.text.inline import inline_lines, styled
from durable_tui.ui.text.runs import Line, Run, runs_width, width
from durable_tui.ui.text.tables import table_lines
from durable_tui.ui.text.wrap import wrap

if TYPE_CHECKING:
    from markdown_it import MarkdownIt
    from markdown_it.token import Token

DEEPEST = 60  # blocks inside each other; what lies deeper is shown as it was written
DEEPEST_LINK = 20  # brackets inside each other; deeper ones are looked for at a cost that is felt
ROOM = 8  # cells a line needs beside its indent, which else goes
_BLANK = re.compile(r"[ >]*$")
_TASK = re.compile(r"\[([ xX])\] ")
_ONLY_MARKS = re.compile(r"(?:^|\n)[ >]*(?:[-=_*+#~`|:> ]+|\d{1,9}[.)]?)$")
_BLOCK_MARK = re.compile(r"[ \t]*(?=[-+*#>|=~`_<\[])")
_NUMBER_MARK = re.compile(r"[ \t]*\d{1,9}(?=[.)])")


@lru_cache(maxsize=2)
def _parser(deepest: int) -> MarkdownIt:
    from markdown_it import MarkdownIt

    parser = MarkdownIt("commonmark", {"maxNesting": deepest}).enable(["table", "strikethrough"])
    parser.normalizeLink = lambda url: url  # type: ignore[method-assign]  # shown as it was written
    parser.validateLink = lambda url: True  # type: ignore[method-assign]  # an address is only shown
    return parser


def settled(text: str) -> str:
    """A growing text without a last line that is nothing but marks yet: what they mean is told by what follows."""
    match = _ONLY_MARKS.search(text, max(text.rfind("\n"), 0))
    return text[: match.start() + 1] if match and text[match.start()] == "\n" else "" if match else text


def markdown(
    text: str, cells: int, *, opening: str = "", continues: bool = False, base: str = "", glyphs: Glyphs = UNICODE
) -> list[Line]:
    """The lines of one chunk of at most `cells` cells.

    `opening` is source that the chunk stands behind, itself not shown. One that `continues` begins inside a line.
    """
    if continues:
        text = _inside_a_line(text)
    source = (opening + text).expandtabs(4)
    tokens: list[Token] = []
    environment: dict[str, object] = {}
    parser = _parser(DEEPEST)
    parser.block.parse(source, parser, environment, tokens)
    layout = _Layout(source.split("\n"), opening.count("\n"), cells, base, glyphs)
    if any(token.level >= DEEPEST - 2 for token in tokens):
        for line in layout.source[layout.hidden :]:
            layout.put([(line, base)] if line.strip() else [])
        return layout.lines
    parser = _parser(DEEPEST_LINK)
    for token in tokens:
        if token.type == "inline" and token.children is not None:
            parser.inline.parse(token.content, parser, environment, token.children)
    layout.blocks(tokens)
    return layout.lines


def _inside_a_line(text: str) -> str:
    """A text whose beginning must not be taken for the beginning of a block."""
    text = text.lstrip(" \t")
    match = _NUMBER_MARK.match(text) or _BLOCK_MARK.match(text)
    return f"{text[: match.end()]}\\{text[match.end() :]}" if match else text


@dataclass(slots=True)
class _Box:
    """What an item or a quote puts before its lines: `mark` before the first one, `rest` before the others."""

    mark: list[Run]
    rest: list[Run]
    style: str
    is_quote: bool = False


class _Layout:
    """Lays the blocks of one chunk out, one token after another."""

    def __init__(self, source: list[str], hidden: int, cells: int, base: str, glyphs: Glyphs) -> None:
        self.lines: list[Line] = []
        self.source = source
        self.hidden = hidden  # source lines at the start that are not shown
        self._cells = cells
        self._glyphs = glyphs
        self._boxes = [_Box([], [], base)]
        self._numbers: list[int | None] = []  # of the next item, of each open list
        self._seen = -1  # source line at which a block began last

    def blocks(self, tokens: list[Token]) -> None:
        at = 0
        while at < len(tokens):
            token = tokens[at]
            if token.map and token.nesting >= 0:
                self._separate(token.map[0])
            if token.type == "table_open":
                end = next(i for i in range(at, len(tokens)) if tokens[i].type == "table_close")
                self._table(tokens[at:end])
                at = end
            else:
                self._block(token, tokens[at - 1])
            at += 1

    def _separate(self, line: int) -> None:
        """A blank line before a block that has one in the source."""
        if line <= self._seen:
            return
        self._seen = line
        if self.lines and line > self.hidden and _BLANK.match(self.source[line - 1]):
            last = max((index for index, box in enumerate(self._boxes) if box.is_quote), default=0)
            runs = [run for box in self._boxes[: last + 1] for run in box.rest]
            self.lines.append(Line(runs, runs_width(runs)))

    def _block(self, token: Token, before: Token) -> None:
        kind = token.type
        style = self._boxes[-1].style
        if kind == "inline":
            if before.type == "heading_open":
                style = styled(style, "bold heading")
            self._take_task(token)
            for runs in inline_lines(token.children or (), style):
                self.put(runs)
        elif kind in ("fence", "code_block"):
            self._code(token)
        elif kind == "html_block":
            for line in token.content.rstrip("\n").split("\n"):
                self.put([(line, style)] if line.strip() else [])
        elif kind == "hr":
            first, rest, _ = self._gutter()
            room = max(min(self._cells - runs_width(rest), 40), 1)
            runs = [*first, (self._glyphs["rule"] * room, "faint")]
            self.lines.append(Line(runs, runs_width(runs)))
        elif kind == "blockquote_open":
            rail: list[Run] = [(f"{self._glyphs['rail']} ", "faint")]
            self._boxes.append(_Box([], rail, styled(style, "dim"), is_quote=True))
        elif kind in ("bullet_list_open", "ordered_list_open"):
            start = int(token.attrs.get("start", 1)) if kind == "ordered_list_open" else None
            self._numbers.append(start)
        elif kind in ("bullet_list_close", "ordered_list_close"):
            self._numbers.pop()
        elif kind == "list_item_open":
            self._item(token)
        elif kind == "list_item_close":
            if self._boxes[-1].mark:
                self.put([])
            self._boxes.pop()
        elif kind == "blockquote_close":
            self._boxes.pop()

    def _item(self, token: Token) -> None:
        number = self._numbers[-1]
        mark = f"{self._glyphs['bullet']} "
        if number is not None:
            mark = f"{number}{token.markup} "
            self._numbers[-1] = number + 1
        head: list[Run] = [(mark, "dim")] if not token.map or token.map[0] >= self.hidden else []
        self._boxes.append(_Box(head, [(" " * width(mark), "")], self._boxes[-1].style))

    def _take_task(self, token: Token) -> None:
        """The box of a task instead of the mark of its item."""
        mark, children = self._boxes[-1].mark, token.children
        match = _TASK.match(children[0].content) if mark and children and children[0].type == "text" else None
        if match and children:
            glyph = self._glyphs["box" if match.group(1) == " " else "checked"]
            self._boxes[-1].mark = [(f"{glyph} ", "dim")]
            self._boxes[-1].rest = [("  ", "")]
            children[0].content = children[0].content[match.end() :]

    def _code(self, token: Token) -> None:
        code = token.content.removesuffix("\n")
        for runs in code_text.highlight(code, code_text.language_of(token.info)):
            self.put(runs, pad="  ", fill="ground")

    def _table(self, tokens: list[Token]) -> None:
        rows: list[list[list[Run]]] = []
        sides: list[str] = []
        style = self._boxes[-1].style
        for token in tokens:
            if token.type == "tr_open":
                rows.append([])
            elif token.type == "th_open":
                sides.append(str(token.attrs.get("style", "")).removeprefix("text-align:"))
            elif token.type == "inline":
                cell = inline_lines(token.children or (), styled(style, "bold") if len(rows) == 1 else style)
                rows[-1].append([run for line in cell for run in line])
        first, rest, rails = self._gutter()
        lines = table_lines(rows, sides, self._cells - runs_width(rest), self._glyphs)
        for line in lines[2:] if tokens[0].map and tokens[0].map[0] < self.hidden else lines:
            self.lines.append(Line([*first, *line.runs], rails + line.gutter, line.join))
            first = rest

    def put(self, runs: list[Run], *, pad: str = "", fill: str = "") -> None:
        """Add the lines of one source line, behind what its quotes and items put before it."""
        first, rest, rails = self._gutter()
        before: list[Run] = [(pad, "")] if pad else []
        if runs_width(first) + ROOM // 2 > self._cells:
            runs, first, rest = [*first, *runs], [], []
        lines = wrap(runs, self._cells, first=[*first, *before], rest=[*rest, *before], fill=fill)
        if first is not rest or not pad:
            lines[0].gutter = rails  # marks and indents belong to the text when copied, rails and the pad do not
        self.lines += lines

    def _gutter(self) -> tuple[list[Run], list[Run], int]:
        """What stands before the next line, before those after it, and the cells of the former up to its last rail.

        Where that leaves no room, only the marks stay.
        """
        rest = [run for box in self._boxes for run in box.rest]
        marks = [run for box in self._boxes for run in box.mark]
        first = [run for box in self._boxes for run in box.mark or box.rest] if marks else rest
        rails = 0
        for index, box in enumerate(self._boxes):
            if box.is_quote:
                rails = sum(runs_width(outer.mark or outer.rest) for outer in self._boxes[: index + 1])
        for box in self._boxes:
            box.mark = []
        if rest and runs_width(rest) + ROOM > self._cells:
            return marks, [(" " * runs_width(marks), "")] if marks else [], 0
        return first, rest, rails
