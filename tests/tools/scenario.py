"""A harness over the strict provider and the effect tools, on any backend, that can be killed and opened again."""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
from collections.abc import AsyncIterator, Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from durable_tui.agent.extension import Extension, Registry
from durable_tui.agent.settings import Settings
from durable_tui.engine.task import TaskDefinition
from durable_tui.environment.base import Environment, EnvironmentScope
from durable_tui.harness.conversation import Conversation
from durable_tui.harness.harness import Harness
from durable_tui.models.provider import Model, ModelRequest
from durable_tui.storage import MemoryStorage, SqliteStorage
from durable_tui.storage.errors import Fenced
from tests.tools.effects import Effects
from tests.tools.invariants import check_effects, check_idle, check_store
from tests.tools.strict_provider import Script, StrictScripted, judge

BACKENDS = ("memory", "sqlite")
AGENT = {"model": "strict/m", "cwd": "."}
FAST = Settings(base_delay=0.0, max_delay=0.0, partial_interval=0.0, output_interval=0.0)


class NoEnvironment:
    """An environment for tools that touch nothing."""

    id = "none"
    cwd = "."

    def __getattr__(self, name: str) -> Any:
        raise AssertionError(f"a test tool asked its environment for {name}")


def no_environment(scope: EnvironmentScope) -> Environment:
    return NoEnvironment()


@dataclass
class Rig:
    """One opened session. `kill()` ends it as a death would and `reopen()` opens the same data again."""

    script: Script
    backend: str = "memory"
    path: Path | None = None
    settings: Settings = FAST
    effects: Effects = field(default_factory=Effects)
    extensions: list[Extension] = field(default_factory=list)
    record: bool = False
    now: Callable[[], int] | None = None
    agent: dict[str, str] = field(default_factory=lambda: dict(AGENT))
    provider: StrictScripted = field(init=False)
    storage: Any = None
    harness: Harness = field(init=False)
    root: Conversation = field(init=False)

    def __post_init__(self) -> None:
        self.provider = StrictScripted(self.script)

    async def open(self, storage: Any = None) -> Rig:
        """Open the store (a new one, or the given one), the harness and its root conversation."""
        if storage is not None:
            self.storage = storage
        elif self.backend == "memory":
            self.storage = MemoryStorage(record=self.record)
        else:
            assert self.path is not None
            self.storage = await SqliteStorage.open(self.path, durability="process")
        registry = Registry()
        registry.install(self.effects.extension())
        for extension in self.extensions:
            registry.install(extension)
        self.harness = await Harness.open(
            self.storage,
            models=self.provider,
            registry=registry,
            environment=no_environment,
            settings=self.settings,
            now=self.now,
        )
        self.root = await self.harness.root(agent=self.agent)
        return self

    async def kill(self) -> None:
        """End as a death would: nothing is committed any more, nothing is marked closed."""
        if self.backend == "memory":
            self.storage = self.storage.crash()
        else:
            await self.storage.abandon()
        with contextlib.suppress(Exception):
            await asyncio.wait_for(self.harness.close(), 10)

    def dies_at(self, last_words: Callable[[Any, int], bool]) -> asyncio.Event:
        """From the first batch for which `last_words(batch, number)` holds nothing is stored any more, it included.

        The numbers begin at 1 now. The event tells when that happened; `crash()` then opens what was left.
        """
        storage, inner, dead, count = self.storage, self.storage.commit, asyncio.Event(), 0

        async def commit(batch: Any) -> None:
            nonlocal count
            count += 1
            if dead.is_set() or last_words(batch, count):
                dead.set()
                raise Fenced("this process is dead")
            await inner(batch)

        storage.commit = commit
        return dead

    async def reopen(self) -> Rig:
        """Open the same data again, after `kill()` or `close()`."""
        if self.backend == "memory":
            if not isinstance(self.storage, MemoryStorage):
                raise AssertionError("no store")
            return await self.open(self.storage)
        return await self.open()

    def built_in(self, kind: str, **changes: Any) -> TaskDefinition:
        """The built-in kind of task of this opening, with some of its parts replaced."""
        definition = self.harness._engine.definitions.get(kind)
        assert definition is not None
        return dataclasses.replace(definition, **changes)

    def install(self, *definitions: TaskDefinition, name: str = "tasks") -> None:
        """Install kinds of task now, as an extension of that name."""
        self.harness._agent.toolbox.registry.install(Extension(name, tasks=definitions))

    async def crash(self) -> Rig:
        """`kill()` and `reopen()`."""
        await self.kill()
        return await self.reopen()

    async def close(self) -> None:
        await self.harness.close()
        if self.backend == "memory":
            self.storage = self.storage.crash()

    async def idle(self, seconds: float = 20) -> None:
        """Until the session is idle."""
        await asyncio.wait_for(self.harness.wait_for_idle(), seconds)

    async def check(self, *, idle: bool = False) -> None:
        """Assert the invariants of the store, the effects, and that no request was refused. Between two commits."""
        async with self.harness.commit():
            found = await (check_idle if idle else check_store)(self.storage)
            found += await check_effects(self.storage, self.effects.read())
        found += self.provider.violations
        assert not found, "\n".join(found)

    async def entries(self, conversation: Conversation | None = None) -> list[Any]:
        """All entries of a conversation, oldest first."""
        page = await (conversation or self.root).entries(limit=10_000)
        return [stored.record for stored in page]

    async def transcript(self) -> list[str]:
        """The root's messages as short words: `user: x`, `ai: y`, `call note`, `result note: z`, `error note: z`."""
        return [line for entry in await self.entries() for line in describe(entry)]

    async def document(self, kind: str, conversation_id: int = 1) -> Any:
        """A conversation's document, folded from the store."""
        from tests.tools.folding import fold

        stored = await self.storage.document(kind, {"kind": "conversation", "conversationId": conversation_id})
        return None if stored is None else fold(stored.base, stored.deltas)

    async def inbox(self) -> list[Any]:
        return list((await self.document("pi.inbox") or {"items": []})["items"])


