"""The wall clock, and its times for people in their own zone. Times are milliseconds since 1970."""

from __future__ import annotations

import time


def now_ms() -> int:
    """Return the time now."""
    return time.time_ns() // 1_000_000


def clock(at: int | None, seconds: bool = False) -> str:
    """Return the time of day, `10:42` or `10:42:03`; "" for none, or for one that no calendar holds."""
    return _local(at, "%H:%M:%S" if seconds else "%H:%M")


def date_and_time(at: int | None) -> str:
    """Return `2026-07-31 10:42:03`; "?" for none, or for one that no calendar holds."""
    return _local(at, "%Y-%m-%d %H:%M:%S") or "?"


def _local(at: int | None, form: str) -> str:
    if not at:
        return ""
    try:
        return time.strftime(form, time.localtime(at / 1000))
    except (OverflowError, ValueError, OSError):
        return ""
