"""What leads to a part of the screen."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from durable_tui.ui.commands.desk import PlaceCommands

if TYPE_CHECKING:
    from durable_tui.ui.actions import Scope


class PanelCommands(PlaceCommands):
    scopes: ClassVar[tuple[Scope, ...]] = ("app",)

    def do_live(self) -> None:
        self.main.go_to("live")

    def do_inbox(self) -> None:
        self.main.go_to("inbox")

    def do_tasks(self) -> None:
        self.main.go_to("tasks")

    def do_transcript(self) -> None:
        self.main.go_to("transcript")

    def do_composer(self) -> None:
        self.main.go_to("composer")

    def do_recoveries(self) -> None:
        card = self.main.recovery
        if not card.card.rows:
            every = self.main.model.recovery(every=True)
            if not every.rows:
                self.desk.tell("no crash or close has interrupted this session")
                return
            card.show(every)
        card.fold(False)
        self.main.go_to("recovery")
