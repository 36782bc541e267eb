"""The footer: the keys that matter everywhere, taken from the registry; it shows no key that does nothing."""

from __future__ import annotations

from collections.abc import Callable

from textual import events
from textual.strip import Strip
from textual.widget import Widget

from durable_tui.ui.actions import ACTIONS, Action, key_label, keys_of
from durable_tui.ui.styles import Styles
from durable_tui.ui.text.runs import Run, runs_width
from durable_tui.ui.widgets.paint import strip_of


class FooterLine(Widget):
    """`message` takes the line over for a while, for what must be said without a box."""

    ALLOW_SELECT = False

    def __init__(
        self, *, styles: Callable[[], Styles], keymap: dict[str, str] | None = None, id: str | None = None
    ) -> None:
        super().__init__(id=id)
        self._styles = styles
        self._keymap = {} if keymap is None else keymap
        self.available: Callable[[Action], bool] = lambda action: True
        self.message: list[Run] = []
        self._spans: list[tuple[int, int, str]] = []

    def say(self, message: list[Run]) -> None:
        if message != self.message:
            self.message = message
            self.refresh()

    def runs(self, cells: int) -> list[Run]:
        self._spans = []
        if self.message:
            return self.message
        shown = sorted((action for action in ACTIONS if action.footer), key=lambda action: action.footer)
        out: list[Run] = []
        used = 0
        gap = "   " if cells >= 90 else "  "
        for action in shown:
            keys = keys_of(action, self._keymap)
            if not keys or not self.available(action):
                continue
            part: list[Run] = [(f"{key_label(keys[0], short=True)} ", "bold"), (action.short, "dim"), (gap, "")]
            size = runs_width(part)
            if used + size - len(gap) > cells:
                break
            self._spans.append((used, used + size - len(gap), action.id))
            out += part
            used += size
        return out

    def render_line(self, y: int) -> Strip:
        cells = self.size.width
        base = self.visual_style.rich_style
        return strip_of(self.runs(cells) if y == 0 else [], cells, self._styles(), base)

    async def on_click(self, event: events.Click) -> None:
        offset = event.get_content_offset(self)
        for start, end, action in self._spans:
            if offset is not None and start <= offset.x < end:
                await self.app.run_action(f"app.act('{action}')")
