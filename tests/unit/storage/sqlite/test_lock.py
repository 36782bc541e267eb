"""One process owns a store: the lock, its holder's name (spec 4.2)."""

from __future__ import annotations

import asyncio
import fcntl
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from durable_tui.storage import SessionLocked, SqliteStorage, StorageError
from durable_tui.storage.identity import boot_id, host_name, this_owner
from durable_tui.storage.sqlite.lock import OwnerLock, owner_of, sibling
from tests.tools.batches import begin


def test_spec_17_1_the_names_beside_a_session() -> None:
    assert sibling("/s/a.sqlite", ".lock") == "/s/a.lock"
    assert sibling("/s/a.sqlite", ".files") == "/s/a.files"
    assert sibling("/s/job.db", ".lock") == "/s/job.db.lock"


def test_the_lock_is_held_named_and_freed(tmp_path: Path) -> None:
    path = str(tmp_path / "a.lock")
    me = this_owner(1, 1_700_000_000_000)
    assert owner_of(tmp_path / "a.sqlite") is None
    lock = OwnerLock.acquire(path, me, label="a")
    assert (os.stat(path).st_mode & 0o777) == 0o600
    held = owner_of(tmp_path / "a.sqlite")
    assert held == {
        "pid": os.getpid(),
        "host": host_name(),
        "startedAt": 1_700_000_000_000,
        "bootId": boot_id(),
        "processStartedAt": me.process_started_at,
    }
    with pytest.raises(SessionLocked) as locked:
        OwnerLock.acquire(path, me, label="a")
    assert locked.value.owner == held
    for part in (str(os.getpid()), host_name(), "2023-11-"):
        assert part in str(locked.value)
    lock.release()
    lock.release()
    assert not os.path.exists(path) and owner_of(tmp_path / "a.sqlite") is None
    OwnerLock.acquire(path, me, label="a").release()


def test_s02_the_files_content_never_decides(tmp_path: Path) -> None:
    path = tmp_path / "a.lock"
    for content in (json.dumps({"pid": 1, "host": host_name()}), "no json at all", ""):
        path.write_text(content)
        assert owner_of(tmp_path / "a.sqlite") is None
        lock = OwnerLock.acquire(str(path), this_owner(1, 0), label="a")
        lock.release()
    lock = OwnerLock.acquire(str(path), this_owner(1, 0), label="a")
    path.write_bytes(b"garbage")
    with pytest.raises(SessionLocked, match="another process"):
        OwnerLock.acquire(str(path), this_owner(1, 0), label="a")
    lock.release()


def test_a_lock_on_a_removed_file_is_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = str(tmp_path / "a.lock")
    tries: list[int] = []
    flock = fcntl.flock

    def racing(descriptor: int, operation: int) -> None:
        if not tries:  # the former owner closes between this opener's open and its lock
            os.unlink(path)
        tries.append(descriptor)
        flock(descriptor, operation)

    with monkeypatch.context() as patched:
        patched.setattr(fcntl, "flock", racing)
        lock = OwnerLock.acquire(path, this_owner(1, 0), label="a")
    assert len(tries) == 2
    with pytest.raises(SessionLocked):
        OwnerLock.acquire(path, this_owner(1, 0), label="a")
    lock.release()


def test_a_look_at_the_lock_never_makes_an_opener_fail(tmp_path: Path) -> None:
    looking = subprocess.Popen(
        [
            sys.executable,
            "-c",
            "import sys; from durable_tui.storage.sqlite.lock import owner_of\n"
            "print('go', flush=True)\nwhile True: owner_of(sys.argv[1])",
            str(tmp_path / "a.sqlite"),
        ],
        stdout=subprocess.PIPE,
        cwd=Path(__file__).parents[4],
    )
    try:
        assert looking.stdout is not None and looking.stdout.readline() == b"go\n"
        for _ in range(300):
            OwnerLock.acquire(str(tmp_path / "a.lock"), this_owner(1, 0), label="a").release()
    finally:
        looking.kill()
        looking.wait()
        looking.stdout.close()  # type: ignore[union-attr]


async def test_s02_a_symbolic_link_is_the_same_session(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "real")
    storage = await SqliteStorage.open(tmp_path / "real" / "a.sqlite")
    (tmp_path / "other.sqlite").symlink_to(tmp_path / "real" / "a.sqlite")
    for path in (
        tmp_path / "link" / "a.sqlite",
        tmp_path / "other.sqlite",
        tmp_path / "real" / ".." / "link" / "a.sqlite",
    ):
        with pytest.raises(SessionLocked):
            await SqliteStorage.open(path)
    assert owner_of(tmp_path / "other.sqlite") is not None
    await storage.close()
    made = await SqliteStorage.open(tmp_path / "other.sqlite")
    assert made.epoch == 2 and made.files == str(tmp_path / "real" / "a.files")
    await made.close()
    assert sorted(os.listdir(tmp_path)) == ["link", "other.sqlite", "real"]


async def test_a_forked_child_holds_no_lock_and_cannot_write(tmp_path: Path) -> None:
    path = tmp_path / "a.sqlite"
    storage = await SqliteStorage.open(path)
    await begin(storage)
    alive, hold = os.pipe()
    told, tell = os.pipe()
    child = os.fork()
    if child == 0:
        status = 1
        try:
            os.close(hold)
            try:
                storage.entry(1).send(None)
            except StorageError:
                os.write(tell, b"refused")
                os.read(alive, 1)
                status = 0
        finally:
            os._exit(status)
    os.close(alive)
    assert os.read(told, 20) == b"refused"
    await storage.close()
    again = await SqliteStorage.open(path)  # the child still lives
    await again.close()
    for descriptor in (hold, told, tell):
        os.close(descriptor)
    assert (await asyncio.to_thread(os.waitpid, child, 0))[1] == 0


def sleeper() -> subprocess.Popen[bytes]:
    return subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"], close_fds=False)


async def test_a_started_program_inherits_no_lock(tmp_path: Path) -> None:
    storage = await SqliteStorage.open(tmp_path / "a.sqlite")
    sleeping = sleeper()
    try:
        await storage.close()
        again = await SqliteStorage.open(tmp_path / "a.sqlite")
        await again.close()
    finally:
        sleeping.kill()
        sleeping.wait()
