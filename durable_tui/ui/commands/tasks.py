"""What acts on the task chosen in the list of tasks."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from durable_tui.ui.commands.desk import CommandError, PlaceCommands

if TYPE_CHECKING:
    from durable_tui.ui.actions import Scope


class TaskCommands(PlaceCommands):
    scopes: ClassVar[tuple[Scope, ...]] = ("tasks",)

    def _task(self) -> int:
        key = self.main.panel_of("tasks").chosen_key()
        if not isinstance(key, tuple):
            raise CommandError("no task is chosen")
        return int(key[1])

    async def do_task_abort(self) -> None:
        await self.owned.harness.abort_task(self._task())

    async def do_task_retry(self) -> None:
        session = self.owned
        await session.harness.retry_task(self._task())
        await session.resume()
