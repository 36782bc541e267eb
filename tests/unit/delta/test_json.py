"""JSON text is strict both ways (spec 3.8)."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given

from durable_tui.delta import FrozenDict, JsonError, dumps, freeze, loads, same
from tests.unit.delta.values import json_values


def test_text_is_compact_and_keeps_unicode_and_order() -> None:
    assert dumps({"b": [1, None, True, 0.1], "a": '北🙂\n"'}) == '{"b":[1,null,true,0.1],"a":"北🙂\\n\\""}'
    assert dumps(freeze({"b": [1]})) == '{"b":[1]}'
    assert dumps("x") == '"x"' and dumps(None) == "null"


def test_text_never_holds_a_lone_surrogate() -> None:
    dumps({"k\ud800": "v\udc00"}).encode("utf-8")


@pytest.mark.parametrize("bad", [float("nan"), {"a": float("inf")}, {1: 2}, {"a": b""}, object()])
def test_dumps_is_strict(bad: Any) -> None:
    with pytest.raises(JsonError):
        dumps(bad)


@pytest.mark.parametrize(
    "text",
    ["NaN", "[Infinity]", '{"a":-Infinity}', "1e999", "[-1e999]", "", "{", "[1,]", "{'a':1}", "[1]x", "9" * 5000],
)
def test_loads_refuses(text: str) -> None:
    with pytest.raises(JsonError):
        loads(text)


@pytest.mark.parametrize("levels", [300, 100_000])
def test_loads_refuses_depth_without_a_recursion_error(levels: int) -> None:
    with pytest.raises(JsonError, match="nested"):
        loads("[" * levels + "]" * levels)


def test_loads_refuses_bytes_that_are_not_utf8() -> None:
    with pytest.raises(JsonError):
        loads(b'"\xff"')
    assert loads('["北"]'.encode()) == ["北"]


def test_a_stored_lone_surrogate_can_be_read() -> None:
    assert loads('"a\\ud800b"') == "a\ufffdb"
    assert loads('"\\ud83d\\ude42"') == "🙂"


def test_loads_gives_frozen_values() -> None:
    value = loads('{"a":[{}]}')
    assert type(value) is FrozenDict and type(value["a"][0]) is FrozenDict


@given(json_values)
def test_text_round_trips(value: Any) -> None:
    frozen = freeze(value)
    again = loads(dumps(value))
    assert same(again, frozen)
    assert dumps(again) == dumps(frozen)
