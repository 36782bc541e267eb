"""Responses requests that OpenAI takes, whatever the history holds (cases P11-P13, P15, P21, P23, P25)."""

from __future__ import annotations

import copy
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from durable_tui.models import anthropic_request, chat_request
from durable_tui.models.history import EMPTY_INPUT, EMPTY_OUTPUT
from durable_tui.models.json_text import encode
from durable_tui.models.known_providers import ANTHROPIC, KNOWN, OPENAI_CHAT, OPENAI_RESPONSES, Quirks
from durable_tui.models.provider import Model, ModelRequest
from durable_tui.models.responses_request import ENCRYPTED, build_request, sendable
from tests.tools.sdk import check_request
from tests.tools.strict import check_anthropic, check_openai, check_responses
from tests.unit.models.test_chat_request import TOOLS, call, png, result, text, user

OPENAI = KNOWN["openai"].quirks
IMAGE = {"type": "image", "data": png(), "mimeType": "image/png"}


def reasoning(id: str = "rs_1", secret: Any = "E==", *summary: str, **more: Any) -> dict[str, Any]:
    """A reasoning item as a server sent it."""
    parts = [{"type": "summary_text", "text": part} for part in summary]
    return {"id": id, "type": "reasoning", "summary": parts, "encrypted_content": secret, **more}


def thought(item: Any, said: str = "") -> dict[str, Any]:
    """The block it is kept in."""
    return {"type": "thinking", "thinking": said, "providerExtra": {"item": item}}


def answer(*blocks: dict[str, Any], model: str = "gpt-5.2", stop: str = "stop", **more: Any) -> dict[str, Any]:
    return {
        "role": "assistant", "content": list(blocks), "api": OPENAI_RESPONSES, "provider": "openai", "model": model,
        "stopReason": stop, "timestamp": 1, **more,
    }  # fmt: skip


def request(
    messages: list[dict[str, Any]], name: str = "gpt-5.2", provider: str = "openai", **more: Any
) -> ModelRequest:
    facts = {fact: more.pop(fact) for fact in ("images", "reasoning") if fact in more}
    system, tools = more.pop("system", "be good"), more.pop("tools", TOOLS)
    return ModelRequest(Model(provider, name, OPENAI_RESPONSES, **facts), system, messages, tools, **more)


def build(
    messages: list[dict[str, Any]],
    name: str = "gpt-5.2",
    quirks: Quirks = OPENAI,
    background: bool = False,
    **more: Any,
) -> dict[str, Any]:
    """The body, judged."""
    body = build_request(request(messages, name, **more), quirks, background=background)
    assert check_responses(encode(body)) == []
    assert check_request(OPENAI_RESPONSES, encode(body)) == []
    return body


def wire(messages: list[dict[str, Any]], name: str = "gpt-5.2", **more: Any) -> list[dict[str, Any]]:
    items: list[dict[str, Any]] = build(messages, name, **more)["input"]
    return items


def kinds(items: list[dict[str, Any]]) -> list[str]:
    return [item.get("role") or item["type"] for item in items]


def test_a_request_in_full() -> None:
    body = build(
        [user("u")], thinking_level="xhigh", session_id="s1",
        options={"maxTokens": 700, "temperature": 0, "topP": 0.5, "toolChoice": "read", "seed": 1, "stop": ["x"]},
    )  # fmt: skip
    assert body == {
        "model": "gpt-5.2",
        "input": [{"type": "message", "role": "user", "content": [{"type": "input_text", "text": "u"}]}],
        "stream": True,
        "store": False,
        "stream_options": {"include_obfuscation": False},
        "instructions": "be good",
        "include": [ENCRYPTED],
        "tools": [{"type": "function", **TOOLS[0], "strict": False}],
        "tool_choice": {"type": "function", "name": "read"},
        "max_output_tokens": 700,
        "temperature": 0,
        "top_p": 0.5,
        "reasoning": {"effort": "xhigh", "summary": "auto"},
        "prompt_cache_key": "s1",
    }


def test_a_request_with_nothing_but_a_question() -> None:
    body = build([user("u")], "m", Quirks(encrypted_reasoning=False, stream_usage=False), system=" ", tools=[])
    assert set(body) == {"model", "input", "stream", "store"}


