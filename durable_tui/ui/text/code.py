"""Code as styled lines. pygments is imported at the first code block; unknown or very long code stays plain."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING

from durable_tui.ui.text.runs import Run

if TYPE_CHECKING:
    from pygments.lexer import Lexer  # type: ignore[import-untyped]

MAX_LINES = 400
MAX_CHARS = 40_000

_TOKENS = (
    ("Token.Comment", "code.comment"),
    ("Token.Keyword.Constant", "code.number"),
    ("Token.Keyword", "code.keyword"),
    ("Token.Operator.Word", "code.keyword"),
    ("Token.Literal.String", "code.string"),
    ("Token.Literal.Number", "code.number"),
    ("Token.Name.Function", "code.function"),
    ("Token.Name.Class", "code.function"),
    ("Token.Name.Decorator", "code.function"),
    ("Token.Name.Tag", "code.keyword"),
    ("Token.Name.Attribute", "code.function"),
    ("Token.Name.Builtin", "code.function"),
    ("Token.Generic.Deleted", "removed"),
    ("Token.Generic.Inserted", "added"),
    ("Token.Generic.Heading", "bold"),
    ("Token.Generic.Subheading", "dim"),
)


@lru_cache(maxsize=64)
def _lexer(language: str) -> Lexer | None:
    from pygments.lexers import get_lexer_by_name  # type: ignore[import-untyped]
    from pygments.util import ClassNotFound  # type: ignore[import-untyped]

    try:
        return get_lexer_by_name(language, stripnl=False, ensurenl=False)
    except ClassNotFound:
        return None


@lru_cache(maxsize=512)
def _style(kind: object) -> str:
    name = str(kind)
    for prefix, style in _TOKENS:
        if name.startswith(prefix):
            return style
    return "code"


def language_of(info: str) -> str:
    """The language named by a fence's info string: its first word, without braces or dots."""
    word = info.strip().split(" ")[0].split(",")[0] if info.strip() else ""
    return word.strip("{}.").lower()


def highlight(code: str, language: str) -> list[list[Run]]:
    """Lines of runs for clean code."""
    lines = code.split("\n")
    if not language or len(lines) > MAX_LINES or len(code) > MAX_CHARS:
        return [[(line, "code")] if line else [] for line in lines]
    lexer = _lexer(language)
    if lexer is None:
        return [[(line, "code")] if line else [] for line in lines]
    out: list[list[Run]] = [[]]
    for kind, value in lexer.get_tokens(code):
        style = _style(kind)
        for index, part in enumerate(value.split("\n")):
            if index:
                out.append([])
            if part:
                out[-1].append((part, style))
    del out[len(lines) :]
    return out
