"""Items of a Responses stream, however their server tells of them (cases P05, P06, P08, P10-P15, P21, P23)."""

from __future__ import annotations

import json
from typing import Any

import pytest

from durable_tui.models.provider import BlockDelta, BlockStart, Finished, ModelError
from tests.unit.models.responses_kit import (
    ARGUMENTS,
    END,
    HI,
    SECRET,
    SUMMARY,
    TEXT,
    added,
    arguments,
    delta,
    done,
    ended,
    item_event,
    read,
    said,
    stream,
)
from tests.unit.models.test_chat_request import user
from tests.unit.models.test_chat_stream import blocks, run

# -- items and their events --------------------------------------------------------------------------------------------


def test_p05_odd_events_break_nothing() -> None:
    message = read(
        "", {}, {"type": None}, {"type": "response.output_item.added"}, {"type": "response.output_item.added", "item": 3},
        {"type": "response.whatever", "item_id": "msg_1", "delta": "no"}, delta(TEXT, None), delta(TEXT, 3), *HI,
        {"type": "response.output_text.annotation.added", "item_id": "msg_1", "annotation": {}},
        delta(TEXT, "", "msg_1", obfuscation="xxxx"), {"type": "response.mcp_call.failed"}, {"type": "keepalive"}, END,
    )  # fmt: skip
    assert blocks(message) == [("text", "hi")] and message["stopReason"] == "stop"


def test_the_type_may_stand_in_the_event_line_alone() -> None:
    answer = stream()
    answer.chunk(json.dumps({"item_id": "msg_1", "delta": "hi"}), "response.output_text.delta")
    answer.chunk(json.dumps({"response": {}}), "response.completed")
    assert blocks(dict(answer.finish()[-1].message)) == [("text", "hi")]  # type: ignore[union-attr]


def test_p06_a_stream_without_its_terminal_event_is_truncated() -> None:
    for chunks in ((), HI, (*HI, "[DONE]"), (ended("in_progress"), *HI)):
        answer = stream()
        for chunk in chunks:
            answer.chunk(chunk if isinstance(chunk, str) else json.dumps(chunk))
        with pytest.raises(ModelError) as caught:
            answer.finish()
        assert caught.value.kind == "truncated" and caught.value.retryable


def test_p06_the_terminal_event_is_enough() -> None:
    answer = stream()
    for chunk in (*HI, END):
        answer.chunk(json.dumps(chunk))
    assert answer.finished and answer.done and isinstance(answer.finish()[-1], Finished)
    assert read(*HI, {"type": "response.completed", "response": None})["stopReason"] == "stop"


def test_p08_calls_at_one_place_are_two_calls() -> None:
    chunks = []
    for id, pattern in (("c1", "x"), ("c2", "y")):
        raw = json.dumps({"pat": pattern})
        chunks += [added("function_call", "", 0, call_id=id, name="grep"), delta(ARGUMENTS, raw, output_index=0)]
        chunks.append(done("function_call", "", 0, call_id=id, name="grep", arguments=raw))
    wanted = [("c1", "grep", {"pat": "x"}, True), ("c2", "grep", {"pat": "y"}, True)]
    assert arguments(*chunks, END) == wanted
    assert arguments(*[chunk for chunk in chunks if chunk["type"].endswith("done")], END) == wanted


@pytest.mark.parametrize(("places", "ids"), [(True, True), (True, False), (False, True)])
def test_p10_interleaved_arguments_go_to_their_calls(places: bool, ids: bool) -> None:
    chunks = [
        added("function_call", f"fc_{n}" if ids else "", n if places else None, call_id=f"c{n}", name="f")
        for n in (0, 1)
    ]
    for n, piece in ((0, '{"x":'), (1, '{"y":'), (0, "1}"), (1, "2}")):
        at = {"output_index": n} if places else {}
        chunks.append(delta(ARGUMENTS, piece, f"fc_{n}" if ids else "", **at))
    assert arguments(*chunks, END) == [("c0", "f", {"x": 1}, True), ("c1", "f", {"y": 2}, True)]


