"""The strict rules for Responses and Anthropic bodies fail on each kind of violation, and so does the server by them."""

from __future__ import annotations

import copy
import json
from typing import Any

import pytest

from tests.tools.model_server import ModelServer
from tests.tools.strict import check_anthropic, check_responses
from tests.tools.test_kit_strict import png
from tests.tools.test_kit_wires import ask

HI = {"role": "user", "content": "hi"}
SECRET = {
    "type": "reasoning",
    "id": "rs_1",
    "summary": [{"type": "summary_text", "text": "t"}],
    "encrypted_content": "E==",
}
ANSWER = {"role": "assistant", "content": "so"}


def function_call(call_id: str, arguments: Any = "{}", **more: Any) -> dict[str, Any]:
    return {"type": "function_call", "call_id": call_id, "name": "note", "arguments": arguments, **more}


def output(call_id: str, value: Any = "ok") -> dict[str, Any]:
    return {"type": "function_call_output", "call_id": call_id, "output": value}


def responses(*items: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {"model": "m", "instructions": "be good", "store": False, "input": list(items), **more}


def picture(width: int, height: int) -> dict[str, Any]:
    return {"type": "input_image", "image_url": "data:image/png;base64," + png(width, height), "detail": "auto"}


def said(*texts: str, kind: str = "input_text") -> list[dict[str, Any]]:
    return [{"type": kind, "text": text} for text in texts]


TWO = [function_call("a"), function_call("b")]
GOOD_RESPONSES = responses(
    {"role": "user", "content": [*said("hi"), picture(10, 10)]},
    SECRET,
    {
        "type": "message",
        "role": "assistant",
        "id": "msg_1",
        "status": "completed",
        "content": said("x", kind="output_text"),
    },
    *TWO,
    output("a"),
    output("b", [*said("ok"), picture(10, 10)]),
    ANSWER,
    HI,
    tools=[{"type": "function", "name": "note", "parameters": {"type": "object", "properties": {}}, "strict": False}],
)


def test_a_good_responses_body_passes() -> None:
    assert check_responses(GOOD_RESPONSES) == []
    assert check_responses(json.dumps(GOOD_RESPONSES).encode()) == []
    assert check_responses({"model": "m", "input": "go"}) == []


def tool(**more: Any) -> dict[str, Any]:
    return {"type": "function", "name": "note", "parameters": {"type": "object", "properties": {"a": {}}}, **more}


BAD_RESPONSES: list[tuple[int, str, Any]] = [
    (1, "no output", responses(HI, *TWO, output("a"), HI)),
    (1, "no output at the end", responses(HI, *TWO, output("a"))),
    (1, "orphan", responses(HI, output("q"))),
    (1, "no call id", responses(HI, *TWO, output("a"), output("b"), {"type": "function_call_output", "output": "x"})),
    (1, "two outputs", responses(HI, *TWO, output("a"), output("b"), output("a"))),
    (2, "late", responses(HI, *TWO, output("a"), HI, output("b"))),
    (2, "order", responses(HI, *TWO, output("b"), output("a"))),
    (3, "empty id", responses(HI, function_call(""), output(""))),
    (3, "same id", responses(HI, function_call("a"), output("a"), function_call("a"), output("a"))),
    (3, "long call id", responses(HI, function_call("a" * 65), output("a" * 65))),
    (3, "foreign item id", responses(HI, function_call("a", id="call_a"), output("a"))),
    (3, "same item id", responses(HI, SECRET, ANSWER, SECRET, ANSWER, HI)),
    (3, "reasoning without id", responses(HI, {k: v for k, v in SECRET.items() if k != "id"}, ANSWER, HI)),
    (3, "one tool twice", responses(HI, tools=[tool(strict=False), tool(strict=False)])),
    (4, "no JSON", responses(HI, function_call("a", '{"a": '), output("a"))),
    (4, "object", responses(HI, function_call("a", {}), output("a"))),
    (4, "list", responses(HI, function_call("a", "[]"), output("a"))),
    (5, "blank", responses({"role": "user", "content": " "})),
    (5, "blank part", responses({"role": "user", "content": said("x", " ")})),
    (5, "blank answer part", responses(HI, {"role": "assistant", "content": said("", kind="output_text")}, HI)),
    (5, "empty", responses({"role": "user", "content": []})),
    (5, "blank output", responses(HI, function_call("a"), output("a", ""))),
    (5, "blank instructions", responses(HI, instructions="")),
    (6, "not UTF-8", b'{"input": "\xff"}'),
    (6, "NaN", responses(HI, temperature=float("nan"))),
    (7, "too wide", responses({"role": "user", "content": [picture(9000, 10)]})),
    (7, "too wide in an output", responses(HI, function_call("a"), output("a", [picture(9000, 10)]))),
    (8, "reasoning at the end", responses(HI, SECRET)),
    (8, "reasoning before a user", responses(HI, SECRET, HI)),
    (8, "reasoning after its item", responses(HI, function_call("a"), SECRET, output("a"))),
    (8, "nothing encrypted", responses(HI, {**SECRET, "encrypted_content": ""}, ANSWER, HI)),
    (8, "not stored", responses(HI, {k: v for k, v in SECRET.items() if k != "encrypted_content"}, ANSWER, HI)),
    (0, "chat part", responses({"role": "user", "content": said("x", kind="text")})),
    (0, "user part of an assistant", responses(HI, {"role": "assistant", "content": said("x")}, HI)),
    (0, "role", responses({"role": "tool", "content": "x"})),
    (0, "type", responses(HI, {"type": "tool_use"})),
    (0, "reference", responses({"type": "item_reference", "id": "msg_1"}, HI)),
    (0, "ends in an answer", responses(HI, ANSWER)),
    (0, "nothing", responses()),
    (0, "strict by default", responses(HI, tools=[tool()])),
    (0, "background not stored", responses(HI, background=True)),
    (0, "too small a limit", responses(HI, max_output_tokens=1)),
]


@pytest.mark.parametrize(
    ("rule", "name", "bad"), BAD_RESPONSES, ids=[f"{rule}-{name}" for rule, name, _ in BAD_RESPONSES]
)
def test_each_responses_violation_is_found(rule: int, name: str, bad: Any) -> None:
    assert any(line.startswith(f"[{rule}]") for line in check_responses(bad)), check_responses(bad)


SENT = [
    [SECRET, function_call("a", id="fc_1"), {**SECRET, "id": "rs_2", "encrypted_content": "F=="}, function_call("b")]
]


@pytest.mark.parametrize(
    "items",
    [
        [SENT[0][1], SENT[0][2], SENT[0][3]],
        [{**SECRET, "encrypted_content": "E="}, *SENT[0][1:]],
        [{**SECRET, "summary": []}, *SENT[0][1:]],
        [SENT[0][0], SENT[0][2], SENT[0][1], SENT[0][3]],
    ],
    ids=["left out", "changed", "summary changed", "moved"],
)
def test_rule_8_encrypted_reasoning_of_the_latest_turn_stands_as_it_was_sent(items: list[dict[str, Any]]) -> None:
    results = [output("a"), output("b")]
    assert check_responses(responses(HI, *copy.deepcopy(SENT[0]), *results), SENT) == []
    assert [line[:3] for line in check_responses(responses(HI, *items, *results), SENT)] == ["[8]"]
    # Older turns may have lost it.
    assert check_responses(responses(HI, *SENT[0][1:2], SENT[0][3], *results, ANSWER, HI), SENT) == []


def text(value: str, **more: Any) -> dict[str, Any]:
    return {"type": "text", "text": value, **more}


def use(call_id: str = "a", name: str = "note") -> dict[str, Any]:
    return {"type": "tool_use", "id": call_id, "name": name, "input": {}}


def used(call_id: str = "a") -> dict[str, Any]:
    return {"type": "tool_result", "tool_use_id": call_id, "content": [text("ok")]}


CACHED = {"type": "ephemeral"}
LONG = {"type": "ephemeral", "ttl": "1h"}
THOUGHT = {"type": "thinking", "thinking": "t", "signature": "S=="}
IMAGE = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": png(1, 1)}}
NOTE = {"name": "note", "input_schema": {"type": "object"}}


def anthropic(*contents: Any, **more: Any) -> dict[str, Any]:
    """Messages of these contents, the user first."""
    roles = ("user", "assistant")
    messages = [{"role": roles[number % 2], "content": content} for number, content in enumerate(contents)]
    return {"model": "m", "max_tokens": 4000, "messages": messages, **more}


GOOD_ANTHROPIC = anthropic(
    "hi",
    [THOUGHT, {"type": "redacted_thinking", "data": "D"}, text("so"), use("toolu_1-A")],
    [used("toolu_1-A"), text("and", cache_control=CACHED)],
    system=[text("be good", cache_control=LONG)],
    tools=[{**NOTE, "cache_control": LONG}],
    thinking={"type": "enabled", "budget_tokens": 1024},
)


def test_a_good_anthropic_body_passes() -> None:
    assert check_anthropic(GOOD_ANTHROPIC) == []
    assert (
        check_anthropic(anthropic("hi", [{**THOUGHT, "thinking": ""}, text("x")], "go", thinking={"type": "adaptive"}))
        == []
    )


BAD_ANTHROPIC: list[tuple[int, str, Any]] = [
    (3, "id", anthropic("hi", [use("functions.note:0")], [used("functions.note:0")])),
    (3, "empty id", anthropic("hi", [use("")], [used("")])),
    (5, "final white space", anthropic("hi", [text("so ")])),
    (5, "final white space as text", anthropic("hi", "so\n")),
    (5, "blank stop", anthropic("hi", stop_sequences=["\n"])),
    (8, "empty signature", anthropic("hi", [{**THOUGHT, "signature": ""}, text("x")], "go")),
    (8, "no signature", anthropic("hi", [{"type": "thinking", "thinking": "t"}, text("x")], "go")),
    (8, "no thinking", anthropic("hi", [{"type": "thinking", "signature": "S"}, text("x")], "go")),
    (8, "no data", anthropic("hi", [{"type": "redacted_thinking", "data": ""}, text("x")], "go")),
    (0, "no limit", {"model": "m", "messages": [HI]}),
    (0, "limit of none", anthropic("hi", max_tokens=0)),
    (0, "budget too large", anthropic("hi", thinking={"type": "enabled", "budget_tokens": 4000})),
    (0, "budget too small", anthropic("hi", thinking={"type": "enabled", "budget_tokens": 1000})),
    (0, "budget of adaptive", anthropic("hi", thinking={"type": "adaptive", "budget_tokens": 2000})),
    (0, "temperature", anthropic("hi", thinking={"type": "adaptive"}, temperature=0.2)),
    (0, "forced tool", anthropic("hi", thinking={"type": "adaptive"}, tools=[NOTE], tool_choice={"type": "any"})),
    (0, "choice without tools", anthropic("hi", tool_choice={"type": "auto"})),
    (0, "tool name", anthropic("hi", tools=[{**NOTE, "name": "a.b"}])),
    (0, "long tool name", anthropic("hi", tools=[{**NOTE, "name": "a" * 129}])),
    (0, "name of a call", anthropic("hi", [use(name="a b")], [used()])),
    (0, "schema", anthropic("hi", tools=[{"name": "note", "parameters": {}}])),
    (0, "five cache points", anthropic([text(str(n), cache_control=CACHED) for n in range(5)])),
    (0, "cache points in results", anthropic(*["hi", [use()], [{**used(), "cache_control": CACHED}] * 5])),
    (0, "short before long", anthropic([text("x", cache_control=LONG)], system=[text("s", cache_control=CACHED)])),
    (0, "cached thinking", anthropic("hi", [{**THOUGHT, "cache_control": CACHED}, text("x")], "go")),
    (0, "two users", {**anthropic("hi"), "messages": [HI, HI]}),
    (0, "assistant first", {**anthropic(), "messages": [{"role": "assistant", "content": "x"}, HI]}),
    (0, "system inside", {**anthropic(), "messages": [HI, {"role": "system", "content": "x"}]}),
    (0, "chat image", anthropic([{"type": "image_url", "image_url": {"url": "data:image/png;base64," + png(1, 1)}}])),
    (0, "picture in an error", anthropic("hi", [use()], [{**used(), "is_error": True, "content": [IMAGE]}])),
    (0, "result of an assistant", anthropic("hi", [used()], "go")),
]


@pytest.mark.parametrize(
    ("rule", "name", "bad"), BAD_ANTHROPIC, ids=[f"{rule}-{name}" for rule, name, _ in BAD_ANTHROPIC]
)
def test_each_anthropic_violation_is_found(rule: int, name: str, bad: Any) -> None:
    assert any(line.startswith(f"[{rule}]") for line in check_anthropic(bad)), check_anthropic(bad)


@pytest.mark.parametrize("change", [{"thinking": "t "}, {"signature": "S="}, None])
def test_rule_8_signed_thinking_comes_back_to_the_server_as_it_was_sent(change: dict[str, str] | None) -> None:
    turn = {"thinking": "t", "signature": "S==", "calls": [{"name": "note", "id": "a"}]}
    headers = {"anthropic-version": "2023-06-01"}
    with ModelServer([turn, {"text": "done"}], strict=True) as server:
        url = f"{server.base_url}/messages"
        assert ask("POST", url, anthropic("hi", tools=[NOTE]), headers)[1]["content"] == [THOUGHT, use()]
        again = anthropic("hi", [THOUGHT, use()], [used()], tools=[NOTE])
        assert ask("POST", url, again, headers)[0] == 200
        thought = [] if change is None else [{**THOUGHT, **change}]
        status, answer, _ = ask("POST", url, anthropic("hi", [*thought, use()], [used()], tools=[NOTE]), headers)
        assert status == 400 and answer["type"] == "error" and "not what was sent" in answer["error"]["message"]
        # Another model did not think it, and without thinking none is looked at.
        for more in ({"model": "other"}, {"thinking": {"type": "disabled"}}):
            without = {**anthropic("hi", [use()], [used()], tools=[NOTE]), **more}
            assert ask("POST", url, without, headers)[0] == 200
        assert ask("POST", url, again)[0] == 400  # without the version
        assert [line[:3] for line in server.violations] == ["[8]", "[0]"]


def test_rule_8_encrypted_reasoning_comes_back_to_the_server_as_it_was_sent() -> None:
    turn = {"thinking": "t", "signature": "E==", "calls": [{"name": "note", "id": "a"}]}
    asked = responses(HI, include=["reasoning.encrypted_content"])
    with ModelServer([turn, {"text": "done"}], strict=True) as server:
        url = f"{server.base_url}/responses"
        items = ask("POST", url, asked)[1]["output"]
        assert items[0]["encrypted_content"] == "E=="
        assert ask("POST", url, {**asked, "input": [HI, *items, output("a")]})[0] == 200
        items[0]["encrypted_content"] = "E="
        status, answer, _ = ask("POST", url, {**asked, "input": [HI, *items, output("a")]})
        assert status == 400 and "not what was sent" in answer["error"]["message"]
