"""A framed list drawn line by line: what live, inbox, tasks and recovery have in common."""

from __future__ import annotations

from collections.abc import Callable

from textual import events
from textual.geometry import Size
from textual.message import Message
from textual.scroll_view import ScrollView
from textual.strip import Strip

from durable_tui.ground.text import clean
from durable_tui.ui.actions import first_key
from durable_tui.ui.adapter.rows import Row, RowKey, Rows
from durable_tui.ui.glyphs import UNICODE, Glyphs
from durable_tui.ui.styles import Styles
from durable_tui.ui.text.runs import Run, justify
from durable_tui.ui.widgets.paint import plain, strip_of


class Panel(ScrollView, can_focus=True):
    """Shows `Rows` with a cursor on those that have a key."""

    ALLOW_SELECT = False
    keys_shown: tuple[tuple[str, str], ...] = ()  # (action, word), in the frame's corner while it has the focus

    class Chosen(Message):
        """A row was clicked or entered."""

        def __init__(self, panel: Panel, key: RowKey) -> None:
            super().__init__()
            self.panel = panel
            self.key = key

    def __init__(self, *, styles: Callable[[], Styles], glyphs: Glyphs = UNICODE, id: str | None = None) -> None:
        super().__init__(id=id)
        self._styles = styles
        self.glyphs = glyphs
        self.rows: tuple[Row, ...] = ()
        self.empty = ""
        self.key: RowKey | None = None

    def set_rows(self, rows: Rows) -> None:
        """Show these rows; the cursor stays on its key."""
        changed = len(rows.rows) != len(self.rows)
        self.rows, self.empty = rows.rows, rows.empty
        self.border_title = plain(self.title_of(rows))
        if self.key is not None and all(row.key != self.key for row in self.rows):
            self.key = None
        if changed or not self.virtual_size.height:
            self.virtual_size = Size(self.scrollable_content_region.width, max(len(self.rows), 1))
        self.refresh()

    def title_of(self, rows: Rows) -> str:
        return rows.title + (f" · {rows.count}" if rows.count else "")

    def get_content_height(self, container: Size, viewport: Size, width: int) -> int:
        return max(len(self.rows), 1)

    @property
    def shows_cursor(self) -> bool:
        return self.has_focus

    def cursor_row(self) -> int | None:
        return next((index for index, row in enumerate(self.rows) if row.key is not None and row.key == self.key), None)

    def step(self, direction: int) -> None:
        keyed = [index for index, row in enumerate(self.rows) if row.key is not None]
        if not keyed:
            return
        at = self.cursor_row()
        at = keyed[0] if at is None else at
        further = [index for index in keyed if (index - at) * direction > 0]
        target = (min(further) if direction > 0 else max(further)) if further else at
        self.key = self.rows[target].key
        self.show_cursor()
        self.refresh()

    def show_cursor(self) -> None:
        """Scroll to the cursor, where that is needed."""
        target = self.cursor_row()
        if target is None:
            return
        if target < self.scroll_offset.y:
            self.scroll_to(y=target, animate=False)
        height = self.scrollable_content_region.height
        if target >= self.scroll_offset.y + height:
            self.scroll_to(y=target - height + 1, animate=False)

    def chosen_key(self) -> RowKey | None:
        """The cursor's key, else the first row's."""
        if self.key is not None:
            return self.key
        return next((row.key for row in self.rows if row.key is not None), None)

    def render_line(self, y: int) -> Strip:
        cells = max(self.scrollable_content_region.width, 1)
        base = self.visual_style.rich_style
        styles = self._styles()
        row_number = self.scroll_offset.y + y
        if not self.rows:
            runs: list[Run] = [(self.empty, "faint")] if row_number == 0 else []
            return strip_of(runs, cells, styles, base)
        if row_number >= len(self.rows):
            return strip_of([], cells, styles, base)
        row = self.rows[row_number]
        fill = "cursor-line" if self.shows_cursor and row.key is not None and row.key == self.chosen_key() else ""
        left = [(clean(text).replace("\n", " ").replace("\t", " "), style) for text, style in row.left]
        right = [(clean(text).replace("\n", " "), style) for text, style in row.right]
        return strip_of(justify(left, right, cells, self.glyphs["ellipsis"]), cells, styles, base, fill=fill)

    def key_up(self) -> None:
        self.step(-1)

    def key_down(self) -> None:
        self.step(1)

    def key_k(self) -> None:
        self.step(-1)

    def key_j(self) -> None:
        self.step(1)

    def on_click(self, event: events.Click) -> None:
        offset = event.get_content_offset(self)
        if offset is None:
            return
        index = self.scroll_offset.y + offset.y
        key = self.rows[index].key if index < len(self.rows) else None
        if key is not None:
            self.key = key
            self.refresh()
            self.post_message(self.Chosen(self, key))

    def watch_has_focus(self, value: bool) -> None:
        super().watch_has_focus(value)
        self._show_keys()
        self.refresh()

    def on_resize(self, event: events.Resize) -> None:
        self._show_keys()

    def key_of(self, action: str) -> str:
        """How the key of an action is called."""
        return first_key(action, getattr(self.app, "keymap", {}))

    def _show_keys(self) -> None:
        """As many of the keys as fit into the corner, whole words only."""
        shown = self.keys_shown if self.has_focus and self.rows else ()
        parts = [f"{self.key_of(action)} {word}" for action, word in shown]
        while parts and len(" · ".join(parts)) > self.outer_size.width - 6:
            parts.pop()
        self.border_subtitle = plain(" · ".join(parts))
