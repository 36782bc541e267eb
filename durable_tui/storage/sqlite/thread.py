"""Whole functions run in order on aiosqlite's thread, reached from here only (spec 4, 23).

Private names used, here and nowhere else: `Connection._execute`, which queues a function on the connection's thread,
and `Connection._thread`, replaced before it starts by a daemon that runs the same, so that an abandoned connection
never keeps the process alive. A test checks both against the pinned aiosqlite.
"""

from __future__ import annotations

import asyncio
import logging
import os
import sqlite3
import threading
from collections.abc import Callable
from typing import Generic, TypeVar, cast

import aiosqlite

from durable_tui.ground.aio import uninterrupted
from durable_tui.storage.errors import StorageError

T = TypeVar("T")
log = logging.getLogger(__name__)


class Handle:
    """A SQLite connection as jobs see it; a job may replace `raw` by a fresh one. Used on the thread only.

    `warnings` are sentences for a person about this opening.
    """

    __slots__ = ("raw", "warnings")

    def __init__(self, raw: sqlite3.Connection) -> None:
        self.raw = raw
        self.warnings: list[str] = []

    def close(self) -> None:
        self.raw.close()


class _NoHandle:
    """What a failed connect leaves, so that the thread is ended in order."""

    def close(self) -> None: ...


H = TypeVar("H", bound=Handle)


class ConnectionThread(Generic[H]):
    """One connection on a thread of its own. `connect` runs there first and gives the handle that jobs work on."""

    def __init__(self, connect: Callable[[], H]) -> None:
        self._pid = os.getpid()
        self._connect = connect
        # aiosqlite keeps what its connector returns and only ever calls its close(): a handle does for a connection.
        self._connection = aiosqlite.Connection(cast(Callable[[], sqlite3.Connection], self._made), 64)
        self._connection._thread = threading.Thread(
            target=_serve, args=(self._connection._thread.run,), name="storage", daemon=True
        )
        self._handle: H | None = None
        self._failure: BaseException | None = None

    def _made(self) -> H | _NoHandle:
        try:
            self._handle = self._connect()
        except BaseException as error:  # noqa: BLE001 - raised again by `open`, once the thread has ended
            self._failure = error
            return _NoHandle()
        return self._handle

    async def open(self) -> H:
        """Start the thread and return what `connect` gave, or raise what it raised. It must not be cancelled."""
        await self._connection
        failure, self._failure = self._failure, None
        if failure is not None:
            await self._connection.close()
            raise failure
        return self._usable()

    async def run(self, job: Callable[[H], T]) -> T:
        """The job's result. A cancelled caller leaves at once and the job still runs: for reads."""
        handle = self._usable()
        result: T = await self._connection._execute(job, handle)  # type: ignore[no-untyped-call]
        return result

    async def finish(self, job: Callable[[H], T]) -> T:
        """The job's result, awaited however often the caller is cancelled; then the cancellation goes on.

        spec 3.5. A cancellation that follows a failed job has the failure as its `__cause__`.
        """
        handle = self._usable()
        results: list[T] = []
        errors: list[BaseException] = []

        def work() -> None:
            try:
                results.append(job(handle))
            except BaseException as error:  # noqa: BLE001 - raised again on the loop
                errors.append(error)

        cancelled: asyncio.CancelledError | None = None
        try:
            await self._connection._execute(work)  # type: ignore[no-untyped-call]
        except asyncio.CancelledError as error:
            cancelled = error
            # The thread works in order: once a later function ran, the job is over.
            await uninterrupted(self._connection._execute(_nothing))  # type: ignore[no-untyped-call]
        failure = errors[0] if errors else None
        if cancelled is not None:
            raise cancelled from failure
        if failure is not None:
            raise failure
        return results[0]

    async def close(self) -> None:
        """Close the connection and end the thread. Idempotent."""
        self._handle = None
        if os.getpid() == self._pid:
            await self._connection.close()

    def _usable(self) -> H:
        if os.getpid() != self._pid:
            raise StorageError("the store belongs to the process this one was forked from")
        if self._handle is None:
            raise StorageError("the store is closed")
        return self._handle


def _serve(run: Callable[[], None]) -> None:
    try:
        run()
    except RuntimeError:
        # The loop was closed while a job ran: nobody is left to be told, and the process is ending.
        log.debug("the event loop was closed under a job of the store")


def _nothing() -> None: ...
