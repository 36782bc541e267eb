"""Pausing while the disk is full: no effect starts that could not be recorded (spec 3.6)."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from durable_tui.engine.reports import Reports
from durable_tui.session import Commit, Session
from durable_tui.storage.errors import StorageRejected


class Space:
    """Whether the store has room. `full` from a commit refused for lack of space until one is stored again.

    `interval` is the time in seconds between two looks; each look and each change calls `wake`.
    """

    def __init__(self, session: Session, reports: Reports, interval: float, wake: Callable[[], None]) -> None:
        self.full = False
        self._reports = reports
        self._interval = interval
        self._wake = wake
        self._closing = False
        self._found = asyncio.Event()
        self._timer: asyncio.TimerHandle | None = None
        session.on_rejected = self._rejected
        session.observe(self._stored)

    async def wait(self) -> bool:
        """Wait until a commit may be worth trying again; False when the session closes and none will be."""
        if not self._closing:
            try:
                await asyncio.wait_for(self._found.wait(), self._interval)
            except TimeoutError:
                pass
        return not self._closing

    def close(self) -> None:
        """Let those who wait go: nothing more will be tried."""
        self._closing = True
        self._found.set()
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _rejected(self, error: StorageRejected) -> None:
        if not error.full:
            return
        self.full = True
        self._found.clear()
        self._reports.set_problem(f"not saved: {error}")
        if self._timer is None and not self._closing:
            self._timer = asyncio.get_running_loop().call_later(self._interval, self._look)

    def _look(self) -> None:
        self._timer = None
        if self.full:
            self._wake()

    def _stored(self, commit: Commit) -> None:
        if self.full:
            self.full = False
            self._found.set()
            self._reports.set_problem(None)
            self._wake()
