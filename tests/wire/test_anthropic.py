"""Messages over a real socket against a server that breaks on demand (cases P01-P23, as far as they concern Anthropic)."""

# ruff: noqa: E501 - bodies as they came
from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from durable_tui.models import AnthropicProvider, Finished, HttpSettings
from durable_tui.models.anthropic_messages import VERSION
from durable_tui.models.anthropic_request import BINDING, build_request
from durable_tui.models.http_provider import HttpProvider
from durable_tui.models.known_providers import ANTHROPIC, KNOWN, OPENAI_CHAT
from durable_tui.models.provider import BlockDelta, Model, ModelRequest
from tests.tools.model_server import ModelServer
from tests.tools.sdk import assemble, neutral
from tests.wire import kit
from tests.wire.kit import FAST, KEY, TOOLS, answering, ask, calls, refusing, result, text, user

SONNET = "claude-sonnet-4-5"


def provider(server: ModelServer | str, settings: HttpSettings = FAST, name: str = "anthropic") -> HttpProvider:
    return kit.provider(server, settings, name=name, kind=AnthropicProvider)


def frame(value: Any) -> str:
    return f"event: {value['type']}\ndata: {json.dumps(value, ensure_ascii=False)}\n\n"


def said(words: str, *, reason: str | None = "end_turn", stop: bool = True) -> str:
    """A whole stream, or one without its end."""
    values: list[dict[str, Any]] = [
        {"type": "message_start", "message": {"content": [], "usage": {"input_tokens": 7, "output_tokens": 1}}},
        {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}},
        {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": words}},
    ]
    if reason is not None:
        values.append({"type": "message_delta", "delta": {"stop_reason": reason}, "usage": {"output_tokens": 3}})
    return "".join(map(frame, [*values, *([{"type": "message_stop"}] if stop else [])]))


answer_to, failure_of = answering(AnthropicProvider, "anthropic"), refusing(AnthropicProvider, "anthropic")


async def test_a_conversation_with_calls_passes_the_strict_server_and_the_official_types() -> None:
    script = [
        {
            "thinking": " I think ",
            "text": "Two calls.",
            "calls": [{"name": "bash", "args": {"command": "ls"}}, {"name": "bash"}],
        },
        {"text": "Both done.", "usage": {"input": 10, "output": 4, "cacheRead": 90, "cacheWrite": 5}},
    ]
    with ModelServer(script, strict=True, sdk=True) as server:
        model = provider(server)
        more = {"model_id": SONNET, "thinking_level": "high", "session_id": "s", "options": {"maxTokens": 20_000}}
        first = await ask(model, user(), **more)
        results = [result(call) for call in calls(first)]
        second = await ask(model, user(), first, *reversed(results), **more)
        await ask(model, user(), first, *results, second, user("more"), **more)
        await model.close()
    assert server.violations == [] and len(server.requests) == 3 and set(server.apis) == {ANTHROPIC}
    assert first["stopReason"] == "toolUse" and [c["arguments"] for c in calls(first)] == [{"command": "ls"}, {}]
    assert text(second) == "Both done."
    assert (second["usage"]["input"], second["usage"]["cacheRead"], second["usage"]["cacheWrite"]) == (10, 90, 5)
    assert server.headers[0]["x-api-key"] == KEY and "authorization" not in server.headers[0]
    assert server.headers[0]["anthropic-version"] == VERSION and "anthropic-beta" not in server.headers[0]
    sent = server.requests[1]["messages"][1]["content"]
    assert [block["type"] for block in sent] == ["thinking", "text", "tool_use", "tool_use"]
    assert sent[0]["thinking"] == " I think " and sent[0]["signature"]


async def test_the_official_client_understands_the_same_answer() -> None:
    script = [{
        "blocks": [{"thinking": " t "}, {"redacted": "RED"}, {"text": "a🙂"}, {"call": {"name": "bash", "args": {"n": 1}}}],
        "usage": {"input": 3, "output": 4, "cacheRead": 5, "cacheWrite": 6},
    }]  # fmt: skip
    with ModelServer(script, sdk=True) as server:
        model = provider(server)
        ours = await ask(model)
        await model.close()
        theirs = assemble(ANTHROPIC, server.base_url, server.requests[0])
    assert neutral(ours) == theirs and server.violations == []


