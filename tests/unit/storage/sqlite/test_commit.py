"""Which commits are flushed, and what a failed transaction means (spec 3.6, 4.1)."""

from __future__ import annotations

import sqlite3
from pathlib import Path
from typing import Any

import pytest

from durable_tui.storage import SqliteStorage, StorageError, StorageRejected, StorageUncertain
from durable_tui.storage.records import Batch, OwnerRow
from durable_tui.storage.sqlite import schema
from durable_tui.storage.sqlite.commit import Writer, steps
from tests.tools.batches import begin, entry, put
from tests.tools.sqlite_files import pragma, raw_of


@pytest.mark.parametrize(
    ("durability", "levels"), [("process", [1, 1, 1]), ("intents", [2, 1, 2]), ("power", [2, 2, 2])]
)
async def test_spec_4_1_which_commits_are_flushed(tmp_path: Path, durability: Any, levels: list[int]) -> None:
    storage = await SqliteStorage.open(tmp_path / "a.sqlite", durability)
    await begin(storage)
    seen = []
    for index, flush in enumerate((True, False, True)):
        await put(storage, flush=flush, entries=[entry(10 + index)])
        seen.append(await pragma(storage, "synchronous"))
    assert seen == levels
    statements: list[str] = []
    await raw_of(storage, lambda raw: raw.set_trace_callback(statements.append))
    for index in range(3):
        await put(storage, flush=True, entries=[entry(20 + index)])
    assert not [text for text in statements if "synchronous" in text], "switched only on change"
    assert [text for text in statements if text.startswith("BEGIN")] == ["BEGIN IMMEDIATE"] * 3
    await storage.close()


class Failing(sqlite3.Connection):
    """Fails at a statement: before it ran or after, with a code of SQLite."""

    at = ""
    code = 0
    after = False
    hits = 0

    def execute(self, sql: str, *values: Any) -> sqlite3.Cursor:
        if not self.at or not sql.startswith(self.at):
            return super().execute(sql, *values)
        self.hits += 1
        if self.after:
            super().execute(sql, *values)
        error = sqlite3.OperationalError("failed on purpose")
        error.sqlite_errorcode = self.code
        raise error


@pytest.fixture
def failing(tmp_path: Path) -> Any:
    raw = sqlite3.connect(tmp_path / "f.sqlite", isolation_level=None, factory=Failing)
    for statement in schema.STATEMENTS:
        raw.execute(statement)
    raw.execute("INSERT INTO session (id, next_id, next_seq, created_at) VALUES (1, 1, 1, 0)")
    yield raw
    raw.close()


def writer_on(raw: sqlite3.Connection, path: Path) -> Writer:
    writer = Writer(str(path / "f.sqlite"), "f.sqlite", "process")
    writer.begin_epoch(raw, OwnerRow(1, 1, "h", "b", 0, 0))
    return writer


ONE = Batch(1, 1, conversations=[{"id": 1}])


@pytest.mark.parametrize(
    ("at", "code", "after", "expected", "full"),
    [
        ("BEGIN", sqlite3.SQLITE_BUSY, False, StorageRejected, False),
        ("INSERT INTO conversations", sqlite3.SQLITE_FULL, False, StorageRejected, True),
        ("INSERT INTO conversations", sqlite3.SQLITE_IOERR_READ, False, StorageRejected, False),
        ("COMMIT", sqlite3.SQLITE_FULL, False, StorageRejected, True),
        ("COMMIT", sqlite3.SQLITE_BUSY, False, StorageRejected, False),
        ("COMMIT", sqlite3.SQLITE_IOERR_WRITE, False, StorageRejected, False),
        ("COMMIT", sqlite3.SQLITE_IOERR_FSYNC, False, StorageUncertain, False),
        ("COMMIT", sqlite3.SQLITE_IOERR_SHMSIZE, False, StorageUncertain, False),
        ("COMMIT", sqlite3.SQLITE_FULL, True, StorageUncertain, False),
        ("COMMIT", sqlite3.SQLITE_IOERR, True, StorageUncertain, False),
    ],
)
def test_spec_3_6_a_failed_commit_is_checked_before_it_is_judged(
    tmp_path: Path, failing: Any, at: str, code: int, after: bool, expected: type[StorageError], full: bool
) -> None:
    writer = writer_on(failing, tmp_path)
    failing.at, failing.code, failing.after = at, code, after
    with pytest.raises(expected) as failed:
        writer.commit(failing, ONE, steps(ONE), 2)
    assert failing.hits == 1 and not failing.in_transaction
    assert getattr(failed.value, "full", False) == full
    if full:
        assert str(tmp_path / "f.sqlite") in str(failed.value) and "bytes free" in str(failed.value)
    failing.at = ""
    if expected is StorageRejected:
        writer.commit(failing, ONE, steps(ONE), 2)
        assert failing.execute("SELECT count(*) FROM conversations").fetchone() == (1,)


def test_spec_3_6_a_transaction_that_cannot_be_ended_is_uncertain(tmp_path: Path, failing: Any) -> None:
    writer = writer_on(failing, tmp_path)
    failing.at, failing.code = "ROLLBACK", sqlite3.SQLITE_IOERR
    bad = Batch(1, 1, conversations=[{"id": 1}], entries=[entry(2), entry(2)])
    with pytest.raises(StorageUncertain):
        writer.commit(failing, bad, steps(bad), 2)


async def test_spec_15_after_an_uncertain_commit_the_end_is_unclean(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    storage = await SqliteStorage.open(tmp_path / "a.sqlite")
    await begin(storage)

    def unsure(*_: Any) -> None:
        raise StorageUncertain("unsure")

    with monkeypatch.context() as patched:
        patched.setattr(Writer, "commit", unsure)
        with pytest.raises(StorageUncertain):
            await put(storage, entries=[entry(2)])
    await storage.close()
    again = await SqliteStorage.open(tmp_path / "a.sqlite")
    assert again.previous is not None and again.previous.closed_at is None
    assert again.former_owner == "dead", "this process ended that opening itself"
    await again.close()


async def test_ui_k12_a_writer_that_stays_too_long_is_a_rejection(tmp_path: Path) -> None:
    storage = await SqliteStorage.open(tmp_path / "a.sqlite")
    await begin(storage)
    await raw_of(storage, lambda raw: raw.execute("PRAGMA busy_timeout=50"))
    other = sqlite3.connect(tmp_path / "a.sqlite", isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    with pytest.raises(StorageRejected, match="another program"):
        await put(storage, entries=[entry(2)])
    other.execute("ROLLBACK")
    other.close()
    await put(storage, entries=[entry(2)])
    assert len(await storage.entries(1)) == 1
    await storage.close()
