"""Themes from `themes/*.toml`: shipped ones and those of the user's home (spec 22).

A file holds Textual's theme fields, `ansi` and `plain` flags, and `[tokens]`: the colours of the meanings in
`styles.VARIABLES` and of frames and grounds. A user's theme of a shipped name replaces it.
"""

from __future__ import annotations

import os
import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from textual.color import Color, ColorParseError
from textual.theme import Theme

from durable_tui.ui.styles import GROUNDS, VARIABLES, variable

_FIELDS = "primary secondary warning error success accent foreground background surface panel boost"
FIELDS = (*_FIELDS.split(" "), "luminosity_spread", "text_alpha", "dark", "ansi")
FRAMES = {"frame": "foreground 18%", "frame-focused": "primary", "frame-attention": "warning 60%"}
TOKENS = {*(name.replace(".", "-") for name in VARIABLES), *GROUNDS, *FRAMES, "interrupted"}
DEFAULT = "ink"
ANSI_CHROME = {  # what Textual's own style sheets need of a theme of the terminal's colours
    "ansi-background": "ansi_black",
    "ansi-foreground": "ansi_white",
    "border-blurred": "ansi_bright_black",
    "block-cursor-foreground": "ansi_black",
    "block-cursor-background": "ansi_white",
    "input-cursor-background": "ansi_white",
    "input-cursor-foreground": "ansi_black",
    "input-cursor-text-style": "none",
    "input-selection-background": "ansi_bright_blue",
    "input-selection-foreground": "ansi_black",
    "screen-selection-background": "ansi_bright_blue",
    "screen-selection-foreground": "ansi_black",
}


class ThemeError(Exception):
    """A theme file that cannot be used; the message names file and key."""


@dataclass(slots=True, frozen=True)
class Loaded:
    theme: Theme
    plain: bool
    path: Path


def shipped_folder() -> Path:
    """Where the shipped themes are: inside the package in a wheel, beside it in an editable install."""
    package = Path(__file__).resolve().parents[1]
    for folder in (package / "themes", package.parent / "themes"):
        if folder.is_dir():
            return folder
    return package / "themes"


def load(path: Path) -> Loaded:
    """One theme file. Raises ThemeError."""
    try:
        data = tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise ThemeError(f"{path}: cannot be read as a theme ({error})") from None
    tokens = data.pop("tokens", {})
    plain = bool(data.pop("plain", False))
    name = data.pop("name", path.stem)
    unknown = [key for key in data if key not in FIELDS and key != "variables"]
    if unknown:
        raise ThemeError(f"{path}: {unknown[0]}: is not known; known are {', '.join(FIELDS)}, tokens")
    if not isinstance(tokens, dict) or not isinstance(name, str):
        raise ThemeError(f"{path}: tokens must be a table and name a text")
    if "primary" not in data:
        raise ThemeError(f"{path}: primary: is missing")
    for key, value in [*data.items(), *tokens.items()]:
        if isinstance(value, str):
            _check(path, key, value)
    for key in tokens:
        if key not in TOKENS and not key.startswith("ansi-"):
            raise ThemeError(f"{path}: tokens.{key}: is not known; known are {', '.join(sorted(TOKENS))}")
    variables = {variable(key): str(value) for key, value in tokens.items()}
    variables |= _chrome(tokens, data)
    return Loaded(Theme(name=name, variables=variables, **data), plain, path)


def _check(path: Path, key: str, value: str) -> None:
    try:
        Color.parse(value.split(" ")[0])
    except ColorParseError:
        raise ThemeError(f"{path}: {key}: {value!r} is no colour") from None


def _chrome(tokens: Mapping[str, object], data: Mapping[str, object]) -> dict[str, str]:
    """Textual's own variables for scroll bars, cursors and selections, so that its parts fit ours."""
    frame = str(tokens.get("frame", data.get("panel", data["primary"])))
    back = str(data.get("background", "ansi_default"))
    out = {
        "scrollbar": frame,
        "scrollbar-hover": str(tokens.get("dim", frame)),
        "scrollbar-active": str(tokens.get("live", frame)),
        "scrollbar-background": back,
        "scrollbar-background-hover": back,
        "scrollbar-background-active": back,
        "scrollbar-corner-color": back,
    }
    if data.get("ansi"):
        out |= ANSI_CHROME
    if "selected" in tokens:
        out["screen-selection-background"] = str(tokens["selected"])
        out["input-selection-background"] = str(tokens["selected"])
    return out


def variable_defaults() -> dict[str, str]:
    """Fallbacks for every variable the style sheets use, for themes that set none of ours."""
    return {
        variable("dim"): "#8a8a8a",
        variable("faint"): "#6c6c6c",
        variable("frame"): "#4a4a4a",
        variable("frame-focused"): "#5f87d7",
        variable("frame-attention"): "#af875f",
        variable("cursor-line"): "#303030",
        variable("ground"): "#1c1c1c",
        variable("selected"): "#264f78",
        variable("live"): "#5f87d7",
        variable("attention"): "#d7af5f",
    }


def load_all(folders: Iterable[Path]) -> tuple[dict[str, Loaded], list[str]]:
    """(themes by name, problems). Later folders win; a broken file is a problem, never an end."""
    themes: dict[str, Loaded] = {}
    problems: list[str] = []
    for folder in folders:
        try:
            paths = sorted(folder.glob("*.toml"))
        except OSError:
            continue
        for path in paths:
            try:
                loaded = load(path)
            except ThemeError as error:
                problems.append(str(error))
                continue
            themes[loaded.theme.name] = loaded
    return themes, problems


def choose(wanted: str | None, themes: dict[str, Loaded]) -> str:
    """The theme to start with: the wanted one, `plain` under NO_COLOR, `terminal` where there are few colours."""
    if os.environ.get("NO_COLOR"):
        return "plain" if "plain" in themes else DEFAULT
    if wanted and wanted in themes:
        return wanted
    term, colours = os.environ.get("TERM", ""), os.environ.get("COLORTERM", "")
    if term in ("linux", "vt100", "vt220", "xterm-16color", "ansi") and colours not in ("truecolor", "24bit"):
        return "terminal" if "terminal" in themes else DEFAULT
    return DEFAULT if DEFAULT in themes else next(iter(themes), "textual-dark")
