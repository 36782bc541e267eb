"""Values off the wire: whatever shape they have, a reader gives the one it is asked for."""

from __future__ import annotations

import json
import math

import pytest

from durable_tui.models.json_text import as_list, as_object, as_objects, as_text, decode, encode, strict

SHAPES = [None, True, 7, 0.5, "text", "", [], ["a", {"b": 1}], {}, {"a": [1]}]


@pytest.mark.parametrize("value", SHAPES)
def test_a_reader_gives_the_value_of_its_shape_and_the_empty_one_for_all_else(value: object) -> None:
    for read, kind in ((as_object, dict), (as_list, list), (as_text, str)):
        assert read(value) == (value if type(value) is kind else kind())
    assert as_objects(value) == ([{"b": 1}] if value == ["a", {"b": 1}] else [])


def test_text_and_bytes_are_decoded_alike_and_hold_no_number_that_is_none() -> None:
    text = '{"a": [NaN, -Infinity, 1e3, "é"]}'
    assert decode(text) == decode(text.encode()) == {"a": [None, None, 1000.0, "é"]}
    for broken in ("", "{", "{} {}", "\ufeff{}"):
        with pytest.raises(ValueError):
            decode(broken)


def test_what_is_encoded_is_strict_json() -> None:
    assert json.loads(encode({"a": math.inf, "b": ["\ud800x"]})) == {"a": None, "b": ["\ufffdx"]}
    assert strict((1, {2: "\udfff"})) == [1, {"2": "\ufffd"}]
    with pytest.raises(TypeError, match="a set is not JSON"):
        strict({"a": {1}})
