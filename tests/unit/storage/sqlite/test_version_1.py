"""A session of version 1 under this program (spec 4, 17.1)."""

from __future__ import annotations

import os
import shutil
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from durable_tui.session import Session
from durable_tui.storage import SqliteReader, SqliteStorage, StorageDamaged, StorageError, StorageRejected
from durable_tui.storage.records import FlightRow
from durable_tui.storage.sqlite import opening, schema
from tests.tools.batches import entry, put, task
from tests.tools.invariants import check_store
from tests.tools.sqlite_files import change, made, raw_of
from tests.tools.version_1 import TABLES, VERSION_1, check_reads, rows


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return Path(shutil.copy(VERSION_1, tmp_path / "a.sqlite"))


async def test_d07_its_owner_brings_it_to_this_version_and_goes_on(path: Path) -> None:
    with closing(sqlite3.connect(VERSION_1)) as raw:
        assert raw.execute("PRAGMA user_version").fetchone() == (1,)
    storage = await SqliteStorage.open(path)
    assert storage.epoch == 3 and storage.previous is not None and storage.previous.closed_at is None
    await check_reads(storage)
    assert await check_store(storage) == []
    owners = await storage.owners()
    assert [row.epoch for row in owners] == [1, 2, 3]
    session = await Session.open(storage)
    gate = {"reason": "retry", "time": 700}
    task_id = storage.mint_id()
    row = FlightRow(2, 2, 9, 9, "base", {"run": None})
    await put(storage, tasks=[task(task_id, gate=gate)], entries=[entry(storage.mint_id())], flight=[row])
    assert await storage.least_wake() == 700 and await storage.flight(2) == [row]
    await session.close()
    storage = await SqliteStorage.open(path)
    assert await storage.least_wake() == 700 and (await storage.task(task_id)) == task(task_id, gate=gate)
    await storage.close()
    assert os.listdir(path.parent) == ["a.sqlite"]


async def test_d07_after_it_there_is_no_difference_to_a_new_file(path: Path) -> None:
    def shape(raw: sqlite3.Connection) -> list[Any]:
        return sorted(raw.execute("SELECT type, name, tbl_name, sql FROM sqlite_master").fetchall(), key=str)

    new = await SqliteStorage.open(await made(path.parent / "new.sqlite"))
    old = await SqliteStorage.open(path)
    assert await raw_of(old, shape) == await raw_of(new, shape)
    assert await raw_of(old, lambda raw: raw.execute("PRAGMA user_version").fetchone()) == (schema.VERSION,)
    await old.close()
    await new.close()


async def test_d07_who_only_reads_it_changes_nothing(path: Path) -> None:
    before = path.read_bytes()
    reader = await SqliteReader.open(path)
    await check_reads(reader)
    assert reader.warnings == []
    assert path.read_bytes() == before and os.listdir(path.parent) == ["a.sqlite"]
    owner = await SqliteStorage.open(path)  # the file changes its version under the reader
    await put(owner, tasks=[task(owner.mint_id(), gate={"reason": "limit", "time": 40})])
    assert await reader.least_wake() == 40
    await owner.close()
    assert await reader.least_wake() == 40 and await reader.flight(1) == []
    await reader.close()


async def test_d07_a_damaged_one_is_refused_and_not_migrated(path: Path) -> None:
    change(path, "DELETE FROM session")
    await refused(path, "counters", SqliteStorage)
    change(path, "ALTER TABLE tasks RENAME COLUMN background TO later")
    await refused(path, "lacks", SqliteStorage, SqliteReader)


async def refused(path: Path, why: str, *openers: Any) -> None:
    with closing(sqlite3.connect(path)) as raw:
        before = list(raw.iterdump())
    for opener in openers:
        with pytest.raises(StorageDamaged, match=why):
            await opener.open(path)
    with closing(sqlite3.connect(path)) as raw:
        assert list(raw.iterdump()) == before and raw.execute("PRAGMA user_version").fetchone() == (1,)


class Failing(sqlite3.Connection):
    """Fails at the first statement that begins so, or right after it ran."""

    at = ""
    code = sqlite3.SQLITE_FULL

    def execute(self, sql: str, *values: Any) -> sqlite3.Cursor:
        if sql.startswith(self.at):
            error = sqlite3.OperationalError("failed on purpose")
            error.sqlite_errorcode = self.code
            raise error
        return super().execute(sql, *values)


@pytest.fixture
def failing(monkeypatch: pytest.MonkeyPatch) -> Iterator[type[Failing]]:
    def connect(path: str, query: str) -> sqlite3.Connection:
        return sqlite3.connect(
            f"file:{path}?{query}", uri=True, isolation_level=None, check_same_thread=False, factory=Failing
        )

    with monkeypatch.context() as patched:
        patched.setattr(opening, "connect", connect)
        yield Failing


@pytest.mark.parametrize("at", ["ALTER TABLE", "CREATE INDEX tasks_wake", "CREATE TABLE flight", "COMMIT"])
@pytest.mark.parametrize("code", [sqlite3.SQLITE_FULL, sqlite3.SQLITE_ERROR])
async def test_d07_what_goes_wrong_on_the_way_leaves_it_as_it_was(
    path: Path, failing: type[Failing], monkeypatch: pytest.MonkeyPatch, at: str, code: int
) -> None:
    monkeypatch.setattr(failing, "at", at)
    monkeypatch.setattr(failing, "code", code)
    with pytest.raises(StorageError) as refused:
        await SqliteStorage.open(path)
    if code == sqlite3.SQLITE_FULL:
        assert isinstance(refused.value, StorageRejected) and refused.value.full and "bytes free" in str(refused.value)
    else:
        assert "from version 1 to 2" in str(refused.value) and "as before" in str(refused.value)
    assert os.listdir(path.parent) == ["a.sqlite"]
    for table in TABLES:
        assert rows(path, table) == rows(VERSION_1, table)
    reader = await SqliteReader.open(path)
    await check_reads(reader)
    await reader.close()
    monkeypatch.setattr(failing, "at", "nothing")
    storage = await SqliteStorage.open(path)
    await check_reads(storage)
    await storage.close()
