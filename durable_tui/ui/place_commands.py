"""What the actions of transcript, inbox, tasks and recovery card do: those that act on the row or block chosen there."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from durable_tui.host.host_errors import HostError
from durable_tui.models.messages import message_text
from durable_tui.ui.adapter.blocks import source_text
from durable_tui.ui.screens.dialogs import WhyScreen
from durable_tui.ui.text.safe import one_line

if TYPE_CHECKING:
    from durable_tui.ui.app import DurableApp
    from durable_tui.ui.open_session import OpenSession
    from durable_tui.ui.screens.main import MainScreen


class CommandError(Exception):
    """A command cannot be done now; the message says why, for the person."""


class PlaceCommands:
    """Half of `commands.Commands`."""

    app: DurableApp

    @property
    def main(self) -> MainScreen:
        return self.app.main

    @property
    def session(self) -> OpenSession:
        session = self.app.session
        if session is None:
            raise CommandError("no session is open yet")
        if session.model.reading:
            raise CommandError("this session is open read-only")
        return session

    def copy(self, text: str) -> None:
        """To the clipboard; see Commands."""

    # --- the transcript -------------------------------------------------------------------------------------

    def do_line_up(self) -> None:
        self.main.transcript.step(-1)

    def do_line_down(self) -> None:
        self.main.transcript.step(1)

    def do_fold(self) -> None:
        self.main.transcript.toggle_current()

    def do_fold_all(self) -> None:
        self.main.transcript.fold_all()

    async def do_question_back(self) -> None:
        while not self.main.transcript.jump_question(-1):
            if not await self.app.load_older():
                self.main.transcript.scroll_to(y=0, animate=False)
                return

    def do_question_on(self) -> None:
        self.main.transcript.jump_question(1)

    def do_copy_entry(self) -> None:
        text = source_text(self.main.transcript.entry_blocks())
        if text:
            self.copy(text)

    def do_scroll_up(self) -> None:
        self.main.transcript.scroll_page(-1)

    def do_scroll_down(self) -> None:
        self.main.transcript.scroll_page(1)

    def do_scroll_top(self) -> None:
        self.main.transcript.scroll_to(y=0, animate=False)

    def do_scroll_end(self) -> None:
        self.main.transcript.to_end()

    # --- the inbox ------------------------------------------------------------------------------------------

    def _item(self) -> Any:
        panel = self.main.panel_of("inbox")
        panel.key = key = panel.chosen_key()  # the cursor goes with the item, wherever that is moved
        item = next((item for item in self.session.model.items if item.get("id") == key), None)
        if item is None:
            raise CommandError("nothing waits")
        return item

    async def do_item_send(self) -> None:
        session = self.session
        await session.resume()
        await session.root.release(self._item()["id"])

    async def do_item_edit(self) -> None:
        await self._take_back(self._item())

    async def _take_back(self, item: Any) -> None:
        """Into the composer, its own text first kept; withdrawn only once the text is safe as the draft."""
        if item.get("mode") == "write":
            raise CommandError("a queued write cannot be edited")
        try:
            text = await self.session.editable(item.get("content"))
        except (OSError, HostError) as error:
            raise CommandError(f"its image cannot be kept for editing: {error}") from None
        composer = self.main.composer
        if composer.text.strip():
            composer.cleared.append(composer.text)
        await self.session.root.set_draft(text)
        answer = await self.session.root.withdraw(item["id"])
        if answer != "withdrawn":
            await self.session.root.set_draft(composer.text)
            raise CommandError("too late: the run has taken it already")
        composer.put(text, stored=True)
        self.main.go_to("composer") if self.main.focused is not composer else None

    async def do_item_drop(self) -> None:
        item = self._item()
        answer = await self.session.root.withdraw(item["id"])
        if answer != "withdrawn":
            raise CommandError("too late: the run has taken it already")
        text = message_text(item) if item.get("mode") != "write" else ""
        if text:
            self.main.composer.cleared.append(text)
            key = self.main.key("history_back")
            self.app.tell(f"dropped “{one_line(text, 40)}”; {key} in the composer brings it back")

    async def do_item_promote(self) -> None:
        await self.session.root.promote_item(self._item()["id"])

    async def do_item_up(self) -> None:
        await self._move(-1)

    async def do_item_down(self) -> None:
        await self._move(1)

    async def _move(self, direction: int) -> None:
        item = self._item()
        ids = [other["id"] for other in self.session.model.items]
        target = ids.index(item["id"]) + direction
        if 0 <= target < len(ids):
            await self.session.root.move_item(item["id"], target)

    # --- tasks and recoveries -------------------------------------------------------------------------------

    def _task(self) -> int:
        key = self.main.panel_of("tasks").chosen_key()
        if not isinstance(key, tuple):
            raise CommandError("no task is chosen")
        return int(key[1])

    async def do_task_abort(self) -> None:
        await self.session.harness.abort_task(self._task())

    async def do_task_retry(self) -> None:
        await self.session.harness.retry_task(self._task())
        await self.session.resume()

    def do_why(self) -> None:
        card = self.main.recovery
        if card.folded:
            card.fold(False)
            return
        row = card.chosen_row()
        if row is not None:
            self.app.push_screen(WhyScreen(self.app.look, row))

    def do_fold_card(self) -> None:
        if self.main.recovery.fold():
            self.main.go_to("composer")
        else:
            self.app.tell("folds once everything is decided")
