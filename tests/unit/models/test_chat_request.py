"""Requests that strict servers take, whatever the history holds (cases P12, P15, P21-P23, P25)."""

from __future__ import annotations

import base64
import json
import re
import struct
import zlib
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from durable_tui.models.chat_request import FILLER, TOOL_IMAGES, build_request
from durable_tui.models.history import EMPTY_INPUT, EMPTY_OUTPUT
from durable_tui.models.json_text import encode
from durable_tui.models.known_providers import KNOWN, Quirks
from durable_tui.models.provider import Model, ModelRequest
from tests.tools.strict import check_openai

TOOLS = [{"name": "read", "description": "reads", "parameters": {"type": "object", "properties": {}}}]


def user(content: Any) -> dict[str, Any]:
    return {"role": "user", "content": content, "timestamp": 1}


def text(value: str) -> dict[str, Any]:
    return {"type": "text", "text": value}


def call(id: str, name: str = "read", arguments: Any = None, **extra: Any) -> dict[str, Any]:
    return {"type": "toolCall", "id": id, "name": name, "arguments": {} if arguments is None else arguments, **extra}


def answer(*blocks: dict[str, Any], provider: str = "acme", stop: str = "stop", **more: Any) -> dict[str, Any]:
    return {
        "role": "assistant", "content": list(blocks), "api": "openai-chat", "provider": provider, "model": "m",
        "stopReason": stop, "timestamp": 1, **more,
    }  # fmt: skip


def result(id: str, *content: dict[str, Any]) -> dict[str, Any]:
    return {"role": "toolResult", "toolCallId": id, "toolName": "read", "content": list(content), "isError": False}


def png() -> str:
    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    head = chunk(b"IHDR", struct.pack(">IIBBBBB", 1, 1, 8, 0, 0, 0, 0))
    raw = b"\x89PNG\r\n\x1a\n" + head + chunk(b"IDAT", zlib.compress(b"\0\0")) + chunk(b"IEND", b"")
    return base64.b64encode(raw).decode()


def build(
    messages: list[dict[str, Any]], provider: str = "acme", quirks: Quirks | None = None, **more: Any
) -> dict[str, Any]:
    model = Model(provider, more.pop("model", "m"), "openai-chat")
    request = ModelRequest(model, more.pop("system", "be good"), messages, more.pop("tools", TOOLS), **more)
    known = KNOWN.get(provider)
    return build_request(request, quirks or (known.quirks if known else Quirks()))


def wire(messages: list[dict[str, Any]], provider: str = "acme", quirks: Quirks | None = None) -> list[dict[str, Any]]:
    body = build(messages, provider, quirks)
    assert check_openai(encode(body)) == []
    return body["messages"][1:]


def test_results_follow_their_message_in_call_order() -> None:
    got = wire([user("u"), answer(call("a"), call("b")), user("steer"), result("b", text("B")), result("a", text("A"))])
    assert [(m["role"], m.get("tool_call_id")) for m in got] == [
        ("user", None), ("assistant", None), ("tool", "a"), ("tool", "b"), ("user", None),
    ]  # fmt: skip
    assert got[1]["content"] is None and got[-1]["content"] == "steer"


def test_p12_arguments_are_always_a_json_object_in_a_string() -> None:
    blocks = [call("a", arguments={"x": float("nan"), "y": "\ud800"}), call("b", arguments="oops")]
    got = wire([user("u"), answer(*blocks), result("a"), result("b")])
    assert [json.loads(c["function"]["arguments"]) for c in got[1]["tool_calls"]] == [{"x": None, "y": "\ufffd"}, {}]


def test_p15_stored_duplicate_and_empty_ids_are_made_unique() -> None:
    messages = [
        user("u"),
        answer(call("t"), call("t"), call("")),
        result("t", text("1")),
        result("t", text("2")),
        result(""),
    ]
    got = wire([*messages, user("v"), answer(call("t")), result("t", text("3"))])
    assert [m["content"] for m in got if m["role"] == "tool"] == ["1", "2", EMPTY_OUTPUT, "3"]


