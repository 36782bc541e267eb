"""Futures by id, for those who wait until a commit settles something (spec 7, 8.6, 13)."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Generic, TypeVar

T = TypeVar("T")


class Waiters(Generic[T]):
    """Those who wait, by the id of what they wait for."""

    def __init__(self) -> None:
        self._waiting: dict[int, list[asyncio.Future[T]]] = {}

    @contextmanager
    def waiting_for(self, key: int) -> Iterator[asyncio.Future[T]]:
        """A future that `resolve(key, …)` or `reject` sets; it is forgotten at the end of the block."""
        future: asyncio.Future[T] = asyncio.get_running_loop().create_future()
        self._waiting.setdefault(key, []).append(future)
        try:
            yield future
        finally:
            waiting = self._waiting.get(key)
            if waiting is not None and future in waiting:
                waiting.remove(future)
                if not waiting:
                    del self._waiting[key]

    def resolve(self, key: int, value: T) -> None:
        """Give the value to all who wait for `key`."""
        for future in self._waiting.pop(key, ()):
            if not future.done():
                future.set_result(value)

    def reject(self, error: Exception) -> None:
        """Nothing will be settled any more: every wait ends with the error (spec 13)."""
        waiting = [future for futures in self._waiting.values() for future in futures]
        self._waiting.clear()
        for future in waiting:
            if not future.done():
                future.set_exception(error)
