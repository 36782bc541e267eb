"""The SQLite store: its settings, its file, its plans and its verdicts (spec 3.6, 4, 4.1, 4.3, 17.1)."""

from __future__ import annotations

import asyncio
import os
import sqlite3
import stat
from pathlib import Path
from typing import Any

import pytest

from durable_tui.storage import SqliteStorage, StorageError, StorageRejected, StorageUncertain
from durable_tui.storage.records import Batch, OwnerRow
from durable_tui.storage.sqlite import opening as opening_module
from durable_tui.storage.sqlite import queries, schema
from durable_tui.storage.sqlite.commit import Writer, steps
from tests.tools.batches import batch, begin, entry, put, submission, task


async def raw_of(storage: SqliteStorage, job: Any) -> Any:
    return await storage._door.run(lambda handle: job(handle.raw))


async def pragma(storage: SqliteStorage, name: str) -> Any:
    return await raw_of(storage, lambda raw: raw.execute(f"PRAGMA {name}").fetchone()[0])


async def test_ui_k11_every_setting_is_explicit(tmp_path: Path) -> None:
    storage = await SqliteStorage.open(tmp_path / "a.sqlite")
    assert await pragma(storage, "journal_mode") == "wal"
    assert await pragma(storage, "busy_timeout") == 5000
    assert await pragma(storage, "foreign_keys") == 1
    assert await pragma(storage, "trusted_schema") == 0
    assert await pragma(storage, "synchronous") == 2
    assert await pragma(storage, "wal_autocheckpoint") == 16384
    assert await pragma(storage, "journal_size_limit") == 64 * 1024 * 1024
    assert await pragma(storage, "application_id") == 0x44545549
    assert await pragma(storage, "user_version") == 1
    follower = await SqliteStorage.open(tmp_path / "a.sqlite", read_only=True)
    assert await pragma(follower, "busy_timeout") == 5000
    await follower.close()
    await storage.close()


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
    assert sorted(row[0] for row in rows) == sorted(schema.COLUMNS)
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


async def test_spec_4_live_tasks_and_open_submissions_are_found_by_index(tmp_path: Path) -> None:
    storage = await SqliteStorage.open(tmp_path / "a.sqlite")

    async def plan(sql: str, *values: Any) -> str:
        rows = await raw_of(storage, lambda raw: raw.execute(f"EXPLAIN QUERY PLAN {sql}", values).fetchall())
        return "; ".join(row[3] for row in rows)

    assert await plan(queries.LIVE_TASKS) == "SCAN tasks USING INDEX tasks_live"
    assert "USING INDEX submissions_open" in await plan(queries.OPEN_SUBMISSIONS, "queued", 0, 5)
    assert "USING INDEX documents_live" in await plan(queries.DOCUMENT, 9, "session", 0, "k", b"")
    assert "USING INDEX documents_live" in await plan(queries.DOCUMENTS, 9, "session", 0)
    statements: list[str] = []
    await raw_of(storage, lambda raw: raw.set_trace_callback(statements.append))
    await storage.entries(1, after=5, before=9, reverse=True)
    await storage.newest_head(1, upto=3)
    await storage.submission_by_request(1, "r")
    await storage.tasks(1)
    await storage.submissions(1)
    await raw_of(storage, lambda raw: raw.set_trace_callback(None))
    for statement in statements:
        found = await plan(statement)
        assert "SEARCH" in found and "SCAN" not in found and "TEMP B-TREE" not in found, (statement, found)
    await storage.close()


async def test_spec_4_checkpoints_happen_when_idle_and_at_close(tmp_path: Path) -> None:
    storage = await SqliteStorage.open(tmp_path / "a.sqlite", "process")
    await begin(storage)
    size = os.path.getsize(tmp_path / "a.sqlite")
    for _ in range(100):
        await put(storage, entries=[entry(storage.mint_id(), data="x" * 2000)])
    assert os.path.getsize(tmp_path / "a.sqlite") == size, "nothing is checkpointed inside commits"
    await storage.checkpoint()
    grown = os.path.getsize(tmp_path / "a.sqlite")
    assert grown > size
    await put(storage, entries=[entry(storage.mint_id(), data="x" * 90_000)])
    await storage.checkpoint()
    assert os.path.getsize(tmp_path / "a.sqlite") == grown, "one commit is not worth a checkpoint"
    await storage.close()
    assert os.path.getsize(tmp_path / "a.sqlite") > grown
    assert not (tmp_path / "a.sqlite-wal").exists()


