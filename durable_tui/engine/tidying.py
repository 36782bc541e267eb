"""Letting the store tidy up while nothing else needs it, so that no commit has to (spec 4)."""

from __future__ import annotations

import asyncio
import logging

from durable_tui.session import Session
from durable_tui.storage.errors import StorageError

log = logging.getLogger(__name__)
EVERY = 400  # commits


class Tidying:
    """Asks the store to tidy up, at most one at a time and only after enough commits."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._at = session.seq
        self._running: asyncio.Task[None] | None = None

    def soon(self) -> None:
        """Begin in the background when enough was committed since the last time."""
        if self._session.seq - self._at < EVERY or self._running is not None:
            return
        self._at = self._session.seq
        self._running = asyncio.get_running_loop().create_task(self._run())

    async def _run(self) -> None:
        try:
            await self._session.storage.checkpoint()
        except StorageError as error:
            log.warning("tidying up failed: %s", error)
        finally:
            self._running = None

    async def finished(self) -> None:
        """Wait for the one that runs, if any."""
        if self._running is not None:
            await asyncio.wait([self._running])
