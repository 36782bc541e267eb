"""Real sessions whose every number is fixed, for pictures of the screen: clock, ids, processes, host, directory.

A `Stage` is a harness with the real tools on a real store, a scripted provider with gates and a project on paper. It
can crash and be opened again, so what the screen shows comes from commits and recoveries, not from made-up views.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest import mock

from durable_tui.agent.extension import Registry
from durable_tui.agent.settings import Settings
from durable_tui.environment.base import EnvironmentFailed, EnvironmentScope, FileInfo, ProcessResult
from durable_tui.harness.conversation import Conversation
from durable_tui.harness.harness import Harness
from durable_tui.host.opening import Host, Opened
from durable_tui.host.paths import Paths
from durable_tui.host.prompt import PromptExtension
from durable_tui.host.settings import Config
from durable_tui.models import Offer
from durable_tui.models.provider import Finished, Model, ModelRequest, StreamEvent
from durable_tui.storage import MemoryStorage, SqliteStorage, identity
from durable_tui.storage.memory import store as memory_module
from durable_tui.storage.records import OwnerRow
from durable_tui.storage.sqlite import opening as opening_module
from durable_tui.storage.sqlite import store as store_module
from durable_tui.tools import CodingTools
from tests.tools.strict_provider import Script, StrictScripted, Turn
from tests.tools.ui_fakes import ANSWERED
from tests.tools.waiting import until

START = 1_789_987_260_000  # 2026-09-21 10:41:00 UTC, in milliseconds
CWD = "/home/me/src/app"
HOST = "larch"
BOOT = "5f0c"
AGENT = {"model": "deepseek/deepseek-chat", "cwd": CWD}
PATIENT = Settings(partial_interval=0.0, output_interval=0.0)
FILES = {
    "config/dev.json": '{\n  "host": "127.0.0.1",\n  "port": "8080",\n  "debug": true\n}\n',
    "tests/test_config.py": "import json\n\n\ndef test_port():\n    assert json.load(open('config/dev.json'))['port'] == 8080\n",
}
Runner = Callable[["Paper", Callable[[bytes], None]], Awaitable[ProcessResult]]


class Clock:
    """Milliseconds that pass only when somebody says so."""

    def __init__(self, at: int = START) -> None:
        self.at = at

    def __call__(self) -> int:
        return self.at

    def pass_by(self, seconds: float) -> None:
        self.at += round(seconds * 1000)


@contextlib.contextmanager
def frozen(clock: Clock, home: Path) -> Iterator[Processes]:
    """Everything of this process that would show on the screen, fixed; `home` holds what must be on a disk."""
    processes = Processes()
    with contextlib.ExitStack() as patches:
        patches.callback(time.tzset)  # the last to run: when the former zone is back
        environment = {"HOME": "/home/me", "TZ": "UTC", "DURABLE_TUI_HOME": str(home), "COLORTERM": "truecolor"}
        patches.enter_context(mock.patch.dict(os.environ, environment))
        os.environ.pop("NO_COLOR", None)
        time.tzset()
        put = patches.enter_context
        for module in (memory_module, opening_module):
            put(mock.patch.object(module, "this_owner", processes.this))
        for module in (memory_module, opening_module, store_module):
            put(mock.patch.object(module, "now_ms", clock))
        put(mock.patch.object(identity, "host_name", lambda: HOST))
        put(mock.patch.object(identity, "boot_id", lambda: BOOT))
        put(mock.patch.object(identity, "process_started_at", processes.started))
        put(mock.patch("durable_tui.agent.tool_task.time", SimpleNamespace(monotonic=lambda: clock() / 1000)))
        put(mock.patch("durable_tui.host.prompt.platform", SimpleNamespace(system=lambda: "Linux")))
        yield processes


class Processes:
    """Which process opens next, and which ones are alive."""

    def __init__(self) -> None:
        self.pid = 4711
        self.alive = {4711}

    def this(self, epoch: int, opened_at: int) -> OwnerRow:
        return OwnerRow(epoch, self.pid, HOST, BOOT, START - 60_000, opened_at)

    def started(self, pid: int) -> int | None:
        return START - 60_000 if pid in self.alive else None

    def die(self) -> None:
        """The present one is gone; the next has the next number."""
        self.alive.discard(self.pid)
        self.pid += 1
        self.alive.add(self.pid)


class Paper:
    """An environment whose files are texts in memory. `commands` says what a command does."""

    id = "paper"

    def __init__(self, clock: Clock) -> None:
        self.cwd = CWD
        self.clock = clock
        self.files = {f"{CWD}/{name}": text.encode() for name, text in FILES.items()}
        self.commands: dict[str, Runner] = {}
        self.holding: set[str] = set()  # "write config/dev.json": what stops there and never comes back
        self.stopped: list[str] = []

    def __call__(self, scope: EnvironmentScope) -> Paper:
        return self

    def resolve(self, path: str) -> str:
        return path if path.startswith("/") else f"{self.cwd}/{path}"

    async def stat(self, path: str) -> FileInfo | None:
        full = self.resolve(path)
        content = self.files.get(full)
        return None if content is None else FileInfo(full, "file", len(content), 0o644, 1, 1, 1)

    async def read_bytes(self, path: str, *, offset: int = 0, limit: int | None = None) -> bytes:
        full = self.resolve(path)
        if full not in self.files:
            raise EnvironmentFailed(f"{path}: no such file")
        await self._hold("read", full)
        if not offset:
            self.clock.pass_by(0.1)
        return self.files[full][offset : None if limit is None else offset + limit]

    async def write_bytes(self, path: str, content: bytes) -> None:
        await self._hold("write", self.resolve(path))
        self.clock.pass_by(0.1)
        self.files[self.resolve(path)] = content

    async def list_names(self, path: str) -> list[str]:
        return sorted({name.removeprefix(f"{self.resolve(path)}/").split("/")[0] for name in self.files})

    async def run(
        self, command: str, *, timeout: float | None = None, on_output: Callable[[bytes], None] | None = None
    ) -> ProcessResult:
        return await self.commands[command](self, on_output or (lambda data: None))

    async def _hold(self, what: str, path: str) -> None:
        name = f"{what} {path.removeprefix(f'{CWD}/')}"
        if name in self.holding:
            await self.forever(name)

    async def forever(self, name: str) -> None:
        self.stopped.append(name)
        await asyncio.Event().wait()


def prints(*lines: str, seconds: float = 0.4, code: int = 0) -> Runner:
    """A command that writes these lines and ends."""

    async def run(paper: Paper, on_output: Callable[[bytes], None]) -> ProcessResult:
        data = "".join(f"{line}\n" for line in lines).encode()
        on_output(data)
        paper.clock.pass_by(seconds)
        return ProcessResult(code, output_bytes=len(data))

    return run


def prints_on(*lines: str) -> Runner:
    """A command that writes these lines and goes on for ever."""

    async def run(paper: Paper, on_output: Callable[[bytes], None]) -> ProcessResult:
        on_output("".join(f"{line}\n" for line in lines).encode())
        await paper.forever("run")
        raise AssertionError("never")

    return run


def usage(tokens: int, cost: float) -> dict[str, Any]:
    """What an answer used; `tokens` is the whole context then."""
    return {
        "input": tokens - 200, "output": 200, "cacheRead": 0, "cacheWrite": 0, "totalTokens": tokens,
        "cost": {"input": cost, "output": 0.0, "cacheRead": 0.0, "cacheWrite": 0.0, "total": cost},
    }  # fmt: skip


class Player(StrictScripted):
    """The scripted provider on the stage's clock: an answer takes `takes` seconds."""

    clock: Clock
    takes = 1.2

    def resolve(self, name: str) -> Model:
        model = super().resolve(name)
        return Model(model.provider, model.model_id, model.api, context_window=128_000)

    def listing(self, *, ask: bool = True) -> tuple[Offer, ...]:
        return ANSWERED

    def default(self, *, ask: bool = True) -> str:
        return "openai/gpt-5.2"

    def problem(self, name: str) -> str | None:
        return None

    async def _play(self, request: ModelRequest, turn: Turn) -> AsyncIterator[StreamEvent]:
        async for event in super()._play(request, turn):
            if isinstance(event, Finished):
                self.clock.pass_by(self.takes)
                event.message["timestamp"] = self.clock()
            yield event


