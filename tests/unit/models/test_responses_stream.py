"""Responses streams to the message: recordings, ends, errors and usage (cases P01, P02, P06, P14, P17, P20, P21)."""

# ruff: noqa: E501 - bodies as they came
from __future__ import annotations

import json
from typing import Any, get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from durable_tui.models.known_providers import OPENAI_RESPONSES, Quirks
from durable_tui.models.provider import RETRYABLE, Finished, Model, ModelError, ModelRequest
from durable_tui.models.responses_request import build_request
from durable_tui.models.responses_stream import ResponsesStream
from tests.tools import wire_responses
from tests.tools.sdk import assemble_bytes, neutral
from tests.tools.strict import check_responses
from tests.unit.models.responses_kit import (
    END,
    HI,
    SECRET,
    TEXT,
    delta,
    done,
    ended,
    fail,
    parse,
    read,
    said,
    stream,
)
from tests.unit.models.test_chat_request import TOOLS, result, user
from tests.unit.models.test_chat_stream import PRICES, blocks

# As llama.cpp writes it: no numbers, no indexes, no model at the start, one item goes on after the next has begun.
LLAMA = """event: response.created
data: {"type":"response.created","response":{"id":"resp_5S7","object":"response","status":"in_progress"}}

event: response.in_progress
data: {"type":"response.in_progress","response":{"id":"resp_5S7","object":"response","status":"in_progress"}}

event: response.output_item.added
data: {"type":"response.output_item.added","item":{"id":"rs_exm","summary":[],"type":"reasoning","content":[],"encrypted_content":"","status":"in_progress"}}

event: response.reasoning_text.delta
data: {"type":"response.reasoning_text.delta","delta":"The grass","item_id":"rs_exm"}

event: response.reasoning_text.delta
data: {"type":"response.reasoning_text.delta","delta":" 北京🙂\u2028.\\n","item_id":"rs_exm"}

event: response.output_item.added
data: {"type":"response.output_item.added","item":{"content":[],"id":"msg_IJC","role":"assistant","status":"in_progress","type":"message"}}

event: response.content_part.added
data: {"type":"response.content_part.added","item_id":"msg_IJC","part":{"type":"output_text","text":""}}

event: response.output_text.delta
data: {"type":"response.output_text.delta","item_id":"msg_IJC","delta":"a\u2028b"}

event: response.output_item.added
data: {"type":"response.output_item.added","item":{"id":"fc_s3O","arguments":"","call_id":"call_s3O","name":"look","type":"function_call","status":"in_progress"}}

event: response.function_call_arguments.delta
data: {"type":"response.function_call_arguments.delta","delta":"{\\"command\\": ","item_id":"fc_s3O"}

event: response.output_text.delta
data: {"type":"response.output_text.delta","item_id":"msg_IJC","delta":"\u2029c\x85d"}

event: response.function_call_arguments.delta
data: {"type":"response.function_call_arguments.delta","delta":"\\"list 🙂\u2028\\"}","item_id":"fc_s3O"}

event: response.output_item.done
data: {"type":"response.output_item.done","item":{"id":"rs_exm","summary":[],"type":"reasoning","content":[{"text":"The grass 北京🙂\u2028.\\n","type":"reasoning_text"}],"encrypted_content":""}}

event: response.output_text.done
data: {"type":"response.output_text.done","item_id":"msg_IJC","text":"a\u2028b\u2029c\x85d"}

event: response.content_part.done
data: {"type":"response.content_part.done","item_id":"msg_IJC","part":{"type":"output_text","annotations":[],"logprobs":[],"text":"a\u2028b\u2029c\x85d"}}

event: response.output_item.done
data: {"type":"response.output_item.done","item":{"type":"message","status":"completed","id":"msg_IJC","content":[{"type":"output_text","annotations":[],"logprobs":[],"text":"a\u2028b\u2029c\x85d"}],"role":"assistant"}}

event: response.output_item.done
data: {"type":"response.output_item.done","item":{"id":"fc_s3O","type":"function_call","status":"completed","arguments":"{\\"command\\": \\"list 🙂\u2028\\"}","call_id":"call_s3O","name":"look"}}

event: response.completed
data: {"type":"response.completed","response":{"id":"resp_5S7","object":"response","created_at":1796045529,"status":"completed","model":"model.gguf","output":[{"id":"rs_exm","summary":[],"type":"reasoning","content":[{"text":"The grass 北京🙂\u2028.\\n","type":"reasoning_text"}],"encrypted_content":""},{"type":"message","status":"completed","id":"msg_IJC","content":[{"type":"output_text","annotations":[],"logprobs":[],"text":"a\u2028b\u2029c\x85d"}],"role":"assistant"},{"id":"fc_s3O","type":"function_call","status":"completed","arguments":"{\\"command\\": \\"list 🙂\u2028\\"}","call_id":"call_s3O","name":"look"}],"usage":{"input_tokens":97,"output_tokens":23,"total_tokens":120,"input_tokens_details":{"cached_tokens":7}}},"timings":{"cache_n":0}}

"""  # fmt: skip


