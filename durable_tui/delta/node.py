"""What the drafts of objects and of arrays have in common."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final, NoReturn

from durable_tui.delta.diff import settled
from durable_tui.delta.frozen import (
    MAX_DEPTH,
    FrozenDict,
    FrozenList,
    JsonError,
    Pending,
    check_depth,
    clean_text,
    depth_bound,
    freeze,
)

_new = object.__new__


class DraftClosed(RuntimeError):
    """A draft was used after its transaction ended (spec 3.7), or a part of one written to after it was removed."""


class Lifetime:
    """What every part of a draft looks at to know whether it may still be used."""

    __slots__ = ("_open",)
    _open: bool


class Draft(Pending):
    """A part of a draft. Equality is by content; copies of it are frozen values as of now."""

    __slots__ = ("_data", "_detached", "_level", "_root", "origin")
    _root: Lifetime
    _level: int  # the containers from the root down to this one
    _detached: bool
    _data: Any  # a shallow plain copy of origin holding values and child nodes, once something was read or written
    __hash__ = None  # type: ignore[assignment]

    def __eq__(self, other: object) -> bool:
        return bool(self.frozen() == settled(other))

    def __copy__(self) -> Any:
        return self.frozen()

    def __deepcopy__(self, memo: object) -> Any:
        return self.frozen()

    def __reduce__(self) -> NoReturn:
        raise TypeError("a draft cannot be pickled; pickle current(draft)")

    def __repr__(self) -> str:
        return repr(self.frozen()) if self._root._open else "<closed draft>"

    def _admit(self, value: Any) -> Any:
        """A checked, frozen copy of a value that is to be put here."""
        kind = type(value)
        if kind is str:
            return clean_text(value)
        value = freeze(value)
        if self._level + depth_bound(value) > MAX_DEPTH:
            check_depth(value, self._level)
        return value

    def _child(self, value: FrozenDict | FrozenList) -> Any:
        """The draft of a container that was found here."""
        return draft_of(value, self._root, self._level + 1, self._detached)

    def _parts(self) -> Iterable[Any]:
        """The values and drafts held here once something was read or written."""
        raise TypeError("not a container")

    def _check_write(self) -> None:
        if not self._root._open:
            raise closed()
        if self._detached:
            raise DraftClosed("this part is no longer in the draft; a change to it would be lost")


DRAFTS: Final[dict[type, type[Draft]]] = {}
"""The draft for each kind of frozen container."""


def draft_of(value: FrozenDict | FrozenList, root: Lifetime, level: int, detached: bool = False) -> Any:
    """A new, untouched draft of a part that lies below `level` - 1 containers."""
    node: Draft = _new(DRAFTS[type(value)])
    node._root = root
    node.origin = value
    node._level = level
    node._detached = detached
    node._data = None
    return node


def detach(value: Any) -> None:
    """Mark a part that leaves its draft, and all parts of it that were handed out."""
    if isinstance(value, Draft) and not value._detached:
        value._detached = True
        if value._data is not None:
            for item in value._parts():
                detach(item)


def snapshot(value: Any) -> Any:
    """What a removed item is handed back as: its frozen value."""
    if isinstance(value, Draft):
        detach(value)
        return value.frozen()
    return value


def closed() -> DraftClosed:
    """The error for any use after the end."""
    return DraftClosed("this draft has ended; what it held can no longer be read or written")


def grown(old: Any, new: str) -> str:
    """`clean_text` of a text that most often is the old one and a little more."""
    if new.isascii() or type(old) is not str or not old or not new.startswith(old):
        return clean_text(new)
    tail = new[len(old) :]
    cleaned = clean_text(tail)
    return new if cleaned is tail else old + cleaned


def locate(error: ValueError, key: str | int) -> None:
    """Put the place of an assignment in front of the path of an error."""
    if isinstance(error, JsonError):
        error.inside(key)
