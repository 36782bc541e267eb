"""What each action of the registry does. Every method is `do_<id>`; those that commit are coroutines."""

from __future__ import annotations

import os
import time
from typing import TYPE_CHECKING, Any

from textual.actions import SkipAction

from durable_tui.host.host_errors import HostError
from durable_tui.models.images import ImageRefused
from durable_tui.ui import clipboard
from durable_tui.ui.actions import BY_ID, Action
from durable_tui.ui.adapter import words
from durable_tui.ui.adapter.rows import Row
from durable_tui.ui.command_palette import CommandPalette
from durable_tui.ui.model_commands import ModelCommands
from durable_tui.ui.place_commands import CommandError, PlaceCommands
from durable_tui.ui.screens.dialogs import ChoiceScreen, HelpScreen, LineScreen

if TYPE_CHECKING:
    from durable_tui.ui.app import DurableApp
    from durable_tui.ui.open_session import OpenSession

QUIT_TWICE = 2.0  # seconds within which the second Ctrl+C quits
OVER_DIALOGS = {"quit", "interrupt", "suspend"}  # what works while a dialog is open


class Commands(ModelCommands, PlaceCommands):
    """Bound to the app; `run` is the one way in, for keys, palette, slash commands and clicks."""

    def __init__(self, app: DurableApp) -> None:
        self.app = app
        self._interrupted = 0.0

    # --- the way in -----------------------------------------------------------------------------------------

    def applies(self, action: Action) -> bool:
        """Whether the palette should offer it now."""
        session = self.app.session
        if action.tier == "any":
            return True
        if session is None:
            return False
        if action.id == "resume":
            return not session.started
        if action.id == "retry":
            return any(task.get("blocked") == "restart_limit" for task in session.model.task_list)
        if action.tier == "parked":
            return session.model.parked > 0
        return True

    def run(self, name: str, argument: str = "") -> None:
        """Do it; what commits runs as a worker, and its failure is told. Raises SkipAction for a key to pass on."""
        action = BY_ID[name]
        if self.app.screen is not self.app.main and name not in OVER_DIALOGS:
            raise SkipAction
        method = getattr(self, "do_" + name.replace(".", "_").replace("-", "_"))
        result = method(argument) if action.argument else method()
        if result is not None:
            self.app.work(result, name)

    async def run_slash(self, action: Action, argument: str) -> None:
        """A slash command: done when this returns. Raises what it raises, so that the text can be given back."""
        if not self.applies(action):
            raise CommandError(f"/{action.slash} does not apply now")
        method = getattr(self, "do_" + action.id)
        result = method(argument) if action.argument else method()
        if result is not None:
            await result

    # --- the program ----------------------------------------------------------------------------------------

    def do_palette(self) -> None:
        self.app.push_screen(CommandPalette(id="--command-palette"))

    def do_help(self) -> None:
        self.app.push_screen(HelpScreen(self.app.look, self.app.keymap))

    def do_sessions(self) -> None:
        self.app.show_sessions()

    async def do_new(self) -> None:
        await self.app.switch_session(None)

    def do_usage(self) -> None:
        self.app.tell(self.session.model.usage() or "no tokens were used yet")

    async def do_rename(self, argument: str) -> None:
        session = self.session
        if argument:
            await session.harness.rename(argument)
            return
        screen = LineScreen(self.app.look, "rename the session", session.model.header().title)
        self.app.push_screen(screen, self._renamed)

    def _renamed(self, text: str | None) -> None:
        if text and text.strip():
            self.app.work(self.do_rename(text.strip()), "rename")

    async def do_theme(self, argument: str) -> None:
        themes = self.app.theme_names()
        if not argument:
            rows = [
                Row(name, [(name, "bold")], [("in use", "live")] if name == self.app.theme else []) for name in themes
            ]
            self.app.push_screen(ChoiceScreen(self.app.look, "theme", "", rows), self._theme_chosen)
            return
        if argument not in themes:
            raise CommandError(f"no theme is called {argument}; there are {', '.join(themes)}")
        self.app.theme = argument

    def _theme_chosen(self, name: str | None) -> None:
        if name:
            self.app.theme = name

    def do_quit(self) -> None:
        self.app.leave(0)

    def do_interrupt(self) -> None:
        """Ctrl+C: a selection is copied, else the message cleared into the history, else twice quits."""
        selected = self.app.screen.get_selected_text()
        if selected:
            self.copy(selected)
            self.app.screen.clear_selection()
            return
        if self.app.screen is not self.app.main:
            self.app.screen.dismiss(None)
            return
        composer = self.main.composer
        if composer.has_focus and composer.selected_text:
            self.copy(composer.selected_text)
            return
        if composer.text.strip():
            composer.clear_to_history()
            self.app.tell(f"cleared; {self.main.key('history_back')} brings it back")
            return
        now = time.monotonic()
        if now - self._interrupted < QUIT_TWICE:
            self.app.leave(0)
            return
        self._interrupted = now
        unfinished = self.app.session.model.unfinished if self.app.session else 0
        more = f"; {words.plural(unfinished, 'task')} will go on at the next open" if unfinished else ""
        self.app.tell(f"{self.main.key('interrupt')} again quits{more}")

    def do_suspend(self) -> None:
        self.app.action_suspend_process()

    def copy(self, text: str) -> None:
        """To the clipboard, saying by which way and how much, for nothing confirms it."""
        code, count, cut = clipboard.sequence(text)
        self.app.write_terminal(code)
        note = f"sent {words.size(count)} to the clipboard by OSC 52, not confirmed"
        self.app.tell(note + (f"; the rest of {words.size(len(text.encode()))} did not fit" if cut else ""))

    # --- the run --------------------------------------------------------------------------------------------

    def do_stop(self) -> Any:
        """Esc: closes a list, else stops the run, else comes back to the composer."""
        main = self.main
        main.clear_selection()
        if main.composer.dismiss():
            return None
        session = self.app.session
        if session is not None and session.model.busy and not session.model.reading:
            run = session.model.run
            session.model.stopping = run.get("taskId") if run else None
            main.paint_moving()
            return self._stop(session)
        if main.focused is not main.composer or main.panel != "transcript":
            main.go_to("composer")
        return None

    async def _stop(self, session: OpenSession) -> None:
        try:
            stopped = await session.root.stop()
        except BaseException:
            session.model.stopping = None
            raise
        if not stopped:
            session.model.stopping = None
            self.app.tell("nothing runs any more")

    async def do_release(self) -> None:
        session = self.session
        await session.resume()
        released = await session.root.release()
        if released is None:
            self.app.tell("nothing waits")

    async def do_resume(self) -> None:
        await self.session.resume()
        self.main.paint_all()

    async def do_retry(self) -> None:
        session = self.session
        parked = [task["id"] for task in session.model.task_list if task.get("blocked") == "restart_limit"]
        if not parked:
            raise CommandError("no task is parked by the restart limit")
        for task in parked:
            await session.harness.retry_task(task)
        await session.resume()

    # --- panels ---------------------------------------------------------------------------------------------

    def do_live(self) -> None:
        self.main.go_to("live")

    def do_inbox(self) -> None:
        self.main.go_to("inbox")

    def do_tasks(self) -> None:
        self.main.go_to("tasks")

    def do_transcript(self) -> None:
        self.main.go_to("transcript")

    def do_composer(self) -> None:
        self.main.go_to("composer")

    def do_recoveries(self) -> None:
        card = self.main.recovery
        if not card.card.rows:
            every = self.main.model.recovery(every=True)
            if not every.rows:
                self.app.tell("no crash has interrupted this session")
                return
            card.show(every)
        card.fold(False)
        self.main.go_to("recovery")

    # --- the composer ---------------------------------------------------------------------------------------

    def do_send(self) -> None:
        self.main.composer.submit("send")

    def do_follow_up(self) -> None:
        self.main.composer.submit("follow_up")

    def do_newline(self) -> None:
        self.main.composer.newline()

    async def do_edit_last(self) -> None:
        items = [item for item in self.session.model.items if item.get("mode") != "write"]
        if not items:
            self.app.tell("nothing is queued")
            return
        await self._take_back(items[-1])

    async def do_paste_image(self) -> None:
        session = self.session
        self.app.tell("reading the clipboard …")
        try:
            mention = await session.attach(await clipboard.read_image())
        except clipboard.NoImage as error:
            raise CommandError(str(error)) from None
        except ImageRefused as error:
            raise CommandError(f"the image on the clipboard cannot be sent: {error}") from None
        except (OSError, HostError) as error:
            raise CommandError(f"the image was not kept: {error}") from None
        self.main.composer.attach(mention)
        self.app.tell("attached; it is sent with the message")

    def do_history_back(self) -> None:
        if not self.main.composer.walk(-1):
            self.main.composer.action_cursor_up()

    def do_history_forward(self) -> None:
        if not self.main.composer.walk(1):
            self.main.composer.action_cursor_down()

    def do_complete(self) -> None:
        if not self.main.composer.take():
            self.main.focus_next()

    def do_undo(self) -> None:
        self.main.composer.undo()

    def do_quit_empty(self) -> None:
        if self.main.composer.text:
            self.main.composer.action_delete_right()
        else:
            self.app.leave(0)

    def do_page_up(self) -> None:
        self.main.transcript.scroll_page(-1)

    def do_page_down(self) -> None:
        self.main.transcript.scroll_page(1)


def home() -> str:
    """The person's home folder, "" when unknown."""
    found = os.path.expanduser("~")
    return "" if found == "~" else found