# -- streams as servers send them --------------------------------------------------------------------------------------


def test_llama_cpp_leaves_out_numbers_and_indexes_and_lets_items_overlap() -> None:
    message = parse(LLAMA.encode())
    assert blocks(message) == [
        ("thinking", "The grass 北京🙂\u2028.\n"), ("text", "a\u2028b\u2029c\x85d"), ("toolCall", {"command": "list 🙂\u2028"}),
    ]  # fmt: skip
    assert message["stopReason"] == "toolUse" and message["content"][2]["id"] == "call_s3O"
    assert {key: message["usage"][key] for key in ("input", "cacheRead", "output")} == {
        "input": 90, "cacheRead": 7, "output": 23,
    }  # fmt: skip
    assert message["content"][0]["providerExtra"]["item"]["content"][0]["text"] == "The grass 北京🙂\u2028.\n"


def test_p01_p02_every_single_cut_of_the_bytes_gives_the_same_message() -> None:
    raw = LLAMA.encode()
    whole = parse(raw)
    assert all(parse(raw, cut) == whole for cut in range(1, len(raw), 7))
    for character in ("🙂".encode(), "\u2028".encode()):
        start = raw.index(character)
        assert all(parse(raw, start + offset) == whole for offset in range(1, len(character)))
    assert parse(raw, *range(1, len(raw))) == whole  # byte by byte


@pytest.mark.parametrize("ending", ["\n", "\r\n", "\r"])
@given(cuts=st.lists(st.integers(1, len(LLAMA.encode())), max_size=12))
def test_p01_p02_any_pieces_and_any_line_ends_give_the_same_message(ending: str, cuts: list[int]) -> None:
    raw = LLAMA.replace("\n", ending).encode()
    assert parse(raw, *(cut for cut in cuts if cut < len(raw))) == parse(LLAMA.encode())


TURNS: dict[str, dict[str, Any]] = {
    "text": {"text": "Hello 北京🙂, this is an answer."},
    "thinking in parts and calls": {
        "thinking": ["First I look around.", "Then I act."], "text": "Two calls.",
        "calls": [{"name": "read", "args": {"a": "b" * 40}}, {"name": "read", "args": {}}],
        "usage": {"input": 10, "output": 50, "cacheRead": 100, "cacheWrite": 7, "reasoning": 20},
    },
    "reasoning without a word": {"blocks": [{"redacted": "E=="}, {"call": {"name": "read"}}, {"redacted": "F=="}, {"text": "x"}]},
    "open reasoning": {"thinking": "hm, so be it", "reasoning_text": True, "text": "hi"},
    "refusal": {"refusal": "I cannot do that."},
    "cut": {"text": "Once upon", "calls": [{"name": "read", "raw": '{"a": 1'}], "finish": "length"},
    "bad arguments": {"calls": [{"name": "read", "raw": '{"a": 1, b}'}]},
}  # fmt: skip


@pytest.mark.parametrize("name", TURNS)
def test_the_message_is_the_one_that_the_official_client_puts_together(name: str) -> None:
    body = build_request(ModelRequest(Model("openai", "gpt-5.2", OPENAI_RESPONSES), "", [user("u")], TOOLS), Quirks())
    raw = b"".join(wire_responses.stream_of(TURNS[name], body, "x"))
    message = parse(raw)
    assert neutral(message) == assemble_bytes(OPENAI_RESPONSES, raw)
    assert read(*wire_responses.events_of(TURNS[name], body, "x"))["content"] == message["content"]
    whole, answer = wire_responses.response_of(TURNS[name], body, "x"), stream()
    events = answer.body(whole) + answer.finish()
    assert isinstance(events[-1], Finished) and events[-1].message["content"] == message["content"]
    assert events[-1].message["stopReason"] == message["stopReason"]