@pytest.mark.parametrize("base", ["", "/", "/v1", "/v1/"])
async def test_the_base_url_may_end_in_v1_or_not(base: str) -> None:
    with ModelServer([{"text": "hi"}]) as server:
        model = provider(f"http://127.0.0.1:{server.port}{base}")
        assert text(await ask(model)) == "hi"
        await model.close()
    assert [access["path"] for access in server.accesses] == ["/v1/messages"]


async def test_a_model_that_binds_its_thinking_is_asked_with_the_header_for_it() -> None:
    with ModelServer([{"text": "hi"}], strict=True, sdk=True, sdk_allow=("thinking.block_binding",)) as server:
        model = provider(server)
        await ask(model, model_id="claude-opus-5-5", thinking_level="low")
        await model.close()
    assert server.violations == [] and server.headers[0]["anthropic-beta"] == BINDING
    assert server.requests[0]["thinking"]["block_binding"] == {"prefix_mismatch_behavior": "drop_block"}


async def test_p01_every_cut_inside_characters() -> None:
    body = said("北京🙂").encode()
    with ModelServer([{"body": body, "chunk_bytes": 1}]) as server:
        model = provider(server)
        assert text(await ask(model)) == "北京🙂"
        start = body.index("北".encode())
        for cut in range(start, start + len("北京🙂".encode()) + 1):
            server.script = [{"body": body, "stall": 0.005, "stall_after": cut}]
            assert text(await ask(model)) == "北京🙂"
        await model.close()


async def test_p02_p04_unicode_line_ends_are_text_and_pings_are_nothing() -> None:
    ping = frame({"type": "ping"})
    assert (
        text(await answer_to(ping + ": x\n\n" + said("a\u2028b\u2029c\x85d").replace("\n\n", f"\n\n{ping}")))
        == "a\u2028b\u2029c\x85d"
    )


async def test_p06_a_body_that_ends_early_is_a_failed_attempt() -> None:
    for turn in ({"body": said("half", reason=None, stop=False)}, {"text": "x" * 200, "cut_after": 1200},
                 {"text": "x" * 200, "cut_after": 1200, "abrupt": True}, {"text": "x", "finish": None}):  # fmt: skip
        error, seen = await failure_of(turn)
        assert error.kind == "truncated" and error.retryable and error.usage is not None
        assert any(isinstance(event, BlockDelta) for event in seen)
        assert not any(isinstance(event, Finished) for event in seen)
    error, _ = await failure_of({"text": "x" * 200, "reset_after": 1200})
    assert error.retryable and error.kind in ("network", "truncated")


async def test_p06_counter_case_a_stop_reason_is_enough() -> None:
    body = said("hi", stop=False)
    message = await answer_to(body)
    assert text(message) == "hi" and message["usage"]["output"] == 3
    assert text(await answer_to(body + "event: message_st", cut_after=len(body), abrupt=True)) == "hi"
    assert text(await answer_to(said("hi"), stall=True, stall_after=len(body))) == "hi"


async def test_p12_p14_bad_calls_do_not_poison_the_session() -> None:
    for turn in ({"calls": [{"name": "bash", "raw": '{"command": "ls", timeout": 5}'}]},
                 {"calls": [{"name": "bash", "raw": '{"command": "l'}], "finish": "max_tokens"},
                 {"calls": [{"name": "bash", "raw": '{"command": "ls"}'}], "finish": "max_tokens"}):  # fmt: skip
        with ModelServer([turn, {"text": "I see."}], strict=True, sdk=True) as server:
            model = provider(server)
            first = await ask(model)
            (call,) = calls(first)
            assert call["arguments"] == {} and call["providerExtra"]["invalid"]["error"]
            assert text(await ask(model, user(), first, result(call, "no"))) == "I see."
            await model.close()
        assert server.requests[1]["messages"][1]["content"][0]["input"] == {} and server.violations == []


