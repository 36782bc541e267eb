"""What acts on the item chosen in the inbox."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from durable_tui.ground.text import one_line
from durable_tui.host.host_errors import HostError
from durable_tui.models.messages import content_text
from durable_tui.ui.commands.desk import CommandError, PlaceCommands

if TYPE_CHECKING:
    from durable_tui.agent.shapes import QueuedItem
    from durable_tui.ui.actions import Scope
    from durable_tui.ui.open_session import OwnedSession
    from durable_tui.ui.screens.main import MainScreen

TOO_LATE = "too late: the run has taken it already"


class InboxCommands(PlaceCommands):
    scopes: ClassVar[tuple[Scope, ...]] = ("inbox",)

    def _item(self) -> QueuedItem:
        panel = self.main.panel_of("inbox")
        panel.key = key = panel.chosen_key()  # the cursor goes with the item, wherever that is moved
        item = next((item for item in self.owned.model.items if item["id"] == key), None)
        if item is None:
            raise CommandError("nothing waits")
        return item

    async def do_item_send(self) -> None:
        session = self.owned
        await session.resume()
        await session.root.release(self._item()["id"])

    async def do_item_edit(self) -> None:
        await take_back(self._item(), self.owned, self.main)

    async def do_item_drop(self) -> None:
        item = self._item()
        if await self.owned.root.withdraw(item["id"]) != "withdrawn":
            raise CommandError(TOO_LATE)
        text = content_text(item["content"]) if item["mode"] != "write" else ""
        if text:
            self.main.composer.cleared.append(text)
            key = self.main.key("history_back")
            self.desk.tell(f"dropped “{one_line(text, 40)}”; {key} in the composer brings it back")

    async def do_item_promote(self) -> None:
        await self.owned.root.promote_item(self._item()["id"])

    async def do_item_up(self) -> None:
        await self._move(-1)

    async def do_item_down(self) -> None:
        await self._move(1)

    async def _move(self, direction: int) -> None:
        session, item = self.owned, self._item()
        ids = [other["id"] for other in session.model.items]
        target = ids.index(item["id"]) + direction
        if 0 <= target < len(ids):
            await session.root.move_item(item["id"], target)


async def take_back(item: QueuedItem, session: OwnedSession, main: MainScreen) -> None:
    """Put an item into the composer, whose own text is kept first; it is withdrawn once it is safe as the draft.

    Raises CommandError when it cannot be edited, or the run was faster.
    """
    if item["mode"] == "write":
        raise CommandError("a queued write cannot be edited")
    try:
        text = await session.editable(item["content"])
    except (OSError, HostError) as error:
        raise CommandError(f"its image cannot be kept for editing: {error}") from None
    composer = main.composer
    if composer.text.strip():
        composer.cleared.append(composer.text)
    await session.root.set_draft(text)
    if await session.root.withdraw(item["id"]) != "withdrawn":
        await session.root.set_draft(composer.text)
        raise CommandError(TOO_LATE)
    composer.put(text, stored=True)
    if main.focused is not composer:
        main.go_to("composer")
