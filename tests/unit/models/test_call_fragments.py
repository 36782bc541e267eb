"""Tool calls from fragments, and their arguments (cases P08, P10-P15)."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from durable_tui.models.arguments import RAW_LIMIT, parse_arguments
from durable_tui.models.call_fragments import CallAssembler, finish_call


def fragment(index: Any = None, id: Any = None, name: Any = None, args: Any = None, **extra: Any) -> dict[str, Any]:
    function = {key: value for key, value in (("name", name), ("arguments", args)) if value is not None}
    given = {key: value for key, value in (("index", index), ("id", id)) if value is not None}
    return {**given, "function": function, **extra}


def assemble(*fragments: Any, taken: tuple[str, ...] = (), cut: bool = False) -> list[dict[str, Any]]:
    """Each fragment comes in a delta of its own; a list is one delta."""
    calls = CallAssembler(taken)
    for item in fragments:
        for position, part in enumerate(item if isinstance(item, list) else [item]):
            calls.add(part, position)
    for call in calls.calls:
        calls.settle_id(call)
    return [dict(finish_call(call, cut)) for call in calls.calls]


def brief(blocks: list[dict[str, Any]]) -> list[tuple[str, str, Any]]:
    return [(block["id"], block["name"], block["arguments"]) for block in blocks]


def test_p08_same_index_other_id_is_another_call() -> None:
    got = assemble(fragment(0, "c1", "grep", '{"pat":"x"}'), fragment(0, "c2", "grep", '{"pat":"y"}'))
    assert brief(got) == [("c1", "grep", {"pat": "x"}), ("c2", "grep", {"pat": "y"})]


def test_p08_same_index_without_ids() -> None:
    got = assemble(fragment(0, None, "grep", '{"pat":"x"}'), fragment(0, None, "grep", '{"pat":"y"}'))
    assert [block["arguments"] for block in got] == [{"pat": "x"}, {"pat": "y"}]
    assert len({block["id"] for block in got}) == 2 and all(block["id"] for block in got)
    got = assemble([fragment(None, None, "a", {"x": 1}), fragment(None, None, "b", {})])
    assert [(block["name"], block["arguments"]) for block in got] == [("a", {"x": 1}), ("b", {})]


def test_p08_a_new_name_is_another_call_even_if_nothing_came_for_the_first() -> None:
    got = assemble(fragment(0, None, "now", ""), fragment(0, None, "ls", '{"a":1}'), fragment(0, args=""))
    assert [(block["name"], block["arguments"]) for block in got] == [("now", {}), ("ls", {"a": 1})]


def test_p10_interleaved_fragments_go_by_index() -> None:
    got = assemble(
        fragment(0, "A", "f", '{"x":'), fragment(1, "B", "g", '{"y":'), fragment(0, args="1}"), fragment(1, args="2}")
    )
    assert brief(got) == [("A", "f", {"x": 1}), ("B", "g", {"y": 2})]


def test_p10_without_index_the_id_decides_then_the_place() -> None:
    got = assemble(
        fragment(None, "A", "f", '{"x":'), fragment(None, "B", "g", '{"y":'), fragment(None, "A", args="1}"),
        fragment(None, "B", args="2}"),
    )  # fmt: skip
    assert brief(got) == [("A", "f", {"x": 1}), ("B", "g", {"y": 2})]


def test_gaps_in_indexes_and_text_indexes() -> None:
    got = assemble(fragment(3, "A", "f", "{}"), fragment("7", "B", "g", '{"y":'), fragment(7, args="2}"))
    assert brief(got) == [("A", "f", {}), ("B", "g", {"y": 2})]


def test_an_id_made_up_for_each_fragment_does_not_split_a_call() -> None:
    got = assemble(fragment(0, "r1", "f", '{"x":'), fragment(0, "r2", None, '"a'), fragment(0, "r3", None, 'b"}'))
    assert brief(got) == [("r1", "f", {"x": "ab"})]


def test_a_repeated_whole_call_is_one_call() -> None:
    got = assemble(fragment(0, "c", "f", '{"x":1}'), fragment(0, "c", "f", '{"x":1}'))
    assert brief(got) == [("c", "f", {"x": 1})]


@pytest.mark.parametrize("args", ["", None, "  ", "{}"])
def test_p11_no_arguments_are_an_empty_object(args: Any) -> None:
    assert brief(assemble(fragment(0, "c", "now", args))) == [("c", "now", {})]
    block = assemble({"index": 0, "id": "c", "function": {"name": "now", "arguments": None}})[0]
    assert "providerExtra" not in block


def test_p12_invalid_json_is_marked_and_kept_beside() -> None:
    raw = '{"command": "ls", timeout": 5}'
    block = assemble(fragment(0, "c", "bash", raw))[0]
    assert block["arguments"] == {}
    assert block["providerExtra"]["invalid"]["raw"] == raw
    assert "no valid JSON" in block["providerExtra"]["invalid"]["error"]


@pytest.mark.parametrize(
    "raw",
    ["null", "[]", '"ls"', "3", "true", '{"a":"x\ty"}', '{"a":"x\x00y"}', '{"n": NaN}', '{"n": 1e999}', '{"n": -Infinity}',
     '{"n": ' + "9" * 5000 + "}", '{"a":' * 100_000, '{"a":' + "[" * 100_000 + "]" * 100_000 + "}",
     '{"a":' + "[" * 150 + "]" * 150 + "}", "{}{}", '"[1]"', "{'a': 1}"],
)  # fmt: skip
def test_p13_what_is_no_plain_object(raw: str) -> None:
    block = assemble(fragment(0, "c", "f", raw))[0]
    assert block["arguments"] == {}
    invalid = block["providerExtra"]["invalid"]
    assert invalid["error"] and len(invalid["raw"]) < RAW_LIMIT + 100
    json.dumps(block, allow_nan=False).encode()


def test_p13_a_double_encoded_object_is_unwrapped() -> None:
    assert parse_arguments(json.dumps('{"path":"a"}')).value == {"path": "a"}
    assert parse_arguments('{"a":"\\ud800"}').value == {"a": "\ufffd"}
    assert parse_arguments('{"a":"\\ud83d\\ude00\u2028"}').value == {"a": "😀\u2028"}


@given(st.text())
def test_p13_any_text_gives_an_object_or_an_error(raw: str) -> None:
    parsed = parse_arguments(raw)
    json.dumps(parsed.value, allow_nan=False, ensure_ascii=False).encode("utf-8")
    assert parsed.error is None or parsed.value == {}


CUT_RAW = '{"path":"app.py","content":"def f():\n    ret'.replace("\n", "\\n")


def test_p14_calls_of_a_length_cut_turn_are_never_trusted() -> None:
    for raw in (CUT_RAW, '{"path":"app.py","content":"x"}'):
        block = assemble(fragment(0, "c", "write", raw), cut=True)[0]
        assert block["arguments"] == {}
        assert "output limit" in block["providerExtra"]["invalid"]["error"]


def test_p14_a_cut_call_that_claims_to_have_stopped() -> None:
    block = assemble(fragment(0, "c", "write", CUT_RAW))[0]
    assert block["arguments"] == {} and "output limit" in block["providerExtra"]["invalid"]["error"]


def test_p15_ids_are_unique_and_not_empty() -> None:
    got = assemble(
        fragment(0, "t1", "f", "{}"), fragment(1, "t2", "f", '{"a":1}'), fragment(2, "t2", "f", '{"a":2}'),
        fragment(3, "", "f", "{}"), taken=("t1",),
    )  # fmt: skip
    ids = [block["id"] for block in got]
    assert len(set(ids)) == 4 and all(ids) and "t1" not in ids and ids[1] == "t2"
    assert [block["arguments"] for block in got] == [{}, {"a": 1}, {"a": 2}, {}]


def test_unknown_fields_are_kept_as_they_came() -> None:
    extra = {"google": {"thought_signature": "SIG=="}}
    block = assemble(fragment(0, "c", "f", "{}", extra_content=extra, type="function"))[0]
    assert block["providerExtra"] == {"wire": {"extra_content": extra}}


def test_a_call_without_a_name_is_invalid_and_empty_fragments_are_nothing() -> None:
    assert assemble(fragment(0), None, "x", {"index": 0, "function": None}) == []
    block = assemble(fragment(0, "c", None, '{"a":1}'))[0]
    assert block["name"] and block["providerExtra"]["invalid"]["error"] == "the call names no tool"


@given(st.lists(st.integers(0, 3), min_size=1, max_size=30), st.data())
def test_any_interleaving_by_index_keeps_each_call_whole(order: list[int], data: st.DataObject) -> None:
    texts = {index: json.dumps({"v": index, "t": data.draw(st.text(max_size=8))}) for index in set(order)}
    left, fragments = dict(texts), []
    for step, index in enumerate([*order, *sorted(texts)]):
        first = left[index] == texts[index]
        last = step >= len(order)
        size = len(left[index]) if last else data.draw(st.integers(1, 5))
        piece, left[index] = left[index][:size], left[index][size:]
        if piece or first:
            fragments.append(fragment(index, f"id{index}" if first else None, "f" if first else None, piece))
    got = {block["id"]: block["arguments"] for block in assemble(*fragments)}
    assert got == {f"id{index}": json.loads(text) for index, text in texts.items()}
