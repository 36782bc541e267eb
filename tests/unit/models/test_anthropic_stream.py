"""Events of a Messages stream to ours and the message (cases P01, P02, P05, P06, P10, P11, P13-P15, P17, P20, P21, P23)."""

# ruff: noqa: E501 - bodies as they came
from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from durable_tui.models.anthropic_stream import AnthropicStream
from durable_tui.models.failures import Endpoint
from durable_tui.models.known_providers import ANTHROPIC
from durable_tui.models.provider import BlockDelta, BlockStart, Finished, Model, ModelError, ModelRequest
from tests.tools.sdk import assemble_bytes, neutral
from tests.unit.models.stream_kit import failure, message_in
from tests.unit.models.test_chat_request import call, result, user
from tests.unit.models.test_chat_stream import PRICES, blocks, run

# As llama.cpp writes it: no input and no signature at the start, the next block begins before the last has ended.
LLAMA = """event: message_start
data: {"type":"message_start","message":{"id":"chatcmpl-x","type":"message","role":"assistant","content":[],"model":"m","stop_reason":null,"stop_sequence":null,"usage":{"cache_read_input_tokens":264,"input_tokens":1,"output_tokens":0}}}

event: content_block_start
data: {"type":"content_block_start","index":0,"content_block":{"type":"thinking","thinking":""}}

event: content_block_delta
data: {"type":"content_block_delta","index":0,"delta":{"type":"thinking_delta","thinking":" I should"}}

event: content_block_delta
data: {"type":"content_block_delta","index":0,"delta":{"type":"thinking_delta","thinking":" list\u2028the 北京🙂 "}}

event: content_block_start
data: {"type":"content_block_start","index":1,"content_block":{"type":"text","text":""}}

event: content_block_delta
data: {"type":"content_block_delta","index":1,"delta":{"type":"text_delta","text":"a\u2028b\u2029c\x85d"}}

event: content_block_start
data: {"type":"content_block_start","index":2,"content_block":{"type":"tool_use","id":"call_1","name":"bash"}}

event: content_block_delta
data: {"type":"content_block_delta","index":2,"delta":{"type":"input_json_delta","partial_json":"{\\"command\\": \\"l"}}

event: content_block_delta
data: {"type":"content_block_delta","index":0,"delta":{"type":"signature_delta","signature":""}}

event: content_block_stop
data: {"type":"content_block_stop","index":0}

event: content_block_stop
data: {"type":"content_block_stop","index":1}

event: content_block_delta
data: {"type":"content_block_delta","index":2,"delta":{"type":"input_json_delta","partial_json":"s 🙂\u2028\\"}"}}

event: content_block_stop
data: {"type":"content_block_stop","index":2}

event: message_delta
data: {"type":"message_delta","delta":{"stop_reason":"tool_use","stop_sequence":null},"usage":{"output_tokens":33}}

event: message_stop
data: {"type":"message_stop"}

"""  # fmt: skip


def stream(messages: list[dict[str, Any]] | None = None, prices: dict[str, float] | None = None) -> AnthropicStream:
    model = Model("anthropic", "claude-sonnet-4-5", ANTHROPIC, prices=prices)
    return AnthropicStream(ModelRequest(model, "s", messages or [user("u" * 40)]), Endpoint("anthropic"), ANTHROPIC)


def begin(index: Any, kind: str, **more: Any) -> dict[str, Any]:
    return {"type": "content_block_start", "index": index, "content_block": {"type": kind, **more}}


def delta(index: Any, kind: str, value: Any) -> dict[str, Any]:
    keys = {"text": "text", "thinking": "thinking", "signature": "signature", "input_json": "partial_json"}
    return {"type": "content_block_delta", "index": index, "delta": {"type": f"{kind}_delta", keys[kind]: value}}


def end(reason: Any = "end_turn", usage: Any = None, **more: Any) -> dict[str, Any]:
    return {"type": "message_delta", "delta": {"stop_reason": reason, **more}, "usage": usage}


def started(**usage: Any) -> dict[str, Any]:
    return {"type": "message_start", "message": {"content": [], "usage": usage}}


STOP = {"type": "message_stop"}
HI = (begin(0, "text", text=""), delta(0, "text", "hi"), {"type": "content_block_stop", "index": 0})


