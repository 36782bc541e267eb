"""A streamed answer through the harness beside a bare httpx loop on the same server.

CPU time of this process for an answer of 1,000 deltas: parsed, committed, published to a watch that applies it; the bare
loop reads the same bytes, splits them at blank lines, decodes the JSON and joins the text. Then the time from asking to
the first word: on a watch, so committed, and in the bare loop. The server is a process of its own; the two take turns.

    python tests/bench/wire.py [--quick]
"""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from durable_tui import Harness, Registry
from durable_tui.environment import LocalEnvironment
from durable_tui.harness.conversation import Conversation
from durable_tui.models import Models
from durable_tui.storage import SqliteStorage
from tests.bench.measuring import Result, alone, median, percentile, show

DELTAS, PIECE = 1000, 6  # the server cuts a text into pieces of six characters
SERVER = Path(__file__).resolve().parents[1] / "tools" / "model_server.py"
ANSWER = ("a word " * DELTAS)[: DELTAS * PIECE]


class Server:
    """The model server, told by the input which answer to give: a long one at a speed, or a short one at once."""

    def __init__(self, folder: Path, seconds: float) -> None:
        script = folder / "script.json"
        long, short = [{"text": ANSWER, "delay": seconds}], [{"text": "word", "delay": 0}]
        script.write_text(json.dumps({"match": {"long": long, "short": short}, "turns": short}))
        command = [sys.executable, str(SERVER), "--port", "0", "--script", str(script), "--until-eof"]
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        assert self.process.stdout is not None
        self.base_url = f"http://127.0.0.1:{int(self.process.stdout.readline().split()[1])}/v1"

    def __enter__(self) -> Server:
        return self

    def __exit__(self, *_: object) -> None:
        assert self.process.stdin is not None and self.process.stdout is not None
        self.process.stdin.close()
        self.process.wait(10)
        self.process.stdout.close()


async def bare(client: Any, base_url: str, text: str) -> tuple[float, float]:
    """(seconds to the first word, CPU seconds of the whole)."""
    body = {"model": "m", "stream": True, "messages": [{"role": "user", "content": text}]}
    began, cpu, first = time.perf_counter(), time.process_time(), 0.0
    answer = ""
    rest = b""
    async with client.stream("POST", f"{base_url}/chat/completions", json=body) as response:
        async for piece in response.aiter_bytes():
            *events, rest = (rest + piece).split(b"\n\n")
            for event in events:
                data = event.removeprefix(b"data: ")
                if data and data != b"[DONE]":
                    for choice in json.loads(data)["choices"]:
                        answer += choice["delta"].get("content") or ""
            first = first or (time.perf_counter() - began if answer else 0.0)
    assert len(answer) in (len(ANSWER), len("word"))
    return first, time.process_time() - cpu


async def ours(root: Conversation, frames: Any, text: str) -> tuple[float, float]:
    """The same through the harness, seen on a watch."""
    began, cpu, first = time.perf_counter(), time.process_time(), 0.0
    submission = await root.submit(text)
    while True:
        view = (await anext(frames)).value
        message = ((view.get("live") or {}).get("generation") or {}).get("message")
        told = message is not None and any(block.get("text") for block in message["content"])
        entry = view["entries"][-1] if len(view["entries"]) else {}
        ended = entry.get("kind") == "pi.assistant" and not (view.get("live") or {}).get("run")
        if not first and (told or ended):
            first = time.perf_counter() - began
        if ended:
            break
    settled = await submission.wait()
    assert settled.status == "done"
    return first, time.process_time() - cpu


async def measure(folder: Path, rounds: int, firsts: int, seconds: float) -> dict[str, list[float]]:
    import httpx

    found: dict[str, list[float]] = {"bare cpu": [], "ours cpu": [], "bare first": [], "ours first": []}
    with Server(folder, seconds) as server:
        models = Models.from_env({}, {"play": {"api": "openai-chat", "base_url": server.base_url}})
        storage = await SqliteStorage.open(folder / "bench.sqlite", durability="intents")
        async with (
            httpx.AsyncClient(timeout=60) as client,
            Harness.open(storage, models=models, registry=Registry(), environment=LocalEnvironment.at) as harness,
        ):
            root = await harness.root(agent={"model": "play/m"})
            frames = aiter(root.watch(tail=2))
            await anext(frames)
            for number in range(rounds + firsts):
                kind, text = ("cpu", "long") if number < rounds else ("first", "short")
                which = 1 if kind == "cpu" else 0
                found[f"bare {kind}"].append((await bare(client, server.base_url, text))[which])
                found[f"ours {kind}"].append((await ours(root, frames, text))[which])
        await models.close()
    return found


def bench(quick: bool = False) -> list[Result]:
    rounds, firsts, seconds = (2, 8, 1.0) if quick else (8, 60, 3.0)
    with tempfile.TemporaryDirectory() as name:
        found = asyncio.run(measure(Path(name), rounds, firsts, seconds))
    cpu, plain = median(found["ours cpu"]), median(found["bare cpu"])
    first, other = median(found["ours first"]), median(found["bare first"])
    worst, plainest = percentile(found["ours first"], 95), percentile(found["bare first"], 95)
    return [
        Result(f"CPU of {DELTAS:,} deltas / a bare httpx loop", cpu / plain, None, f"{show(cpu)} beside {show(plain)}"),
        Result(
            "first word, committed and published / a bare httpx loop", first / other, None,
            f"p50 {show(first)} beside {show(other)}, p95 {show(worst)} beside {show(plainest)}",
        ),
    ]  # fmt: skip


if __name__ == "__main__":
    alone(bench, __doc__)