async def test_p15_ids_are_made_unique_before_they_are_kept() -> None:
    made = [{"name": "bash", "id": id, "args": {"n": n}} for n, id in enumerate(["t1", "t2", "t2", ""])]
    with ModelServer([{"calls": made}, {"text": "ok"}], strict=True) as server:
        model = provider(server)
        first = await ask(model)
        ids = [call["id"] for call in calls(first)]
        assert len(set(ids)) == 4 and all(ids)
        second = await ask(model, user(), first, *[result(call, "r") for call in calls(first)])
        server.script = [{"calls": made}, {"text": "ok"}]
        third = await ask(model, user(), first, *[result(call, "r") for call in calls(first)], second, user("again"))
        assert not {call["id"] for call in calls(third)} & set(ids)
        await model.close()
    assert server.violations == []


@pytest.mark.parametrize("before", ["", "x" * 180])
async def test_p17_an_error_inside_a_200(before: str) -> None:
    error, seen = await failure_of({"text": before, "error": {"type": "overloaded_error", "message": "Overloaded"}})
    assert (
        error.kind == "overloaded" and error.retryable and str(error).startswith("anthropic: Overloaded (request req_")
    )
    assert len([event for event in seen if isinstance(event, BlockDelta)]) == len(before) / 6
    assert not any(isinstance(event, Finished) for event in seen)


async def test_json_on_a_streamed_request() -> None:
    with ModelServer(
        [{"json": True, "thinking": "t", "text": "whole", "calls": [{"name": "bash", "args": {"a": 1}}]}]
    ) as server:
        model = provider(server)
        message = await ask(model)
        await model.close()
    assert (
        text(message) == "whole" and calls(message)[0]["arguments"] == {"a": 1} and message["stopReason"] == "toolUse"
    )
    assert message["content"][0]["signature"]
    error, _ = await failure_of({"json": {"type": "error", "error": {"type": "api_error", "message": "oops"}}})
    assert error.kind == "server"
    error, _ = await failure_of({"body": "<html>hello</html>", "content_type": "text/html"})
    assert error.kind == "configuration"


OVERFLOW = {
    "code": 400,
    "message": "request (8031 tokens) exceeds the available context size (1024 tokens), try increasing it",
    "type": "exceed_context_size_error",
}


@pytest.mark.parametrize(
    ("turn", "kind", "retryable", "wait"),
    [
        ({"status": 400}, "bad_request", False, None),
        ({"status": 401}, "authentication", False, None),
        ({"status": 402}, "quota", False, None),
        ({"status": 403}, "authentication", False, None),
        ({"status": 404}, "not_found", False, None),
        ({"status": 413}, "overflow", False, None),
        ({"status": 429, "headers": {"retry-after": "7"}}, "rate_limit", True, 7.0),
        ({"status": 500}, "server", True, None),
        ({"status": 504}, "timeout", True, None),
        ({"status": 529}, "overloaded", True, None),
        ({"status": 529, "headers": {"x-should-retry": "false"}}, "bad_request", False, None),
        ({"status": 400, "body": {"type": "error", "error": {"type": "invalid_request_error", "message": "prompt is too long: 210000 tokens > 200000 maximum"}}}, "overflow", False, None),
        ({"status": 400, "body": {"type": "error", "error": {"type": "invalid_request_error", "message": "input length and `max_tokens` exceed context limit: 190000 + 20000 > 200000, decrease input length or `max_tokens` and try again"}}}, "overflow", False, None),
        ({"status": 400, "body": {"error": OVERFLOW}}, "overflow", False, None),
        ({"status": 400, "body": {"type": "error", "error": {"type": "invalid_request_error", "message": "max_tokens: 64000 > 8192, which is the maximum allowed number of output tokens for x"}}}, "bad_request", False, None),
    ],
)  # fmt: skip
async def test_p18_p19_p20_error_answers(turn: dict[str, Any], kind: str, retryable: bool, wait: float | None) -> None:
    error, seen = await failure_of(turn)
    assert (error.kind, error.retryable, error.retry_after, error.status) == (kind, retryable, wait, turn["status"])
    assert seen == [] and str(error).startswith("anthropic: ")


