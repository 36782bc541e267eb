"""A session is brought to this version whole or not at all, whenever the process dies or the power goes (case D07)."""

from __future__ import annotations

import asyncio
import random
import shutil
import signal
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest

from durable_tui.storage import SqliteStorage
from durable_tui.storage.sqlite import schema
from tests.tools.powerloss import record, restore
from tests.tools.version_1 import TABLES, VERSION_1, check_reads, rows

pytestmark = pytest.mark.crash

ROOT = Path(__file__).parents[2]

# Opens the session PATH, and dies of SIGKILL before the POINT-th statement from the first BEGIN on ("statement"), or
# when SQLite has done POINT times 20 steps of its machine since then ("step").
DYING = """
import asyncio, os, signal, sqlite3, sys
from durable_tui.storage import SqliteStorage
from durable_tui.storage.sqlite import inspection, opening

path, kind, left = sys.argv[1], sys.argv[2], int(sys.argv[3])

def pass_one():
    global left
    left -= 1
    if not left:
        os.kill(os.getpid(), signal.SIGKILL)

class Dying(sqlite3.Connection):
    counting = False

    def execute(self, sql, *values):
        if sql.startswith("BEGIN") and not self.counting:
            self.counting = True
            if kind == "step":
                self.set_progress_handler(pass_one, 20)
        if self.counting and kind == "statement":
            pass_one()
        return super().execute(sql, *values)

def connect(path, query):
    return sqlite3.connect(f"file:{path}?{query}", uri=True, isolation_level=None, check_same_thread=False, factory=Dying)

opening.connect = connect

async def main():
    storage = await SqliteStorage.open(path)
    await storage.abandon()

asyncio.run(main())
"""
POWERED = """
import asyncio, os, sys
from pathlib import Path
from durable_tui.storage import SqliteStorage

path, source = sys.argv[1:]
descriptor = os.open(path, os.O_WRONLY | os.O_CREAT)
os.write(descriptor, Path(source).read_bytes())
os.fsync(descriptor)
os.close(descriptor)

async def main():
    await (await SqliteStorage.open(path)).close()

asyncio.run(main())
"""


async def good(path: Path) -> int:
    """The version of a whole session that has all its records; it is opened and closed after that."""
    with closing(sqlite3.connect(path)) as raw:
        version = int(raw.execute("PRAGMA user_version").fetchone()[0])
        names = {row[0] for row in raw.execute("SELECT name FROM sqlite_master")}
        columns = {row[1] for row in raw.execute("PRAGMA table_info(tasks)")}
        assert raw.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
    new = {"flight", "tasks_wake", "documents_scope"}
    assert version in (1, schema.VERSION)
    assert (names & new, "wake_at" in columns) == ((set(), False) if version == 1 else (new, True))
    for table in set(TABLES) - {"owners"}:
        assert rows(path, table) == rows(VERSION_1, table), "closing the connection moved the log into the file"
    assert rows(path, "owners")[:2] == rows(VERSION_1, "owners")
    storage = await SqliteStorage.open(path)
    await check_reads(storage)
    await storage.close()
    return version


@pytest.mark.parametrize("kind", ["statement", "step"])
async def test_d07_a_kill_at_any_moment_leaves_one_version_or_the_other(tmp_path: Path, kind: str) -> None:
    seen: list[int] = []
    point = 1
    while True:
        path = Path(shutil.copy(VERSION_1, tmp_path / f"{point}.sqlite"))
        arguments = [sys.executable, "-c", DYING, str(path), kind, str(point)]
        process = await asyncio.to_thread(subprocess.run, arguments, cwd=ROOT, capture_output=True, text=True)
        assert process.returncode in (0, -signal.SIGKILL), process.stderr
        seen.append(await good(path))
        if process.returncode == 0:
            break
        point += 1 if kind == "statement" else max(1, point // 3)
    assert seen == sorted(seen) and seen.count(1) >= 6 and seen[-1] == schema.VERSION
    assert kind == "step" or seen[-2] == schema.VERSION, "a death after the COMMIT"


async def test_d07_a_power_cut_at_any_moment_leaves_one_version_or_the_other(tmp_path: Path) -> None:
    seed = random.SystemRandom().randrange(1 << 30)
    print(f"seed {seed}")
    rng = random.Random(seed)
    events = record(["-c", POWERED, str(tmp_path / "job.sqlite"), str(VERSION_1)], tmp_path, "job")
    copied = next(i for i, event in enumerate(events) if event.kind == "S")
    seen = []
    for cut in range(copied + 1, len(events) + 1):
        folder = tmp_path / f"cut{cut}"
        folder.mkdir()
        for path, content in restore(events[:cut], rng).items():
            if not path.endswith((".lock", "-shm")):
                (folder / Path(path).name).write_bytes(content)
        seen.append(await good(folder / "job.sqlite"))
    assert set(seen) == {1, schema.VERSION}
