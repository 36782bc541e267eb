"""Growth: appending to a long transcript, and opening a long session with unfinished work.

An append is a commit with one entry, its watch frame, and the screen's adapter taking the frame in, at 100,000 entries
against 100 (spec 25: at most 1.2). Opening is the store, the live tasks and the recovery commit, at 1,000,000 entries
against 1,000 (at most 1.2), once after a clean end and once as a death left it, where small files are checked whole.

    python tests/bench/append.py [--quick]
"""

from __future__ import annotations

import asyncio
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from durable_tui.harness.harness import Harness
from durable_tui.storage.sqlite.inspection import CHECK_BYTES
from durable_tui.ui.adapter.screen import ScreenModel
from durable_tui.ui.adapter.transcript_model import TranscriptModel
from tests.bench.measuring import Result, alone, median, show
from tests.tools import bigsession

TAIL = 200
LINES = "The next line of a long conversation, said once more.\n" * 3


class Appender:
    """One session, watched as the screen watches it; `tail=None` takes every entry into memory first."""

    def __init__(self, path: Path, tail: int | None) -> None:
        self.path = path
        self.tail = tail
        self.harness: Harness
        self.times: list[float] = []

    async def open(self) -> None:
        _, self.harness, _ = await bigsession.open_silent(self.path, "bench/m")
        self.root = await self.harness.root()
        self.model = ScreenModel(TranscriptModel())
        self.watch = self.harness.watch(self.root.id, tail=self.tail)
        self.model.apply(await anext(self.watch))

    async def append(self) -> None:
        before = len(self.model.transcript.blocks)
        began = time.perf_counter()
        async with self.harness.commit() as tx:
            message = {"role": "user", "content": LINES, "timestamp": bigsession.AT}
            tx.append(1, "pi.user", model=[message])
        self.model.apply(await anext(self.watch))
        self.times.append(time.perf_counter() - began)
        assert len(self.model.transcript.blocks) > before


async def appending(folder: Path, small: int, large: int, rounds: int, tail: int | None, name: str) -> Result:
    appenders = [Appender(folder / f"{size}.sqlite", tail) for size in (small, large)]
    for appender in appenders:
        await appender.open()
    for index in range(rounds):
        for appender in appenders if index % 2 else reversed(appenders):
            await appender.append()
    for appender in appenders:
        await appender.harness.close()
    one, other = (median(appender.times) for appender in appenders)
    detail = f"{show(one)} at {small:,} → {show(other)} at {large:,} ({rounds} appends each)"
    return Result(name, other / one, 1.2, detail)


async def opening(folder: Path, small: int, sizes: Sequence[int], rounds: int) -> list[Result]:
    """After a clean end, and as a death left it: then a file of up to 32 MB is checked whole, for a quarter second."""
    times: dict[tuple[int, bool], list[float]] = {}
    for _ in range(rounds):
        for size in (small, *sizes):
            path = folder / f"open-{size}.sqlite"
            await bigsession.leave_unfinished(path)
            for clean in (False, True):
                began = time.perf_counter()
                _, harness, _ = await bigsession.open_silent(path, "bench/m")
                found = harness.inspect()
                times.setdefault((size, clean), []).append(time.perf_counter() - began)
                assert found, "the unfinished run was not found"
                if clean:
                    for row in found:
                        await harness.conversation(row["conversationId"]).abort()
                await harness.close()
    results = []
    for size in sizes:
        checked = (folder / f"open-{size}.sqlite").stat().st_size <= CHECK_BYTES
        for clean in (True, False):
            one, other = median(times[small, clean]), median(times[size, clean])
            name = f"open + find unfinished at {size:,} / {small:,}, " + ("clean end" if clean else "after a death")
            detail = f"{show(one)} → {show(other)} ({rounds} openings each)"
            if checked and not clean:
                detail += ", the file is checked whole"
            results.append(Result(name, other / one, None if checked and not clean else 1.2, detail))
    return results


async def measure(quick: bool) -> list[Result]:
    small, large, rounds = (100, 5_000, 100) if quick else (100, 100_000, 1_000)
    results = []
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for size in (small, large):
            await bigsession.make(folder / f"{size}.sqlite", size)
        title = f"append at {large:,} entries / {small:,}"
        results.append(await appending(folder, small, large, rounds, TAIL, f"{title}, tail of {TAIL}"))
        results.append(await appending(folder, small, large, rounds, None, f"{title}, all in memory"))
        few, sizes, openings = (1_000, [20_000], 5) if quick else (1_000, [50_000, 1_000_000], 25)
        for size in (few, *sizes):
            await bigsession.make(folder / f"open-{size}.sqlite", size, lines=1)
        results += await opening(folder, few, sizes, openings)
    return results


def bench(quick: bool = False) -> list[Result]:
    return asyncio.run(measure(quick))


if __name__ == "__main__":
    alone(bench, __doc__)
