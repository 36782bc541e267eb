"""The palette (Ctrl+P): the same registry again, searched by title, help and slash name."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.text import Text
from textual.command import CommandInput, CommandPalette, DiscoveryHit, Hit, Hits, Provider
from textual.content import Content

from durable_tui.ui.actions import ACTIONS, Action, fuzzy, key_label, keys_of
from durable_tui.ui.matching import Query

if TYPE_CHECKING:
    from durable_tui.ui.app import DurableApp


class Palette(CommandPalette):
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
        typed = Query(query)
        for action in fuzzy(query, self._actions()):
            rank = typed.rank(action.title)
            title = Content(action.title)
            for at in typed.positions(action.title):
                title = title.stylize(self.match_style or "reverse", at, at + 1)
            score = 0.1 if rank is None else 1 / (2 + rank[0] + rank[1] / 1000)
            yield Hit(score, title, app.later(action.id), help=self._note(action))
