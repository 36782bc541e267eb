"""The tables of a session file and the way from one version to the next (spec 4, 17.1)."""

from __future__ import annotations

import os
import sqlite3
import stat
from pathlib import Path

import pytest

from durable_tui.storage import SqliteReader, SqliteStorage, StorageError
from durable_tui.storage.sqlite import schema
from tests.tools.batches import begin, entry, put, submission, task
from tests.tools.sqlite_files import made, raw_of


async def test_spec_17_1_the_file_its_tables_and_its_mode(tmp_path: Path) -> None:
    storage = await SqliteStorage.open(tmp_path / "a.sqlite")
    assert storage.label == str(tmp_path / "a.sqlite")
    assert storage.files == str(tmp_path / "a.files")
    assert sorted(os.listdir(tmp_path)) == ["a.lock", "a.sqlite", "a.sqlite-shm", "a.sqlite-wal"]
    for name in os.listdir(tmp_path):
        assert stat.S_IMODE(os.stat(tmp_path / name).st_mode) == 0o600, name
    rows = await raw_of(
        storage, lambda raw: raw.execute("SELECT name FROM sqlite_master WHERE type='table'").fetchall()
    )
    assert sorted(row[0] for row in rows) == sorted({table for tables in schema.COLUMNS.values() for table in tables})
    await begin(storage)
    held = {"owner": {"conversationId": 1, "taskId": 3}}
    await put(
        storage,
        conversations=[{"id": 2, **held}],
        entries=[entry(4, head=4)],
        submissions=[submission(5, requestId="r")],
        tasks=[task(3, background=True, abortRequested=True)],
    )
    columns = {
        "SELECT owner_conversation_id, owner_task_id FROM conversations WHERE id = 2": (1, 3),
        "SELECT conversation_id, kind, head, commit_seq FROM entries": (1, "pi.user", 4, 2),
        "SELECT conversation_id, request_id, status FROM submissions": (1, "r", "queued"),
        "SELECT conversation_id, kind, status, abort_requested, background FROM tasks": (1, "pi.tool", "pending", 1, 1),
        "SELECT next_id, next_seq FROM session": (6, 3),
        "SELECT seq, at, epoch FROM commits ORDER BY seq DESC": (2, 20, 1),
        "SELECT typeof(record), record FROM conversations WHERE id = 1": ("text", '{"id":1}'),
    }
    for query, expected in columns.items():
        assert await raw_of(storage, lambda raw, q=query: raw.execute(q).fetchone()) == expected
    await storage.close()
    assert os.listdir(tmp_path) == ["a.sqlite"], "no -wal, -shm or lock is left by a clean close"


async def test_d07_a_migration_is_one_transaction(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = await made(tmp_path / "a.sqlite", 2)
    good = ("ALTER TABLE tasks ADD COLUMN one TEXT", "CREATE TABLE two (a)", "UPDATE entries SET kind = 'moved'")
    monkeypatch.setattr(schema, "VERSION", 5)
    monkeypatch.setattr(schema, "MIGRATIONS", {2: (good[0],), 3: ("CREATE TABLE broken (",), 4: (good[2],)})

    def dump() -> list[str]:
        raw = sqlite3.connect(path)
        lines = [line for line in raw.iterdump() if "owners" not in line]
        lines.append(str(raw.execute("PRAGMA user_version").fetchone()))
        raw.close()
        return lines

    before = dump()
    for _ in range(2):
        with pytest.raises(StorageError, match=r"from version 2 to 5 .*as before"):
            await SqliteStorage.open(path)
        assert dump() == before
    reader = await SqliteReader.open(path)
    assert len(await reader.entries(1)) == 2
    await reader.close()
    assert dump() == before, "a reader never migrates"
    monkeypatch.setattr(schema, "MIGRATIONS", {2: (good[0],), 3: (good[1],), 4: (good[2],)})
    storage = await SqliteStorage.open(path)
    assert {found.record["kind"] for found in await storage.entries(1)} == {"pi.user"}
    await storage.close()
    assert dump()[-1] == "(5,)" and any("'moved'" in line for line in dump())
