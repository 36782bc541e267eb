"""Drafts: ordinary editing, the smallest natural ops (spec 3.7, 3.8, 5.1, 5.2)."""

from __future__ import annotations

import copy
import pickle
from typing import Any

import pytest

from durable_tui.delta import (
    MAX_DEPTH,
    DraftClosed,
    DraftDict,
    DraftList,
    DraftRoot,
    FrozenDict,
    JsonError,
    apply_ops,
    current,
    dumps,
    freeze,
    loads,
    thaw,
)

BASE: dict[str, Any] = {
    "text": "hello",
    "n": 1,
    "items": [{"id": 0}, {"id": 1}, {"id": 2}, {"id": 3}],
    "o": {"p": {"q": [1, 2]}},
    "empty": [],
}


def edit(change: Any, base: Any = BASE) -> tuple[Any, list[Any]]:
    """Run a change on a draft's value; the sealed value and its ops, checked against each other."""
    frozen = freeze(base)
    before = thaw(frozen)
    root = DraftRoot(frozen)
    change(root.value)
    expected = current(root)
    value, ops = root.seal()
    assert value == expected
    assert apply_ops(frozen, loads(dumps(ops))) == value
    assert frozen == before
    return value, ops


def put(*path: Any, value: Any) -> Any:
    def change(draft: Any) -> None:
        for key in path[:-1]:
            draft = draft[key]
        draft[path[-1]] = value

    return change


# --- ops -------------------------------------------------------------------------------------------------------------


def test_untouched_and_read_drafts_give_no_ops_and_the_base_itself() -> None:
    base = freeze(BASE)
    root = DraftRoot(base)
    assert [item["id"] for item in root.value["items"]] == [0, 1, 2, 3]
    assert root.value["o"]["p"]["q"][0] == 1
    value, ops = root.seal()
    assert ops == [] and value is base


def test_equal_writes_give_no_ops() -> None:
    base = freeze(BASE)
    root = DraftRoot(base)
    root.value["n"] = 1
    root.value["text"] = "".join(["hel", "lo"])
    root.value["items"] = thaw(base["items"])
    root.value["o"]["p"] = {"q": [1, 2]}
    root.value["items"].append(5)
    root.value["items"].pop()
    del root.value["empty"]
    root.value["empty"] = []
    value, ops = root.seal()
    assert ops == [] and value is base


def test_an_equal_root_gives_no_ops() -> None:
    base = freeze(BASE)
    root = DraftRoot(base)
    root.value = thaw(base)
    assert root.seal() == (base, [])


def test_scalars_and_keys() -> None:
    assert edit(put("n", value=2))[1] == [["s", ["n"], 2]]
    assert edit(put("n", value=True))[1] == [["s", ["n"], True]]
    assert edit(put("n", value=1.0))[1] == [["s", ["n"], 1.0]]
    assert edit(put("new", value={"a": [1]}))[1] == [["s", ["new"], {"a": [1]}]]
    assert edit(lambda d: d.pop("n"))[1] == [["d", ["n"]]]
    assert edit(put("o", "p", "q", 1, value=3))[1] == [["s", ["o", "p", "q", 1], 3]]
    assert edit(put("o", value=5))[1] == [["s", ["o"], 5]]


def test_growing_text_is_one_append() -> None:
    def change(draft: Any) -> None:
        draft["text"] += " wor"
        draft["text"] += "ld🙂"

    assert edit(change) == ({**BASE, "text": "hello world🙂"}, [["a", ["text"], " world🙂"]])
    assert edit(put("text", value="x"))[1] == [["s", ["text"], "x"]]
    assert edit(put("t", value="x"), {"t": "", "u": 1})[1] == [["a", ["t"], "x"]]


def test_a_sliding_window_is_a_trim_and_an_append() -> None:
    text = "".join(f"line {number} 🙂\n" for number in range(50))
    cut = text.index("line 3 ")

    def change(draft: Any) -> None:
        draft["out"] = draft["out"][cut:] + "more"

    assert edit(change, {"out": text})[1] == [["t", ["out"], cut + 3], ["a", ["out"], "more"]]
    assert edit(put("out", value=text[cut:]), {"out": text})[1] == [["t", ["out"], cut + 3]]
    assert edit(put("t", value="lo you"), {"t": "hello", "u": 1})[1] == [["s", ["t"], "lo you"]]