@contextlib.asynccontextmanager
async def rig(
    script: Script, backend: str = "memory", tmp_path: Path | None = None, **options: Any
) -> AsyncIterator[Rig]:
    """`async with rig(script, backend, tmp_path) as r:`: opened on entry, closed on exit."""
    path = None if tmp_path is None else tmp_path / "session.sqlite"
    made = Rig(script, backend, path, **options)
    await made.open()
    try:
        yield made
    finally:
        await asyncio.wait_for(made.harness.close(), 10)


def describe(entry: Any) -> list[str]:
    """One entry as short lines; kinds without a message give nothing, ended partials are marked."""
    lines = []
    for message in entry.get("model", []):
        role = message["role"]
        if role == "user":
            lines.append(f"user: {text_of(message)}")
        elif role == "assistant":
            mark = "" if message["stopReason"] in ("stop", "toolUse") else f" ({message['stopReason']})"
            if text_of(message) or mark:
                lines.append(f"ai: {text_of(message)}{mark}")
            lines += [f"call {block['name']}" for block in message["content"] if block["type"] == "toolCall"]
        elif role == "toolResult":
            word = "error" if message["isError"] else "result"
            lines.append(f"{word} {message['toolName']}: {text_of(message)}")
    return lines


def text_of(message: Any) -> str:
    content = message["content"]
    if isinstance(content, str):
        return content
    return "\n".join(block["text"] for block in content if block["type"] == "text")


def codes(entries: Iterable[Any]) -> list[str]:
    """The codes of the diagnostics of all tool results, in order."""
    return [
        diagnostic["code"]
        for entry in entries
        for diagnostic in (entry.get("data") or {}).get("diagnostics", [])
        if "code" in diagnostic
    ]


async def derived(conversation: Conversation) -> list[str]:
    """Violations of the request that would be made of a conversation as it stands now."""
    model = Model("strict", "m", "scripted")
    request = ModelRequest(model, "", await conversation.context())
    return [line for line in judge(request, sendable=False) if "has no message" not in line]
