"""The smallest natural ops from one value to another (spec 5.1).

The new value may be a draft in the making (`Pending`): a node that still knows the part of the old value it came from
is asked for its own changes, so the cost follows what was touched and not the size of the document.

Every walk appends ops to `out` and says whether something of the old value was kept. Where nothing was and more than
one op would be needed, the value is sent whole instead: `r` at the root, `s` below it.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import deque
from collections.abc import Hashable, Iterable, Mapping, Sequence
from typing import Final, TypeAlias, cast, overload

from durable_tui.delta.frozen import (
    MAX_DEPTH,
    Frozen,
    FrozenDict,
    FrozenList,
    Pending,
    depth_bound,
    freeze_within,
    same,
    trusted_list,
)
from durable_tui.delta.json import canonical, dumps
from durable_tui.delta.ops import Op, Path, op, set_op
from durable_tui.delta.utf16 import text_op

Node: TypeAlias = "Frozen | Pending"
"""What a value in the making holds: frozen parts, and those that are being written."""

_DEEPEST: Final = 64  # two values further down are not compared part by part, which bounds the stack
_REORDER_FREELY: Final = 64  # a permutation of at most so many items is not weighed against splices


def diff(old: object, new: object) -> Sequence[Op]:
    """Ops that make `old` into `new`, frozen and strict JSON; none when both have the same JSON (key order aside)."""
    out: list[FrozenList] = []
    changes(freeze_within(old, MAX_DEPTH), freeze_within(new, MAX_DEPTH), (), out)
    return frozen_ops(out)


def frozen_ops(ops: list[FrozenList]) -> Sequence[Op]:
    """The list of ops as one frozen value."""
    return cast("Sequence[Op]", trusted_list(ops, 1 + max(map(depth_bound, ops), default=0)))


@overload
def settled(value: Node) -> Frozen: ...
@overload
def settled(value: object) -> object: ...
def settled(value: object) -> object:
    """The frozen value of what may still be a draft's node."""
    return value.frozen() if isinstance(value, Pending) else value


def changes(old: Frozen, new: Node, path: Path, out: list[FrozenList]) -> bool:
    """Ops from a frozen value to a frozen value or a draft's node."""
    if new is old:
        return True
    if isinstance(new, Pending):
        if new.origin is old:
            return new.record(path, out)
        new = new.frozen()
        if new is old:
            return True
    if type(old) is str and type(new) is str:
        return True if new == old else text_op(old, new, path, out)
    if type(old) is type(new):
        if len(path) > _DEEPEST:
            if same(old, new):
                return True
        elif type(old) is FrozenDict and type(new) is FrozenDict:
            return dict_changes(old, new, dict.fromkeys((*old, *new)), path, out)
        elif type(old) is FrozenList and type(new) is FrozenList:
            return list_changes(old, new, 0, 0, path, out)
        elif same(old, new):
            return True
    out.append(set_op(path, new))
    return False


def dict_changes(
    old: FrozenDict, new: Mapping[str, Node], touched: Iterable[str], path: Path, out: list[FrozenList]
) -> bool:
    """Ops between two objects that differ at most under the `touched` keys; values of `new` may be nodes."""
    mine: list[FrozenList] = []
    kept = len(old)
    for key in touched:
        if key in old:
            if key not in new:
                mine.append(op("d", (*path, key)))
                kept -= 1
            elif not changes(old[key], new[key], (*path, key), mine):
                kept -= 1
        elif key in new:
            mine.append(set_op((*path, key), settled(new[key])))
    if old and not kept and len(mine) > 1:
        out.append(set_op(path, freeze_within({key: settled(item) for key, item in new.items()}, MAX_DEPTH)))
    else:
        out += mine
    return bool(kept) or not old


def list_changes(old: FrozenList, new: Sequence[Node], start: int, end: int, path: Path, out: list[FrozenList]) -> bool:
    """Ops between two lists whose first `start` and last `end` items are known to be the same; `new` may hold nodes."""
    shortest = min(len(old), len(new))
    nested: list[tuple[int, int]] = []  # (index in old, index in new) of kept items, whose own changes come last
    while start < shortest - end and _keeps(old[start], new[start]):
        nested.append((start, start))
        start += 1
    while end < shortest - start and _keeps(old[-1 - end], new[-1 - end]):
        end += 1
        nested.append((len(old) - end, len(new) - end))
    gone, came = old[start : len(old) - end], new[start : len(new) - end]
    kept = start + end > 0 or not old
    if gone and came:
        matches = _matches(gone, came)
        anchors = _rising(matches)
        nested += [(start + matches[index], start + index) for index in anchors]
        spliced: list[FrozenList] = []
        kept = _splices(gone, came, [(matches[index], index) for index in anchors], start, path, spliced) or kept
        if len(anchors) < len(gone) == len(came) and -1 not in matches:
            whole = [*range(start), *(start + index for index in matches), *range(len(old) - end, len(old))]
            if len(old) <= _REORDER_FREELY or len(dumps(whole)) < sum(len(dumps(item)) for item in spliced):
                spliced = [op("m", path, trusted_list(whole, 1))]
                nested += [(start + matches[index], start + index) for index in set(range(len(came))) - set(anchors)]
                kept = True
        if not kept and (len(spliced) > 1 or spliced[0][0] == "p"):
            spliced = [set_op(path, freeze_within([settled(item) for item in new], MAX_DEPTH))]
        out += spliced
    elif gone or came:
        out.append(_splice(path, start, len(gone), came))
    for before, after in sorted(nested, key=_second):
        if isinstance(new[after], Pending):
            changes(old[before], new[after], (*path, after), out)
    return kept


