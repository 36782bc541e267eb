"""The conversation every contender of the round bench plays, and whose turn it is."""

from __future__ import annotations

import asyncio
import json
import sys
import time
from typing import Any

TEXT = "12 lines of config\n" * 40
ANSWER = "I will look at the file first, then say what I found in it."
USAGE = {
    "input": 900,
    "output": 40,
    "cacheRead": 0,
    "cacheWrite": 0,
    "totalTokens": 940,
    "cost": {"input": 0.0, "output": 0.0, "cacheRead": 0.0, "cacheWrite": 0.0, "total": 0.0},
}


class Turns:
    """When a model turn may begin: the parent lets a block of rounds through at a time.

    From one request to the next is a round, timed as (wall, this process's CPU) seconds; waiting for the parent is not
    part of it.
    """

    def __init__(self) -> None:
        self.number = 0
        self.left = 0
        self.times: list[tuple[float, float]] = []
        self.last: tuple[float, float] | None = None

    async def next(self) -> bool:
        """Called as a request arrives; False when the conversation is to end here."""
        now = time.perf_counter(), time.process_time()
        if self.last is not None:
            self.times.append((now[0] - self.last[0], now[1] - self.last[1]))
        if self.left == 0:
            print(json.dumps(self.times), flush=True)
            self.times = []
            self.left = int(await asyncio.to_thread(sys.stdin.readline))
            if self.left == 0:
                return False
            now = time.perf_counter(), time.process_time()
        self.left -= 1
        self.number += 1
        self.last = now
        return True

    def message(self, api: str, more: bool) -> dict[str, Any]:
        content: list[dict[str, Any]] = [{"type": "text", "text": ANSWER}]
        if more:
            arguments = {"path": f"config/{self.number}.json"}
            content.append({"type": "toolCall", "id": f"c{self.number}", "name": "look", "arguments": arguments})
        return {
            "role": "assistant",
            "content": content,
            "api": api,
            "provider": "bench",
            "model": "m",
            "usage": USAGE,
            "stopReason": "toolUse" if more else "stop",
            "timestamp": int(time.time() * 1000),
        }
