"""The seven JSON ops and their application to frozen values (spec 5).

    ["r", value]                          replace all
    ["s", path, value]                    set a key, or a list's index; the list's length as index appends
    ["d", path]                           delete a key, or an item of a list, which closes up
    ["a", path, text]                     append to a string
    ["t", path, n]                        drop n UTF-16 units from a string's front
    ["p", path, index, removed, items]    splice a list
    ["m", path, permutation]              reorder a list: new[i] = old[permutation[i]]

A path is a list of keys and indices; only `r`, `p` and `m` may address the root.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, TypeAlias, TypeGuard, TypeVar, cast

from durable_tui.delta.frozen import (
    MAX_DEPTH,
    Frozen,
    FrozenDict,
    FrozenList,
    JsonError,
    check_depth,
    clean_text,
    depth_bound,
    freeze,
    freeze_within,
    trusted_dict,
    trusted_list,
)

T = TypeVar("T")
Path: TypeAlias = tuple[str | int, ...]
"""Where a part is: keys and indices from the root."""
Op: TypeAlias = Sequence[Any]
"""One op as stored: its letter, then its arguments, of which each letter has others."""

_dict_set = dict.__setitem__
_dict_delete = dict.__delitem__
_list_set = list.__setitem__
_list_delete = list.__delitem__
_list_append = list.append


class OpError(ValueError):
    """An op that is malformed or does not fit the value it was applied to."""


def op(name: str, path: Path, *rest: Frozen) -> FrozenList:
    """A frozen op with a path; `rest` must be frozen already."""
    items = [name, trusted_list(path, 1), *rest]
    return trusted_list(items, 2 + max(depth_bound(item) for item in rest) if rest else 2)


def set_op(path: Path, value: Frozen) -> FrozenList:
    """`s`, or `r` at the root."""
    return op("s", path, value) if path else trusted_list(["r", value], 1 + depth_bound(value))


def apply_ops(value: T, ops: Iterable[Op]) -> T:
    """The frozen value that `ops`, in order, make of `value`; OpError when one does not fit.

    The input is never touched and every part that no op reaches is shared by identity. A `t` that would cut a surrogate
    pair (we write none) leaves U+FFFD for the half that stays, so later counts still fit.
    """
    state = _State(freeze_within(value, MAX_DEPTH))
    for number, item in enumerate(ops):
        try:
            state.apply(item)
        except (OpError, JsonError) as error:
            raise OpError(f"op {number} {item!r:.120}: {error}") from error
    return cast(T, state.root)


class _State:
    """A value under change. `owned` holds the containers made here, which may still be written to, by identity."""

    __slots__ = ("owned", "root")

    def __init__(self, root: Frozen) -> None:
        self.root = root
        self.owned: dict[int, FrozenDict | FrozenList] = {}

    def apply(self, item: Op) -> None:
        if not isinstance(item, (list, tuple)) or not item:
            raise OpError("not an op")
        name, arity = item[0], len(item)
        if name == "r" and arity == 2:
            self.root = freeze(item[1])
        elif name == "a" and arity == 3:
            self._text(item[1], _appended, item[2])
        elif name == "s" and arity == 3:
            self._set(item[1], freeze(item[2]))
        elif name == "d" and arity == 2:
            node = self._reach(item[1], 1, 0)
            key = item[1][-1]
            if type(node) is FrozenDict:
                _dict_delete(node, _key(node, key))
            else:
                _list_delete(node, _index(node, key))
        elif name == "t" and arity == 3:
            self._text(item[1], _trimmed, item[2])
        elif name == "p" and arity == 5:
            self._splice(item[1], item[2], item[3], item[4])
        elif name == "m" and arity == 3:
            self._reorder(item[1], item[2])
        else:
            raise OpError("not an op")

    def _set(self, path: Sequence[object], value: Frozen) -> None:
        node = self._reach(path, 1, depth_bound(value))
        check_depth(value, len(path))
        key = path[-1]
        if type(node) is FrozenDict:
            _dict_set(node, clean_text(key) if isinstance(key, str) else _key(node, key), value)
        elif type(key) is int and key == len(node):
            _list_append(node, value)
        else:
            _list_set(node, _index(node, key), value)

    def _text(self, path: Sequence[object], change: Callable[[str, object], str], argument: object) -> None:
        node = self._reach(path, 1, 0)
        if type(node) is FrozenDict:
            key = _key(node, path[-1])
            _dict_set(node, key, change(_text_of(node[key]), argument))
        else:
            index = _index(node, path[-1])
            _list_set(node, index, change(_text_of(node[index]), argument))

    def _splice(self, path: Sequence[object], index: object, removed: object, items: object) -> None:
        if not isinstance(items, (list, tuple)) or not _is_count(index) or not _is_count(removed):
            raise OpError("not a splice")
        new = cast(FrozenList, freeze_within(items, MAX_DEPTH))
        node = self._reach_list(path, depth_bound(new) - 1)
        check_depth(new, len(path))
        if index + removed > len(node):
            raise OpError(f"the list has only {len(node)} items")
        _list_set(node, slice(index, index + removed), new)

    def _reorder(self, path: Sequence[object], permutation: object) -> None:
        node = self._reach_list(path, 0)
        size = len(node)
        if (
            not isinstance(permutation, (list, tuple))
            or len(permutation) != size
            or not all(map(_is_count, permutation))
            or sorted(permutation) != list(range(size))
        ):
            raise OpError(f"not a permutation of {size} items")
        _list_set(node, slice(None), [node[index] for index in permutation])

    def _reach_list(self, path: Sequence[object], below: int) -> FrozenList:
        node = self._reach(path, 0, below)
        if type(node) is not FrozenList:
            raise OpError("there is no list there")
        return node

    def _reach(self, path: Sequence[object], spare: int, below: int) -> FrozenDict | FrozenList:
        """An owned copy of the container a path without its last `spare` keys leads to; `below` levels will hang there."""
        if not isinstance(path, (list, tuple)):
            raise OpError("not a path")
        steps = len(path) - spare
        if steps < 0:
            raise OpError("this op cannot address the root")
        node = self.root = self._own(self.root, steps + 1 + below)
        for step in range(steps):
            depth = steps - step + below
            if type(node) is FrozenDict:
                key = _key(node, path[step])
                child = node[key]
                mine = self._own(child, depth)
                if mine is not child:
                    _dict_set(node, key, mine)
            else:
                index = _index(node, path[step])
                child = node[index]
                mine = self._own(child, depth)
                if mine is not child:
                    _list_set(node, index, mine)
            node = mine
        return node

    def _own(self, node: Frozen, depth: int) -> FrozenDict | FrozenList:
        if type(node) is not FrozenDict and type(node) is not FrozenList:
            raise OpError("the path leads into a value that has no parts")
        if id(node) in self.owned:
            if node._depth < depth:
                node._depth = depth
            return node
        depth = max(node._depth, depth)
        mine = trusted_dict(node, depth) if type(node) is FrozenDict else trusted_list(node, depth)
        self.owned[id(mine)] = mine
        return mine


def _is_count(value: object) -> TypeGuard[int]:
    return type(value) is int and value >= 0


def _key(node: FrozenDict, key: object) -> str:
    """The key as the object knows it; OpError when there is nothing under it."""
    if isinstance(key, str) and (key in node or (key := clean_text(key)) in node):
        return key
    raise OpError(f"there is no key {key!r}")


def _index(node: FrozenList, key: object) -> int:
    """The index, when the list has an item there; OpError otherwise."""
    if type(key) is int and 0 <= key < len(node):
        return key
    raise OpError(f"there is no index {key!r}")


def _text_of(value: Frozen) -> str:
    if type(value) is not str:
        raise OpError("there is no text there")
    return value


def _appended(text: str, more: object) -> str:
    if not isinstance(more, str):
        raise OpError("only text can be appended")
    return text + clean_text(more)


def _trimmed(text: str, units: object) -> str:
    if not _is_count(units):
        raise OpError("not a number of units")
    if text.isascii():
        if units > len(text):
            raise OpError(f"the text has only {len(text)} units")
        return text[units:]
    data = text.encode("utf-16-le")
    if units * 2 > len(data):
        raise OpError(f"the text has only {len(data) // 2} units")
    return data[units * 2 :].decode("utf-16-le", "replace")
