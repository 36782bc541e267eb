"""What may be opened, and what is refused with its bytes unchanged (spec 4, 4.3, 17.1)."""

from __future__ import annotations

import os
import sqlite3
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from durable_tui.storage import (
    SqliteReader,
    SqliteStorage,
    StorageDamaged,
    StorageError,
    StorageForeign,
    StorageNewer,
)
from durable_tui.storage.errors import SessionLocked
from durable_tui.storage.sqlite import inspection, opening, schema
from tests.tools.batches import entry, put
from tests.tools.sqlite_files import change, made

ROOT = Path(__file__).parents[4]


async def refused(path: Path, kind: type[StorageError], *words: str, reading: bool = False) -> StorageError:
    """Open, expect the error as one sentence, and the folder exactly as before."""
    before = {name: (path.parent / name).read_bytes() for name in os.listdir(path.parent)} if path.is_file() else {}
    with pytest.raises(StorageError) as caught:
        await (SqliteReader if reading else SqliteStorage).open(path)
    assert type(caught.value) is kind, repr(caught.value)
    message = str(caught.value)
    assert "\n" not in message
    for word in (path.name, *words):
        assert word in message, message
    if path.is_file():
        assert {name: (path.parent / name).read_bytes() for name in os.listdir(path.parent)} == before
    return caught.value


@pytest.mark.parametrize("reading", [False, True])
async def test_d07_files_that_are_no_sessions(tmp_path: Path, reading: bool) -> None:
    empty = tmp_path / "empty.sqlite"
    empty.touch()
    await refused(empty, StorageDamaged, "empty", reading=reading)
    text = tmp_path / "text.sqlite"
    text.write_text("# a note that is named like a session\n" * 200)
    await refused(text, StorageDamaged, "not a session", reading=reading)
    short = tmp_path / "short.sqlite"
    short.write_bytes(b"SQLite format 3\x00")
    await refused(short, StorageDamaged, reading=reading)
    other = tmp_path / "other.sqlite"
    change(other, "CREATE TABLE notes (a)")
    await refused(other, StorageDamaged, "not a session", reading=reading)
    foreign = tmp_path / "foreign.sqlite"
    change(foreign, "CREATE TABLE durable_schema (version)", "PRAGMA application_id = 7")
    await refused(foreign, StorageForeign, "import", reading=reading)
    change(foreign, "PRAGMA journal_mode=WAL")
    await refused(foreign, StorageForeign, reading=reading)
    marked = tmp_path / "marked.sqlite"
    change(marked, f"PRAGMA application_id = {schema.APPLICATION_ID}", "PRAGMA user_version = 1", "CREATE TABLE x (a)")
    await refused(marked, StorageDamaged, "lacks", reading=reading)


@pytest.mark.parametrize("reading", [False, True])
async def test_ui_k16_places_that_hold_no_session(tmp_path: Path, reading: bool) -> None:
    folder = tmp_path / "folder.sqlite"
    folder.mkdir()
    await refused(folder, StorageError, "is a folder", reading=reading)
    below = tmp_path / "text" / "a.sqlite"
    (tmp_path / "text").write_text("x")
    await refused(below, StorageError, "not a folder", reading=reading)
    pipe = tmp_path / "pipe.sqlite"
    os.mkfifo(pipe)
    await refused(pipe, StorageError, "not a regular file", reading=reading)
    opener = SqliteReader if reading else SqliteStorage
    with pytest.raises(StorageError, match=r"does not exist|no session"):
        await opener.open(tmp_path / "none" / "a.sqlite")
    path = tmp_path / "a.sqlite"
    with pytest.raises(StorageError, match="no session"):
        await (SqliteReader.open(path) if reading else SqliteStorage.open(path, create=False))
    assert not (tmp_path / "a.sqlite").exists() and not (tmp_path / "a.lock").exists()
    with pytest.raises(StorageError):
        await opener.open(tmp_path / ("n" * 300 + ".sqlite"))


async def test_d07_a_newer_schema_is_refused_with_both_numbers(tmp_path: Path) -> None:
    path = await made(tmp_path / "newer.sqlite", 3)
    change(path, "PRAGMA user_version = 7", "ALTER TABLE entries ADD COLUMN mood TEXT")
    error = await refused(path, StorageNewer, "version 7", "version 2")
    assert isinstance(error, StorageNewer) and (error.found, error.supported) == (7, 2)
    before = path.read_bytes()
    reader = await SqliteReader.open(path)
    assert len(await reader.entries(1)) == 3 and "version 7" in reader.warnings[0]
    await reader.close()
    assert path.read_bytes() == before
    change(path, "ALTER TABLE entries RENAME COLUMN record TO body")
    await refused(path, StorageNewer, "version 7", "version 2", reading=True)


async def test_d07_an_unknown_column_does_no_harm(tmp_path: Path) -> None:
    path = await made(tmp_path / "a.sqlite")
    change(path, "ALTER TABLE tasks ADD COLUMN extra TEXT", "ALTER TABLE entries ADD COLUMN extra INTEGER DEFAULT 4")
    storage = await SqliteStorage.open(path)
    await put(storage, entries=[entry(storage.mint_id())])
    assert len(await storage.entries(1)) == 1
    await storage.close()


