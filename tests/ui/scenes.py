"""The states of the screen that pictures are taken of, each reached by real commits on a `Stage`."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from textual.pilot import Pilot

from durable_tui.environment.base import ProcessResult
from durable_tui.host.options import ScreenOptions
from durable_tui.models.provider import ModelError
from durable_tui.storage.errors import StorageRejected
from durable_tui.ui.app import DurableApp
from tests.tools.stage import AGENT, CWD, START, Clock, Paper, Processes, Stage, host_at, prints, prints_on, usage
from tests.tools.strict_provider import Turn, call, say
from tests.ui.kit import screen_text, until

ASK = "Read and fix config/dev.json, then run the tests."
EDIT = {"path": "config/dev.json", "edits": [{"oldText": '"port": "8080"', "newText": '"port": 8080'}]}
READ = call(
    ("read", {"path": "config/dev.json"}), text="I will read the configuration first.", usage=usage(3_100, 0.001)
)
FIX = call(("edit", EDIT), text="The port is a string; it has to be a number.", usage=usage(3_400, 0.002))
TEST = call(("bash", {"command": "pytest -q"}), text="Fixed. Running the tests now.", usage=usage(3_900, 0.003))
DONE = say(
    "Done:\n\n- `config/dev.json`: the port is the number **8080** now, not a text\n"
    "- `pytest -q`: 12 passed\n\nNothing else reads the port, so nothing else had to change.",
    usage=usage(4_300, 0.004),
)
PASSED = prints("............                                             [100%]", "12 passed in 3.41s", seconds=4.2)
STREAMED = (
    "The port is read in three places, and two of them expect a number:\n\n"
    "1. `server.py` passes it to `bind()`, which raises for a text\n"
    "2. `health.py` compares it with `8080`\n"
    "3. `banner.py` only prints it\n\n"
    "```python\n"
    "def port(config: dict) -> int:\n"
    '    """The port to listen on."""\n'
    '    return int(config["port"])\n'
    "```\n\n"
    "So the smallest change is in the file itself, and "
)


@dataclass
class World:
    """What a scene works in."""

    clock: Clock
    processes: Processes
    home: Any

    def stage(self, script: Any = (), **options: Any) -> Stage:
        return Stage(self.clock, self.processes, host_at(self.home), script, **options)


Enter = Callable[[World], Awaitable[Stage]]


@dataclass(frozen=True)
class Scene:
    """`enter` makes the session and what happened before the screen opens; `shown` is what must stand on it then.

    `during` acts once the screen is there: presses keys, lets time pass.
    """

    enter: Enter
    shown: str
    during: Callable[[DurableApp, Pilot[int], Stage], Awaitable[None]] | None = None
    paused: bool = False
    elsewhere: bool = False  # the session stays the scene's; the screen comes second


class StagedApp(DurableApp):
    """The real app; its first session is what the scene made, and all is closed in order at the end."""

    CSS_PATH = [Path(sys.modules[DurableApp.__module__].__file__ or "").parent / name for name in DurableApp.CSS_PATH]

    def __init__(self, scene: Scene, world: World, theme: str) -> None:
        self.scene, self.world = scene, world
        self.stage: Stage | None = None
        self.others: list[Stage] = []
        options = ScreenOptions(directory=CWD, paused=scene.paused)
        super().__init__(options, opener=self._enter, host=host_at(world.home), theme=theme, now=world.clock)

    async def _enter(self, options: Any, path: Any) -> Any:
        if self.stage is None:
            self.stage = await self.scene.enter(self.world)
            if not self.scene.elsewhere:
                return self.stage.opened()
        return await self._open_by_host(options, path)

    def _session_clock(self) -> int:
        # Work goes on since the scene's last opening, not since the screen was let at it.
        return self.stage.opened_at if self.stage is not None else self.now()

    async def run_async(self, **arguments: Any) -> Any:
        try:
            return await super().run_async(**arguments)
        finally:
            await self.close_sessions()
            if self.stage is not None:
                await self.stage.close()


async def shown(app: StagedApp, pilot: Pilot[int]) -> None:
    """Until the scene stands on the screen and nothing moves any more."""
    scene = app.scene
    if scene.elsewhere:
        await until(pilot, lambda: app.screen is not app.main)
    else:
        await until(pilot, lambda: app.session is not None and (app.session.started or app.session.model.paused))
    if scene.during is not None:
        assert app.stage is not None
        await scene.during(app, pilot, app.stage)
    await until(pilot, lambda: scene.shown in screen_text(app))
    await still(app, pilot)


async def still(app: StagedApp, pilot: Pilot[int]) -> None:
    """Until the picture has been the same for a while."""
    calm, last = 0, ""
    while calm < 6:
        await pilot.pause()
        await asyncio.sleep(0.03)
        now = screen_text(app)
        calm, last = (calm + 1, last) if now == last else (0, now)


# --- one run from its beginning to its end ------------------------------------------------------------------------------


async def first(world: World) -> Stage:
    """A new session; no model is configured, so the tour answers."""
    return await world.stage(agent={"model": "scripted/tour", "cwd": CWD}).open()


async def idle(world: World) -> Stage:
    stage = await world.stage([READ, FIX, TEST, DONE]).open()
    stage.paper.commands["pytest -q"] = PASSED
    await stage.say(ASK)
    await stage.idle()
    return stage


async def thinking(world: World) -> Stage:
    return await world.stage(agent={**AGENT, "thinkingLevel": "high"}).open()


async def streaming(world: World) -> Stage:
    hold = asyncio.Event()
    answer = Turn(STREAMED, thinking="Where is the port used?", chunks=4, hold=hold)
    stage = await world.stage([READ, answer]).open()
    await stage.say("Why does the server not start?")
    await stage.asked(2)
    world.clock.pass_by(3.4)
    return stage


async def running(world: World, **options: Any) -> Stage:
    """A command is at work; a steer and a follow-up wait."""
    stage = await world.stage([READ, FIX, TEST], **options).open()
    stage.paper.commands["pytest -q"] = prints_on(
        "collected 412 items", "", "tests/test_config.py ........", "tests/test_server.py ....................",
    )  # fmt: skip
    await stage.say(ASK)
    await stage.held(1)
    await stage.say("use the dev config for the server tests too", when_busy="steer")
    await stage.say("then update the changelog")
    await stage.quiet()
    world.clock.pass_by(0.2)
    return stage


async def parked(world: World) -> Stage:
    """The run was stopped while two messages waited."""
    stage = await running(world)
    await stage.root.stop()
    await stage.idle()
    return stage


async def waiting(world: World) -> Stage:
    """The answer is being made in the background; it is looked for now and then."""
    agent = {"model": "openai/gpt-5.2", "cwd": CWD}
    stage = await world.stage([READ, Turn(STREAMED, defer=9, after=40.0)], agent=agent).open()
    await stage.say("Why does the server not start?")
    await stage.asked(2)
    world.clock.pass_by(12)
    return stage


# --- deaths ----------------------------------------------------------------------------------------------------------


async def found(world: World) -> Stage:
    """Killed in the middle of an edit and of a read; opened again, nothing started."""
    both = call(
        ("edit", EDIT),
        ("read", {"path": "tests/test_config.py"}),
        text="The port is a string; it has to be a number.",
        usage=usage(3_400, 0.002),
    )
    again = call(
        ("read", {"path": "config/dev.json"}), text="The edit may have run, so I look first.", usage=usage(3_900, 0.003)
    )
    answer = say("The edit had not reached the file. I make it again ", hold=asyncio.Event())
    stage = await world.stage([READ, both, again, answer]).open()
    stage.paper.holding = {"write config/dev.json", "read tests/test_config.py"}
    await stage.say(ASK)
    await stage.held(2)
    world.clock.pass_by(0.5)
    stage.paper.holding.clear()
    return await stage.crash()


# --- trouble ---------------------------------------------------------------------------------------------------------


async def retrying(world: World) -> Stage:
    limit = ModelError("deepseek: Rate limit reached for requests (HTTP 429)", "rate_limit", retry_after=40)
    stage = await world.stage([READ, Turn("Let me ", error=limit, error_after=1)]).open()
    await stage.say("Why does the server not start?")
    await stage.asked(2)
    world.clock.pass_by(12)
    return stage


async def failed(world: World) -> Stage:
    refused = ModelError(
        "deepseek: Incorrect API key provided (HTTP 401); check the key in DEEPSEEK_API_KEY", "auth", status=401
    )
    stage = await world.stage([Turn(error=refused)]).open()
    await stage.say("Why does the server not start?")
    await stage.idle()
    return stage


async def full(world: World) -> Stage:
    """No space is left while a command runs."""
    stage = await world.stage([READ, TEST, DONE]).open()
    go = asyncio.Event()

    async def run(paper: Paper, on_output: Callable[[bytes], None]) -> ProcessResult:
        on_output(b"............                                             [100%]\n")
        paper.stopped.append("run")
        await go.wait()
        return ProcessResult(0)

    stage.paper.commands["pytest -q"] = run
    await stage.say("Run the tests.")
    await stage.held(1)

    async def commit(batch: Any) -> None:
        path = "/home/me/.local/share/durable-tui/sessions/20260921-104100-5f3a9c1e.sqlite"
        raise StorageRejected(f"no space left for {path} (0 bytes free); nothing was stored", full=True)

    stage.storage.commit = commit
    go.set()
    await stage.until(lambda: stage.harness.paused_for_space)
    return stage


# --- other sessions --------------------------------------------------------------------------------------------------


def session_path(world: World, name: str) -> Any:
    folder = world.home / "sessions"
    folder.mkdir(parents=True, exist_ok=True)
    return folder / f"{name}.sqlite"


async def past(world: World, name: str, at: int, text: str, *, pid: int, end: str = "close", **agent: Any) -> None:
    """A session of another time: closed in order, killed at its work, or open in a process that lives."""
    world.clock.at, now = at, world.clock.at
    world.processes.pid, before = pid, world.processes.pid
    try:
        script = [READ, DONE] if end != "kill" else [READ, Turn("I am ", hold=asyncio.Event())]
        stage = world.stage(script, path=session_path(world, name), agent={**AGENT, **agent})
        await stage.open()
        await stage.say(text)
        if end == "kill":
            await stage.asked(2)
            await stage.say("then write a test for it")
        else:
            await stage.idle()
        if end != "close":
            await stage.storage.abandon()
        await stage.close()
    finally:
        world.clock.at, world.processes.pid = now, before


DAY = 86_400_000


async def many(world: World) -> Stage:
    """This session, and others of this directory: clean, unfinished, open in another window."""
    world.processes.alive.add(5120)
    await past(world, "20260918-150200-aa10c3d4", START - 3 * DAY, "Make the log rotate at midnight", pid=3300)
    await past(
        world, "20260920-091500-bb20c3d4", START - DAY, "Port the parser to the new tokenizer", pid=3301, end="kill"
    )
    await past(
        world, "20260921-093000-cc30c3d4", START - 3_600_000, "Write release notes for 2.4", pid=5120, end="live",
        model="local/qwen3",
    )  # fmt: skip
    stage = await world.stage([READ, FIX, TEST, DONE], path=session_path(world, "20260921-104100-5f3a9c1e")).open()
    stage.paper.commands["pytest -q"] = PASSED
    await stage.say(ASK)
    await stage.idle()
    return stage


async def owned(world: World) -> Stage:
    """Another process has this directory's newest session open, and works in it."""
    world.processes.pid = 5120
    world.processes.alive.add(5120)
    stage = await running(world, path=session_path(world, "20260921-104100-5f3a9c1e"))
    world.processes.pid = 4711
    return stage


