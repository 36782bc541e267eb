"""Strict JSON in UTF-8: what is sent and stored never holds NaN, infinities or lone surrogates (spec 3.8)."""

from __future__ import annotations

import json
import math
from typing import Any

from durable_tui.ground.text import replace_surrogates


def strict(value: Any) -> Any:
    """`value` with string keys, finite numbers (others become null) and no lone surrogates."""
    if isinstance(value, str):
        return replace_surrogates(value)
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, (list, tuple)):
        return [strict(item) for item in value]
    if isinstance(value, dict):
        return {replace_surrogates(str(key)): strict(item) for key, item in value.items()}
    return value


def encode(value: Any) -> bytes:
    """One strict JSON text as UTF-8 bytes."""
    try:
        return json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode("utf-8")
    except ValueError:  # not finite, or a lone surrogate (UnicodeEncodeError)
        return json.dumps(strict(value), ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode("utf-8")


def as_object(value: Any) -> dict[str, Any]:
    """`value` where it is an object; an empty one for all else."""
    return value if isinstance(value, dict) else {}


def as_objects(value: Any) -> list[dict[str, Any]]:
    """The objects of a list; none of all else."""
    return [item for item in value if isinstance(item, dict)] if isinstance(value, list) else []


def as_text(value: Any) -> str:
    """`value` where it is text; "" for all else."""
    return value if isinstance(value, str) else ""
