"""Power loss: what each durability level promises, against every kind of cut (spec 4, 4.1).

A recorder under the real SQLite notes every write and sync of a worker; each cut rebuilds the files as a disk might
hold them, and a fresh process opens them. `process` is the control: it must be seen to lose acknowledged commits.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from durable_tui.session import Session
from durable_tui.storage import SqliteStorage
from tests.tools.power_worker import NOTES
from tests.tools.powerloss import HERE, Event, record, restore

pytestmark = pytest.mark.crash

CUTS = 120


def recorded(folder: Path, durability: str) -> list[Event]:
    return record([str(HERE / "power_worker.py"), str(folder / "job.sqlite"), durability], folder, "job")


def acknowledged(events: list[Event]) -> Iterator[tuple[int, bool]]:
    """The acknowledged commits before a cut: seq, and whether it was to be flushed."""
    for event in events:
        if event.path.endswith("-ack") and event.kind == "W":
            seq, flush = event.data.split()
            yield int(seq), flush == b"1"


async def after_cut(events: list[Event], rng: random.Random, folder: Path) -> tuple[set[int], str]:
    """The seqs and the document found after a cut; the store must open, whole."""
    folder.mkdir()
    for path, content in restore(events, rng).items():
        if not path.endswith(("-ack", ".lock", "-shm")):
            (folder / Path(path).name).write_bytes(content)
    storage = await SqliteStorage.open(folder / "job.sqlite", "process")
    try:
        found = {row.seq for row in await storage.commits()}
        entries = await storage.entries(1)
        session = await Session.open(storage)
        text: Any = (await session.value(NOTES))["text"]
        # A commit is there as a whole or not at all: its entry and its part of the document agree.
        assert text == "".join(f"{stored.record['data']['number']} " for stored in entries)
        return found, text
    finally:
        await storage.close()


async def losses(tmp_path: Path, durability: str) -> tuple[int, int]:
    """How many acknowledged commits were lost over all cuts: (of those to be flushed, of the others)."""
    seed = random.SystemRandom().randrange(1 << 30)
    print(f"seed {seed}")
    rng = random.Random(seed)
    events = recorded(tmp_path, durability)
    made = next(i for i, event in enumerate(events) if event.kind == "R" and event.data.endswith(b"job.sqlite"))
    flushed_lost = others_lost = 0
    for number in range(CUTS):
        cut = rng.randrange(made + 1, len(events))
        before = events[:cut]
        found, _ = await after_cut(before, rng, tmp_path / f"cut{number}")
        known = list(acknowledged(before))
        lost = [(seq, flush) for seq, flush in known if seq not in found]
        survived = [seq for seq, _ in known if seq in found]
        # Commits vanish from the end only: one that stands has all before it.
        assert not survived or all(seq in found for seq, _ in known if seq <= max(survived)), f"seed {seed}, cut {cut}"
        flushed_lost += sum(flush for _, flush in lost)
        others_lost += sum(not flush for _, flush in lost)
    return flushed_lost, others_lost


async def test_process_may_lose_the_newest_commits_and_never_tears_one(tmp_path: Path) -> None:
    """The control: were nothing ever lost here, the recorder would prove nothing."""
    flushed_lost, others_lost = await losses(tmp_path, "process")
    assert flushed_lost > 0 and others_lost > 0


async def test_intents_keeps_every_commit_that_had_to_be_flushed(tmp_path: Path) -> None:
    flushed_lost, others_lost = await losses(tmp_path, "intents")
    assert flushed_lost == 0
    assert others_lost > 0


async def test_power_keeps_every_acknowledged_commit(tmp_path: Path) -> None:
    assert await losses(tmp_path, "power") == (0, 0)
