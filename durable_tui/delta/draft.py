"""Drafts: edit a frozen value like ordinary data, then take the next value and the ops that lead to it (spec 5.1).

Reading a container of a draft gives a draft of that part; nothing is copied before it is read or written. What is put
in is copied and checked at once (spec 3.8). A part that was removed or replaced can still be read, but writing to
it raises, since the change would be lost.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeVar, overload

from durable_tui.delta.diff import Node, changes, frozen_ops, settled
from durable_tui.delta.draft_dict import DraftDict
from durable_tui.delta.draft_list import DraftList
from durable_tui.delta.frozen import MAX_DEPTH, Frozen, FrozenDict, FrozenList, freeze, freeze_within
from durable_tui.delta.node import Draft, DraftClosed, Lifetime, closed, detach, draft_of
from durable_tui.delta.ops import Op, apply_ops

__all__ = ["Draft", "DraftClosed", "DraftDict", "DraftList", "DraftRoot", "current"]

T = TypeVar("T")


class DraftRoot(Lifetime):
    """The draft of one value.

    `base` is the value to start from (None for one that is yet to be set). `value` is its draft: a `DraftDict`, a
    `DraftList`, or the scalar itself. Assigning `value` replaces the whole; what the new value shares with the old is
    still recorded as small ops, and an equal value as none.
    """

    __slots__ = ("_base", "_value")

    def __init__(self, base: object) -> None:
        self._base = freeze_within(base, MAX_DEPTH)
        self._value: Node = self._base
        self._open = True

    @property
    def value(self) -> Any:
        if not self._open:
            raise closed()
        value = self._value
        if type(value) is FrozenDict or type(value) is FrozenList:
            value = self._value = draft_of(value, self, 1)
        return value

    @value.setter
    def value(self, value: object) -> None:
        if not self._open:
            raise closed()
        if value is not self._value:
            fresh = freeze_within(value, MAX_DEPTH)
            detach(self._value)
            self._value = fresh

    @property
    def closed(self) -> bool:
        return not self._open

    def seal(self) -> tuple[Frozen, Sequence[Op]]:
        """End the draft: the next value and the ops from the base to it, in one frozen list.

        No ops mean no change, and the value is the base itself. The value is made by applying the ops, so replaying
        them gives the very same, the order of keys included.
        """
        if not self._open:
            raise closed()
        ops: list[FrozenList] = []
        changes(self._base, self._value, (), ops)
        self._open = False
        return (apply_ops(self._base, ops) if ops else self._base), frozen_ops(ops)

    def close(self) -> None:
        """End the draft and drop what was written; doing so again is harmless."""
        self._open = False

    def __repr__(self) -> str:
        return f"DraftRoot({self._value!r})" if self._open else "<closed draft>"


@overload
def current(draft: DraftRoot) -> Frozen: ...
@overload
def current(draft: T) -> T: ...
def current(draft: object) -> object:
    """The frozen value of a draft (a root or any part) as it stands; other values are frozen."""
    if isinstance(draft, DraftRoot):
        if not draft._open:
            raise closed()
        return settled(draft._value)
    return freeze(draft)
