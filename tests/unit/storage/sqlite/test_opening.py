"""What an opening sets, and what is left of one that did not come to be (spec 4)."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path

import pytest

from durable_tui.storage import SqliteReader, SqliteStorage
from durable_tui.storage.identity import boot_id, host_name, process_started_at
from durable_tui.storage.sqlite import opening
from tests.tools.batches import begin, put
from tests.tools.sqlite_files import change, made, pragma


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
    assert await pragma(storage, "user_version") == 2
    follower = await SqliteReader.open(tmp_path / "a.sqlite")
    assert await pragma(follower, "busy_timeout") == 5000
    await follower.close()
    await storage.close()


async def test_a_network_file_system_gets_no_shared_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    local = await SqliteStorage.open(tmp_path / "b.sqlite")
    await begin(local)
    await local.close()
    monkeypatch.setattr(opening, "is_network", lambda path: True)
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


async def test_spec_4_2_what_is_known_of_the_former_owner(tmp_path: Path) -> None:
    path = await made(tmp_path / "a.sqlite")
    parent = os.getppid()
    started = process_started_at(parent)
    for host, born, closed, expected in (
        (host_name(), started, "NULL", "alive"),
        ("elsewhere", started, "NULL", "unknown"),
        (host_name(), 5, "NULL", "dead"),
        (host_name(), started, 9, "dead"),  # it closed in order
    ):
        change(
            path,
            "INSERT INTO owners (epoch, pid, host, boot_id, process_started_at, opened_at, closed_at)"
            f" SELECT max(epoch) + 1, {parent}, '{host}', '{boot_id()}', {born}, 0, {closed} FROM owners",
        )
        storage = await SqliteStorage.open(path)
        assert storage.former_owner == expected, (host, born, closed)
        await storage.close()
