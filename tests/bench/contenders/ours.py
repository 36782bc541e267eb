"""Our harness in the round bench: `python -m tests.bench.contenders.ours memory|process|intents FOLDER`."""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any, cast

from pydantic import BaseModel

from durable_tui.agent.extension import Extension, Registry, ToolCall, tool
from durable_tui.agent.settings import Settings
from durable_tui.harness.harness import Harness
from durable_tui.models.messages import AssistantMessage
from durable_tui.models.provider import BlockDelta, BlockStart, Finished, Model, ModelRequest, StreamEvent
from durable_tui.storage import MemoryStorage, SqliteStorage
from tests.bench.contenders.turns import ANSWER, TEXT, Turns
from tests.tools.scenario import no_environment


class Look(BaseModel):
    path: str


@tool(name="look", replay="safe")
async def look(args: Look, call: ToolCall) -> str:
    """Look at a file."""
    return TEXT


class OneModel:
    """Answers at once, as long as the bench lets it."""

    def __init__(self) -> None:
        self.turns = Turns()

    def resolve(self, name: str) -> Model:
        return Model("bench", "m", "scripted", context_window=100_000_000)

    async def stream(self, request: ModelRequest) -> AsyncIterator[StreamEvent]:
        more = await self.turns.next()
        message = self.turns.message("scripted", more)
        yield BlockStart(0, {"type": "text", "text": ""})
        yield BlockDelta(0, ANSWER)
        if more:
            call = message["content"][1]
            yield BlockStart(1, {**call, "arguments": {}})
            yield BlockDelta(1, json.dumps(call["arguments"]))
        yield Finished(cast(AssistantMessage, message))


async def play(store: str, folder: str) -> int:
    """The conversation to its end; the number of commits it took."""
    registry = Registry()
    registry.install(Extension("bench", tools=[look]))
    storage: Any = MemoryStorage()
    if store != "memory":
        storage = await SqliteStorage.open(Path(folder) / "ours.sqlite", cast(Any, store))
    settings = Settings(limit_turns=0)
    async with Harness.open(
        storage, models=OneModel(), registry=registry, environment=no_environment, settings=settings
    ) as harness:
        root = await harness.root(agent={"model": "bench/m", "cwd": folder})
        settled = await (await root.submit("Look at every file")).wait()
        assert settled.status == "done", settled
        return harness.seq


if __name__ == "__main__":
    print(asyncio.run(play(*sys.argv[1:3])), flush=True)