def test_ids_that_change_on_the_way_are_told_apart_by_their_place() -> None:
    message = read(
        added("message", "a", 0), delta(TEXT, "he", "b", output_index=0), delta(TEXT, "llo", "c", output_index=0),
        done("message", "d", 0, content=said("hello")),
        added("function_call", "e", 1, call_id="c1", name="f"), delta(ARGUMENTS, '{"a":', "g", output_index=1),
        delta(ARGUMENTS, "1}", "h", output_index=1), done("function_call", "i", 1, call_id="c1", name="f", arguments='{"a":1}'),
        ended("completed", {"type": "message", "id": "j", "content": said("hello")},
              {"type": "function_call", "id": "k", "call_id": "c1", "name": "f", "arguments": '{"a":1}'}),
    )  # fmt: skip
    assert blocks(message) == [("text", "hello"), ("toolCall", {"a": 1})]


def test_new_ids_in_the_final_answer_are_matched_by_order() -> None:
    output = [
        {"type": "reasoning", "id": "rs_new", "summary": said("hm", kind="summary_text"), "encrypted_content": "E=="},
        {"type": "message", "id": "msg_new", "content": said("hi")},
        {"type": "message", "id": "msg_newer", "content": said("ho")},
    ]
    message = read(
        added("reasoning", "rs_1"), delta(SUMMARY, "hm", "rs_1"), added("message", "msg_1"), delta(TEXT, "hi", "msg_1"),
        added("message", "msg_2"), delta(TEXT, "ho", "msg_2"), ended("completed", *output),
    )  # fmt: skip
    assert blocks(message) == [("thinking", "hm"), ("text", "hi"), ("text", "ho")]
    assert message["content"][0]["providerExtra"]["item"]["encrypted_content"] == "E=="


def test_p11_no_arguments_are_an_empty_object() -> None:
    for given_arguments in ("", None, {}, "{}"):
        item = {"call_id": "c", "name": "f", "arguments": given_arguments}
        wanted = [("c", "f", {}, True)]
        assert arguments(added("function_call", "fc", **item), done("function_call", "fc", **item), END) == wanted
        assert arguments(done("function_call", "fc", **item), END) == wanted
    assert arguments(added("function_call", "fc", call_id="c", name="f"), END) == [("c", "f", {}, True)]


@pytest.mark.parametrize(
    "raw",
    [
        '{"command": "ls", timeout": 5}',
        "null",
        "[]",
        '"ls"',
        "3",
        '{"a": "\t"}',
        '{"n": NaN}',
        "1" * 5000,
        "[" * 100_000,
    ],
)
def test_p12_p13_arguments_that_are_no_object_are_marked(raw: str) -> None:
    chunks = [added("function_call", "fc", call_id="c", name="f"), delta(ARGUMENTS, raw, "fc")]
    for more in ([], [done("function_call", "fc", call_id="c", name="f", arguments=raw)]):
        assert arguments(*chunks, *more, END) == [("c", "f", {}, False)]


def test_p13_an_object_in_a_string_or_as_it_is_is_taken() -> None:
    for given_arguments in ({"path": "a"}, json.dumps(json.dumps({"path": "a"}))):
        item = done("function_call", "fc", call_id="c", name="f", arguments=given_arguments)
        assert arguments(item, END) == [("c", "f", {"path": "a"}, True)]


@pytest.mark.parametrize(
    ("raw", "end"),
    [
        ('{"path":"app.py","content":"def', ended("incomplete", incomplete_details={"reason": "max_output_tokens"})),
        ('{"path":"app.py","content":"def', END),
        ('{"path":"app.py"}', ended("incomplete", incomplete_details={"reason": "max_output_tokens"})),
        ('{"path":"app.py"}', ended("completed", incomplete_details={"reason": "max_output_tokens"})),
        ('{"path":"app.py"}', ended("incomplete", incomplete_details={"reason": "something new"})),
        ('{"path":"app.py"}', ended("incomplete")),
    ],
)
def test_p14_calls_of_a_cut_answer_are_never_run(raw: str, end: dict[str, Any]) -> None:
    message = read(added("function_call", "fc", call_id="c", name="write"), delta(ARGUMENTS, raw, "fc"), end)
    assert "output limit" in message["content"][0]["providerExtra"]["invalid"]["error"]


def test_p14_an_answer_that_fills_its_limit_is_cut_whatever_it_is_called() -> None:
    full = ended("completed", usage={"input_tokens": 3, "output_tokens": 12})
    assert read(*HI, full, of=stream(maxTokens=12))["stopReason"] == "length"
    assert read(*HI, full, of=stream(maxTokens=13))["stopReason"] == "stop"
    assert read(*HI, full)["stopReason"] == "stop"


