"""One JSON value a line, such that no consumer's idea of a line end occurs inside it."""

from __future__ import annotations

import json

# What str.splitlines and JavaScript take for line ends but JSON leaves alone.
_SEPARATORS = {0x85: "\\u0085", 0x2028: "\\u2028", 0x2029: "\\u2029"}


def json_line(value: object) -> str:
    """The value on one line, with its newline."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":")).translate(_SEPARATORS) + "\n"
