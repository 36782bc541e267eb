"""Whole conversations over a real socket with every known provider, and one that goes from provider to provider."""

from __future__ import annotations

import contextlib
import json
from collections.abc import AsyncIterator
from typing import Any

import pytest
from pydantic import BaseModel

from durable_tui.agent.extension import Extension, Registry, ToolCall, ToolResult, tool
from durable_tui.agent.settings import Settings
from durable_tui.harness.conversation import Conversation
from durable_tui.harness.harness import Harness
from durable_tui.models import HttpSettings, Models
from durable_tui.models.known_providers import ANTHROPIC, KNOWN, OPENAI_CHAT, OPENAI_RESPONSES
from durable_tui.storage import MemoryStorage
from tests.tools import pictures
from tests.tools.model_server import ModelServer
from tests.tools.scenario import no_environment

KEY = "sk-test-0123456789abcdef"
QUICK = Settings(base_delay=0.01, max_delay=0.02)
PICTURE = pictures.block(pictures.plain(size=(9, 7)))


class Nothing(BaseModel):
    pass


@tool(replay="safe")
async def look(args: Nothing, call: ToolCall) -> ToolResult:
    """Shows a picture."""
    return ToolResult([{"type": "text", "text": "a picture"}, PICTURE])


@tool(replay="safe")
async def nothing(args: Nothing, call: ToolCall) -> str:
    """Says nothing."""
    return ""


def script(*calls: dict[str, Any]) -> list[dict[str, Any]]:
    """An answer with thinking, text and calls, then one that ends the run."""
    return [
        {"thinking": " first I think\n", "signature": "SIG==", "text": "I look.", "calls": list(calls)},
        {"text": "I saw it.", "usage": {"input": 20, "output": 5, "cacheRead": 80}},
    ]


CALLS = ({"name": "look", "id": "one"}, {"name": "nothing", "id": "two"}, {"name": "no_such", "id": "three"})


@contextlib.asynccontextmanager
async def session(models: Models, storage: MemoryStorage, model: str) -> AsyncIterator[Conversation]:
    registry = Registry()
    registry.install(Extension("sight", tools=[look, nothing]))
    async with Harness.open(
        storage, models=models, registry=registry, environment=no_environment, settings=QUICK
    ) as harness:
        root = await harness.root(agent={"model": model, "thinkingLevel": "high"})
        await root.configure(model=model)
        yield root


async def ask(root: Conversation, content: Any) -> dict[str, Any]:
    """The answer to an input."""
    settled = await (await root.submit(content)).wait()
    assert settled.status == "done", (settled.reason, settled.detail)
    entries = await root.entries(limit=1000)
    return dict(next(e.record for e in entries if e.record["id"] == settled.answer)["model"][0])


@pytest.mark.parametrize(("name", "api"), [*((name, None) for name in KNOWN), ("openai", OPENAI_RESPONSES)])
async def test_a_conversation_with_tools_images_and_thinking_with_every_known_provider(
    name: str, api: str | None
) -> None:
    """At another address, so the strict server can be asked in its place; the protocol of openai's own is forced there."""
    known = KNOWN[name]
    model = f"{name}/{known.default_model or 'some-model'}"
    with ModelServer(script(*CALLS), strict=True) as server:
        environ = {known.key_env: KEY, known.base_url_env: server.base_url}
        models = Models.from_env(environ, {name: {"api": api}} if api else {}, http=HttpSettings(linger=0.3))
        async with session(models, MemoryStorage(), model) as root:
            for content in ("look at it", [{"type": "text", "text": "and at this"}, PICTURE], "once more"):
                answer = await ask(root, content)
                # The server counts only for those who ask it to.
                assert (answer["stopReason"], answer["usage"]["cacheRead"]) == ("stop", 80 * known.quirks.stream_usage)
        await models.close()
    assert server.violations == [] and len(server.requests) == 6
    headers = server.headers[0]
    assert KEY in (headers.get("authorization", "") + headers.get("x-api-key", ""))
    said = json.dumps(server.requests[-1])
    blind = Models.from_env().resolve(model).images is False
    assert said.count(PICTURE["data"]) == (0 if blind else 4), "the one of the user, and what the tool showed each time"
    assert said.count("cannot see images") == (4 if blind else 0)
    assert "is not available" in said, "the tool that is none has its result"


async def test_p21_p22_one_conversation_goes_from_provider_to_provider_and_through_restarts() -> None:
    """Each protocol twice and once more, each time with calls whose ids only their own server would choose."""
    places = [  # with the form of ids that each server gives its calls
        ("chat", OPENAI_CHAT, "any", "functions.look:{}"),
        ("deepseek", OPENAI_CHAT, "deepseek-reasoner", "call|{}"),
        ("claude", ANTHROPIC, "claude-sonnet-4-5", "toolu_{}"),
        ("mistral", OPENAI_CHAT, "mistral-large-latest", "m{:08}"),
        ("responses", OPENAI_RESPONSES, "gpt-5.2", "call_" + "x" * 50 + "{}"),
        ("gemini", OPENAI_CHAT, "gemini-3.8-flash", "{}"),
    ]
    storage = MemoryStorage()
    with ModelServer([], strict=True) as server:
        config = {name: {"api": api, "base_url": server.base_url} for name, api, *_ in places}
        for number, (name, _, model_id, form) in enumerate([*places, *reversed(places), places[2]]):
            server.script = script(*({**call, "id": form.format(3 * number + i)} for i, call in enumerate(CALLS)))
            models = Models.from_env({}, config, http=HttpSettings(linger=0.3))
            async with session(models, storage, f"{name}/{model_id}") as root:
                answer = await ask(root, f"question {number}")
                assert (answer["provider"], answer["model"]) == (name, model_id)
            await models.close()
            storage = storage.crash()
    assert server.violations == [], server.violations
    assert len(server.requests) == 26
    last = json.dumps(server.requests[-1])
    assert last.count("SIG==") == 3, "thinking of this very model alone: two earlier turns and the first of this one"
    assert "first I think" not in json.dumps(server.requests[6 * 2 + 1]["messages"][0])
