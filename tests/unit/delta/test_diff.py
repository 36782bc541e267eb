"""Differences between values (spec 5.1)."""

from __future__ import annotations

from typing import Any

import pytest

from durable_tui.delta import apply_ops, diff, dumps, freeze, utf16_length
from durable_tui.delta.utf16 import overlap


def check(old: Any, new: Any) -> list[Any]:
    ops = diff(old, new)
    assert dumps(apply_ops(freeze(old), ops)) == dumps(new)
    return ops


@pytest.mark.parametrize(
    ("old", "new", "ops"),
    [
        ({"a": 1}, {"a": 1}, []),
        ({"a": 1}, {"a": 2}, [["s", ["a"], 2]]),
        ({"a": 1}, {"a": None}, [["s", ["a"], None]]),
        ({"a": 0.0}, {"a": -0.0}, [["s", ["a"], -0.0]]),
        ({}, {"a": 1, "b": 2}, [["s", ["a"], 1], ["s", ["b"], 2]]),
        ({"a": 1, "b": 2}, {}, [["r", {}]]),
        ({"a": 1, "b": 2}, {"b": 2}, [["d", ["a"]]]),
        (1, 2, [["r", 2]]),
        ("a", "ab", [["r", "ab"]]),
        ({"o": {"a": 1, "b": 2}, "k": 0}, {"o": {"a": 3, "b": 4}, "k": 0}, [["s", ["o"], {"a": 3, "b": 4}]]),
        ({"l": [1, 2, 3]}, {"l": [1, 3]}, [["p", ["l"], 1, 1, []]]),
        ({"l": [1, 2, 3, 4]}, {"l": [1, 8, 9, 4]}, [["p", ["l"], 1, 2, [8, 9]]]),
        ({"l": [1, 2, 3]}, {"l": [1, 9, 3]}, [["s", ["l", 1], 9]]),
        ({"l": [1, 2, 3]}, {"l": [3, 2, 1]}, [["m", ["l"], [2, 1, 0]]]),
        ({"l": [1, 1.0, True]}, {"l": [True, 1, 1.0]}, [["m", ["l"], [2, 0, 1]]]),
        ({"l": [[1], [2], [3]]}, {"l": [[3], [1], [2]]}, [["m", ["l"], [2, 0, 1]]]),
        ({"l": [1, 2]}, {"l": []}, [["p", ["l"], 0, 2, []]]),
        ({"l": [1, 2], "k": 0}, {"l": [3, 4, 5], "k": 0}, [["s", ["l"], [3, 4, 5]]]),
        ([1, 2, 3, 4, 5], [0, 2, 4, 5], [["s", [0], 0], ["p", [], 2, 1, []]]),
    ],
)
def test_smallest_ops(old: Any, new: Any, ops: list[Any]) -> None:
    assert check(old, new) == ops


def test_equal_parts_are_found_in_unrelated_objects() -> None:
    old = {"items": [{"id": n, "content": "x" * 40} for n in range(8)]}
    new = {"items": [{"id": n, "content": "x" * 40} for n in (0, 1, 7, 3, 4, 6)]}
    ops = check(old, new)
    assert {op[0] for op in ops} <= {"p", "s"} and len(dumps(ops)) < len(dumps(new)) / 2


def test_spec_5_a_trim_never_splits_a_pair() -> None:
    text = "🙂é" * 40
    for cut in range(20):
        for op in check({"t": text}, {"t": text[cut:] + "!"}):
            if op[0] == "t":
                head = text[: next(n for n in range(len(text)) if utf16_length(text[:n]) == op[2])]
                assert utf16_length(head) == op[2]


def test_overlap_is_the_longest() -> None:
    def slow(old: str, new: str) -> int:
        return next((n for n in range(min(len(old), len(new)), 0, -1) if new.startswith(old[-n:])), 0)

    for old, new in [
        ("abcabc", "abcabd"), ("aaaa", "aaab"), ("xaba", "abab"), ("", "a"), ("a", ""), ("abc", "abc"), ("zz", "yy"),
    ]:  # fmt: skip
        assert overlap(old, new, 1) == slow(old, new)
    # So repetitive that plain search gives up and the linear search decides.
    for old, new in [
        ("." * 900 + "x" + "." * 700, "." * 1200),
        ("." * 900 + "x" + "." * 700, "." * 400),
        ("ab" * 900 + "a", "ab" * 300 + "c"),
        ("ab" * 900 + "x" + "ab" * 400, "ab" * 401),
    ]:
        assert overlap(old, new, 4) == (slow(old, new) if slow(old, new) >= 4 else 0)


def test_a_short_overlap_is_not_worth_a_trim() -> None:
    assert check({"text": "abcdef"}, {"text": "defxyz"}) == [["s", ["text"], "defxyz"]]


def test_far_down_parts_are_sent_whole() -> None:
    old: Any = [1, 2, 3]
    new: Any = [1, 2, 4]
    for _ in range(180):
        old, new = [0, old, 1], [0, new, 1]
    assert check(old, new)
