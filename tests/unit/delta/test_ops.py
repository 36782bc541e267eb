"""Applying the seven ops (spec 5)."""

from __future__ import annotations

from typing import Any

import pytest

from durable_tui.delta import MAX_DEPTH, OpError, apply_ops, freeze, thaw

BASE: dict[str, Any] = {"text": "a🙂b", "n": 1, "items": [{"id": 0}, {"id": 1}, {"id": 2}], "o": {"p": {"q": [1]}}}


@pytest.mark.parametrize(
    ("ops", "expected"),
    [
        ([["r", [1]]], [1]),
        ([["s", ["n"], 2]], {**BASE, "n": 2}),
        ([["s", ["new"], {"x": 1}]], {**BASE, "new": {"x": 1}}),
        ([["s", ["items", 1], 5]], {**BASE, "items": [{"id": 0}, 5, {"id": 2}]}),
        ([["s", ["items", 3], 5]], {**BASE, "items": [*BASE["items"], 5]}),
        ([["s", ["items", 2, "id"], 9]], {**BASE, "items": [{"id": 0}, {"id": 1}, {"id": 9}]}),
        ([["d", ["n"]]], {key: BASE[key] for key in BASE if key != "n"}),
        ([["d", ["items", 0]]], {**BASE, "items": BASE["items"][1:]}),
        ([["a", ["text"], "c"]], {**BASE, "text": "a🙂bc"}),
        ([["t", ["text"], 1]], {**BASE, "text": "🙂b"}),
        ([["t", ["text"], 3]], {**BASE, "text": "b"}),
        ([["t", ["text"], 4]], {**BASE, "text": ""}),
        ([["p", ["items"], 1, 1, [7, 8]]], {**BASE, "items": [{"id": 0}, 7, 8, {"id": 2}]}),
        ([["m", ["items"], [2, 0, 1]]], {**BASE, "items": [{"id": 2}, {"id": 0}, {"id": 1}]}),
        ([["d", ["n"]], ["s", ["n"], 3], ["s", ["o", "p", "r"], 1], ["s", ["o", "p", "r"], 2]],
         {**BASE, "n": 3, "o": {"p": {"q": [1], "r": 2}}}),
    ],
)  # fmt: skip
def test_spec_5_ops(ops: list[Any], expected: Any) -> None:
    base = freeze(BASE)
    assert apply_ops(base, ops) == expected
    assert base == BASE


def test_splice_and_reorder_may_address_the_root() -> None:
    base = freeze([1, 2, 3])
    assert apply_ops(base, [["p", [], 0, 2, ["x"]]]) == ["x", 3]
    assert apply_ops(base, [["m", [], [2, 1, 0]]]) == [3, 2, 1]
    assert base == [1, 2, 3]


def test_spec_5_2_unchanged_parts_are_shared() -> None:
    base = freeze(BASE)
    value = apply_ops(base, [["s", ["items", 1, "id"], 5]])
    assert value["o"] is base["o"] and value["items"][0] is base["items"][0] and value["items"][2] is base["items"][2]
    assert apply_ops(base, []) is base


def test_payloads_are_never_written_to_by_later_ops() -> None:
    payload = freeze({"x": [1]})
    ops = [["s", ["new"], payload], ["s", ["new", "x", 1], 2], ["p", ["new", "x"], 0, 1, []]]
    value = apply_ops(freeze(BASE), ops)
    assert value["new"] == {"x": [2]} and payload == {"x": [1]}
    shared = freeze([[1]])
    value = apply_ops(freeze({}), [["s", ["a"], shared], ["s", ["b"], shared], ["s", ["a", 0, 0], 2]])
    assert value == {"a": [[2]], "b": [[1]]} and shared == [[1]]


@pytest.mark.parametrize(
    "op",
    [
        ["s", [], 1], ["d", []], ["a", [], "x"], ["t", [], 1],
        ["s", ["missing", "x"], 1], ["s", ["items", 4], 1], ["s", ["items", -1], 1], ["s", ["items", "0"], 1],
        ["s", ["items", True], 1], ["s", [0], 1], ["s", ["n", "x"], 1], ["s", ["text", 0], "x"], ["s", "n", 1],
        ["d", ["missing"]], ["d", ["items", 3]],
        ["a", ["n"], "x"], ["a", ["missing"], "x"], ["a", ["text"], 1],
        ["t", ["text"], 5], ["t", ["text"], -1], ["t", ["text"], 1.0], ["t", ["n"], 1],
        ["p", ["items"], 4, 0, []], ["p", ["items"], 2, 2, []], ["p", ["items"], -1, 0, []], ["p", ["o"], 0, 0, []],
        ["p", ["items"], 0, 0, {}], ["p", [], 0, 0, []],
        ["m", ["items"], [0, 1]], ["m", ["items"], [0, 0, 1]], ["m", ["items"], [1, 2, 3]], ["m", ["o"], []],
        ["m", ["items"], [False, True, 2]],
        ["x", ["n"], 1], ["s", ["n"]], ["r"], [], "r", None, ["s", ["n"], float("nan")],
    ],
)  # fmt: skip
def test_ops_that_do_not_fit_raise_and_change_nothing(op: Any) -> None:
    base = freeze(BASE)
    with pytest.raises(OpError, match="op 1"):
        apply_ops(base, [["s", ["n"], 5], op])
    assert base == BASE


def test_a_trim_that_cuts_a_pair_leaves_a_replacement_and_keeps_count() -> None:
    base = freeze({"t": "🙂x🙂"})
    assert apply_ops(base, [["t", ["t"], 1]]) == {"t": "\ufffdx🙂"}
    assert apply_ops(base, [["t", ["t"], 1], ["t", ["t"], 1]]) == {"t": "x🙂"}


def test_surrogates_in_foreign_ops_are_cleaned() -> None:
    value = apply_ops(freeze({"t": ""}), [["a", ["t"], "\ud800"], ["s", ["k\udc00"], "\udc00"]])
    assert value == {"t": "\ufffd", "k\ufffd": "\ufffd"}
    assert apply_ops(value, [["d", ["k\udc00"]]]) == {"t": "\ufffd"}


def test_depth_is_bounded_by_ops_too() -> None:
    value = freeze({})
    path: list[str] = []
    for _ in range(MAX_DEPTH - 1):
        path.append("a")
        value = apply_ops(value, [["s", path, {}]])
    with pytest.raises(OpError, match="nested"):
        apply_ops(value, [["s", [*path, "a"], {}]])
    with pytest.raises(OpError, match="nested"):
        apply_ops(freeze([]), [["p", [], 0, 0, [value]]])
    assert apply_ops(value, [["s", [*path, "a"], 1]]) != value


def test_a_part_moved_up_and_down_for_ever_is_not_taken_for_deep() -> None:
    value = freeze({"a": {}})
    for _ in range(MAX_DEPTH * 2):
        value = apply_ops(value, [["s", ["a"], {"b": value["a"].get("b", {})}], ["r", {"a": value["a"]}]])
        value = apply_ops(value, [["s", ["x"], [value]], ["d", ["x"]]])
    assert value == {"a": {}}


def test_plain_input_is_frozen_and_left_alone() -> None:
    base = thaw(BASE)
    value = apply_ops(base, [["s", ["o", "p", "q", 0], 2]])
    assert base == BASE and value["o"] == {"p": {"q": [2]}}
