"""Responses over a real socket against a server that breaks on demand (cases P01-P26)."""

# ruff: noqa: E501 - bodies as they came
from __future__ import annotations

import asyncio
import functools
import json
from typing import Any

import pytest

from durable_tui.models import Finished, HttpSettings
from durable_tui.models.known_providers import OPENAI_RESPONSES, Quirks
from durable_tui.models.openai_responses import ResponsesProvider
from durable_tui.models.provider import BlockDelta
from durable_tui.models.responses_request import build_request
from tests.tools.model_server import ModelServer
from tests.tools.sdk import assemble, neutral
from tests.wire.kit import KEY, answering, ask, calls, fail, provider, refusing, request, result, text, user

HI = {"type": "message", "id": "msg_1", "content": [{"type": "output_text", "text": "hi"}]}


answer_to, failure_of = answering(ResponsesProvider), refusing(ResponsesProvider)


def body_of(*events: dict[str, Any], status: str | None = "completed", **more: Any) -> str:
    """A body with these events and, unless None, the terminal one."""
    ends = [] if status is None else [{"type": f"response.{status}", "response": {"status": status, **more}}]
    return "".join(f"data: {json.dumps(event, ensure_ascii=False)}\n\n" for event in (*events, *ends))


def said(piece: str) -> dict[str, Any]:
    return {"type": "response.output_text.delta", "item_id": "msg_1", "delta": piece}


async def test_p21_a_conversation_with_reasoning_and_calls_passes_the_strict_server() -> None:
    script = [
        {
            "blocks": [
                {"thinking": ["I look.", "  Then I act. "], "signature": "A=="}, {"text": "Two calls."}, {"redacted": "B=="},
                {"call": {"name": "bash", "args": {"command": "ls"}}}, {"call": {"name": "bash"}},
            ]
        },
        {"text": "Both done."},
    ]  # fmt: skip
    with ModelServer(script, strict=True, sdk=True) as server:
        model = provider(server, kind=ResponsesProvider)
        first = await ask(model)
        results = [result(call, "r") for call in calls(first)]
        second = await ask(model, user(), first, *reversed(results))
        await ask(model, user(), first, *results, second, user("more"))
        await model.close()
    assert server.violations == [] and len(server.requests) == 3
    assert first["stopReason"] == "toolUse" and calls(first)[0]["arguments"] == {"command": "ls"}
    assert text(second) == "Both done." and second["stopReason"] == "stop" and second["usage"]["input"] > 0
    sent = [item for item in server.requests[1]["input"] if item["type"] == "reasoning"]
    assert [(item["encrypted_content"], [part["text"] for part in item["summary"]]) for item in sent] == [
        ("A==", ["I look.", "  Then I act. "]), ("B==", []),
    ]  # fmt: skip
    assert server.headers[0]["authorization"] == f"Bearer {KEY}" and "idempotency-key" not in server.headers[0]
    assert server.apis == [OPENAI_RESPONSES] * 3


@pytest.mark.parametrize(
    "turn",
    [
        {"text": "Hello 北京🙂"},
        {"thinking": ["a", "b"], "text": "x", "calls": [{"name": "bash", "args": {"a": 1}}]},
        {"text": "Once upon", "finish": "length"},
        {"refusal": "I cannot."},
    ],
)
@pytest.mark.parametrize("size", [1, 50])
async def test_p01_in_pieces_it_is_what_the_official_client_reads(turn: dict[str, Any], size: int) -> None:
    with ModelServer([{**turn, "chunk_bytes": size}]) as server:
        model = provider(server, kind=ResponsesProvider)
        message = await ask(model)
        await model.close()
        theirs = await asyncio.to_thread(
            assemble, OPENAI_RESPONSES, server.base_url, build_request(request(api=OPENAI_RESPONSES), Quirks())
        )
    assert neutral(message) == theirs


async def test_p02_unicode_line_ends_are_text() -> None:
    words = "a\u2028b\u2029c\x85d"
    item = {
        "type": "function_call",
        "id": "fc",
        "call_id": "c",
        "name": "bash",
        "arguments": json.dumps({"x": words}, ensure_ascii=False),
    }
    message = await answer_to({"body": body_of(said(words), {"type": "response.output_item.done", "item": item})})
    assert text(message) == words and calls(message)[0]["arguments"] == {"x": words}


async def test_p04_comments_are_signs_of_life_but_no_events() -> None:
    body = ": PROCESSING\n\n" * 40 + body_of(said("a"), status=None) + ":\n\n" + body_of(said("b")) + ":\n\n"
    # The whole takes longer than the read timeout; each comment resets it.
    message = await answer_to(
        {"body": body, "chunk_bytes": 24, "chunk_delay": 0.03}, HttpSettings(read=0.4, linger=0.3)
    )
    assert text(message) == "ab"


@pytest.mark.parametrize("fault", [{}, {"cut_after": 900}, {"cut_after": 900, "abrupt": True}, {"reset_after": 900}])
async def test_p06_a_stream_that_ends_early_is_a_failed_attempt(fault: dict[str, Any]) -> None:
    turn = {"text": "x" * 200, **fault} if fault else {"body": body_of(said("one"), said("two"), status=None)}
    error, seen = await failure_of(turn)
    assert error.retryable and error.kind in ("truncated", "network")
    assert fault or "".join(event.text for event in seen if isinstance(event, BlockDelta)) == "onetwo"
    assert not any(isinstance(event, Finished) for event in seen)