async def test_a_network_file_system_gets_no_shared_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    local = await SqliteStorage.open(tmp_path / "b.sqlite")
    await begin(local)
    await local.close()
    monkeypatch.setattr(opening_module, "is_network", lambda path: True)
    for name, count in (("a.sqlite", 1), ("b.sqlite", 2)):
        storage = await SqliteStorage.open(tmp_path / name)
        assert await pragma(storage, "journal_mode") == "truncate"
        assert len(storage.warnings) == 1 and "network" in storage.warnings[0]
        await put(storage, conversations=[{"id": storage.mint_id()}])
        assert not (tmp_path / f"{name}-wal").exists()
        await storage.close()
        storage = await SqliteStorage.open(tmp_path / name)
        assert len(await storage.conversations()) == count
        await storage.close()


async def test_a_file_that_is_read_while_it_is_written_stays_readable(tmp_path: Path) -> None:
    path = tmp_path / "a.sqlite"
    owner = await SqliteStorage.open(path)
    await begin(owner)
    follower = await SqliteStorage.open(path, read_only=True)
    assert follower.read_only and follower.epoch == 0
    assert await follower.poll_seq() == 1
    for number in range(5):
        seq = await put(owner, entries=[entry(owner.mint_id())])
        assert await follower.poll_seq() == seq
        assert len(await follower.entries(1)) == number + 1
    statements: list[str] = []
    await raw_of(follower, lambda raw: raw.set_trace_callback(statements.append))
    for _ in range(3):
        await follower.poll_seq()
    assert all("data_version" in statement for statement in statements), "nothing new costs no query"
    with pytest.raises(StorageRejected):
        await follower.commit(batch(follower, conversations=[{"id": 50}]))
    await follower.checkpoint()
    await follower.close()
    await owner.close()
    assert os.listdir(tmp_path) == ["a.sqlite"]


async def test_a_follower_of_a_session_at_rest_notices_every_later_opening(tmp_path: Path) -> None:
    path = tmp_path / "a.sqlite"
    owner = await SqliteStorage.open(path)
    await begin(owner)
    await owner.close()
    before = path.read_bytes()
    follower = await SqliteStorage.open(path, read_only=True)
    assert await follower.poll_seq() == 1
    assert path.read_bytes() == before and os.listdir(tmp_path) == ["a.sqlite"], "reading leaves nothing behind"
    for _ in range(3):
        owner = await SqliteStorage.open(path)
        seq = await put(owner, entries=[entry(owner.mint_id(), data="x" * 9000)])
        await owner.close()
        assert await follower.poll_seq() == seq
    owner = await SqliteStorage.open(path)
    seq = await put(owner, entries=[entry(owner.mint_id())])
    assert await follower.poll_seq() == seq
    assert [found.record["id"] for found in await follower.entries(1)] == [2, 3, 4, 5]
    seq = await put(owner, entries=[entry(owner.mint_id())])
    assert await follower.poll_seq() == seq and len(await follower.owners()) == 5
    await owner.close()
    await follower.close()


async def test_cancelling_an_opening_leaves_nothing_owned(tmp_path: Path) -> None:
    for turns in range(4):
        opening = asyncio.ensure_future(SqliteStorage.open(tmp_path / "a.sqlite"))
        for _ in range(turns):
            await asyncio.sleep(0)
        opening.cancel()
        with pytest.raises(asyncio.CancelledError):
            await opening
    storage = await SqliteStorage.open(tmp_path / "a.sqlite")
    await storage.close()


async def test_d02_a_cancelled_close_still_closes(tmp_path: Path) -> None:
    storage = await SqliteStorage.open(tmp_path / "a.sqlite")
    await begin(storage)
    closing = asyncio.ensure_future(storage.close())
    await asyncio.sleep(0)
    closing.cancel()
    with pytest.raises(asyncio.CancelledError):
        await closing
    again = await SqliteStorage.open(tmp_path / "a.sqlite")
    assert again.previous is not None and again.previous.closed_at is not None
    await again.close()


# -- verdicts on failed transactions -----------------------------------------------------------------------------------


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
    assert again.former_owner_dead, "this process ended that opening itself"
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
