"""Chunks to events and the message (cases P05, P06, P11, P14, P17)."""

from __future__ import annotations

import json
from typing import Any

import pytest

from durable_tui.models.chat_stream import ChatStream
from durable_tui.models.failures import Endpoint
from durable_tui.models.provider import BlockDelta, BlockStart, Finished, Model, ModelError, ModelRequest

PRICES = {"input": 1.0, "output": 10.0, "cacheRead": 0.1}


def stream(messages: list[dict[str, Any]] | None = None, prices: dict[str, float] | None = None) -> ChatStream:
    model = Model("acme", "m", "openai-chat", prices=prices)
    request = ModelRequest(model, "s", messages or [{"role": "user", "content": "u" * 40}])
    return ChatStream(request, Endpoint("acme"), "openai-chat")


def delta(value: Any = None, finish: Any = None, **more: Any) -> dict[str, Any]:
    return {"choices": [{"index": 0, "delta": value, "finish_reason": finish}], **more}


def run(*chunks: Any, chat: ChatStream | None = None) -> tuple[dict[str, Any], list[Any]]:
    """The message and the events; the events must add up to the message."""
    chat = chat or stream()
    events = [event for chunk in chunks for event in chat.chunk(chunk if isinstance(chunk, str) else json.dumps(chunk))]
    events += chat.finish()
    assert isinstance(events[-1], Finished)
    message: dict[str, Any] = dict(events[-1].message)
    texts: dict[int, str] = {}
    for event in events[:-1]:
        if isinstance(event, BlockStart):
            assert event.index == len(texts)
            assert event.block["type"] == message["content"][event.index]["type"]
            texts[event.index] = ""
        else:
            assert isinstance(event, BlockDelta)
            texts[event.index] += event.text
    for index, block in enumerate(message["content"]):
        if block["type"] != "toolCall":
            assert texts[index] == block[block["type"]]
    return message, events


def blocks(message: dict[str, Any]) -> list[tuple[str, Any]]:
    keys = {"text": "text", "thinking": "thinking", "toolCall": "arguments"}
    return [(block["type"], block[keys[block["type"]]]) for block in message["content"]]


def test_p05_empty_and_null_frames_and_usage_after_the_finish() -> None:
    message, _ = run(
        "", {"choices": []}, {"choices": None, "usage": {"prompt_tokens": 1, "completion_tokens": 1}}, {"choices": [{}]},
        delta({"content": "hi"}), delta(None, "stop"), {"choices": [], "usage": {"prompt_tokens": 9, "completion_tokens": 2}},
        {"choices": [], "usage": None}, "[DONE]",
    )  # fmt: skip
    assert message["stopReason"] == "stop" and blocks(message) == [("text", "hi")]
    assert (message["usage"]["input"], message["usage"]["output"]) == (9, 2)


def test_p06_no_finish_reason_is_a_cut_stream() -> None:
    chat = stream()
    chat.chunk(json.dumps(delta({"content": "half"}, usage={"prompt_tokens": 3, "completion_tokens": 1})))
    with pytest.raises(ModelError) as caught:
        chat.finish()
    assert caught.value.kind == "truncated" and caught.value.retryable
    assert caught.value.usage is not None and caught.value.usage["input"] == 3


def test_p06_a_finish_reason_without_done_is_enough() -> None:
    assert run(delta({"content": "hi"}), delta({}, "stop"))[0]["stopReason"] == "stop"


def test_thinking_text_and_calls_in_their_order() -> None:
    message, events = run(
        delta({"role": "assistant", "content": None, "reasoning_content": ""}), delta({"reasoning_content": " think"}),
        delta({"content": "\n"}), delta({"content": "\n say"}), delta({"content": " it"}),
        delta({"tool_calls": [{"index": 0, "id": "c", "function": {"name": "f", "arguments": ""}}]}),
        delta({"tool_calls": [{"index": 0, "function": {"arguments": '{"a":'}}]}),
        delta({"tool_calls": [{"index": 0, "function": {"arguments": "1}"}}], "content": "\n"}, "tool_calls"),
    )  # fmt: skip
    assert blocks(message) == [("thinking", " think"), ("text", "\n\n say it"), ("toolCall", {"a": 1})]
    assert message["stopReason"] == "toolUse" and message["providerExtra"]["reasoningField"] == "reasoning_content"
    assert "".join(e.text for e in events if isinstance(e, BlockDelta) and e.index == 2) == '{"a":1}'