def read(*chunks: Any, of: AnthropicStream | None = None) -> dict[str, Any]:
    """The message; the events must add up to it."""
    return run(*chunks, chat=of or stream())[0]


def fail(*chunks: Any) -> ModelError:
    return failure(stream(), *chunks)


def parse(raw: bytes, *cuts: int) -> dict[str, Any]:
    """The message of a body that comes in pieces."""
    return message_in(stream(), raw, *cuts)


# -- blocks ------------------------------------------------------------------------------------------------------------


def test_p10_blocks_are_told_apart_by_their_index_as_the_official_client_does() -> None:
    message = parse(LLAMA.encode())
    assert blocks(message) == [
        ("thinking", " I should list\u2028the 北京🙂 "),
        ("text", "a\u2028b\u2029c\x85d"),
        ("toolCall", {"command": "ls 🙂\u2028"}),
    ]
    assert "signature" not in message["content"][0] and message["stopReason"] == "toolUse"
    assert (message["usage"]["input"], message["usage"]["cacheRead"], message["usage"]["output"]) == (1, 264, 33)
    assert neutral(message) == assemble_bytes(ANTHROPIC, LLAMA.encode())


def test_p10_interleaved_calls_keep_their_own_arguments() -> None:
    message = read(
        begin(0, "tool_use", id="A", name="f"), delta(0, "input_json", '{"x":'), begin(1, "tool_use", id="B", name="g"),
        delta(1, "input_json", '{"y":'), delta(0, "input_json", "1}"), delta(1, "input_json", "2}"), end("tool_use"), STOP,
    )  # fmt: skip
    assert [(c["id"], c["name"], c["arguments"]) for c in message["content"]] == [
        ("A", "f", {"x": 1}), ("B", "g", {"y": 2}),
    ]  # fmt: skip


@given(st.lists(st.integers(0, len(LLAMA.encode())), max_size=6), st.sampled_from(["\n", "\r", "\r\n"]))
def test_p01_p02_any_cut_and_any_line_end_gives_the_same_message(cuts: list[int], ending: str) -> None:
    raw = LLAMA.replace("\n", ending).encode()
    assert parse(raw, *(cut for cut in cuts if cut < len(raw))) == parse(LLAMA.encode())


@pytest.mark.parametrize("ending", ["\n", "\r", "\r\n"])
def test_p01_p02_one_byte_at_a_time_gives_the_same_message(ending: str) -> None:
    raw = LLAMA.replace("\n", ending).encode()
    assert parse(raw, *range(1, len(raw))) == parse(LLAMA.encode())


@pytest.mark.parametrize(
    "pieces", [(), ("",), ("", "", ""), ("{}",), ("", "{", "}")], ids=["none", "empty", "empties", "object", "pieces"]
)
@pytest.mark.parametrize("more", [{"input": {}}, {}, {"input": None}])
def test_p11_a_call_without_arguments_is_a_call(pieces: tuple[str, ...], more: dict[str, Any]) -> None:
    deltas = [delta(0, "input_json", piece) for piece in pieces]
    message = read(begin(0, "tool_use", id="c", name="f", **more), *deltas, end("tool_use"), STOP)
    assert message["content"] == [{"type": "toolCall", "id": "c", "name": "f", "arguments": {}}]
    assert message["stopReason"] == "toolUse"


def test_arguments_that_come_whole_with_the_start_count_unless_pieces_follow() -> None:
    whole = begin(0, "tool_use", id="c", name="f", input={"a": "ü"})
    assert blocks(read(whole, end("tool_use"), STOP)) == [("toolCall", {"a": "ü"})]
    assert blocks(read(whole, delta(0, "input_json", '{"a": 1}'), end(), STOP)) == [("toolCall", {"a": 1})]


@pytest.mark.parametrize(
    "raw",
    ["null", "[]", '"ls"', "3", '{"a": "\t"}', '{"n": NaN}', '{"n": ' + "9" * 5000 + "}", "[" * 100_000, '{"a": 1, b": 2}'],
    ids=range(9),
)  # fmt: skip
def test_p12_p13_arguments_that_are_no_object_never_run(raw: str) -> None:
    message = read(begin(0, "tool_use", id="c", name="f"), delta(0, "input_json", raw), end("tool_use"), STOP)
    (block,) = message["content"]
    assert block["arguments"] == {} and block["providerExtra"]["invalid"]["error"]


