"""The session that version 1 left, and what a store must show of it.

`tests/data/version-1.sqlite` was written by the program that had version 1: a session with tool calls, inputs that
queued while it worked, a death in the middle of a write and its recovery, and a second death while a command ran.
"""

from __future__ import annotations

import json
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

from durable_tui.storage.records import StoredDocument
from durable_tui.storage.sqlite import schema
from tests.tools.batches import SESSION, in_conversation
from tests.tools.folding import fold

VERSION_1 = Path(__file__).parents[1] / "data" / "version-1.sqlite"
TABLES = tuple(schema.COLUMNS[1])


def rows(path: Path, table: str) -> list[tuple[Any, ...]]:
    """All that version 1 stored in a table."""
    with closing(sqlite3.connect(f"file:{path}?mode=ro&immutable=1", uri=True)) as raw:
        return raw.execute(f"SELECT {schema.COLUMNS[1][table]} FROM {table} ORDER BY 1, 2").fetchall()


def records(path: Path, table: str) -> list[Any]:
    return [json.loads(row[-1]) for row in rows(path, table)]


def folded(path: Path) -> dict[int, Any]:
    """The value of each document: its newest base with the deltas after it."""
    values: dict[int, Any] = {}
    for document_id, _, kind, _, content in rows(path, "document_revisions"):
        value = json.loads(content)
        values[document_id] = value if kind == "base" else fold(values[document_id], [value])
    return values


async def check_reads(storage: Any) -> None:
    """Everything the store shows is what version 1 stored."""
    assert await storage.conversations() == records(VERSION_1, "conversations")
    assert [found.record for found in await storage.entries(1)] == records(VERSION_1, "entries")
    assert [found.seq for found in await storage.entries(1)] == [row[4] for row in rows(VERSION_1, "entries")]
    assert await storage.submissions() == records(VERSION_1, "submissions")
    assert await storage.tasks() == records(VERSION_1, "tasks")
    assert [(row.seq, row.at, row.epoch) for row in await storage.commits()] == rows(VERSION_1, "commits")
    documents: list[StoredDocument] = [
        *await storage.documents(in_conversation(1)),
        *await storage.documents(SESSION),
    ]
    assert [found.record for found in documents] == records(VERSION_1, "documents")
    assert {found.record["id"]: fold(found.base, found.deltas) for found in documents} == folded(VERSION_1)
    newest = (await storage.commits())[-1].seq
    assert await storage.documents_as_of(in_conversation(1), newest) == await storage.documents(in_conversation(1))
    assert all(row.kind == "base" for row in (await storage.revisions(2))[:1])
    assert await storage.least_wake() is None and await storage.flight(1) == []
