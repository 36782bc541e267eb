"""An independent reading of document ops (spec 5), used as a witness against the product's own."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any


class BadOp(Exception):
    """An op that cannot apply to the value it meets."""


def fold(base: Any, batches: Iterable[Iterable[Any]]) -> Any:
    """The value after all batches of ops."""
    box = {"root": _copy(base)}
    for ops in batches:
        for op in ops:
            _apply(box, op)
    return box["root"]


def _copy(value: Any) -> Any:
    """Plain JSON of one's own, whatever immutable form it came in."""
    return json.loads(json.dumps(value))


def _step(value: Any, key: Any) -> Any:
    if isinstance(value, dict):
        if not isinstance(key, str) or key not in value:
            raise BadOp(f"no key {key!r}")
        return value[key]
    if isinstance(value, list):
        if isinstance(key, bool) or not isinstance(key, int) or not 0 <= key < len(value):
            raise BadOp(f"no index {key!r}")
        return value[key]
    raise BadOp(f"{key!r} into a scalar")


def _apply(box: dict[str, Any], op: Any) -> None:
    kind = op[0]
    if kind == "r":
        box["root"] = _copy(op[1])
        return
    path = ["root", *op[1]]
    holder: Any = box
    for key in path[:-1]:
        holder = _step(holder, key)
    last = path[-1]
    if kind == "s":
        value = _copy(op[2])
        if isinstance(holder, list) and last == len(holder):
            holder.append(value)
        elif isinstance(holder, list):
            _step(holder, last)
            holder[last] = value
        elif isinstance(holder, dict) and isinstance(last, str) and len(path) > 1:
            holder[last] = value
        else:
            raise BadOp(f"cannot set {op!r}")
    elif kind == "d":
        _step(holder, last)
        if len(path) == 1:
            raise BadOp("cannot delete the root")
        del holder[last]
    elif kind == "a":
        holder[last] = _text(_step(holder, last)) + _text(op[2])
    elif kind == "t":
        units = _text(_step(holder, last)).encode("utf-16-le", "surrogatepass")
        if not 0 <= op[2] * 2 <= len(units):
            raise BadOp(f"cannot trim {op!r}")
        holder[last] = units[op[2] * 2 :].decode("utf-16-le", "surrogatepass")
    elif kind == "p":
        array = _array(_step(holder, last))
        index, removed, items = op[2], op[3], op[4]
        if not (0 <= index <= len(array) and 0 <= removed <= len(array) - index):
            raise BadOp(f"cannot splice {op!r} into {len(array)}")
        array[index : index + removed] = _copy(items)
    elif kind == "m":
        array = _array(_step(holder, last))
        if sorted(op[2]) != list(range(len(array))):
            raise BadOp("no permutation")
        array[:] = [array[position] for position in op[2]]
    else:
        raise BadOp(f"unknown op {op!r}")


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise BadOp("no text")
    return value


def _array(value: Any) -> list[Any]:
    if not isinstance(value, list):
        raise BadOp("no array")
    return value
