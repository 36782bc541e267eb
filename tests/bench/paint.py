"""Start to first paint, with an empty session and with 100,000 entries, beside a bare Textual app with the same imports.

Real processes on pseudo-terminals, in turns. First paint is the first thing that can be seen on the alternate screen
(spec 25: at most 1.3 of the bare app); the session's own last line stands there later and is shown as well.

    python tests/bench/paint.py [--quick]
"""

from __future__ import annotations

import asyncio
import sys
import tempfile
from pathlib import Path

if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from tests.bench.measuring import Result, alone, median, percentile, show
from tests.bench.screens import Place
from tests.tools import bigsession

LAST = b"of the answer number"
EMPTY = b"Ask for something to do"


def bench(quick: bool = False) -> list[Result]:
    many, rounds = (5_000, 3) if quick else (100_000, 15)
    paints: dict[str, list[float]] = {"bare": [], "empty": [], "full": []}
    shown: dict[str, list[float]] = {"empty": [], "full": []}
    with tempfile.TemporaryDirectory() as name:
        place = Place(Path(name))
        sessions = {"empty": Path(name) / "empty.sqlite", "full": Path(name) / "full.sqlite"}
        for which, size in (("empty", 0), ("full", many)):
            asyncio.run(bigsession.make(sessions[which], size, cwd=str(place.project), model="play/one"))
        modules = place.modules(sessions["empty"])
        for index in range(rounds + 1):
            order = list(paints)
            for which in order[index % 3 :] + order[: index % 3]:  # nobody always comes after the same one
                with place.bare(modules) if which == "bare" else place.screen(sessions[which]) as screen:
                    first = screen.first_paint()
                    whole = screen.shows(LAST if which == "full" else EMPTY) if which != "bare" else first
                if index:  # the first one writes the byte code
                    paints[which].append(first)
                    if which != "bare":
                        shown[which].append(whole)
    bare = median(paints["bare"])
    results = []
    for which, title in (("empty", "empty"), ("full", f"{many:,} entries")):
        detail = f"{show(median(paints[which]))} p95 {show(percentile(paints[which], 95))}; bare app {show(bare)}"
        results.append(Result(f"first paint / bare app, {title}", median(paints[which]) / bare, 1.3, detail))
        detail = f"{show(median(shown[which]))} p95 {show(percentile(shown[which], 95))}"
        results.append(Result(f"session on the screen / bare app, {title}", median(shown[which]) / bare, None, detail))
    return results


if __name__ == "__main__":
    alone(bench, __doc__)
