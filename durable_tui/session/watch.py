"""Watches: a view that starts at the committed state and follows it commit by commit (spec 13)."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Generic, Protocol, TypeVar

if TYPE_CHECKING:
    from collections.abc import Sequence

    from durable_tui.delta import Op

BEHIND = 100  # frames a consumer may lag before it gets one whole view instead

V = TypeVar("V")
V_co = TypeVar("V_co", covariant=True)


@dataclass(slots=True, frozen=True)
class Frame(Generic[V_co]):
    """A committed view of shape `V_co`. `ops` take the frame before to this one; a whole view is a single `["r", value]`.

    `seq` is the commit (0 before the first), `at` its time in milliseconds.
    """

    value: V_co
    ops: Sequence[Op]
    seq: int
    at: int


class Source(Protocol[V_co]):
    """What feeds a watch: the current whole view, and how to stop feeding."""

    def whole(self) -> Frame[V_co]: ...

    def detach(self) -> None: ...


class Watch(Generic[V]):
    """An async iterator of frames of views of shape `V`. Ends when the session closes; `aclose()` ends it early, stopping no work.

    `prepare` connects it to its source when the first frame is asked for.
    """

    def __init__(self, prepare: Callable[[Watch[V]], Awaitable[Source[V]]]) -> None:
        self._prepare = prepare
        self._frames: deque[Frame[V]] = deque()
        self._source: Source[V] | None = None
        self._behind = True
        self._closed = False
        self._waiter: asyncio.Future[None] | None = None

    def push(self, frame: Frame[V]) -> None:
        """Queue a frame; on the line, never blocks. After the end nothing is queued any more."""
        if self._closed:
            return
        if self._behind:
            self._wake()
            return
        if len(self._frames) >= BEHIND:
            self._frames.clear()
            self._behind = True
        else:
            self._frames.append(frame)
        self._wake()

    def finish(self) -> None:
        """No more frames will come; what is queued may still be taken."""
        self._closed = True
        self._wake()

    def _wake(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)

    def __aiter__(self) -> Watch[V]:
        return self

    async def __anext__(self) -> Frame[V]:
        if self._source is None and not self._closed:
            self._source = await self._prepare(self)
        while True:
            if self._behind and self._source is not None:
                self._behind = False
                self._frames.clear()
                return self._source.whole()
            if self._frames:
                return self._frames.popleft()
            if self._closed or self._source is None:
                await self.aclose()
                raise StopAsyncIteration
            self._waiter = asyncio.get_running_loop().create_future()
            try:
                await self._waiter
            finally:
                self._waiter = None

    async def aclose(self) -> None:
        """Stop watching."""
        self._closed = True
        self._frames.clear()
        self._wake()
        if self._source is not None:
            self._source.detach()
            self._source = None
