"""What the actions about models do: which one answers, and how much it thinks."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from durable_tui.models.provider import THINKING_LEVELS, ModelError
from durable_tui.ui.adapter.rows import Row, RowKey
from durable_tui.ui.commands.desk import CommandError, PlaceCommands
from durable_tui.ui.screens.dialogs import ChoiceScreen
from durable_tui.ui.screens.models import ModelsScreen

if TYPE_CHECKING:
    from durable_tui.ui.actions import Scope
    from durable_tui.ui.open_session import OwnedSession

THINKING = (
    "How much the model thinks before it answers, from the next request on. What a level means is up to the model."
)


class ModelCommands(PlaceCommands):
    scopes: ClassVar[tuple[Scope, ...]] = ("app",)

    async def do_model(self, argument: str) -> None:
        session = self.owned
        models = session.opened.models
        if not argument:
            screen = ModelsScreen(self.desk.look, session.model.header().model, session.offers, models.problem)
            self.desk.ask(screen, self._model_chosen)
            return
        problem = models.problem(argument)
        if problem:
            raise CommandError(f"{argument}: {problem}")
        await session.root.configure(model=argument)
        models.learn(argument)
        self.desk.tell(f"{argument} answers from the next request on")

    def _model_chosen(self, name: RowKey | None) -> None:
        if isinstance(name, str):
            self.desk.work(self.do_model(name), "model")

    async def do_thinking(self, argument: str) -> None:
        session = self.owned
        current = session.model.header().thinking or THINKING_LEVELS[0]
        if not argument:
            done = self.desk.look.glyphs["done"]
            rows = [
                Row(
                    level,
                    [(f"{done} " if level == current else "  ", "good"), (level, "bold")]
                    + ([("  current", "live")] if level == current else []),
                )
                for level in THINKING_LEVELS
            ]
            text = THINKING + (" This one is not known to think." if self._thinks(session) is False else "")
            screen = ChoiceScreen(self.desk.look, "thinking", text, rows, chosen=current)
            self.desk.ask(screen, self._level_chosen)
            return
        level = next((level for level in THINKING_LEVELS if level == argument), None)
        if level is None:
            raise CommandError(f"no thinking level is called {argument}; there are {', '.join(THINKING_LEVELS)}")
        await session.root.configure(thinkingLevel=level)
        self.desk.tell(f"thinking {argument} from the next request on")

    def _level_chosen(self, level: RowKey | None) -> None:
        if isinstance(level, str):
            self.desk.work(self.do_thinking(level), "thinking")

    def _thinks(self, session: OwnedSession) -> bool | None:
        """Whether the model in use reasons, as far as that is known."""
        try:
            return session.opened.models.resolve(session.model.header().model).reasoning
        except ModelError:
            return None
