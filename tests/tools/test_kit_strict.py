"""The strict checker itself fails on each kind of violation (spec 24)."""

from __future__ import annotations

import base64
import copy
import json
import struct
from collections.abc import Callable
from typing import Any

import pytest

from durable_tui.models.provider import Deferred, Finished, Model, ModelError, ModelRequest
from tests.tools.strict import check_anthropic, check_neutral, check_openai
from tests.tools.strict_provider import StrictScripted, call, say

MODEL = Model("strict", "m", "scripted")


def png(width: int, height: int) -> str:
    head = b"\x89PNG\r\n\x1a\n" + b"\0\0\0\rIHDR" + struct.pack(">II", width, height) + b"\x08\x02\0\0\0"
    return base64.b64encode(head).decode()


def user(content: Any = "hi") -> dict[str, Any]:
    return {"role": "user", "content": content, "timestamp": 1}


def assistant(*blocks: dict[str, Any], stop: str = "stop") -> dict[str, Any]:
    return {"role": "assistant", "content": list(blocks), "stopReason": stop, "timestamp": 1}


def text(value: str) -> dict[str, Any]:
    return {"type": "text", "text": value}


def tool_call(call_id: str, arguments: Any = None, name: str = "note") -> dict[str, Any]:
    return {"type": "toolCall", "id": call_id, "name": name, "arguments": {} if arguments is None else arguments}


def result(call_id: str, content: Any = None) -> dict[str, Any]:
    blocks = [text("ok")] if content is None else content
    return {
        "role": "toolResult",
        "toolCallId": call_id,
        "toolName": "note",
        "content": blocks,
        "isError": False,
        "timestamp": 1,
    }


def request(*messages: dict[str, Any], **options: Any) -> ModelRequest:
    return ModelRequest(MODEL, "system", list(messages), **options)


GOOD = request(
    user(),
    assistant(text("look"), tool_call("a"), tool_call("b"), stop="toolUse"),
    result("a"),
    result("b"),
    user([text("and"), {"type": "image", "data": png(10, 10), "mimeType": "image/png"}]),
    tools=[{"name": "note", "description": "", "parameters": {}}],
)


def test_a_good_request_passes() -> None:
    assert check_neutral(GOOD) == []


ROUND = [user(), assistant(tool_call("a"), tool_call("b"), stop="toolUse")]
BAD: list[tuple[int, str, ModelRequest]] = [
    (1, "no result", request(*ROUND, result("a"), user())),
    (1, "no result at the end", request(*ROUND, result("a"))),
    (1, "no result in the middle", request(*ROUND, user("x"), assistant(text("y")), user("z"))),
    (1, "two results", request(*ROUND, result("a"), result("b"), result("a"))),
    (1, "orphan result", request(user(), result("q"))),
    (2, "late result", request(*ROUND, result("a"), user(), result("b"))),
    (2, "out of order", request(*ROUND, result("b"), result("a"))),
    (3, "empty id", request(user(), assistant(tool_call("")), result(""))),
    (3, "same id twice", request(user(), assistant(tool_call("a"), tool_call("a")), result("a"), result("a"))),
    (3, "same id in two turns", request(*ROUND, result("a"), result("b"), assistant(tool_call("a")), result("a"))),
    (3, "one tool twice", request(user(), tools=[{"name": "n"}, {"name": "n"}])),
    (4, "list of arguments", request(user(), assistant(tool_call("a", [1])), result("a"))),
    (4, "text of arguments", request(user(), assistant(tool_call("a", "{}")), result("a"))),
    (5, "blank user", request(user("  \n"))),
    (5, "blank user block", request(user([text("x"), text(" ")]))),
    (5, "blank assistant block", request(user(), assistant(text("\n")), user())),
    (5, "empty assistant", request(user(), assistant(), user())),
    (5, "blank result", request(user(), assistant(tool_call("a")), result("a", [text("")]))),
    (6, "NaN", request(user(), assistant(tool_call("a", {"n": float("nan")})), result("a"))),
    (6, "surrogate", request(user("a\ud800b"))),
    (6, "key", request(user(), options={1: 2})),  # type: ignore[dict-item]
    (6, "bytes", request(user(), options={"x": b"y"})),
    (7, "too wide", request(user([{"type": "image", "data": png(9000, 40), "mimeType": "image/png"}]))),
    (7, "too many bytes", request(user([{"type": "image", "data": png(9, 9) + "A" * 8_000_000, "mimeType": "x"}]))),
    (7, "no image", request(user([{"type": "image", "data": base64.b64encode(b"no picture").decode()}]))),
    (7, "empty image", request(user([{"type": "image", "data": ""}]))),
    (7, "no base64", request(user([{"type": "image", "data": "###"}]))),
    (8, "signature alone", request(user(), assistant({"type": "thinking", "thinking": "", "signature": "S"}), user())),
    (0, "aborted sent back", request(user(), assistant(text("par"), stop="aborted"), user())),
    (0, "error sent back", request(user(), assistant(text("par"), stop="error"), user())),
    (0, "ends in assistant", request(user(), assistant(text("done")))),
    (0, "system inside", request(user(), {"role": "system", "content": "x"})),
    (0, "nothing", request()),
]


