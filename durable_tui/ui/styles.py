"""Tokens as styles: the one map from what a run means to how the current theme paints it."""

from __future__ import annotations

from collections.abc import Mapping

from rich.color import Color as RichColor
from rich.color import ColorParseError
from rich.style import Style
from textual.color import Color
from textual.color import ColorParseError as TextualParseError

# A token's colour is the theme variable of this name; the theme files set them, these are what they fall back to.
VARIABLES: dict[str, str] = {
    "dim": "foreground-muted",
    "faint": "foreground-disabled",
    "live": "primary",
    "good": "success",
    "attention": "warning",
    "failed": "error",
    "identity": "secondary",
    "recovered": "warning",
    "added": "success",
    "removed": "error",
    "heading": "foreground",
    "code": "foreground",
    "code.inline": "accent",
    "code.keyword": "secondary",
    "code.string": "success",
    "code.number": "warning",
    "code.comment": "foreground-muted",
    "code.function": "primary",
}
GROUNDS = {"ground": "surface", "cursor-line": "panel", "selected": "selection"}
ATTRIBUTES: dict[str, Style] = {
    "bold": Style(bold=True),
    "faded": Style(dim=True),
    "italic": Style(italic=True),
    "underline": Style(underline=True),
    "reverse": Style(reverse=True),
    "strike": Style(strike=True),
}
ANSI = ("black", "red", "green", "yellow", "blue", "magenta", "cyan", "white")


def variable(token: str) -> str:
    """The theme variable of a token: `token-code-inline`."""
    return "token-" + token.replace(".", "-")


class Styles:
    """Styles of one theme, made as they are asked for."""

    def __init__(self, variables: Mapping[str, str], *, plain: bool = False) -> None:
        self._variables = variables
        self._plain = plain
        self._styles: dict[str, Style] = {"": Style.null()}

    def style(self, tokens: str) -> Style:
        """The style of blank-separated tokens, later ones winning."""
        found = self._styles.get(tokens)
        if found is None:
            found = Style.null()
            for token in tokens.split():
                found += self._token(token)
            if len(self._styles) > 4096:
                self._styles.clear()
            self._styles[tokens] = found
        return found

    def colour(self, name: str) -> RichColor | None:
        """A theme variable as a colour; None when it is not set or no plain colour."""
        value = self._variables.get(name)
        if not value:
            return None
        return _colour(value)

    def _token(self, token: str) -> Style:
        if token in ATTRIBUTES:
            return ATTRIBUTES[token]
        if token.startswith("ansi."):
            return Style(color=self._ansi(token[5:]))
        if token.startswith("on."):
            return Style(bgcolor=self._ansi(token[3:]))
        if token in GROUNDS:
            if self._plain:
                return Style(reverse=True) if token != "ground" else Style.null()
            return Style(bgcolor=self.colour(variable(token)) or self.colour(GROUNDS[token]))
        if token in VARIABLES:
            if self._plain:
                return Style(dim=True) if token in ("faint", "code.comment") else Style.null()
            return Style(color=self.colour(variable(token)) or self.colour(VARIABLES[token]))
        return Style.null()

    def _ansi(self, name: str) -> RichColor | None:
        if self._plain:
            return None
        if name.startswith("#"):
            return _colour(name)
        if name.startswith("c") and name[1:].isdigit():
            number = int(name[1:])
            if number >= 16:
                return RichColor.from_ansi(number)
            name = ("bright_" if number >= 8 else "") + ANSI[number % 8]
        return self.colour(f"token-ansi-{name.replace('_', '-')}") or _colour(name)


def _colour(value: str) -> RichColor | None:
    if value == "ansi_default":
        return RichColor.default()
    try:
        return RichColor.parse(value.removeprefix("ansi_"))
    except ColorParseError:
        try:
            return Color.parse(value).rich_color
        except TextualParseError:
            return None
