"""Overflows, lost connections and cut streams, over a real socket (cases UI-X01-UI-X05)."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator
from typing import Any

import pytest

from durable_tui import Harness, Registry
from durable_tui.agent.settings import Settings
from durable_tui.harness.conversation import Conversation
from durable_tui.models import HttpSettings, Models
from durable_tui.storage import MemoryStorage
from tests.tools.model_server import ModelServer
from tests.tools.scenario import no_environment

PRICES = {"input": 1.0, "output": 10.0}
USAGE = {"prompt_tokens": 1000, "completion_tokens": 100, "total_tokens": 1100}
TEXT = "one two three four five six seven"
QUICK = Settings(base_delay=0.01, max_delay=0.02, partial_interval=0.0)
APIS = ("openai-chat", "openai-responses", "anthropic")


@contextlib.asynccontextmanager
async def session(
    server: ModelServer, api: str = "openai-chat", settings: Settings = QUICK, facts: dict[str, Any] | None = None
) -> AsyncIterator[Conversation]:
    given = {"m": {"prices": PRICES, **(facts or {})}}
    config: dict[str, Any] = {"api": api, "base_url": server.base_url, "models": given}
    models = Models.from_env({}, {"play": config}, http=HttpSettings(connect=5, read=5, linger=0.3))
    async with Harness.open(
        MemoryStorage(), models=models, registry=Registry(), environment=no_environment, settings=settings
    ) as harness:
        yield await harness.root(agent={"model": "play/m"})
    await models.close()


async def answers(root: Conversation) -> list[dict[str, Any]]:
    stored = await root.entries(limit=1000)
    return [dict(m) for item in stored for m in item.record.get("model", ()) if m["role"] == "assistant"]


def text_of(message: dict[str, Any]) -> str:
    return "".join(block.get("text", "") for block in message["content"])


def asked(server: ModelServer) -> list[list[str]]:
    """The roles of each request's messages, the system's left out; they say what of a failed attempt was sent again."""
    return [
        [
            item.get("role", item.get("type"))
            for item in body.get("messages") or body["input"]
            if item.get("role") != "system"
        ]
        for body in server.requests
    ]


@pytest.mark.parametrize("api", APIS)
async def test_ui_x01_p20_an_overflow_is_asked_once_and_the_end_says_what_to_do(api: str) -> None:
    body = {"error": {"code": 400, "type": "exceed_context_size_error", "n_ctx": 1024, "n_prompt_tokens": 8031,
                      "message": "request (8031 tokens) exceeds the available context size (1024 tokens)"}}  # fmt: skip
    with ModelServer([{"status": 400, "body": body}]) as server:
        async with session(server, api) as root:
            for _ in range(2):
                settled = await (await root.submit("go")).wait()
                assert (settled.status, settled.reason) == ("unanswered", "model_error")
                detail = str(settled.detail)
                assert "exceeds the available context size" in detail and "larger context window" in detail
        assert len(server.requests) == 2, "one request an input, never a loop"


@pytest.mark.parametrize("api", APIS)
@pytest.mark.parametrize(
    ("status", "body", "count"),
    [
        (429, {"error": {"message": "tokens per minute: maximum context length", "code": "rate_limit_exceeded"}}, 4),
        (400, {"error": {"message": "max_tokens must be <= 8192"}}, 1),
        (400, {"error": {"message": "image size 7000000 exceeds the limit of 5242880 bytes"}}, 1),
    ],
)
async def test_p20_what_is_no_overflow_never_says_so(api: str, status: int, body: Any, count: int) -> None:
    with ModelServer([{"status": status, "body": body}]) as server:
        async with session(server, api) as root:
            settled = await (await root.submit("go")).wait()
        assert settled.reason == "model_error" and "larger context window" not in str(settled.detail)
        assert len(server.requests) == count


@pytest.mark.parametrize("window", [None, 1000, 10_000])
async def test_ui_x02_a_hopeless_request_is_not_sent_and_the_next_model_takes_over(window: int | None) -> None:
    """The second question is far beyond a window of 1,000 tokens by the estimate; the answer to the first was counted."""
    with ModelServer(
        [{"text": "yes", "usage": {"prompt_tokens": 900, "completion_tokens": 10, "total_tokens": 910}}]
    ) as server:
        facts = {"context_window": window} if window else {}
        async with session(server, facts=facts) as root:
            assert (await (await root.submit("short")).wait()).status == "done"
            settled = await (await root.submit("long " * 400)).wait()
            sent = len(server.requests)
            if window == 1000:
                assert (settled.reason, sent) == ("model_error", 1)
                assert "not sent" in str(settled.detail) and "larger context window" in str(settled.detail)
                await root.configure(model="play/roomy")
                settled = await (await root.submit("once more")).wait()
            assert settled.status == "done" and len(server.requests) == 2


@pytest.mark.parametrize("api", APIS)
async def test_ui_x03_a_lost_connection_is_tried_again_and_every_attempt_is_kept_with_its_cost(api: str) -> None:
    busy = {"status": 529, "body": {"error": {"type": "overloaded_error", "message": "Overloaded"}}}
    turn = {"text": TEXT, "usage": USAGE, "faults": [{"reset_after": 0}, busy]}
    with ModelServer([turn]) as server:
        async with session(server, api) as root:
            settled = await (await root.submit("go")).wait()
            assert settled.status == "done"
            said = await answers(root)
            assert [m["stopReason"] for m in said] == ["error", "error", "stop"]
            assert "Overloaded" in said[1]["errorMessage"] and text_of(said[2]) == TEXT
            assert said[2]["usage"]["cost"]["total"] == pytest.approx((1000 * 1 + 100 * 10) / 1e6)
        assert asked(server) == [["user"]] * 3, "nothing of a failed attempt is sent"


@pytest.mark.parametrize("api", APIS)
@pytest.mark.parametrize("how", ["cut_after", "reset_after"])
async def test_ui_x04_ui_x05_p06_a_stream_dropped_after_three_deltas_is_tried_again_and_stays_visible(
    api: str, how: str
) -> None:
    after = {"openai-chat": 700, "openai-responses": 2500, "anthropic": 900}[api]
    with ModelServer([{"text": TEXT * 20, "faults": [{how: after}]}]) as server:
        async with session(server, api) as root:
            settled = await (await root.submit("go")).wait()
            assert settled.status == "done"
            said = await answers(root)
        assert [m["stopReason"] for m in said] == ["error", "stop"]
        first, whole = text_of(said[0]), text_of(said[1])
        assert whole == TEXT * 20 and 0 < len(first) < len(whole) and whole.startswith(first)
        assert asked(server) == [["user"]] * 2


@pytest.mark.parametrize("api", APIS)
async def test_ui_x05_a_stream_that_always_drops_is_no_success(api: str) -> None:
    with ModelServer([{"text": TEXT, "cut_after": 400}]) as server:
        async with session(server, api) as root:
            settled = await (await root.submit("go")).wait()
            assert (settled.status, settled.reason) == ("unanswered", "model_error")
            assert {m["stopReason"] for m in await answers(root)} == {"error"}
        assert len(server.requests) == 4
