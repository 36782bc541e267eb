"""Answers made in the background, on a clock of their own (spec 9; cases A03, R06)."""

from __future__ import annotations

import asyncio
import dataclasses
import itertools
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from durable_tui.agent.generation import provider_cancel as cancelling
from durable_tui.agent.settings import Settings
from durable_tui.models.provider import ModelError
from tests.tools.scenario import Rig, text_of
from tests.tools.schedules import clock, run
from tests.tools.strict_provider import call, say
from tests.tools.waiting import until

REAL = Settings(partial_interval=0.0, output_interval=0.0)


def _time() -> float:
    return asyncio.get_running_loop().time()


class Polls:
    """A rig on the running loop's clock, with the times of its requests, looks and cancels."""

    def __init__(self, script: Any, settings: Settings = REAL) -> None:
        self.rig = Rig(script, settings=settings, now=clock)
        self.asked: list[float] = []
        self.looked: list[float] = []
        self.cancelled: list[float] = []

        async def ask(request: Any, number: int) -> None:
            self.asked.append(_time())

        async def look(number: int) -> None:
            self.looked.append(_time())

        async def cancel(number: int) -> None:
            self.cancelled.append(_time())

        self.rig.provider.before = ask
        self.rig.provider.before_poll = look
        self.rig.provider.before_cancel = cancel

    @property
    def gaps(self) -> list[float]:
        """The waits before each look."""
        times = [*self.asked[:1], *self.looked]
        return [round(later - earlier, 2) for earlier, later in itertools.pairwise(times)]

    async def generation(self) -> Any:
        return ((await self.rig.document("pi.live")) or {}).get("generation", {})

    async def checkpoint(self) -> Any:
        [task] = await self.rig.storage.live_tasks()
        return task["state"]["checkpoint"]

    async def waiting(self, looks: int = 0) -> None:
        """Until the run waits for its next look, after so many."""

        async def waits() -> bool:
            return "deferred" in await self.generation() and len(self.looked) >= looks

        await until(waits, 3600)

    async def end(self) -> None:
        await self.rig.check(idle=True)
        await self.rig.harness.close()


def _run(body: Callable[[], Awaitable[None]]) -> None:
    async def main() -> None:
        await body()

    run(main())


def _unreachable(kind: Any = "network", **more: Any) -> ModelError:
    return ModelError("strict: cannot be reached", kind, polled=True, **more)


def test_spec_9_an_answer_made_elsewhere_is_looked_for_when_its_provider_says() -> None:
    async def body() -> None:
        waits = iter([2.0, 3.0, 4.5, 90.0])
        polls = Polls(lambda request, index: say("made", defer=3, after=next(waits, 0.0)))
        await polls.rig.open()
        submission = await polls.rig.root.submit("go")
        await polls.waiting()
        at = (await polls.generation())["deferred"]["pollAt"]
        assert await polls.generation() == {"attempt": 1, "deferred": {"pollAt": at}}
        assert abs(at - clock() - 2000) < 50
        assert dict(await polls.checkpoint()) == {
            "phase": "poll",
            "attempt": 1,
            "model": {"provider": "strict", "modelId": "m"},
            "thinkingLevel": "off",
            "streamOptions": {},
            "cutoff": (await polls.checkpoint())["cutoff"],
            "handle": {"id": polls.rig.provider.posts[0]},
            "pollAt": at,
            "since": at - 2000,
        }
        assert (await submission.wait()).status == "done"
        assert polls.gaps == [2.0, 3.0, 4.5, 90.0] and len(polls.asked) == 1
        assert await polls.rig.transcript() == ["user: go", "ai: made"]
        usage = (await polls.rig.document("pi.usage"))["models"]["strict/m"]
        assert usage["totalTokens"] == 15, "one response, counted once"
        await polls.end()

    _run(body)


def test_spec_9_looks_that_fail_back_off_and_a_good_one_begins_anew() -> None:
    async def body() -> None:
        polls = Polls([say("made", defer=1, after=5.0)])
        polls.rig.provider.poll_faults = {n: _unreachable() for n in (1, 2, 3, 5)}
        await polls.rig.open()
        submission = await polls.rig.root.submit("go")
        await polls.waiting(3)
        await until(lambda: _failures(polls, 3), 3600)
        assert (await submission.wait()).status == "done"
        assert polls.gaps == [5, 2, 4, 8, 5, 2] and len(polls.asked) == 1
        assert [line for line in polls.rig.harness.reports if "cannot be reached" in line], "said once, in words"
        await polls.end()

    async def _failures(polls: Polls, count: int) -> bool:
        return (await polls.checkpoint()).get("failures") == count

    _run(body)


