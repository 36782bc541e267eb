"""Streaming 1,000 characters a second into the screen with 50,000 lines above, and typing meanwhile.

The real program on a pseudo-terminal: the CPU time of its process while an answer streams (spec 25: at most 20 % of a
core), with nothing above for comparison, and idle; then the time from a key to its echo while streaming (p95 at most
16 ms), beside a bare Textual app with a text area that is otherwise at rest.

    python tests/bench/stream.py [--quick]
"""

from __future__ import annotations

import asyncio
import random
import sys
import tempfile
import time
from pathlib import Path

if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from tests.bench.measuring import Result, alone, median, percentile, show
from tests.bench.screens import Place, Screen
from tests.tools import bigsession

RATE = 1000  # characters a second
ENTRIES, LINES = 200, 500  # half of the entries are answers of that many lines: 50,000 lines in the loaded tail
WARM_UP = 1.5  # seconds
KEYS = [chr(number) for number in range(0x100, 0x17F)]  # letters no answer holds, each typed once


def answer(seconds: float) -> dict[str, object]:
    """A turn of that length: paragraphs, a list and code, so that the text is laid out as real answers are."""
    chosen = random.Random(7)
    words = [
        "the",
        "port",
        "is",
        "read",
        "from",
        "`config/dev.json`",
        "and",
        "**checked**",
        "against",
        "what",
        "it",
        "says",
    ]
    text = ""
    while len(text) < RATE * seconds:
        kind = chosen.randrange(4)
        line = " ".join(chosen.choices(words, k=14))
        if kind == 0:
            text += f"- {line}\n- {line}\n\n"
        elif kind == 1:
            text += f"```python\nport = 80  # {line}\n```\n\n"
        else:
            text += f"{line}. {line}. {line}.\n\n"
    return {"text": text[: int(RATE * seconds)], "delay": seconds}


def started(place: Place, session: Path) -> Screen:
    """The program on the session, drawn and at rest."""
    screen = place.screen(session)
    screen.shows(b"ready")
    screen.settle()
    return screen


def share(screen: Screen, seconds: float) -> float:
    """Percent of a core the screen's process uses from now on."""
    app = screen.app
    before, began = sum(app.cpu_times()[:2]), time.perf_counter()
    time.sleep(seconds)
    after, ended = sum(app.cpu_times()[:2]), time.perf_counter()
    return (after - before) / (ended - began) * 100


def stream(screen: Screen) -> None:
    """Ask, and wait until the answer flows."""
    start = len(screen.data)
    screen.press("go on\r")
    screen.wait(lambda data: b"port" in data, start)
    time.sleep(WARM_UP)


def echoes(screen: Screen, keys: str, pause: float) -> list[float]:
    """Seconds from each key to the first byte of its echo."""
    times = []
    chosen = random.Random(3)
    for key in keys:
        start = len(screen.data)
        pressed = screen.press(key)
        wanted = key.encode()
        times.append(screen.wait(lambda data, wanted=wanted: wanted in data, start, limit=10) - pressed)  # type: ignore[misc]
        time.sleep(pause * chosen.uniform(0.5, 1.5))
    return times


def bench(quick: bool = False) -> list[Result]:
    seconds, rounds, count = (3.0, 1, 12) if quick else (8.0, 3, len(KEYS))
    pause = 0.1
    length = WARM_UP + seconds + 2 + (0 if quick else 2)
    idle: list[float] = []
    shares: dict[str, list[float]] = {"empty": [], "full": []}
    times: list[float] = []
    bare: list[float] = []
    with tempfile.TemporaryDirectory() as name:
        place = Place(Path(name))
        modules = place.modules(Path(name) / "first.sqlite")
        for number in range(rounds):
            for which, entries in (("empty", 0), ("full", ENTRIES)):
                session = Path(name) / f"{which}-{number}.sqlite"
                asyncio.run(bigsession.make(session, entries, cwd=str(place.project), model="play/one", lines=LINES))
                place.script([answer(length)])
                with started(place, session) as screen:
                    if which == "full":
                        idle.append(share(screen, 1.0))
                    stream(screen)
                    shares[which].append(share(screen, seconds))
            keys = KEYS[number::rounds][: max(1, count // rounds)]
            session = Path(name) / f"keys-{number}.sqlite"
            asyncio.run(bigsession.make(session, ENTRIES, cwd=str(place.project), model="play/one", lines=LINES))
            place.script([answer(WARM_UP + len(keys) * (pause + 0.1) + 5)])
            with started(place, session) as screen:
                stream(screen)
                times += echoes(screen, "".join(keys), pause)
            with place.bare(modules) as screen:
                screen.first_paint()
                screen.settle(0.5)
                bare += echoes(screen, "".join(keys), pause)
    full, empty = median(shares["full"]), median(shares["empty"])
    lines = ENTRIES // 2 * LINES
    p95, other = percentile(times, 95), percentile(bare, 95)
    detail = f"p50 {show(median(times))} p95 {show(p95)} of {len(times)} keys"
    beside = f"bare p50 {show(median(bare))} p95 {show(other)}"
    return [
        Result(f"streaming {RATE} characters/s, {lines:,} lines above", full, 20, f"idle {median(idle):.1f} %", "%"),
        Result("streaming: many lines above / none", full / empty, None, f"none above: {empty:.1f} %"),
        Result("key to echo while streaming, p95", p95 * 1e3, 16, detail, "ms"),
        Result("key to echo, p50 / a bare app at rest", median(times) / median(bare), None, beside),
    ]


if __name__ == "__main__":
    alone(bench, __doc__)
