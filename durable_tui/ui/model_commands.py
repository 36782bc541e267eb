"""What the actions about models do: which one answers, and how much it thinks."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from durable_tui.models.provider import THINKING_LEVELS, ModelError
from durable_tui.ui.adapter.rows import Row
from durable_tui.ui.place_commands import CommandError
from durable_tui.ui.screens.dialogs import ChoiceScreen
from durable_tui.ui.screens.models import ModelsScreen

if TYPE_CHECKING:
    from durable_tui.ui.app import DurableApp
    from durable_tui.ui.open_session import OpenSession

THINKING = (
    "How much the model thinks before it answers, from the next request on. What a level means is up to the model."
)


class ModelCommands:
    """A part of `commands.Commands`."""

    app: DurableApp
    session: OpenSession

    async def do_model(self, argument: str) -> None:
        session = self.session
        models = session.opened.models
        if not argument:
            screen = ModelsScreen(self.app.look, session.model.header().model, session.offers, models.problem)
            self.app.push_screen(screen, self._model_chosen)
            return
        problem = models.problem(argument)
        if problem:
            raise CommandError(f"{argument}: {problem}")
        await session.root.configure(model=argument)
        models.learn(argument)
        self.app.tell(f"{argument} answers from the next request on")

    def _model_chosen(self, name: str | None) -> None:
        if name:
            self.app.work(self.do_model(name), "model")

    async def do_thinking(self, argument: str) -> None:
        session = self.session
        current = session.model.header().thinking or THINKING_LEVELS[0]
        if not argument:
            done = self.app.glyphs["done"]
            rows = [
                Row(
                    level,
                    [(f"{done} " if level == current else "  ", "good"), (level, "bold")]
                    + ([("  current", "live")] if level == current else []),
                )
                for level in THINKING_LEVELS
            ]
            text = THINKING + (" This one is not known to think." if self._thinks(session) is False else "")
            screen = ChoiceScreen(self.app.look, "thinking", text, rows, chosen=current)
            self.app.push_screen(screen, self._level_chosen)
            return
        if argument not in THINKING_LEVELS:
            raise CommandError(f"no thinking level is called {argument}; there are {', '.join(THINKING_LEVELS)}")
        await session.root.configure(thinkingLevel=argument)
        self.app.tell(f"thinking {argument} from the next request on")

    def _level_chosen(self, level: Any) -> None:
        if level:
            self.app.work(self.do_thinking(level), "thinking")

    def _thinks(self, session: OpenSession) -> bool | None:
        """Whether the model in use reasons, as far as that is known."""
        try:
            known: bool | None = session.opened.models.resolve(session.model.header().model).reasoning
        except ModelError:
            return None
        return known
