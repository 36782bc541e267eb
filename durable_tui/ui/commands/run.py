"""What acts on the run: stopping it, and letting start what waits, was found or is parked."""

from __future__ import annotations

from collections.abc import Coroutine
from typing import TYPE_CHECKING, ClassVar

from durable_tui.ui.commands.desk import CommandError, PlaceCommands
from durable_tui.ui.open_session import OwnedSession
from durable_tui.views.blocked import is_retriable

if TYPE_CHECKING:
    from durable_tui.ui.actions import Scope


class RunCommands(PlaceCommands):
    scopes: ClassVar[tuple[Scope, ...]] = ("app", "main")

    def do_stop(self) -> Coroutine[object, None, None] | None:
        """Esc: closes a list, else stops the run, else comes back to the composer."""
        main = self.main
        main.clear_selection()
        if main.composer.dismiss():
            return None
        session = self.desk.session
        if isinstance(session, OwnedSession) and session.model.run is not None:
            session.model.stopping = session.model.run["taskId"]
            main.paint_moving()
            return self._stop(session)
        if main.focused is not main.composer or main.panel != "transcript":
            main.go_to("composer")
        return None

    async def _stop(self, session: OwnedSession) -> None:
        try:
            stopped = await session.root.stop()
        except BaseException:
            session.model.stopping = None
            raise
        if not stopped:
            session.model.stopping = None
            self.desk.tell("nothing runs any more")

    async def do_release(self) -> None:
        session = self.owned
        await session.resume()
        released = await session.root.release()
        if released is None:
            self.desk.tell("nothing waits")

    async def do_resume(self) -> None:
        await self.owned.resume()
        self.main.paint_all()

    async def do_retry(self) -> None:
        session = self.owned
        waiting = [task["id"] for task in session.model.task_list if is_retriable(task)]
        if not waiting:
            raise CommandError("no task waits for you to let it go on")
        for task in waiting:
            await session.harness.retry_task(task)
        await session.resume()