def test_p15_ids_come_out_unique_and_not_empty() -> None:
    items = [("fc_1", "t1"), ("fc_2", "t2"), ("fc_3", "t2"), ("fc_4", "")]
    begun = [added("function_call", id, n, call_id=call_id, name="f") for n, (id, call_id) in enumerate(items)]
    pieces = [delta(ARGUMENTS, json.dumps({"n": n}), id) for n, (id, _) in enumerate(items)]
    output = [
        {"type": "function_call", "id": id, "call_id": call_id, "name": "f", "arguments": json.dumps({"n": n})}
        for n, (id, call_id) in enumerate(items)
    ]
    for end in (END, ended("completed", *output)):
        got = arguments(*begun, *pieces, end)
        assert [value["n"] for _, _, value, _ in got] == [0, 1, 2, 3]
        assert len({id for id, *_ in got}) == 4 and all(id for id, *_ in got) and got[0][0] == "t1"
    old = {"role": "assistant", "content": [{"type": "toolCall", "id": "t1", "name": "f", "arguments": {}}]}
    message = read(begun[0], pieces[0], END, of=stream([user("u"), old]))
    assert message["content"][0]["id"] not in ("", "t1")


def test_the_arguments_of_the_done_item_count() -> None:
    call = {"call_id": "c", "name": "f"}
    chunks = [added("function_call", "fc", **call), delta(ARGUMENTS, '{"a":', "fc")]
    finished = {"type": "response.function_call_arguments.done", "item_id": "fc", "arguments": '{"a":1}'}
    assert arguments(*chunks, finished, END) == [("c", "f", {"a": 1}, True)]
    assert arguments(*chunks, done("function_call", "fc", arguments='{"a":1}', **call), END)[0][2] == {"a": 1}
    other = done("function_call", "fc", arguments='{"b":2}', **call)
    assert arguments(*chunks, finished, other, END)[0][2] == {"b": 2}
    events = run(*chunks, finished, END, chat=stream())[1]
    assert "".join(event.text for event in events if isinstance(event, BlockDelta)) == '{"a":1}'


def test_a_call_whose_name_comes_late_or_never() -> None:
    late = [added("function_call", "fc"), delta(ARGUMENTS, "{}", "fc")]
    assert arguments(*late, done("function_call", "fc", call_id="c", name="f", arguments="{}"), END) == [
        ("c", "f", {}, True)
    ]
    [(id, _, _, whole)] = arguments(*late, END)
    assert id == "fc" and not whole
    [(id, _, _, whole)] = arguments(delta(ARGUMENTS, "{}"), END)
    assert id and not whole


@pytest.mark.parametrize(
    "chunks",
    [
        [delta(TEXT, "hi", "msg_1")],
        [delta(TEXT, "hi")],
        [delta(TEXT, "h", "msg_1", output_index=0, content_index=0), delta(TEXT, "i", "msg_1")],
        [done("message", "msg_1", content=said("hi"))],
        [added("message", "msg_1"), delta(TEXT, "h", "msg_1"), done("message", "msg_1", content=said("hi"))],
        [added("message"), delta(TEXT, "h"), delta(TEXT, "i")],
        [*HI, *HI],
    ],
)
def test_what_is_missing_or_said_twice_changes_nothing(chunks: list[Any]) -> None:
    message = {"type": "message", "id": "msg_1", "content": said("hi")}
    assert blocks(read(*chunks, ended("completed", message)))[0] == ("text", "hi")
    if chunks != [*HI, *HI]:
        assert blocks(read(*chunks, ended("completed", message))) == [("text", "hi")]
        assert blocks(read(*chunks, END))[0] == ("text", "hi")
    assert blocks(read(ended("completed", message))) == [("text", "hi")]


