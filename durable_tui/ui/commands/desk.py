"""What commands stand on: what they need of the app, and what those of every place share."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, ClassVar, Protocol, TypeVar

from textual.screen import Screen

from durable_tui.ui import clipboard
from durable_tui.ui.adapter import words
from durable_tui.ui.open_session import OpenSession, OwnedSession

if TYPE_CHECKING:
    from pathlib import Path

    from durable_tui.ui.actions import Scope
    from durable_tui.ui.screens.dialogs import Look
    from durable_tui.ui.screens.main import MainScreen

Result = TypeVar("Result")


class CommandError(Exception):
    """A command cannot be done now; the message says why, for the person."""


class Desk(Protocol):
    """The app as commands see it."""

    session: OpenSession | None
    main: MainScreen
    look: Look
    keymap: dict[str, str]

    def tell(self, text: str, tone: str = "dim") -> None: ...

    def work(self, body: Awaitable[None], name: str) -> object: ...

    def ask(self, screen: Screen[Result], then: Callable[[Result | None], None] | None = None) -> None: ...

    def front(self) -> Screen[object]: ...

    def write_terminal(self, data: str) -> None: ...

    def theme_names(self) -> list[str]: ...

    def theme_in_use(self) -> str: ...

    def use_theme(self, name: str) -> None: ...

    def show_sessions(self) -> None: ...

    async def switch_session(self, path: Path | None) -> None: ...

    async def load_older(self) -> bool: ...

    def leave(self, status: int) -> None: ...

    def suspend_to_shell(self) -> None: ...


class PlaceCommands:
    """The commands of some scopes: `do_<id>` for each action there; those that commit are coroutines."""

    scopes: ClassVar[tuple[Scope, ...]]

    def __init__(self, desk: Desk) -> None:
        self.desk = desk

    @property
    def main(self) -> MainScreen:
        return self.desk.main

    @property
    def session(self) -> OpenSession:
        """The session on the screen, ours or not. Raises CommandError when there is none."""
        session = self.desk.session
        if session is None:
            raise CommandError("no session is open yet")
        return session

    @property
    def owned(self) -> OwnedSession:
        """The session on the screen, to change it. Raises CommandError when there is none, or it is another's."""
        session = self.session
        if not isinstance(session, OwnedSession):
            raise CommandError("this session is open read-only")
        return session

    def copy(self, text: str) -> None:
        """To the clipboard, saying by which way and how much, for nothing confirms it."""
        code, count, cut = clipboard.sequence(text)
        self.desk.write_terminal(code)
        note = f"sent {words.size(count)} to the clipboard by OSC 52, not confirmed"
        self.desk.tell(note + (f"; the rest of {words.size(len(text.encode()))} did not fit" if cut else ""))
