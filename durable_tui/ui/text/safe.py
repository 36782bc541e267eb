"""A command's output made safe: control sequences are interpreted (colour, carriage return, erase) or removed.

Nothing this module returns holds a control character other than the line break and the tab, a lone surrogate, or a
bidirectional override.
"""

from __future__ import annotations

import re

from durable_tui.ground.text import SEQUENCE, drop_controls, is_safe, replace_surrogates
from durable_tui.ui.text.runs import Run

_COLOURS = ("black", "red", "green", "yellow", "blue", "magenta", "cyan", "white")


def output_lines(text: str, base: str = "") -> list[list[Run]]:
    """Lines of a command's output: SGR becomes tokens, carriage returns and erases act, the rest is removed.

    `base` is put before the tokens of every run. Tabs are expanded to eight columns.
    """
    if is_safe(text):
        return [[(line.expandtabs(8), base)] if line else [] for line in text.split("\n")]
    text = text.replace("\r\n", "\n").replace("\u2028", "\n").replace("\u2029", "\n")
    text = replace_surrogates(text)
    state = _Sgr()
    return [_line(line, state, base) for line in text.split("\n")]


def _line(source: str, state: _Sgr, base: str) -> list[Run]:
    cells: list[Run] = []
    column = 0
    at = 0

    def put(plain: str) -> None:
        nonlocal column
        style = f"{base} {state.tokens()}".strip()
        for character in plain:
            if character == "\r":
                column = 0
            elif character == "\b":
                column = max(column - 1, 0)
            elif character == "\t":
                while True:
                    _set(cells, column, (" ", style))
                    column += 1
                    if column % 8 == 0:
                        break
            else:
                _set(cells, column, (character, style))
                column += 1

    for match in SEQUENCE.finditer(source):
        put(drop_controls(source[at : match.start()]))
        at = match.end()
        if match["final"] == "m" and not match["between"] and not match["parameters"].startswith(("<", "=", ">", "?")):
            state.apply(match["parameters"])
        elif match["final"] == "K":
            mode = match["parameters"] or "0"
            if mode == "0":
                del cells[column:]
            elif mode == "2":
                cells.clear()
            elif mode == "1":
                cells[:column] = [(" ", base)] * min(column, len(cells))
    put(drop_controls(source[at:]))
    return _merge(cells)


def _set(cells: list[Run], column: int, run: Run) -> None:
    while len(cells) < column:
        cells.append((" ", ""))
    if column < len(cells):
        cells[column] = run
    else:
        cells.append(run)


def _merge(cells: list[Run]) -> list[Run]:
    runs: list[Run] = []
    for text, style in cells:
        if runs and runs[-1][1] == style:
            runs[-1] = (runs[-1][0] + text, style)
        else:
            runs.append((text, style))
    return runs


class _Sgr:
    """The colour state of a stream of output."""

    __slots__ = ("attributes", "back", "fore")

    def __init__(self) -> None:
        self.attributes: set[str] = set()
        self.fore = ""
        self.back = ""

    def tokens(self) -> str:
        return " ".join([*sorted(self.attributes), *filter(None, (self.fore, self.back))])

    def apply(self, parameters: str) -> None:
        codes = [int(part) if part.isdigit() and len(part) < 5 else 0 for part in re.split("[;:]", parameters)] or [0]
        index = 0
        while index < len(codes):
            code = codes[index]
            index += 1
            if code == 0:
                self.attributes.clear()
                self.fore = self.back = ""
            elif code in _ON:
                self.attributes.add(_ON[code])
            elif code in _OFF:
                self.attributes.difference_update(_OFF[code])
            elif 30 <= code <= 37:
                self.fore = f"ansi.{_COLOURS[code - 30]}"
            elif 90 <= code <= 97:
                self.fore = f"ansi.bright_{_COLOURS[code - 90]}"
            elif code == 39:
                self.fore = ""
            elif 40 <= code <= 47:
                self.back = f"on.{_COLOURS[code - 40]}"
            elif 100 <= code <= 107:
                self.back = f"on.bright_{_COLOURS[code - 100]}"
            elif code == 49:
                self.back = ""
            elif code in (38, 48):
                colour, index = _extended(codes, index)
                if colour and code == 38:
                    self.fore = f"ansi.{colour}"
                elif colour:
                    self.back = f"on.{colour}"


_ON = {1: "bold", 2: "faded", 3: "italic", 4: "underline", 7: "reverse", 9: "strike"}
_OFF = {22: {"bold", "faded"}, 23: {"italic"}, 24: {"underline"}, 27: {"reverse"}, 29: {"strike"}}


def _extended(codes: list[int], index: int) -> tuple[str, int]:
    if index < len(codes) and codes[index] == 5 and index + 1 < len(codes):
        return f"c{min(codes[index + 1], 255)}", index + 2
    if index < len(codes) and codes[index] == 2 and index + 3 < len(codes):
        red, green, blue = (min(value, 255) for value in codes[index + 1 : index + 4])
        return f"#{red:02x}{green:02x}{blue:02x}", index + 4
    return "", len(codes)
