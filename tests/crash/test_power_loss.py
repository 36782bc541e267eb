"""Power loss: what each durability level promises, against every kind of cut (spec 4, 4.1).

A recorder under the real SQLite notes every write and sync of a worker; each cut rebuilds the files as a disk might
hold them, and a fresh process opens them. `process` is the control: it must be seen to lose acknowledged commits.
"""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from tests.tools.power_cuts import losses

pytestmark = pytest.mark.crash

CUTS = 120


async def lost(folder: Path, durability: str) -> tuple[int, int]:
    seed = random.SystemRandom().randrange(1 << 30)
    print(f"seed {seed}")
    return await losses(folder, durability, CUTS, seed)


async def test_process_may_lose_the_newest_commits_and_never_tears_one(tmp_path: Path) -> None:
    """The control: were nothing ever lost here, the recorder would prove nothing."""
    flushed_lost, others_lost = await lost(tmp_path, "process")
    assert flushed_lost > 0 and others_lost > 0


async def test_intents_keeps_every_commit_that_had_to_be_flushed(tmp_path: Path) -> None:
    flushed_lost, others_lost = await lost(tmp_path, "intents")
    assert flushed_lost == 0
    assert others_lost > 0


async def test_power_keeps_every_acknowledged_commit(tmp_path: Path) -> None:
    assert await lost(tmp_path, "power") == (0, 0)
