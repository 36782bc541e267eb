"""The main screen: header, recovery card, transcript, side panels, composer, footer (spec 21)."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from typing import ClassVar

from textual import events
from textual.app import ComposeResult
from textual.containers import Horizontal, Vertical
from textual.css.query import NoMatches
from textual.screen import Screen
from textual.widgets import Static

from durable_tui.ground.text import clean
from durable_tui.ui.actions import Action, bindings, first_key
from durable_tui.ui.adapter.rows import Rows
from durable_tui.ui.adapter.screen import ScreenModel
from durable_tui.ui.adapter.transcript_model import Changes
from durable_tui.ui.glyphs import Glyphs
from durable_tui.ui.styles import Styles
from durable_tui.ui.text.runs import Run
from durable_tui.ui.widgets.composer import Composer
from durable_tui.ui.widgets.footer import FooterLine
from durable_tui.ui.widgets.header import HeaderLine
from durable_tui.ui.widgets.inbox import Inbox
from durable_tui.ui.widgets.live import Live
from durable_tui.ui.widgets.paint import plain
from durable_tui.ui.widgets.panel import Panel
from durable_tui.ui.widgets.recovery_list import RecoveryCard
from durable_tui.ui.widgets.suggestions import Suggestions
from durable_tui.ui.widgets.tabs import Tabs
from durable_tui.ui.widgets.tasks import Tasks
from durable_tui.ui.widgets.transcript import Transcript

NARROW, STATUS, LOW, TINY = 100, 60, 24, 12


class MainScreen(Screen[None]):
    """Paints `model`; knows no session. `now` gives milliseconds, for elapsed times; `report` is told of bugs of painting."""

    BINDINGS: ClassVar = bindings("main")

    def __init__(
        self,
        model: ScreenModel,
        *,
        styles: Callable[[], Styles],
        glyphs: Glyphs,
        keymap: dict[str, str] | None = None,
        now: Callable[[], int] | None = None,
        report: Callable[[BaseException], None] = lambda error: None,
    ) -> None:
        super().__init__()
        self.model = model
        self._report = report
        self.glyphs = glyphs
        self._styles = styles
        self._keymap = {} if keymap is None else keymap
        self.now = now or (lambda: int(time.time() * 1000))
        self.panel = "transcript"  # the one shown below NARROW columns
        self.composed = asyncio.Event()  # its parts are there

    def compose(self) -> ComposeResult:
        styles, glyphs = self._styles, self.glyphs
        yield HeaderLine(id="header", styles=styles, glyphs=glyphs)
        yield Static("", id="banner", markup=False)
        yield RecoveryCard(id="recovery", styles=styles, glyphs=glyphs)
        yield Tabs(styles=styles, id="tabs")
        with Horizontal(id="body"):
            transcript = Transcript(id="transcript", styles=styles, glyphs=glyphs)
            transcript.clock = self.now
            yield transcript
            with Vertical(id="side"):
                yield Live(id="live", styles=styles, glyphs=glyphs)
                yield Inbox(id="inbox", styles=styles, glyphs=glyphs)
                yield Tasks(id="tasks", styles=styles, glyphs=glyphs)
        suggestions = Suggestions(id="suggestions", styles=styles, glyphs=glyphs)
        yield suggestions
        yield Composer(suggestions, id="composer")
        yield FooterLine(styles=styles, keymap=self._keymap, id="footer")

    def on_mount(self) -> None:
        self.footer.available = self.available
        self.transcript.model = self.model.transcript
        self.composer.said_before = self.model_said
        self.composer.focus()
        self._size_classes()
        if not self.model.has_view:
            self.set_notice([[("opening …", "dim")]])
        try:
            self.paint_all()
        finally:
            self.composed.set()  # else the app waits for ever for a screen that failed

    def model_said(self) -> list[str]:
        return self.model.said()

    # --- parts ----------------------------------------------------------------------------------------------

    @property
    def transcript(self) -> Transcript:
        return self.query_one("#transcript", Transcript)

    @property
    def composer(self) -> Composer:
        return self.query_one("#composer", Composer)

    @property
    def recovery(self) -> RecoveryCard:
        return self.query_one("#recovery", RecoveryCard)

    @property
    def footer(self) -> FooterLine:
        return self.query_one("#footer", FooterLine)

    @property
    def header(self) -> HeaderLine:
        return self.query_one("#header", HeaderLine)

    def key(self, name: str) -> str:
        """How the key of an action is called."""
        return first_key(name, self._keymap)

    def panel_of(self, name: str) -> Panel:
        return self.query_one(f"#{name}", Panel)

    @property
    def composed_in_running_app(self) -> bool:
        """Whether it has its children and the app is not ending: while that takes them down, some are gone already."""
        return self.is_attached and bool(self._nodes) and self.app.is_running

    # --- painting -------------------------------------------------------------------------------------------

    @property
    def has_parts(self) -> bool:
        """Whether it is mounted and its parts can be found: a timer may fire before that or after it (case U04)."""
        return self.is_mounted and bool(self.query("#live")) and bool(self.query("#footer"))

    def attach(self, model: ScreenModel) -> None:
        """Show another session."""
        self.model = model
        self.transcript.has_older = model.has_older
        self.transcript.attach(model.transcript)
        self.paint_all()

    def paint(self, changes: Changes) -> None:
        """Show what frames changed."""
        if not self.composed_in_running_app:
            return
        parts = changes.parts
        transcript = self.transcript
        if transcript.model is not self.model.transcript:
            transcript.attach(self.model.transcript)
        transcript.has_older = self.model.has_older
        if changes.reset or changes.tail or changes.touched or "entries" in parts:
            transcript.show(changes)
        if changes.reset or "recovery" in parts:
            self.recovery.show(self.model.recovery())
            self.footer.refresh()
        if changes.reset or parts & {"inbox"}:
            self.query_one("#inbox", Inbox).set_rows(self.model.inbox())
        if changes.reset or parts & {"tasks"}:
            self.query_one("#tasks", Tasks).set_rows(self.model.task_rows())
        self.paint_moving()

    def paint_all(self) -> None:
        """Show everything anew."""
        self.paint(Changes(reset=True, tail=True, parts={"entries"}))

    def paint_moving(self) -> None:
        """What depends on the clock and on several parts of the view.

        A bug here keeps no work from starting and nobody from leaving: it is told, and the rest goes on (case UI-R20).
        """
        if not self.composed_in_running_app:
            return
        try:
            self._paint_moving(self.now())
        except NoMatches:
            raise  # the screen is being taken down: what paints on it ends as well
        except Exception as error:  # noqa: BLE001 - a bug of the screen
            self._report(error)

    def _paint_moving(self, now: int) -> None:
        live = self.model.live(now)
        panel = self.query_one("#live", Live)
        panel.set_rows(live)
        panel.set_class(self.model.busy, "-busy")
        self.header.show(self.model.header())
        self.composer.border_subtitle = plain(self.model.hint(self.key))
        self._paint_tabs(live, now)
        problem = self.model.problem
        banner = self.query_one("#banner", Static)
        banner.set_class(bool(problem), "-shown")
        if problem:
            banner.update(clean(problem))

    def _paint_tabs(self, live: Rows, now: int) -> None:
        tabs = self.query_one("#tabs", Tabs)
        if not tabs.display:
            return
        counts = [
            ("transcript", "transcript", 0),
            ("live", "live", sum(row.key is not None for row in live.rows)),
            ("inbox", "inbox", len(self.model.items)),
            ("tasks", "tasks", self.model.unfinished),
        ]
        tabs.show(counts, self.panel, self.model.status(now))

    def tick(self) -> None:
        """Move elapsed times on while something runs; without that only the header can have changed."""
        if not self.composed_in_running_app:
            return
        if self.model.busy or self.model.view["compactions"]:
            self.paint_moving()
            self.transcript.tick()
        else:
            self.header.show(self.model.header())

    def set_notice(self, lines: list[list[Run]]) -> None:
        """What stands in the middle of an empty transcript."""
        self.transcript.notice = lines
        self.transcript.refresh()

    def available(self, action: Action) -> bool:
        """Whether the footer should name this key now."""
        if action.id == "recoveries":
            return bool(self.model.recovery(every=True).rows)
        return True

    # --- layout ---------------------------------------------------------------------------------------------

    def on_resize(self, event: events.Resize) -> None:
        self._size_classes()
        self.paint_moving()

    def _size_classes(self) -> None:
        width, height = self.size
        narrow = width < NARROW
        self.set_class(narrow, "-narrow")
        self.set_class(height < LOW, "-low")
        self.set_class(height < TINY or width < 24, "-tiny")
        self._show_panel()

    def _show_panel(self) -> None:
        narrow = self.has_class("-narrow")
        panel = self.panel if narrow else "transcript"
        self.set_class(narrow and panel != "transcript", "-panel")
        for name in ("live", "inbox", "tasks"):
            self.panel_of(name).set_class(name == panel, "-chosen")

    def go_to(self, name: str) -> None:
        """Focus a part; pressed again, back to the composer."""
        if name == "composer" or (self.focused is not None and self.focused.id == name):
            self.panel = "transcript"
            self._show_panel()
            self.set_focus(self.composer)
        else:
            if name in ("transcript", "live", "inbox", "tasks"):
                self.panel = name
                self._show_panel()
            # At once and not by `focus()`: keys that came in the same read are meant for where this one leads.
            self.set_focus(self.query_one(f"#{name}"))
        self.paint_moving()