def test_p13_an_object_in_a_string_is_unwrapped_and_other_whole_input_is_refused() -> None:
    text = json.dumps('{"path": "a"}')
    assert blocks(read(begin(0, "tool_use", id="c", name="f"), delta(0, "input_json", text), end(), STOP)) == [
        ("toolCall", {"path": "a"})
    ]
    for given_input in ([1], 3, "ls"):
        message = read(begin(0, "tool_use", id="c", name="f", input=given_input), end(), STOP)
        assert "invalid" in message["content"][0]["providerExtra"]


@pytest.mark.parametrize("raw", ['{"path":"app.py","content":"def', '{"path":"app.py"}'])
def test_p14_a_turn_that_met_the_output_limit_marks_its_calls(raw: str) -> None:
    message = read(begin(0, "tool_use", id="c", name="write"), delta(0, "input_json", raw), end("max_tokens"), STOP)
    assert message["stopReason"] == "length"
    assert "output limit" in message["content"][0]["providerExtra"]["invalid"]["error"]


def test_p14_cut_arguments_are_refused_whatever_the_reason() -> None:
    message = read(begin(0, "tool_use", id="c", name="f"), delta(0, "input_json", '{"a":"x'), end("tool_use"), STOP)
    assert "output limit" in message["content"][0]["providerExtra"]["invalid"]["error"]


def test_p15_ids_are_made_unique_also_against_earlier_turns() -> None:
    earlier = {"role": "assistant", "content": [call("t1")]}
    calls = [begin(place, "tool_use", id=id, name="f") for place, id in enumerate(["t1", "t2", "t2", ""])]
    message = read(*calls, end("tool_use"), STOP, of=stream([user("u"), earlier, result("t1")]))
    ids = [block["id"] for block in message["content"]]
    assert len(set(ids)) == 4 and all(ids) and "t1" not in ids and "t2" in ids


def test_p21_thinking_is_kept_to_the_last_blank_with_its_whole_signature() -> None:
    message = read(
        begin(0, "thinking", thinking="", signature=""), delta(0, "thinking", "  a"), delta(0, "thinking", "\nb  "),
        delta(0, "signature", "SIG"), delta(0, "signature", "=="), begin(1, "redacted_thinking", data="DATA=="),
        begin(2, "text", text=""), delta(2, "text", " hi "), begin(3, "tool_use", id="c", name="f", input={}),
        end("tool_use"), STOP,
    )  # fmt: skip
    assert message["content"] == [
        {"type": "thinking", "thinking": "  a\nb  ", "signature": "SIG=="},
        {"type": "thinking", "thinking": "", "signature": "DATA==", "redacted": True},
        {"type": "text", "text": " hi "},
        {"type": "toolCall", "id": "c", "name": "f", "arguments": {}},
    ]


def test_p21_thinking_whose_text_the_provider_keeps_is_told_from_redacted_thinking() -> None:
    message = read(begin(0, "thinking", thinking=""), delta(0, "signature", "SIG=="), begin(1, "text", text="x"),
                   end(), STOP)  # fmt: skip
    assert message["content"][0] == {
        "type": "thinking", "thinking": "", "signature": "SIG==", "redacted": True, "providerExtra": {"omitted": True},
    }  # fmt: skip


def test_p23_blank_text_is_no_block_but_blanks_before_text_are_kept() -> None:
    message = read(
        begin(0, "text", text="\n"), delta(0, "text", " "), begin(1, "tool_use", id="c", name="f"), end(), STOP
    )
    assert blocks(message) == [("toolCall", {})]
    assert blocks(read(begin(0, "text", text=""), delta(0, "text", "\n\n"), delta(0, "text", "hi "), end(), STOP)) == [
        ("text", "\n\nhi ")
    ]
    assert read(begin(0, "text", text=""), begin(1, "thinking", thinking=""), end(), STOP)["content"] == []


