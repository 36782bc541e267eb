"""Pictures of the screen in every state a person meets, made from real commits (spec 21).

New pictures: `pytest tests/ui/test_snapshots.py --snapshot-update`, then look at each (`tests/tools/shoot.py`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.tools.stage import Clock, frozen
from tests.ui.scenes import SCENES, StagedApp, World, shown

pytestmark = pytest.mark.snapshot
SMALL, MIDDLE, LARGE = (80, 24), (120, 40), (200, 60)
PICTURES = [
    *((name, size, "ink") for name in ("idle", "streaming", "running", "recovered") for size in (SMALL, MIDDLE, LARGE)),
    ("idle", MIDDLE, "paper"),
    ("recovered", MIDDLE, "paper"),
    ("sessions", MIDDLE, "paper"),
    ("running_live", SMALL, "ink"),
    ("waiting", MIDDLE, "ink"),
    ("parked", MIDDLE, "ink"),
    ("parked_inbox", SMALL, "ink"),
    ("found", MIDDLE, "ink"),
    ("found", SMALL, "ink"),
    ("why", SMALL, "ink"),
    ("retrying", MIDDLE, "ink"),
    ("failed", SMALL, "ink"),
    ("full", SMALL, "ink"),
    ("owned", SMALL, "ink"),
    ("following", MIDDLE, "ink"),
    ("sessions", SMALL, "ink"),
    ("models", SMALL, "ink"),
    ("models", MIDDLE, "paper"),
    ("help", SMALL, "ink"),
    ("palette", MIDDLE, "ink"),
    ("first", SMALL, "ink"),
]


@pytest.fixture
def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[World]:
    clock = Clock()
    with frozen(clock, tmp_path) as processes:
        yield World(clock, processes, tmp_path)


@pytest.mark.parametrize(
    ("name", "size", "theme"), PICTURES, ids=[f"{name}-{size[0]}x{size[1]}-{theme}" for name, size, theme in PICTURES]
)
def test_the_screen_looks_as_it_did(
    name: str, size: tuple[int, int], theme: str, world: World, snap_compare: Callable[..., bool]
) -> None:
    app = StagedApp(SCENES[name], world, theme)
    assert snap_compare(app, terminal_size=size, run_before=lambda pilot: shown(app, pilot))
