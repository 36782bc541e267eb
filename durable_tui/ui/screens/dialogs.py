"""Screens laid over the main one: a choice, a line to type, an explanation, help."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import ClassVar, Generic, TypeVar

from rich.text import Text
from textual.app import ComposeResult
from textual.binding import Binding
from textual.containers import Vertical
from textual.screen import ModalScreen
from textual.widgets import Input, Static

from durable_tui.ground.text import clean
from durable_tui.ui.actions import ACTIONS, first_key, key_label, keys_of
from durable_tui.ui.adapter.recovery_cards import RecoveryRow, explanation
from durable_tui.ui.adapter.rows import Row, RowKey, Rows
from durable_tui.ui.glyphs import Glyphs
from durable_tui.ui.styles import Styles
from durable_tui.ui.text.runs import Line, Run
from durable_tui.ui.text.wrap import wrap
from durable_tui.ui.widgets.lines import Lines
from durable_tui.ui.widgets.paint import plain
from durable_tui.ui.widgets.panel import Panel


@dataclass(slots=True, frozen=True)
class Look:
    """What every screen paints with."""

    styles: Callable[[], Styles]
    glyphs: Glyphs


def steady(line: Input) -> Input:
    """Nothing blinks (look)."""
    line.cursor_blink = False
    return line


Result = TypeVar("Result")


class Dialog(ModalScreen[Result], Generic[Result]):
    """A box in the middle; Esc leaves it with None."""

    BINDINGS: ClassVar = [Binding("escape", "leave", "Close", show=False)]

    def __init__(self, look: Look, title: str, corner: str = "Esc close") -> None:
        super().__init__()
        self.look = look
        self._title = title
        self._corner = corner

    def compose(self) -> ComposeResult:
        with Vertical(id="box") as box:
            box.border_title = plain(self._title)
            box.border_subtitle = plain(self._corner)
            yield from self.inside()

    def inside(self) -> ComposeResult:
        yield from ()

    def action_leave(self) -> None:
        self.dismiss(None)


class ChoicePanel(Panel):
    """Enter chooses."""

    def key_enter(self) -> None:
        key = self.chosen_key()
        if key is not None:
            self.post_message(self.Chosen(self, key))


class ChoiceScreen(Dialog[RowKey]):
    """A list to choose from, with a text over it. Gives the chosen key."""

    def __init__(
        self,
        look: Look,
        title: str,
        text: str,
        rows: Sequence[Row],
        *,
        chosen: RowKey | None = None,
        corner: str = "Enter choose · Esc close",
    ) -> None:
        """The cursor stands on the row with the key `chosen`, else on the first."""
        super().__init__(look, title, corner)
        self._chosen = chosen
        self._text = text
        self._rows = tuple(rows)

    def inside(self) -> ComposeResult:
        if self._text:
            yield Static(Text(clean(self._text)), classes="text")
        yield ChoicePanel(styles=self.look.styles, glyphs=self.look.glyphs, id="choices")

    def on_mount(self) -> None:
        panel = self.query_one("#choices", Panel)
        panel.set_rows(Rows(self._rows))
        keys = [row.key for row in self._rows if row.key is not None]
        panel.key = self._chosen if self._chosen in keys else next(iter(keys), None)
        panel.focus()

    def on_panel_chosen(self, event: Panel.Chosen) -> None:
        event.stop()
        self.dismiss(event.key)


class LineScreen(Dialog[str]):
    """One line to type. Gives the text, None when left."""

    def __init__(self, look: Look, title: str, value: str = "", placeholder: str = "") -> None:
        super().__init__(look, title, "Enter take · Esc close")
        self._value = value
        self._placeholder = placeholder

    def inside(self) -> ComposeResult:
        yield steady(Input(value=clean(self._value), placeholder=clean(self._placeholder), id="line", compact=True))

    def on_mount(self) -> None:
        self.query_one(Input).focus()

    def on_input_submitted(self, event: Input.Submitted) -> None:
        event.stop()
        self.dismiss(event.value)


class TextScreen(Dialog[None]):
    """Something to read."""

    BINDINGS: ClassVar = [Binding("enter,q", "leave", "Close", show=False)]

    def __init__(self, look: Look, title: str, make: Callable[[int], list[Line]], corner: str = "Esc close") -> None:
        super().__init__(look, title, corner)
        self._make = make

    def inside(self) -> ComposeResult:
        yield Lines(self._make, styles=self.look.styles, id="lines")

    def on_mount(self) -> None:
        self.query_one(Lines).focus()


class WhyScreen(TextScreen):
    """Why a recovered task got its verdict: commits, times, the rule."""

    def __init__(self, look: Look, row: RecoveryRow) -> None:
        super().__init__(look, f"why: {row.name} {row.verdict.word}", lambda cells: why_lines(row, cells))


def why_lines(row: RecoveryRow, cells: int) -> list[Line]:
    lines: list[Line] = []
    for label, value in explanation(row):
        tone = f"bold {row.verdict.tone}" if label == "verdict" else ""
        lines += _labelled([(label.ljust(13), "dim")], [(clean(value).replace("\n", " "), tone)], 13, cells)
    return lines


def _labelled(label: list[Run], body: list[Run], indent: int, cells: int) -> list[Line]:
    """A label and its text, which hangs under itself where there is room for that."""
    if cells < indent + 20:
        return [*wrap(label, cells), *wrap(body, cells, first=[("  ", "")], rest=[("  ", "")])]
    return wrap(body, cells, first=label, rest=[(" " * indent, "")])


class HelpScreen(TextScreen):
    """Every key and command, from the registry."""

    def __init__(self, look: Look, keymap: dict[str, str] | None = None) -> None:
        super().__init__(look, "help", lambda cells: help_lines(cells, keymap), "Up Down PgDn scroll · Esc close")


GROUPS = (  # scope, title, the action that leads there
    ("composer", "writing", ""),
    ("main", "the run", ""),
    ("app", "anywhere", ""),
    ("transcript", "in the transcript", "transcript"),
    ("inbox", "in the inbox", "inbox"),
    ("tasks", "in the tasks", "tasks"),
    ("recovery", "in the recovery card", "recoveries"),
)
HELP_INDENT = 26


def help_lines(cells: int, keymap: dict[str, str] | None = None) -> list[Line]:
    lines: list[Line] = []
    for scope, title, way in GROUPS:
        if lines:
            lines.append(Line())
        lines.append(Line([(f"{title} ({first_key(way, keymap)})" if way else title, "bold live")]))
        for action in ACTIONS:
            if action.scope != scope:
                continue
            keys = " ".join(key_label(key) for key in keys_of(action, keymap)[:2])
            slash = f"/{action.slash}" if action.slash else ""
            name = "  ".join(filter(None, (keys, slash)))
            body: list[Run] = [(action.title, ""), (f"  {action.help}" if action.help else "", "dim")]
            lines += _labelled([(f"  {name}".ljust(HELP_INDENT), "bold")], body, HELP_INDENT, cells)
    return lines
