"""Letting something run to its end however often the caller is cancelled (spec 3.5)."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import TypeVar

T = TypeVar("T")


async def uninterrupted(
    work: Coroutine[object, object, T] | asyncio.Task[T], on_cancel: Callable[[], None] | None = None
) -> tuple[asyncio.Task[T], bool]:
    """Return the finished task of `work`, and whether the caller was cancelled meanwhile and still has to end.

    Never raises: look at the task for its result, its exception, or its own cancellation. `on_cancel` is called each
    time the caller is cancelled.
    """
    task = asyncio.ensure_future(work)
    cancelled = False
    while not task.done():
        try:
            await asyncio.wait([task])
        except asyncio.CancelledError:
            cancelled = True
            if on_cancel is not None:
                on_cancel()
    if not task.cancelled():
        task.exception()  # looked at: the caller may have other news than this
    return task, cancelled