def test_events_that_were_there_before_are_dropped_by_their_number() -> None:
    pieces = [added("message", "msg_1", 0), *(delta(TEXT, piece, "msg_1") for piece in ("ha", "ha", "!"))]
    chunks = [{**chunk, "sequence_number": number} for number, chunk in enumerate(pieces)]
    for again in ([*chunks[:2], *chunks], [*chunks, *chunks], [*chunks[:3], *chunks[2:]]):
        assert blocks(read(*again, {**END, "sequence_number": 4})) == [("text", "haha!")]
    # A server that gives all the same number is told by its last event.
    same = [{**chunk, "sequence_number": 0} for chunk in HI]
    message = {"type": "message", "id": "msg_1", "content": said("hi")}
    assert blocks(read(*same, {**ended("completed", message), "sequence_number": 0})) == [("text", "hi")]


def test_the_final_answer_fills_what_the_deltas_lacked_in_its_order() -> None:
    output = [
        {"type": "message", "id": "msg_0", "content": said("first")},
        {"type": "message", "id": "msg_1", "content": said("hi there")},
        {"type": "function_call", "id": "fc", "call_id": "c", "name": "f", "arguments": '{"a":1}'},
    ]
    answer = stream()
    for chunk in (added("message", "msg_1", 1), delta(TEXT, "hi", "msg_1"), ended("completed", *output)):
        answer.chunk(json.dumps(chunk))
    last = answer.finish()[-1]
    assert isinstance(last, Finished)
    assert blocks(dict(last.message)) == [("text", "first"), ("text", "hi there"), ("toolCall", {"a": 1})]


def test_a_final_text_that_differs_counts() -> None:
    answer = stream()
    for chunk in (*HI[:2], done("message", "msg_1", 0, content=said("ho")), END):
        answer.chunk(json.dumps(chunk))
    last = answer.finish()[-1]
    assert isinstance(last, Finished) and blocks(dict(last.message)) == [("text", "ho")]
    assert blocks(read(*HI[:2], done("message", "msg_1", 0, content=said("")), END)) == [("text", "hi")]


def test_parts_of_one_message_are_blocks_of_their_own() -> None:
    indexed = [
        delta(TEXT, "a", "m", content_index=0),
        delta("refusal", "no", "m", content_index=1),
        delta(TEXT, "b", "m", content_index=0),
    ]
    content = [*said("ab"), *said("no", kind="refusal")]
    for chunks in (indexed, [*indexed, done("message", "m", content=content)], [done("message", "m", content=content)]):
        message = read(*chunks, END)
        assert message["content"] == [
            {"type": "text", "text": "ab"}, {"type": "text", "text": "no", "providerExtra": {"refusal": True}},
        ]  # fmt: skip
    begun = {"type": "response.content_part.added", "item_id": "m", "part": {"type": "output_text", "text": ""}}
    plain = [begun, delta(TEXT, "a", "m"), begun, delta(TEXT, "b", "m"), done("message", "m", content=said("a", "b"))]
    assert blocks(read(*plain, END)) == [("text", "a"), ("text", "b")]


def test_a_refusal_is_the_answer_and_marked() -> None:
    message, events = run(delta("refusal", "I can", "m"), delta("refusal", "not.", "m"), END, chat=stream())
    assert message["content"] == [{"type": "text", "text": "I cannot.", "providerExtra": {"refusal": True}}]
    assert isinstance(events[0], BlockStart) and events[0].block["providerExtra"] == {"refusal": True}


def test_the_phase_of_a_message_is_kept() -> None:
    for begun in (added("message", "m", phase="commentary"), added("message", "m")):
        message = read(begun, delta(TEXT, "x", "m"), done("message", "m", phase="commentary", content=said("x")), END)
        assert message["content"] == [{"type": "text", "text": "x", "providerExtra": {"phase": "commentary"}}]


def test_the_beginning_of_a_block_stays_as_it_was_told_whatever_its_item_says_later() -> None:
    refused = said("No.", kind="refusal")
    message, events = run(
        delta("refusal", "No.", "m"), done("message", "m", phase="final", content=refused), END, chat=stream()
    )
    assert message["content"][0]["providerExtra"] == {"refusal": True, "phase": "final"}
    assert isinstance(events[0], BlockStart) and events[0].block["providerExtra"] == {"refusal": True}


def test_p23_blank_text_is_no_block() -> None:
    assert (
        read(added("message", "m"), delta(TEXT, " \n", "m"), done("message", "m", content=said(" \n")), END)["content"]
        == []
    )
    assert blocks(read(delta(TEXT, "\n", "m"), delta(TEXT, " a ", "m"), END)) == [("text", "\n a ")]


