"""Shared by the tests that talk over a real socket."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Callable
from typing import Any

from durable_tui.models import Finished, HttpSettings, ModelError, ModelRequest, OpenAIChatProvider
from durable_tui.models.http_provider import HttpProvider
from durable_tui.models.known_providers import Quirks
from durable_tui.models.provider import Model, StreamEvent
from tests.tools.model_server import ModelServer

KEY = "sk-test-0123456789abcdef"
FAST = HttpSettings(connect=5.0, read=5.0, write=5.0, pool=2.0, linger=0.3)
TOOLS = [{"name": "bash", "description": "runs", "parameters": {"type": "object", "properties": {}}}]


def provider(
    server: ModelServer | str,
    settings: HttpSettings = FAST,
    quirks: Quirks | None = None,
    name: str = "acme",
    kind: type[HttpProvider] = OpenAIChatProvider,
) -> HttpProvider:
    url = server if isinstance(server, str) else server.base_url
    return kind(name, url, key=KEY, key_env="ACME_KEY", settings=settings, quirks=quirks)


def user(text: Any = "go") -> dict[str, Any]:
    return {"role": "user", "content": text, "timestamp": 1}


def request(
    *messages: dict[str, Any], name: str = "acme", api: str = "openai-chat", model_id: str = "m", **more: Any
) -> ModelRequest:
    return ModelRequest(Model(name, model_id, api), "be good", list(messages) or [user()], TOOLS, **more)


async def events_of(model: HttpProvider, *messages: dict[str, Any], **more: Any) -> list[StreamEvent]:
    return [event async for event in model.stream(request(*messages, name=model.name, api=model.api, **more))]


async def ask(model: HttpProvider, *messages: dict[str, Any], **more: Any) -> dict[str, Any]:
    events = await events_of(model, *messages, **more)
    assert isinstance(events[-1], Finished)
    return dict(events[-1].message)


async def fail(model: HttpProvider, *messages: dict[str, Any], **more: Any) -> tuple[ModelError, list[StreamEvent]]:
    """The ModelError that the attempt ends in, and the events before it."""
    return await failing(model.stream(request(*messages, name=model.name, api=model.api, **more)))


async def failing(stream: AsyncIterator[StreamEvent]) -> tuple[ModelError, list[StreamEvent]]:
    """The ModelError that a stream ends in, and the events before it."""
    seen: list[StreamEvent] = []
    try:
        async for event in stream:
            seen.append(event)
    except ModelError as error:
        assert KEY not in str(error)
        return error, seen
    raise AssertionError(f"no ModelError, but {seen}")


def text(message: dict[str, Any]) -> str:
    return "".join(block["text"] for block in message["content"] if block["type"] == "text")


def calls(message: dict[str, Any]) -> list[dict[str, Any]]:
    return [block for block in message["content"] if block["type"] == "toolCall"]


def result(call: dict[str, Any], output: str = "") -> dict[str, Any]:
    content = [{"type": "text", "text": output}]
    return {
        "role": "toolResult",
        "toolCallId": call["id"],
        "toolName": call["name"],
        "content": content,
        "isError": False,
    }


def chunk(delta: Any = None, finish: Any = None, **more: Any) -> str:
    value = {"choices": [{"index": 0, "delta": delta, "finish_reason": finish}], **more}
    return f"data: {json.dumps(value, ensure_ascii=False)}\n\n"


def _playing(act: Callable[[HttpProvider], Any], kind: type[HttpProvider], name: str) -> Callable[..., Any]:
    async def play(turn: dict[str, Any] | str | bytes, settings: HttpSettings = FAST, **more: Any) -> Any:
        played = turn if isinstance(turn, dict) else {"body": turn}
        with ModelServer([{**played, **more}]) as server:
            model = provider(server, settings, name=name, kind=kind)
            try:
                return await act(model)
            finally:
                await model.close()

    return play


def answering(kind: type[HttpProvider] = OpenAIChatProvider, name: str = "acme") -> Callable[..., Any]:
    """`answer_to(turn, settings)` for a protocol: the message that a turn of the server, or a raw body, comes to."""
    return _playing(ask, kind, name)


def refusing(kind: type[HttpProvider] = OpenAIChatProvider, name: str = "acme") -> Callable[..., Any]:
    """`failure_of(turn, settings)` for a protocol: the error a turn ends in, and the events before it."""
    return _playing(fail, kind, name)
