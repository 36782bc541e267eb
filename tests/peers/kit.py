"""Shared by the tests against servers of others: starting them, and a harness that talks to one of them."""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import os
import signal
import socket
import subprocess
import time
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self

import httpx
import pytest
from pydantic import BaseModel

from durable_tui.agent.extension import Extension, Registry, Tool, ToolCall, tool
from durable_tui.agent.settings import Settings
from durable_tui.harness.conversation import Conversation
from durable_tui.harness.harness import Harness
from durable_tui.harness.submission import Settled
from durable_tui.models import Finished, HttpSettings, Models
from durable_tui.models.http_provider import HttpProvider
from durable_tui.models.provider import BlockDelta, BlockStart, Model, ModelError, ModelRequest, StreamEvent
from durable_tui.storage import MemoryStorage
from tests.tools.invariants import check_idle
from tests.tools.scenario import no_environment, text_of

HERE = Path(__file__).resolve().parent
VARIABLE = "DURABLE_TUI_PEERS"
APIS = ("openai-chat", "openai-responses", "anthropic")
KEY = "sk-test-0123456789abcdef"
# Runs a command and kills it when standard input ends, which it does when the tests die, however they die.
WHILE_WE_LIVE = 'exec 3<&0; "$@" 3<&- & child=$!; { cat <&3 >/dev/null; kill -9 $child; } 2>/dev/null & wait $child'
HANG = 90.0  # seconds; a guard, nothing here takes as long

# Short waits between attempts that still grow, as a server of others may judge.
SETTINGS = Settings(base_delay=0.2, max_delay=5.0, partial_interval=0.02)
HTTP = HttpSettings(read=60.0, linger=1.0)


def peers() -> Path:
    """The folder made by prepare.py."""
    value = os.environ.get(VARIABLE, "")
    if not value or not (Path(value) / "model.gguf").is_file():
        what = f"{VARIABLE}={value} holds no model.gguf" if value else f"{VARIABLE} is not set"
        pytest.fail(f"{what}: run `python tests/peers/prepare.py FOLDER` and set it to that folder", pytrace=False)
    return Path(value)


def aimock_folder(folder: Path) -> Path:
    """The node_modules with aimock; skips the test where prepare.py could not have it."""
    missing = folder / "aimock-missing.txt"
    if missing.is_file():
        pytest.skip(f"aimock is not run: {missing.read_text().strip()}")
    return folder / "node_modules"


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


class Server:
    """A server of others in a process of its own, on loopback; `with` ends it.

    `health` is the path that answers 200 when it is ready. What it prints goes to `log`.
    """

    def __init__(self, command: Sequence[str | Path], port: int, log: Path, health: str) -> None:
        self.url = f"http://127.0.0.1:{port}"
        self.log = log
        self._health = health
        self._client = httpx.Client(base_url=self.url, timeout=30.0, trust_env=False)
        with log.open("wb") as output:
            self._process = subprocess.Popen(
                ["sh", "-c", WHILE_WE_LIVE, "sh", *map(str, command)],
                stdin=subprocess.PIPE,
                stdout=output,
                stderr=subprocess.STDOUT,
                env={**os.environ, "PYTHONDONTWRITEBYTECODE": "1"},
                start_new_session=True,
            )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._client.close()
        assert self._process.stdin is not None
        self._process.stdin.close()
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()

    def status(self) -> int | None:
        """What its health answers; None while nobody listens."""
        try:
            return self._client.get(self._health).status_code
        except httpx.TransportError:
            if self._process.poll() is not None:
                raise AssertionError(f"the server ended\n{self.log.read_text()[-4000:]}") from None
            return None

    def until(self, *statuses: int) -> int:
        """Wait for one of these statuses."""
        deadline = time.monotonic() + HANG
        while time.monotonic() < deadline:
            status = self.status()
            if status in statuses:
                return int(status)
            time.sleep(0.002)
        raise AssertionError(f"not ready after {HANG:.0f} s\n{self.log.read_text()[-4000:]}")

    def get(self, path: str) -> Any:
        answer = self._client.get(path).raise_for_status()
        return answer.json() if "json" in answer.headers.get("content-type", "") else answer.text

    def post(self, path: str, body: Any) -> Any:
        return self._client.post(path, json=body).raise_for_status().json()

    def base(self, api: str, anthropic: str = "") -> str:
        """The base URL for a protocol; `anthropic` is where that one is, below the server's root."""
        return self.url + (anthropic if api == "anthropic" else "/v1")


