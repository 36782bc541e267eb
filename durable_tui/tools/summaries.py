"""Short phrases for people about a call, from arguments that may be anything."""

from __future__ import annotations

from typing import TYPE_CHECKING

from durable_tui.ground.text import clean

if TYPE_CHECKING:
    from durable_tui.agent.extension import Arguments

_LENGTH = 80


def phrase(value: object) -> str:
    """One line of at most 80 characters."""
    if not isinstance(value, str):
        return ""
    first, _, rest = clean(value).strip().partition("\n")
    text = " ".join(first.split())
    if rest.strip() or len(text) > _LENGTH:
        return text[: _LENGTH - 1] + "…"
    return text


def path_summary(arguments: Arguments) -> str:
    """`config/dev.json`"""
    return phrase(arguments.get("path"))


def read_summary(arguments: Arguments) -> str:
    """`config/dev.json:20-39`"""
    text = phrase(arguments.get("path"))
    offset, limit = arguments.get("offset"), arguments.get("limit")
    if not isinstance(offset, int) and not isinstance(limit, int):
        return text
    first = offset if isinstance(offset, int) else 1
    return f"{text}:{first}-{first + limit - 1}" if isinstance(limit, int) else f"{text}:{first}-"


def command_summary(arguments: Arguments) -> str:
    """The first line of the command."""
    return phrase(arguments.get("command"))