def _second(pair: tuple[int, int]) -> int:
    return pair[1]


def _splice(path: Path, index: int, removed: int, items: Sequence[Node]) -> FrozenList:
    return op("p", path, index, removed, freeze_within([settled(item) for item in items], MAX_DEPTH))


def _keeps(old: Frozen, new: Node) -> bool:
    """Whether an item stands for the same item as before, changed inside or not."""
    if isinstance(new, Pending):
        return new.origin is old or same(old, new.frozen())
    return same(old, new)


def _matches(gone: Sequence[Frozen], came: Sequence[Node]) -> list[int]:
    """For each new item the index of the old item it is, or -1; every old item is used once."""
    places: dict[Hashable, deque[int]] = {}
    for index, item in enumerate(gone):
        places.setdefault(_token(item), deque()).append(index)
    found = [-1] * len(came)
    strangers: list[int] = []
    for index, new in enumerate(came):
        queue = places.get(_token(new.origin if isinstance(new, Pending) else new))
        if queue:
            found[index] = queue.popleft()
        elif isinstance(settled(new), (FrozenDict, FrozenList)):
            strangers.append(index)
    if strangers:  # equal containers that are not the same object are told by their text
        texts: dict[str, deque[int]] = {}
        used = set(found)
        for index, item in enumerate(gone):
            if index not in used and isinstance(item, (FrozenDict, FrozenList)):
                texts.setdefault(canonical(item), deque()).append(index)
        for index in strangers if texts else ():
            queue = texts.get(canonical(settled(came[index])))
            if queue:
                found[index] = queue.popleft()
    return found


def _token(item: Frozen) -> Hashable:
    kind = type(item)
    if kind is FrozenDict or kind is FrozenList:
        return id(item)
    return (kind, repr(item) if kind is float else item)


def _rising(matches: list[int]) -> list[int]:
    """The indices of a longest rising run within `matches`, passing over -1."""
    tails: list[int] = []
    ends: list[int] = []
    before: dict[int, int] = {}
    for index, value in enumerate(matches):
        if value < 0:
            continue
        place = bisect_left(tails, value)
        if place:
            before[index] = ends[place - 1]
        if place == len(tails):
            tails.append(value)
            ends.append(index)
        else:
            tails[place], ends[place] = value, index
    run: list[int] = []
    index = ends[-1] if ends else -1
    while index >= 0:
        run.append(index)
        index = before.get(index, -1)
    return run[::-1]


def _splices(
    gone: Sequence[Frozen],
    came: Sequence[Node],
    anchors: list[tuple[int, int]],
    start: int,
    path: Path,
    out: list[FrozenList],
) -> bool:
    """Ops for the gaps between anchors, front to back, so that each index is right when its op is applied."""
    kept = bool(anchors)
    old_from = new_from = 0
    for old_to, new_to in [*anchors, (len(gone), len(came))]:
        before, after = gone[old_from:old_to], came[new_from:new_to]
        index = start + new_from
        old_from, new_from = old_to + 1, new_to + 1
        if not before and not after:
            continue
        if len(before) == len(after):
            mine: list[FrozenList] = []
            partly = False
            for offset, (old, new) in enumerate(zip(before, after, strict=True)):
                partly = _pair(old, new, (*path, index + offset), mine) or partly
            if partly or len(after) == 1:
                out += mine
                kept = kept or partly
                continue
        out.append(_splice(path, index, len(before), after))
    return kept


def _pair(old: Frozen, new: Node, path: Path, out: list[FrozenList]) -> bool:
    """Two items at one place that may be the same thing changed: its changes if they are smaller, else the whole."""
    mine: list[FrozenList] = []
    new = settled(new)
    if changes(old, new, path, mine):
        whole = set_op(path, new)
        if len(mine) == 1 or sum(len(dumps(item)) for item in mine) < len(dumps(whole)):
            out += mine
            return True
        mine = [whole]
    out += mine
    return False
