"""The list over the composer: slash commands for `/`, files for `@`."""

from __future__ import annotations

from dataclasses import dataclass

from durable_tui.ui.adapter.rows import Row, Rows
from durable_tui.ui.widgets.paint import plain
from durable_tui.ui.widgets.panel import Panel

VISIBLE = 6  # rows, as its style says


@dataclass(slots=True, frozen=True)
class Suggestion:
    """`text` replaces the composer's characters from `start` on, up to the cursor."""

    start: int
    text: str
    label: str
    note: str = ""


class Suggestions(Panel, can_focus=False):
    """Never takes the focus; the composer moves its cursor."""

    def __init__(self, **arguments: object) -> None:
        super().__init__(**arguments)  # type: ignore[arg-type]
        self.items: list[Suggestion] = []
        self.key: int | None = None
        self.display = False

    @property
    def open(self) -> bool:
        return bool(self.display)

    def offer(self, items: list[Suggestion]) -> None:
        self.items = items
        if not items:
            self.display = False
            self.key = None
            return
        if self.key is None or self.key >= len(items):
            self.key = 0
        width = min(max(len(item.label) for item in items) + 2, 40)
        rows = [
            Row(index, [(item.label.ljust(width), "bold"), (item.note, "dim")], []) for index, item in enumerate(items)
        ]
        self.set_rows(Rows(tuple(rows)))
        self.border_title = ""
        self._show_keys()
        self.display = True

    @property
    def shows_cursor(self) -> bool:
        return True

    def _show_keys(self) -> None:
        more = f"{len(self.items)} in all · " if len(self.items) > VISIBLE else ""
        self.border_subtitle = plain(f"{more}{self.key_of('complete')} take · {self.key_of('stop')} close")

    def chosen(self) -> Suggestion | None:
        return self.items[self.key] if self.open and self.key is not None and self.key < len(self.items) else None