@pytest.mark.parametrize("name", TURNS)
def test_p21_what_came_goes_back_as_it_came(name: str) -> None:
    """The next request with it passes the strict server, which compares the reasoning of the latest turn."""
    model = Model("openai", "gpt-5.2", OPENAI_RESPONSES)
    body = build_request(ModelRequest(model, "", [user("u")], TOOLS), Quirks())
    first = parse(b"".join(wire_responses.stream_of(TURNS[name], body, "x")))
    results = [result(block["id"]) for block in first["content"] if block["type"] == "toolCall"]
    again = build_request(ModelRequest(model, "", [user("u"), first, *results, user("v")], TOOLS), Quirks())
    sent = wire_responses.sent_of(TURNS[name], body, "x")
    assert check_responses(again, [sent]) == []
    assert [item for item in again["input"] if item["type"] == "reasoning"] == [
        item for item in sent if item["type"] == "reasoning"
    ]


# -- ends and errors ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("reason", "stop"), [("max_output_tokens", "length"), ("max_messages", "length"), ("steered", "length")]
)
def test_incomplete_answers(reason: str, stop: str) -> None:
    assert read(*HI, ended("incomplete", incomplete_details={"reason": reason}))["stopReason"] == stop


def test_the_content_filter_and_a_cancelled_answer_are_refusals() -> None:
    usage = {"input_tokens": 10, "output_tokens": 2}
    error = fail(*HI, ended("incomplete", incomplete_details={"reason": "content_filter"}, usage=usage))
    assert error.kind == "refused" and "filter" in str(error) and error.usage and error.usage["output"] == 2
    error = fail(*HI, ended("cancelled"))
    assert error.kind == "refused" and "cancelled" in str(error)


def test_only_two_documented_codes_of_failed_answers_are_tried_again() -> None:
    from openai.types.responses import ResponseError

    codes = get_args(ResponseError.model_fields["code"].annotation)
    assert len(codes) > 15
    errors = {code: fail(*HI, ended("failed", error={"code": code, "message": f"text of {code}"})) for code in codes}
    assert {code for code, error in errors.items() if error.retryable} == {"server_error", "rate_limit_exceeded"}
    assert all(f"text of {code}" in str(error) for code, error in errors.items())
    refused = {code for code, error in errors.items() if error.kind == "refused"}
    assert refused == {"bio_policy", "misalignment_policy_violation", "image_content_policy_violation"}


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        ({"code": "context_length_exceeded", "message": "m"}, "overflow"),
        ({"code": "server_error", "message": "Your input exceeds the context window of this model."}, "overflow"),
        ({"code": "insufficient_quota", "message": "m"}, "quota"),
        ({"code": "server_is_overloaded", "message": "m"}, "overloaded"),
        ({"code": "invalid_prompt", "message": "m"}, "bad_request"),
        ({"code": "a_new_code", "message": "m"}, "bad_request"),
        (None, "server"),
        ({"message": "m"}, "server"),
        ("x", "server"),
    ],
)
def test_p20_errors_of_failed_answers(error: Any, kind: str) -> None:
    usage = {"input_tokens": 10, "output_tokens": 0}
    for found in (
        fail(*HI, ended("failed", error=error, usage=usage)),
        fail(ended("failed", error=error, usage=usage)),
    ):
        assert found.kind == kind and found.retryable is (kind in RETRYABLE)
        assert found.usage and found.usage["input"] == 10


@pytest.mark.parametrize("before", [0, 30])
@pytest.mark.parametrize(
    ("error", "kind"),
    [
        ({"type": "error", "code": "server_error", "message": "told", "param": None, "sequence_number": 3}, "server"),
        ({"type": "error", "code": "rate_limit_exceeded", "message": "told"}, "rate_limit"),
        ({"type": "error", "code": None, "message": "told"}, "server"),
        ({"type": "error", "error": {"type": "overloaded_error", "message": "told"}}, "overloaded"),
        (
            {
                "type": "error",
                "error": {
                    "type": "invalid_request_error",
                    "code": "context_length_exceeded",
                    "message": "told",
                    "param": "input",
                },
            },
            "overflow",
        ),
        ({"type": "error", "error": {"type": "invalid_request_error", "code": None, "message": "told"}}, "bad_request"),
        ({"type": "error", "code": "invalid_prompt", "message": "told"}, "bad_request"),
        ({"error": {"message": "told", "code": 529}}, "overloaded"),
    ],
)
def test_p17_p20_an_error_inside_a_stream_ends_it(error: dict[str, Any], kind: str, before: int) -> None:
    found = fail(*[delta(TEXT, "x", "msg_1")] * before, error)
    assert found.kind == kind and "told" in str(found)


