"""What the benches share: medians, one form of result, and a word about how busy the machine was.

Nothing is asserted here: a bench prints the ratio it measured beside its target, and people judge.
"""

from __future__ import annotations

import argparse
import os
import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass


@dataclass(slots=True)
class Result:
    """One measured ratio or figure beside its target (spec 25); `detail` names the medians it was made of."""

    name: str
    measured: float | None
    target: float | None
    detail: str
    unit: str = "×"

    def __str__(self) -> str:
        measured = "not measured" if self.measured is None else f"{self.measured:.2f} {self.unit}"
        if self.target is None:
            judged = ""
        elif self.measured is None:
            judged = f"target ≤ {self.target:.3g} {self.unit}"
        else:
            judged = f"target ≤ {self.target:.3g} {self.unit}  {'met' if self.measured <= self.target else 'MISSED'}"
        return f"{self.name:58} {measured:>13}  {judged:24}  {self.detail}"


Bench = Callable[[bool], list[Result]]


def median(values: Sequence[float]) -> float:
    return statistics.median(values) if values else float("nan")


def percentile(values: Sequence[float], percent: float) -> float:
    """The smallest value that `percent` of all are not above."""
    ordered = sorted(values)
    if not ordered:
        return float("nan")
    return ordered[min(len(ordered) - 1, max(0, -(-len(ordered) * percent // 100).__int__() - 1))]


def show(seconds: float) -> str:
    """A time in the unit it is read best in."""
    if seconds < 1e-3:
        return f"{seconds * 1e6:.0f} µs"
    if seconds < 1:
        return f"{seconds * 1e3:.2f} ms"
    return f"{seconds:.2f} s"


def fifths(values: Sequence[float]) -> tuple[float, float]:
    """The medians of the first and of the last fifth: how flat a series is."""
    size = max(1, len(values) // 5)
    return median(values[:size]), median(values[-size:])


def load() -> str:
    one, five, _ = os.getloadavg()
    return f"load {one:.1f} (1 min) {five:.1f} (5 min) on {os.cpu_count()} cores"


def alone(bench: Bench, description: str | None) -> None:
    """Run one bench from the command line."""
    parser = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="small sizes: only to see that it works")
    options = parser.parse_args()
    print(f"before: {load()}", flush=True)
    for result in bench(options.quick):
        print(result, flush=True)
    print(f"after: {load()}", flush=True)
