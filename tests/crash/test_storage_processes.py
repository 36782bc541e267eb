"""Stores in real processes: kills, two owners, many writers, exits (cases D03, D10, L06, S01, S02, UI-K09, UI-K12)."""

from __future__ import annotations

import asyncio
import os
import signal
import sqlite3
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from durable_tui.storage import SessionLocked, SqliteReader, SqliteStorage
from tests.tools.batches import begin, entry, put

pytestmark = pytest.mark.crash

ROOT = Path(__file__).parents[2]
PRELUDE = """
import asyncio, os, signal, sys, time
from durable_tui.storage import SqliteReader, SessionLocked, SqliteStorage, StorageError
from durable_tui.storage.records import Batch

def entry(storage, data=None):
    return {"id": storage.mint_id(), "conversationId": 1, "kind": "pi.user", "data": data}

async def put(storage, **records):
    seq = storage.mint_seq()
    await storage.commit(Batch(seq, int(time.time() * 1000), **records))
    return seq

path = sys.argv[1]
"""
WRITER = """
async def main():
    storage = await SqliteStorage.open(path, sys.argv[2])
    print("open", storage.epoch, flush=True)
    while True:
        print(await put(storage, entries=[entry(storage, "x" * 300)]), flush=True)
asyncio.run(main())
"""


def start(code: str, *arguments: object) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", PRELUDE + code, *map(str, arguments)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        cwd=ROOT,
    )


def finished(process: subprocess.Popen[str]) -> str:
    out, err = process.communicate(timeout=120)
    assert process.returncode == 0, err
    return out


def whole(path: Path) -> None:
    raw = sqlite3.connect(path)
    assert raw.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
    assert raw.execute("PRAGMA foreign_key_check").fetchall() == []
    raw.close()


async def fresh(path: Path) -> None:
    storage = await SqliteStorage.open(path)
    await begin(storage)
    await storage.close()


@pytest.mark.parametrize("durability", ["process", "intents", "power"])
async def test_s02_kill_9_keeps_what_was_acknowledged_and_frees_the_lock(tmp_path: Path, durability: str) -> None:
    path = tmp_path / "a.sqlite"
    await fresh(path)
    acknowledged = 1
    for round_number in range(4):
        writer = start(WRITER, path, durability)
        assert writer.stdout is not None
        assert writer.stdout.readline() == f"open {2 * round_number + 2}\n"
        for _ in range(5 + 23 * round_number):
            acknowledged = int(writer.stdout.readline())
        with pytest.raises(SessionLocked) as locked:
            await SqliteStorage.open(path)
        assert locked.value.owner["pid"] == writer.pid and str(writer.pid) in str(locked.value)
        writer.kill()
        rest, _ = writer.communicate()
        acknowledged = max([acknowledged, *map(int, rest.splitlines()[:-1])])
        storage = await SqliteStorage.open(path)
        stored = [row.seq for row in await storage.commits(limit=100_000)]
        assert acknowledged <= stored[-1] <= acknowledged + 2
        assert stored == sorted(set(stored))
        entries = await storage.entries(1, limit=100_000)
        assert [found.seq for found in entries] == stored[1:]
        assert storage.previous is not None and storage.previous.closed_at is None
        assert storage.previous.pid == writer.pid and storage.former_owner == "dead"
        assert storage.mint_id() > entries[-1].record["id"] and storage.mint_seq() > stored[-1]
        await storage.close()
    whole(path)


async def test_s02_a_forked_child_that_outlives_its_owner_keeps_no_lock(tmp_path: Path) -> None:
    path = tmp_path / "a.sqlite"
    owner = start(
        """
async def main():
    storage = await SqliteStorage.open(path)
    await put(storage, conversations=[{"id": storage.mint_id()}])
    child = os.fork()
    if child == 0:
        time.sleep(60)
        os._exit(0)
    print(child, flush=True)
    await asyncio.sleep(60)
asyncio.run(main())
""",
        path,
    )
    assert owner.stdout is not None
    child = int(owner.stdout.readline())
    try:
        owner.kill()
        owner.wait()
        storage = await SqliteStorage.open(path)
        assert storage.former_owner == "dead" and await storage.conversations() == [{"id": 1}]
        await storage.close()
    finally:
        os.kill(child, signal.SIGKILL)
        owner.communicate()