def test_a_background_request_is_stored_and_does_not_stream() -> None:
    body = build([user("u")], background=True)
    assert (body["background"], body["store"], body["stream"]) == (True, True, False)
    assert "stream_options" not in body and body["include"] == [ENCRYPTED]


@pytest.mark.parametrize("choice", ["auto", "none", "required"])
def test_the_choice_of_tools(choice: str) -> None:
    assert build([user("u")], options={"toolChoice": choice})["tool_choice"] == choice
    assert "tool_choice" not in build([user("u")], options={"toolChoice": choice}, tools=[])
    assert "tool_choice" not in build([user("u")])


@pytest.mark.parametrize(
    ("model", "level", "wanted", "included"),
    [
        ("gpt-5.2", "off", {"effort": "none"}, True),
        ("gpt-5.2", "high", {"effort": "high", "summary": "auto"}, True),
        ("gpt-5-pro", "high", {"summary": "auto"}, True),  # its one effort is not to be chosen
        ("o3", "off", {"summary": "auto"}, True),
        ("gpt-4o", "high", None, False),  # it refuses to be asked for reasoning
    ],
)
def test_reasoning_is_asked_for_where_a_model_is_known_to_reason(
    model: str, level: Any, wanted: Any, included: bool
) -> None:
    body = build([user("u")], model, thinking_level=level)
    assert body.get("reasoning") == wanted and (body.get("include") == [ENCRYPTED]) is included


def test_what_is_known_of_a_model_counts_before_its_name() -> None:
    body = build([user("u")], "gpt-5-chat-latest", reasoning=False, thinking_level="high")
    assert "reasoning" not in body and "include" not in body
    assert build([user("u")], "gpt-4o", reasoning=True)["include"] == [ENCRYPTED]
    unknown = build([user("u")], "m", Quirks(), thinking_level="high")
    assert "reasoning" not in unknown and unknown["include"] == [ENCRYPTED]
    assert "include" not in build([user("u")], quirks=Quirks(encrypted_reasoning=False))


def test_results_follow_their_calls_in_call_order() -> None:
    calls = answer(text("both"), call("a", arguments={"x": 1}), call("b"))
    items = wire([user("u"), calls, user("steer"), result("b", text("B")), result("a", text("A"))])
    assert items[1:] == [
        {
            "type": "message", "role": "assistant", "id": "msg_1", "status": "completed",
            "content": [{"type": "output_text", "text": "both", "annotations": []}],
        },
        {"type": "function_call", "call_id": "a", "name": "read", "arguments": '{"x":1}'},
        {"type": "function_call", "call_id": "b", "name": "read", "arguments": "{}"},
        {"type": "function_call_output", "call_id": "a", "output": "A"},
        {"type": "function_call_output", "call_id": "b", "output": "B"},
        {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "steer"}]},
    ]  # fmt: skip


def test_p06_failed_and_aborted_answers_are_never_sent_back() -> None:
    messages = [
        user("u"),
        answer(text("half"), call("x"), stop="error"),
        result("x"),
        answer(text("h"), stop="aborted"),
    ]
    assert kinds(wire([*messages, user("v")])) == ["user", "user"]


def test_p11_p12_p13_arguments_are_always_a_json_object_in_a_string() -> None:
    given = [None, {"x": float("nan"), "y": "\ud800"}, "oops", [1], {}]
    blocks = [call(f"c{number}", arguments=value) for number, value in enumerate(given)]
    items = wire([user("u"), answer(*blocks), *(result(block["id"]) for block in blocks)])
    sent = [json.loads(item["arguments"]) for item in items if item["type"] == "function_call"]
    assert sent == [{}, {"x": None, "y": "\ufffd"}, {}, {}, {}]


def test_p15_stored_duplicate_and_empty_ids_are_made_unique() -> None:
    calls = answer(call("t"), call("t"), call(""))
    items = wire([user("u"), calls, result("t", text("1")), result("t", text("2")), result(""), user("v")])
    outputs = [item for item in items if item["type"] == "function_call_output"]
    assert [item["output"] for item in outputs] == ["1", "2", EMPTY_OUTPUT]
    assert len({item["call_id"] for item in outputs}) == 3


