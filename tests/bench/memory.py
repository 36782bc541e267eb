"""Memory of the screen's process with 100,000 entries beside an empty session (spec 25: at most 1.5).

Resident size (RSS) of the real program on a pseudo-terminal once it is at rest, both shown at the same time.

    python tests/bench/memory.py [--quick]
"""

from __future__ import annotations

import asyncio
import sys
import tempfile
import time
from pathlib import Path

if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from tests.bench.measuring import Result, alone, median
from tests.bench.screens import Place
from tests.tools import bigsession

MB = 1024 * 1024


def bench(quick: bool = False) -> list[Result]:
    many, rounds, pages = (5_000, 1, 60) if quick else (100_000, 3, 400)
    sizes: dict[str, list[float]] = {"empty": [], "full": [], "paged": []}
    with tempfile.TemporaryDirectory() as name:
        place = Place(Path(name))
        sessions = {"empty": Path(name) / "empty.sqlite", "full": Path(name) / "full.sqlite"}
        for which, size in (("empty", 0), ("full", many)):
            asyncio.run(bigsession.make(sessions[which], size, cwd=str(place.project), model="play/one"))
        for _ in range(rounds):
            with place.screen(sessions["empty"]) as empty, place.screen(sessions["full"]) as full:
                for screen in (empty, full):
                    screen.shows(b"ready")
                    screen.settle()
                sizes["empty"].append(empty.app.memory_info().rss / MB)
                sizes["full"].append(full.app.memory_info().rss / MB)
                for _ in range(pages // 20):  # older pages are loaded while going up
                    full.press("\x1b[5~" * 20)
                    time.sleep(0.3)
                    full.settle(0.3, limit=5)
                sizes["paged"].append(full.app.memory_info().rss / MB)
    empty_size, full_size, paged = (median(sizes[which]) for which in ("empty", "full", "paged"))
    return [
        Result(
            f"memory: {many:,} entries / empty", full_size / empty_size, 1.5, f"{empty_size:.1f} → {full_size:.1f} MB"
        ),
        Result(f"memory: after {pages} pages upwards / empty", paged / empty_size, None, f"{paged:.1f} MB"),
    ]


if __name__ == "__main__":
    alone(bench, __doc__)