@pytest.mark.parametrize(("rule", "name", "bad"), BAD, ids=[f"{rule}-{name}" for rule, name, _ in BAD])
def test_each_neutral_violation_is_found(rule: int, name: str, bad: ModelRequest) -> None:
    assert any(line.startswith(f"[{rule}]") for line in check_neutral(bad)), check_neutral(bad)


def test_a_derived_context_may_end_in_an_answer() -> None:
    assert check_neutral(request(user(), assistant(text("done"))), sendable=False) == []


THOUGHT = {"type": "thinking", "thinking": "  a\nb  ", "signature": "SIG=="}


@pytest.mark.parametrize("change", [{"thinking": "a\nb"}, {"signature": "SIG"}, None])
def test_rule_8_signed_thinking_of_the_latest_turn_is_unchanged(change: dict[str, str] | None) -> None:
    sent = [[THOUGHT, tool_call("a")]]
    good = request(user(), assistant(copy.deepcopy(THOUGHT), tool_call("a"), stop="toolUse"), result("a"))
    assert check_neutral(good, sent) == []
    changed = [] if change is None else [{**THOUGHT, **change}]
    bad = request(user(), assistant(*changed, tool_call("a"), stop="toolUse"), result("a"))
    assert [line[:3] for line in check_neutral(bad, sent)] == ["[8]"]


def openai_call(call_id: str, arguments: Any = "{}") -> dict[str, Any]:
    return {"id": call_id, "type": "function", "function": {"name": "note", "arguments": arguments}}


def openai(*messages: dict[str, Any]) -> dict[str, Any]:
    return {"model": "m", "stream": True, "messages": [{"role": "system", "content": "be good"}, *messages]}


def tool_message(call_id: str, content: Any = "ok") -> dict[str, Any]:
    return {"role": "tool", "tool_call_id": call_id, "content": content}


def calls(*items: dict[str, Any], content: Any = None) -> dict[str, Any]:
    return {"role": "assistant", "content": content, "tool_calls": list(items)}


HI = {"role": "user", "content": "hi"}
TWO = calls(openai_call("a"), openai_call("b"))
GOOD_OPENAI = openai(HI, TWO, tool_message("a"), tool_message("b"))


def test_a_good_openai_body_passes_as_object_and_as_bytes() -> None:
    assert check_openai(GOOD_OPENAI) == []
    assert check_openai(json.dumps(GOOD_OPENAI).encode()) == []


BAD_OPENAI: list[tuple[int, str, Any]] = [
    (1, "no result", openai(HI, TWO, tool_message("a"), HI)),
    (1, "orphan", openai(HI, tool_message("q"))),
    (1, "two results", openai(HI, TWO, tool_message("a"), tool_message("b"), tool_message("b"))),
    (2, "late", openai(HI, TWO, tool_message("a"), HI, tool_message("b"))),
    (2, "order", openai(HI, TWO, tool_message("b"), tool_message("a"))),
    (3, "empty id", openai(HI, calls(openai_call("")), tool_message(""))),
    (3, "twice", openai(HI, calls(openai_call("a"), openai_call("a")), tool_message("a"), tool_message("a"))),
    (4, "empty text", openai(HI, calls(openai_call("a", "")), tool_message("a"))),
    (4, "bad JSON", openai(HI, calls(openai_call("a", '{"x": 1, y": 2}')), tool_message("a"))),
    (4, "NaN", openai(HI, calls(openai_call("a", '{"x": NaN}')), tool_message("a"))),
    (4, "list", openai(HI, calls(openai_call("a", "[]")), tool_message("a"))),
    (4, "object", openai(HI, calls(openai_call("a", {})), tool_message("a"))),
    (5, "blank", openai({"role": "user", "content": " "})),
    (5, "empty list", openai({"role": "user", "content": []})),
    (5, "blank block", openai({"role": "user", "content": [{"type": "text", "text": ""}]})),
    (5, "blank result", openai(HI, calls(openai_call("a")), tool_message("a", ""))),
    (5, "nothing said", openai(HI, {"role": "assistant", "content": None}, HI)),
    (5, "no calls", openai(HI, {"role": "assistant", "content": "x", "tool_calls": []}, HI)),
    (6, "not UTF-8", b'{"messages": [{"role": "user", "content": "\xff"}]}'),
    (6, "NaN in the body", '{"temperature": NaN, "messages": [{"role": "user", "content": "x"}]}'),
    (6, "cut", b'{"messages": ['),
    (6, "surrogate", b'{"messages": [{"role": "user", "content": "\\ud800"}]}'),
    (6, "list", b"[]"),
    (
        7,
        "image",
        openai(
            {
                "role": "user",
                "content": [{"type": "image_url", "image_url": {"url": "data:image/png;base64," + png(1, 8001)}}],
            }
        ),
    ),
    (0, "role", openai({"role": "toolResult", "content": "x"})),
    (0, "end", openai(HI, {"role": "assistant", "content": "x"})),
    (0, "empty", {"messages": []}),
]