@pytest.mark.parametrize(("asked", "waited"), [(0.5, 0.5), (90.0, 90.0), (7200.0, 600.0)])
def test_p19_a_look_waits_as_long_as_the_server_asks_up_to_ten_minutes(asked: float, waited: float) -> None:
    async def body() -> None:
        polls = Polls([say("made", defer=0, after=1.0)])
        polls.rig.provider.poll_faults = {1: _unreachable("rate_limit", retry_after=asked)}
        await polls.rig.open()
        assert (await (await polls.rig.root.submit("go")).wait()).status == "done"
        assert polls.gaps == [1.0, waited]
        await polls.end()

    _run(body)


def test_spec_9_after_many_failed_looks_the_run_ends_and_nothing_is_asked_anew() -> None:
    async def body() -> None:
        polls = Polls([say("made", defer=0, after=1.0)])
        polls.rig.provider.poll_faults = {n: _unreachable() for n in range(1, 100)}
        await polls.rig.open()
        settled = await (await polls.rig.root.submit("go")).wait()
        assert (settled.status, settled.reason) == ("unanswered", "model_error")
        assert "cannot be reached" in (settled.detail or "") and "20 times" in (settled.detail or "")
        assert polls.gaps == [1, 2, 4, 8, 16, 32, *[60] * 14] and len(polls.asked) == 1
        await until(lambda: polls.cancelled)
        assert await polls.rig.transcript() == ["user: go", "ai:  (error)"]
        await polls.end()

    _run(body)


@pytest.mark.parametrize(("kind", "cancels"), [("not_found", 0), ("authentication", 1)])
def test_spec_9_a_look_that_cannot_succeed_ends_the_run_at_once(kind: Any, cancels: int) -> None:
    async def body() -> None:
        polls = Polls([say("made", defer=0, after=1.0)])
        polls.rig.provider.poll_faults = {1: ModelError("strict: no such response", kind, status=404, polled=True)}
        await polls.rig.open()
        settled = await (await polls.rig.root.submit("go")).wait()
        assert (settled.reason, settled.detail) == ("model_error", "strict: no such response")
        await asyncio.sleep(60)
        assert (len(polls.asked), len(polls.looked), len(polls.cancelled)) == (1, 1, cancels)
        await polls.end()

    _run(body)


def test_spec_9_a_look_that_breaks_off_is_made_again_and_a_broken_provider_ends_the_run() -> None:
    async def body() -> None:
        cut = iter([2, None])
        polls = Polls(lambda request, index: say("made", defer=0, chunks=4, cut=next(cut) if polls.looked else None))
        await polls.rig.open()
        assert (await (await polls.rig.root.submit("go")).wait()).status == "done"
        assert len(polls.asked) == 1 and polls.gaps == [0, 2]

        def broken(*_: Any) -> Any:
            raise RuntimeError("a bug")

        polls.rig.provider.script = lambda request, index: broken() if len(polls.looked) > 2 else say("x", defer=0)
        settled = await (await polls.rig.root.submit("again")).wait()
        assert settled.reason == "model_error" and "RuntimeError: a bug" in (settled.detail or "")
        assert len(polls.asked) == 2 and len(polls.looked) == 3
        await polls.end()

    _run(body)


def test_spec_9_an_answer_that_failed_is_another_attempt_with_another_key() -> None:
    async def body() -> None:
        fault = iter([ModelError("strict: the model broke", "server", usage=_usage(3)), None])
        polls = Polls(
            lambda request, index: say("made", defer=0, after=1.0, error=next(fault) if polls.looked else None)
        )
        await polls.rig.open()
        polls.rig.provider.before_poll = None
        polls.looked.append(0.0)  # the fault belongs to the first answer, whoever looks first
        fault = iter([None, ModelError("strict: the model broke", "server", usage=_usage(3)), None, None])
        assert (await (await polls.rig.root.submit("go")).wait()).status == "done"
        assert len(set(polls.rig.provider.posts)) == 2 and round(polls.asked[1] - polls.asked[0], 2) == 3.0
        assert len({request.key for request in polls.rig.provider.requests}) == 2
        stops = [
            entry["model"][0]["stopReason"] for entry in await polls.rig.entries() if entry["kind"] == "pi.assistant"
        ]
        assert stops == ["error", "stop"]
        assert (await polls.rig.document("pi.usage"))["models"]["strict/m"]["totalTokens"] == 18
        assert polls.cancelled == []
        await polls.end()

    _run(body)