async def test_a_refusal_and_a_full_window_are_failures_with_their_cost() -> None:
    error, _ = await failure_of({"refusal": "This could enable harm.", "usage": {"input": 3, "output": 2}})
    assert error.kind == "refused" and "This could enable harm." in str(error) and error.usage is not None
    error, _ = await failure_of({"text": "half", "finish": "model_context_window_exceeded"})
    assert error.kind == "overflow"


# -- case P21: one conversation, two makes of models -------------------------------------------------------------------

THINKING = [{"thinking": "  a\nb  ", "signature": "SIG=="}, {"redacted": "RED=="}, {"text": "Let me look. "}]


async def test_p21_blocks_come_back_byte_for_byte_over_reopening_and_a_change_of_model() -> None:
    """The strict server compares the latest turn's thinking with what it sent; the history goes through JSON each time,
    as a store would keep it."""
    turn = {"blocks": [*THINKING, {"call": {"name": "bash", "args": {"command": "ls"}}}]}
    script = {
        "turns": [turn, {"blocks": [*THINKING, {"text": "done"}]}],
        "match": {"plain": [{"text": "from elsewhere"}]},
    }
    history: list[dict[str, Any]] = [user()]
    more = {"model_id": SONNET, "thinking_level": "medium", "options": {"maxTokens": 10_000}}
    with ModelServer(script, strict=True, sdk=True) as server:
        other = kit.provider(server, name="acme")

        async def step(ask_for: Callable[[HttpProvider], Any]) -> dict[str, Any]:
            model = provider(server)
            message: dict[str, Any] = json.loads(json.dumps(await ask_for(model)))
            await model.close()
            history.append(message)
            return message

        async def ask_again(model: HttpProvider) -> dict[str, Any]:
            return await ask(model, *history, **more)

        first = await step(ask_again)
        history.append(result(calls(first)[0], "files"))
        await step(ask_again)
        history.append(user("again"))
        second = await step(ask_again)
        history.append(result(calls(second)[0], "files"))
        await step(ask_again)
        history.append(user("plain"))
        await step(lambda _: ask(other, *history))
        history.append(user("back"))
        last = await step(ask_again)
        history.append(result(calls(last)[0], "files"))
        await step(ask_again)
        await other.close()
    assert server.violations == []
    assert server.apis == [ANTHROPIC] * 4 + [OPENAI_CHAT] + [ANTHROPIC] * 2
    assert "SIG==" not in json.dumps(server.requests[4]) and "RED==" not in json.dumps(server.requests[4])
    kept = [
        {"type": "thinking", "thinking": "  a\nb  ", "signature": "SIG=="},
        {"type": "redacted_thinking", "data": "RED=="},
        {"type": "text", "text": "Let me look. "},
    ]
    answers = [m["content"] for m in server.requests[-1]["messages"] if m["role"] == "assistant"]
    assert [blocks[:3] for blocks in answers if len(blocks) > 1] == [kept] * 5
    assert [blocks for blocks in answers if len(blocks) == 1] == [[{"type": "text", "text": "from elsewhere"}]]


async def test_p21_a_round_begun_by_another_model_is_finished_without_thinking() -> None:
    with ModelServer([{"calls": [{"name": "bash"}]}, {"blocks": [*THINKING, {"text": "done"}]}], strict=True) as server:
        other, model = kit.provider(server, name="acme"), provider(server)
        first = await ask(other)
        answered = [user(), first, result(calls(first)[0], "files")]
        more = {"model_id": SONNET, "thinking_level": "medium", "options": {"maxTokens": 10_000}}
        second = await ask(model, *answered, **more)
        await ask(model, *answered, second, user("next"), **more)
        await other.close()
        await model.close()
    assert [body.get("thinking") for body in server.requests] == [
        None, {"type": "disabled"}, {"type": "enabled", "budget_tokens": 8192},
    ]  # fmt: skip
    assert server.violations == []


def test_the_builder_and_the_provider_make_the_same_body() -> None:
    request = ModelRequest(Model("anthropic", SONNET, ANTHROPIC), "s", [user()], TOOLS)
    assert AnthropicProvider("anthropic", "http://x").build(request) == build_request(request, KNOWN[ANTHROPIC].quirks)