# -- reasoning ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("announced", "indexed"), [(True, True), (True, False), (False, True)])
def test_parts_of_a_summary_are_paragraphs(announced: bool, indexed: bool) -> None:
    chunks: list[Any] = [added("reasoning", "rs_1")]
    for number, pieces in enumerate((["one", " and"], ["two"])):
        at = {"summary_index": number} if indexed else {}
        if announced:
            chunks.append({"type": "response.reasoning_summary_part.added", "item_id": "rs_1", **at})
        chunks += [delta(SUMMARY, piece, "rs_1", **at) for piece in pieces]
    whole = done("reasoning", "rs_1", summary=said("one and", "two", kind="summary_text"), encrypted_content="E==")
    for more in ([], [whole]):
        assert blocks(read(*chunks, *more, *HI, END)) == [("thinking", "one and\n\ntwo"), ("text", "hi")]


def test_p21_thinking_is_kept_to_the_last_blank_and_its_item_verbatim() -> None:
    item = {**SECRET, "summary": said("  a\nb  ", kind="summary_text"), "status": "completed", "new": {"x": [1]}}
    half = added("reasoning", "rs_1", encrypted_content="E")
    message = read(
        half, delta(SUMMARY, "  a", "rs_1"), delta(SUMMARY, "\nb  ", "rs_1"), item_event("done", item, None), *HI, END
    )
    assert message["content"][0] == {"type": "thinking", "thinking": "  a\nb  ", "providerExtra": {"item": item}}


def test_the_encrypted_content_is_that_of_the_done_item() -> None:
    half = {**SECRET, "encrypted_content": "E"}
    message = read(item_event("added", half, 0), item_event("done", SECRET, 0), *HI, ended("completed", half))
    assert message["content"][0]["providerExtra"]["item"] == SECRET
    spoken = [added("reasoning", "rs_1"), delta(SUMMARY, "hm", "rs_1"), done("reasoning", "rs_1")]
    message = read(*spoken, *HI, ended("completed", SECRET))
    assert message["content"][0] == {"type": "thinking", "thinking": "hm", "providerExtra": {"item": SECRET}}


def test_reasoning_without_a_word_has_a_place_for_what_goes_back() -> None:
    message = read(added("reasoning", "rs_1", 0), item_event("done", SECRET, 0), *HI, END)
    assert message["content"][0] == {"type": "thinking", "thinking": "", "providerExtra": {"item": SECRET}}


@pytest.mark.parametrize("content", ["", None])
def test_reasoning_without_a_word_that_cannot_go_back_leaves_no_trace(content: Any) -> None:
    item = {**SECRET, "encrypted_content": content}
    assert blocks(read(added("reasoning", "rs_1", 0), item_event("done", item, 0), *HI, END)) == [("text", "hi")]


def test_reasoning_is_only_kept_for_sending_with_the_item_it_led_to() -> None:
    blank = done("message", "msg_0", content=said(" "))
    spoken = {**SECRET, "summary": said("hm", kind="summary_text")}
    for after in ([], [blank], [done("web_search_call", "ws_1")]):
        message = read(item_event("done", spoken, None), *after, END)
        assert message["content"] == [{"type": "thinking", "thinking": "hm"}]
        answer = stream()
        for chunk in (item_event("done", SECRET, None), *after, END):
            answer.chunk(json.dumps(chunk))
        last = answer.finish()[-1]
        assert isinstance(last, Finished) and last.message["content"] == []
    chunks = [item_event("done", spoken, None), item_event("done", {**spoken, "id": "rs_2"}, None), *HI]
    kept = read(*chunks, END)["content"]
    assert [block["providerExtra"]["item"]["id"] for block in kept[:2]] == ["rs_1", "rs_2"]


def test_reasoning_that_only_the_final_answer_has_comes_before_what_it_led_to() -> None:
    answer = stream()
    output = [SECRET, {"type": "message", "id": "msg_1", "content": said("hi")}]
    for chunk in (*HI, ended("completed", *output)):
        answer.chunk(json.dumps(chunk))
    last = answer.finish()[-1]
    assert isinstance(last, Finished) and [block["type"] for block in last.message["content"]] == ["thinking", "text"]
    assert last.message["content"][0]["providerExtra"] == {"item": SECRET}
