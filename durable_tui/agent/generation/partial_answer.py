"""An answer while it arrives, and what is kept of one that never finished (spec 9)."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

from durable_tui.models.messages import empty_usage
from durable_tui.models.provider import BlockDelta, BlockStart, Model
from durable_tui.models.usage import estimate_tokens, estimated_usage
from durable_tui.session import SessionError
from durable_tui.storage.errors import StorageError


class Partial:
    """The blocks of one attempt so far. Tool calls show their name; their arguments count only when finished."""

    def __init__(self, model: Model, now: int) -> None:
        self._head = {
            "role": "assistant",
            "api": model.api,
            "provider": model.provider,
            "model": model.model_id,
            "timestamp": now,
        }
        self._blocks: list[dict[str, Any]] = []
        self._texts: list[list[str]] = []
        self.empty = True

    def apply(self, event: BlockStart | BlockDelta) -> None:
        """Take in one event."""
        while len(self._blocks) <= event.index:
            self._blocks.append({"type": "text", "text": ""})
            self._texts.append([])
        if isinstance(event, BlockStart):
            self._blocks[event.index] = dict(event.block)
        else:
            self._texts[event.index].append(event.text)
        self.empty = False

    def message(self) -> dict[str, Any]:
        """The partial message as it stands, shaped like an assistant message without usage and stop reason."""
        content: list[dict[str, Any]] = []
        for block, texts in zip(self._blocks, self._texts, strict=True):
            if len(texts) > 1:
                texts[:] = ["".join(texts)]
            text = texts[0] if texts else ""
            copy = dict(block)
            if copy["type"] == "text":
                copy["text"] = copy.get("text", "") + text
            elif copy["type"] == "thinking":
                copy["thinking"] = copy.get("thinking", "") + text
            content.append(copy)
        return {**self._head, "content": content}


def ended_partial(partial: Any, stop_reason: str, error: str | None = None, usage: Any = None) -> dict[str, Any]:
    """What an unfinished answer becomes: its text stays visible, its unfinished tool calls go; nothing of it runs.

    Without a `usage` the tokens that came are estimated; what they and the prompt cost is not known.
    """
    content = [
        dict(block)
        for block in partial["content"]
        if block["type"] != "toolCall" and (block.get("text") or block.get("thinking"))
    ]
    message = {**partial, "content": content, "usage": usage or empty_usage(), "stopReason": stop_reason}
    if not usage and partial["content"]:
        message["usage"] = estimated_usage(0, estimate_tokens([dict(block) for block in partial["content"]]))
        message["providerExtra"] = {"usageEstimated": True}
    if error is not None:
        message["errorMessage"] = error
    return message


class Throttle:
    """Runs a commit at most every `interval` seconds while something changes, one at a time (spec 9, 10).

    The first one comes `first` seconds after the first change, so that a person sees it begin; `pace` may ask for a
    longer wait between. Storage trouble is not raised here: the outcome's own commit meets it again.
    """

    def __init__(
        self,
        interval: float,
        commit: Callable[[], Awaitable[None]],
        pace: Callable[[], float] | None = None,
        first: float | None = None,
    ) -> None:
        self._interval = interval
        self._first = interval if first is None else min(first, interval)
        self._commit = commit
        self._pace = pace
        self._dirty = False
        self._stopped = False
        self._next = 0.0
        self._committing = False
        self._task: asyncio.Task[None] | None = None

    def touch(self) -> None:
        """Something changed; commit it in time."""
        self._dirty = True
        if self._task is None and not self._stopped:
            self._task = asyncio.get_running_loop().create_task(self._run())

    async def _run(self) -> None:
        loop = asyncio.get_running_loop()
        try:
            while self._dirty and not self._stopped:
                if not self._next:
                    self._next = loop.time() + self._first
                delay = self._next - loop.time()
                if delay > 0:
                    await asyncio.sleep(delay)
                self._dirty = False
                self._committing = True
                wait = max(self._interval, self._pace() if self._pace is not None else 0.0)
                try:
                    await self._commit()
                except (StorageError, SessionError):
                    pass  # the outcome's own commit meets the same trouble and reports it
                finally:
                    self._committing = False
                self._next = loop.time() + wait
        finally:
            self._task = None

    async def stop(self) -> None:
        """Commit nothing more; a commit in flight is awaited."""
        self._stopped = True
        task = self._task
        if task is None:
            return
        if not self._committing:
            task.cancel()
        while not task.done():
            await asyncio.wait([task])
