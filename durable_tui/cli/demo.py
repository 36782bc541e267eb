"""`durable-tui demo`: the tour. A worker is really killed in the middle of an edit, and its work really goes on."""

from __future__ import annotations

import asyncio
import contextlib
import difflib
import json
import os
import shutil
import signal
import sys
import tempfile
import time
from contextlib import aclosing
from pathlib import Path
from typing import TYPE_CHECKING

from durable_tui.cli.command_options import DemoCommand
from durable_tui.cli.output import Output, note
from durable_tui.cli.status import Exit, Status
from durable_tui.models.messages import message_text
from durable_tui.models.tour import DEMO_FILE, DEMO_PROMPT

if TYPE_CHECKING:
    from durable_tui.host.follow import FollowedSession

MODEL = "scripted/tour"
WAIT = 30.0  # seconds for one step of the tour on a slow machine; it usually takes one or two
_CONFIG = {"host": "127.0.0.1", "port": "8080", "debug": True}
_README = "# A small project\n\nIts configuration is in `config/dev.json`.\n"
# An extension of the demo's own home: it holds the edit back after its intent is stored and before it is made.
_PAUSE = '''"""Holds an edit back, so that there is time to kill the process in the middle of it."""

import asyncio
import dataclasses

from durable_tui import Extension


def held_back(tool):
    async def run(args, call):
        await asyncio.sleep(60)
        return await tool.run(args, call)

    return dataclasses.replace(tool, run=run)


extension = Extension("demo-pause", wrappers={"edit": held_back})
'''


async def run_command(options: DemoCommand, output: Output) -> Exit:
    """The whole command; leaves no process, and without --keep no file."""
    folder = Path(await asyncio.to_thread(tempfile.mkdtemp, prefix="durable-tui-demo-")).resolve()
    tour = Tour(folder, output)
    try:
        return await tour.play()
    finally:
        await tour.end()
        if options.keep:
            note(f"kept: {folder}")
        else:
            await asyncio.to_thread(shutil.rmtree, folder, ignore_errors=True)


class Tour:
    """The steps, in order. All of it happens in one folder: the project, the home, the session."""

    def __init__(self, folder: Path, output: Output) -> None:
        self.project = folder / "project"
        self.home = folder / "home"
        self.session = folder / "home" / "sessions" / "demo.sqlite"
        self.output = output
        self.worker: asyncio.subprocess.Process | None = None

    async def say(self, text: str) -> None:
        await self.output.text(text + "\n")

    async def play(self) -> Exit:
        before = self.prepare()
        await self.say(f'A project with a mistake: in {DEMO_FILE} the port is a text ("8080").')
        await self.say(f"The task: {DEMO_PROMPT}")
        await self.say("The model is a built-in script (no key, no network); the tools and the kill are real.\n")
        worker = await self.start("run", "--session", str(self.session), "--model", MODEL, "--", DEMO_PROMPT)
        if not await self.reached_the_edit(worker):
            return await self.failed(worker, "the worker ended before its edit")
        os.kill(worker.pid, signal.SIGKILL)
        await worker.wait()
        same = "unchanged" if self.text() == before else "changed"
        await self.say(f"killed: kill -9 of worker {worker.pid}, in the middle of its edit; the file is {same}.\n")
        (self.home / "extensions" / "pause.py").unlink()
        await self.say("reopened by `durable-tui resume`:")
        second = await self.start("resume", str(self.session))
        out, _ = await asyncio.wait_for(second.communicate(), WAIT)
        await self.say("".join(f"  {line}\n" for line in out.decode("utf-8", "replace").splitlines()))
        if second.returncode != Status.ANSWERED:
            return await self.failed(second, "the work was not finished")
        await self.say(f"answer: {await self.answer()}\n")
        diff = difflib.unified_diff(
            before.splitlines(), self.text().splitlines(), f"a/{DEMO_FILE}", f"b/{DEMO_FILE}", lineterm=""
        )
        await self.say("\n".join(diff))
        if json.loads(self.text())["port"] != 8080:
            return Exit(Status.UNANSWERED, "demo", "the file was not fixed")
        await self.say("\nNothing was done twice, and nothing was lost. Try it with a model: durable-tui doctor")
        return Exit(Status.ANSWERED)

    def prepare(self) -> str:
        """Make the project and the home; returns the file as it is before."""
        (self.project / "config").mkdir(parents=True)
        (self.project / "README.md").write_text(_README)
        (self.project / DEMO_FILE).write_text(json.dumps(_CONFIG, indent=2) + "\n")
        for folder in (self.home, self.home / "sessions", self.home / "extensions"):
            folder.mkdir(mode=0o700)
        (self.home / "extensions" / "pause.py").write_text(_PAUSE)
        return self.text()

    def text(self) -> str:
        return (self.project / DEMO_FILE).read_text()

    async def start(self, *words: str) -> asyncio.subprocess.Process:
        """The program itself in a process of its own, at home in the demo's folder."""
        import durable_tui

        source = str(Path(durable_tui.__file__).resolve().parent.parent)
        path = os.pathsep.join([source, *filter(None, [os.environ.get("PYTHONPATH")])])
        env = {name: value for name, value in os.environ.items() if not name.startswith("DURABLE_TUI_")}
        self.worker = await asyncio.create_subprocess_exec(
            sys.executable, "-P", "-m", "durable_tui", *words,
            cwd=self.project, env={**env, "DURABLE_TUI_HOME": str(self.home), "PYTHONPATH": path},
            stdin=asyncio.subprocess.DEVNULL, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE,
        )  # fmt: skip
        return self.worker

    async def reached_the_edit(self, worker: asyncio.subprocess.Process) -> bool:
        """Watch the session from outside, read-only, until the edit's intent is stored and its effect not yet made."""
        deadline = time.monotonic() + WAIT
        while not self.session.exists():
            if worker.returncode is not None or time.monotonic() > deadline:
                return False
            await asyncio.sleep(0.05)
        watched = await self.follow()
        try:
            async with asyncio.timeout(deadline - time.monotonic()), aclosing(watched.watch(watched.root.id)) as watch:
                async for frame in watch:
                    if any(row.get("phase") == "execute" and "edit" in row["doing"] for row in frame.value["tasks"]):
                        await self.say(f"worker {worker.pid} has stored the intent of its edit and is about to make it")
                        return True
        except TimeoutError:
            pass
        finally:
            await watched.close()
        return False

    async def follow(self) -> FollowedSession:
        """The session from outside, as another window would see it."""
        from durable_tui.agent.extension import Registry
        from durable_tui.host.follow import FollowedSession

        return await FollowedSession.open(self.session, Registry())

    async def answer(self) -> str:
        """The last thing the model said."""
        watched = await self.follow()
        try:
            said = [entry.record for entry in await watched.root.entries() if entry.record["kind"] == "pi.assistant"]
        finally:
            await watched.close()
        return message_text(said[-1]["model"][0]) if said else ""

    async def failed(self, worker: asyncio.subprocess.Process, what: str) -> Exit:
        with contextlib.suppress(ProcessLookupError):
            worker.kill()
        _, said = await worker.communicate()
        detail = said.decode("utf-8", "replace").strip()
        return Exit(Status.UNANSWERED, "demo", f"{what}{': ' + detail if detail else ''}")

    async def end(self) -> None:
        """No worker outlives the tour."""
        worker = self.worker
        if worker is not None and worker.returncode is None:
            with contextlib.suppress(ProcessLookupError):
                worker.kill()
            await worker.wait()