def test_p21_reasoning_goes_back_unchanged_directly_before_the_item_it_led_to() -> None:
    first = reasoning("rs_1", "A==", "  a\nb  ", status="completed")
    second = reasoning("rs_2", "B==")
    turn = answer(thought(first, "  a\nb  "), text("I look"), thought(second), call("a"))
    before = copy.deepcopy(turn)
    items = wire([user("u"), turn, result("a")])
    assert kinds(items) == ["user", "reasoning", "assistant", "reasoning", "function_call", "function_call_output"]
    assert items[1] == first and items[3] == second and turn == before
    assert check_responses({"input": items, "store": False}, [[first, items[2], second, items[4]]]) == []


@pytest.mark.parametrize("other", [{"model": "gpt-5.1"}, {"provider": "azure"}, {"api": OPENAI_CHAT}])
def test_p21_reasoning_goes_to_no_other_model(other: dict[str, str]) -> None:
    turn = {**answer(thought(reasoning(), "secret thought"), text("hi"), call("a")), **other}
    items = wire([user("u"), turn, result("a")])
    assert kinds(items) == ["user", "assistant", "function_call", "function_call_output"]
    assert "secret" not in json.dumps(items) and "E==" not in json.dumps(items)


def test_p21_reasoning_stays_away_while_another_model_answers_and_comes_back() -> None:
    mine = answer(thought(reasoning()), call("a"))
    theirs = {
        **answer(
            {"type": "thinking", "thinking": "t", "signature": "SIG=="}, text("theirs"), model="claude-sonnet-4-5"
        ),
        "api": ANTHROPIC,
        "provider": "anthropic",
    }
    history = [user("u"), mine, result("a"), theirs, user("v")]
    items = wire(history)
    assert items[1] == reasoning() and "SIG==" not in json.dumps(items)
    claude = ModelRequest(Model("anthropic", "claude-sonnet-4-5", ANTHROPIC), "", history, TOOLS, "high")
    body = anthropic_request.build_request(claude, KNOWN[ANTHROPIC].quirks)
    assert check_anthropic(encode(body)) == [] and "E==" not in json.dumps(body) and "SIG==" in json.dumps(body)
    body = chat_request.build_request(ModelRequest(Model("acme", "m", OPENAI_CHAT), "", history, TOOLS), Quirks())
    assert check_openai(encode(body)) == [] and "E==" not in json.dumps(body) and "SIG==" not in json.dumps(body)


@pytest.mark.parametrize(
    "blocks",
    [
        [text("x"), thought(reasoning())],
        [call("a"), thought(reasoning())],
        [thought(reasoning()), text("  "), call("a")],  # what it led to is not sent
    ],
)
def test_reasoning_without_the_item_it_led_to_is_left_out(blocks: list[dict[str, Any]]) -> None:
    assert "reasoning" not in kinds(wire([user("u"), answer(*blocks), result("a"), user("v")]))


def test_reasoning_that_led_to_more_reasoning_is_kept() -> None:
    turn = answer(thought(reasoning("rs_1")), thought(reasoning("rs_2", "F==")), text("x"))
    assert kinds(wire([user("u"), turn, user("v")])) == ["user", "reasoning", "reasoning", "assistant", "user"]


def test_the_same_reasoning_is_sent_once() -> None:
    turn = answer(thought(reasoning()), text("x"))
    assert kinds(wire([user("u"), turn, user("v"), turn, user("w")])).count("reasoning") == 1


@pytest.mark.parametrize(
    "item",
    [
        None, "x", {}, reasoning(secret=""), reasoning(secret=None), reasoning(id=""),
        {**reasoning(), "type": "message"}, reasoning(secret="", content=[{"type": "reasoning_text", "text": ""}]),
    ],
)  # fmt: skip
def test_reasoning_that_would_be_looked_up_in_vain_is_left_out(item: Any) -> None:
    assert sendable(item) is None
    assert kinds(wire([user("u"), answer(thought(item, "t"), text("x")), user("v")])) == ["user", "assistant", "user"]