def test_p23_blank_text_is_never_sent() -> None:
    got = wire([
        user("   "), answer(text("\n"), call("a")), result("a"), answer(stop="aborted"), answer(text(" ")),
        user([text(" "), text("x")]), answer(call("b")), result("b", text("  ")), user([]),
    ])  # fmt: skip
    assert [m["role"] for m in got] == ["user", "assistant", "tool", "user", "assistant", "tool", "user"]
    assert [m["content"] for m in got] == [EMPTY_INPUT, None, EMPTY_OUTPUT, "x", None, EMPTY_OUTPUT, EMPTY_INPUT]


def test_p06_failed_and_aborted_answers_are_never_sent_back() -> None:
    got = wire(
        [
            user("u"),
            answer(text("half"), call("x"), stop="error"),
            result("x"),
            answer(text("h"), stop="aborted"),
            user("v"),
        ]
    )
    assert got == [{"role": "user", "content": "u"}, {"role": "user", "content": "v"}]


def test_calls_without_results_and_results_without_calls() -> None:
    got = wire([result("gone", text("old")), user("u"), answer(call("a")), user("v")])
    assert [m["role"] for m in got] == ["user", "user", "assistant", "tool", "user"]
    assert "old" in got[0]["content"] and got[3]["tool_call_id"] == "a"


def test_p25_a_strict_order_gets_a_filler_that_is_not_stored() -> None:
    messages = [user("u"), answer(call("abcdefghi")), result("abcdefghi"), user("new prompt")]
    assert [m["role"] for m in wire(messages)] == ["user", "assistant", "tool", "user"]
    got = wire(messages, "mistral")
    assert [m["role"] for m in got] == ["user", "assistant", "tool", "assistant", "user"]
    assert got[3]["content"] == FILLER and len(messages) == 4


def test_mistral_ids_are_nine_letters_and_stable() -> None:
    messages = [user("u"), answer(call("call_1")), result("call_1")]
    first, second = wire(messages, "mistral"), wire([*messages, answer(text("x")), user("v")], "mistral")
    assert re.fullmatch("[A-Za-z0-9]{9}", first[2]["tool_call_id"])
    assert first[2]["tool_call_id"] == first[1]["tool_calls"][0]["id"] == second[2]["tool_call_id"]


def test_mistral_gets_no_field_it_refuses() -> None:
    turn = answer(text("a"), providerExtra={"reasoningField": "reasoning_content"}, provider="mistral")
    options = {"maxTokens": 5}
    body = build(
        [user("u"), turn, user("v")], "mistral", tools=[], options=options, thinking_level="high", session_id="s"
    )
    assert set(body) == {"model", "messages", "stream", "max_tokens"}
    assert set(body["messages"][2]) == {"role", "content"}


def test_images_are_data_urls_and_those_of_tools_follow_the_results() -> None:
    image = {"type": "image", "data": png(), "mimeType": "image/png"}
    got = wire([user([text("see"), image]), answer(call("a"), call("b")), result("a", image), result("b", text("t"))])
    assert got[0]["content"][1]["image_url"]["url"] == f"data:image/png;base64,{png()}"
    assert [m["role"] for m in got] == ["user", "assistant", "tool", "tool", "user"]
    assert got[4]["content"][0]["text"] == TOOL_IMAGES and got[4]["content"][1]["type"] == "image_url"


def thinking(value: str) -> dict[str, Any]:
    return {"type": "thinking", "thinking": value, "signature": "SIG=="}


def test_p21_p22_reasoning_goes_back_to_its_provider_unchanged_and_to_no_other() -> None:
    turn = answer(thinking("  a\nb  "), text("hi"), call("a"), providerExtra={"reasoningField": "reasoning_content"})
    got = wire([user("u"), turn, result("a")])
    assert got[1]["reasoning_content"] == "  a\nb  "
    other = wire([user("u"), turn, result("a")], "other")
    assert "reasoning_content" not in other[1] and "a\nb" not in json.dumps(other)