def llama(folder: Path, log: Path, *options: str | Path) -> Server:
    """llama.cpp with the small model, starting."""
    port = free_port()
    command = (folder / "venv" / "bin" / "python", HERE / "llama_server.py", folder / "model.gguf", str(port), *options)
    return Server(command, port, log, "/health")


@contextlib.contextmanager
def ready(server: Server) -> Iterator[Server]:
    """The server once it is ready, until the end."""
    with server:
        server.until(200)
        yield server


# -- what was said -----------------------------------------------------------------------------------------------------


@dataclass
class Attempt:
    """One attempt as it came from the models: what was asked, every event, and the error it ended in."""

    request: ModelRequest
    events: list[StreamEvent] = field(default_factory=list)
    error: ModelError | None = None

    @property
    def deltas(self) -> list[BlockDelta]:
        return [event for event in self.events if isinstance(event, BlockDelta)]

    @property
    def message(self) -> dict[str, Any]:
        """The message of the terminal event, which must be the last one and the only one."""
        ends = [event for event in self.events if isinstance(event, Finished)]
        assert len(ends) == 1 and self.events[-1] is ends[0], (self.events, self.error)
        return dict(ends[0].message)

    def streamed(self, index: int) -> str:
        """What came for one block, joined."""
        return "".join(event.text for event in self.deltas if event.index == index)

    def check(self) -> None:
        """Assert that the deltas are the message: every block was begun once, and its text is what came for it."""
        content = self.message["content"]
        begun = [event for event in self.events if isinstance(event, BlockStart)]
        assert [event.index for event in begun] == list(range(len(content)))
        assert [event.block["type"] for event in begun] == [block["type"] for block in content]
        for index, block in enumerate(content):
            if block["type"] in ("text", "thinking"):
                assert block[block["type"]] == self.streamed(index)


class Listener:
    """Models that are listened to: `attempts` has everything that came."""

    def __init__(self, models: Models) -> None:
        self._models = models
        self.attempts: list[Attempt] = []

    def resolve(self, name: str) -> Model:
        return self._models.resolve(name)

    def body(self, request: ModelRequest) -> dict[str, Any]:
        """The body that a request is sent with."""
        provider = self._models.provider(request.model.provider)
        assert isinstance(provider, HttpProvider)
        return provider.build(request)

    async def stream(self, request: ModelRequest) -> AsyncIterator[StreamEvent]:
        attempt = Attempt(request)
        self.attempts.append(attempt)
        stream = self._models.stream(request)
        try:
            async for event in stream:
                attempt.events.append(event)
                yield event
        except ModelError as error:
            attempt.error = error
            raise
        finally:
            await stream.aclose()  # type: ignore[attr-defined]

    def poll(self, request: ModelRequest, handle: dict[str, Any]) -> AsyncIterator[StreamEvent]:
        return self._models.poll(request, handle)

    async def cancel(self, provider: str, handle: dict[str, Any]) -> None:
        await self._models.cancel(provider, handle)


class Command(BaseModel):
    command: str = ""


def looking(answers: Sequence[str], seen: list[str]) -> Tool:
    """A tool that a model may call with any command: it notes the command and answers with the next text."""

    @tool(name="look")
    async def look(args: Command, call: ToolCall) -> str:
        """Look at something by a command."""
        seen.append(args.command)
        return answers[(len(seen) - 1) % len(answers)]

    return look


