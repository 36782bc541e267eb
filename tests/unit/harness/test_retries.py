"""Waiting before another attempt, and the limits of a run, on a clock of their own (spec 8, 9; cases P19, A01, R06)."""

from __future__ import annotations

import asyncio
import dataclasses
import itertools
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from durable_tui.agent.settings import Settings
from durable_tui.models.provider import ModelError
from tests.tools.scenario import Rig
from tests.tools.schedules import clock, run
from tests.tools.strict_provider import Turn, call, say
from tests.tools.waiting import until

REAL = Settings(partial_interval=0.0, output_interval=0.0)


def _time() -> float:
    return asyncio.get_running_loop().time()


async def _rig(script: Any, settings: Settings = REAL) -> tuple[Rig, list[float]]:
    """A rig on the running loop's clock, and the times of its requests."""
    rig = Rig(script, settings=settings, now=clock)
    times: list[float] = []

    async def note(request: Any, number: int) -> None:
        times.append(_time())

    rig.provider.before = note
    await rig.open()
    return rig, times


def _run(body: Callable[[], Awaitable[None]]) -> None:
    async def main() -> None:
        await body()

    run(main())


def _gaps(times: list[float]) -> list[float]:
    return [round(later - earlier, 2) for earlier, later in itertools.pairwise(times)]


@pytest.mark.parametrize(("retries", "gaps"), [(3, [2, 4, 8]), (7, [2, 4, 8, 16, 32, 60, 60]), (0, [])])
def test_spec_9_backoff_doubles_from_two_seconds_up_to_sixty(retries: int, gaps: list[float]) -> None:
    async def body() -> None:
        settings = dataclasses.replace(REAL, max_retries=retries)
        rig, times = await _rig([say("x", error=ModelError("down", "network"))], settings)
        settled = await (await rig.root.submit("go")).wait()
        assert (settled.status, settled.reason, settled.detail) == ("unanswered", "model_error", "down")
        assert _gaps(times) == gaps
        failed = [entry["model"][0] for entry in await rig.entries() if entry["kind"] == "pi.assistant"]
        assert [message["stopReason"] for message in failed] == ["error"] * (retries + 1)
        await rig.check(idle=True)
        await rig.harness.close()

    _run(body)


@pytest.mark.parametrize("seconds", [0.5, 90.0, 600.0])
def test_p19_a_servers_wait_is_honoured_as_given_up_to_ten_minutes(seconds: float) -> None:
    async def body() -> None:
        busy = ModelError("slow down", "rate_limit", status=429, retry_after=seconds)
        rig, times = await _rig([say("fine")])
        rig.provider.faults = {1: busy}
        submission = await rig.root.submit("go")
        await until(lambda: len(times) == 1)

        async def shown() -> bool:
            return "retry" in (await rig.document("pi.live")).get("generation", {})

        await until(shown)
        retry = (await rig.document("pi.live"))["generation"]["retry"]
        assert abs(retry["at"] - clock() - seconds * 1000) < 100 and "slow down" in retry["error"]
        assert (await submission.wait()).status == "done"
        assert len(_gaps(times)) == 1 and abs(_gaps(times)[0] - seconds) < 0.05
        await rig.check(idle=True)
        await rig.harness.close()

    _run(body)


@pytest.mark.parametrize("seconds", [601.0, 7200.0])
def test_p19_a_longer_wait_ends_the_run_with_a_clear_message(seconds: float) -> None:
    async def body() -> None:
        rig, times = await _rig([say("x", error=ModelError("quota", "rate_limit", status=429, retry_after=seconds))])
        settled = await (await rig.root.submit("go")).wait()
        assert (settled.status, settled.reason) == ("unanswered", "model_error") and len(times) == 1
        assert settled.detail is not None and f"{seconds:.0f} s" in settled.detail and "600 s" in settled.detail
        await rig.check(idle=True)
        await rig.harness.close()

    _run(body)


@pytest.mark.parametrize("how", ["abort", "stop"])
def test_a01_the_wait_before_a_retry_ends_at_once(how: str) -> None:
    async def body() -> None:
        down = ModelError("down", "rate_limit", retry_after=60.0)
        rig, times = await _rig([say("x", error=down)])
        submission = await rig.root.submit("go")
        await asyncio.sleep(1.0)
        start = _time()
        await getattr(rig.root, how)()
        settled = await submission.wait()
        assert (settled.status, settled.reason) == ("unanswered", "aborted") and _time() - start < 0.2
        await asyncio.sleep(120)
        assert len(times) == 1
        await rig.check(idle=True)
        await rig.harness.close()

    _run(body)