def test_p22_deepseek_always_gets_the_field_on_messages_with_calls() -> None:
    stored = answer(call("a"), provider="deepseek", providerExtra={"reasoningField": "reasoning_content"})
    never = answer(thinking("x"), call("b"), provider="elsewhere")
    got = wire(
        [user("u"), stored, result("a"), never, result("b"), answer(text("plain"), provider="elsewhere"), user("v")],
        "deepseek",
    )
    answers = [m for m in got if m["role"] == "assistant"]
    assert [m.get("reasoning_content") for m in answers] == ["", "", None]


def test_reasoning_details_go_back_whole() -> None:
    details = [{"type": "reasoning.encrypted", "data": "abc", "index": 0}]
    turn = answer(text("x"), provider="openrouter", providerExtra={"reasoningDetails": details})
    assert wire([user("u"), turn, user("v")], "openrouter")[1]["reasoning_details"] == details
    assert "reasoning_details" not in wire([user("u"), turn, user("v")], "acme")[1]


def test_extra_fields_of_calls_go_back_to_the_same_provider_only() -> None:
    signature = {"google": {"thought_signature": "S"}}
    turn = answer(call("a", providerExtra={"wire": {"extra_content": signature}}), call("b"), provider="gemini")
    calls = wire([user("u"), turn, result("a"), result("b")], "gemini")[1]["tool_calls"]
    assert calls[0]["extra_content"] == signature and "extra_content" not in calls[1]
    calls = wire([user("u"), turn, result("a"), result("b")], "acme")[1]["tool_calls"]
    assert all("extra_content" not in c for c in calls)


def test_gemini_gets_a_sentinel_on_calls_from_elsewhere() -> None:
    calls = wire([user("u"), answer(call("a"), call("b")), result("a"), result("b")], "gemini")[1]["tool_calls"]
    assert all(c["extra_content"]["google"]["thought_signature"] == "skip_thought_signature_validator" for c in calls)


def test_made_up_tool_names_and_foreign_ids_are_sendable() -> None:
    got = wire([user("u"), answer(call("x|y" * 30, "fun.ct ion"), provider="other"), result("x|y" * 30)])
    assert re.fullmatch(r"[A-Za-z0-9_-]{1,64}", got[1]["tool_calls"][0]["function"]["name"])
    assert re.fullmatch(r"[A-Za-z0-9_-]{1,40}", got[2]["tool_call_id"])


def test_system_tools_and_options() -> None:
    body = build([user("u")], "openai", model="gpt-5.2", options={"maxTokens": 7, "temperature": 0, "toolChoice": "read"},
                 thinking_level="xhigh", session_id="s1")  # fmt: skip
    assert body["messages"][0] == {"role": "system", "content": "be good"}
    assert body["max_completion_tokens"] == 7 and "max_tokens" not in body and body["temperature"] == 0
    assert body["stream_options"] == {"include_usage": True} and body["prompt_cache_key"] == "s1"
    assert body["tool_choice"] == {"type": "function", "function": {"name": "read"}}
    assert body["tools"][0]["function"]["name"] == "read" and body["reasoning_effort"] == "xhigh"
    plain = build([user("u")], system=" ", tools=[], options={"maxTokens": 7}, thinking_level="high")
    assert plain["messages"][0]["role"] == "user" and "tools" not in plain and plain["max_tokens"] == 7


@pytest.mark.parametrize(
    ("provider", "model", "level", "field", "value"),
    [
        ("openai", "gpt-4o", "high", "reasoning_effort", None),
        ("openai", "o3", "minimal", "reasoning_effort", "low"),
        ("openai", "gpt-5.2", "off", "reasoning_effort", "none"),
        ("openrouter", "a/b", "xhigh", "reasoning", {"effort": "xhigh"}),
        ("groq", "openai/gpt-oss-120b", "medium", "reasoning_effort", "medium"),
        ("groq", "llama", "medium", "reasoning_effort", None),
        ("xai", "grok-4", "high", "reasoning_effort", None),
        ("acme", "any", "high", "reasoning_effort", None),
    ],
)
def test_thinking_levels_are_sent_only_where_known(
    provider: str, model: str, level: Any, field: str, value: Any
) -> None:
    assert build([user("u")], provider, model=model, thinking_level=level).get(field) == value


