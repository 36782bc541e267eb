"""The judges from the official clients really refuse, and name what they refuse."""

from __future__ import annotations

import copy
import json
from typing import Any

import pytest

from tests.tools import sdk

SCHEMA = {"type": "object", "properties": {"command": {"type": "string"}}}
CHAT: dict[str, Any] = {
    "model": "m",
    "stream": True,
    "stream_options": {"include_usage": True},
    "temperature": 1,
    "messages": [
        {"role": "system", "content": "s"},
        {
            "role": "user",
            "content": [
                {"type": "text", "text": "hi"},
                {"type": "image_url", "image_url": {"url": "data:image/png;base64,AA"}},
            ],
        },
        {
            "role": "assistant",
            "content": None,
            "tool_calls": [{"id": "c1", "type": "function", "function": {"name": "bash", "arguments": "{}"}}],
        },
        {"role": "tool", "tool_call_id": "c1", "content": "ok"},
    ],
    "tools": [{"type": "function", "function": {"name": "bash", "parameters": SCHEMA}}],
}
RESPONSES: dict[str, Any] = {
    "model": "m",
    "stream": True,
    "store": False,
    "instructions": "s",
    "include": ["reasoning.encrypted_content"],
    "reasoning": {"effort": "low", "summary": "auto"},
    "input": [
        {
            "role": "user",
            "content": [
                {"type": "input_text", "text": "hi"},
                {"type": "input_image", "image_url": "data:image/png;base64,AA", "detail": "auto"},
            ],
        },
        {"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "xx"},
        {"type": "function_call", "call_id": "c1", "name": "bash", "arguments": "{}"},
        {"type": "function_call_output", "call_id": "c1", "output": [{"type": "input_text", "text": "ok"}]},
        {"role": "assistant", "content": "done"},
        {"role": "user", "content": "more"},
    ],
    "tools": [{"type": "function", "name": "bash", "parameters": SCHEMA, "strict": False}],
}
ANTHROPIC: dict[str, Any] = {
    "model": "m",
    "stream": True,
    "max_tokens": 10,
    "system": [{"type": "text", "text": "s", "cache_control": {"type": "ephemeral", "ttl": "1h"}}],
    "thinking": {"type": "adaptive"},
    "output_config": {"effort": "low"},
    "messages": [
        {"role": "user", "content": "hi"},
        {
            "role": "assistant",
            "content": [
                {"type": "thinking", "thinking": "t", "signature": "s"},
                {"type": "tool_use", "id": "t1", "name": "bash", "input": {"command": "ls"}},
            ],
        },
        {
            "role": "user",
            "content": [
                {
                    "type": "tool_result",
                    "tool_use_id": "t1",
                    "content": [
                        {"type": "text", "text": "ok"},
                        {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "AAAA"}},
                    ],
                    "is_error": False,
                }
            ],
        },
    ],
    "tools": [{"name": "bash", "input_schema": SCHEMA, "cache_control": {"type": "ephemeral"}}],
}
GOOD = {"openai-chat": CHAT, "openai-responses": RESPONSES, "anthropic": ANTHROPIC}
MISSING = object()


def changed(value: Any, path: tuple[Any, ...], new: Any) -> Any:
    """A copy with one place set, or removed."""
    value = copy.deepcopy(value)
    at = value
    for step in path[:-1]:
        at = at[step]
    if new is MISSING:
        del at[path[-1]]
    else:
        at[path[-1]] = new
    return value


@pytest.mark.parametrize("api", sdk.APIS)
def test_a_good_body_passes_as_object_and_as_bytes_and_without_a_stream(api: str) -> None:
    assert sdk.check_request(api, GOOD[api]) == []
    assert sdk.check_request(api, json.dumps(GOOD[api]).encode()) == []
    plain = {key: value for key, value in GOOD[api].items() if key not in ("stream", "stream_options")}
    assert sdk.check_request(api, plain) == []
    assert sdk.check_request(api, b"[]") and sdk.check_request(api, b"{")


BAD: list[tuple[str, str, tuple[Any, ...], Any]] = [
    # The lists of messages and parts are the lazy ones.
    ("openai-chat", "messages[3].tool_call_id", ("messages", 3, "tool_call_id"), MISSING),
    ("openai-chat", "messages[1].content[1].image_url.url", ("messages", 1, "content", 1, "image_url", "url"), MISSING),
    ("openai-chat", "messages[0].role", ("messages", 0, "role"), "bot"),
    ("openai-chat", "tools[0].function.name", ("tools", 0, "function", "name"), None),
    ("openai-chat", "maxx_tokens", ("maxx_tokens",), 5),
    ("openai-chat", "messages[2].tool_calls[0].extra", ("messages", 2, "tool_calls", 0, "extra"), {}),
    ("openai-chat", "temperature", ("temperature",), "1"),
    ("openai-chat", "messages", ("messages",), MISSING),
    ("openai-responses", "input[2].name", ("input", 2, "name"), None),
    ("openai-responses", "input[3].output", ("input", 3, "output"), MISSING),
    ("openai-responses", "input[0].content[1].typo", ("input", 0, "content", 1, "typo"), 1),
    ("openai-responses", "input[1].summary", ("input", 1, "summary"), MISSING),
    ("openai-responses", "tools[0].input_schema", ("tools", 0, "input_schema"), {}),
    ("openai-responses", "reasoning.efort", ("reasoning", "efort"), "low"),
    ("openai-responses", "max_tokens", ("max_tokens",), 5),
    ("anthropic", "messages[2].content[0].tool_use_id", ("messages", 2, "content", 0, "tool_use_id"), None),
    ("anthropic", "messages[1].content[0].signature", ("messages", 1, "content", 0, "signature"), MISSING),
    ("anthropic", "messages[1].content[1].input", ("messages", 1, "content", 1, "input"), "{}"),
    (
        "anthropic",
        "messages[2].content[0].content[1].source.media_type",
        ("messages", 2, "content", 0, "content", 1, "source", "media_type"),
        "image/bmp",
    ),
    ("anthropic", "messages[2].content[0].isError", ("messages", 2, "content", 0, "isError"), True),
    ("anthropic", "max_tokens", ("max_tokens",), MISSING),
    ("anthropic", "tools[0].parameters", ("tools", 0, "parameters"), {}),
    ("anthropic", "system[0].cache_control.ttl", ("system", 0, "cache_control", "ttl"), "2h"),
]


