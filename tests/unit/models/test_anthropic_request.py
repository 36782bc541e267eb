"""Messages requests that Anthropic takes, whatever the history holds (cases P11-P15, P21, P23)."""

from __future__ import annotations

import copy
import json
from typing import Any

import pytest

from durable_tui.models.anthropic_request import (
    BINDING,
    LEAST_TOKENS,
    MAX_TOKENS,
    OPENING,
    betas,
    build_request,
)
from durable_tui.models.history import EMPTY_INPUT, EMPTY_OUTPUT, NO_RESULT
from durable_tui.models.json_text import encode
from durable_tui.models.known_providers import ANTHROPIC, KNOWN, OPENAI_CHAT, Quirks
from durable_tui.models.provider import Model, ModelRequest
from tests.tools.sdk import check_request
from tests.tools.strict import check_anthropic
from tests.unit.models.test_chat_request import TOOLS, call, png, result, text, user

QUIRKS = KNOWN[ANTHROPIC].quirks
SONNET = "claude-sonnet-4-5"  # told by a budget
OPUS = "claude-opus-4-6"  # told by an effort
SIGNED = {"type": "thinking", "thinking": "  a\nb  ", "signature": "SIG=="}
REDACTED = {"type": "thinking", "thinking": "", "signature": "DATA==", "redacted": True}
OMITTED = {**REDACTED, "providerExtra": {"omitted": True}}
EPHEMERAL = {"type": "ephemeral"}
# The official types know no sampling, which older models take, and the binding only under the header that goes with it.
ALLOW = {"temperature", "top_p", "thinking.block_binding"}


def answer(*blocks: dict[str, Any], model: str = SONNET, stop: str = "stop", **more: Any) -> dict[str, Any]:
    return {
        "role": "assistant", "content": list(blocks), "api": ANTHROPIC, "provider": "anthropic", "model": model,
        "stopReason": stop, "timestamp": 1, **more,
    }  # fmt: skip


def foreign(*blocks: dict[str, Any]) -> dict[str, Any]:
    return answer(*blocks, model="m", provider="acme", api=OPENAI_CHAT)


def request(messages: list[dict[str, Any]], model: str = SONNET, **more: Any) -> ModelRequest:
    facts = {name: more.pop(name) for name in ("max_output", "context_window", "reasoning", "images") if name in more}
    system = more.pop("system", "be good")
    tools = more.pop("tools", TOOLS)
    return ModelRequest(Model("anthropic", model, ANTHROPIC, **facts), system, messages, tools, **more)


def build(messages: list[dict[str, Any]], model: str = SONNET, quirks: Quirks = QUIRKS, **more: Any) -> dict[str, Any]:
    """The body, judged."""
    body = build_request(request(messages, model, **more), quirks)
    assert check_anthropic(encode(body)) == []
    assert check_request("anthropic", encode(body), ALLOW) == []
    return body


def plain(value: Any) -> Any:
    """Without the marks for the cache."""
    if isinstance(value, dict):
        return {key: plain(item) for key, item in value.items() if key != "cache_control"}
    return [plain(item) for item in value] if isinstance(value, list) else value


def wire(messages: list[dict[str, Any]], model: str = SONNET, **more: Any) -> list[tuple[str, list[dict[str, Any]]]]:
    return [(m["role"], plain(m["content"])) for m in build(messages, model, **more)["messages"]]


def returned(id: str, content: Any, **more: Any) -> dict[str, Any]:
    return {"type": "tool_result", "tool_use_id": id, "content": content, **more}


def test_results_come_first_in_one_user_message_in_call_order_and_what_is_said_follows() -> None:
    failed = {**result("b", text("B")), "isError": True}
    got = wire([user("u"), answer(text("hm"), call("a"), call("b")), user("steer"), failed, result("a", text("A"))])
    assert [role for role, _ in got] == ["user", "assistant", "user"]
    assert got[1][1] == [
        text("hm"), {"type": "tool_use", "id": "a", "name": "read", "input": {}},
        {"type": "tool_use", "id": "b", "name": "read", "input": {}},
    ]  # fmt: skip
    assert got[2][1] == [returned("a", "A"), returned("b", "B", is_error=True), text("steer")]


