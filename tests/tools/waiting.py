"""Waiting for conditions. The bounds are for a machine under load: reaching one is a failure, never a result."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from typing import Any

BOUND = 30.0


async def until(condition: Callable[[], Any], seconds: float = BOUND, *, pause: float = 0.001) -> None:
    """Wait until a condition (plain or awaitable) holds; a costly one wants a longer `pause`. Raises TimeoutError."""
    async with asyncio.timeout(seconds):
        while True:
            value = condition()
            if asyncio.iscoroutine(value):
                value = await value
            if value:
                return
            await asyncio.sleep(pause)  # what is waited for happens in code that knows no test


def wait_until(condition: Callable[[], Any], seconds: float = BOUND) -> bool:
    """The same without a loop: return whether it came to hold in time."""
    end = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > end:
            return False
        time.sleep(0.02)
    return True


async def turns(count: int = 50) -> None:
    """Let everything that is ready run, so many times: what needs no other thread and no timer has happened then."""
    for _ in range(count):
        await asyncio.sleep(0)


async def a_while(seconds: float = 0.05) -> None:
    """Give something time that must not happen. On a slow machine the check is weaker, never red."""
    await asyncio.sleep(seconds)
