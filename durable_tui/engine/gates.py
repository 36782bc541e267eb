"""Gates: what a pending task waits for that is not a task (spec 6.12)."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable

from durable_tui.session import Session
from durable_tui.storage.records import Gate

LONGEST_SLEEP = 30.0  # seconds: a machine that slept or a clock that jumped is noticed within this time


def is_open(gate: Gate, session: Session) -> bool:
    """Whether what a gate waits for has come, by committed state and the wall clock alone.

    A clock found before the gate's `since` went back: the gate opens, and its phase waits anew (`again`).
    """
    if "time" in gate:
        now = session.now()
        return now >= gate["time"] or now < gate.get("since", now)
    return False


def time_gate(reason: str, until: int, now: int) -> Gate:
    """A gate that opens at a wall-clock time; `now` is when the wait began. Both in milliseconds."""
    return {"reason": reason, "time": until, "since": now}


def again(reason: str, until: int, since: int, now: int) -> Gate | None:
    """The gate for a phase that finds its time not come because the clock went back; None when the time has come."""
    return time_gate(reason, now + min(until - now, until - since), now) if now < until else None


class Timer:
    """Wakes the scheduler for the least time any task waits for, by the wall clock and never by elapsed time."""

    def __init__(self, session: Session, wake: Callable[[], None]) -> None:
        self._session = session
        self._wake = wake
        self._handle: asyncio.TimerHandle | None = None

    def arm(self, gates: Iterable[Gate]) -> None:
        """Set the timer anew for the gates that hold tasks now."""
        self.cancel()
        times = [gate["time"] for gate in gates if "time" in gate]
        if times:
            left = max(0.0, (min(times) - self._session.now()) / 1000)
            self._handle = asyncio.get_running_loop().call_later(min(left, LONGEST_SLEEP), self._wake)

    def cancel(self) -> None:
        if self._handle is not None:
            self._handle.cancel()
            self._handle = None
