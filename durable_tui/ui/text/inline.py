"""The inline tokens of a paragraph as styled runs, a list of them for each of its source lines."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING

from durable_tui.ground.text import clean
from durable_tui.ui.text.runs import Run

if TYPE_CHECKING:
    from markdown_it.token import Token

_STYLES = {"strong": "bold", "em": "italic", "s": "strike"}
_BREAKS = re.compile(r"[\n\t\u2028\u2029]")


def styled(style: str, more: str) -> str:
    """Two sets of style tokens as one."""
    return f"{style} {more}" if style and more else style or more


def _plain(text: str) -> str:
    """What an entity or an escape stands for, made as safe as the text around it."""
    return _BREAKS.sub(" ", clean(text))


def inline_lines(tokens: Sequence[Token], base: str = "") -> list[list[Run]]:
    """The runs of each line; hard and soft breaks end one. Links are followed by their address."""
    lines: list[list[Run]] = [[]]
    styles = [base]
    labels: list[int] = []  # where in the last line the label of an open link begins
    addresses: list[str] = []

    def add(text: str, style: str) -> None:
        runs = lines[-1]
        if runs and runs[-1][1] == style and not (labels and labels[-1] == len(runs)):
            runs[-1] = (runs[-1][0] + text, style)
        elif text:
            runs.append((text, style))

    for token in tokens:
        kind = token.type
        if kind == "text":
            add(token.content, styles[-1])
        elif kind == "text_special":
            add(_plain(token.content), styles[-1])
        elif kind in ("softbreak", "hardbreak"):
            lines.append([])
            labels = [0] * len(labels)
        elif kind == "code_inline":
            add(token.content, styled(styles[-1], "code.inline"))
        elif kind == "html_inline":
            first, *more = token.content.split("\n")
            add(first, styles[-1])
            for text in more:
                lines.append([])
                labels = [0] * len(labels)
                add(text, styles[-1])
        elif kind == "link_open":
            labels.append(len(lines[-1]))
            addresses.append(_plain(str(token.attrs.get("href", ""))))
            styles.append(styled(styles[-1], "underline"))
        elif kind == "link_close":
            styles.pop()
            label = "".join(text for text, _ in lines[-1][labels.pop() :])
            address = addresses.pop()
            if address and address not in (label, f"mailto:{label}"):
                add(f" ({address})", styled(styles[-1], "faint"))
        elif kind == "image":
            alternative = _plain(_alternative(token.children or ()))
            add(alternative or f"({_plain(str(token.attrs.get('src', '')))})", styles[-1])
        elif token.nesting > 0:
            styles.append(styled(styles[-1], _STYLES.get(token.tag, "")))
        elif token.nesting < 0:
            styles.pop()
    return lines


def _alternative(tokens: Sequence[Token]) -> str:
    """The text an image stands for."""
    return "".join(
        _alternative(token.children or ())
        if token.type == "image"
        else token.content or (" " if "break" in token.type else "")
        for token in tokens
    )
