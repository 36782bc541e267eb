"""What acts on the program: palette, help, sessions, themes, quitting."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, ClassVar

from durable_tui.ui.adapter.rows import Row, RowKey
from durable_tui.ui.command_palette import CommandPalette
from durable_tui.ui.commands.desk import CommandError, Desk, PlaceCommands
from durable_tui.ui.screens.dialogs import ChoiceScreen, HelpScreen, LineScreen

if TYPE_CHECKING:
    from durable_tui.ui.actions import Scope

QUIT_TWICE = 2.0  # seconds within which the second Ctrl+C quits


class ProgramCommands(PlaceCommands):
    scopes: ClassVar[tuple[Scope, ...]] = ("app",)

    def __init__(self, desk: Desk) -> None:
        super().__init__(desk)
        self._interrupted = 0.0

    def do_palette(self) -> None:
        self.desk.ask(CommandPalette(id="--command-palette"))

    def do_help(self) -> None:
        self.desk.ask(HelpScreen(self.desk.look, self.desk.keymap))

    def do_sessions(self) -> None:
        self.desk.show_sessions()

    async def do_new(self) -> None:
        await self.desk.switch_session(None)

    def do_usage(self) -> None:
        self.desk.tell(self.session.model.usage() or "no tokens were used yet")

    async def do_rename(self, argument: str) -> None:
        session = self.owned
        if argument:
            await session.harness.rename(argument)
            return
        screen = LineScreen(self.desk.look, "rename the session", session.model.header().title)
        self.desk.ask(screen, self._renamed)

    def _renamed(self, text: str | None) -> None:
        if text and text.strip():
            self.desk.work(self.do_rename(text.strip()), "rename")

    def do_theme(self, argument: str) -> None:
        themes, in_use = self.desk.theme_names(), self.desk.theme_in_use()
        if not argument:
            rows = [Row(name, [(name, "bold")], [("in use", "live")] if name == in_use else []) for name in themes]
            self.desk.ask(ChoiceScreen(self.desk.look, "theme", "", rows), self._theme_chosen)
            return
        if argument not in themes:
            raise CommandError(f"no theme is called {argument}; there are {', '.join(themes)}")
        self.desk.use_theme(argument)

    def _theme_chosen(self, name: RowKey | None) -> None:
        if isinstance(name, str):
            self.desk.use_theme(name)

    def do_quit(self) -> None:
        self.desk.leave(0)

    def do_interrupt(self) -> None:
        """Ctrl+C: a selection is copied, else the message cleared into the history, else twice quits."""
        front = self.desk.front()
        selected = front.get_selected_text()
        if selected:
            self.copy(selected)
            front.clear_selection()
            return
        if front is not self.main:
            front.dismiss(None)
            return
        composer = self.main.composer
        if composer.has_focus and composer.selected_text:
            self.copy(composer.selected_text)
            return
        if composer.text.strip():
            composer.clear_to_history()
            self.desk.tell(f"cleared; {self.main.key('history_back')} brings it back")
            return
        now = time.monotonic()
        if now - self._interrupted < QUIT_TWICE:
            self.desk.leave(0)
            return
        self._interrupted = now
        note = self.desk.session.model.at_closing if self.desk.session else ""
        self.desk.tell("; ".join(filter(None, (f"{self.main.key('interrupt')} again quits", note))))

    def do_suspend(self) -> None:
        self.desk.suspend_to_shell()