def test_roles_alternate_and_the_first_is_the_users() -> None:
    got = wire([answer(text("one")), answer(text("two")), user("a"), user([text("b")]), foreign(text("c")), user("d")])
    assert got == [
        ("user", [text(OPENING)]), ("assistant", [text("one"), text("two")]), ("user", [text("a"), text("b")]),
        ("assistant", [text("c")]), ("user", [text("d")]),
    ]  # fmt: skip


def test_a_final_answer_ends_without_blanks_and_others_stay_as_they_were() -> None:
    got = wire([user("u"), answer(text("one \n")), user("v"), answer(text("two \n"))])
    assert [blocks[0]["text"] for _, blocks in got] == ["u", "one \n", "v", "two"]


def test_p11_p12_p13_arguments_are_always_an_object() -> None:
    blocks = [call("a", arguments={"x": float("nan"), "y": "\ud800"}), call("b", arguments="oops"), call("c")]
    body = build_request(request([user("u"), answer(*blocks), *map(result, "abc")]), QUIRKS)
    sent = json.loads(encode(body))
    assert check_anthropic(encode(body)) == [] and check_request("anthropic", encode(body)) == []
    assert [use["input"] for use in sent["messages"][1]["content"]] == [{"x": None, "y": "\ufffd"}, {}, {}]


def test_p15_stored_duplicate_and_empty_ids_are_made_unique() -> None:
    got = wire([
        user("u"), answer(call("t"), call("t"), call("")), result("t", text("1")), result("t", text("2")), result(""),
        user("v"), answer(call("t")), result("t", text("3")),
    ])  # fmt: skip
    answers = [block for role, blocks in got if role == "user" for block in blocks if block["type"] == "tool_result"]
    assert [block["content"] for block in answers] == ["1", "2", EMPTY_OUTPUT, "3"]
    assert len({block["tool_use_id"] for block in answers}) == 4


def test_p23_blank_text_is_never_sent() -> None:
    got = wire([
        user("   "), answer(text("\n"), call("a")), result("a"), answer(stop="aborted"), answer(text(" ")),
        user([text(" "), text("x")]), answer(call("b")), result("b", text("  ")), user([]),
    ])  # fmt: skip
    assert got[0] == ("user", [text(EMPTY_INPUT)])
    assert got[2] == ("user", [returned("a", EMPTY_OUTPUT), text("x")])
    assert got[4] == ("user", [returned("b", EMPTY_OUTPUT), text(EMPTY_INPUT)])
    assert build([user("u")], system=" \n")["messages"] and "system" not in build([user("u")], system=" \n")


def test_p06_failed_and_aborted_answers_are_never_sent_back() -> None:
    half = answer(SIGNED, text("half"), call("x"), stop="error")
    got = wire([user("u"), half, result("x"), answer(text("h"), stop="aborted"), user("v")])
    assert got == [("user", [text("u"), text("v")])]


def test_calls_without_results_and_results_without_calls() -> None:
    got = wire([result("gone", text("old")), user("u"), answer(call("a")), user("v")])
    assert got[0][1][1:] == [text("old"), text("u")]
    assert got[2][1] == [returned("a", NO_RESULT, is_error=True), text("v")]


def test_images_are_sent_in_messages_and_results_but_an_error_is_text_alone() -> None:
    image = {"type": "image", "data": png(), "mimeType": "image/png"}
    source = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": png()}}
    failed = {**result("b", image), "isError": True}
    got = wire([user([text("see"), image]), answer(call("a"), call("b")), result("a", text("t"), image), failed])
    assert got[0][1] == [text("see"), source]
    assert got[2][1] == [returned("a", [text("t"), source]), returned("b", [source])]
    odd = {"type": "image", "data": "PHN2Zz4=", "mimeType": "image/svg+xml"}
    assert "image/svg+xml" in wire([user([odd])])[0][1][0]["text"]
    assert "cannot see images" in wire([user([image])], images=False)[0][1][0]["text"]


# -- thinking ----------------------------------------------------------------------------------------------------------


