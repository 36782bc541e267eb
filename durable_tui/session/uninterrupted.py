"""Letting something run to its end however often the caller is cancelled (contract 3.5)."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any, TypeVar

T = TypeVar("T")


async def uninterrupted(work: Coroutine[Any, Any, T]) -> tuple[asyncio.Task[T], bool]:
    """The finished task of `work`, and whether the caller was cancelled meanwhile and still has to end.

    Never raises: look at the task for its result, its exception, or its own cancellation.
    """
    task = asyncio.ensure_future(work)
    cancelled = False
    while not task.done():
        try:
            await asyncio.wait([task])
        except asyncio.CancelledError:
            cancelled = True
    return task, cancelled
