"""A list with a line above it to search in: what the screens of sessions and models have in common."""

from __future__ import annotations

from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import Binding
from textual.widgets import Input

from durable_tui.ui.adapter.rows import RowKey
from durable_tui.ui.screens.dialogs import Dialog, steady
from durable_tui.ui.widgets.panel import Panel


class SearchPanel(Panel):
    """Keys stay with the search line; the cursor shows all the same."""

    @property
    def shows_cursor(self) -> bool:
        return True

    def step(self, direction: int) -> None:
        """To the next row that can be chosen; past the last one, what only explains scrolls into view."""
        before = self.chosen_key()
        super().step(direction)
        if self.chosen_key() == before:
            self.scroll_relative(y=direction, animate=False)


class SearchScreen(Dialog[RowKey]):
    """Gives the chosen row's key, None when left. `fill` puts what fits `query` into `panel`."""

    BINDINGS: ClassVar = [
        Binding("enter", "choose", "Choose", show=False, priority=True),
        Binding("down", "step(1)", show=False, priority=True),
        Binding("up", "step(-1)", show=False, priority=True),
        Binding("pagedown", "page(1)", show=False, priority=True),
        Binding("pageup", "page(-1)", show=False, priority=True),
    ]
    placeholder = "search"

    def inside(self) -> ComposeResult:
        yield steady(Input(placeholder=self.placeholder, id="search", compact=True))
        yield SearchPanel(styles=self.look.styles, glyphs=self.look.glyphs, id="found")

    def on_mount(self) -> None:
        self.query_one(Input).focus()

    @property
    def panel(self) -> SearchPanel:
        return self.query_one(SearchPanel)

    @property
    def query_text(self) -> str:
        return self.query_one(Input).value

    def fill(self) -> None:
        """Show what fits the query."""

    def on_input_changed(self, event: Input.Changed) -> None:
        event.stop()
        self.fill()

    def action_step(self, direction: int) -> None:
        self.panel.step(direction)

    def action_page(self, direction: int) -> None:
        panel = self.panel
        panel.scroll_relative(y=direction * max(panel.scrollable_content_region.height - 1, 1), animate=False)

    def action_choose(self) -> None:
        key = self.panel.chosen_key()
        if key is not None:
            self.dismiss(key)

    def on_panel_chosen(self, event: Panel.Chosen) -> None:
        event.stop()
        self.dismiss(event.key)
