"""What the drafts of objects and of arrays have in common."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, NoReturn

from durable_tui.delta.diff import Node, settled
from durable_tui.delta.frozen import (
    MAX_DEPTH,
    Frozen,
    FrozenDict,
    FrozenList,
    JsonError,
    Pending,
    check_depth,
    clean_text,
    depth_bound,
    freeze_within,
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
    _data: object  # a shallow plain copy of origin holding values and child nodes, once something was read or written
    __hash__ = None  # type: ignore[assignment]

    def __eq__(self, other: object) -> bool:
        return bool(self.frozen() == settled(other))

    def __copy__(self) -> FrozenDict | FrozenList:
        return self.frozen()

    def __deepcopy__(self, memo: object) -> FrozenDict | FrozenList:
        return self.frozen()

    def __reduce__(self) -> NoReturn:
        raise TypeError("a draft cannot be pickled; pickle current(draft)")

    def __repr__(self) -> str:
        return repr(self.frozen()) if self._root._open else "<closed draft>"

    def _admit(self, value: object) -> Frozen:
        """A checked, frozen copy of a value that is to be put here."""
        if type(value) is str:
            return clean_text(value)
        fresh = freeze_within(value, MAX_DEPTH)
        if self._level + depth_bound(fresh) > MAX_DEPTH:
            check_depth(fresh, self._level)
        return fresh

    def _child(self, value: FrozenDict | FrozenList) -> Draft:
        """The draft of a container that was found here."""
        return draft_of(value, self._root, self._level + 1, self._detached)

    def _parts(self) -> Iterable[Node]:
        """The values and drafts held here once something was read or written."""
        raise TypeError("not a container")

    def _check_write(self) -> None:
        if not self._root._open:
            raise closed()
        if self._detached:
            raise DraftClosed("this part is no longer in the draft; a change to it would be lost")


DRAFTS: Final[dict[type, type[Draft]]] = {}
"""The draft for each kind of frozen container."""


def draft_of(value: FrozenDict | FrozenList, root: Lifetime, level: int, detached: bool = False) -> Draft:
    """A new, untouched draft of a part that lies below `level` - 1 containers."""
    node: Draft = _new(DRAFTS[type(value)])
    node._root = root
    node.origin = value
    node._level = level
    node._detached = detached
    node._data = None
    return node


def detach(value: Node) -> None:
    """Mark a part that leaves its draft, and all parts of it that were handed out."""
    if isinstance(value, Draft) and not value._detached:
        value._detached = True
        if value._data is not None:
            for item in value._parts():
                detach(item)


def snapshot(value: Node) -> Frozen:
    """What a removed item is handed back as: its frozen value."""
    detach(value)
    return settled(value)


def closed() -> DraftClosed:
    """The error for any use after the end."""
    return DraftClosed("this draft has ended; what it held can no longer be read or written")


def grown(old: object, new: str) -> str:
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