def test_what_is_no_json_object_is_malformed() -> None:
    for data in ("{", "nope", "3", "[" * 100_000):
        with pytest.raises(ModelError) as caught:
            stream().chunk(data)
        assert caught.value.kind == "malformed"


# -- usage -------------------------------------------------------------------------------------------------------------


def test_usage_splits_cached_and_written_tokens_and_prices_them() -> None:
    usage = {
        "input_tokens": 1000, "input_tokens_details": {"cached_tokens": 600, "cache_write_tokens": 100},
        "output_tokens": 80, "output_tokens_details": {"reasoning_tokens": 50}, "total_tokens": 1080,
    }  # fmt: skip
    got = read(*HI, ended("completed", usage=usage), of=stream(prices=PRICES))["usage"]
    assert (got["input"], got["cacheRead"], got["cacheWrite"], got["output"]) == (300, 600, 100, 80)
    assert got["totalTokens"] == 1080 and got["cost"]["total"] == pytest.approx(300e-6 + 60e-6 + 100e-6 + 800e-6)
    assert "cost" not in read(*HI, ended("completed", usage=usage))["usage"]


@pytest.mark.parametrize(
    "usage",
    [
        None, {}, 3, {"input_tokens": None}, {"input_tokens": "7", "input_tokens_details": 3},
        {"input_tokens": 5, "input_tokens_details": {"cached_tokens": 9, "cache_write_tokens": -1}},
        {"input_tokens": float("nan"), "output_tokens": True},
    ],
)  # fmt: skip
def test_odd_usage_breaks_nothing(usage: Any) -> None:
    got = read(*HI, ended("completed", usage=usage))["usage"]
    assert got["input"] >= 0 and got["cacheRead"] <= 5


def test_no_usage_is_estimated_and_marked() -> None:
    message = read(*HI, END)
    assert message["providerExtra"]["usageEstimated"] is True and message["usage"]["input"] > 10


def test_surrogates_are_joined_or_replaced() -> None:
    pieces = [delta(TEXT, piece, "m") for piece in ("a\ud83d", "\ude00b", "\udc00c\ud83d")]
    assert blocks(read(*pieces, END)) == [("text", "a😀b\ufffdc\ufffd")]
    whole = done("message", "m", content=said("a😀b\udc00c\ud83d"))
    message = read(*pieces, whole, END)
    assert blocks(message) == [("text", "a😀b\ufffdc\ufffd")]
    json.dumps(message, ensure_ascii=False).encode("utf-8")


# -- whole answers -----------------------------------------------------------------------------------------------------


def test_a_whole_answer_instead_of_a_stream() -> None:
    output = [
        SECRET,
        {"type": "message", "content": said("hi")},
        {"type": "function_call", "call_id": "c", "name": "f", "arguments": "{}"},
    ]
    for head in ({"object": "response", "status": "completed"}, {"status": "completed"}, {}):
        answer = stream()
        assert answer.is_answer({**head, "output": output})
        last = (answer.body({**head, "output": output}) + answer.finish())[-1]
        assert isinstance(last, Finished)
        assert blocks(dict(last.message)) == [("thinking", ""), ("text", "hi"), ("toolCall", {})]
    assert not ResponsesStream.is_answer({"error": {"message": "x"}}) and not ResponsesStream.is_answer([])


@pytest.mark.parametrize(
    ("value", "kind"),
    [
        (
            {"object": "response", "status": "failed", "error": {"code": "server_error", "message": "m"}, "output": []},
            "server",
        ),
        ({"output": [], "error": {"code": "invalid_prompt", "message": "m"}}, "bad_request"),
        ({"object": "response", "status": "cancelled", "output": []}, "refused"),
        ({"object": "response", "status": "queued", "output": []}, "truncated"),
        ({"object": "response", "status": "incomplete", "incomplete_details": {"reason": "content_filter"}}, "refused"),
        ({"error": {"code": "context_length_exceeded", "message": "m"}}, "overflow"),
    ],
)
def test_whole_answers_that_are_none(value: dict[str, Any], kind: str) -> None:
    answer = stream()
    with pytest.raises(ModelError) as caught:
        answer.body(value)
        answer.finish()
    assert caught.value.kind == kind
