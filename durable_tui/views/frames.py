"""Frames as plain JSON, and where a copy made of them stands (spec 13). Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, TypedDict, TypeVar, cast

if TYPE_CHECKING:
    from durable_tui.delta import Json, Op
    from durable_tui.session.watch import Frame

V = TypeVar("V")


class PlainFrame(TypedDict):
    """A frame that can be sent anywhere: `ops` take a copy of the view to commit `seq`, of time `at` in milliseconds.

    A frame that starts anew is the one op `["r", view]`.
    """

    seq: int
    at: int
    ops: list[Op]


def plain(value: object) -> Json:
    """A detached copy made of dict, list and scalars, whatever sequence types a view uses."""
    if isinstance(value, str | bytes) or value is None:
        return cast("Json", value)
    if isinstance(value, Mapping):
        return {key: plain(item) for key, item in value.items()}
    if isinstance(value, Sequence):
        return [plain(item) for item in value]
    return cast("Json", value)


def plain_frame(frame: Frame[V]) -> PlainFrame:
    """A frame as plain JSON values."""
    return {"seq": frame.seq, "at": frame.at, "ops": cast("list[Op]", plain(frame.ops))}


def starts_anew(ops: Sequence[Op]) -> bool:
    """Whether a frame replaces the whole view."""
    return len(ops) == 1 and ops[0][0] == "r"
