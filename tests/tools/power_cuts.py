"""A recorded worker whose machine loses power at random moments, and what is found afterwards (spec 4, 4.1)."""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from durable_tui.session import Session
from durable_tui.storage import SqliteStorage
from tests.tools.power_worker import NOTES
from tests.tools.powerloss import HERE, Event, record, restore


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


async def losses(folder: Path, durability: str, cuts: int, seed: int) -> tuple[int, int]:
    """Return how many acknowledged commits were lost over all cuts: (of those to be flushed, of the others)."""
    rng = random.Random(seed)
    events = recorded(folder, durability)
    made = next(i for i, event in enumerate(events) if event.kind == "R" and event.data.endswith(b"job.sqlite"))
    flushed_lost = others_lost = 0
    for number in range(cuts):
        cut = rng.randrange(made + 1, len(events))
        before = events[:cut]
        found, _ = await after_cut(before, rng, folder / f"cut{number}")
        known = list(acknowledged(before))
        lost = [(seq, flush) for seq, flush in known if seq not in found]
        survived = [seq for seq, _ in known if seq in found]
        # Commits vanish from the end only: one that stands has all before it.
        assert not survived or all(seq in found for seq, _ in known if seq <= max(survived)), f"seed {seed}, cut {cut}"
        flushed_lost += sum(flush for _, flush in lost)
        others_lost += sum(not flush for _, flush in lost)
    return flushed_lost, others_lost