def test_p21_signed_thinking_goes_back_byte_for_byte_in_its_place() -> None:
    later = {**SIGNED, "thinking": "more", "signature": "S2"}
    turn = answer(SIGNED, REDACTED, text("hi "), later, call("a"), OMITTED, call("b"))
    got = wire([user("u"), turn, result("a"), result("b")], thinking_level="high")
    assert got[1][1] == [
        {"type": "thinking", "thinking": "  a\nb  ", "signature": "SIG=="},
        {"type": "redacted_thinking", "data": "DATA=="}, text("hi "),
        {"type": "thinking", "thinking": "more", "signature": "S2"},
        {"type": "tool_use", "id": "a", "name": "read", "input": {}},
        {"type": "thinking", "thinking": "", "signature": "DATA=="},
        {"type": "tool_use", "id": "b", "name": "read", "input": {}},
    ]  # fmt: skip


def test_p21_thinking_goes_to_no_other_model_and_never_without_signature_or_text() -> None:
    unsigned = {"type": "thinking", "thinking": "unsigned", "signature": ""}
    lost = {"type": "thinking", "thinking": "", "signature": "LOST"}
    others = [
        answer(SIGNED, text("x"), model=OPUS), answer(SIGNED, text("x"), provider="acme"),
        answer(SIGNED, text("x"), api=OPENAI_CHAT), answer(unsigned, lost, text("x")),
    ]  # fmt: skip
    for other in others:
        assert wire([user("u"), other, user("v")], thinking_level="high")[1] == ("assistant", [text("x")])


def test_thinking_is_never_the_last_block_and_alone_it_is_no_answer() -> None:
    got = wire([user("u"), answer(SIGNED, text("x"), SIGNED, REDACTED), user("v")], thinking_level="high")
    assert [block["type"] for block in got[1][1]] == ["thinking", "text"]
    assert wire([user("u"), answer(SIGNED), user("v")], thinking_level="high") == [("user", [text("u"), text("v")])]


@pytest.mark.parametrize(
    ("model", "level", "thinking", "effort"),
    [
        (SONNET, "off", None, None),
        (SONNET, "minimal", {"type": "enabled", "budget_tokens": 1024}, None),
        (SONNET, "high", {"type": "enabled", "budget_tokens": 16384}, None),
        ("claude-haiku-4-5-20251001", "low", {"type": "enabled", "budget_tokens": 2048}, None),
        ("claude-opus-4-20250514", "low", {"type": "enabled", "budget_tokens": 2048}, None),
        ("claude-3-7-sonnet-latest", "low", {"type": "enabled", "budget_tokens": 2048}, None),
        ("claude-3-5-haiku-latest", "high", None, None),
        ("some-model", "low", {"type": "enabled", "budget_tokens": 2048}, None),
        ("claude-opus-4-6-20260205", "xhigh", {"type": "adaptive", "display": "summarized"}, "max"),
        ("anthropic/claude-sonnet-4.6", "minimal", {"type": "adaptive", "display": "summarized"}, "low"),
        ("claude-sonnet-4-6", "off", None, None),
        ("claude-opus-4-7", "xhigh", {"type": "adaptive", "display": "summarized"}, "xhigh"),
        ("claude-opus-4-8", "off", None, None),
        ("claude-sonnet-5", "off", {"type": "disabled"}, None),
        ("claude-opus-5-20260701", "off", {"type": "disabled"}, None),
        ("claude-opus-5", "medium", {"type": "adaptive", "display": "summarized"}, "medium"),
        ("claude-sonnet-5-5", "off", {"type": "between_tools"}, None),
        ("claude-haiku-5-5", "off", {"type": "disabled"}, None),
    ],
)
def test_each_model_is_told_to_think_in_its_own_way(model: str, level: Any, thinking: Any, effort: Any) -> None:
    body = build([user("u")], model, thinking_level=level, max_output=64_000)
    assert body.get("thinking") == thinking and body.get("output_config", {}).get("effort") == effort
    assert body["max_tokens"] == 64_000


@pytest.mark.parametrize("model", ["claude-opus-5-5", "claude-fable-5-1", "claude-mythos-5", "claude-next-6"])
def test_models_that_always_think_do_it_least_when_it_is_off(model: str) -> None:
    bound = {"type": "adaptive", "display": "summarized", "block_binding": {"prefix_mismatch_behavior": "drop_block"}}
    for level, effort in (("off", "low"), ("high", "high")):
        body = build([user("u")], model, thinking_level=level)
        assert (body["thinking"], body["output_config"]) == (bound, {"effort": effort})
    assert betas(request([user("u")], model), QUIRKS) == [BINDING]
    assert betas(request([user("u")], SONNET), QUIRKS) == []


