"""What acts on the recovery card."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from durable_tui.ui.commands.desk import PlaceCommands
from durable_tui.ui.screens.dialogs import WhyScreen

if TYPE_CHECKING:
    from durable_tui.ui.actions import Scope


class RecoveryCommands(PlaceCommands):
    scopes: ClassVar[tuple[Scope, ...]] = ("recovery",)

    def do_why(self) -> None:
        card = self.main.recovery
        if card.folded:
            card.fold(False)
            return
        row = card.chosen_row()
        if row is not None:
            self.desk.ask(WhyScreen(self.desk.look, row))

    def do_fold_card(self) -> None:
        if self.main.recovery.fold():
            self.main.go_to("composer")
        else:
            self.desk.tell("folds once everything is decided")