def test_list_edits_are_one_splice() -> None:
    assert edit(lambda d: d["items"].append({"id": 9}))[1] == [["p", ["items"], 4, 0, [{"id": 9}]]]
    assert edit(lambda d: d["items"].extend([1, 2]))[1] == [["p", ["items"], 4, 0, [1, 2]]]
    assert edit(lambda d: d["items"].insert(1, 7))[1] == [["p", ["items"], 1, 0, [7]]]
    assert edit(lambda d: d["items"].pop(1))[1] == [["p", ["items"], 1, 1, []]]
    assert edit(lambda d: d["items"].__delitem__(slice(1, 3)))[1] == [["p", ["items"], 1, 2, []]]
    assert edit(lambda d: d["items"].__setitem__(slice(1, 3), [7]))[1] == [["p", ["items"], 1, 2, [7]]]
    assert edit(lambda d: d["items"].clear())[1] == [["p", ["items"], 0, 4, []]]
    assert edit(lambda d: d["empty"].extend([1, 2]))[1] == [["p", ["empty"], 0, 0, [1, 2]]]
    assert edit(lambda d: d.append(3), [1, 2])[1] == [["p", [], 2, 0, [3]]]
    assert edit(put("items", 2, value=5))[1] == [["s", ["items", 2], 5]]


def test_a_list_assigned_anew_is_still_one_splice() -> None:
    def change(draft: Any) -> None:
        draft["items"] = [item for item in current(draft["items"]) if item["id"] != 1]

    assert edit(change)[1] == [["p", ["items"], 1, 1, []]]


def test_nested_changes_follow_the_splice_at_the_new_index() -> None:
    def change(draft: Any) -> None:
        last = draft["items"][3]
        del draft["items"][0]
        draft["items"].insert(0, 8)
        draft["items"].insert(0, 9)
        last["more"] = "x"
        last["other"] = 30

    assert edit(change)[1] == [
        ["p", ["items"], 0, 1, [9, 8]],
        ["s", ["items", 4, "more"], "x"],
        ["s", ["items", 4, "other"], 30],
    ]


def test_items_between_two_removals_are_kept() -> None:
    def change(draft: Any) -> None:
        del draft["items"][3]
        del draft["items"][0]
        draft["items"][1]["id"] = 22

    assert edit(change)[1] == [
        ["p", ["items"], 0, 1, []],
        ["p", ["items"], 2, 1, []],
        ["s", ["items", 1, "id"], 22],
    ]


def test_an_item_replaced_by_a_changed_copy_is_a_nested_op() -> None:
    base = {"items": [{"id": 0, "content": "x" * 50}, {"id": 1, "content": "y" * 50}]}

    def change(draft: Any) -> None:
        draft["items"][1] = {**draft["items"][1], "id": 5}

    assert edit(change, base)[1] == [["s", ["items", 1, "id"], 5]]


def test_a_pure_reorder_is_a_permutation() -> None:
    def swap(draft: Any) -> None:
        items = draft["items"]
        items[0], items[2] = items[2], items[0]

    assert edit(swap)[1] == [["m", ["items"], [2, 1, 0, 3]]]
    assert edit(lambda d: d["items"].reverse())[1] == [["m", ["items"], [3, 2, 1, 0]]]
    assert edit(lambda d: d["items"].sort(key=lambda item: -item["id"]))[1] == [["m", ["items"], [3, 2, 1, 0]]]
    assert edit(lambda d: d["items"].insert(0, d["items"].pop(2)))[1] == [["m", ["items"], [2, 0, 1, 3]]]
    assert edit(lambda d: d.sort(), [3, 1, 2, 1])[1] == [["m", [], [1, 3, 2, 0]]]


def test_a_reorder_with_changes_inside() -> None:
    def change(draft: Any) -> None:
        items = draft["items"]
        items[3]["x"] = 1
        items[:] = [items[3], items[0], items[2], items[1]]

    assert edit(change)[1] == [["m", ["items"], [3, 0, 2, 1]], ["s", ["items", 0, "x"], 1]]


def test_a_swap_in_a_long_list_does_not_list_every_index() -> None:
    def swap(draft: Any) -> None:
        draft[10], draft[11] = draft[11], draft[10]

    ops = edit(swap, list(range(5000)))[1]
    assert len(dumps(ops)) < 100


