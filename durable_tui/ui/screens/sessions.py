"""The session list: which there are, how each stands, and switching to one (Ctrl+O)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, ClassVar

from textual.app import ComposeResult
from textual.binding import Binding
from textual.widgets import Input

from durable_tui.ui.adapter import words
from durable_tui.ui.adapter.rows import Row, Rows
from durable_tui.ui.glyphs import Glyphs
from durable_tui.ui.screens.dialogs import Dialog, Look, steady
from durable_tui.ui.text.runs import Run
from durable_tui.ui.text.safe import one_line
from durable_tui.ui.widgets.paint import plain
from durable_tui.ui.widgets.panel import Panel

NEW = "new"


class SessionPanel(Panel):
    """Keys stay with the search line; the cursor shows all the same."""

    @property
    def shows_cursor(self) -> bool:
        return True


class SessionsScreen(Dialog[Any]):
    """Gives the chosen session's path, `NEW`, or None. Type to search; Tab changes between here and everywhere."""

    BINDINGS: ClassVar = [
        Binding("tab", "scope", "Here or everywhere", show=False, priority=True),
        Binding("enter", "choose", "Open", show=False, priority=True),
        Binding("down", "step(1)", show=False, priority=True),
        Binding("up", "step(-1)", show=False, priority=True),
        Binding("ctrl+n", "new", "New session", show=False, priority=True),
    ]

    def __init__(
        self,
        look: Look,
        catalogue: Any,
        directory: str,
        current: Any = None,
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
        self._infos: list[Any] = []

    def inside(self) -> ComposeResult:
        yield steady(Input(placeholder="search titles", id="search", compact=True))
        yield SessionPanel(palette=self.look.palette, glyphs=self.look.glyphs, id="sessions")

    def on_mount(self) -> None:
        self.query_one(Input).focus()
        self.query_one(SessionPanel).set_rows(Rows((), "sessions", empty="looking …"))
        self._load()

    def _load(self) -> None:
        self.run_worker(self._read(), exclusive=True, exit_on_error=False)

    async def _read(self) -> None:
        self._infos = await self._catalogue.list(None if self._everywhere else self._directory)
        self._fill()

    def _fill(self) -> None:
        if not self.is_mounted:
            return
        query = self.query_one(Input).value.lower().split()
        infos = [info for info in self._infos if all(word in _searched(info) for word in query)]
        rows = session_rows(infos, self.look.glyphs, self._now(), self._current, self._home, self._everywhere)
        where = "everywhere" if self._everywhere else "in this directory"
        panel = self.query_one(SessionPanel)
        panel.set_rows(Rows(tuple(rows), "sessions", len(infos), empty="no session " + where))
        panel.key = next((row.key for row in rows if row.key is not None), None)
        box = self.query_one("#box")
        box.border_title = plain(f"{words.plural(len(infos), 'session')} {where}")
        other = "here" if self._everywhere else "everywhere"
        corner = f"Enter open · Ctrl+N new · Tab {other}"
        room = box.outer_size.width
        box.border_subtitle = plain(f"{corner} · Esc close" if not room or len(corner) + 18 <= room else corner)

    def on_input_changed(self, event: Input.Changed) -> None:
        event.stop()
        self._fill()

    def action_scope(self) -> None:
        self._everywhere = not self._everywhere
        self._load()

    def action_step(self, direction: int) -> None:
        self.query_one(SessionPanel).step(direction)

    def action_new(self) -> None:
        self.dismiss(NEW)

    def action_choose(self) -> None:
        key = self.query_one(SessionPanel).chosen_key()
        if key is not None:
            self.dismiss(key)

    def on_panel_chosen(self, event: Panel.Chosen) -> None:
        event.stop()
        self.dismiss(event.key)


def _searched(info: Any) -> str:
    return f"{info.title or ''} {info.id} {info.cwd} {info.model or ''} {info.state}".lower()


def session_rows(
    infos: Sequence[Any], glyphs: Glyphs, now: int, current: Any, home: str, everywhere: bool
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
        if info.cost is not None:
            facts.append(words.money(info.cost))
        if everywhere and info.cwd:
            facts.append(words.home_path(info.cwd, home))
        rows.append(Row(None, [("  " + f" {glyphs['dot']} ".join(facts), "dim")]))
    return rows
