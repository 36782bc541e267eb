"""An owner to be killed, or measured, from outside.

`owner.py run FOLDER SESSION COMMAND` runs a command in the local environment and prints what it writes.
`owner.py write FILE SIZE` replaces a file by SIZE bytes of `a`, then of `b`, and so on for ever.
`owner.py measure FOLDER COMMAND` runs the bash tool and prints what it cost as one JSON object.
"""

from __future__ import annotations

import asyncio
import json
import resource
import sys
import time
from pathlib import Path

from durable_tui.environment.base import EnvironmentScope
from durable_tui.environment.local import LocalEnvironment


def say(text: str) -> None:
    print(text, flush=True)


async def run(folder: str, session: str, command: str) -> None:
    environment = LocalEnvironment.at(EnvironmentScope(folder, task_id=5, session=session))
    await environment.run(command, timeout=600, on_output=lambda piece: say(piece.decode().strip()))


async def write(path: str, size: int) -> None:
    environment = LocalEnvironment.at(str(Path(path).parent))
    say("up")
    while True:
        for letter in (b"a", b"b"):
            await environment.write_bytes(path, letter * size)


async def measure(folder: str, command: str) -> None:
    from durable_tui.agent.extension import ToolResult
    from durable_tui.tools.bash import bash
    from tests.tools.fake_call import FakeCall

    class Quiet(FakeCall):
        def output(self, text: str) -> None:
            return None  # the harness bounds it; here it must not count

    environment = LocalEnvironment.at(EnvironmentScope(folder, files=f"{folder}/files", task_id=5, session="m"))
    await bash.run(bash.validate({"command": "seq 1 100000"}), Quiet("bash", environment))
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    longest = 0.0

    async def watch() -> None:
        nonlocal longest
        while True:
            began = time.monotonic()
            await asyncio.sleep(0.01)
            longest = max(longest, time.monotonic() - began - 0.01)

    watcher = asyncio.create_task(watch())
    result = await bash.run(bash.validate({"command": command, "timeout": 600}), Quiet("bash", environment))
    watcher.cancel()
    assert isinstance(result, ToolResult) and isinstance(result.content, str)
    grown = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1024
    say(json.dumps({"grownMiB": grown, "longest": longest, "text": result.content, "details": result.details}))


if __name__ == "__main__":
    kind, *rest = sys.argv[1:]
    if kind == "run":
        asyncio.run(run(*rest[:3]))
    elif kind == "write":
        asyncio.run(write(rest[0], int(rest[1])))
    else:
        asyncio.run(measure(*rest[:2]))