def test_root_replacement() -> None:
    def run(base: Any, new: Any) -> list[Any]:
        root = DraftRoot(base)
        root.value = new
        value, ops = root.seal()
        assert value == new and apply_ops(base, ops) == new
        return ops

    assert run({"a": 1}, [1]) == [["r", [1]]]
    assert run(None, {"a": 1}) == [["r", {"a": 1}]]
    assert run({"a": 1, "b": 2}, {"c": 3, "d": 4}) == [["r", {"c": 3, "d": 4}]]
    assert run({"a": 1, "b": 2}, {"a": 1, "b": 3}) == [["s", ["b"], 3]]
    assert run("text", "text and more") == [["r", "text and more"]]
    assert run([1, 2], [1, 2, 3]) == [["p", [], 2, 0, [3]]]
    assert run([1, 2], [3, 4, 5]) == [["r", [3, 4, 5]]]


def test_a_value_to_be_set() -> None:
    root = DraftRoot(None)
    assert root.value is None
    root.value = {"a": {}}
    root.value["a"]["b"] = 1
    assert root.seal() == ({"a": {"b": 1}}, [["r", {"a": {"b": 1}}]])
    assert DraftRoot(None).seal() == (None, [])


def test_spec_5_2_unchanged_parts_are_shared() -> None:
    base = freeze(BASE)
    root = DraftRoot(base)
    root.value["items"][1]["id"] = 5
    root.value["text"] += "!"
    value, _ops = root.seal()
    assert value["o"] is base["o"] and value["items"][0] is base["items"][0] and value["items"][3] is base["items"][3]
    assert value["items"][1] is not base["items"][1]


def test_replay_gives_the_same_order_of_keys() -> None:
    base = freeze({"a": 1, "b": 2, "c": 3})
    root = DraftRoot(base)
    del root.value["a"]
    root.value["a"] = 5
    value, ops = root.seal()
    assert dumps(value) == dumps(apply_ops(base, ops))


# --- behaving like data ----------------------------------------------------------------------------------------------


def test_spec_3_8_values_are_copied_at_the_assignment() -> None:
    item = {"deep": [1]}
    root = DraftRoot(freeze(BASE))
    root.value["x"] = item
    root.value["items"].append(item)
    item["deep"].append(2)
    value, _ops = root.seal()
    assert value["x"] == {"deep": [1]} and value["items"][4] == {"deep": [1]}
    assert type(value["x"]) is FrozenDict


@pytest.mark.parametrize(
    ("change", "path"),
    [
        (lambda d: d.__setitem__("x", {"y": float("nan")}), ["x", "y"]),
        (lambda d: d.update(x=[object()]), ["x", 0]),
        (lambda d: d["items"].append({"y": b""}), [4, "y"]),
        (lambda d: d["items"].__setitem__(1, {"y": b""}), [1, "y"]),
        (lambda d: d["items"].__setitem__(slice(1, 2), [1, {2}]), [2]),
        (lambda d: d["items"].__setitem__(slice(None, None, 2), [1, {2}]), None),
        (lambda d: d.__setitem__(3, 1), []),
        (lambda d: d.setdefault("x", {1: 2}), None),
    ],
)
def test_spec_3_8_a_violation_raises_at_the_assignment(change: Any, path: Any) -> None:
    base = freeze(BASE)
    root = DraftRoot(base)
    with pytest.raises(JsonError) as caught:
        change(root.value)
    assert path is None or caught.value.path == path
    assert root.seal() == (base, [])


def test_a_root_that_is_not_json_is_refused() -> None:
    root = DraftRoot(freeze(BASE))
    with pytest.raises(JsonError):
        root.value = {"a": {1, 2}}
    assert current(root) == BASE


def test_lone_surrogates_are_replaced_also_when_text_grows() -> None:
    root = DraftRoot(freeze({"t": "é", "u": "é\ufffd"}))
    root.value["t"] += "\ud800"
    root.value["u"] += "\ud83d\ude42"
    root.value["k\udc00"] = ["\udc00"]
    assert root.value["k\udc00"] == root.value["k\ufffd"] and "k\udc00" in root.value
    assert root.seal()[0] == {"t": "é\ufffd", "u": "é\ufffd🙂", "k\ufffd": ["\ufffd"]}


def test_depth_is_bounded_in_drafts() -> None:
    root = DraftRoot(freeze({}))
    node = root.value
    for _ in range(MAX_DEPTH - 1):
        node["a"] = {}
        node = node["a"]
    with pytest.raises(JsonError, match="nested"):
        node["a"] = {}
    node["a"] = 1
    value, ops = root.seal()
    assert len(ops) == 1 and loads(dumps(ops)) == ops
    again = DraftRoot(value)
    node = again.value
    for _ in range(MAX_DEPTH - 1):
        node = node["a"]
    node["a"] = 2
    assert again.seal()[1] == [["s", ["a"] * MAX_DEPTH, 2]]
    outer = DraftRoot(freeze([]))
    with pytest.raises(JsonError, match="nested"):
        outer.value.append(value)


