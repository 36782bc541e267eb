"""Arguments of tool calls as they come over the wire: parsed strictly, never repaired."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import NoReturn

from durable_tui.ground.text import replace_surrogates
from durable_tui.models.json_text import Wire, WireObject

MAX_DEPTH = 100
RAW_LIMIT = 2000
CUT = "the answer was cut at the output limit, so the arguments are incomplete; make the call again with less text"


@dataclass(slots=True, frozen=True)
class Arguments:
    """`value` is a JSON object fit to store and send; with `error` it is {} and the call must not run."""

    value: WireObject
    error: str | None = None


def parse_arguments(raw: str) -> Arguments:
    """Strict JSON object or an error a model understands. Blank text is {}; an object in a JSON string is unwrapped."""
    if not raw.strip():
        return Arguments({})
    try:
        value = _loads(raw)
        if isinstance(value, str):
            value = _unwrapped(value)
        if not isinstance(value, dict):
            return Arguments({}, f"the arguments must be a JSON object, not {_kind(value)}")
        return Arguments(_clean_object(value, 0))
    except json.JSONDecodeError as error:
        return Arguments({}, _syntax(raw, error))
    except RecursionError:
        return Arguments({}, f"the arguments are nested deeper than {MAX_DEPTH} levels")
    except ValueError as error:
        return Arguments({}, f"the arguments are no valid JSON: {error}")


def bounded(raw: str, limit: int = RAW_LIMIT) -> str:
    """`raw` as kept beside an error: at most `limit` characters."""
    raw = replace_surrogates(raw)
    return raw if len(raw) <= limit else raw[:limit] + f"… ({len(raw)} characters)"


def is_complete_object(raw: str) -> bool:
    """Whether `raw` already is one whole JSON object, so nothing can follow it."""
    if not raw.rstrip().endswith("}"):
        return False
    try:
        return isinstance(json.loads(raw), dict)
    except (ValueError, RecursionError):
        return False


def _loads(raw: str) -> Wire:
    value: Wire = json.loads(raw, parse_constant=_no_constant, parse_float=_finite, parse_int=_integer)
    return value


def _no_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is no JSON number")


def _finite(text: str) -> float:
    value = float(text)
    if value in (float("inf"), float("-inf")):
        raise ValueError("a number is too large")
    return value


def _integer(text: str) -> int:
    if len(text) > 300:
        raise ValueError(f"a number of {len(text)} digits is too large")
    return int(text)


def _unwrapped(text: str) -> WireObject | str:
    try:
        inner = _loads(text)
    except (ValueError, RecursionError):
        return text
    return inner if isinstance(inner, dict) else text


def _clean(value: Wire, depth: int) -> Wire:
    if depth > MAX_DEPTH:
        raise RecursionError
    if isinstance(value, str):
        return replace_surrogates(value)
    if isinstance(value, list):
        return [_clean(item, depth + 1) for item in value]
    return _clean_object(value, depth) if isinstance(value, dict) else value


def _clean_object(value: WireObject, depth: int) -> WireObject:
    return {replace_surrogates(key): _clean(item, depth + 1) for key, item in value.items()}


def _kind(value: Wire) -> str:
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "a boolean"
    if isinstance(value, str):
        return "a string"
    return "an array" if isinstance(value, list) else "a number"


def _syntax(raw: str, error: json.JSONDecodeError) -> str:
    text = f"the arguments are no valid JSON: {error.msg} at character {error.pos + 1}"
    end = len(raw.rstrip())
    if error.pos >= end or error.msg.startswith("Unterminated string"):
        text += (
            "; they end too early, as when an answer is cut at the output limit; make the call again, with less text"
        )
    return text
