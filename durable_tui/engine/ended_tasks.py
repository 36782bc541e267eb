"""The tasks that ended lately in this process, as they ended, and who waits for an end (spec 6, 7)."""

from __future__ import annotations

from collections import OrderedDict

from durable_tui.engine.waiters import Waiters
from durable_tui.session import Commit, Session
from durable_tui.storage.records import TaskRecord

KEPT = 512


class EndedTasks:
    """Remembers ended tasks, so that who waits for them need not ask the store."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._ended: OrderedDict[int, TaskRecord] = OrderedDict()
        self.waiters: Waiters[TaskRecord] = Waiters()
        session.observe(self._observe)

    def get(self, task_id: int) -> TaskRecord | None:
        """A task that ended lately in this process."""
        return self._ended.get(task_id)

    def newest(self, limit: int) -> list[TaskRecord]:
        """The newest of them, oldest first."""
        return list(self._ended.values())[-limit:]

    async def find(self, task_id: int) -> TaskRecord | None:
        """A task as committed, live or ended, from memory when it is recent."""
        session = self._session
        return session.tasks.get(task_id) or self._ended.get(task_id) or await session.storage.task(task_id)

    def _observe(self, commit: Commit) -> None:
        for _, task in commit.tasks:
            if task["state"]["status"] == "terminal":
                self.waiters.resolve(task["id"], task)
                self._ended[task["id"]] = task
                if len(self._ended) > KEPT:
                    self._ended.popitem(last=False)