def pressed(*keys: str) -> Callable[[DurableApp, Pilot[int], Stage], Awaitable[None]]:
    async def during(app: DurableApp, pilot: Pilot[int], stage: Stage) -> None:
        for key in keys:
            await pilot.press(key)
            await pilot.pause()

    return during


def acted(name: str) -> Callable[[DurableApp, Pilot[int], Stage], Awaitable[None]]:
    """By an action's name: keys typed into the composer would be a draft, which may be committed meanwhile or not."""

    async def during(app: DurableApp, pilot: Pilot[int], stage: Stage) -> None:
        app.action_act(name)
        await pilot.pause()

    return during


SCENES: dict[str, Scene] = {
    "first": Scene(first, "the built-in tour answers"),
    "idle": Scene(idle, "nothing else had to change"),
    "streaming": Scene(streaming, "in the file itself, and"),
    "running": Scene(running, "pytest -q"),
    "running_live": Scene(running, "bash  running", pressed("f2")),
    "waiting": Scene(waiting, "next look in"),
    "parked": Scene(parked, "parked"),
    "parked_inbox": Scene(parked, "then update the changelog", pressed("f3")),
    "found": Scene(found, "not decided yet", paused=True),
    "recovered": Scene(found, "I make it again"),
    "why": Scene(found, "was not run again", pressed("f6", "down", "enter")),
    "retrying": Scene(retrying, "retry"),
    "failed": Scene(failed, "HTTP 401"),
    "full": Scene(full, "disk full"),
    "owned": Scene(owned, "follow", elsewhere=True),
    "following": Scene(owned, "read-only", pressed("enter"), elsewhere=True),
    "sessions": Scene(many, "4 sessions in this directory", pressed("ctrl+o")),
    "help": Scene(idle, "writing", pressed("f1")),
    "models": Scene(thinking, "no server answers", acted("model")),
    "palette": Scene(idle, "New session", pressed("ctrl+p")),
    "slash": Scene(idle, "/recoveries", pressed("/")),
}
