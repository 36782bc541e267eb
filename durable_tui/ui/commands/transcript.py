"""What acts on the transcript: moving in it, folding, copying."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from durable_tui.ui.adapter.blocks import source_text
from durable_tui.ui.commands.desk import PlaceCommands

if TYPE_CHECKING:
    from durable_tui.ui.actions import Scope


class TranscriptCommands(PlaceCommands):
    scopes: ClassVar[tuple[Scope, ...]] = ("transcript",)

    def do_line_up(self) -> None:
        self.main.transcript.step(-1)

    def do_line_down(self) -> None:
        self.main.transcript.step(1)

    def do_fold(self) -> None:
        self.main.transcript.toggle_current()

    def do_fold_all(self) -> None:
        self.main.transcript.fold_all()

    async def do_question_back(self) -> None:
        while not self.main.transcript.jump_question(-1):
            if not await self.desk.load_older():
                self.main.transcript.scroll_to(y=0, animate=False)
                return

    def do_question_on(self) -> None:
        self.main.transcript.jump_question(1)

    def do_copy_entry(self) -> None:
        text = source_text(self.main.transcript.entry_blocks())
        if text:
            self.copy(text)

    def do_scroll_up(self) -> None:
        self.main.transcript.scroll_page(-1)

    def do_scroll_down(self) -> None:
        self.main.transcript.scroll_page(1)

    def do_scroll_top(self) -> None:
        self.main.transcript.scroll_to(y=0, animate=False)

    def do_scroll_end(self) -> None:
        self.main.transcript.to_end()
