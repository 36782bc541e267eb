"""An event loop with a clock of its own, that may pick among ready callbacks by a seed.

    run(main(), seed=7)

Time stands still while anything is ready and jumps to the next timer when nothing is, so an hour costs nothing and the
same seed gives the same schedule. Only for what needs no other thread and no file: memory storage.
"""

from __future__ import annotations

import asyncio
import random
import selectors
from collections.abc import Coroutine
from typing import Any, TypeVar

T = TypeVar("T")
EPOCH_MS = 1_700_000_000_000


class Stuck(Exception):
    """Nothing is ready, no timer runs, and the main coroutine has not ended: whatever it waits for never comes."""


class _Jumping(selectors.SelectSelector):
    """Instead of waiting, moves the loop's clock."""

    loop: VirtualLoop

    def select(self, timeout: float | None = None) -> list[Any]:
        if timeout is None:
            raise Stuck("nothing is ready and no timer runs")
        self.loop.now += max(timeout, 0.0)
        return super().select(0)


class VirtualLoop(asyncio.SelectorEventLoop):
    def __init__(self, seed: int | None = None) -> None:
        selector = _Jumping()
        super().__init__(selector)
        selector.loop = self
        self.now = 1000.0
        self.random = None if seed is None else random.Random(seed)
        self._clock_resolution = 1e-6

    def time(self) -> float:
        return self.now

    def _run_once(self) -> None:
        ready: Any = self._ready  # type: ignore[attr-defined]
        if self.random is not None and len(ready) > 1:
            shuffled = list(ready)
            self.random.shuffle(shuffled)
            ready.clear()
            ready.extend(shuffled)
        super()._run_once()  # type: ignore[misc]


def run(main: Coroutine[Any, Any, T], seed: int | None = None) -> T:
    """Run a coroutine on a loop of its own; raises Stuck when it waits for something that never comes."""
    with asyncio.Runner(loop_factory=lambda: VirtualLoop(seed)) as runner:
        return runner.run(main)


def clock() -> int:
    """The running loop's time as a wall clock in milliseconds, for `Harness.open(now=clock)`."""
    return EPOCH_MS + round(asyncio.get_running_loop().time() * 1000)
