"""The model list (/model): what can be asked, with what is known of it, and why the rest cannot."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence

from durable_tui.models.listing import Offer
from durable_tui.ui.adapter.rows import Rows
from durable_tui.ui.screens.dialogs import Look
from durable_tui.ui.screens.model_rows import offer_rows
from durable_tui.ui.screens.search import SearchScreen

Load = Callable[[bool], tuple[Sequence[Offer], str]]


class ModelsScreen(SearchScreen):
    """Gives `PROVIDER/MODEL`, or None.

    `load` gives the offers and the default model; it may take its time and runs in a thread: first with what is known,
    then, with True, asking the servers near by. `problem` tells what is wrong with a name that was typed.
    """

    placeholder = "search, or type PROVIDER/MODEL"

    def __init__(self, look: Look, current: str, load: Load, problem: Callable[[str], str | None]) -> None:
        super().__init__(look, "choose a model", "Enter takes it from the next request on · Esc close")
        self._current = current
        self._load = load
        self._problem = problem
        self._offers: Sequence[Offer] | None = None
        self._default = ""

    def on_mount(self) -> None:
        self.panel.set_rows(Rows((), empty="looking …"))
        self.run_worker(self._read(), exit_on_error=False)

    def on_resize(self) -> None:
        self.fill()

    async def _read(self) -> None:
        for ask in (False, True):
            self._offers, self._default = await asyncio.to_thread(self._load, ask)
            self.fill(keep=True)

    def fill(self, *, keep: bool = False) -> None:
        """With `keep` the cursor stays where it is, else it goes to the current model, or to what fits best."""
        if not self.is_mounted or self._offers is None:
            return
        panel, query = self.panel, self.query_text
        rows = offer_rows(
            self._offers,
            query,
            current=self._current,
            default=self._default,
            problem=self._problem,
            cells=max(panel.scrollable_content_region.width, 20),
            glyphs=self.look.glyphs,
        )
        before = panel.key
        panel.set_rows(Rows(tuple(rows), empty="nothing is called that"))
        keys = [row.key for row in rows if row.key is not None]
        if not (keep and before in keys):
            panel.key = self._current if self._current in keys and not query else next(iter(keys), None)
            self.call_after_refresh(panel.show_cursor)