def _usage(tokens: int) -> dict[str, Any]:
    cost = {"input": 0.0, "output": 0.0, "cacheRead": 0.0, "cacheWrite": 0.0, "total": 0.0}
    return {"input": tokens, "output": 0, "cacheRead": 0, "cacheWrite": 0, "totalTokens": tokens, "cost": cost}


def test_spec_9_a_refused_answer_ends_the_run_and_its_usage_counts() -> None:
    async def body() -> None:
        refused = ModelError("strict: content filter", "refused", usage=_usage(7))
        polls = Polls([say("the begin", defer=1, after=1.0, chunks=2, error=refused, error_after=1)])
        await polls.rig.open()
        settled = await (await polls.rig.root.submit("go")).wait()
        assert (settled.reason, settled.detail) == ("model_error", "strict: content filter")
        [entry] = [entry for entry in await polls.rig.entries() if entry["kind"] == "pi.assistant"]
        assert text_of(entry["model"][0]) == "the b" and entry["model"][0]["usage"]["totalTokens"] == 7
        assert (await polls.rig.document("pi.usage"))["models"]["strict/m"]["totalTokens"] == 7
        assert len(polls.asked) == 1 and polls.cancelled == []
        await polls.end()

    _run(body)


def test_spec_9_an_answer_cut_by_its_limit_is_an_answer() -> None:
    async def body() -> None:
        polls = Polls([say("half", defer=1, after=1.0, stop="length")])
        await polls.rig.open()
        assert (await (await polls.rig.root.submit("go")).wait()).status == "done"
        assert await polls.rig.transcript() == ["user: go", "ai: half (length)"]
        await polls.end()

    _run(body)


@pytest.mark.parametrize("how", ["abort", "stop"])
@pytest.mark.parametrize("hanging", [False, True])
@pytest.mark.parametrize("asking", [False, True])
def test_a03_a01_an_abort_ends_the_wait_and_the_look_at_once_and_cancels_the_answer(
    how: str, hanging: bool, asking: bool
) -> None:
    async def body() -> None:
        polls = Polls([say("made", defer=9, after=60.0)])
        await polls.rig.open()
        forever = asyncio.Event()
        if asking:
            polls.rig.provider.before_poll = lambda _: forever.wait()
        if hanging:
            polls.rig.provider.before_cancel = lambda _: forever.wait()
        submission = await polls.rig.root.submit("go")
        await asyncio.sleep(70.0 if asking else 1.0)
        assert len(polls.rig.provider.polls) == asking
        start = _time()
        await getattr(polls.rig.root, how)()
        settled = await submission.wait()
        assert (settled.status, settled.reason) == ("unanswered", "aborted") and _time() - start < 0.2
        posted = polls.rig.provider.posts
        assert polls.rig.provider.cancels == posted and polls.rig.provider.active == 0
        assert await polls.rig.transcript() == ["user: go", "ai:  (aborted)"]
        if not hanging:
            await asyncio.sleep(3600)
            assert polls.rig.harness.reports == [], "the user's own stop is no error"
        assert len(polls.asked) == 1 and len(polls.rig.provider.polls) == asking
        await polls.end()

    _run(body)


def test_spec_9_a_cancel_that_fails_is_tried_again_and_then_reported() -> None:
    async def body() -> None:
        polls = Polls([say("made", defer=9, after=60.0)])
        await polls.rig.open()
        down = [ModelError("strict: down", "network"), None]
        tries: list[float] = []

        async def cancel(number: int) -> None:
            tries.append(_time())
            fault = down[min(number, len(down)) - 1]
            if fault is not None:
                raise fault

        polls.rig.provider.before_cancel = cancel
        await polls.rig.root.submit("go")
        await polls.waiting()
        await polls.rig.root.abort()
        await asyncio.sleep(60)
        assert len(tries) == 2 and polls.rig.harness.reports == []
        down[:] = [ModelError("strict: down", "network")]
        await polls.rig.root.submit("again")
        await polls.waiting()
        await polls.rig.root.abort()
        await asyncio.sleep(60)
        assert len(tries) == 2 + len(cancelling.PAUSES) + 1
        [line] = polls.rig.harness.reports
        assert "may go on at strict" in line and "strict: down" in line
        await polls.end()

    _run(body)