async def test_s01_ui_k09_a_second_process_is_refused_and_may_follow(tmp_path: Path) -> None:
    path = tmp_path / "a.sqlite"
    owner = await SqliteStorage.open(path)
    await begin(owner)
    second = start(
        """
async def main():
    try:
        await SqliteStorage.open(path)
    except SessionLocked as error:
        print(error.owner["pid"], error.owner["host"], error.owner["startedAt"], flush=True)
    reader = await SqliteReader.open(path)
    print(await reader.poll_seq(), flush=True)
    while await reader.poll_seq() < 4:
        time.sleep(0.01)
    print(await reader.poll_seq(), len(await reader.entries(1)), flush=True)
    await reader.close()
asyncio.run(main())
""",
        path,
    )
    assert second.stdout is not None
    pid, host, started = second.stdout.readline().split()
    assert int(pid) == os.getpid() and host and abs(int(started) - time.time() * 1000) < 60_000
    assert second.stdout.readline() == "1\n"
    for _ in range(3):
        await put(owner, entries=[entry(owner.mint_id())])
        await asyncio.sleep(0.05)
    assert await asyncio.to_thread(second.stdout.readline) == "4 3\n"
    second.wait(30)
    await owner.close()
    third = start(
        """
async def main():
    storage = await SqliteStorage.open(path)
    print(await put(storage, entries=[entry(storage)]))
    await storage.close()
asyncio.run(main())
""",
        path,
    )
    assert int(finished(third)) == 5
    again = await SqliteStorage.open(path)
    assert [found.record["id"] for found in await again.entries(1)] == [2, 3, 4, 5]
    await again.close()


async def test_s01_many_processes_open_one_session_and_one_owns_it(tmp_path: Path) -> None:
    code = """
async def main():
    for _ in range(15):
        try:
            storage = await SqliteStorage.open(path)
        except SessionLocked:
            continue
        if not await storage.conversations():
            await put(storage, conversations=[{"id": storage.mint_id()}])
        for _ in range(3):
            print(await put(storage, entries=[entry(storage, os.getpid())]))
        await storage.close()
asyncio.run(main())
"""
    path = tmp_path / "a.sqlite"
    everyone = [start(code, path) for _ in range(4)]
    seqs = [int(line) for process in everyone for line in finished(process).split()]
    assert seqs and len(seqs) == len(set(seqs))
    storage = await SqliteStorage.open(path)
    entries = await storage.entries(1, limit=100_000)
    assert sorted(found.seq for found in entries) == sorted(seqs)
    assert all(row.closed_at is not None for row in (await storage.owners())[:-1])
    await storage.close()
    assert os.listdir(tmp_path) == ["a.sqlite"]
    whole(path)


async def test_d03_a_write_waits_for_another_programs_write(tmp_path: Path) -> None:
    path = tmp_path / "a.sqlite"
    storage = await SqliteStorage.open(path)
    await begin(storage)
    other = start(
        """
import sqlite3
raw = sqlite3.connect(path, isolation_level=None)
raw.execute("BEGIN IMMEDIATE")
raw.execute("UPDATE session SET created_at = 5")
print("writing", flush=True)
time.sleep(0.7)
raw.execute("COMMIT")
""",
        path,
    )
    assert other.stdout is not None and other.stdout.readline() == "writing\n"
    # Reads before do not pin an old snapshot, so the write waits instead of failing at once.
    assert await storage.entries(1) == []
    began = time.monotonic()
    await put(storage, entries=[entry(storage.mint_id())])
    assert time.monotonic() - began > 0.2
    finished(other)
    assert len(await storage.entries(1)) == 1
    await storage.close()


async def test_d10_sessions_of_one_folder_opened_and_closed_again_and_again(tmp_path: Path) -> None:
    code = """
async def main():
    for _ in range(200):
        storage = await SqliteStorage.open(path, "process")
        if not await storage.conversations():
            await put(storage, conversations=[{"id": storage.mint_id()}])
        await put(storage, entries=[entry(storage)])
        await storage.close()
asyncio.run(main())
"""
    defaults = """
import sqlite3
for number in range(200):
    raw = sqlite3.connect(path)
    raw.execute("CREATE TABLE IF NOT EXISTS notes (a)")
    raw.execute("INSERT INTO notes VALUES (1)")
    raw.commit()
    raw.close()
"""
    paths = [tmp_path / f"{number}.sqlite" for number in range(3)]
    everyone = [start(code, path) for path in paths] + [start(defaults, tmp_path / "plain.sqlite")]
    # A look from outside at each of them meanwhile, with default settings.
    for _ in range(50):
        for path in paths:
            if path.exists():
                reader = await SqliteReader.open(path)
                await reader.poll_seq()
                await reader.close()
    for process in everyone:
        finished(process)
    for path in paths:
        storage = await SqliteStorage.open(path)
        assert len(await storage.entries(1)) == 200 and storage.epoch == 201
        await storage.close()
        whole(path)
    assert sorted(os.listdir(tmp_path)) == ["0.sqlite", "1.sqlite", "2.sqlite", "plain.sqlite"]


