"""What holds for every value and every edit (spec 5: base plus ops gives the exact value, always)."""

from __future__ import annotations

import random
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from durable_tui.delta import (
    DraftDict,
    DraftList,
    DraftRoot,
    FrozenDict,
    FrozenList,
    apply_ops,
    current,
    diff,
    dumps,
    freeze,
    loads,
    same,
    thaw,
    utf16_length,
)
from tests.unit.delta.values import containers, json_values

KEYS = ["a", "b", "c", "text", "items", "🙂"]


def exactly(left: Any, right: Any) -> bool:
    return dumps(left) == dumps(right)


def assert_frozen(value: Any) -> None:
    assert not isinstance(value, (dict, list)) or type(value) in (FrozenDict, FrozenList)
    for item in value.values() if isinstance(value, dict) else value if isinstance(value, list) else ():
        assert_frozen(item)


def text_at(value: Any, path: list[Any]) -> str:
    for key in path:
        value = value[key]
    assert isinstance(value, str)
    return value


def check_ops(base: Any, ops: Any, value: Any) -> None:
    """The ops survive JSON text, lead to the value, and never cut a surrogate pair."""
    assert_frozen(ops)
    assert same(loads(dumps(ops)), ops)
    assert exactly(apply_ops(base, loads(dumps(ops))), value)
    step = base
    for op in ops:
        if op[0] == "t":
            text = text_at(step, op[1])
            assert any(utf16_length(text[:n]) == op[2] for n in range(len(text) + 1)) and op[2] > 0
        after = apply_ops(step, [op])
        # Of items that were equal, one may move before it changes; every other op by itself makes a difference.
        assert op[0] == "m" or not same(after, step), "an op that does nothing"
        step = after


@settings(max_examples=250)
@given(st.one_of(json_values, containers), st.one_of(json_values, containers))
def test_diff_leads_from_any_value_to_any_other(old: Any, new: Any) -> None:
    base, before = freeze(old), dumps(old)
    ops = diff(base, new)
    value = apply_ops(base, ops)
    assert same(value, freeze(new))
    check_ops(base, ops, value)
    assert dumps(base) == before
    assert (ops == []) == same(base, freeze(new))


def places(node: Any) -> list[Any]:
    """Every container of a draft or of plain data, in one order for both."""
    found = [node]
    for item in list(node.values()) if isinstance(node, (dict, DraftDict)) else list(node):
        if isinstance(item, (dict, list, DraftDict, DraftList)):
            found += places(item)
    return found


def edit_dict(node: Any, chance: random.Random, value: Any, inside: Any) -> None:
    key = chance.choice(KEYS)
    present = list(node)
    match chance.randrange(9):
        case 0 | 1:
            node[key] = value
        case 2 if present:
            del node[chance.choice(present)]
        case 3:
            node.pop(key, None)
        case 4:
            node.update({key: value, "a": 1})
        case 5:
            node.setdefault(key, value)
        case 6 if present and chance.random() < 0.2:
            node.clear()
        case 7 if present:
            edit_text(node, chance.choice(present), chance)
        case 8:
            node[key] = thaw(inside) if isinstance(inside, (dict, list)) else inside


def edit_text(node: Any, key: Any, chance: random.Random) -> None:
    if isinstance(node[key], str):
        text = node[key]
        node[key] = text[chance.randrange(len(text) // 2 + 1) :] + chance.choice(["", "b🙂", "abab" * 3])


def edit_list(node: Any, chance: random.Random, value: Any, inside: Any) -> None:
    size = len(node)
    match chance.randrange(14):
        case 0:
            node.append(value)
        case 1:
            node.insert(chance.randint(0, size), value)
        case 2 if size:
            del node[chance.randrange(size)]
        case 3 if size:
            node[chance.randrange(size)] = value
        case 4:
            start = chance.randint(0, size)
            node[start : start + chance.randrange(3)] = [thaw(freeze(value)) for _ in range(chance.randrange(3))]
        case 5:
            node.reverse()
        case 6:
            node.sort(key=dumps, reverse=chance.random() < 0.5)
        case 7 if size:
            node.append(thaw(node.pop(chance.randrange(size))))
        case 8 if size > 1:
            first, second = chance.sample(range(size), 2)
            one, two = thaw(node[first]), thaw(node[second])
            node[first], node[second] = two, one
        case 9:
            node.extend([value, 1])
        case 10 if size:
            edit_text(node, chance.randrange(size), chance)
        case 11 if size:
            del node[:: chance.randint(1, 3)]
        case 12:
            node += [thaw(inside) if isinstance(inside, (dict, list)) else inside]
        case 13 if size:
            order = list(range(size))
            chance.shuffle(order)
            node[:] = [node[index] for index in order]


@settings(max_examples=300)
@given(containers, st.lists(st.tuples(st.integers(0, 2**32), json_values), max_size=8))
def test_a_draft_is_the_same_as_editing_plain_data(start: Any, script: list[tuple[int, Any]]) -> None:
    base = freeze(start)
    before = dumps(base)
    plain = thaw(base)
    root = DraftRoot(base)
    for seed, value in script:
        for target, is_draft in ((plain, False), (root.value, True)):
            chance = random.Random(seed)
            nodes = places(target)
            node, inside = chance.choice(nodes), chance.choice(nodes)
            inside = inside if is_draft else thaw(inside)
            edit = edit_dict if isinstance(node, (dict, DraftDict)) else edit_list
            edit(node, chance, value if is_draft else thaw(freeze(value)), inside)
        assert exactly(current(root), plain)
    value, ops = root.seal()
    assert same(value, freeze(plain))
    check_ops(base, ops, value)
    assert_frozen(value)
    assert dumps(base) == before
    assert (ops == []) == same(base, freeze(plain))
    assert ops or value is base


@settings(max_examples=100)
@given(st.dictionaries(st.sampled_from(KEYS), json_values, min_size=2), st.sampled_from(KEYS), json_values)
def test_parts_an_edit_did_not_touch_are_the_identical_objects(start: Any, key: str, new: Any) -> None:
    base = freeze(start)
    root = DraftRoot(base)
    root.value[key] = new
    value, ops = root.seal()
    if any(op[0] == "r" for op in ops):
        return
    for other in base:
        assert other == key or value[other] is base[other]


@settings(max_examples=100)
@given(st.lists(json_values, min_size=1, max_size=8), st.data())
def test_items_beside_a_splice_are_the_identical_objects(start: Any, data: st.DataObject) -> None:
    base = freeze({"l": [[item] for item in start], "k": 1})
    index = data.draw(st.integers(0, len(start) - 1))
    root = DraftRoot(base)
    del root.value["l"][index]
    value, _ops = root.seal()
    rest = [*base["l"][:index], *base["l"][index + 1 :]]
    assert exactly(value["l"], rest)
    equal_runs = [item for item in rest if any(item is kept for kept in value["l"])]
    assert len(equal_runs) >= len(rest) - sum(exactly(item, base["l"][index]) for item in rest)