def limited(tokens: int) -> Callable[[ModelRequest], Any]:
    """A hook that limits the tokens of every answer."""

    async def limit(request: ModelRequest) -> ModelRequest:
        return dataclasses.replace(request, options={**request.options, "maxTokens": tokens})

    return limit


@dataclass
class Talk:
    """An open session whose model is somebody's server. `seen` are the commands that its tool was called with."""

    harness: Harness
    root: Conversation
    listener: Listener
    seen: list[str]

    @property
    def attempts(self) -> list[Attempt]:
        return self.listener.attempts

    @property
    def kinds(self) -> list[str | None]:
        """How each attempt ended: the kind of its error, None for an answer."""
        return [attempt.error and attempt.error.kind for attempt in self.attempts]

    def bodies(self) -> list[dict[str, Any]]:
        """The body of each attempt."""
        return [self.listener.body(attempt.request) for attempt in self.attempts]

    async def ask(self, text: str) -> Settled:
        """Submit an input and wait for its end."""
        async with asyncio.timeout(HANG):
            return await (await self.root.submit(text)).wait()

    async def answered(self, text: str) -> dict[str, Any]:
        """Submit an input whose run must end with an answer: the answering message."""
        settled = await self.ask(text)
        assert settled.status == "done", (settled, [attempt.error for attempt in self.attempts])
        [message] = [entry["model"][0] for entry in await self.entries() if entry["id"] == settled.answer]
        return dict(message)

    async def shown(self) -> str:
        """Wait until some text of an answer that still comes can be seen; the text."""
        async with asyncio.timeout(HANG):
            async with contextlib.aclosing(self.root.watch()) as watch:
                async for frame in watch:
                    message = frame.value.get("generation", {}).get("message")
                    if message is not None and text(message):
                        return text(message)
        raise AssertionError("the session ended")

    async def entries(self) -> list[Any]:
        return [stored.record for stored in await self.root.entries(limit=1000)]

    async def messages(self, role: str) -> list[Any]:
        """The messages of one role in the conversation, oldest first, failed attempts included."""
        return [
            message for entry in await self.entries() for message in entry.get("model", []) if message["role"] == role
        ]


@contextlib.asynccontextmanager
async def talking(
    api: str,
    base_url: str,
    *,
    answers: Sequence[str] | None = None,
    tokens: int | None = None,
    settings: Settings = SETTINGS,
    http: HttpSettings = HTTP,
    model: str = "m",
    thinking: str | None = None,
    headers: dict[str, str] | None = None,
) -> AsyncIterator[Talk]:
    """A session that talks to `base_url`, as configured by a person; its store is checked at the end.

    `answers` offers the tool `look`; `tokens` limits each answer; `thinking` is the thinking level.
    """
    provider = {"api": api, "base_url": base_url, "api_key_env": "PEER_KEY", "headers": headers or {}}
    models = Models.from_env({"PEER_KEY": KEY}, {"peer": provider}, http=http)
    listener, seen = Listener(models), list[str]()
    registry = Registry()
    hooks = {} if tokens is None else {"beforeRequest": limited(tokens)}
    tools = [] if answers is None else [looking(answers, seen)]
    registry.install(Extension("peers", tools=tools, hooks=hooks))
    storage = MemoryStorage()
    harness = await Harness.open(
        storage, models=listener, registry=registry, environment=no_environment, settings=settings
    )
    try:
        root = await harness.root(agent={"model": f"peer/{model}", "cwd": ".", "thinkingLevel": thinking})
        yield Talk(harness, root, listener, seen)
        await asyncio.wait_for(harness.wait_for_idle(), HANG)
        async with harness.commit():
            found = await check_idle(storage)
        assert not found, "\n".join(found)
    finally:
        await asyncio.wait_for(harness.close(), HANG)
        await models.close()


def text(message: Any) -> str:
    """The text of a message, without its thinking."""
    return text_of(message)