@pytest.mark.parametrize("away", [0.0, 1.0, 50.0])
@pytest.mark.parametrize("clean", [True, False])
def test_r06_the_third_attempt_comes_at_its_stored_time_after_reopening(away: float, clean: bool) -> None:
    async def body() -> None:
        rig, times = await _rig([say("x", error=ModelError("down", "network"))])
        submission = await rig.root.submit("go", request_id="r")
        await until(lambda: len(times) == 2)
        await asyncio.sleep(1.0)
        stored = (await rig.document("pi.live"))["generation"]
        await (rig.close() if clean else rig.kill())
        await asyncio.sleep(away)
        await rig.reopen()
        assert (await rig.document("pi.live"))["generation"] == stored
        reopened = _time()
        settled = await (await rig.harness.submission(submission.id)).wait()
        assert (settled.status, settled.reason) == ("unanswered", "model_error")
        assert len(times) == 4, "attempts are numbered on, not anew"
        assert abs(times[2] - max(times[1] + 4.0, reopened)) < 0.05
        assert _gaps(times)[2] == 8
        await rig.check(idle=True)
        await rig.harness.close()

    _run(body)


def test_spec_9_attempts_begin_anew_after_an_answer() -> None:
    async def body() -> None:
        rig, times = await _rig([call(("note", {"text": "a"})), say("done")])
        down = ModelError("down", "server")
        rig.provider.faults = {1: down, 2: down, 4: down, 5: down}
        assert (await (await rig.root.submit("go")).wait()).status == "done"
        assert [round(gap) for gap in _gaps(times)] == [2, 4, 0, 2, 4]
        await rig.check(idle=True)
        await rig.harness.close()

    _run(body)


def test_spec_20_the_limit_of_cost_ends_the_run_and_failed_attempts_cost_too() -> None:
    async def body() -> None:
        settings = dataclasses.replace(REAL, limit_cost=0.01, max_retries=1)
        rig, times = await _rig(lambda request, index: call(("note", {"text": str(index)})), settings)
        usage = {
            "input": 1,
            "output": 1,
            "cacheRead": 0,
            "cacheWrite": 0,
            "totalTokens": 2,
            "cost": {"input": 0.0, "output": 0.005, "cacheRead": 0.0, "cacheWrite": 0.0, "total": 0.005},
        }
        rig.provider.faults = {1: ModelError("down", "server", usage=usage)}
        settled = await (await rig.root.submit("go")).wait()
        assert (settled.status, settled.reason) == ("unanswered", "limit") and "$0.01" in (settled.detail or "")
        assert len(times) == 3, "0.005 of the failed attempt and twice 0.003 are over 0.01"
        again = await (await rig.root.submit("again")).wait()
        assert again.reason == "limit" and len(times) > 4, "the next input has a budget of its own"
        await rig.check(idle=True)
        await rig.harness.close()

    _run(body)


def test_spec_20_failed_attempts_are_no_turns() -> None:
    async def body() -> None:
        settings = dataclasses.replace(REAL, limit_turns=2)
        rig, times = await _rig(lambda request, index: call(("note", {"text": str(index)})), settings)
        down = ModelError("down", "server")
        rig.provider.faults = {1: down, 3: down}
        settled = await (await rig.root.submit("go")).wait()
        assert settled.reason == "limit" and len(times) == 4 and rig.effects.texts() == ["0", "1"]
        await rig.check(idle=True)
        await rig.harness.close()

    _run(body)


def test_p06_a_cut_stream_is_tried_again_after_the_backoff() -> None:
    async def body() -> None:
        served: list[int] = []

        def script(request: Any, index: int) -> Turn:
            served.append(index)
            return say("half an answer", chunks=7, cut=3) if len(served) == 1 else say("whole")

        rig, times = await _rig(script)
        assert (await (await rig.root.submit("go")).wait()).status == "done"
        assert _gaps(times) == [2]
        roles = [message["role"] for message in rig.provider.requests[-1].messages]
        assert roles == ["user"], "what broke off is not sent"
        broken, whole = [entry.record for entry in await rig.root.entries() if entry.record["kind"] == "pi.assistant"]
        spent = broken["model"][0]
        assert spent["usage"]["output"] > 0 and "cost" not in spent["usage"]
        assert spent["providerExtra"] == {"usageEstimated": True}
        total = (await rig.document("pi.usage"))["models"]["strict/m"]
        assert (
            total["cost"] == whole["model"][0]["usage"]["cost"] and total["unpriced"] == spent["usage"]["totalTokens"]
        )
        await rig.check(idle=True)
        await rig.harness.close()

    _run(body)
