"""What a server refuses and a request can do without is left out of the next attempt (models/known.py, REFUSALS)."""

from __future__ import annotations

import json
from typing import Any

import pytest

from durable_tui.models.anthropic_messages import AnthropicProvider
from durable_tui.models.http_provider import HttpProvider
from durable_tui.models.known_providers import ANTHROPIC, KNOWN, OPENAI_CHAT, OPENAI_RESPONSES, REFUSALS, Quirks
from durable_tui.models.openai_chat import OpenAIChatProvider
from durable_tui.models.openai_responses import ResponsesProvider
from tests.tools.model_server import ModelServer
from tests.wire.kit import ask, calls, fail, provider, result, text, user

KINDS: dict[str, type[HttpProvider]] = {
    OPENAI_CHAT: OpenAIChatProvider,
    OPENAI_RESPONSES: ResponsesProvider,
    ANTHROPIC: AnthropicProvider,
}
CLAUDE = "claude-sonnet-5-5"
EFFORT = KNOWN["openai"].quirks
THOUGHT = {"thinking": "well", "signature": "SIG==", "calls": [{"name": "bash"}]}
#: (protocol, quirks, model, what the server says, what the first body holds and the second does not)
CASES = [
    (OPENAI_CHAT, Quirks(), "m", "Unknown parameter: 'stream_options'.", "stream_options"),
    (OPENAI_CHAT, EFFORT, "gpt-5.2", "Unrecognized request argument supplied: reasoning_effort", "reasoning_effort"),
    (OPENAI_CHAT, Quirks(), "m", "messages.1.assistant.reasoning_content: Extra inputs are not permitted", "well"),
    (OPENAI_RESPONSES, EFFORT, "gpt-5.2", "The encrypted content gAAA could not be verified.", "encrypted_content"),
    (
        OPENAI_RESPONSES,
        EFFORT,
        "gpt-5.2",
        "Your organization must be verified to generate reasoning summaries.",
        '"auto"',
    ),
    (ANTHROPIC, None, CLAUDE, "thinking.adaptive.block_binding: Extra inputs are not permitted", "block_binding"),
    (ANTHROPIC, None, CLAUDE, "messages.1.content.0: Invalid `signature` in `thinking` block", "SIG=="),
    (ANTHROPIC, None, CLAUDE, "`thinking` blocks in the latest assistant message cannot be modified", "SIG=="),
]


@pytest.mark.parametrize(("api", "quirks", "model_id", "told", "missing"), CASES)
async def test_the_next_attempt_goes_without_and_a_second_refusal_ends_it(
    api: str, quirks: Quirks | None, model_id: str, told: str, missing: str
) -> None:
    more: dict[str, Any] = {"model_id": model_id, "thinking_level": "high"}
    with ModelServer([THOUGHT, {"text": "fine"}]) as server:
        model = provider(server, kind=KINDS[api], quirks=quirks)
        message = await ask(model, user(), **more)
        history = [user(), message, result(calls(message)[0])]
        server.script = [{"status": 400, "body": {"error": {"message": told, "type": "invalid_request_error"}}}]
        server.script *= 2
        error, _ = await fail(model, *history, **more)
        assert error.retryable and error.status == 400 and told in str(error) and "next attempt" in str(error)
        error, _ = await fail(model, *history, **more)
        assert not error.retryable, "it was left out, and is still refused"
        server.script = [THOUGHT, {"text": "fine"}]
        assert text(await ask(model, *history, **more)) == "fine"
        await model.close()
    first, *_, last = (json.dumps(body) for body in server.requests[1:])
    assert missing in first and missing not in last


async def test_p22_a_server_that_demands_reasoning_content_gets_it_also_where_it_was_never_kept() -> None:
    told = "The reasoning_content in the thinking mode must be passed back to the API."
    refused = {"text": "fine", "faults": [{"status": 400, "body": {"error": {"message": told}}}]}
    with ModelServer([{"calls": [{"name": "bash"}]}, refused]) as server:
        model = provider(server, quirks=Quirks())
        message = await ask(model)
        history = [user(), message, result(calls(message)[0])]
        error, _ = await fail(model, *history)
        assert error.retryable
        server.script = [{"text": "unused"}, {"text": "fine"}]
        assert text(await ask(model, *history)) == "fine"
        await model.close()
    assert "reasoning_content" not in server.requests[1]["messages"][-2]
    assert server.requests[2]["messages"][-2]["reasoning_content"] == ""


async def test_what_one_model_refused_is_still_sent_to_another() -> None:
    told = {"status": 400, "body": {"error": {"message": "unknown field stream_options"}}}
    with ModelServer([told]) as server:
        model = provider(server)
        await fail(model)
        server.script = [{"text": "fine"}]
        await ask(model)
        await ask(model, model_id="other")
        await model.close()
    assert ["stream_options" in body for body in server.requests] == [True, False, True]


def test_every_refusal_names_quirks_there_are() -> None:
    for refusals in REFUSALS.values():
        for refusal in refusals:
            assert refusal.quirks and all(hasattr(Quirks(), name) for name in refusal.quirks)