def test_a_block_that_opens_late_is_put_in_its_place() -> None:
    answer = stream()
    for chunk in (
        begin(0, "text", text=""), delta(0, "text", "\n"), begin(1, "tool_use", id="c", name="f"),
        delta(0, "text", "late"), delta(1, "input_json", '{"a":1}'), end("tool_use"), STOP,
    ):  # fmt: skip
        answer.chunk(json.dumps(chunk))
    ended = answer.finish()[-1]
    assert isinstance(ended, Finished)
    assert blocks(dict(ended.message)) == [("text", "\nlate"), ("toolCall", {"a": 1})]


def test_p05_odd_and_unknown_frames_are_ignored() -> None:
    message = read(
        "", {"type": "ping"}, started(), {"type": "message_start", "message": None}, {"type": "message_start"},
        begin(0, "server_tool_use", id="s", name="web_search", input={}), delta(0, "input_json", '{"q":1}'),
        begin(1, "text", text=None), {"type": "content_block_delta", "index": 1, "delta": None},
        {"type": "content_block_delta", "index": 1, "delta": {"type": "citations_delta", "citation": {}}},
        {"type": "content_block_delta", "index": 1, "delta": {"type": "text_delta"}}, delta(1, "text", None),
        delta(1, "thinking", "no"), delta(1, "signature", "no"), delta(7, "input_json", "{}"), {"type": "content_block_start"}, {"type": "new_event"}, {},
        delta(1, "text", "hi"), {"type": "message_delta", "delta": None, "usage": None}, end(None), end(), {"type": "ping"},
        STOP,
    )  # fmt: skip
    assert message["stopReason"] == "stop" and blocks(message) == [("text", "hi")]


def test_deltas_without_a_start_or_an_index_find_their_block() -> None:
    assert blocks(read(delta(0, "thinking", "t"), delta(1, "text", "x"), end(), STOP)) == [
        ("thinking", "t"),
        ("text", "x"),
    ]
    message = read(
        begin(None, "text", text=""), delta(None, "text", "x"), begin(None, "tool_use", id="c", name="f"),
        delta(None, "input_json", '{"a":1}'), end(), STOP,
    )  # fmt: skip
    assert blocks(message) == [("text", "x"), ("toolCall", {"a": 1})]


def test_surrogates_are_joined_or_replaced() -> None:
    texts = [delta(0, "text", piece) for piece in ("a\ud83d", "\ude00b", "\udc00c\ud83d")]
    message = read(begin(0, "text", text=""), *texts, end(), STOP)
    assert blocks(message) == [("text", "a😀b\ufffdc\ufffd")]
    json.dumps(message, ensure_ascii=False).encode("utf-8")


# -- how it ends -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("reason", "stop"),
    [("end_turn", "stop"), ("stop_sequence", "stop"), ("max_tokens", "length"), ("pause_turn", "stop"),
     ("tool_use", "stop"), ("something_new", "stop")],
)  # fmt: skip
def test_stop_reasons(reason: str, stop: str) -> None:
    assert read(*HI, end(reason), STOP)["stopReason"] == stop


def test_p06_a_stop_reason_is_needed_and_enough() -> None:
    assert read(*HI, end())["stopReason"] == "stop"
    for chunks in (HI, (*HI, STOP), (*HI, end(None), STOP), ()):
        error = fail(started(input_tokens=3, output_tokens=1), *chunks)
        assert error.kind == "truncated" and error.retryable
        assert error.usage is not None and error.usage["input"] == 3


def test_nothing_is_waited_for_after_the_last_event() -> None:
    answer = stream()
    for chunk in (*HI, end()):
        answer.chunk(json.dumps(chunk))
    assert answer.finished and not answer.done
    answer.chunk(json.dumps(STOP))
    assert answer.done