def test_p21_thinking_is_kept_to_the_last_blank() -> None:
    message, _ = run(
        *(delta({"reasoning_content": part}) for part in (" ", " a", "\nb", "  ")), delta({"content": "x"}, "stop")
    )
    assert blocks(message) == [("thinking", "  a\nb  "), ("text", "x")]


def test_p22_an_empty_reasoning_field_is_remembered() -> None:
    message, _ = run(delta({"reasoning_content": "", "content": "x"}), delta({}, "stop"))
    assert message["providerExtra"]["reasoningField"] == "reasoning_content" and blocks(message) == [("text", "x")]


def test_reasoning_details_are_joined_and_kept() -> None:
    message, _ = run(
        delta({"reasoning": "ab", "reasoning_details": [{"type": "reasoning.text", "text": "ab", "index": 0}]}),
        delta({"reasoning": "c", "reasoning_details": [{"type": "reasoning.text", "text": "c", "index": 0, "signature": "S"}]}),
        delta({"reasoning_details": [{"type": "reasoning.encrypted", "data": "E", "index": 1}]}),
        delta({"content": "x"}, "stop"),
    )  # fmt: skip
    assert message["providerExtra"]["reasoningDetails"] == [
        {"type": "reasoning.text", "text": "abc", "index": 0, "signature": "S"},
        {"type": "reasoning.encrypted", "data": "E", "index": 1},
    ]
    assert blocks(message) == [("thinking", "abc"), ("text", "x")]


def test_tools_were_called_although_the_reason_says_stop() -> None:
    message, _ = run(delta({"tool_calls": [{"id": "c", "function": {"name": "f", "arguments": {"a": 1}}}]}, "stop"))
    assert message["stopReason"] == "toolUse" and blocks(message) == [("toolCall", {"a": 1})]
    assert run(delta({"content": "x"}, "tool_calls"))[0]["stopReason"] == "stop"


def test_ids_of_earlier_turns_are_not_used_again() -> None:
    old = {"role": "assistant", "content": [{"type": "toolCall", "id": "call_0", "name": "f", "arguments": {}}]}
    message, events = run(
        delta({"tool_calls": [{"index": 0, "id": "call_0", "function": {"name": "f", "arguments": "{}"}}]}, "tool_calls"),
        chat=stream([{"role": "user", "content": "u"}, old]),
    )  # fmt: skip
    id = message["content"][0]["id"]
    assert id and id != "call_0" and events[0].block["id"] == id


@pytest.mark.parametrize("reason", ["length", "max_tokens", "model_length"])
def test_p14_length_marks_the_calls(reason: str) -> None:
    message, _ = run(
        delta({"tool_calls": [{"index": 0, "id": "c", "function": {"name": "f", "arguments": "{}"}}]}, reason)
    )
    assert message["stopReason"] == "length"
    assert "output limit" in message["content"][0]["providerExtra"]["invalid"]["error"]
    assert run(delta({"content": "x"}, reason))[0]["stopReason"] == "length"


@pytest.mark.parametrize(
    ("reason", "kind"),
    [("content_filter", "refused"), ("error", "server"), ("insufficient_system_resource", "overloaded")],
)
def test_finish_reasons_that_mean_failure(reason: str, kind: str) -> None:
    chat = stream()
    chat.chunk(json.dumps(delta({"content": "x"}, reason)))
    with pytest.raises(ModelError) as caught:
        chat.finish()
    assert caught.value.kind == kind


def test_a_refusal_is_the_answer_and_marked() -> None:
    message, _ = run(delta({"refusal": "I can"}), delta({"refusal": "not."}), delta({}, "stop"))
    assert message["content"] == [{"type": "text", "text": "I cannot.", "providerExtra": {"refusal": True}}]