def test_spec_13_closing_waits_for_a_cancel_and_not_for_ever() -> None:
    async def body() -> None:
        polls = Polls([say("made", defer=9, after=60.0)])
        await polls.rig.open()
        done: list[float] = []

        async def slow(number: int) -> None:
            await asyncio.sleep(2.0 if number == 1 else 1e6)
            done.append(_time())

        polls.rig.provider.before_cancel = slow
        for expected in (1, 1):
            submission = await polls.rig.root.submit("go")
            await polls.waiting()
            await polls.rig.root.stop()
            assert (await submission.wait()).reason == "aborted"
            start = _time()
            await polls.rig.close()
            assert len(done) == expected and _time() - start < 5
            await polls.rig.reopen()
            assert not await polls.rig.storage.live_tasks()
        await polls.end()

    _run(body)


def test_spec_9_an_abort_that_comes_before_the_handle_is_stored_cancels_too() -> None:
    async def body() -> None:
        polls = Polls([say("made", defer=9, after=60.0, delay=5.0)])
        await polls.rig.open()
        submission = await polls.rig.root.submit("go")
        await until(lambda: polls.rig.provider.posts)
        let_go = asyncio.Event()

        async def hold() -> None:
            async with polls.rig.harness.commit():
                await let_go.wait()

        holding = asyncio.create_task(hold())
        await asyncio.sleep(0.01)
        stopping = asyncio.create_task(polls.rig.root.stop())  # stands in line before the provider's reply does
        await asyncio.sleep(10.0)
        let_go.set()
        await asyncio.gather(holding, stopping)
        assert (await submission.wait()).reason == "aborted"
        await until(lambda: polls.cancelled)
        assert polls.rig.provider.cancels == polls.rig.provider.posts and polls.looked == []
        await polls.end()

    _run(body)


@pytest.mark.parametrize("away", [0.0, 1.0, 50.0])
@pytest.mark.parametrize("clean", [True, False])
def test_r06_the_next_look_comes_at_its_stored_time_after_reopening(away: float, clean: bool) -> None:
    async def body() -> None:
        polls = Polls([say("made", defer=1, after=10.0)])
        await polls.rig.open()
        submission = await polls.rig.root.submit("go", request_id="r")
        await polls.waiting(1)
        await asyncio.sleep(1.0)
        stored = await polls.generation()
        await (polls.rig.close() if clean else polls.rig.kill())
        await asyncio.sleep(away)
        await polls.rig.reopen()
        assert await polls.generation() == stored and polls.cancelled == []
        reopened = _time()
        assert (await (await polls.rig.harness.submission(submission.id)).wait()).status == "done"
        assert len(polls.asked) == 1 and len(polls.looked) == 2
        assert abs(polls.looked[1] - max(polls.looked[0] + 10.0, reopened)) < 0.05
        await polls.end()

    _run(body)


def test_r06_the_failed_looks_are_counted_on_after_reopening() -> None:
    async def body() -> None:
        settings = dataclasses.replace(REAL, max_poll_failures=4)
        polls = Polls([say("made", defer=0, after=1.0)], settings)
        polls.rig.provider.poll_faults = {n: _unreachable() for n in range(1, 100)}
        await polls.rig.open()
        submission = await polls.rig.root.submit("go", request_id="r")
        await polls.waiting(2)
        await asyncio.sleep(1.0)
        await polls.rig.crash()
        settled = await (await polls.rig.harness.submission(submission.id)).wait()
        assert settled.reason == "model_error" and "4 times" in (settled.detail or "") and len(polls.looked) == 4
        await polls.end()

    _run(body)


def test_spec_6_9_an_orphaned_run_leaves_no_answer_being_made() -> None:
    async def body() -> None:
        polls = Polls([say("made", defer=9, after=60.0)])
        await polls.rig.open()
        polls.rig.install(polls.rig.built_in("pi.generation", version=2))
        submission = await polls.rig.root.submit("go")
        await polls.waiting()
        [task] = await polls.rig.storage.live_tasks()
        polls.rig.harness._agent.toolbox.registry.uninstall("tasks")
        await polls.rig.harness.abort_task(task["id"])
        assert (await submission.wait()).reason == "task_too_old"
        await until(lambda: polls.cancelled)
        assert polls.rig.provider.cancels == polls.rig.provider.posts
        await polls.rig.harness.close()

    _run(body)


def test_spec_9_tools_follow_an_answer_made_elsewhere_and_each_turn_has_its_own_key() -> None:
    async def body() -> None:
        polls = Polls([call(("note", {"text": "a"}), defer=1, after=1.0), say("done", defer=1, after=1.0)])
        await polls.rig.open()
        assert (await (await polls.rig.root.submit("go")).wait()).status == "done"
        assert await polls.rig.transcript() == ["user: go", "call note", "result note: noted a", "ai: done"]
        assert polls.rig.effects.texts("note") == ["a"] and len(set(polls.rig.provider.posts)) == 2
        await polls.end()

    _run(body)