def test_plain_reasoning_of_open_models_goes_back_without_empty_keys() -> None:
    content = [{"type": "reasoning_text", "text": "open"}]
    item = {
        "id": "rs_1",
        "type": "reasoning",
        "summary": [],
        "content": content,
        "encrypted_content": "",
        "status": None,
    }
    items = wire([user("u"), answer(thought(item, "open"), call("a")), result("a")])
    assert items[1] == {"id": "rs_1", "type": "reasoning", "summary": [], "content": content}


def test_encrypted_reasoning_stays_where_it_is_not_wanted() -> None:
    quirks = Quirks(encrypted_reasoning=False)
    assert kinds(wire([user("u"), answer(thought(reasoning()), text("x")), user("v")], quirks=quirks)) == [
        "user", "assistant", "user",
    ]  # fmt: skip


def test_a_refusal_is_one_to_its_own_provider_and_plain_text_to_others() -> None:
    turn = answer({**text("I cannot."), "providerExtra": {"refusal": True}})
    assert wire([user("u"), turn, user("v")])[1]["content"] == [{"type": "refusal", "refusal": "I cannot."}]
    other = wire([user("u"), {**turn, "provider": "acme"}, user("v")])
    assert other[1]["content"] == [{"type": "output_text", "text": "I cannot.", "annotations": []}]


def test_the_phase_of_a_text_goes_back_to_its_model() -> None:
    turn = answer({**text("I look."), "providerExtra": {"phase": "commentary"}}, call("a"))
    assert wire([user("u"), turn, result("a")])[1]["phase"] == "commentary"
    assert "phase" not in wire([user("u"), {**turn, "model": "gpt-5.1"}, result("a")])[1]


def test_p23_blank_text_is_never_sent() -> None:
    items = wire([
        user("   "), answer(text("\n"), call("a")), result("a"), answer(stop="aborted"), answer(text(" ")),
        answer(thought(reasoning()), text(" ")), user([text(" "), text("x")]), answer(call("b")), result("b", text("  ")),
        user([]),
    ])  # fmt: skip
    said = [part["text"] for item in items for part in item.get("content", [])]
    assert said == [EMPTY_INPUT, "x", EMPTY_INPUT]
    assert [item["output"] for item in items if "output" in item] == [EMPTY_OUTPUT, EMPTY_OUTPUT]


def test_p25_calls_without_results_and_results_without_calls() -> None:
    items = wire([result("gone", text("old")), user("u"), answer(call("a")), user("v")])
    assert kinds(items) == ["user", "user", "function_call", "function_call_output", "user"]
    assert "old" in json.dumps(items[0]) and items[3]["call_id"] == "a"


def test_images_are_data_urls_in_what_the_user_says_and_in_results() -> None:
    items = wire([user([text("see"), IMAGE]), answer(call("a"), call("b")), result("a", IMAGE, text("t")), result("b")])
    shown = {"type": "input_image", "image_url": f"data:image/png;base64,{png()}", "detail": "auto"}
    assert items[0]["content"] == [{"type": "input_text", "text": "see"}, shown]
    assert items[3]["output"] == [shown, {"type": "input_text", "text": "t"}] and items[4]["output"] == EMPTY_OUTPUT
    blind = json.dumps(wire([user([text("see"), IMAGE]), answer(call("a")), result("a", IMAGE)], images=False))
    assert "cannot see images" in blind and "input_image" not in blind


def test_made_up_tool_names_and_foreign_ids_are_sendable() -> None:
    turn = {**answer(call("x|y" * 30, "fun.ct ion")), "provider": "other"}
    sent = wire([user("u"), turn, result("x|y" * 30)])[1]
    assert sent["name"] == "fun_ct_ion" and len(sent["call_id"]) <= 64


# -- any history -------------------------------------------------------------------------------------------------------

