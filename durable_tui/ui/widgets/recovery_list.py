"""The recovery card: what a crash or a close left unfinished, and each verdict as it is decided (spec 15)."""

from __future__ import annotations

from typing import ClassVar

from textual import events

from durable_tui.ui.actions import bindings
from durable_tui.ui.adapter.recovery_cards import Recovery, RecoveryRow
from durable_tui.ui.adapter.rows import Row, Rows, recovery_rows
from durable_tui.ui.widgets.paint import plain
from durable_tui.ui.widgets.panel import Panel


class RecoveryCard(Panel):
    """Hidden without rows. Folded to one line on wish once everything is decided."""

    BINDINGS: ClassVar = bindings("recovery")

    card: Recovery = Recovery()
    folded = False

    def show(self, card: Recovery) -> None:
        if card.undecided:
            self.folded = False
        self.card = card
        self.set_class(bool(card.rows), "-shown")
        self.set_class(bool(card.undecided), "-undecided")
        self.redraw()

    def redraw(self) -> None:
        card = self.card
        if self.folded:
            line = Row(
                None,
                [
                    (f"{self.glyphs['recovered']} ", "recovered"),
                    (card.title, "bold attention"),
                    (f"  {card.summary}", "dim"),
                ],
                [(self.key_of("recoveries"), "faint")],
            )
            self.set_rows(Rows((line,)))
        else:
            self.set_rows(recovery_rows(card, self.glyphs, self.scrollable_content_region.width or 100))
        self.set_class(self.folded, "-folded")
        self.border_title = plain("" if self.folded else card.title)
        self._show_keys()

    def fold(self, folded: bool | None = None) -> bool:
        """Fold or unfold; refused while a row is undecided."""
        wanted = not self.folded if folded is None else folded
        if wanted and self.card.undecided:
            return False
        self.folded = wanted
        self.redraw()
        return True

    def chosen_row(self) -> RecoveryRow | None:
        key = self.chosen_key()
        return next((row for row in self.card.rows if row.key == key), None)

    def _show_keys(self) -> None:
        if self.folded:
            self.border_subtitle = ""
            return
        keys = f"{self.key_of('why')} why?"
        if not self.card.undecided:
            keys += f" · {self.key_of('fold_card')} fold"
        there = f"{self.key_of('recoveries')}: why?"
        self.border_subtitle = plain(f"{self.card.footing} · {keys if self.has_focus else there}")

    def on_resize(self, event: events.Resize) -> None:
        if not self.folded:
            self.redraw()
