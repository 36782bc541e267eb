"""Session files of any size, made by bulk SQL through the product's own schema; and the unfinished work left in them.

The first records are written by the product itself (the root conversation and its documents), so a big session differs
from a grown one only in who wrote its middle.
"""

from __future__ import annotations

import asyncio
import json
import sqlite3
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

from durable_tui.agent.extension import Registry
from durable_tui.harness.harness import Harness
from durable_tui.models.provider import Model, ModelRequest, StreamEvent
from durable_tui.storage import SqliteStorage
from tests.tools.scenario import no_environment

AT = 1_790_000_000_000  # milliseconds
QUESTION = "What does the file number {n} of the project say, and is there anything in it that should be changed?"
LINE = "Line {line} of the answer number {n}: a sentence that fills most of a row and ends here."
USAGE = {
    "input": 400,
    "output": 60,
    "cacheRead": 0,
    "cacheWrite": 0,
    "totalTokens": 460,
    "cost": {"input": 0.0, "output": 0.0, "cacheRead": 0.0, "cacheWrite": 0.0, "total": 0.0},
}


class Silent:
    """Models that never answer: what is asked of them stays unfinished."""

    def __init__(self, model: str) -> None:
        self.model = model
        self.asked = asyncio.Event()

    def resolve(self, name: str) -> Model:
        provider, _, model_id = name.partition("/")
        return Model(provider, model_id, "scripted", context_window=100_000_000)

    async def stream(self, request: ModelRequest) -> AsyncIterator[StreamEvent]:
        self.asked.set()
        await asyncio.Event().wait()
        yield None  # type: ignore[misc]


async def open_silent(path: Path, model: str) -> tuple[SqliteStorage, Harness, Silent]:
    """The session opened over models that never answer."""
    storage = await SqliteStorage.open(path, "process")
    models = Silent(model)
    harness = await Harness.open(storage, models=models, registry=Registry(), environment=no_environment)
    return storage, harness, models


async def make(path: Path, entries: int, *, cwd: str = ".", model: str = "bench/m", lines: int = 2) -> None:
    """A session with `entries` entries, questions and answers of `lines` lines in turn, cleanly closed."""
    _, harness, _ = await open_silent(path, model)
    await harness.root(agent={"model": model, "cwd": cwd})
    await harness.close()
    fill(path, entries, model=model, lines=lines)


async def leave_unfinished(path: Path, model: str = "bench/m") -> None:
    """A run in its first request, and the end without any order: what a SIGKILL leaves.

    It runs in a conversation of its own, whose context is short.
    """
    storage, harness, models = await open_silent(path, model)
    conversation = await harness.create_conversation(agent={"model": model, "cwd": "."})
    await conversation.submit("And the last one?")
    await asyncio.wait_for(models.asked.wait(), 60)
    await storage.abandon()
    try:
        await harness.close()
    except Exception as error:  # noqa: BLE001 - the store is gone, and that is the point
        assert "closed" in str(error), error


def fill(path: Path, entries: int, *, conversation_id: int = 1, model: str = "bench/m", lines: int = 2) -> None:
    """Add entries by bulk SQL: one commit an entry, a settled submission a question, an ended task an answer."""
    raw = sqlite3.connect(path, isolation_level=None)
    try:
        raw.execute("PRAGMA synchronous=OFF")
        next_id, next_seq = raw.execute("SELECT next_id, next_seq FROM session").fetchone()
        epoch = raw.execute("SELECT max(epoch) FROM owners").fetchone()[0]
        raw.execute("BEGIN IMMEDIATE")
        raw.executemany(
            "INSERT INTO commits (seq, at, epoch) VALUES (?, ?, ?)",
            ((next_seq + index, AT + index, epoch) for index in range(entries)),
        )
        raw.executemany(
            "INSERT INTO entries (id, conversation_id, kind, head, commit_seq, record) VALUES (?, ?, ?, NULL, ?, ?)",
            _entries(next_id, next_seq, entries, conversation_id, model, lines),
        )
        base = next_id + entries
        raw.executemany(
            "INSERT INTO submissions (id, conversation_id, request_id, status, record) VALUES (?, ?, NULL, 'done', ?)",
            _submissions(next_id, base, entries, conversation_id),
        )
        raw.executemany(
            "INSERT INTO tasks (id, conversation_id, kind, status, abort_requested, background, record)"
            " VALUES (?, ?, 'pi.generation', 'terminal', 0, 0, ?)",
            _tasks(next_id, base, entries, conversation_id),
        )
        raw.execute("UPDATE session SET next_id = ?, next_seq = ?", (base + 2 * entries + 2, next_seq + entries))
        raw.execute("COMMIT")
        raw.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
    finally:
        raw.close()


def _entries(
    next_id: int, next_seq: int, entries: int, conversation_id: int, model: str, lines: int
) -> Iterator[tuple[Any, ...]]:
    for index in range(entries):
        kind = "pi.assistant" if index % 2 else "pi.user"
        message = _answer(index, model, lines) if index % 2 else _question(index)
        record = {"id": next_id + index, "conversationId": conversation_id, "kind": kind, "model": [message]}
        yield next_id + index, conversation_id, kind, next_seq + index, _text(record)


def _question(index: int) -> dict[str, Any]:
    return {"role": "user", "content": QUESTION.format(n=index), "timestamp": AT + index}


def _answer(index: int, model: str, lines: int) -> dict[str, Any]:
    provider, _, model_id = model.partition("/")
    text = "\n".join(LINE.format(n=index, line=line) for line in range(lines))
    return {
        "role": "assistant",
        "content": [{"type": "text", "text": text}],
        "api": "scripted",
        "provider": provider,
        "model": model_id,
        "usage": USAGE,
        "stopReason": "stop",
        "timestamp": AT + index,
    }


def _submissions(next_id: int, base: int, entries: int, conversation_id: int) -> Iterator[tuple[int, int, str]]:
    for index in range(0, entries - 1, 2):
        record = {"id": base + index, "conversationId": conversation_id, "type": "input", "status": "done"}
        record |= {"entry": next_id + index, "answer": next_id + index + 1}
        yield base + index, conversation_id, _text(record)


def _tasks(next_id: int, base: int, entries: int, conversation_id: int) -> Iterator[tuple[int, int, str]]:
    for index in range(0, entries - 1, 2):
        outcome = {"status": "completed", "result": {"entryId": next_id + index + 1}}
        record = {
            "id": base + index + 1,
            "conversationId": conversation_id,
            "kind": "pi.generation",
            "version": 1,
            "input": {},
            "background": False,
            "abortRequested": False,
            "startedAt": AT + index,
            "endedAt": AT + index,
            "state": {"status": "terminal", "outcome": outcome},
        }
        yield base + index + 1, conversation_id, _text(record)


def _text(record: Any) -> str:
    return json.dumps(record, ensure_ascii=False, separators=(",", ":"))
