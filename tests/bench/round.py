"""One durable tool round (a model turn and one safe tool call) with the model in the process.

Ours on memory and on SQLite at `process` and `intents`, beside pi-durable-python 1.4.0 on its SQLite: the same
conversation, each contender in a process of its own, taking turns of a few rounds. Prints p50, how flat it stays and
how many commits a round takes (spec 25: at most a third of the peer; flat over 1,500 rounds; at most 2 ms at `process`).

The peer is installed by pip into a folder of the bench's own; DURABLE_TUI_BENCH_PEER names a folder that has it already.

    python tests/bench/round.py [--quick]
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from tests.bench.measuring import Result, alone, fifths, median, percentile, show

ROUNDS, BLOCK = 1500, 25
PEER = "pi-durable-python==1.4.0"
PEER_FOLDER = "DURABLE_TUI_BENCH_PEER"


class Contender:
    """One process that plays the conversation a block of rounds at a time."""

    def __init__(self, name: str, folder: str, peer: str | None) -> None:
        self.name = name
        self.times: list[float] = []
        self.cpu: list[float] = []
        path = [str(Path(__file__).resolve().parents[2]), *([peer] if peer else [])]
        self.process = subprocess.Popen(
            [sys.executable, "-m", f"tests.bench.contenders.{'peer' if peer else 'ours'}", name, folder],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env={**os.environ, "PYTHONPATH": os.pathsep.join(path), "PYTHONDONTWRITEBYTECODE": "1"},
        )
        self._line()

    def _line(self) -> Any:
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        if not line:
            raise RuntimeError(f"{self.name} ended with status {self.process.wait()}")
        return json.loads(line)

    def play(self, rounds: int) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(f"{rounds}\n")
        self.process.stdin.flush()
        for wall, cpu in self._line():
            self.times.append(wall)
            self.cpu.append(cpu)

    def end(self) -> float:
        """Answer and close; the commits a round took."""
        assert self.process.stdin is not None
        self.process.stdin.write("0\n")
        self.process.stdin.flush()
        commits = int(self._line())
        self.process.wait(60)
        return commits / max(1, len(self.times))

    def kill(self) -> None:
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()
        for pipe in (self.process.stdin, self.process.stdout):
            if pipe is not None:
                pipe.close()


def peer_folder(scratch: str) -> tuple[str | None, str]:
    """Where the peer can be imported from, or why it cannot."""
    given = os.environ.get(PEER_FOLDER)
    if given:
        return given, f"from {PEER_FOLDER}"
    target = str(Path(scratch) / "peer")
    command = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--target", target, PEER]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    except subprocess.TimeoutExpired:
        return None, "pip took more than two minutes"
    if done.returncode:
        last = done.stderr.strip().splitlines()[-1:] or ["pip failed"]
        return None, last[0]
    return target, "installed for this run"


def bench(quick: bool = False) -> list[Result]:
    rounds = 100 if quick else ROUNDS
    with tempfile.TemporaryDirectory() as folder:
        peer, how = peer_folder(folder)
        names = ["memory", "process", "intents", *(["peer"] if peer else [])]
        contenders: list[Contender] = []
        commits: dict[str, float] = {}
        try:
            for name in names:
                place = Path(folder) / name
                place.mkdir(exist_ok=True)
                contenders.append(Contender(name, str(place), peer if name == "peer" else None))
            for start in range(0, rounds, BLOCK):
                for contender in contenders:
                    contender.play(min(BLOCK, rounds - start))
            commits = {contender.name: contender.end() for contender in contenders}
        finally:
            for contender in contenders:
                contender.kill()
        played = {contender.name: contender for contender in contenders}
    results = []
    for name, contender in played.items():
        label = "pi-durable-python 1.4.0" if name == "peer" else f"ours, {name}"
        detail = (
            f"p50 {show(median(contender.times))} p95 {show(percentile(contender.times, 95))}; "
            f"{commits[name]:.2f} commits a round, {len(contender.times)} rounds"
        )
        target = None if name == "peer" else 2.0 if name == "process" else None
        results.append(Result(f"round: p50, {label}", median(contender.times) * 1e3, target, detail, "ms"))
        first, last = fifths(contender.times)
        # Other work on the machine moves the clock's time, hardly the process's own.
        cpu = fifths(contender.cpu)
        detail = f"wall {show(first)} → {show(last)} ({last / first:.2f} ×), CPU {show(cpu[0])} → {show(cpu[1])}"
        target = None if name == "peer" else 1.2
        results.append(Result(f"round: CPU, last fifth / first fifth, {label}", cpu[1] / cpu[0], target, detail))
    if peer:
        for name in names[:-1]:
            ratio = median(played[name].times) / median(played["peer"].times)
            cpu_ratio = median(played[name].cpu) / median(played["peer"].cpu)
            target = 1 / 3 if name == "process" else None
            detail = f"CPU alone {cpu_ratio:.2f} ×"
            results.append(Result(f"round: ours ({name}) / pi-durable-python (SQLite)", ratio, target, detail))
    else:
        results.append(Result("round: ours / pi-durable-python", None, 1 / 3, f"{PEER} could not be installed: {how}"))
    return results


if __name__ == "__main__":
    alone(bench, __doc__)