async def test_a_truncated_file_is_damaged(tmp_path: Path) -> None:
    path = await made(tmp_path / "a.sqlite", 30)
    whole = path.read_bytes()
    for length in (100, 4096, len(whole) // 2, len(whole) - 1):
        path.write_bytes(whole[:length])
        await refused(path, StorageDamaged)
        await refused(path, StorageDamaged, reading=True)
    path.write_bytes(whole)
    storage = await SqliteStorage.open(path)
    assert len(await storage.entries(1)) == 30
    await storage.close()


async def test_damage_is_found_after_an_unclean_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = await made(tmp_path / "a.sqlite", 30)
    storage = await SqliteStorage.open(path)
    await storage.abandon()
    data = bytearray(path.read_bytes())
    raw = sqlite3.connect(path)
    page = raw.execute("SELECT rootpage FROM sqlite_master WHERE name = 'entries_conversation'").fetchone()[0]
    raw.close()
    start = (page - 1) * 4096
    data[start : start + 4096] = b"\xff" * 4096
    path.write_bytes(data)
    await refused(path, StorageDamaged, "damaged")
    monkeypatch.setattr(inspection, "CHECK_BYTES", 0)
    storage = await SqliteStorage.open(path)
    assert "too large" in storage.warnings[0]
    await storage.abandon()


async def test_damage_met_while_reading_is_one_sentence(tmp_path: Path) -> None:
    path = await made(tmp_path / "a.sqlite", 5)
    change(path, "UPDATE entries SET record = '{\"id\": 3, ' WHERE id = 3")
    storage = await SqliteStorage.open(path)
    with pytest.raises(StorageDamaged, match="not JSON"):
        await storage.entries(1)
    await storage.close()
    reader = await SqliteReader.open(path)
    with pytest.raises(StorageDamaged, match="not JSON"):
        await reader.entries(1)
    await reader.close()


async def test_text_of_other_writers_with_surrogates_is_read(tmp_path: Path) -> None:
    path = await made(tmp_path / "a.sqlite", 1)
    raw = sqlite3.connect(path)
    content = b'{"id":2,"conversationId":1,"kind":"pi.user","data":"a\xed\xa0\x80b \\udc00"}'
    raw.execute("UPDATE entries SET record = CAST(? AS TEXT)", (content,))
    raw.commit()
    raw.close()
    storage = await SqliteStorage.open(path)
    found = await storage.entry(2)
    assert found is not None and found.record["data"] == "a\ufffdb \ufffd"
    await storage.close()


async def test_lost_counters_are_damage(tmp_path: Path) -> None:
    path = await made(tmp_path / "a.sqlite")
    change(path, "DELETE FROM session")
    with pytest.raises(StorageDamaged, match="counters"):
        await SqliteStorage.open(path)


async def test_a_death_in_the_middle_of_a_write_without_wal_is_rolled_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(opening, "is_network", lambda path: True)
    source, path = await made(tmp_path / "source.sqlite", 40), tmp_path / "dead.sqlite"
    raw = sqlite3.connect(source, isolation_level=None)
    raw.execute("PRAGMA journal_mode=TRUNCATE")
    raw.execute("PRAGMA cache_size=5")  # so that the unfinished write reaches the file
    raw.execute("BEGIN IMMEDIATE")
    raw.execute("UPDATE entries SET record = record || 'x'")
    for suffix in ("", "-journal"):
        Path(f"{path}{suffix}").write_bytes(Path(f"{source}{suffix}").read_bytes())
    raw.execute("ROLLBACK")
    raw.close()
    with pytest.raises(StorageError, match="middle of a write"):
        await SqliteReader.open(path)
    storage = await SqliteStorage.open(path)
    assert len(await storage.entries(1)) == 40
    await storage.close()
    reader = await SqliteReader.open(path)
    assert len(await reader.entries(1)) == 40
    await reader.close()


AS_NOBODY = """
import asyncio, os, sys
sys.path.insert(0, sys.argv[1])
from durable_tui.storage import SqliteReader, SqliteStorage, StorageError
from durable_tui.storage.sqlite import store, opening  # imported before the rights are given up

async def main(path):
    try:
        storage = await SqliteStorage.open(path)
        print("opened")
        await storage.close()
    except StorageError as error:
        print(type(error).__name__, error)
    try:
        reader = await SqliteReader.open(path)
        print("read", len(await reader.entries(1)), await reader.poll_seq())
        await reader.close()
    except StorageError as error:
        print(type(error).__name__, error)

if os.getuid() == 0:
    os.setgroups([]), os.setgid(65534), os.setuid(65534)
asyncio.run(main(sys.argv[2]))
"""


def as_nobody(path: Path) -> list[str]:
    done = subprocess.run(
        [sys.executable, "-c", AS_NOBODY, str(ROOT), str(path)], capture_output=True, text=True, timeout=30
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


@pytest.fixture
def place(tmp_path: Path) -> Any:
    """A folder that another user can reach."""
    for folder in (tmp_path, *tmp_path.parents):
        if folder == Path("/tmp"):
            break
        os.chmod(folder, 0o755)
    inner = tmp_path / "sessions"
    inner.mkdir()
    yield inner
    os.chmod(inner, 0o755)


async def test_s02_ui_k16_a_read_only_folder_says_permission_and_is_read(place: Path) -> None:
    path = await made(place / "a.sqlite", 4)
    os.chmod(path, 0o644)
    os.chmod(place, 0o555)
    before = path.read_bytes()
    written, read = as_nobody(path)
    assert written.startswith("StorageError no permission to write") and "read-only" in written
    assert read == "read 4 5"
    assert path.read_bytes() == before and os.listdir(place) == ["a.sqlite"]


async def test_s02_ui_k16_another_users_file_says_permission_not_busy(place: Path) -> None:
    path = await made(place / "a.sqlite", 1)
    os.chmod(path, 0o600)
    os.chmod(place, 0o777)
    if os.getuid() != 0:
        os.chmod(path, 0o000)
    for line in as_nobody(path):
        assert line.startswith("StorageError no permission to read")
    if os.getuid() != 0:
        os.chmod(path, 0o600)
    with pytest.raises(SessionLocked):
        storage = await SqliteStorage.open(path)
        try:
            await SqliteStorage.open(path)
        finally:
            await storage.close()
