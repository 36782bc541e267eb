"""The line that stands in for the side panels below 100 columns: tabs, or below 60 a status line."""

from __future__ import annotations

from collections.abc import Callable

from textual import events
from textual.strip import Strip
from textual.widget import Widget

from durable_tui.ui.styles import Styles
from durable_tui.ui.text.runs import Run, clip, runs_width
from durable_tui.ui.widgets.paint import strip_of


class Tabs(Widget):
    """`tabs` are (action id, label, count); `status` is shown where tabs do not fit."""

    ALLOW_SELECT = False

    def __init__(self, *, styles: Callable[[], Styles], id: str | None = None) -> None:
        super().__init__(id=id)
        self._styles = styles
        self.tabs: list[tuple[str, str, int]] = []
        self.chosen = "transcript"
        self.status = ""
        self._spans: list[tuple[int, int, str]] = []

    def show(self, tabs: list[tuple[str, str, int]], chosen: str, status: str) -> None:
        if (tabs, chosen, status) != (self.tabs, self.chosen, self.status):
            self.tabs, self.chosen, self.status = tabs, chosen, status
            self.refresh()

    def runs(self, cells: int) -> list[Run]:
        self._spans = []
        if cells < 60:
            return [(clip(self.status, cells), "dim")]
        out: list[Run] = []
        for action, label, count in self.tabs:
            text = f" {label}{f' · {count}' if count else ''} "
            start = runs_width(out)
            out.append((text, "bold live cursor-line" if action == self.chosen else "dim"))
            out.append((" ", ""))
            self._spans.append((start, start + len(text), action))
        return out

    def render_line(self, y: int) -> Strip:
        runs = self.runs(self.size.width) if y == 0 else []
        return strip_of(runs, self.size.width, self._styles(), self.visual_style.rich_style)

    async def on_click(self, event: events.Click) -> None:
        offset = event.get_content_offset(self)
        for start, end, action in self._spans:
            if offset is not None and start <= offset.x < end:
                await self.app.run_action(f"app.act('{action}')")