async def test_p06_the_terminal_event_is_enough() -> None:
    body = body_of(said("hi"))
    for fault in ({"cut_after": len(body), "abrupt": True}, {"stall": True, "stall_after": len(body)}, {}):
        turn = {"body": body + "data: [DONE]\n\n", **fault} if fault else {"body": body.rstrip("\n")}
        assert text(await answer_to(turn)) == "hi"


@pytest.mark.parametrize("before", [0, 30])
async def test_p17_an_error_inside_a_200(before: int) -> None:
    event = {"type": "error", "code": "server_error", "message": "The server is overloaded"}
    found, seen = await failure_of({"body": body_of(*[said("x")] * before, event, status=None)})
    assert found.kind == "overloaded" and found.retryable and "overloaded" in str(found)
    assert len(seen) == (before + 1 if before else 0)
    found, _ = await failure_of({"text": "x", "failed": {"code": "invalid_prompt", "message": "no"}})
    assert found.kind == "bad_request" and not found.retryable


@pytest.mark.parametrize(
    ("turn", "kind_of", "retryable", "wait"),
    [
        ({"status": 429, "body": {"error": {"code": "insufficient_quota", "message": "quota"}}}, "quota", False, None),
        ({"status": 429, "body": {"error": {"code": "rate_limit_exceeded"}}, "headers": {"Retry-After": "2"}}, "rate_limit", True, 2.0),
        ({"status": 429, "body": {}, "headers": {"retry-after-ms": "1500"}}, "rate_limit", True, 1.5),
        ({"status": 400, "body": {"error": {"code": "context_length_exceeded", "message": "m"}}}, "overflow", False, None),
        ({"status": 400, "body": {"error": {"message": "bad"}}}, "bad_request", False, None),
        ({"status": 401, "body": {"error": {"message": f"wrong key {KEY}"}}}, "authentication", False, None),
        ({"status": 503, "body": {"error": {"message": "Loading model", "type": "unavailable_error", "code": 503}}}, "overloaded", True, None),
    ],
)  # fmt: skip
@pytest.mark.parametrize("kind", [ResponsesProvider, functools.partial(ResponsesProvider, background=True)])
async def test_p18_p19_p20_error_answers(
    turn: dict[str, Any], kind_of: str, retryable: bool, wait: float | None, kind: Any
) -> None:
    with ModelServer([turn]) as server:
        model = provider(server, kind=kind)
        error, seen = await fail(model)
        await model.close()
    assert (error.kind, error.retryable, error.retry_after, error.status) == (kind_of, retryable, wait, turn["status"])
    assert seen == [] and not error.polled and len(server.requests) == 1


async def test_json_on_a_streamed_request() -> None:
    turn = {"json": True, "thinking": "t", "text": "whole", "calls": [{"name": "bash", "args": {"a": 1}}]}
    message = await answer_to(turn)
    assert (
        text(message) == "whole" and calls(message)[0]["arguments"] == {"a": 1} and message["stopReason"] == "toolUse"
    )
    error, _ = await failure_of({"json": {"error": {"message": "prompt is too long: 5 tokens > 4 maximum"}}})
    assert error.kind == "overflow"
    error, _ = await failure_of({"json": True, "failed": {"code": "rate_limit_exceeded", "message": "later"}})
    assert error.kind == "rate_limit"
    error, _ = await failure_of({"json": {"object": "error", "message": "no such model", "code": 404}})
    assert error.kind == "not_found"
    body = json.dumps({"object": "response", "status": "completed", "output": [HI]})
    assert text(await answer_to({"body": body})) == "hi"  # under the stream's content type


async def test_p26_aborts_leave_the_pool_whole() -> None:
    with ModelServer([{"text": "drip " * 400, "delay": 60.0}]) as server:
        settings = HttpSettings(connect=5.0, read=30.0, pool=1.5, max_connections=4)
        model = provider(server, settings, kind=ResponsesProvider)
        for number in range(6):
            stream = model.stream(request(api=OPENAI_RESPONSES))
            task = asyncio.ensure_future(anext(aiter(stream)))
            if number % 3:
                await task
                await stream.aclose()  # type: ignore[attr-defined]
                continue
            await asyncio.sleep(0)
            task.cancel()
            await asyncio.sleep(0)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
        server.script = [{"text": "fine"}]
        async with asyncio.timeout(2):
            assert text(await ask(model)) == "fine"
        await model.close()


@pytest.mark.parametrize("background", [False, True])
@pytest.mark.parametrize(
    "told",
    [
        {"code": "invalid_encrypted_content", "message": "The encrypted content gAAA could not be verified."},
        {"message": "Encrypted content is not supported with this model."},
    ],
)
async def test_reasoning_that_cannot_be_read_any_more_does_not_end_the_conversation(
    told: dict[str, str], background: bool
) -> None:
    kind: Any = functools.partial(ResponsesProvider, background=background)
    first = {"blocks": [{"redacted": "A=="}, {"call": {"name": "bash"}}]}
    with ModelServer([first, {"text": "fine", "faults": [{"status": 400, "body": {"error": told}}]}]) as server:
        model = provider(server, kind=ResponsesProvider)
        message = await ask(model)
        await model.close()
        model = provider(server, kind=kind)
        history = [user(), message, result(calls(message)[0])]
        error, _ = await fail(model, *history)
        assert error.retryable and error.status == 400 and told["message"] in str(error) and "without" in str(error)
        error, _ = await fail(model, *history)  # another body, so it meets the fault too
        assert not error.retryable
        events = [event async for event in model.stream(request(*history, api=OPENAI_RESPONSES))]
        assert len(events) >= 1
        await model.close()
    before, *_, after = server.requests[1:]
    assert "A==" in json.dumps(before) and "include" in before
    assert "A==" not in json.dumps(after) and "include" not in after
