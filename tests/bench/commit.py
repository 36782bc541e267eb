"""A tool-result commit (entry + task + document delta) beside the same rows by raw sqlite3 with one empty thread hop.

Interleaved in one run; prints medians in microseconds and the ratio (DESIGN 8: at most 1.5).

    python -m tests.bench.commit [--rounds N]
"""

from __future__ import annotations

import argparse
import asyncio
import json
import sqlite3
import statistics
import tempfile
import threading
import time
from pathlib import Path
from queue import SimpleQueue
from typing import Any

from durable_tui.delta import freeze
from durable_tui.storage import SqliteStorage
from durable_tui.storage.records import Batch, Revision
from durable_tui.storage.schema import STATEMENTS

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
        execute("INSERT INTO tasks VALUES (?, 1, 'pi.tool', 'terminal', 0, 0, ?)", (task_id, written))
        written = json.dumps(OPS, ensure_ascii=False, separators=(",", ":"))
        execute("INSERT INTO document_revisions VALUES (3, ?, 'delta', 1, ?)", (seq, written))
        execute("COMMIT")


async def measure(rounds: int, durability: Any, synchronous: str) -> None:
    with tempfile.TemporaryDirectory() as folder:
        storage = await SqliteStorage.open(Path(folder) / "ours.sqlite", durability)
        raw = Raw(str(Path(folder) / "raw.sqlite"), synchronous)
        document: Any = {"id": 3, "kind": "pi.live", "scope": {"kind": "session"}, "createdAt": 1}
        raw.raw.execute("INSERT INTO documents VALUES (3, 'pi.live', NULL, 'session', 0, 1, NULL, '{}')")
        start = Batch(storage.mint_seq(), 1, documents=[document], revisions=[Revision(3, "base", 1, {})])
        await storage.commit(start)
        ours: list[float] = []
        theirs: list[float] = []
        for index in range(rounds):
            seq, entry_id, task_id = storage.mint_seq(), storage.mint_id(), storage.mint_id()
            began = time.perf_counter()
            batch = Batch(seq, index, entries=[entry(entry_id)], tasks=[task(task_id)])
            batch.revisions.append(Revision(3, "delta", 1, OPS))
            await storage.commit(batch)
            between = time.perf_counter()
            await raw.hop(lambda: None)
            raw.write(seq, entry_id, task_id)
            ended = time.perf_counter()
            ours.append(between - began)
            theirs.append(ended - between)
        await storage.close()
        one, other = statistics.median(ours) * 1e6, statistics.median(theirs) * 1e6
        print(f"{durability:8} ours {one:7.1f}   raw + hop {other:7.1f}   ratio {one / other:.2f}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=3000)
    rounds = parser.parse_args().rounds
    for durability, synchronous in (("process", "NORMAL"), ("intents", "FULL"), ("power", "FULL")):
        asyncio.run(measure(rounds, durability, synchronous))


if __name__ == "__main__":
    main()