IDS = st.sampled_from(["", "a", "b", "x|y"])
WORDS = st.text(max_size=3)
ITEMS = st.one_of(
    st.builds(
        reasoning, st.sampled_from(["rs_1", "rs_2", "rs_3", ""]), st.sampled_from(["E==", "", None]),
        st.sampled_from(["s", "  a\nb  "]),
    ),
    st.just({"id": "rs_4", "type": "reasoning", "summary": [], "content": [{"type": "reasoning_text", "text": "open"}]}),
    st.sampled_from([None, {}, "x"]),
)  # fmt: skip
BLOCKS = st.one_of(
    st.builds(text, WORDS),
    st.builds(lambda said, extra: {**text(said), "providerExtra": extra}, WORDS,
              st.sampled_from([{"refusal": True}, {"phase": "commentary"}, {"phase": "final_answer"}])),
    st.builds(thought, ITEMS, WORDS),
    st.builds(lambda said: {"type": "thinking", "thinking": said, "signature": "SIG=="}, st.sampled_from(["t", " t "])),
    st.builds(call, IDS, st.sampled_from(["read", "no such", ""]), st.sampled_from([None, {"x": 1}, "oops"])),
)  # fmt: skip
CONTENT = st.lists(st.one_of(st.builds(text, WORDS), st.just(IMAGE)), max_size=2)
SPEAKERS = [
    ("openai", OPENAI_RESPONSES, "gpt-5.2"), ("openai", OPENAI_RESPONSES, "o3"), ("acme", OPENAI_CHAT, "m"),
    ("anthropic", ANTHROPIC, "claude-sonnet-4-5"),
]  # fmt: skip


def said_by(who: tuple[str, str, str], *blocks: dict[str, Any], **more: Any) -> dict[str, Any]:
    """An answer of a speaker. Anthropic's own ids never hold a bar."""
    if who[1] == ANTHROPIC:
        blocks = tuple({**block, "id": block["id"].replace("|", "")} if "id" in block else block for block in blocks)
    return answer(*blocks, provider=who[0], api=who[1], model=who[2], **more)


MESSAGES = st.lists(
    st.one_of(
        st.builds(user, st.one_of(WORDS, CONTENT)),
        st.builds(
            lambda blocks, stop, who: said_by(who, *blocks, stop=stop),
            st.lists(BLOCKS, max_size=5), st.sampled_from(["stop", "toolUse", "length", "error", "aborted"]),
            st.sampled_from(SPEAKERS),
        ),
        st.builds(lambda id, content: result(id, *content), IDS, CONTENT),
    ),
    max_size=10,
)  # fmt: skip


def test_the_same_reasoning_twice_before_one_item_is_sent_once() -> None:
    item = {"id": "rs_4", "type": "reasoning", "summary": [], "content": [{"type": "reasoning_text", "text": "open"}]}
    thought = {"type": "thinking", "thinking": "", "providerExtra": {"item": item}}
    body = build(
        [user("u"), said_by(("openai", "openai-responses", "gpt-5.2"), thought, thought, text("0")), user("go")]
    )
    assert [one["type"] for one in body["input"]] == ["message", "reasoning", "message", "message"]


@given(MESSAGES, st.sampled_from(["gpt-5.2", "o3", "gpt-4o"]), st.booleans(), st.sampled_from(["off", "high"]))
def test_any_history_makes_a_request_that_strict_servers_and_the_official_types_take(
    messages: list[dict[str, Any]], model: str, background: bool, level: Any
) -> None:
    build([*messages, user("go")], model, background=background, thinking_level=level, session_id="s")


@given(MESSAGES, st.sampled_from(SPEAKERS))
def test_any_history_may_go_on_with_any_other_provider(
    messages: list[dict[str, Any]], who: tuple[str, str, str]
) -> None:
    """Each speaker writes with its protocol what all of them said."""
    asked = ModelRequest(Model(who[0], who[2], who[1]), "be good", [*messages, user("go")], TOOLS)
    quirks = KNOWN[who[0]].quirks if who[0] in KNOWN else Quirks()
    if who[1] == OPENAI_RESPONSES:
        found = check_responses(encode(build_request(asked, quirks)))
    elif who[1] == ANTHROPIC:
        found = check_anthropic(encode(anthropic_request.build_request(asked, quirks)))
    else:
        found = check_openai(encode(chat_request.build_request(asked, quirks)))
    assert found == []


@given(MESSAGES, MESSAGES)
def test_any_history_that_grows_keeps_the_prompt_it_had(
    messages: list[dict[str, Any]], more: list[dict[str, Any]]
) -> None:
    earlier = [*messages, user("go")]
    later = [*earlier, answer(text("gone")), *more, user("on")]
    first, second = (build_request(request(history), OPENAI)["input"] for history in (earlier, later))
    assert second[: len(first)] == first
