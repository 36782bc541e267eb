"""The screen's process: opens a session through the host, shows it, and closes it in order (spec 21)."""

from __future__ import annotations

import asyncio
import logging
import sys
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar, TypeVar

from rich.console import RenderableType
from textual.app import App
from textual.screen import Screen
from textual.timer import Timer
from textual.worker import Worker, WorkerState

from durable_tui.ground.text import one_line
from durable_tui.host import terminal
from durable_tui.host.exit_status import Status, status_of
from durable_tui.host.file_changes import watch_folders
from durable_tui.host.options import ScreenOptions
from durable_tui.models.images import ImageRefused
from durable_tui.ui import garbage
from durable_tui.ui import themes as theme_files
from durable_tui.ui.actions import Action, bindings, check_keymap, slash
from durable_tui.ui.adapter.screen import ScreenModel
from durable_tui.ui.adapter.transcript_model import Changes
from durable_tui.ui.appearance import Appearance
from durable_tui.ui.command_palette import ActionProvider
from durable_tui.ui.commands.desk import CommandError
from durable_tui.ui.commands.registry import Commands
from durable_tui.ui.glyphs import Glyphs
from durable_tui.ui.notices import refusal, welcome
from durable_tui.ui.open_session import OpenSession, OwnedSession, choose_path, follow_at, home, open_at
from durable_tui.ui.screens.dialogs import ChoiceScreen, Look
from durable_tui.ui.screens.main import MainScreen
from durable_tui.ui.screens.sessions import NEW, SessionsScreen
from durable_tui.ui.widgets.composer import Composer
from durable_tui.ui.widgets.panel import Panel
from durable_tui.ui.widgets.transcript import Transcript

if TYPE_CHECKING:
    from durable_tui.host.opening import Host, Opened
    from durable_tui.ui.adapter.rows import RowKey
    from durable_tui.views.facade import WhenBusy

log = logging.getLogger(__name__)
TICK = 0.25
BACKLOG = 18  # writes a terminal may be behind; textual blocks at thirty, and a paint takes three
SAID_FOR = 4.0  # seconds a word in the footer stays
PAGE = 200
Opener = Callable[[ScreenOptions, Path | None], "Awaitable[Opened]"]
Result = TypeVar("Result")


