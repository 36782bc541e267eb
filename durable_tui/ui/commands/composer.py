"""What acts on the message being written."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from durable_tui.host.host_errors import HostError
from durable_tui.models.images import ImageRefused
from durable_tui.ui import clipboard
from durable_tui.ui.commands.desk import CommandError, PlaceCommands
from durable_tui.ui.commands.inbox import take_back

if TYPE_CHECKING:
    from durable_tui.ui.actions import Scope


class ComposerCommands(PlaceCommands):
    scopes: ClassVar[tuple[Scope, ...]] = ("composer",)

    def do_send(self) -> None:
        self.main.composer.submit("send")

    def do_follow_up(self) -> None:
        self.main.composer.submit("follow_up")

    def do_newline(self) -> None:
        self.main.composer.newline()

    async def do_edit_last(self) -> None:
        session = self.owned
        items = [item for item in session.model.items if item["mode"] != "write"]
        if not items:
            self.desk.tell("nothing is queued")
            return
        await take_back(items[-1], session, self.main)

    async def do_paste_image(self) -> None:
        session = self.owned
        self.desk.tell("reading the clipboard …")
        try:
            mention = await session.attach(await clipboard.read_image())
        except clipboard.NoImage as error:
            raise CommandError(str(error)) from None
        except ImageRefused as error:
            raise CommandError(f"the image on the clipboard cannot be sent: {error}") from None
        except (OSError, HostError) as error:
            raise CommandError(f"the image was not kept: {error}") from None
        self.main.composer.attach(mention)
        self.desk.tell("attached; it is sent with the message")

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
            self.desk.leave(0)

    def do_page_up(self) -> None:
        self.main.transcript.scroll_page(-1)

    def do_page_down(self) -> None:
        self.main.transcript.scroll_page(1)
