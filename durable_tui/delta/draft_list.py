"""The draft of a JSON array."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, MutableSequence, Sequence
from operator import is_
from typing import Any, SupportsIndex, cast, overload

from durable_tui.delta.diff import Node, list_changes, settled
from durable_tui.delta.frozen import Frozen, FrozenDict, FrozenList, depth_bound, freeze, trusted_list
from durable_tui.delta.node import DRAFTS, Draft, closed, detach, grown, locate, snapshot
from durable_tui.delta.ops import Path

_list_set = list.__setitem__


class DraftList(Draft, MutableSequence[Any]):
    """The draft of a JSON array: a list in all but its type."""

    __slots__ = ("_end", "_start")
    origin: FrozenList
    _data: list[Node] | None
    _start: int  # so many items at the front, and so many at the end, were neither written nor read as drafts
    _end: int

    def __init__(self) -> None:
        raise TypeError("a draft is made by DraftRoot")

    def _reading(self) -> Sequence[Node]:
        if not self._root._open:
            raise closed()
        data = self._data
        return self.origin if data is None else data

    def _own(self) -> list[Node]:
        data = self._data
        if data is None:
            data = self._data = cast("list[Node]", self.origin[:])
            self._start = self._end = len(data)
        return data

    def _touching(self, start: int, stop: int) -> list[Node]:
        """The items, writable; those from `start` up to `stop` are about to change."""
        data = self._own()
        self._start = min(self._start, start)
        self._end = min(self._end, len(data) - stop)
        return data

    def _at(self, index: int) -> Any:
        value = self._reading()[index]
        if type(value) is FrozenDict or type(value) is FrozenList:
            value = self._child(value)
            index = range(len(self._reading()))[index]
            self._touching(index, index + 1)[index] = value
        return value

    def _items(self, values: Iterable[object], start: int) -> list[Node]:
        fresh: list[Node] = []
        try:
            for value in values:
                fresh.append(self._admit(value))
        except ValueError as error:
            locate(error, start + len(fresh))
            raise
        return fresh

    def _splice(self, start: int, stop: int, values: Iterable[object]) -> None:
        """Replace a range; parts of it that are among the new values stay the drafts they are."""
        self._check_write()
        values = list(values)
        leaving = {id(item): item for item in self._reading()[start:stop] if isinstance(item, Draft)}
        staying = {index: leaving.pop(id(value)) for index, value in enumerate(values) if id(value) in leaving}
        fresh = self._items((None if index in staying else value for index, value in enumerate(values)), start)
        for index, node in staying.items():
            fresh[index] = node
        data = self._touching(start, stop)
        data[start:stop] = fresh
        for node in leaving.values():
            detach(node)

    @overload
    def __getitem__(self, index: SupportsIndex) -> Any: ...
    @overload
    def __getitem__(self, index: slice) -> list[Any]: ...
    def __getitem__(self, index: SupportsIndex | slice) -> Any:
        if isinstance(index, slice):
            return [self._at(place) for place in range(len(self._reading()))[index]]
        return self._at(index.__index__())

    @overload
    def __setitem__(self, index: SupportsIndex, value: object) -> None: ...
    @overload
    def __setitem__(self, index: slice, value: Iterable[object]) -> None: ...
    def __setitem__(self, index: SupportsIndex | slice, value: Any) -> None:
        self._check_write()
        if isinstance(index, slice):
            self._set_slice(index, value)
            return
        place = self._place(index, "assignment index out of range")
        old = self._reading()[place]
        if value is old:
            return
        if type(value) is str:
            fresh: Frozen = grown(old, value)
        else:
            try:
                fresh = self._admit(value)
            except ValueError as error:
                locate(error, place)
                raise
        if isinstance(old, Draft):
            detach(old)
        self._touching(place, place + 1)[place] = fresh

    def _set_slice(self, index: slice, values: Iterable[object]) -> None:
        places = range(len(self._reading()))[index]
        if places.step == 1:
            self._splice(places.start, max(places.start, places.stop), values)
            return
        values = list(values)
        if len(values) != len(places):
            raise ValueError(
                f"attempt to assign sequence of size {len(values)} to extended slice of size {len(places)}"
            )
        values = [value if isinstance(value, Draft) else freeze(value) for value in values]
        items: list[object] = [*self._reading()]
        for place, value in zip(places, values, strict=True):
            items[place] = value
        self._splice(0, len(items), items)

    @overload
    def __delitem__(self, index: SupportsIndex) -> None: ...
    @overload
    def __delitem__(self, index: slice) -> None: ...
    def __delitem__(self, index: SupportsIndex | slice) -> None:
        if not isinstance(index, slice):
            self.pop(index)
            return
        self._check_write()
        places = range(len(self._reading()))[index]
        if places.step == 1:
            self._splice(places.start, max(places.start, places.stop), ())
            return
        for place in sorted(places, reverse=True):
            self.pop(place)

    def insert(self, index: SupportsIndex, value: object) -> None:
        size = len(self._reading())
        place = index.__index__()
        place = max(0, place + size) if place < 0 else min(place, size)
        self._splice(place, place, (value,))

    def append(self, value: object) -> None:
        size = len(self._reading())
        self._splice(size, size, (value,))

    def extend(self, values: Iterable[object]) -> None:
        size = len(self._reading())
        self._splice(size, size, values)

    def __iadd__(self, values: Iterable[object]) -> DraftList:
        self.extend(values)
        return self

    def pop(self, index: SupportsIndex = -1) -> Any:
        """Remove an item; it comes back frozen."""
        self._check_write()
        place = self._place(index, "pop index out of range")
        return snapshot(self._touching(place, place + 1).pop(place))

    def clear(self) -> None:
        self._splice(0, len(self._reading()), ())

    def reverse(self) -> None:
        self._reorder(self._reading()[::-1])

    def sort(self, *, key: Callable[[Any], Any] | None = None, reverse: bool = False) -> None:
        """Stable sort; the key function is handed frozen values."""
        self._check_write()

        def rank(item: Any) -> Any:
            return key(settled(item)) if key else settled(item)

        self._reorder(sorted(self._reading(), key=rank, reverse=reverse))

    def _reorder(self, items: Sequence[Node]) -> None:
        self._check_write()
        self._touching(0, len(items))[:] = items

    def _place(self, index: SupportsIndex, message: str) -> int:
        try:
            return range(len(self._reading()))[index.__index__()]
        except IndexError:
            raise IndexError(message) from None

    def index(self, value: object, start: int = 0, stop: int | None = None) -> int:
        value = settled(value)
        items: Sequence[object] = self.frozen()
        return items.index(value, start, len(items) if stop is None else stop)

    def count(self, value: object) -> int:
        items: Sequence[object] = self.frozen()
        return items.count(settled(value))

    def remove(self, value: object) -> None:
        self._check_write()
        self.pop(self.index(value))

    def __contains__(self, value: object) -> bool:
        return settled(value) in self.frozen()

    def __len__(self) -> int:
        return len(self._reading())

    def __iter__(self) -> Iterator[Any]:
        self._reading()
        return self._iterate()

    def _iterate(self) -> Iterator[Any]:
        index = 0
        while index < len(self._reading()):
            yield self._at(index)
            index += 1

    def _parts(self) -> Iterable[Node]:
        return () if self._data is None else self._data

    def frozen(self) -> FrozenList:
        if not self._root._open:
            raise closed()
        data, origin = self._data, self.origin
        if data is None:
            return origin
        start, end = self._start, self._end
        window = list(map(settled, data[start : len(data) - end]))
        if len(data) == len(origin) and all(map(is_, window, origin[start : len(data) - end])):
            return origin
        depth = max(map(depth_bound, window), default=0) + 1
        out = trusted_list(data, max(origin._depth, depth))
        _list_set(out, slice(start, len(data) - end), window)
        return out

    def record(self, path: Path, out: list[FrozenList]) -> bool:
        data = self._data
        return True if data is None else list_changes(self.origin, data, self._start, self._end, path, out)


DRAFTS[FrozenList] = DraftList