def test_nested_drafts_are_the_same_object_while_they_stay() -> None:
    root = DraftRoot(freeze(BASE))
    draft = root.value
    assert root.value is draft and draft["o"] is draft["o"] and draft["items"][1] is draft["items"][-3]
    second = draft["items"][1]
    draft["items"].insert(0, {"id": -1})
    assert draft["items"][2] is second
    draft["items"].reverse()
    assert draft["items"][2] is second
    assert isinstance(draft, DraftDict) and isinstance(draft["items"], DraftList)


def test_a_draft_assigned_elsewhere_is_copied() -> None:
    def change(draft: Any) -> None:
        draft["o"]["p"]["x"] = 1
        draft["copy"] = draft["o"]
        draft["o"]["p"]["x"] = 2
        draft["copy"]["y"] = 3

    value, _ops = edit(change)
    assert value["copy"] == {"p": {"q": [1, 2], "x": 1}, "y": 3}
    assert value["o"] == {"p": {"q": [1, 2], "x": 2}}


def test_a_draft_of_another_root_is_copied() -> None:
    first, second = DraftRoot(freeze(BASE)), DraftRoot(freeze({}))
    second.value["o"] = first.value["o"]
    first.value["o"]["p"] = 1
    assert second.seal()[0] == {"o": BASE["o"]}


def test_assigning_a_draft_where_it_is_changes_nothing() -> None:
    def change(draft: Any) -> None:
        draft["o"] |= {"z": 1}
        draft["items"] += [5]
        draft["items"][0] |= {"y": 2}

    assert edit(change)[1] == [
        ["s", ["o", "z"], 1],
        ["p", ["items"], 4, 0, [5]],
        ["s", ["items", 0, "y"], 2],
    ]
    root = DraftRoot(freeze({"a": 1}))
    root.value |= {"b": 2}
    assert root.seal()[1] == [["s", ["b"], 2]]


def test_removed_parts_come_back_frozen_and_old_drafts_of_them_refuse_writes() -> None:
    root = DraftRoot(freeze(BASE))
    draft = root.value
    p, o, item = draft["o"]["p"], draft["o"], draft["items"][0]
    p["q"].append(3)
    popped = draft.pop("o")
    assert popped == {"p": {"q": [1, 2, 3]}} and type(popped) is FrozenDict
    assert draft["items"].pop(0) == {"id": 0}
    assert p["q"] == [1, 2, 3]
    for write in (
        lambda: o.update(x=1),
        lambda: p["q"].append(4),
        p.clear,
        lambda: item.__setitem__("id", 5),
    ):
        with pytest.raises(DraftClosed, match="no longer"):
            write()
    held = draft["items"]
    root.value = {"items": []}
    with pytest.raises(DraftClosed):
        held.append(1)
    with pytest.raises(DraftClosed):
        draft["x"] = 1


@pytest.mark.parametrize("ending", ["seal", "close"])
def test_spec_3_7_after_the_end_every_access_raises(ending: str) -> None:
    root = DraftRoot(freeze(BASE))
    draft, items = root.value, root.value["items"]
    iterator = iter(items)
    getattr(root, ending)()
    assert root.closed
    for use in (
        lambda: root.value, root.seal, lambda: setattr(root, "value", 1), lambda: current(root),
        lambda: draft["n"], lambda: draft.get("n"), lambda: len(draft), lambda: "n" in draft, lambda: list(draft),
        lambda: draft == {}, lambda: draft.update(x=1), lambda: draft.pop("n"), draft.clear,
        lambda: draft.setdefault("n", 1), lambda: current(draft), lambda: freeze([draft]), lambda: thaw(draft),
        lambda: dict(draft.items()), lambda: copy.copy(draft), lambda: reversed(draft), draft.popitem,
        lambda: items[0], lambda: items[:], lambda: len(items), lambda: 1 in items, lambda: list(items),
        lambda: next(iterator), lambda: items.append(1), items.sort, items.reverse,
        lambda: items.index(1), lambda: items.count(1), items.pop, lambda: items.__setitem__(0, 1),
        lambda: items.__delitem__(0), items.clear, lambda: bool(items),
    ):  # fmt: skip
        with pytest.raises(DraftClosed):
            use()
    assert isinstance(DraftClosed(), RuntimeError)
    assert "closed" in repr(draft) and "closed" in repr(items) and "closed" in repr(root)
    root.close()


