"""Gates on a time: when they are open, and when the scheduler is woken for them (spec 6.12)."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any

import pytest

from durable_tui.engine.gates import LONGEST_SLEEP, Timer, again, is_open, time_gate
from tests.tools.schedules import run

NOW = 1_000_000


def _session(now: int = NOW) -> Any:
    return SimpleNamespace(now=lambda: now)


@pytest.mark.parametrize(
    ("now", "opened"), [(NOW - 1, True), (NOW, False), (NOW + 4999, False), (NOW + 5000, True), (NOW + 9000, True)]
)
def test_a_gate_opens_at_its_time_and_when_the_clock_went_back_behind_its_beginning(now: int, opened: bool) -> None:
    assert is_open(time_gate("retry", NOW + 5000, NOW), _session(now)) is opened


def test_a_gate_on_something_else_than_a_time_is_closed() -> None:
    assert not is_open({"reason": "approval", "ask": "1"}, _session())


def test_a_phase_waits_again_at_most_as_long_as_it_was_to_wait() -> None:
    assert again("retry", NOW, NOW - 5000, NOW) is None, "its time has come"
    waits = again("retry", NOW + 3_600_000, NOW + 3_595_000, NOW)
    assert waits == {"reason": "retry", "time": NOW + 5000, "since": NOW}, "an hour back, five seconds to wait"


def test_the_timer_wakes_once_for_the_least_time() -> None:
    async def body() -> list[float]:
        loop, woken = asyncio.get_running_loop(), []
        timer = Timer(_session(), lambda: woken.append(loop.time() - began))
        for times in ([NOW + 5000, NOW + 2000], [NOW - 1], [], [NOW + 3_600_000]):
            began = loop.time()
            timer.arm([time_gate("retry", at, NOW - 10) for at in times])
            await asyncio.sleep(100)
            woken.append(-1)
        return woken

    assert run(body()) == pytest.approx([2.0, -1, 0.0, -1, -1, LONGEST_SLEEP, -1])


def test_the_timer_can_be_taken_back() -> None:
    async def body() -> list[int]:
        woken: list[int] = []
        timer = Timer(_session(), lambda: woken.append(1))
        timer.arm([time_gate("retry", NOW + 1000, NOW)])
        timer.cancel()
        await asyncio.sleep(60)
        return woken

    assert run(body()) == []
