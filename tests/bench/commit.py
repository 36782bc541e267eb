"""A tool-result commit (entry + task + document delta) beside the same rows by raw sqlite3 with one empty thread hop.

Interleaved in one run, in blocks and in changing order, for each durability (spec 25: at most 1.5).

    python tests/bench/commit.py [--quick]
"""

from __future__ import annotations

import asyncio
import json
import sqlite3
import sys
import tempfile
import threading
import time
from pathlib import Path
from queue import SimpleQueue
from typing import Any

if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from durable_tui.delta import freeze
from durable_tui.storage import SqliteStorage
from durable_tui.storage.records import Batch, Revision
from durable_tui.storage.sqlite.schema import STATEMENTS
from tests.bench.measuring import Result, alone, median, show

TEXT = "12 lines of config\n" * 40


def entry(entry_id: int) -> Any:
    message = {"role": "toolResult", "toolCallId": "c1", "toolName": "read", "isError": False, "timestamp": 1}
    message["content"] = [{"type": "text", "text": TEXT}]
    return freeze(
        {"id": entry_id, "conversationId": 1, "kind": "pi.tool-result", "model": [message], "data": {"diagnostics": []}}
    )


def task(task_id: int) -> Any:
    state = {"status": "terminal", "outcome": {"status": "completed", "result": {"entryId": 9}}}
    return freeze(
        {
            "id": task_id,
            "conversationId": 1,
            "kind": "pi.tool",
            "version": 1,
            "input": {"assistant": 4, "callId": "c1"},
            "background": False,
            "abortRequested": False,
            "state": state,
        }
    )


OPS = freeze([["s", ["tools", 0, "status"], "done"], ["s", ["tools", 0, "entry"], 12]])


class Raw:
    """The same rows by hand, on a thread that is handed one function a commit."""

    def __init__(self, path: str, synchronous: str) -> None:
        self.raw = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
        self.raw.execute("PRAGMA journal_mode=WAL")
        self.raw.execute(f"PRAGMA synchronous={synchronous}")
        self.raw.execute("PRAGMA wal_autocheckpoint=16384")
        for statement in STATEMENTS:
            self.raw.execute(statement)
        self.raw.execute("INSERT INTO session VALUES (1, 1, 1, 0)")
        self.queue: SimpleQueue[Any] = SimpleQueue()
        threading.Thread(target=self.serve, daemon=True).start()

    def serve(self) -> None:
        while True:
            future, job = self.queue.get()
            job()
            future.get_loop().call_soon_threadsafe(future.set_result, None)

    async def hop(self, job: Any) -> None:
        future = asyncio.get_running_loop().create_future()
        self.queue.put((future, job))
        await future

    def write(self, seq: int, entry_id: int, task_id: int) -> None:
        execute = self.raw.execute
        execute("BEGIN IMMEDIATE")
        execute("INSERT INTO commits VALUES (?, ?, ?)", (seq, seq, 1))
        execute("UPDATE session SET next_id = ?, next_seq = ?", (task_id + 1, seq + 1))
        written = json.dumps(entry(entry_id), ensure_ascii=False, separators=(",", ":"))
        execute("INSERT INTO entries VALUES (?, 1, 'pi.tool-result', NULL, ?, ?)", (entry_id, seq, written))
        written = json.dumps(task(task_id), ensure_ascii=False, separators=(",", ":"))
        execute("INSERT INTO tasks VALUES (?, 1, 'pi.tool', 'terminal', 0, 0, ?, NULL)", (task_id, written))
        written = json.dumps(OPS, ensure_ascii=False, separators=(",", ":"))
        execute("INSERT INTO document_revisions VALUES (3, ?, 'delta', 1, ?)", (seq, written))
        execute("COMMIT")


async def measure(rounds: int, durability: Any, synchronous: str) -> Result:
    with tempfile.TemporaryDirectory() as folder:
        storage = await SqliteStorage.open(Path(folder) / "ours.sqlite", durability)
        raw = Raw(str(Path(folder) / "raw.sqlite"), synchronous)
        document: Any = {"id": 3, "kind": "pi.live", "scope": {"kind": "session"}, "createdAt": 1}
        raw.raw.execute("INSERT INTO documents VALUES (3, 'pi.live', NULL, 'session', 0, 1, NULL, '{}')")
        start = Batch(storage.mint_seq(), 1, documents=[document], revisions=[Revision(3, "base", 1, {})])
        await storage.commit(start)

        async def ours(index: int) -> None:
            batch = Batch(
                storage.mint_seq(), index, entries=[entry(storage.mint_id())], tasks=[task(storage.mint_id())]
            )
            batch.revisions.append(Revision(3, "delta", 1, OPS))
            await storage.commit(batch)

        async def theirs(index: int) -> None:
            await raw.hop(lambda: None)
            raw.write(index + 2, 2 * index + 10, 2 * index + 11)

        times: dict[Any, list[float]] = {ours: [], theirs: []}
        for index in range(rounds):
            # A flush of one file also carries what the file system owes for the other: neither is always second.
            for contender in (ours, theirs) if index % 2 else (theirs, ours):
                began = time.perf_counter()
                await contender(index)
                times[contender].append(time.perf_counter() - began)
        await storage.close()
        one, other = median(times[ours]), median(times[theirs])
        detail = f"ours {show(one)}, raw + hop {show(other)}, {rounds} commits each"
        return Result(f"commit / raw sqlite3 + one hop, {durability}", one / other, 1.5, detail)


def bench(quick: bool = False) -> list[Result]:
    rounds = 200 if quick else 3000
    modes = (("process", "NORMAL"), ("intents", "FULL"), ("power", "FULL"))
    return [asyncio.run(measure(rounds, durability, synchronous)) for durability, synchronous in modes]


if __name__ == "__main__":
    alone(bench, __doc__)
