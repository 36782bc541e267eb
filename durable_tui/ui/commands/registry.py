"""The way in to all commands: every action of the registry bound to the one method that does it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable

from textual.actions import SkipAction

from durable_tui.ui.actions import ACTIONS, BY_ID, Action
from durable_tui.ui.commands.composer import ComposerCommands
from durable_tui.ui.commands.desk import CommandError, Desk, PlaceCommands
from durable_tui.ui.commands.inbox import InboxCommands
from durable_tui.ui.commands.models import ModelCommands
from durable_tui.ui.commands.panels import PanelCommands
from durable_tui.ui.commands.program import ProgramCommands
from durable_tui.ui.commands.recovery import RecoveryCommands
from durable_tui.ui.commands.run import RunCommands
from durable_tui.ui.commands.tasks import TaskCommands
from durable_tui.ui.commands.transcript import TranscriptCommands
from durable_tui.ui.open_session import OwnedSession
from durable_tui.views.blocked import is_retriable

OVER_DIALOGS = {"quit", "interrupt", "suspend"}  # what works while a dialog is open
Command = Callable[..., Awaitable[None] | None]  # takes what follows a slash command when its action has an argument
PLACES: tuple[type[PlaceCommands], ...] = (
    ProgramCommands,
    ModelCommands,
    RunCommands,
    PanelCommands,
    ComposerCommands,
    TranscriptCommands,
    InboxCommands,
    TaskCommands,
    RecoveryCommands,
)


def bind(actions: Iterable[Action], places: Iterable[PlaceCommands]) -> dict[str, Command]:
    """The method `do_<id>` of each action, of the place with its scope.

    Raises LookupError for an action that nothing or more than one place does, and for a method without its action.
    """
    methods: dict[str, list[tuple[PlaceCommands, Command]]] = {}
    for place in places:
        for name in dir(place):
            if name.startswith("do_"):
                methods.setdefault(name.removeprefix("do_"), []).append((place, getattr(place, name)))
    bound: dict[str, Command] = {}
    for action in actions:
        found = [method for place, method in methods.pop(action.id, []) if action.scope in place.scopes]
        if len(found) != 1:
            raise LookupError(f"{len(found)} commands of scope {action.scope} do the action {action.id}")
        bound[action.id] = found[0]
    if methods:
        raise LookupError(f"no action has these commands: {', '.join(sorted(methods))}")
    return bound


class Commands:
    """For keys, palette, slash commands and clicks alike. Raises LookupError when an action has no command."""

    def __init__(self, desk: Desk) -> None:
        self._desk = desk
        self._bound = bind(ACTIONS, [place(desk) for place in PLACES])

    def applies(self, action: Action) -> bool:
        """Whether the palette should offer it now."""
        session = self._desk.session
        if action.tier == "any":
            return True
        if session is None:
            return False
        if action.id == "resume":
            return not (isinstance(session, OwnedSession) and session.started)
        if action.id == "retry":
            return any(is_retriable(task) for task in session.model.task_list)
        if action.tier == "parked":
            return session.model.parked > 0
        return True

    def offered(self) -> list[Action]:
        """What the palette lists now."""
        return [action for action in ACTIONS if action.palette and self.applies(action)]

    def run(self, name: str) -> None:
        """Do it; what commits runs as a worker, and its failure is told. Raises SkipAction for a key to pass on."""
        if self._desk.front() is not self._desk.main and name not in OVER_DIALOGS:
            raise SkipAction
        result = self._call(BY_ID[name], "")
        if result is not None:
            self._desk.work(result, name)

    async def run_slash(self, action: Action, argument: str) -> None:
        """A slash command: done when this returns. Raises what it raises, so that the text can be given back."""
        if not self.applies(action):
            raise CommandError(f"/{action.slash} does not apply now")
        result = self._call(action, argument)
        if result is not None:
            await result

    def _call(self, action: Action, argument: str) -> Awaitable[None] | None:
        command = self._bound[action.id]
        return command(argument) if action.argument else command()