def test_a_model_known_not_to_think_is_not_told_to() -> None:
    assert "thinking" not in build([user("u")], "some-model", thinking_level="high", reasoning=False)


@pytest.mark.parametrize(
    ("limit", "thinking"),
    [
        (20_000, {"type": "enabled", "budget_tokens": 16384}),
        (16384, {"type": "enabled", "budget_tokens": 16384 - LEAST_TOKENS}),
        (2048, {"type": "enabled", "budget_tokens": 1024}),
        (2047, {"type": "disabled"}),
        (100, {"type": "disabled"}),
    ],
)
def test_the_budget_stays_below_the_callers_limit(limit: int, thinking: Any) -> None:
    body = build([user("u")], thinking_level="high", options={"maxTokens": limit}, max_output=64_000)
    assert body["max_tokens"] == limit and body["thinking"] == thinking


def test_with_thinking_neither_temperature_nor_a_forced_tool() -> None:
    options = {"temperature": 0.5, "topP": 0.9, "toolChoice": "read"}
    for model in (SONNET, OPUS, "claude-opus-5-5"):
        body = build([user("u")], model, thinking_level="low", options=options)
        assert not {"temperature", "top_p"} & set(body) and body["tool_choice"] == {"type": "auto"}
        none = build([user("u")], model, thinking_level="low", options={"toolChoice": "none"})
        assert none["tool_choice"] == {"type": "none"}
    assert "temperature" not in build([user("u")], "claude-opus-4-7", options=options)
    assert "temperature" not in build([user("u")], "claude-opus-5", options=options)


FOREIGN_LOOP = [user("u"), foreign(call("a")), result("a")]


def test_a_round_of_tools_that_began_without_thinking_goes_on_without_it() -> None:
    for loop in (
        FOREIGN_LOOP,
        [user("u"), answer(call("a")), result("a")],  # the level was off then
        [user("u"), answer(SIGNED, call("a"), model="claude-opus-4-5"), result("a")],
        [*FOREIGN_LOOP, answer(SIGNED, call("b")), result("b")],
        [*FOREIGN_LOOP, user("and this")],
        [user("u"), answer(SIGNED, call("b")), result("b"), user("steer"), *FOREIGN_LOOP[1:]],
    ):
        body = build(loop, thinking_level="high", options={"temperature": 0.5})
        assert body["thinking"] == {"type": "disabled"} and body["temperature"] == 0.5
        assert '"signature"' not in json.dumps(body)


def test_a_round_of_tools_that_began_with_thinking_goes_on_with_it() -> None:
    for loop in (
        [user("u"), answer(SIGNED, text("t"), call("a")), result("a")],
        [user("u"), answer(REDACTED, call("a")), result("a"), answer(call("b")), result("b")],
        [user("u"), answer(SIGNED, call("a")), result("a"), user("steer"), answer(SIGNED, call("b")), result("b")],
        [user("u"), answer(SIGNED, call("a")), result("a"), user("steer"), answer(call("b")), result("b")],
        [*FOREIGN_LOOP, foreign(text("done")), user("v")],
        [*FOREIGN_LOOP, foreign(text("done")), user("v"), answer(SIGNED, call("b")), result("b")],
    ):
        assert build(loop, thinking_level="low")["thinking"]["type"] == "enabled"
    # Told by an effort, a model may begin to think anywhere.
    assert build(FOREIGN_LOOP, OPUS, thinking_level="low")["thinking"]["type"] == "adaptive"


def test_without_thinking_none_is_sent_back_but_to_servers_of_unknown_ways() -> None:
    def signatures(model: str) -> int:
        turn = answer(SIGNED, call("a"), model=model)
        return json.dumps(build([user("u"), turn, result("a")], model)).count('"signature"')

    assert [signatures(model) for model in (SONNET, OPUS, "claude-sonnet-5")] == [0, 0, 0]
    assert [signatures(model) for model in ("some-model", "claude-sonnet-5-5", "claude-opus-5-5")] == [1, 1, 1]


