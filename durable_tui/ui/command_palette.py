"""The palette (Ctrl+P): the same registry again, searched by title, help and slash name."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol, cast

from rich.text import Text
from textual import command
from textual.command import CommandInput, DiscoveryHit, Hit, Hits, Provider

from durable_tui.ui.actions import Action, fuzzy, key_label, keys_of


class Offering(Protocol):
    """The app as the palette sees it."""

    keymap: dict[str, str]

    def offered(self) -> list[Action]: ...

    def later(self, name: str) -> Callable[[], None]: ...


class CommandPalette(command.CommandPalette):
    """Textual's palette with a cursor that stands still."""

    def on_mount(self) -> None:
        self.query_one(CommandInput).cursor_blink = False


class ActionProvider(Provider):
    """Offers what applies now; choosing runs it as its key would."""

    @property
    def offering(self) -> Offering:
        return cast(Offering, self.app)

    def _note(self, action: Action) -> str:
        keys = " ".join(key_label(key) for key in keys_of(action, self.offering.keymap)[:1])
        names = " · ".join(filter(None, (keys, f"/{action.slash}" if action.slash else "")))
        return f"{action.help}  {names}".strip()

    async def discover(self) -> Hits:
        for action in self.offering.offered():
            yield DiscoveryHit(Text(action.title), self.offering.later(action.id), help=self._note(action))

    async def search(self, query: str) -> Hits:
        matcher = self.matcher(query)
        for action in fuzzy(query, self.offering.offered()):
            score = matcher.match(action.title) or 0.1
            yield Hit(score, matcher.highlight(action.title), self.offering.later(action.id), help=self._note(action))
