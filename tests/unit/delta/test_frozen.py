"""Frozen values: strict JSON, copied, never changed (spec 3.8, 5.2)."""

from __future__ import annotations

import copy
import enum
import json
import pickle
from collections import OrderedDict, namedtuple
from typing import Any

import pytest

from durable_tui.delta import (
    MAX_DEPTH,
    FrozenDict,
    FrozenList,
    JsonError,
    clean_text,
    freeze,
    same,
    thaw,
    utf16_length,
)

BASE: dict[str, Any] = {"a": [1, 2.5, None, True, {"b": "ü🙂"}], "c": {}, "d": []}


def nested(levels: int) -> Any:
    value: Any = 0
    for _ in range(levels):
        value = [value]
    return value


def test_freeze_copies_deeply_and_equals_its_source() -> None:
    source = copy.deepcopy(BASE)
    value = freeze(source)
    source["a"][4]["b"] = "changed"
    source["c"]["x"] = 1
    assert value == BASE
    assert isinstance(value, dict) and isinstance(value["a"], list)
    assert type(value) is FrozenDict and type(value["a"]) is FrozenList and type(value["a"][4]) is FrozenDict
    assert json.dumps(value) == json.dumps(BASE)


def test_frozen_values_are_returned_as_they_are() -> None:
    value = freeze(BASE)
    assert freeze(value) is value
    assert freeze({"x": value})["x"] is value
    assert freeze([value["a"]])[0] is value["a"]


@pytest.mark.parametrize(
    "change",
    [
        lambda d: d.__setitem__("x", 1),
        lambda d: d.__delitem__("a"),
        lambda d: d.clear(),
        lambda d: d.pop("a"),
        lambda d: d.pop("none", None),
        lambda d: d.popitem(),
        lambda d: d.setdefault("x", 1),
        lambda d: d.setdefault("a", 1),
        lambda d: d.update({"x": 1}),
        lambda d: d.update(x=1),
        lambda d: d.__ior__({"x": 1}),
        lambda d: d["a"].__setitem__(0, 1),
        lambda d: d["a"].__setitem__(slice(0, 1), []),
        lambda d: d["a"].__delitem__(0),
        lambda d: d["a"].append(1),
        lambda d: d["a"].extend([1]),
        lambda d: d["a"].insert(0, 1),
        lambda d: d["a"].pop(),
        lambda d: d["a"].remove(1),
        lambda d: d["a"].clear(),
        lambda d: d["a"].reverse(),
        lambda d: d["a"].sort(),
        lambda d: d["a"].__iadd__([1]),
        lambda d: d["a"].__imul__(2),
    ],
)
def test_every_mutator_raises(change: Any) -> None:
    value = freeze(BASE)
    with pytest.raises(TypeError):
        change(value)
    assert value == BASE


def test_running_init_again_changes_nothing() -> None:
    value = freeze(BASE)
    value.__init__({"x": 1})  # type: ignore[misc]
    value["a"].__init__([1])
    assert value == BASE


def test_direct_construction_is_checked_too() -> None:
    assert type(FrozenDict({"a": [1]})["a"]) is FrozenList
    assert type(FrozenList(({"a": 1},))[0]) is FrozenDict
    with pytest.raises(JsonError):
        FrozenDict({"a": object()})
    with pytest.raises(JsonError):
        FrozenList([float("nan")])


def test_copies_pickles_and_thawing() -> None:
    value = freeze(BASE)
    assert copy.copy(value) is value and copy.deepcopy(value) is value
    for protocol in range(pickle.HIGHEST_PROTOCOL + 1):
        again = pickle.loads(pickle.dumps(value, protocol))
        assert again == value and type(again) is FrozenDict and type(again["a"]) is FrozenList
    plain = thaw(value)
    assert plain == BASE and type(plain) is dict and type(plain["a"]) is list and type(plain["a"][4]) is dict
    plain["a"].append(1)
    plain["a"][4]["b"] = 2
    assert value == BASE
    assert type(value.copy()) is dict and type(value["a"].copy()) is list
    assert thaw(3) == 3


