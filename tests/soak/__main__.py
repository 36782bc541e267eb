"""The long forms of the random tests, for as long as one likes.

    python -m tests.soak NAME --count N --seed S

`kills` (deaths of a worker), `schedules` (random hands on random schedules), `prefixes` (deaths in memory, twice each),
`races` (several workers for one session), `power` (cuts of the power). Prints the seed and figures; the same seed makes
the same choices. Exits 1 when a check fails.
"""

from __future__ import annotations

import argparse
import asyncio
import random
import sys
import tempfile
import time
import traceback
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import Any

from durable_tui.storage import MemoryStorage
from tests.scenarios.test_prefixes import SCENARIOS, Recorded, record, recover
from tests.tools.chaos import Chaos
from tests.tools.crashes import TURNS, Crashes
from tests.tools.power_cuts import losses
from tests.tools.schedules import run
from tests.tools.strict_server import StrictServer

Figures = Counter[str]
WORKERS = 3


def _crashes(folder: Path, server: StrictServer, number: int) -> Crashes:
    place = folder / str(number)
    place.mkdir()
    return Crashes(place, server)


async def kills(folder: Path, count: int, seed: int) -> Figures:
    """Kill the worker of `count` sessions around commits, and in the middle of anything, until each is finished."""
    rng, figures = random.Random(seed), Figures()
    with StrictServer(folder / "requests.jsonl") as server:
        for number in range(count):
            crashes = _crashes(folder, server, number)
            while True:
                if rng.random() < 0.5:
                    point = f"{rng.choice(['before', 'after'])}:{rng.randint(1, 12)}"
                    ended = crashes.run(TURNS, "--die", point, "--restart-limit", "1000")
                else:
                    process = crashes.start(TURNS, "--restart-limit", "1000")
                    ended = crashes.processes.kill_after(process, rng.uniform(0.2, 1.5))
                if not ended.killed:
                    break
                figures["deaths"] += 1
            assert crashes.settled(ended)["text"] == "All of it is done.", ended
            await crashes.check()
            figures["sessions"] += 1
    return figures


async def races(folder: Path, count: int, seed: int) -> Figures:
    """Let workers race for `count` sessions, one of them to be killed: one owns, nothing is done by two."""
    rng, figures = random.Random(seed), Figures()
    with StrictServer(folder / "requests.jsonl") as server:
        for number in range(count):
            crashes = _crashes(folder, server, number)
            finished = []
            while not finished:
                point = f"{rng.choice(['before', 'after'])}:{rng.randint(1, 12)}"
                processes = [crashes.start(TURNS, "--restart-limit", "1000", "--die", point)]
                processes += [crashes.start(TURNS, "--restart-limit", "1000") for _ in range(WORKERS - 1)]
                every = [crashes.processes.finish(process) for process in processes]
                for ended in every:
                    refused = ended.status != 0 and not ended.killed
                    assert not refused or "SessionLocked" in ended.stderr, ended
                    figures["refused" if refused else "killed" if ended.killed else "finished"] += 1
                finished = [ended for ended in every if ended.status == 0]
            assert all(crashes.settled(ended)["text"] == "All of it is done." for ended in finished)
            await crashes.check()
            figures["sessions"] += 1
    return figures


async def prefixes(folder: Path, count: int, seed: int) -> Figures:
    """Recover `count` times from a random commit of a recorded conversation, and from one of that recovery."""
    rng, figures = random.Random(seed), Figures()
    recordings: dict[str, Recorded] = {}
    for _ in range(count):
        scenario = rng.choice(SCENARIOS)
        if scenario.name not in recordings:
            recordings[scenario.name] = await record(scenario, MemoryStorage(record=True), drive=scenario.drive)
        whole = recordings[scenario.name]
        length = rng.randint(0, len(whole.batches))
        earlier = whole.happened(length, late=rng.random() < 0.5)
        first = await recover(scenario, whole.batches[:length], earlier, whole.owners)
        inner = rng.randint(0, len(first.batches))
        more = [*earlier, *first.happened(inner, late=rng.random() < 0.5)]
        try:
            await recover(scenario, [*whole.batches[:length], *first.batches[:inner]], more, first.owners)
        except BaseException as error:
            error.add_note(f"{scenario.name}: {length} commits, then {inner} of the recovery")
            raise
        figures["recoveries"] += 2
    return figures


async def power(folder: Path, count: int, seed: int) -> Figures:
    """Cut the power `count` times at each durability level: what had to be flushed is there."""
    figures = Figures()
    for level in ("process", "intents", "power"):
        place = folder / level
        place.mkdir()
        flushed, others = await losses(place, level, count, seed)
        assert level == "process" or flushed == 0, f"{level}: {flushed} commits that had to be flushed were lost"
        assert level != "power" or others == 0, f"{level}: {others} acknowledged commits were lost"
        figures["cuts"] += count
        figures[f"{level}: lost"] = flushed + others
    return figures


def schedules(count: int, seed: int) -> Figures:
    """Put `count` sessions under random hands on random schedules."""
    figures = Figures()
    for one in range(seed, seed + count):
        chaos = Chaos(one)
        try:
            run(chaos.live(), one)
        except BaseException as error:
            error.add_note(f"schedule {one}")
            raise
        figures["sessions"] += 1
        figures["commits"] += len(chaos.batches)
    return figures


NAMES: dict[str, Callable[[Path, int, int], Awaitable[Figures]]] = {
    "kills": kills, "prefixes": prefixes, "races": races, "power": power
}  # fmt: skip


def main(words: Sequence[str] | None = None) -> int:
    """Run one of them; return 1 when a check failed."""
    parser = argparse.ArgumentParser(prog="python -m tests.soak", description="the long forms of the random tests")
    parser.add_argument("name", choices=sorted([*NAMES, "schedules"]))
    parser.add_argument("--count", type=int, default=10, metavar="N", help="sessions, recoveries or cuts")
    parser.add_argument("--seed", type=int, metavar="S", help="that of an earlier run, to make its choices again")
    options = parser.parse_args(words)
    seed: int = random.SystemRandom().randrange(1 << 30) if options.seed is None else options.seed
    print(f"{options.name} --count {options.count} --seed {seed}", flush=True)
    started = time.monotonic()
    try:
        with tempfile.TemporaryDirectory(prefix="durable-tui-soak-") as folder:
            figures: Any
            if options.name == "schedules":
                figures = schedules(options.count, seed)
            else:
                figures = asyncio.run(_awaited(NAMES[options.name](Path(folder), options.count, seed)))
    except Exception:  # noqa: BLE001 - whatever went wrong, the seed is told
        traceback.print_exc()
        print(f"FAILED: python -m tests.soak {options.name} --count {options.count} --seed {seed}")
        return 1
    told = ", ".join(f"{number} {what}" for what, number in figures.items())
    print(f"{told}; {time.monotonic() - started:.0f} s")
    return 0


async def _awaited(work: Awaitable[Figures]) -> Figures:
    return await work


if __name__ == "__main__":
    sys.exit(main())