class DurableApp(App[int]):
    """`opener` opens a session for the screen; the host's unless a test gives another."""

    TITLE = "durable-tui"
    ENABLE_COMMAND_PALETTE = True
    COMMANDS: ClassVar = {ActionProvider}
    BINDINGS: ClassVar = bindings("app")
    INLINE_PADDING = 0
    CSS_PATH: ClassVar = [
        *(f"widgets/{name}.tcss" for name in (
            "panel", "transcript", "live", "inbox", "tasks", "recovery_list", "composer", "header", "footer", "tabs",
        )),
        "screens/main.tcss", "screens/dialogs.tcss",
    ]  # fmt: skip

    def __init__(
        self,
        options: ScreenOptions,
        *,
        opener: Opener | None = None,
        host: Host | None = None,
        ascii_only: bool = False,
        theme: str | None = None,
        now: Callable[[], int] | None = None,
    ) -> None:
        super().__init__()
        self.host = host
        self.glyphs = Glyphs(ascii_only)
        self.appearance = Appearance(self, theme, host.paths.themes if host is not None else None)
        self.appearance.load()
        self.appearance.begin()
        self.options = options
        self.now = now or (lambda: int(time.time() * 1000))
        self._live_clock = now is None
        self._opener = opener or self._open_by_host
        self.session: OpenSession | None = None
        self.keymap: dict[str, str] = {}
        self.commands = Commands(self)
        self.look = Look(self.appearance.styles, self.glyphs)
        self.main = self._main_screen(ScreenModel(glyphs=self.glyphs))
        self._missed = False  # paints were left out
        self.leaving = False
        self.unsaved = ""  # what was written and could not be stored at the end
        self.broken = ""  # why the screen itself ended, "" when it did not fail
        self._tried: Path | None = None  # the session last asked for, to follow it when it is owned elsewhere
        self.failure: tuple[int, str] | None = None  # status and words when no session could be opened
        self._ending: dict[asyncio.Task[None], OpenSession] = {}  # former sessions, while they are closed
        self._said: Timer | None = None

    def _main_screen(self, model: ScreenModel) -> MainScreen:
        return MainScreen(
            model,
            styles=self.appearance.styles,
            glyphs=self.glyphs,
            keymap=self.keymap,
            now=self.now,
            report=self.report,
        )

    # --- life -----------------------------------------------------------------------------------------------

    async def on_mount(self) -> None:
        await self.main.composed.wait()
        self.set_interval(TICK, self._tick)
        self.app_resume_signal.subscribe(self, lambda _: self._draw_all())
        self.work(self._start(), "open")

    async def _start(self) -> None:
        await self._shown()  # the screen first, then what takes its time
        if self.host is None and self._opener == self._open_by_host:
            from durable_tui.host.logs import start_logging
            from durable_tui.host.opening import Host

            try:
                self.host = await asyncio.to_thread(Host.load)
            except Exception as error:  # noqa: BLE001 - told to the person, whatever it is
                self._cannot_open(error, None)
                return
            start_logging(self.host.paths)
            self._configure(self.host)
        await self.open(None, first=True)

    def _configure(self, host: Host) -> None:
        """What the person's configuration says about keys and themes."""
        keys = dict(host.config.keys)
        problems = check_keymap(keys)
        self.keymap.update({name: value for name, value in keys.items() if not problems})
        if self.keymap:
            self.set_keymap(self.keymap)
        self.glyphs.use_ascii(bool(host.config.screen.get("ascii")))
        self.appearance.own_folder = host.paths.themes
        problems += self.appearance.load()
        self.appearance.use_configured(host.config.screen.get("theme"))
        if problems:
            self.tell(problems[0], "attention")
        self.work(self._follow_theme_files(), "themes")

    async def _follow_theme_files(self) -> None:
        async for _ in watch_folders(self.appearance.folders):
            self.reload_themes()

    def reload_themes(self) -> None:
        """Show themes as their files are now (spec 22)."""
        problems = self.appearance.reload()
        if problems:
            self.tell(problems[0], "attention")

    def get_theme_variable_defaults(self) -> dict[str, str]:
        return theme_files.variable_defaults()

    async def _open_by_host(self, options: ScreenOptions, path: Path | None) -> Opened:
        if self.host is None:
            raise RuntimeError("no host was loaded to open a session with")
        if path is None:
            path = self._tried = await choose_path(self.host, options)
        return await open_at(
            self.host, path, directory=options.directory, model=options.model, thinking=options.thinking
        )

    async def open(self, path: Path | None, *, first: bool = False, new: bool = False) -> bool:
        """Open a session and show it; the former one is closed in order. False when it could not be opened."""
        options = self.options
        if not first:
            options = ScreenOptions(directory=options.directory, new=new, model=None)
        self._tried = path
        try:
            opened = await self._opener(options, path)
        except Exception as error:  # noqa: BLE001 - told to the person, whatever it is
            self._cannot_open(error, self._tried)
            return False
        session = OwnedSession(opened, self.paint, glyphs=self.glyphs, report=self.report, now=self._session_clock)
        if not await self._show(session, self._tried):
            return False
        reason = session.harness.paused_reason
        session.model.paused = bool(first and options.paused) or bool(reason)
        self.main.paint_moving()
        await self._shown()
        if not session.model.paused and self.session is session and not self.leaving:
            await session.resume()
        elif reason:
            self.tell(f"opened paused: {reason}. {self.main.key('send')} on an empty line starts", "attention")
        if first and options.prompt:
            try:
                await self._submit(options.prompt, "send")
            except ImageRefused as error:
                self.main.composer.refused(options.prompt, f"not sent: {error}")
        return True

    async def follow(self, path: Path) -> None:
        """Show a session another process owns, read-only and as it grows."""
        if self.host is None:
            return
        try:
            opened = await follow_at(self.host, path)
        except Exception as error:  # noqa: BLE001 - told to the person, whatever it is
            self._cannot_open(error, path)
            return
        self.failure = None
        await self._show(OpenSession(opened, self.paint, glyphs=self.glyphs, report=self.report), path)

    async def _show(self, session: OpenSession, path: Path | None) -> bool:
        """Put a session on the screen; the former one is closed in order. One that cannot be read is given up, and told."""
        former, composer = self.session, self.main.composer
        text = composer.text
        if former is not None:
            await self._keep_draft(former)
        self.session = session
        self._tell_launcher()  # whatever kills the program from now on, it is told how to continue
        if former is not None:  # what was typed before the first session was open stays
            composer.put("", stored=True)
            composer.cleared.clear()
        composer.files, composer.pasted = session.files.find, session.pasted
        session.start_feed()
        await session.feed.first.wait()
        if session.feed.failure is not None and not session.model.has_view:
            self.session = former
            self._tell_launcher()
            if former is not None:
                composer.put(text + composer.text, stored=False)
                composer.files, composer.pasted = former.files.find, former.pasted
            await session.close()
            self._cannot_open(session.feed.failure, path)
            return False
        session.note_problem()
        self.main.attach(session.model)
        self.main.set_notice(welcome(session.model.header()))
        draft = session.model.view["draft"]["text"]
        if draft and not session.model.reading:
            if self.main.composer.text:
                self.main.composer.cleared.append(draft)  # one key (Up) away
            else:
                self.main.composer.put(draft, stored=True)
        if former is not None:
            self._close_later(former)
        if session.opened.warnings:
            self.tell(" · ".join(one_line(warning) for warning in session.opened.warnings), "attention")
        return True

    def _session_clock(self) -> int:
        """When work was let start; a fixed clock of a test stands for the whole run."""
        return self.now() if self._live_clock else 0

    async def _shown(self) -> None:
        """Until what was found stands on the screen: nothing moves before (spec 15)."""
        painted = asyncio.Event()
        self.main.call_after_refresh(painted.set)
        try:
            await asyncio.wait_for(painted.wait(), 1.0)
        except TimeoutError:
            log.warning("the first paint took more than a second")

    def _cannot_open(self, error: BaseException, path: Path | None) -> None:
        """A session would not open: say why, offer what can be done instead."""
        refused = refusal(error, path)
        if not refused.owned:
            log.error("the session did not open", exc_info=error)
        known = status_of(error)
        status = known[0] if known is not None else Status.UNANSWERED
        self.failure = (status, refused.text)
        if self.host is None:
            self.leave(status)
            return

        def chosen(key: RowKey | None) -> None:
            if key == "follow" and path is not None:
                self.work(self.follow(path), "follow")
            elif key == "new":
                self.failure = None
                self.work(self.switch_session(None), "new")
            elif key == "sessions":
                self.show_sessions(otherwise=lambda: self._cannot_open(error, path))
            elif self.session is None:
                self.leave(status)

        self.push_screen(ChoiceScreen(self.look, refused.title, refused.text, refused.rows), chosen)

    # --- sessions -------------------------------------------------------------------------------------------

    def show_sessions(self, otherwise: Callable[[], None] | None = None) -> None:
        if self.host is None:
            return
        current = self.session.opened.path if self.session else None

        def chosen(key: RowKey | None) -> None:
            if key is None:
                if otherwise is not None:
                    otherwise()
            elif key == NEW:
                self.work(self.switch_session(None), "switch")
            elif isinstance(key, Path) and (key != current or not isinstance(self.session, OwnedSession)):
                self.work(self.switch_session(key), "switch")

        self.push_screen(
            SessionsScreen(self.look, self.host.catalogue, self.options.directory, current, home(), now=self.now),
            chosen,
        )

    async def switch_session(self, path: Path | None) -> None:
        """Open another session, or a new one for None; the present one is closed in order afterwards."""
        note = self.session.model.at_closing if self.session is not None else ""
        title = self.session.model.header().title if self.session else ""
        if await self.open(path, new=path is None):
            self.failure = None
            if note:
                self.tell(f"“{one_line(title, 40)}” is closed in order; {note}")

    def _close_later(self, session: OpenSession) -> None:
        task = asyncio.get_running_loop().create_task(session.close())
        self._ending[task] = session
        task.add_done_callback(self._former_closed)

    def _former_closed(self, task: asyncio.Task[None]) -> None:
        del self._ending[task]
        self._tell_launcher()

    async def load_older(self) -> bool:
        """Put the page before the oldest entry shown in front; False when there is none."""
        session = self.session
        if session is None or not self.main.transcript.has_older:
            return False
        transcript = session.model.transcript
        if transcript.first_entry is None:
            return False
        records = await session.older(transcript.first_entry, PAGE)
        if len(records) < PAGE:
            self.main.transcript.has_older = False
            session.model.all_loaded = True
        if not records:
            return False
        count = transcript.prepend(records)
        if transcript.orphans_joined:
            self.main.transcript.show(Changes(reset=True, tail=True))
        else:
            self.main.transcript.prepended(count)
        return True

    async def on_transcript_need_older(self, event: Transcript.NeedOlder) -> None:
        self.work(self.load_older(), "older")

    # --- painting -------------------------------------------------------------------------------------------

    def paint(self, changes: Changes) -> None:
        """Called by the feed, at most twelve times a second."""
        session = self.session
        if session is None or self.main.model is not session.model or not self.main.has_parts:
            return
        session.note_problem()
        self._tell_launcher()
        self.main.paint(changes)

    def _display(self, screen: Screen[object], renderable: RenderableType | None) -> None:
        """A terminal that takes nothing in, as over a connection that hangs, must not hold up the work.

        Textual would wait for it with the whole loop: paints are left out instead, and made up for when it takes more.
        """
        if self._missed or self._unwritten() > BACKLOG:
            self._missed = True
            return
        super()._display(screen, renderable)

    def _unwritten(self) -> int:
        """How many writes the terminal has not taken yet."""
        thread = getattr(self._driver, "_writer_thread", None)
        return thread._queue.qsize() if thread is not None else 0

    def _make_up(self) -> None:
        if self._missed and not self._unwritten():
            self._missed = False
            self._draw_all()

    def _draw_all(self) -> None:
        """Every cell anew: after a suspension, or paints left out, the terminal shows something else."""
        self.screen._compositor._dirty_regions.add(self.screen.size.region)
        self.screen._compositor_refresh()

    def _tick(self) -> None:
        self._make_up()
        if not self.main.has_parts:
            return
        if self.session is not None and self.session.note_problem():
            self.main.paint_moving()
        self.main.tick()
        if not self.main.model.busy:
            garbage.in_calm()

    def _tell_launcher(self) -> None:
        session = self.session
        if session is None or self.host is None:
            return
        opened = session.opened
        ours = opened.path.parent == self.host.paths.sessions.resolve()
        ends = [found for each in (session, *self._ending.values()) if (found := each.end_file) is not None]
        terminal.report(
            cwd=self.options.directory,
            unfinished=session.model.unfinished,
            session=opened.id if ours else None,
            path=str(opened.path),
            ends=ends,
        )

    def tell(self, text: str, tone: str = "dim") -> None:
        """A word in the footer for a few seconds."""
        if not self.main.is_mounted:
            return
        self.main.footer.say([(one_line(text, 300), tone)])
        if self._said is not None:
            self._said.stop()
        self._said = self.set_timer(SAID_FOR, self._said_enough)

    def _said_enough(self) -> None:
        if self.main.has_parts:  # else the screen is gone already
            self.main.footer.say([])

    def report(self, error: BaseException) -> None:
        """Something of the screen failed; the run goes on, the log has the rest (case UI-R20)."""
        log.error("the screen failed", exc_info=error)
        self.tell(f"something on the screen failed ({type(error).__name__}); the work goes on", "failed")

    # --- what is typed --------------------------------------------------------------------------------------

    async def on_composer_submitted(self, event: Composer.Submitted) -> None:
        self.work(self._submitted(event.text, event.mode), "submit")

    async def _submitted(self, text: str, mode: str) -> None:
        composer = self.main.composer
        try:
            command = slash(text)
            if command is not None:
                await self.commands.run_slash(*command)
            elif text.startswith("/") and text[1:].strip().replace("-", "").isalpha() and " " not in text.strip():
                raise CommandError(f"there is no command {text.strip()}; a blank before it sends it as a message")
            else:
                await self._submit(text, mode)
        except asyncio.CancelledError:
            composer.refused(text, "not sent")
            raise
        except Exception as error:  # noqa: BLE001 - told beside the text, which stays
            composer.refused(text, f"not sent: {error}" if not isinstance(error, CommandError) else str(error))
            return
        composer.accepted(text)

    async def _submit(self, text: str, mode: str) -> None:
        """Admit an input; the commit has returned when this does (case UI-Q03)."""
        session = self.session
        if session is None:
            raise CommandError("no session is open yet")
        if not isinstance(session, OwnedSession):
            raise CommandError("this session is open read-only")
        content = await session.content(text)
        await session.resume()
        when: WhenBusy = "steer" if mode == "send" and session.model.busy else "follow_up"
        if session.model.stopping is not None:
            await session.root.set_draft(text)  # it is admitted when the run has ended; until then it must not be lost
        await session.root.submit(content, when_busy=when, clear_draft=True)
        # From here on it is sent: what the screen does with it may not make it look as if it were not.
        self.main.call_later(self.main.transcript.to_end)
        if content is not text and (blind := session.blind()):
            self.tell(f"{blind} cannot see images; it is told only that there is one", "attention")

    async def on_composer_drafted(self, event: Composer.Drafted) -> None:
        if isinstance(self.session, OwnedSession) and not self.leaving:
            self.work(self._store_draft(self.session, event.text), "draft")
        elif self.session is None:
            self.main.composer.not_stored(event.text)  # tried again once there is one

    async def _store_draft(self, session: OwnedSession, text: str) -> None:
        try:
            await session.root.set_draft(text)
            self.main.composer.kept(text)
        except Exception as error:
            log.warning("the draft was not stored", exc_info=error)
            self.main.composer.not_stored(text)
            if session.note_problem():
                self.main.paint_moving()
            if not session.model.problem:  # else the banner says it
                raise

    async def on_composer_empty_entered(self, event: Composer.EmptyEntered) -> None:
        session = self.session
        if not isinstance(session, OwnedSession):
            return
        if session.model.paused:
            self.act("resume")
        elif session.model.parked:
            self.act("release")

    async def on_panel_chosen(self, event: Panel.Chosen) -> None:
        if event.panel.id == "recovery":
            self.act("why")

    # --- actions --------------------------------------------------------------------------------------------

    def action_act(self, name: str) -> None:
        self.act(name)

    def act(self, name: str) -> None:
        """Do an action of the registry; a refusal is said, not raised."""
        try:
            self.commands.run(name)
        except CommandError as error:
            self.tell(str(error), "attention")

    def later(self, name: str) -> Callable[[], None]:
        """For the palette: do it when the palette is gone."""

        def do() -> None:
            self.call_later(self.act, name)

        return do

    def work(self, body: Awaitable[Result], name: str) -> Worker[Result]:
        """Run something that may commit, beside the screen; its failure is told and ends nothing."""
        return self.run_worker(body, name=name, group=name, exit_on_error=False)

    # --- what commands need (`commands.desk.Desk`) ------------------------------------------------------------

    def offered(self) -> list[Action]:
        """What the palette lists now."""
        return self.commands.offered()

    def ask(self, screen: Screen[Result], then: Callable[[Result | None], None] | None = None) -> None:
        """Lay a dialog over everything; `then` is given what it ends with."""
        self.push_screen(screen, then)

    def front(self) -> Screen[object]:
        """The screen the person sees: the main one, or the dialog over it."""
        return self.screen

    def theme_names(self) -> list[str]:
        return self.appearance.names()

    def theme_in_use(self) -> str:
        return self.theme

    def use_theme(self, name: str) -> None:
        self.theme = name

    def suspend_to_shell(self) -> None:
        self.action_suspend_process()

    def on_worker_state_changed(self, event: Worker.StateChanged) -> None:
        if event.state is WorkerState.ERROR:
            error = event.worker.error
            if isinstance(error, CommandError):
                self.tell(str(error), "attention")
            elif error is not None:
                log.error("%s failed", event.worker.name, exc_info=error)
                self.tell(f"{event.worker.name}: {error}", "failed")

    def write_terminal(self, data: str) -> None:
        """Bytes of our own for the terminal itself."""
        if self._driver is not None:
            self._driver.write(data)

    # --- the end --------------------------------------------------------------------------------------------

    def leave(self, status: int) -> None:
        """Close in order and end with `status`; asked again, end at once (the work is as safe as after a crash)."""
        if self.leaving:
            self.exit(status, return_code=status)
            return
        self.leaving = True
        session = self.session
        if session is None:
            self.exit(status, return_code=status)
            return
        session.model.closing = True
        note = session.model.at_closing
        self.tell(f"closing in order; {note} …" if note else "closing in order …", "attention")
        self.main.paint_moving()
        self.work(self._leave(session, status), "leave")

    async def _leave(self, session: OpenSession, status: int) -> None:
        try:
            await self._keep_draft(session)
            self._tell_launcher()
            await self._close(session)
        finally:
            self.exit(status, return_code=status)

    async def _keep_draft(self, session: OpenSession) -> None:
        text = self.main.composer.unsaved
        if text is None or not isinstance(session, OwnedSession):
            return
        try:
            await session.root.set_draft(text)
        except Exception as error:
            log.error("the draft was not kept", exc_info=error)
            self.unsaved = text

    def _fatal_error(self) -> None:
        """A bug of the screen: into the log instead of a traceback on the terminal; then everything closes in order."""
        error = sys.exc_info()[1] or self._exception
        log.error("the screen ended", exc_info=error)
        self.broken = f"the screen failed ({type(error).__name__}); the work is kept, the log tells more"
        self._close_messages_no_wait()

    async def close_sessions(self) -> None:
        """After the screen has gone: close what is still open (a failed screen must not leave a session unclosed)."""
        await self._close(self.session)

    async def _close(self, session: OpenSession | None) -> None:
        """Close what is open in order, former sessions too; the launcher is told that there is no end to tell of."""
        try:
            if session is not None:
                await session.close()
            if self._ending:
                await asyncio.gather(*self._ending, return_exceptions=True)
        finally:
            self._tell_launcher()

    def get_default_screen(self) -> Screen[None]:
        # Pushed over an empty one, the main screen would be laid out and rendered twice before anything is seen.
        return self.main
