"""Text to read: lines laid out for the width there is, scrolled by keys and wheel."""

from __future__ import annotations

from collections.abc import Callable
from typing import ClassVar

from textual.binding import Binding, BindingType
from textual.geometry import Size
from textual.scroll_view import ScrollView
from textual.strip import Strip

from durable_tui.ui.styles import Styles
from durable_tui.ui.text.runs import Line
from durable_tui.ui.widgets.paint import strip_of


class Lines(ScrollView, can_focus=True):
    """`make(cells)` gives the lines; it is asked again when the width changes."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("up,k", "scroll_by(-1)", show=False),
        Binding("down,j", "scroll_by(1)", show=False),
        Binding("pageup", "scroll_by(-10)", show=False),
        Binding("pagedown,space", "scroll_by(10)", show=False),
    ]

    def __init__(
        self, make: Callable[[int], list[Line]], *, styles: Callable[[], Styles], id: str | None = None
    ) -> None:
        super().__init__(id=id)
        self._make = make
        self._styles = styles
        self._lines: list[Line] = []
        self._cells = 0

    def on_resize(self) -> None:
        self._layout_lines(self.scrollable_content_region.width)

    def _layout_lines(self, cells: int) -> None:
        if cells != self._cells:
            self._cells = cells
            self._lines = self._make(max(cells, 1))
            self.virtual_size = Size(cells, len(self._lines))
            self.refresh()

    def get_content_height(self, container: Size, viewport: Size, width: int) -> int:
        return len(self._make(max(width, 1)))

    def render_line(self, y: int) -> Strip:
        cells = max(self.scrollable_content_region.width, 1)
        index = self.scroll_offset.y + y
        runs = self._lines[index].runs if index < len(self._lines) else []
        return strip_of(runs, cells, self._styles(), self.visual_style.rich_style)

    def action_scroll_by(self, count: int) -> None:
        self.scroll_relative(y=count, animate=False)
