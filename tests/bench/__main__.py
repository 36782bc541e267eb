"""All benches, one after the other: `python -m tests.bench [--quick] [NAME ...]`.

Prints every ratio beside its target and ends 0 whatever was measured; a bench that fails to run ends 1.
"""

from __future__ import annotations

import argparse
import importlib
import sys
import time
import traceback
from pathlib import Path

if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from tests.bench.measuring import Result, load

NAMES = ("commit", "round", "append", "recovery", "paint", "stream", "memory", "wire")


def main() -> int:
    parser = argparse.ArgumentParser(description="Measure; nothing is asserted.")
    parser.add_argument("names", nargs="*", metavar="NAME", help=", ".join(NAMES))
    parser.add_argument("--quick", action="store_true", help="small sizes: only to see that they work")
    options = parser.parse_args()
    if unknown := set(options.names) - set(NAMES):
        parser.error(f"there is no bench {sorted(unknown)[0]!r}; there are {', '.join(NAMES)}")
    results: list[Result] = []
    failed = []
    for name in options.names or NAMES:
        began = time.monotonic()
        try:
            found = importlib.import_module(f"tests.bench.{name}").bench(options.quick)
        except Exception:  # noqa: BLE001 - the others are still worth measuring
            traceback.print_exc()
            failed.append(name)
            continue
        results += found
        print(f"--- {name}: {time.monotonic() - began:.0f} s, {load()}")
        for result in found:
            print(result, flush=True)
    missed = [r for r in results if r.target is not None and r.measured is not None and r.measured > r.target]
    judged = sum(r.target is not None and r.measured is not None for r in results)
    print(
        f"\n{judged - len(missed)} of {judged} targets met" + (f"; did not run: {', '.join(failed)}" if failed else "")
    )
    for result in missed:
        print(f"  missed: {result.name}: {result.measured:.2f} {result.unit}, target {result.target:g}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