def test_ui_k12_thirty_processes_write_their_sessions_at_once(tmp_path: Path) -> None:
    code = """
async def main():
    storage = await SqliteStorage.open(path)
    await put(storage, conversations=[{"id": storage.mint_id()}])
    for _ in range(50):
        await put(storage, entries=[entry(storage)])
    await storage.close()
asyncio.run(main())
"""
    everyone = [start(code, tmp_path / f"{number}.sqlite") for number in range(30)]
    for process in everyone:
        finished(process)
    for number in range(30):
        raw = sqlite3.connect(tmp_path / f"{number}.sqlite")
        assert raw.execute("SELECT count(*) FROM entries").fetchone() == (50,)
        raw.close()


ENDS: dict[str, tuple[str, int]] = {
    "normal": ("await storage.close()", 0),
    "no close": ("return", 0),
    "exception": ("raise ValueError('in a turn')", 1),
    "exit": ("sys.exit(7)", 7),
    "raised exit in a task": ("asyncio.ensure_future(leave()); await asyncio.sleep(30)", 7),
    "sigterm": ("os.kill(os.getpid(), signal.SIGTERM); await asyncio.sleep(30)", -signal.SIGTERM),
    "sigint": ("os.kill(os.getpid(), signal.SIGINT); await asyncio.sleep(30)", -signal.SIGINT),
    "a read under way": (
        "asyncio.ensure_future(storage._thread.run(lambda _: time.sleep(20))); await asyncio.sleep(0.1)",
        0,
    ),
    "a commit in flight": ("asyncio.ensure_future(put(storage, entries=[entry(storage)])); return", 0),
}


@pytest.mark.parametrize("end", ENDS)
async def test_l06_the_process_ends_however_it_ends(tmp_path: Path, end: str) -> None:
    statement, status = ENDS[end]
    code = f"""
async def leave():
    sys.exit(7)
async def main():
    storage = await SqliteStorage.open(path)
    await put(storage, conversations=[{{"id": storage.mint_id()}}])
    print(await put(storage, entries=[entry(storage)]), flush=True)
    {statement}
asyncio.run(main())
"""
    process = start(code, tmp_path / "a.sqlite")
    assert process.stdout is not None and process.stdout.readline() == "2\n"
    _, err = await asyncio.to_thread(process.communicate, timeout=3)
    assert process.returncode == status, err
    if end not in ("exception", "sigint", "raised exit in a task"):  # Python's own, of what the caller raised
        assert "Traceback" not in err, err
    storage = await SqliteStorage.open(tmp_path / "a.sqlite")
    assert 2 <= await storage.poll_seq() <= 3
    assert storage.previous is not None and (storage.previous.closed_at is not None) == (end == "normal")
    assert storage.former_owner == "dead"
    await storage.close()


async def test_d07_a_kill_in_the_middle_of_a_migration_leaves_the_file_as_it_was(tmp_path: Path) -> None:
    path = tmp_path / "a.sqlite"
    await fresh(path)
    migrating = start(
        """
from durable_tui.storage.sqlite import opening, schema
schema.VERSION = 4
schema.MIGRATIONS = {2: ("ALTER TABLE tasks ADD COLUMN one TEXT",), 3: ("UPDATE session SET next_id = slowly()",)}
inner = opening.set_pragmas
def slow(raw):
    inner(raw)
    def slowly():
        print("now", flush=True)
        time.sleep(60)
    raw.create_function("slowly", 0, slowly)
opening.set_pragmas = slow
asyncio.run(SqliteStorage.open(path))
""",
        path,
    )
    assert migrating.stdout is not None and migrating.stdout.readline() == "now\n"
    migrating.kill()
    migrating.communicate()
    storage = await SqliteStorage.open(path)
    columns: Any = await storage._thread.run(lambda handle: handle.raw.execute("PRAGMA table_info(tasks)").fetchall())
    assert "one" not in [column[1] for column in columns]
    assert storage.epoch == 2 and await storage.conversations() == [{"id": 1}]
    await storage.close()


async def test_spec_4_a_kill_while_a_session_is_made_leaves_none_or_a_whole_one(tmp_path: Path) -> None:
    code = "asyncio.run(SqliteStorage.open(path))\nprint('done', flush=True)\ntime.sleep(60)"
    warm = start(code, tmp_path / "warm.sqlite")
    began = time.monotonic()
    assert warm.stdout is not None and warm.stdout.readline() == "done\n"
    usual = time.monotonic() - began
    warm.kill()
    warm.communicate()
    for number in range(12):
        path = tmp_path / f"{number}.sqlite"
        process = start(code, path)
        await asyncio.sleep(usual * (0.5 + number / 20))
        process.kill()
        process.communicate()
        storage = await SqliteStorage.open(path)
        assert storage.epoch in (1, 2) and storage.mint_id() == 1
        await storage.close()
    left = [name for name in os.listdir(tmp_path) if not name.endswith(".sqlite") and not name.startswith("warm")]
    assert left == [], "a later opening removes what a death in the middle left"
