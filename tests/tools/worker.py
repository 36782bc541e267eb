"""A small program over the façade that dies at a chosen point by a real SIGKILL of itself.

`--die` names the point: `admitted` (submit returned) · `intent` (before an effect) · `effect` (after it) · `result`
(after the commit that ended a tool task) · `before:N`, `after:N` (around the N-th commit of this process).
With `--follow` a task of its own waits at a gate until the submission is settled, and ends with its status.
It prints one JSON line: `{"status", "reason"?, "text"?, "submission"}`.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import signal
import sys
from pathlib import Path
from typing import Any, NoReturn

if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from durable_tui.agent.extension import Extension, Registry
from durable_tui.agent.settings import Settings
from durable_tui.engine import TaskDefinition, TaskHandle, new_task
from durable_tui.environment import LocalEnvironment
from durable_tui.harness.harness import Harness
from durable_tui.models import Models
from durable_tui.storage import SqliteStorage
from durable_tui.storage.records import Gate
from durable_tui.tools import CodingTools
from tests.tools.effects import Effects


def die() -> NoReturn:
    os.kill(os.getpid(), signal.SIGKILL)
    raise AssertionError("unreachable")


def dying_commits(storage: Any, point: str) -> None:
    """Wrap `storage.commit` so that the process dies around the chosen commit."""
    kind, _, number = point.partition(":")
    count = 0
    inner = storage.commit

    async def commit(batch: Any) -> None:
        nonlocal count
        count += 1
        if kind == "before" and count == int(number):
            die()
        await inner(batch)
        if kind == "after" and count == int(number):
            die()
        if kind == "result" and any(
            task["kind"] == "pi.tool" and task["state"]["status"] == "terminal" for task in batch.tasks
        ):
            die()

    storage.commit = commit


async def _wait(task: TaskHandle) -> None:
    async with task.commit() as tx:
        gate: Gate = {"reason": "accept", "submission": task.input["submission"]}
        task.advance(tx, {"phase": "tell"}, gate=gate)


async def _tell(task: TaskHandle) -> None:
    async with task.commit() as tx:
        record = await tx.submission(task.input["submission"])
        task.complete(tx, None if record is None else record["status"])


FOLLOWER = TaskDefinition("t.follower", {"wait": _wait, "tell": _tell}, lambda _: {"phase": "wait"})


async def follow(harness: Harness, storage: SqliteStorage, submission_id: int) -> None:
    """Create the task that follows the submission, unless an earlier process has."""
    if any(task["kind"] == FOLLOWER.name for task in await storage.tasks()):
        return
    async with harness.commit() as tx:
        new_task(tx, conversation_id=1, definition=FOLLOWER, input={"submission": submission_id}, running=False)


async def run(options: argparse.Namespace) -> None:
    effects = Effects(Path(options.effects))
    if options.die == "intent":
        effects.before = lambda effect: die()
    elif options.die == "effect":
        effects.after = lambda effect: die()
    storage = await SqliteStorage.open(options.session, durability=options.durability)
    if options.die and options.die.partition(":")[0] in ("before", "after", "result"):
        dying_commits(storage, options.die)
    registry = Registry()
    registry.install(CodingTools)
    registry.install(effects.extension())
    registry.install(Extension("follower", tasks=[FOLLOWER]))
    settings = Settings(base_delay=0.05, max_delay=0.2, restart_limit=options.restart_limit)
    async with Harness.open(
        storage, models=Models.from_env(), registry=registry, environment=LocalEnvironment.at, settings=settings
    ) as harness:
        root = await harness.root(agent={"model": "openai/strict", "cwd": os.getcwd()})
        submission = await root.submit(options.prompt, request_id=options.request_id)
        if options.die == "admitted":
            die()
        if options.follow:
            await follow(harness, storage, submission.id)
        print(json.dumps({"admitted": submission.id}), flush=True)
        settled = await submission.wait()
        await harness.wait_for_idle()
        answer = await storage.entry(settled.answer) if settled.answer else None
        text = (
            "".join(block["text"] for block in answer.record["model"][0]["content"] if block["type"] == "text")
            if answer
            else None
        )
    print(
        json.dumps(
            {
                "status": settled.status,
                "reason": settled.reason,
                "detail": settled.detail,
                "text": text,
                "submission": submission.id,
            }
        ),
        flush=True,
    )


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("session")
    parser.add_argument("prompt")
    parser.add_argument("--effects", required=True)
    parser.add_argument("--request-id", default="job")
    parser.add_argument("--die")
    parser.add_argument("--follow", action="store_true")
    parser.add_argument("--durability", default="process")
    parser.add_argument("--restart-limit", type=int, default=5)
    asyncio.run(run(parser.parse_args()))


if __name__ == "__main__":
    main()
