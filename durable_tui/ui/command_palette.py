"""The palette (Ctrl+P): the same registry again, searched by title, help and slash name."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.text import Text
from textual import command
from textual.command import CommandInput, DiscoveryHit, Hit, Hits, Provider

from durable_tui.ui.actions import ACTIONS, Action, fuzzy, key_label, keys_of

if TYPE_CHECKING:
    from durable_tui.ui.app import DurableApp


class CommandPalette(command.CommandPalette):
    """Textual's palette with a cursor that stands still."""

    def on_mount(self) -> None:
        self.query_one(CommandInput).cursor_blink = False


class ActionProvider(Provider):
    """Offers what applies now; choosing runs it as its key would."""

    def _actions(self) -> list[Action]:
        app: DurableApp = self.app  # type: ignore[assignment]
        return [action for action in ACTIONS if action.palette and app.commands.applies(action)]

    def _note(self, action: Action) -> str:
        keys = " ".join(key_label(key) for key in keys_of(action, getattr(self.app, "keymap", {}))[:1])
        names = " · ".join(filter(None, (keys, f"/{action.slash}" if action.slash else "")))
        return f"{action.help}  {names}".strip()

    async def discover(self) -> Hits:
        app: DurableApp = self.app  # type: ignore[assignment]
        for action in self._actions():
            yield DiscoveryHit(Text(action.title), app.later(action.id), help=self._note(action))

    async def search(self, query: str) -> Hits:
        app: DurableApp = self.app  # type: ignore[assignment]
        matcher = self.matcher(query)
        for action in fuzzy(query, self._actions()):
            score = matcher.match(action.title) or 0.1
            yield Hit(score, matcher.highlight(action.title), app.later(action.id), help=self._note(action))
