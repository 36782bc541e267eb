"""Immutable JSON values: what a revision, a record or an op's payload is made of (spec 3.8, 5.2).

`FrozenDict` and `FrozenList` are a `dict` and a `list` whose mutators raise, so reading them, comparing them and
encoding them run at the speed of the builtin types. Only `freeze` makes them, so one is strict JSON all the way down.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from math import isfinite
from typing import Any, Final, NoReturn, SupportsIndex, TypeAlias, TypeVar, cast, final, overload

Json: TypeAlias = "bool | int | float | str | Sequence[Json] | Mapping[str, Json] | None"
JsonObject: TypeAlias = "Mapping[str, Json]"
Frozen: TypeAlias = "bool | int | float | str | FrozenDict | FrozenList | None"
T = TypeVar("T")
V = TypeVar("V")

MAX_DEPTH: Final = 200
"""Containers that may be nested in a value; `[]` counts one."""

_INT_LIMIT: Final = 10**4300  # Python turns no longer text into an int, so a longer one could be written but not read

_dict_new = dict.__new__
_dict_update = dict.update
_list_new = list.__new__
_list_extend = list.extend


class JsonError(ValueError):
    """A value is not strict JSON (spec 3.8). `path` leads to the offending part, `reason` says what is wrong."""

    def __init__(self, reason: str, path: Iterable[str | int] = ()) -> None:
        super().__init__(reason)
        self.reason = reason
        self.path: list[str | int] = list(path)

    def __str__(self) -> str:
        if not self.path:
            return self.reason
        shown = self.path if len(self.path) <= 12 else [*self.path[:6], "...", *self.path[-4:]]
        return f"{self.reason} (at {'/'.join(str(key) for key in shown)})"

    def __reduce__(self) -> tuple[object, ...]:
        return (JsonError, (self.reason, self.path))

    def inside(self, key: object) -> None:
        """Note that the offending part lies below `key`."""
        self.path.insert(0, key if isinstance(key, (str, int)) else repr(key))


class Pending:
    """A value that is still being written: a node of a draft. `origin` is the frozen value it started from."""

    __slots__ = ()
    origin: FrozenDict | FrozenList

    def frozen(self) -> FrozenDict | FrozenList:
        """The value as it stands now; `origin` itself when nothing changed."""
        raise TypeError("not a draft")

    def record(self, path: tuple[str | int, ...], out: list[FrozenList]) -> bool:
        """Append the ops from `origin` to the value as it stands; False when nothing of `origin` was kept."""
        raise TypeError("not a draft")


def _refuse(self: object, *_args: object, **_kwargs: object) -> NoReturn:
    raise TypeError("a frozen JSON value cannot be changed; use thaw() for a copy that can")


@final
class FrozenDict(dict[str, "Frozen"]):
    """An immutable JSON object. `FrozenDict(mapping)` is `freeze(mapping)`; `copy()` and `|` give plain dicts."""

    __slots__ = ("_depth",)
    _depth: int  # an upper bound of the containers nested here, this one included

    def __new__(cls, value: Mapping[str, object] | Iterable[tuple[str, object]] = ()) -> FrozenDict:
        return cast(FrozenDict, freeze(dict(value)))

    def __init__(self, value: Mapping[str, object] | Iterable[tuple[str, object]] = ()) -> None:
        """Everything is done by `__new__`; running this again changes nothing."""

    __setitem__ = __delitem__ = _refuse
    __ior__ = _refuse
    clear = pop = popitem = setdefault = update = _refuse

    def __copy__(self) -> FrozenDict:
        return self

    def __deepcopy__(self, memo: object) -> FrozenDict:
        return self

    def __reduce__(self) -> tuple[object, ...]:
        return (freeze, (thaw(self),))

    def __reduce_ex__(self, protocol: SupportsIndex) -> tuple[object, ...]:
        return self.__reduce__()


@final
class FrozenList(list["Frozen"]):
    """An immutable JSON array. `FrozenList(items)` is `freeze(list(items))`; `copy()`, `+` and slices give plain lists."""

    __slots__ = ("_depth",)
    _depth: int

    def __new__(cls, value: Iterable[object] = ()) -> FrozenList:
        return cast(FrozenList, freeze(list(value)))

    def __init__(self, value: Iterable[object] = ()) -> None:
        """Everything is done by `__new__`; running this again changes nothing."""

    __setitem__ = __delitem__ = _refuse
    __iadd__ = __imul__ = _refuse
    append = clear = extend = insert = pop = remove = reverse = sort = _refuse

    def __copy__(self) -> FrozenList:
        return self

    def __deepcopy__(self, memo: object) -> FrozenList:
        return self

    def __reduce__(self) -> tuple[object, ...]:
        return (freeze, (thaw(self),))

    def __reduce_ex__(self, protocol: SupportsIndex) -> tuple[object, ...]:
        return self.__reduce__()


def trusted_dict(items: Mapping[str, Any], depth: int) -> FrozenDict:
    """Wrap a shallow copy of a dict whose keys and values are known to be clean and frozen."""
    out = _dict_new(FrozenDict)
    _dict_update(out, items)
    out._depth = depth
    return out


def trusted_list(items: Iterable[Any], depth: int) -> FrozenList:
    """Wrap a shallow copy of items that are known to be frozen."""
    out = _list_new(FrozenList)
    _list_extend(out, items[:] if type(items) is FrozenList else items)  # extending by a builtin list is a memory copy
    out._depth = depth
    return out


def depth_bound(value: Frozen) -> int:
    """An upper bound of the containers nested in a frozen value, in no time; a scalar has 0."""
    return value._depth if type(value) is FrozenDict or type(value) is FrozenList else 0


def check_depth(value: Frozen, level: int, limit: int = MAX_DEPTH) -> None:
    """Raise JsonError when a frozen value placed below `level` containers nests too deeply."""
    if level + depth_bound(value) > limit and level + _exact_depth(value) > limit:
        raise _too_deep(limit)


def _exact_depth(value: Frozen) -> int:
    # Bounds only ever grow, so one that grew too far is measured again; without recursion, however deep it is.
    level, deepest = [value], 0
    while level := list({id(item): item for item in level if isinstance(item, (FrozenDict, FrozenList))}.values()):
        deepest += 1
        level = [child for item in level for child in (item.values() if isinstance(item, FrozenDict) else item)]
    return deepest


def _too_deep(limit: int) -> JsonError:
    return JsonError(f"nested more than {limit} levels deep, or inside itself")


def clean_text(text: str) -> str:
    """The text with lone surrogates replaced by U+FFFD and pairs of them joined (spec 3.8); mostly `text` itself."""
    if text.isascii():
        return text
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    return text


def utf16_length(text: str) -> int:
    """The length of a text in UTF-16 code units, as the `t` op counts."""
    return len(text) if text.isascii() else len(text.encode("utf-16-le", "surrogatepass")) // 2


@overload
def freeze(value: dict[str, V]) -> Any: ...  # of the shape that the place it goes to asks for
@overload
def freeze(value: T) -> T: ...
def freeze(value: object) -> object:
    """A strict JSON deep copy of `value` that can never change; an already frozen value is returned as it is.

    Accepted: None, bool, int, float, str, list, tuple, dict, drafts, and subclasses of these, which lose their class.
    JsonError, naming the path: numbers that are not finite or have more than 4300 digits, keys that are not text, any
    other type, more than MAX_DEPTH levels. Text and keys go through `clean_text`; of keys that become equal the last
    one wins.
    """
    return freeze_within(value, MAX_DEPTH)


def freeze_within(value: object, limit: int) -> Frozen:
    """`freeze` with another depth limit."""
    if type(value) is FrozenDict or type(value) is FrozenList:
        return value
    if type(value) is str:
        return clean_text(value)
    try:
        return _freeze(value, limit, limit)
    except RecursionError:  # the caller's own stack was nearly used up
        raise _too_deep(limit) from None


def _freeze(value: object, room: int, limit: int) -> Frozen:
    if type(value) is int:
        if -_INT_LIMIT < value < _INT_LIMIT:
            return value
        raise JsonError("an integer of more than 4300 digits is not JSON here")
    if type(value) is dict:
        return _freeze_dict(value, room, limit)
    if type(value) is list or type(value) is tuple:
        return _freeze_list(value, room, limit)
    if value is None or type(value) is bool:
        return value
    if type(value) is float:
        if isfinite(value):
            return value
        raise JsonError(f"{value} is not JSON")
    if type(value) is FrozenDict or type(value) is FrozenList:
        check_depth(value, limit - room, limit)
        return value
    return _freeze_odd(value, room, limit)


def _freeze_odd(value: object, room: int, limit: int) -> Frozen:
    if isinstance(value, Pending):
        return _freeze(value.frozen(), room, limit)
    if isinstance(value, str):
        return clean_text(str.__str__(value))
    if isinstance(value, int):
        return _freeze(int.__index__(value), room, limit)
    if isinstance(value, float):
        return _freeze(float.__float__(value), room, limit)
    if isinstance(value, dict):
        return _freeze_dict(dict(value), room, limit)
    if isinstance(value, (list, tuple)):
        return _freeze_list(list(value), room, limit)
    raise JsonError(f"a {type(value).__name__} is not JSON")


def _freeze_dict(value: Mapping[object, object], room: int, limit: int) -> FrozenDict:
    if not room:
        raise _too_deep(limit)
    plain: dict[str, Frozen] = {}
    depth = 0
    key: object = None
    part: Frozen
    try:
        for key, item in value.items():
            if type(item) is str:
                part = item if item.isascii() else clean_text(item)
            elif item is None or type(item) is bool:
                part = item
            else:
                part = _freeze(item, room - 1, limit)
                if (type(part) is FrozenDict or type(part) is FrozenList) and part._depth > depth:
                    depth = part._depth
            plain[key if type(key) is str and key.isascii() else clean_key(key)] = part
    except JsonError as error:
        error.inside(key)
        raise
    return trusted_dict(plain, depth + 1)


def _freeze_list(value: Iterable[object], room: int, limit: int) -> FrozenList:
    if not room:
        raise _too_deep(limit)
    plain: list[Frozen] = []
    depth = 0
    part: Frozen
    try:
        for item in value:
            if type(item) is str:
                part = item if item.isascii() else clean_text(item)
            elif item is None or type(item) is bool:
                part = item
            else:
                part = _freeze(item, room - 1, limit)
                if (type(part) is FrozenDict or type(part) is FrozenList) and part._depth > depth:
                    depth = part._depth
            plain.append(part)
    except JsonError as error:
        error.inside(len(plain))
        raise
    return trusted_list(plain, depth + 1)


def clean_key(key: object) -> str:
    """A key as it is stored; JsonError when it is not text."""
    if not isinstance(key, str):
        raise JsonError(f"a key must be text, not {type(key).__name__}")
    return clean_text(key if type(key) is str else str.__str__(key))


@overload
def thaw(value: Mapping[str, V]) -> dict[str, V]: ...
@overload
def thaw(value: T) -> T: ...
def thaw(value: object) -> object:
    """A deep copy made of plain dicts and lists, free to be changed; drafts are copied as they stand."""
    if isinstance(value, Pending):
        value = value.frozen()
    if isinstance(value, dict):
        return {key: thaw(item) if isinstance(item, (dict, list, Pending)) else item for key, item in value.items()}
    if isinstance(value, list):
        return [thaw(item) if isinstance(item, (dict, list, Pending)) else item for item in value]
    return value


def same(left: Frozen, right: Frozen) -> bool:
    """Whether two frozen values have one JSON text but for key order: 1, 1.0 and true differ, as do 0.0 and -0.0."""
    if left is right:
        return True
    if type(left) is not type(right):
        return False
    if type(left) is FrozenDict and type(right) is FrozenDict:
        return len(left) == len(right) and all(key in right and same(item, right[key]) for key, item in left.items())
    if type(left) is FrozenList and type(right) is FrozenList:
        return len(left) == len(right) and all(map(same, left, right))
    if type(left) is float:
        return repr(left) == repr(right)
    return left == right