@pytest.mark.parametrize("before", [0, 30])
def test_p17_an_error_object_is_no_answer(before: int) -> None:
    chat = stream()
    for _ in range(before):
        chat.chunk(json.dumps(delta({"content": "x"})))
    for data, event in (
        ({"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}}, "error"),
        ({"error": {"message": "overloaded", "code": 529}}, "message"),
        ({"message": "overloaded"}, "error"),
        ([{"error": {"message": "overloaded", "code": 503}}], "message"),
    ):
        with pytest.raises(ModelError) as caught:
            chat.chunk(json.dumps(data), event)
        assert caught.value.kind == "overloaded" and "verloaded" in str(caught.value)


@pytest.mark.parametrize("data", ["{", "nope", "3", '"x"', "[" * 100_000])
def test_what_is_no_json_object_is_malformed(data: str) -> None:
    with pytest.raises(ModelError) as caught:
        stream().chunk(data)
    assert caught.value.kind == "malformed"


def test_usage_splits_cached_tokens_and_prices_them() -> None:
    usage = {
        "prompt_tokens": 1000,
        "completion_tokens": 50,
        "total_tokens": 1080,
        "prompt_tokens_details": {"cached_tokens": 600},
    }
    message, _ = run(delta({"content": "x"}, "stop", x_groq={"usage": usage}), chat=stream(prices=PRICES))
    got = message["usage"]
    assert (got["input"], got["cacheRead"], got["output"], got["totalTokens"]) == (400, 600, 80, 1080)
    assert got["cost"]["total"] == pytest.approx(400e-6 + 60e-6 + 800e-6)
    assert "cost" not in run(delta({"content": "x"}, "stop", usage=usage))[0]["usage"]
    deepseek = {"prompt_tokens": 10, "completion_tokens": 1, "prompt_cache_hit_tokens": 4, "cost": 0.5}
    got = run(delta({"content": "x"}, "stop", usage=deepseek))[0]["usage"]
    assert (got["input"], got["cacheRead"], got["cost"]["total"]) == (6, 4, 0.5)


@pytest.mark.parametrize(
    "usage", [None, {}, "x", {"prompt_tokens": None}, {"prompt_tokens": "7"}, {"prompt_tokens": -3}]
)
def test_odd_usage_breaks_nothing(usage: Any) -> None:
    assert run(delta({"content": "x"}, "stop", usage=usage))[0]["usage"]["input"] >= 0


def test_no_usage_is_estimated_and_marked() -> None:
    message, _ = run(delta({"content": "x" * 40}, "stop"))
    assert message["providerExtra"]["usageEstimated"] is True
    assert message["usage"]["input"] > 10 and message["usage"]["output"] >= 10 and "cost" not in message["usage"]


def test_azure_choices_without_delta_other_choices_and_parts() -> None:
    message, _ = run(
        {"id": "", "choices": [], "prompt_filter_results": []}, {"choices": [{"content_filter_results": {}}]},
        {"choices": [{"index": 1, "delta": {"content": "other"}}]},
        delta({"content": [{"type": "thinking", "thinking": [{"type": "text", "text": "t"}]}, {"type": "text", "text": "x"}]}),
        delta({"function_call": {"name": "f", "arguments": "{}"}}), delta({}, "function_call"),
    )  # fmt: skip
    assert blocks(message) == [("thinking", "t"), ("text", "x"), ("toolCall", {})]


def test_surrogates_are_joined_or_replaced() -> None:
    message, _ = run(
        delta({"content": "a\ud83d"}), delta({"content": "\ude00b"}), delta({"content": "\udc00c\ud83d"}, "stop")
    )
    assert blocks(message) == [("text", "a😀b\ufffdc\ufffd")]
    json.dumps(message, ensure_ascii=False).encode("utf-8")


def test_a_whole_completion_instead_of_chunks() -> None:
    chat = stream()
    calls = [{"id": "c", "type": "function", "function": {"name": "f", "arguments": '{"a":1}'}}]
    body = {"choices": [{"index": 0, "message": {"content": "", "tool_calls": calls}, "finish_reason": "tool_calls"}]}
    events = chat.body(body) + chat.finish()
    assert isinstance(events[-1], Finished) and blocks(dict(events[-1].message)) == [("toolCall", {"a": 1})]
