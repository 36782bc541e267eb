"""Values as they come over the wire, readers that check their shape, and text without NaN or lone surrogates (spec 3.8)."""

from __future__ import annotations

import json
import math
from typing import TYPE_CHECKING, TypeAlias, overload

from durable_tui.ground.text import replace_surrogates

if TYPE_CHECKING:
    from durable_tui.delta import Json

Wire: TypeAlias = "bool | int | float | str | list[Wire] | dict[str, Wire] | None"
"""What a server sent, decoded: JSON of any shape, whatever its protocol promises."""
WireObject: TypeAlias = "dict[str, Wire]"

_decode = json.JSONDecoder(parse_constant=lambda _: None).decode  # `json.loads` would make one for each event


def decode(text: str | bytes) -> Wire:
    """The value of a JSON text, NaN and infinities as null. Raises ValueError or, nested too deep, RecursionError."""
    value: Wire = _decode(text) if isinstance(text, str) else json.loads(text, parse_constant=lambda _: None)
    return value


@overload
def strict(value: str) -> str: ...
@overload
def strict(value: WireObject) -> WireObject: ...
@overload
def strict(value: object) -> Wire: ...
def strict(value: object) -> Wire:
    """`value` with string keys, finite numbers (others become null) and no lone surrogates. TypeError: it is no JSON."""
    if isinstance(value, str):
        return replace_surrogates(value)
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if value is None or isinstance(value, int):
        return value
    if isinstance(value, (list, tuple)):
        return [strict(item) for item in value]
    if isinstance(value, dict):
        return {replace_surrogates(str(key)): strict(item) for key, item in value.items()}
    raise TypeError(f"a {type(value).__name__} is not JSON")


def encode(value: object) -> bytes:
    """One strict JSON text as UTF-8 bytes."""
    try:
        return json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode("utf-8")
    except ValueError:  # not finite, or a lone surrogate (UnicodeEncodeError)
        return json.dumps(strict(value), ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode("utf-8")


def as_object(value: Json) -> WireObject:
    """`value` where it is an object; an empty one for all else."""
    return value if isinstance(value, dict) else {}


def as_list(value: Json) -> list[Wire]:
    """`value` where it is a list; an empty one for all else."""
    return value if isinstance(value, list) else []


def as_objects(value: Json) -> list[WireObject]:
    """The objects of a list; none of all else."""
    return [item for item in value if isinstance(item, dict)] if isinstance(value, list) else []


def as_text(value: Json) -> str:
    """`value` where it is text; "" for all else."""
    return value if isinstance(value, str) else ""
