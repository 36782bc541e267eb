"""Committing what already happened: such a commit is tried until it is stored or may not be (spec 3.6)."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from durable_tui.engine.task import TaskContext
from durable_tui.session import Transaction
from durable_tui.storage.errors import StorageRejected

REJECTED_TRIES = 7  # about six seconds: what happened must not be lost to a passing refusal


async def patiently(context: TaskContext, body: Callable[[Transaction], Awaitable[None]]) -> None:
    """Commit an outcome whose effect has happened: wait for space, and try again after a passing refusal.

    The body may run more than once. Raises InvocationEnded when the task may not commit any more.
    """
    tries = 0
    while True:
        try:
            async with context.commit() as tx:
                await body(tx)
            return
        except StorageRejected as error:
            tries += 1
            if error.full:
                await context.kernel.scheduler.wait_for_space()
            elif tries >= REJECTED_TRIES:
                raise
            else:
                await asyncio.sleep(0.05 * 2**tries)