# -- limits, options, the cache ----------------------------------------------------------------------------------------


def test_the_limit_is_the_callers_or_the_models_or_a_sane_one() -> None:
    assert build([user("u")], options={"maxTokens": 7}, max_output=50)["max_tokens"] == 7
    assert build([user("u")], max_output=64_000)["max_tokens"] == 64_000
    assert build([user("u")])["max_tokens"] == MAX_TOKENS


def test_p20_the_limit_stays_within_the_context_window() -> None:
    facts: dict[str, Any] = {"max_output": 64_000, "context_window": 200_000}
    assert build([user("u")], **facts)["max_tokens"] == 64_000
    used = build([user("x" * 600_000)], **facts)["max_tokens"]
    assert 8_000 < used < 50_000
    assert build([user("x" * 2_000_000)], **facts)["max_tokens"] == LEAST_TOKENS


def test_system_tools_and_options() -> None:
    tools = [*TOOLS, {"name": "free", "description": "", "parameters": {"properties": {"a": {}}}}, {"name": "none"}]
    options = {"temperature": 0, "topP": 0.9, "stop": ["END", " "], "toolChoice": "read"}
    body = build([user("u")], tools=tools, options=options, session_id="s1")
    assert body["system"] == [{"type": "text", "text": "be good", "cache_control": EPHEMERAL}]
    assert [(t["name"], t.get("description"), t["input_schema"]) for t in body["tools"]] == [
        ("read", "reads", {"type": "object", "properties": {}}),
        ("free", None, {"type": "object", "properties": {"a": {}}}),
        ("none", None, {"type": "object", "properties": {}}),
    ]
    assert body["temperature"] == 0 and "top_p" not in body and body["stop_sequences"] == ["END"]
    assert body["tool_choice"] == {"type": "tool", "name": "read"} and body["stream"] is True
    assert build([user("u")], options={"topP": 0.9})["top_p"] == 0.9
    assert build([user("u")], options={"toolChoice": "required"})["tool_choice"] == {"type": "any"}
    assert "tool_choice" not in build([user("u")], tools=[], options={"toolChoice": "required"})
    user_id = body["metadata"]["user_id"]
    assert user_id != "s1" and user_id == build([user("v")], session_id="s1")["metadata"]["user_id"]
    assert "metadata" not in build([user("u")])


def test_the_request_changes_nothing_of_what_it_was_made_from() -> None:
    made = request([user([text("u")]), answer(SIGNED, text("t"), call("a")), result("a", text("r"))], session_id="s")
    before = copy.deepcopy(made)
    build_request(made, QUIRKS)
    assert made == before


def marked(body: dict[str, Any]) -> list[int]:
    """The places of the marks in the whole prompt."""
    return [place for place, block in enumerate(prompt(body)) if "cache_control" in block]


def prompt(body: dict[str, Any]) -> list[dict[str, Any]]:
    """The prompt block by block, as the cache sees it; each knows its role."""
    messages = [{"role": m["role"], **block} for m in body["messages"] for block in m["content"]]
    return [*body.get("tools", []), *body.get("system", []), *messages]


def test_a_growing_conversation_finds_its_cache_where_the_last_request_ended() -> None:
    calls = [call(f"c{number}") for number in range(40)]
    steps = [
        [user("u")],
        [answer(SIGNED, text("t"), *calls), *(result(block["id"], text("r")) for block in calls)],
        [answer(SIGNED, call("d")), result("d", text("r")), user("steer")],
        [answer(text("done")), user([text("x"), text("y")])],
    ]
    history: list[dict[str, Any]] = []
    last: dict[str, Any] | None = None
    for step in steps:
        history += step
        body = build(history, thinking_level="low", max_output=64_000)
        places = marked(body)
        assert 3 <= len(places) <= 4 and places[-1] == len(prompt(body)) - 1
        assert all(block["cache_control"] == EPHEMERAL for block in prompt(body) if "cache_control" in block)
        if last is not None:
            end = len(prompt(last))
            assert end - 1 in places, "no mark where the request before ended"
            assert encode(plain(prompt(body)[:end])) == encode(plain(prompt(last)))
        last = body
    bare = build([user("u"), answer(text("a")), user("v")], system="", tools=[])
    assert marked(bare) == [0, 2]