def test_subclasses_lose_their_class() -> None:
    class Colour(enum.IntEnum):
        RED = 3

    class Word(str):
        pass

    class Name(enum.Enum):
        ONE = 1

    class Ratio(float):
        pass

    Point = namedtuple("Point", "x y")
    value = freeze([Colour.RED, Word("w"), Ratio(0.5), Point(1, 2), OrderedDict(k=Word("v")), (1, (2,))])
    assert value == [3, "w", 0.5, [1, 2], {"k": "v"}, [1, [2]]]
    assert [type(item) for item in value] == [int, str, float, FrozenList, FrozenDict, FrozenList]
    assert type(value[4]["k"]) is str
    (key,) = freeze({Word("k"): 1})
    assert type(key) is str
    with pytest.raises(JsonError, match="Name"):
        freeze({"a": Name.ONE})


@pytest.mark.parametrize(
    "bad",
    [float("nan"), float("inf"), -float("inf"), b"x", {1, 2}, object(), 1j, iter([]), 10**4300, -(10**4300)],
    ids=lambda bad: type(bad).__name__,
)
def test_spec_3_8_not_json_raises_and_names_the_path(bad: Any) -> None:
    with pytest.raises(JsonError) as caught:
        freeze(bad)
    assert caught.value.path == []
    with pytest.raises(ValueError) as inner:
        freeze({"a": [0, {"b": bad}]})
    assert isinstance(inner.value, JsonError)
    assert inner.value.path == ["a", 1, "b"]
    assert "a/1/b" in str(inner.value)


@pytest.mark.parametrize("key", [1, None, True, 2.5, ("a",)])
def test_spec_3_8_keys_must_be_text(key: Any) -> None:
    with pytest.raises(JsonError, match="key"):
        freeze({"a": {key: 1}})


def test_the_longest_integer_survives_json_text() -> None:
    largest = 10**4300 - 1
    assert json.loads(json.dumps(freeze([largest]))) == [largest]


def test_depth_is_bounded_by_an_error_of_ours() -> None:
    assert freeze(nested(MAX_DEPTH)) == nested(MAX_DEPTH)
    with pytest.raises(JsonError, match="nested"):
        freeze(nested(MAX_DEPTH + 1))
    with pytest.raises(JsonError, match="nested"):
        freeze(nested(100_000))
    loop: list[Any] = []
    loop.append(loop)
    with pytest.raises(JsonError, match="nested"):
        freeze(loop)


def test_depth_is_bounded_when_built_from_frozen_parts() -> None:
    value = freeze([])
    for _ in range(MAX_DEPTH - 1):
        value = freeze({"a": value})
    with pytest.raises(JsonError, match="nested"):
        freeze([value])
    assert freeze([1, value["a"]])[1] is value["a"]


def test_spec_3_8_lone_surrogates_are_replaced() -> None:
    assert clean_text("a\ud800b") == "a\ufffdb"
    assert clean_text("\udc00\ud800") == "\ufffd\ufffd"
    assert clean_text("x\ud83d\ude42y") == "x🙂y"
    assert clean_text("\ud83d\ud83d\ude42\ude42") == "\ufffd🙂\ufffd"
    assert freeze({"k\ud800": ["v\udfff"]}) == {"k\ufffd": ["v\ufffd"]}
    for ordinary in ("", "plain", "é", "北京🙂"):
        assert clean_text(ordinary) is ordinary


def test_utf16_length_counts_units() -> None:
    assert [utf16_length(text) for text in ("", "abc", "é北", "🙂", "a🙂b", "\ud800")] == [0, 3, 2, 2, 4, 1]


def test_same_is_stricter_than_python_equality() -> None:
    assert not same(1, True) and not same(1, 1.0) and not same(0.0, -0.0) and not same(None, False)
    assert same(freeze({"a": [1], "b": 2}), freeze({"b": 2, "a": [1]}))
    assert not same(freeze({"a": [1]}), freeze({"a": [True]}))
    assert not same(freeze([1]), freeze([1, 1]))
