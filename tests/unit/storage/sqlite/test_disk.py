"""A full disk refuses, says where and how much is free, and nothing is lost (spec 3.6; cases D04, UI-K15)."""

from __future__ import annotations

import os
import sqlite3
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from durable_tui.storage import SqliteStorage, StorageRejected
from durable_tui.storage.sqlite import schema
from durable_tui.storage.sqlite.commit import Writer
from durable_tui.storage.sqlite.inspection import connect
from tests.tools.batches import begin, entry, put


@pytest.fixture
def small(tmp_path: Path) -> Iterator[Path | None]:
    """A file system of 2 MB, or None where none can be mounted."""
    point = tmp_path / "small"
    point.mkdir()
    mounted = os.getuid() == 0 and (
        subprocess.run(["mount", "-t", "tmpfs", "-o", "size=2m", "tmpfs", str(point)], capture_output=True).returncode
        == 0
    )
    yield point if mounted else None
    if mounted:
        subprocess.run(["umount", "-l", str(point)], check=True)


async def fill(storage: SqliteStorage) -> tuple[int, StorageRejected]:
    """Commit until the store refuses; how many were accepted, and the refusal."""
    stored = 0
    while True:
        try:
            await put(storage, entries=[entry(storage.mint_id(), data="x" * 20_000)])
        except StorageRejected as error:
            return stored, error
        stored += 1
        assert stored < 1000


@pytest.mark.parametrize("durability", ["process", "intents", "power"])
async def test_d04_ui_k15_a_full_disk_refuses_and_recovers(tmp_path: Path, small: Path | None, durability: str) -> None:
    folder = small or tmp_path
    path = folder / "a.sqlite"
    storage = await SqliteStorage.open(path, durability)  # type: ignore[arg-type]
    await begin(storage)
    ballast = folder / "ballast"
    if small is None:
        await storage._thread.run(lambda handle: handle.raw.execute("PRAGMA max_page_count=150").fetchall())
    else:
        ballast.write_bytes(b"\0" * 700_000)
    stored, refusal = await fill(storage)
    assert stored > 3
    assert refusal.full and str(path) in str(refusal) and "bytes free" in str(refusal)
    for _ in range(3):
        with pytest.raises(StorageRejected) as again:
            await put(storage, entries=[entry(storage.mint_id(), data="x" * 30_000)])
        assert again.value.full
    assert len(await storage.entries(1)) == stored, "nothing refused is shown"
    if small is None:
        await storage._thread.run(lambda handle: handle.raw.execute("PRAGMA max_page_count=1000000").fetchall())
    else:
        ballast.unlink()
    await put(storage, entries=[entry(storage.mint_id(), data="x" * 30_000)])
    await storage.close()
    storage = await SqliteStorage.open(path)
    assert len(await storage.entries(1)) == stored + 1
    assert storage.previous is not None and storage.previous.closed_at is not None
    await storage.close()


async def test_ui_k15_a_session_that_cannot_be_made_leaves_nothing(tmp_path: Path, small: Path | None) -> None:
    if small is None:
        # The same way out by hand: no page fits.
        def tiny(name: str) -> sqlite3.Connection:
            raw = connect(name, "mode=rw")
            raw.execute("PRAGMA max_page_count=3")
            return raw

        with pytest.raises(sqlite3.OperationalError):
            schema.create(str(tmp_path / "a.sqlite"), 0, tiny, wal=True)
        assert os.listdir(tmp_path) == ["small"]
        return
    (small / "ballast").write_bytes(b"\0" * (2 * 1024 * 1024 - 8192))
    with pytest.raises(StorageRejected) as refused:
        await SqliteStorage.open(small / "a.sqlite")
    assert refused.value.full and str(small / "a.sqlite") in str(refused.value)
    assert os.listdir(small) == ["ballast"]


async def test_ui_k15_a_close_that_is_refused_still_frees_the_session(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    storage = await SqliteStorage.open(tmp_path / "a.sqlite")
    await begin(storage)

    def refuse(writer: Writer, raw: sqlite3.Connection, at: int) -> None:
        raw.execute("PRAGMA max_page_count=1")
        raise writer.verdict(raw, _full(), False, "SELECT 1", 0)

    with monkeypatch.context() as patched:
        patched.setattr(Writer, "end_epoch", refuse)
        with pytest.raises(StorageRejected) as refused:
            await storage.close()
    assert refused.value.full and "bytes free" in str(refused.value)
    again = await SqliteStorage.open(tmp_path / "a.sqlite")
    assert again.previous is not None and again.previous.closed_at is None
    assert await again.conversations() == [{"id": 1}]
    await again.close()


def _full() -> sqlite3.OperationalError:
    error = sqlite3.OperationalError("database or disk is full")
    error.sqlite_errorcode = sqlite3.SQLITE_FULL
    return error