@dataclass
class Stage:
    """One session. `open()` makes or reopens it, `crash()` ends its process; `opened()` is what the screen gets."""

    clock: Clock
    processes: Processes
    host: Host
    script: Script = ()
    agent: dict[str, Any] = field(default_factory=lambda: dict(AGENT))
    path: Path | None = None
    settings: Settings = PATIENT
    paper: Paper = field(init=False)
    player: Player = field(init=False)
    storage: Any = None
    harness: Harness = field(init=False)
    root: Conversation = field(init=False)
    registry: Registry = field(default_factory=Registry)
    opened_at: int = 0

    def __post_init__(self) -> None:
        self.paper = Paper(self.clock)
        self.player = Player(self.script)
        self.player.clock = self.clock
        self.registry.install(PromptExtension)
        self.registry.install(CodingTools)

    async def open(self) -> Stage:
        self.opened_at = self.clock()
        if self.path is not None:
            self.storage = await SqliteStorage.open(self.path, "process")
        elif self.storage is None:
            self.storage = MemoryStorage()
        self.harness = await Harness.open(
            self.storage,
            models=self.player,
            registry=self.registry,
            environment=self.paper,
            settings=self.settings,
            now=self.clock,
        )
        self.root = await self.harness.root(agent=self.agent)
        return self

    async def crash(self, *, seconds: float = 37) -> Stage:
        """The process dies here; nobody is there for so many seconds; a new process opens what is left."""
        if self.path is not None:
            await self.storage.abandon()
        dead, former = self.harness, self.storage
        self.processes.die()
        self.clock.pass_by(seconds)
        if self.path is None:
            self.storage = former.crash()
        with contextlib.suppress(Exception):
            await asyncio.wait_for(dead.close(), 10)
        return await self.open()

    async def say(self, text: str, **options: Any) -> None:
        """An input, admitted; it takes a moment to type."""
        self.clock.pass_by(2)
        await self.root.submit(text, **options)

    async def idle(self) -> None:
        await asyncio.wait_for(self.harness.wait_for_idle(), 20)

    async def asked(self, count: int) -> None:
        """Until the provider got so many requests and has nothing more to send."""
        await self.player.wait_requests(count)
        await self.quiet()

    async def held(self, count: int) -> None:
        """Until so many calls stand still in the environment, and nothing else moves."""
        await self.until(lambda: len(self.paper.stopped) >= count)
        await self.quiet()

    async def quiet(self) -> None:
        """Until no commit was made for a while of turns of the loop."""
        seen, calm = -1, 0
        while calm < 30:
            await asyncio.sleep(0.002)
            calm = calm + 1 if self.harness.seq == seen else 0
            seen = self.harness.seq

    async def until(self, condition: Callable[[], Any]) -> None:
        await until(condition, 20)

    def opened(self, *, warnings: tuple[str, ...] = ()) -> Opened:
        model = self.agent["model"]
        path = self.path or self.host.paths.sessions / "20260921-104100-5f3a9c1e.sqlite"
        return Opened(
            self.harness, self.root, self.player, self.registry, path, model, False, self.host,
            {"cwd": CWD}, list(warnings),
        )  # type: ignore[arg-type]  # fmt: skip

    async def close(self) -> None:
        with contextlib.suppress(Exception):
            await asyncio.wait_for(self.harness.close(), 10)


def host_at(home: Path) -> Host:
    """A host whose places are under `home`."""
    return Host(Paths.under(home), Config(), {})
