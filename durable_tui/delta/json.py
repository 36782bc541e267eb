"""Strict JSON text: what is written is exactly what is read back (spec 3.8)."""

from __future__ import annotations

import json
from typing import Any, Final, NoReturn

from durable_tui.delta.frozen import MAX_DEPTH, JsonError, freeze_within

# A record or an op wraps a value in a few levels of its own, and must still be written and read.
_TEXT_DEPTH: Final = MAX_DEPTH + 56


def _refuse_constant(name: str) -> NoReturn:
    raise JsonError(f"{name} is not JSON")


_encode = json.JSONEncoder(ensure_ascii=False, allow_nan=False, check_circular=False, separators=(",", ":")).encode
_encode_sorted = json.JSONEncoder(
    ensure_ascii=False, allow_nan=False, check_circular=False, separators=(",", ":"), sort_keys=True
).encode
_decode = json.JSONDecoder(parse_constant=_refuse_constant).decode


def dumps(value: object) -> str:
    """Compact JSON text of `value`, keys in their own order, never with a lone surrogate; JsonError as `freeze`."""
    return _encode(freeze_within(value, _TEXT_DEPTH))


def canonical(value: object) -> str:
    """As `dumps`, keys sorted: two values have one text exactly when `same` holds for them."""
    return _encode_sorted(freeze_within(value, _TEXT_DEPTH))


def loads(text: str | bytes | bytearray) -> Any:
    """The frozen value of a JSON text. JsonError: no JSON, NaN or Infinity, a number out of range, too deep."""
    try:
        plain = _decode(text if isinstance(text, str) else text.decode())
    except JsonError:
        raise
    except RecursionError:
        raise JsonError(f"nested more than {_TEXT_DEPTH} levels deep") from None
    except ValueError as error:  # malformed text, bytes that are not UTF-8, an integer too long to convert
        raise JsonError(f"not JSON: {error}") from None
    return freeze_within(plain, _TEXT_DEPTH)