def test_dict_protocol() -> None:
    draft = DraftRoot(freeze(BASE)).value
    assert draft == BASE and draft == BASE and draft != {} and len(draft) == 5 and list(draft) == list(BASE)
    assert "n" in draft and "nope" not in draft and 3 not in draft
    assert draft.get("nope") is None and draft.get("nope", 3) == 3 and draft["n"] == 1
    assert dict(draft) == BASE and list(reversed(draft)) == list(reversed(BASE))
    assert repr(draft) == repr(BASE) and str(draft["items"]) == str(BASE["items"])
    assert dict(draft.items()) == BASE and list(draft.values()) == list(BASE.values())
    with pytest.raises(KeyError):
        draft["nope"]
    with pytest.raises(KeyError):
        del draft["nope"]
    with pytest.raises(KeyError):
        draft.pop("nope")
    assert draft.pop("nope", 7) == 7
    draft.setdefault("list", []).append(1)
    assert draft["list"] == [1] and draft.setdefault("n", 9) == 1
    assert draft.popitem() == ("list", [1])
    draft.update({"a": 1}, b=2)
    assert draft["a"] == 1 and draft["b"] == 2
    draft.clear()
    assert not draft and draft == {}
    with pytest.raises(KeyError):
        draft.popitem()
    with pytest.raises(TypeError):
        hash(draft)


def test_list_protocol() -> None:
    plain: list[Any] = [3, 1, {"a": 1}, 2, [5]]
    draft = DraftRoot(freeze(plain)).value
    assert draft == plain and plain == draft and draft != [] and len(draft) == 5
    assert [thaw(item) for item in draft] == plain and draft[-1] == [5] and draft[1:3] == [1, {"a": 1}]
    assert 1 in draft and {"a": 1} in draft and draft[2] in draft and 9 not in draft
    assert draft.index(2) == 3 and draft.index({"a": 1}) == 2 and draft.count(1) == 1
    for use in (lambda: draft[5], lambda: draft.__setitem__(5, 1), lambda: draft.pop(9), lambda: draft.__delitem__(-6)):
        with pytest.raises(IndexError):
            use()
    for wrong in (
        lambda: draft.remove(9),
        lambda: draft.index(9),
        lambda: draft.__setitem__(slice(None, None, 2), [1]),
    ):
        with pytest.raises(ValueError):
            wrong()
    for target in (plain, draft):
        target.insert(-1, "i")
        target.insert(-99, "first")
        target.insert(99, "last")
        target.remove(1)
        target[::2] = ["x", "y", "z", "w"]
        del target[1::3]
        target[-1] = {"end": True}
        target += ["p", "q"]
        target[1:1] = [7, 8]
        target[3:1] = [6]
        del target[-2:]
        target.extend(list(target))
        target.pop()
    assert thaw(draft) == plain
    draft.extend(draft)
    plain.extend(plain)
    assert thaw(draft) == plain
    draft[0] = draft[0]
    draft.clear()
    assert draft == [] and not draft
    with pytest.raises(IndexError):
        draft.pop()


def test_copies_of_drafts_are_snapshots() -> None:
    root = DraftRoot(freeze(BASE))
    draft = root.value
    snapshot, copied, deep = current(draft), copy.copy(draft["o"]), copy.deepcopy(draft["o"])
    assert current(root) is snapshot
    draft["o"]["p"]["q"].append(3)
    assert snapshot == BASE and copied == deep == BASE["o"]
    assert current(draft)["o"]["p"]["q"] == [1, 2, 3]
    with pytest.raises(TypeError):
        pickle.dumps(draft)
    with pytest.raises(TypeError):
        DraftDict()
    with pytest.raises(TypeError):
        DraftList()
    assert current([1]) == [1]


def test_ops_and_values_are_frozen() -> None:
    root = DraftRoot(freeze(BASE))
    root.value["x"] = {"a": [1]}
    value, ops = root.seal()
    assert ops[0][2] is value["x"]
    for write in (lambda: ops.append(1), lambda: ops[0].append(1), lambda: ops[0][1].append(1), value.clear):
        with pytest.raises(TypeError):
            write()
