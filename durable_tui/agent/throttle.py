"""Committing what keeps changing at intervals (spec 9, 10)."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from durable_tui.session import SessionError
from durable_tui.storage.errors import StorageError


class Throttle:
    """Runs a commit at most every `interval` seconds while something changes, one at a time (spec 9, 10).

    The first one comes `first` seconds after the first change, so that a person sees it begin; `pace` may ask for a
    longer wait between. Storage trouble is not raised here: the outcome's own commit meets it again.
    """

    def __init__(
        self,
        interval: float,
        commit: Callable[[], Awaitable[None]],
        pace: Callable[[], float] | None = None,
        first: float | None = None,
    ) -> None:
        self._interval = interval
        self._first = interval if first is None else min(first, interval)
        self._commit = commit
        self._pace = pace
        self._dirty = False
        self._stopped = False
        self._next = 0.0
        self._committing = False
        self._task: asyncio.Task[None] | None = None

    def touch(self) -> None:
        """Something changed; commit it in time."""
        self._dirty = True
        if self._task is None and not self._stopped:
            self._task = asyncio.get_running_loop().create_task(self._run())

    async def _run(self) -> None:
        loop = asyncio.get_running_loop()
        try:
            while self._dirty and not self._stopped:
                if not self._next:
                    self._next = loop.time() + self._first
                delay = self._next - loop.time()
                if delay > 0:
                    await asyncio.sleep(delay)
                self._dirty = False
                self._committing = True
                wait = max(self._interval, self._pace() if self._pace is not None else 0.0)
                try:
                    await self._commit()
                except (StorageError, SessionError):
                    pass  # the outcome's own commit meets the same trouble and reports it
                finally:
                    self._committing = False
                self._next = loop.time() + wait
        finally:
            self._task = None

    async def stop(self) -> None:
        """Commit nothing more; a commit in flight is awaited."""
        self._stopped = True
        task = self._task
        if task is None:
            return
        if not self._committing:
            task.cancel()
        while not task.done():
            await asyncio.wait([task])