def test_stable_parts_are_marked_for_the_cache_only_where_that_is_understood() -> None:
    turns = [user("one"), answer(text("two"), provider="openrouter"), user([text("three"), text("four")])]
    body = build(turns, "openrouter", model="anthropic/claude-sonnet-4.5")
    marks = [
        (number, part)
        for number, message in enumerate(body["messages"])
        for part in (message["content"] if isinstance(message["content"], list) else [])
        if "cache_control" in part
    ]
    assert [number for number, _ in marks] == [0, 3]
    assert all(part["cache_control"] == {"type": "ephemeral"} for _, part in marks)
    assert check_openai(encode(body)) == []
    assert "cache_control" not in json.dumps(build(turns, "openrouter", model="openai/gpt-5.2"))
    assert "cache_control" not in json.dumps(build(turns, "acme", model="anthropic/claude"))


def test_the_start_of_a_conversation_is_sent_alike_each_time_so_that_it_is_cached() -> None:
    turns = [user("one"), answer(call("a"), provider="openai"), result("a", text("r")), user("two")]
    first = build(turns, "openai", session_id="s1")
    later = build([*turns, answer(text("x"), provider="openai"), user("three")], "openai", session_id="s1")
    assert later["messages"][: len(first["messages"])] == first["messages"]
    assert {key: value for key, value in first.items() if key != "messages"} == {
        key: value for key, value in later.items() if key != "messages"
    }
    assert first["prompt_cache_key"] == "s1"


def test_a_model_without_vision_is_told_of_images_in_their_place() -> None:
    image = {"type": "image", "mimeType": "image/png", "data": png()}
    turns = [user([text("look"), image]), answer(call("a")), result("a", image)]
    blind = ModelRequest(Model("acme", "m", "openai-chat", images=False), "", turns, TOOLS)
    body = build_request(blind, Quirks())
    assert check_openai(encode(body)) == []
    assert "image_url" not in json.dumps(body)
    assert [m["content"].count("cannot see images") for m in body["messages"] if m["role"] in ("user", "tool")] == [
        1,
        1,
    ]
    assert json.dumps(build(turns)).count("image_url") > 0


BLOCKS = st.one_of(
    st.builds(text, st.text(max_size=4)),
    st.builds(thinking, st.text(max_size=3)),
    st.builds(call, st.sampled_from(["", "a", "b", "x|y"]), st.sampled_from(["read", "no such", ""])),
)
MESSAGES = st.lists(
    st.one_of(
        st.builds(user, st.one_of(st.text(max_size=3), st.lists(st.builds(text, st.text(max_size=3)), max_size=2))),
        st.builds(
            lambda blocks, stop, provider: answer(*blocks, stop=stop, provider=provider),
            st.lists(BLOCKS, max_size=4), st.sampled_from(["stop", "toolUse", "error", "aborted"]),
            st.sampled_from(["acme", "mistral", "deepseek", "gemini"]),
        ),
        st.builds(
            lambda id, content: result(id, *content), st.sampled_from(["", "a", "b", "x|y"]),
            st.lists(st.builds(text, st.text(max_size=3)), max_size=2),
        ),
    ),
    max_size=10,
)  # fmt: skip


@given(MESSAGES, st.sampled_from(["acme", "mistral", "deepseek", "gemini"]))
def test_any_history_makes_a_request_that_strict_servers_take(messages: list[dict[str, Any]], provider: str) -> None:
    found = check_openai(encode(build([*messages, user("go")], provider)))
    assert found == []
