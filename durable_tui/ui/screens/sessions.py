"""The session list: which there are, how each stands, and switching to one (Ctrl+O)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

from textual.binding import Binding

from durable_tui.ground.text import one_line
from durable_tui.ui.adapter import words
from durable_tui.ui.adapter.header import cost_words
from durable_tui.ui.adapter.rows import Row, Rows
from durable_tui.ui.glyphs import Glyphs
from durable_tui.ui.screens.dialogs import Look
from durable_tui.ui.screens.search import SearchScreen
from durable_tui.ui.text.runs import Run
from durable_tui.ui.widgets.paint import plain

if TYPE_CHECKING:
    from durable_tui.host.catalogue import Catalogue, SessionInfo

NEW = "new"


class SessionsScreen(SearchScreen):
    """Gives the chosen session's path, `NEW`, or None. Type to search; Tab changes between here and everywhere."""

    placeholder = "search titles"
    BINDINGS: ClassVar = [
        Binding("tab", "scope", "Here or everywhere", show=False, priority=True),
        Binding("ctrl+n", "new", "New session", show=False, priority=True),
    ]

    def __init__(
        self,
        look: Look,
        catalogue: Catalogue,
        directory: str,
        current: Path | None = None,
        home: str = "",
        *,
        now: Callable[[], int],
    ) -> None:
        super().__init__(look, "sessions", "Enter open · Ctrl+N new · Tab everywhere · Esc close")
        self._catalogue = catalogue
        self._directory = directory
        self._current = current
        self._home = home
        self._now = now
        self._everywhere = False
        self._infos: list[SessionInfo] = []

    def on_mount(self) -> None:
        self.panel.set_rows(Rows((), "sessions", empty="looking …"))
        self._load()

    def _load(self) -> None:
        self.run_worker(self._read(), exclusive=True, exit_on_error=False)

    async def _read(self) -> None:
        self._infos = await self._catalogue.list(None if self._everywhere else self._directory)
        self.fill()

    def fill(self) -> None:
        if not self.is_mounted:
            return
        query = self.query_text.lower().split()
        infos = [info for info in self._infos if all(word in _searched(info) for word in query)]
        rows = session_rows(infos, self.look.glyphs, self._now(), self._current, self._home, self._everywhere)
        where = "everywhere" if self._everywhere else "in this directory"
        panel = self.panel
        panel.set_rows(Rows(tuple(rows), "sessions", len(infos), empty="no session " + where))
        panel.key = next((row.key for row in rows if row.key is not None), None)
        box = self.query_one("#box")
        box.border_title = plain(f"{words.plural(len(infos), 'session')} {where}")
        other = "here" if self._everywhere else "everywhere"
        corner = f"Enter open · Ctrl+N new · Tab {other}"
        room = box.outer_size.width
        box.border_subtitle = plain(f"{corner} · Esc close" if not room or len(corner) + 18 <= room else corner)

    def action_scope(self) -> None:
        self._everywhere = not self._everywhere
        self._load()

    def action_new(self) -> None:
        self.dismiss(NEW)


def _searched(info: SessionInfo) -> str:
    return f"{info.title or ''} {info.id} {info.cwd} {info.model or ''} {info.state}".lower()


def session_rows(
    infos: Sequence[SessionInfo], glyphs: Glyphs, now: int, current: Path | None, home: str, everywhere: bool
) -> list[Row]:
    """Two lines a session: how it stands and its title; then facts."""
    rows: list[Row] = []
    for info in infos:
        glyph, tone = {
            "running": ("running", "good"), "unfinished": ("interrupted", "attention"), "clean": ("clean", "dim"),
            "damaged": ("failed", "failed"), "newer": ("blocked", "attention"),
        }.get(info.state, ("clean", "dim"))  # fmt: skip
        here = info.path == current
        left: list[Run] = [(f"{glyphs[glyph]} ", tone), (info.title or "untitled", "bold")]
        mark: list[Run] = [("this one  ", "live")] if here else []
        rows.append(Row(info.path, left, [*mark, (words.day(info.updated_at, now), "dim")]))
        facts: list[str] = []
        if here:
            facts.append("open here")
        elif info.owner:
            facts.append(f"running in another window, pid {info.owner.get('pid')}")
        elif info.state == "unfinished":
            facts.append(f"{info.unfinished} unfinished")
        elif info.state in ("damaged", "newer"):
            reason = (info.message or "").replace(str(info.path), "").strip(" :")
            facts.append(f"{info.state}: {one_line(reason)}" if reason else info.state)
        else:
            facts.append("clean")
        if info.queued:
            facts.append(f"{info.queued} queued")
        if info.model:
            facts.append(info.model.split("/", 1)[-1])
        cost = cost_words(info.usage, glyphs["at_least"]) if info.usage else ""
        if cost:
            facts.append(cost)
        if everywhere and info.cwd:
            facts.append(words.home_path(info.cwd, home))
        rows.append(Row(None, [("  " + f" {glyphs['dot']} ".join(facts), "dim")]))
    return rows
