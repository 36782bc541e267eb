"""A storage that fails on purpose: crash points and refusals around any store's commits (spec 3.6, 4).

    faulty = FaultyStorage(inner, {3: Fault("uncertain", "after")})

Commits are counted from 1. What is not a commit goes straight to `inner`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from durable_tui.storage.errors import StorageRejected, StorageUncertain
from durable_tui.storage.records import Batch


@dataclass(frozen=True)
class Fault:
    """What happens at one commit.

    `reject` and `full` raise StorageRejected; nothing is stored. `uncertain` raises StorageUncertain, with the batch
    not stored (`before`) or stored (`after`). `cancel` cancels the committing task while the store has the batch.
    `die` calls `hook` (a SIGKILL of the own process, or an event of the test): before the commit, or after it and
    before the caller learns. When the hook returns, the store is dead: this call and all later ones never return.
    """

    kind: Literal["reject", "full", "uncertain", "cancel", "die"]
    when: Literal["before", "after"] = "before"
    hook: Callable[[], None] | None = None


Plan = Mapping[int, Fault] | Callable[[int, Batch], Fault | None]


class FaultyStorage:
    """Wraps any store; `plan` gives the fault for the n-th commit. `count` is how many were asked for so far."""

    def __init__(self, inner: Any, plan: Plan) -> None:
        self.inner = inner
        self.count = 0
        self.dead = False
        self._plan = plan

    def __getattr__(self, name: str) -> Any:
        found = getattr(self.inner, name)
        if not self.dead or not asyncio.iscoroutinefunction(found):
            return found

        async def never(*_: Any, **__: Any) -> None:
            await _forever()

        return never

    async def commit(self, batch: Batch) -> None:
        if self.dead:
            await _forever()
        self.count += 1
        fault = self._plan(self.count, batch) if callable(self._plan) else self._plan.get(self.count)
        if fault is None:
            await self.inner.commit(batch)
        elif fault.kind == "cancel":
            await self._cancelled(batch)
        elif fault.kind == "reject":
            raise StorageRejected("refused on purpose; nothing was stored")
        elif fault.kind == "full":
            raise StorageRejected("no space left, on purpose; nothing was stored", full=True)
        else:
            await self._broken(fault, batch)

    async def _broken(self, fault: Fault, batch: Batch) -> None:
        if fault.when == "after":
            await self.inner.commit(batch)
        if fault.kind == "uncertain":
            raise StorageUncertain("uncertain on purpose")
        self.dead = True
        if fault.hook is not None:
            fault.hook()
        await _forever()

    async def _cancelled(self, batch: Batch) -> None:
        task = asyncio.current_task()
        assert task is not None
        task.cancel()
        await self.inner.commit(batch)
        await asyncio.sleep(0)  # a store that never waits meets the cancellation here


async def _forever() -> None:
    await asyncio.get_running_loop().create_future()
