"""pi-durable-python in the round bench, by its public API: `python -m tests.bench.contenders.peer sqlite FOLDER`."""

from __future__ import annotations

import asyncio
import sqlite3
import sys
from collections.abc import AsyncIterator, Mapping
from pathlib import Path
from typing import Any

from pi_durable import Harness, Model, create_registry, define_extension, define_tool
from pi_durable.context import BACKGROUND_CONTEXT
from pi_durable.storage.sqlite.posix import open_posix_sqlite_storage

from tests.bench.contenders.turns import ANSWER, TEXT, Turns

PARAMETERS = {"type": "object", "properties": {"path": {"type": "string"}}, "required": ["path"]}


class Stream:
    """The same answer in that library's events."""

    def __init__(self, turns: Turns) -> None:
        self.turns = turns
        self.message: dict[str, Any] = {}

    async def __aiter__(self) -> AsyncIterator[dict[str, Any]]:
        more = await self.turns.next()
        self.message = self.turns.message("bench", more)
        text = {"type": "text", "text": ANSWER}
        yield {"type": "start", "partial": {**self.message, "content": []}}
        partial = {**self.message, "content": [text]}
        yield {"type": "text_delta", "contentIndex": 0, "delta": ANSWER, "partial": partial}
        yield {"type": "done", "reason": self.message["stopReason"], "message": self.message}

    async def result(self) -> dict[str, Any]:
        return self.message


class OneModel:
    def __init__(self) -> None:
        self.turns = Turns()

    def get_model(self, provider: str, model_id: str) -> Any:
        return Model(provider="bench", model_id="m", context_window=100_000_000, max_tokens=8000)

    def stream_simple(self, model: Any, context: Any, options: Any = None) -> Stream:
        return Stream(self.turns)


async def look(args: Mapping[str, Any], api: Any, context: Any) -> dict[str, Any]:
    return {"output": [{"type": "text", "text": TEXT}]}


async def play(folder: str) -> int:
    """The conversation to its end; the number of commits it took."""
    found = define_tool(name="look", description="Look at a file.", parameters=PARAMETERS, execute=look, replay="safe")
    registry = create_registry()
    registry.install(define_extension(name="bench", tools=[found]))
    path = Path(folder) / "peer.sqlite"
    storage = await open_posix_sqlite_storage(str(path))
    options = {"models": OneModel(), "registry": registry, "settings": {"compaction": {"enabled": False}}}
    harness = await Harness.open(storage, options, BACKGROUND_CONTEXT)
    try:
        agent = {"model": {"provider": "bench", "modelId": "m"}}
        root = await harness.root(BACKGROUND_CONTEXT, {"agent": agent})
        submission = await root.submit({"type": "input", "content": "Look at every file"}, BACKGROUND_CONTEXT)
        settled = await submission.wait(BACKGROUND_CONTEXT)
        assert settled["status"] == "done", settled
    finally:
        await harness.close(BACKGROUND_CONTEXT)
    reader = sqlite3.connect(path)
    try:
        table = reader.execute("SELECT name FROM sqlite_master WHERE sql LIKE '%next_seq%'").fetchone()[0]
        return int(reader.execute(f"SELECT next_seq FROM {table}").fetchone()[0]) - 1
    finally:
        reader.close()


if __name__ == "__main__":
    print(asyncio.run(play(sys.argv[2])), flush=True)