@pytest.mark.parametrize("before", [0, 30])
def test_p17_an_error_inside_the_stream_is_no_answer(before: int) -> None:
    error = fail(
        started(input_tokens=9, output_tokens=1), begin(0, "text", text=""), *[delta(0, "text", "x")] * before,
        {"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}, "request_id": "req_7"},
    )  # fmt: skip
    assert error.kind == "overloaded" and error.retryable and "Overloaded" in str(error) and "req_7" in str(error)
    assert error.usage is not None and error.usage["input"] == 9


def test_a_refusal_says_why_and_is_not_tried_again() -> None:
    details = {"type": "refusal", "category": "cyber", "explanation": "This could enable harm."}
    error = fail(*HI, end("refusal", stop_details=details), STOP)
    assert error.kind == "refused" and not error.retryable
    assert str(error) == "anthropic: the model declined to answer (cyber): This could enable harm."
    assert str(fail(*HI, end("refusal", stop_details=None), STOP)) == "anthropic: the model declined to answer"


def test_p20_a_full_context_window_is_an_overflow() -> None:
    error = fail(
        started(input_tokens=3, output_tokens=1), *HI, end("model_context_window_exceeded", {"output_tokens": 5})
    )
    assert error.kind == "overflow" and error.usage is not None and error.usage["output"] == 5


def test_usage_is_cumulative_and_cached_tokens_are_extra() -> None:
    cached = {"cache_read_input_tokens": 600, "cache_creation_input_tokens": 50}
    message = read(
        started(input_tokens=400, output_tokens=1, **cached), *HI, end(None, {"output_tokens": 20}),
        end("end_turn", {"input_tokens": 400, "output_tokens": 80, "cache_read_input_tokens": None}), STOP,
        of=stream(prices={**PRICES, "cacheWrite": 2.0}),
    )  # fmt: skip
    got = message["usage"]
    assert (got["input"], got["cacheRead"], got["cacheWrite"], got["output"]) == (400, 600, 50, 80)
    assert got["totalTokens"] == 1130 and "providerExtra" not in message
    assert got["cost"]["total"] == pytest.approx(400e-6 + 60e-6 + 100e-6 + 800e-6)


def test_usage_that_comes_in_one_of_the_two_places_only() -> None:
    for first, last in (({"input_tokens": 0, "output_tokens": 0}, {"input_tokens": 7, "output_tokens": 3}),
                        ({"input_tokens": 7, "output_tokens": 1}, {"input_tokens": 0, "output_tokens": 3})):  # fmt: skip
        usage = read(started(**first), *HI, end("end_turn", last), STOP)["usage"]
        assert (usage["input"], usage["output"]) == (7, 3)


@pytest.mark.parametrize("usage", [None, {}, "x", {"input_tokens": None}, {"input_tokens": "7", "output_tokens": -3}])
def test_no_usage_is_estimated_and_marked(usage: Any) -> None:
    message = read({"type": "message_start", "message": {"usage": usage}}, *HI, end("end_turn", usage), STOP)
    assert message["providerExtra"]["usageEstimated"] is True
    assert message["usage"]["input"] > 10 and message["usage"]["output"] > 0 and "cost" not in message["usage"]


def test_a_whole_message_instead_of_a_stream() -> None:
    body = {
        "type": "message", "role": "assistant", "stop_reason": "tool_use", "usage": {"input_tokens": 5, "output_tokens": 2},
        "content": [
            {"type": "thinking", "thinking": " t ", "signature": "S"}, {"type": "redacted_thinking", "data": "D"},
            {"type": "text", "text": "\n"}, {"type": "text", "text": "hi"}, {"type": "tool_result"},
            {"type": "tool_use", "id": "c", "name": "f", "input": {"a": 1}},
        ],
    }  # fmt: skip
    assert AnthropicStream.is_answer(body) and not AnthropicStream.is_answer({"type": "error", "error": {}})
    answer = stream()
    events = [*answer.body(body), *answer.finish()]
    ended = events[-1]
    assert isinstance(ended, Finished) and ended.message["stopReason"] == "toolUse" and answer.done
    assert ended.message["content"] == [
        {"type": "thinking", "thinking": " t ", "signature": "S"},
        {"type": "thinking", "thinking": "", "signature": "D", "redacted": True},
        {"type": "text", "text": "hi"},
        {"type": "toolCall", "id": "c", "name": "f", "arguments": {"a": 1}},
    ]
    assert ended.message["usage"]["totalTokens"] == 7
    starts = [event.block["type"] for event in events if isinstance(event, BlockStart)]
    assert starts == ["thinking", "thinking", "text", "toolCall"]
    assert [event.text for event in events if isinstance(event, BlockDelta)] == [" t ", "hi", '{"a":1}']


def test_a_whole_error_instead_of_an_answer() -> None:
    with pytest.raises(ModelError) as caught:
        stream().body({"type": "error", "error": {"type": "rate_limit_error", "message": "slow down"}})
    assert caught.value.kind == "rate_limit"