@pytest.mark.parametrize(("rule", "name", "bad"), BAD_OPENAI, ids=[f"{rule}-{name}" for rule, name, _ in BAD_OPENAI])
def test_each_openai_violation_is_found(rule: int, name: str, bad: Any) -> None:
    assert any(line.startswith(f"[{rule}]") for line in check_openai(bad)), check_openai(bad)


def use(call_id: str, value: Any = None) -> dict[str, Any]:
    return {"type": "tool_use", "id": call_id, "name": "note", "input": {} if value is None else value}


def used(call_id: str) -> dict[str, Any]:
    return {"type": "tool_result", "tool_use_id": call_id, "content": [text("ok")]}


def anthropic(*messages: tuple[str, Any]) -> dict[str, Any]:
    return {
        "model": "m",
        "max_tokens": 9,
        "messages": [{"role": role, "content": content} for role, content in messages],
    }


def test_anthropic_results_come_first_in_one_user_message() -> None:
    asked = [("user", "hi"), ("assistant", [use("a"), use("b")])]
    assert check_anthropic(anthropic(*asked, ("user", [used("a"), used("b"), text("and")]))) == []
    for bad in (
        [("user", [text("and"), used("a"), used("b")])],
        [("user", [used("a"), text("and"), used("b")])],
        [("user", [used("a")]), ("user", [used("b")])],
        [("user", [used("b"), used("a")])],
    ):
        assert any(line.startswith("[2]") for line in check_anthropic(anthropic(*asked, *bad))), bad
    assert any(line.startswith("[1]") for line in check_anthropic(anthropic(*asked, ("user", [used("a")]))))
    assert any(
        line.startswith("[4]")
        for line in check_anthropic(anthropic(("user", "hi"), ("assistant", [use("a", "x")]), ("user", [used("a")])))
    )
    assert any(line.startswith("[5]") for line in check_anthropic(anthropic(("user", [text("")]))))


async def _drain(provider: StrictScripted, asked: ModelRequest) -> list[Any]:
    return [event async for event in provider.stream(asked)]


async def test_the_provider_follows_the_request_and_refuses_violations() -> None:
    provider = StrictScripted([call(("note", {"text": "a"})), say("fine", chunks=2)])
    first = await _drain(provider, request(user()))
    assert isinstance(first[-1], Finished)
    block = first[-1].message["content"][0]
    assert (block["name"], block["arguments"]) == ("note", {"text": "a"})
    again = await _drain(provider, request(user()))
    assert again[-1] == first[-1]
    second = await _drain(provider, request(user(), assistant(block, stop="toolUse"), result(block["id"])))
    assert [event.text for event in second if hasattr(event, "text")] == ["fi", "ne"]
    with pytest.raises(ModelError) as caught:
        await _drain(provider, request(user(), assistant(block, stop="toolUse")))
    assert caught.value.kind == "bad_request"
    assert len(provider.requests) == 4 and len(provider.violations) == 2


@pytest.mark.parametrize(
    "make",
    [
        lambda: say("x", error=ModelError("down", "network")),
        lambda: call(("note", {}), error=ModelError("down", "network")),
    ],
)
async def test_a_scripted_fault_is_raised(make: Callable[[], Any]) -> None:
    with pytest.raises(ModelError, match="down"):
        await _drain(StrictScripted([make()]), request(user()))


async def test_a_cut_stream_has_no_terminal_event() -> None:
    events = await _drain(StrictScripted([say("abcdef", chunks=3, cut=2)]), request(user()))
    assert not any(isinstance(event, Finished) for event in events) and len(events) == 3


async def test_a_deferred_turn_is_ready_after_its_polls_and_may_not_be_asked_for_anew() -> None:
    provider = StrictScripted([say("made", defer=2, after=3.0)])
    asked = request(user(), key="k")
    [deferred] = await _drain(provider, asked)
    assert isinstance(deferred, Deferred) and deferred.after == 3.0
    for ready in (False, False, True, True):
        events = [event async for event in provider.poll(asked, deferred.handle)]
        assert isinstance(events[-1], Finished) is ready
    assert provider.violations == [] and provider.posts == [deferred.handle["id"]] and len(provider.polls) == 4
    await _drain(provider, asked)
    assert len(provider.violations) == 1 and "anew" in provider.violations[0]
    assert [event async for event in provider.poll(request(user(), key="other"), deferred.handle)]
    assert len(provider.violations) == 2, "the handle belongs to another request"
    await provider.cancel("strict", deferred.handle)
    with pytest.raises(ModelError, match="cancelled"):
        [event async for event in provider.poll(asked, deferred.handle)]
