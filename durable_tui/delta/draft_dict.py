"""The draft of a JSON object."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, MutableMapping
from typing import Any

from durable_tui.delta.diff import Node, dict_changes
from durable_tui.delta.frozen import Frozen, FrozenDict, FrozenList, clean_key, depth_bound, trusted_dict
from durable_tui.delta.node import DRAFTS, Draft, closed, detach, grown, locate, snapshot
from durable_tui.delta.ops import Path

_MISSING: Any = object()
_dict_set = dict.__setitem__


class DraftDict(Draft, MutableMapping[str, Any]):
    """The draft of a JSON object: a dict in all but its type."""

    __slots__ = ("_touched",)
    origin: FrozenDict
    _data: dict[str, Node] | None
    _touched: dict[str, None]  # keys written, removed or read as a draft; set with _data

    def __init__(self) -> None:
        raise TypeError("a draft is made by DraftRoot")

    def _reading(self) -> dict[str, Frozen] | dict[str, Node]:
        if not self._root._open:
            raise closed()
        data = self._data
        return self.origin if data is None else data

    def _writing(self) -> dict[str, Node]:
        self._check_write()
        return self._own()

    def _own(self) -> dict[str, Node]:
        data = self._data
        if data is None:
            data = self._data = {**self.origin}
            self._touched = {}
        return data

    @staticmethod
    def _key(key: Any) -> Any:
        return key if (type(key) is str and key.isascii()) or not isinstance(key, str) else clean_key(key)

    def _get(self, key: Any, default: Any) -> Any:
        data = self._reading()
        value = data.get(key, _MISSING)
        kind = type(value)
        if kind is FrozenDict or kind is FrozenList:
            value = self._child(value)
            key = self._key(key)
            self._own()[key] = value
            self._touched[key] = None
        elif value is _MISSING:
            return self._get(cleaned, default) if (cleaned := self._key(key)) != key else default
        return value

    def __getitem__(self, key: str) -> Any:
        value = self._get(key, _MISSING)
        if value is _MISSING:
            raise KeyError(key)
        return value

    def get(self, key: str, default: object = None) -> Any:
        return self._get(key, default)

    def __setitem__(self, key: str, value: object) -> None:
        data = self._writing()
        if type(key) is not str or not key.isascii():
            key = clean_key(key)
        old = data.get(key, _MISSING)
        if value is old:
            return
        if type(value) is str:
            fresh: Frozen = grown(old, value)
        else:
            try:
                fresh = self._admit(value)
            except ValueError as error:
                locate(error, key)
                raise
        if isinstance(old, Draft):
            detach(old)
        data[key] = fresh
        self._touched[key] = None

    def __delitem__(self, key: str) -> None:
        self._remove(key)

    def _remove(self, key: str) -> Frozen:
        data = self._writing()
        key = self._key(key)
        value = snapshot(data.pop(key))
        self._touched[key] = None
        return value

    def pop(self, key: str, default: object = _MISSING) -> Any:
        """Remove a key; its value comes back frozen."""
        if default is not _MISSING and key not in self:
            self._check_write()
            return default
        return self._remove(key)

    def popitem(self) -> tuple[str, Any]:
        data = self._writing()
        if not data:
            raise KeyError("the object is empty")
        key = next(reversed(data))
        return key, self._remove(key)

    def clear(self) -> None:
        data = self._writing()
        for item in data.values():
            detach(item)
        self._touched.update(dict.fromkeys(data))
        data.clear()

    def setdefault(self, key: str, default: object = None) -> Any:
        """The draft of the value under the key, put there first when there was none."""
        if key not in self:
            self[key] = default
        return self[key]

    def __ior__(self, other: Mapping[str, object] | Iterable[tuple[str, object]]) -> DraftDict:
        self.update(other)
        return self

    def __contains__(self, key: object) -> bool:
        return self._key(key) in self._reading()

    def __len__(self) -> int:
        return len(self._reading())

    def __iter__(self) -> Iterator[str]:
        return iter(self._reading())

    def __reversed__(self) -> Iterator[str]:
        return reversed(self._reading())

    def _parts(self) -> Iterable[Node]:
        return () if self._data is None else self._data.values()

    def frozen(self) -> FrozenDict:
        if not self._root._open:
            raise closed()
        data, origin = self._data, self.origin
        if data is None:
            return origin
        depth = origin._depth
        parts: dict[str, FrozenDict | FrozenList] = {}
        changed = False
        for key in self._touched:
            value = data.get(key, _MISSING)
            if isinstance(value, Draft):
                value = parts[key] = value.frozen()
            if value is not origin.get(key, _MISSING):
                changed = True
                depth = max(depth, depth_bound(value) + 1)
        if not changed:
            return origin
        out = trusted_dict(data, depth)
        for key, value in parts.items():
            _dict_set(out, key, value)
        return out

    def record(self, path: Path, out: list[FrozenList]) -> bool:
        data = self._data
        return True if data is None else dict_changes(self.origin, data, self._touched, path, out)


DRAFTS[FrozenDict] = DraftDict
