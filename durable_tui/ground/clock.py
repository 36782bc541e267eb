"""The wall clock as stored times have it."""

from __future__ import annotations

import time


def now_ms() -> int:
    """Return the wall clock in milliseconds since 1970 UTC."""
    return time.time_ns() // 1_000_000