@pytest.mark.parametrize(("api", "where", "path", "new"), BAD, ids=[f"{api}-{where}" for api, where, _, _ in BAD])
def test_each_bad_body_is_refused_by_path(api: str, where: str, path: tuple[Any, ...], new: Any) -> None:
    found = sdk.check_request(api, changed(GOOD[api], path, new))
    assert len(found) == 1 and found[0].startswith(f"{where}: "), found


def test_lazy_parts_are_all_walked() -> None:
    body = changed(changed(CHAT, ("messages", 3, "tool_call_id"), MISSING), ("messages", 0, "content"), 5)
    assert [line.partition(":")[0] for line in sdk.check_request("openai-chat", body)] == [
        "messages[0].content",
        "messages[3].tool_call_id",
    ]


def test_extensions_pass_only_where_they_are_named() -> None:
    body = changed(CHAT, ("messages", 2, "reasoning_content"), "t")
    body = changed(body, ("messages", 2, "tool_calls", 0, "extra_content"), {"google": {"thought_signature": "s"}})
    body = changed(body, ("reasoning",), {"effort": "low"})
    assert len(sdk.check_request("openai-chat", body)) == 3
    allow = {"messages[].reasoning_content", "messages[].tool_calls[].extra_content", "reasoning"}
    assert sdk.check_request("openai-chat", body, allow) == []
    assert len(sdk.check_request("openai-chat", body, {"reasoning_content", "reasoning"})) == 2
    assert sdk.check_request("openai-chat", {**body, "reasoning_effort": "loud"}, allow) != []


def test_what_a_server_answers_is_refused_too() -> None:
    chunk = {
        "id": "x",
        "object": "chat.completion.chunk",
        "created": 0,
        "model": "m",
        "choices": [{"index": 0, "delta": {"content": "x"}, "finish_reason": None}],
    }
    assert sdk.check_events("openai-chat", [chunk]) == []
    for path, new in (
        (("created",), MISSING),
        (("created",), "0"),
        (("choices", 0, "delta", "reasoning_content"), "t"),
        (("choices", 0, "finish_reason"), "done"),
    ):
        assert len(sdk.check_events("openai-chat", [chunk, changed(chunk, path, new)])) == 1
    delta = {"type": "response.output_text.delta", "delta": "x", "item_id": "i", "output_index": 0, "content_index": 0}
    assert sdk.check_events("openai-responses", [{**delta, "logprobs": [], "sequence_number": 1}]) == []
    assert [line.partition(": ")[2] for line in sdk.check_events("openai-responses", [{**delta, "logprobs": []}])] == [
        "sequence_number: Field required"
    ]
    assert sdk.check_events("openai-responses", [{"type": "response.done"}]) != []
    stop = {"type": "content_block_stop", "index": 0}
    assert sdk.check_events("anthropic", [stop, {"type": "ping"}]) == []
    assert sdk.check_events("anthropic", [{**stop, "index": "0"}]) != []
    assert sdk.check_events("anthropic", [{"type": "error", "error": {"message": "x"}}]) != []
    assert sdk.check_response({"object": "response", "id": "x"}) != []
    assert sdk.check_response({"error": {"message": "x"}}) != []
    assert sdk.check_response({"surprise": 1}) != []


def test_our_message_has_the_form_that_the_clients_answers_have() -> None:
    message: dict[str, Any] = {
        "role": "assistant",
        "content": [
            {"type": "thinking", "thinking": "a", "signature": "S"},
            {"type": "thinking", "thinking": "", "signature": "D", "redacted": True},
            {"type": "text", "text": "b"},
            {"type": "text", "text": "c"},
            {"type": "toolCall", "id": "1", "name": "n", "arguments": {"x": 1}},
            {
                "type": "toolCall",
                "id": "2",
                "name": "n",
                "arguments": {},
                "providerExtra": {"invalid": {"error": "e", "raw": "{"}},
            },
        ],
        "usage": {"input": 1, "output": 2, "cacheRead": 3, "cacheWrite": 4, "totalTokens": 10},
        "stopReason": "toolUse",
    }
    assert sdk.neutral(message) == {
        "text": "bc",
        "thinking": "a",
        "signatures": ["S", "D"],
        "calls": [{"id": "1", "name": "n", "arguments": {"x": 1}}, {"id": "2", "name": "n", "arguments": None}],
        "stop": "toolUse",
        "usage": {"input": 8, "output": 2, "cacheRead": 3, "cacheWrite": 4},
    }
    guessed = {**message, "providerExtra": {"usageEstimated": True}}
    assert sdk.neutral(guessed)["usage"] is None
