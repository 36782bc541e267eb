"""Answers made in the background, over deaths and reopenings (spec 9, 15; cases A03, R05, R06)."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest

from durable_tui.models.models import Models
from durable_tui.models.provider import ModelRequest, StreamEvent
from durable_tui.views.events import Events
from tests.scenarios.conftest import Open
from tests.tools.scenario import Rig, codes
from tests.tools.strict_provider import call, say
from tests.tools.waiting import until

LONG = 3600.0  # seconds that no test waits for


async def _deferred(rig: Rig) -> bool:
    return "deferred" in ((await rig.document("pi.live")) or {}).get("generation", {})


async def _row(rig: Rig) -> Any:
    """The newest recovery row of the run."""
    [row] = (await rig.harness.recovery())["deaths"][-1]["tasks"]
    return row


async def test_r05_the_same_attempt_is_sent_again_with_the_same_key_before_its_handle_is_stored(opened: Open) -> None:
    rig = await opened([say("made", defer=1, delay=LONG)])
    submission = await rig.root.submit("go", request_id="r")
    await until(lambda: rig.provider.posts)
    await rig.crash()
    rig.provider.script = [say("made", defer=1)]
    await rig.harness.resume()
    await rig.idle()
    assert (await rig.harness.submission(submission.id)).record["status"] == "done"
    first, second = rig.provider.requests
    assert first.key == second.key and first.key.endswith("-1"), "one answer, whoever sends for it"
    assert rig.provider.posts == [rig.provider.posts[0]] * 2
    assert (await _row(rig))["verdict"] == "resent"
    await rig.check(idle=True)


@pytest.mark.parametrize("asking", [False, True])
async def test_spec_9_and_15_once_the_handle_is_stored_recovery_only_polls(opened: Open, asking: bool) -> None:
    """Three deaths, waiting or asking each time: one request in all."""
    rig = await opened([say("made", defer=9, after=0.0 if asking else LONG)])
    forever = asyncio.Event()
    if asking:
        rig.provider.before_poll = lambda _: forever.wait()
    submission = await rig.root.submit("go", request_id="r")
    for death in range(1, 4):
        await until(lambda: _deferred(rig))
        if asking:
            await rig.provider.wait_polls(death)
        await rig.crash()
        row = await _row(rig)
        assert (row["phase"], row["doing"]) == (
            "poll",
            "waiting for m's answer, made at strict",
        ) and "verdict" not in row
        await rig.harness.resume()

        async def decided() -> bool:
            return (await _row(rig)).get("verdict") == "resumed"

        await until(decided)
    assert bool(rig.provider.polls) == asking
    await rig.kill()
    rig.provider.before_poll = None
    rig.provider.script = [say("made", defer=0)]
    if not asking:
        later = 1_700_000_000_000_000
        rig.now = lambda: later
    await rig.reopen()
    await rig.harness.resume()
    await rig.idle()
    assert (await rig.harness.submission(submission.id)).record["status"] == "done"
    assert len(rig.provider.requests) == len(rig.provider.posts) == 1 and rig.provider.cancels == []
    assert set(rig.provider.polls) == set(rig.provider.posts)
    assert await rig.transcript() == ["user: go", "ai: made"]
    await rig.check(idle=True)


async def test_spec_9_a_death_between_the_answer_and_its_commit_looks_again(opened: Open) -> None:
    rig = await opened([call(("note", {"text": "n"}), defer=0), say("done", defer=0)])
    dead = rig.dies_at(lambda batch, number: any(entry["kind"] == "pi.assistant" for entry in batch.entries))
    await rig.root.submit("go", request_id="r")
    await asyncio.wait_for(dead.wait(), 10)
    await rig.crash()
    await rig.harness.resume()
    await rig.idle()
    assert len(rig.provider.requests) == 2 and len(rig.provider.polls) == 3
    assert rig.effects.texts("note") == ["n"]
    assert await rig.transcript() == ["user: go", "call note", "result note: noted n", "ai: done"]
    await rig.check(idle=True)


async def test_spec_6_8_a_crash_in_the_abort_cancels_again(opened: Open) -> None:
    rig = await opened([say("made", defer=9, after=LONG)])
    submission = await rig.root.submit("go", request_id="r")
    await until(lambda: _deferred(rig))
    dead = rig.dies_at(lambda batch, number: any("outcome" in task["state"] for task in batch.tasks))
    await rig.root.stop()
    await asyncio.wait_for(dead.wait(), 10)
    assert len(rig.provider.cancels) == 1
    await rig.crash()
    [task] = await rig.storage.live_tasks()
    assert task["abortRequested"]
    await rig.harness.resume()
    await rig.idle()
    record = (await rig.harness.submission(submission.id)).record
    assert (record["status"], record["reason"]) == ("unanswered", "aborted")
    assert rig.provider.cancels == rig.provider.posts * 2 and rig.provider.polls == []
    assert (await _row(rig))["verdict"] == "aborted"
    assert await rig.transcript() == ["user: go", "ai:  (aborted)"]
    await rig.check(idle=True)


async def test_a03_a_crash_or_a_close_is_no_abort(opened: Open) -> None:
    rig = await opened([say("made", defer=9, after=LONG)])
    await rig.root.submit("go", request_id="r")
    await until(lambda: _deferred(rig))
    await rig.close()
    await rig.reopen()
    await rig.harness.resume()
    await until(lambda: rig.harness.inspect()[0].get("blocked") == "poll")
    await rig.crash()
    assert rig.provider.cancels == [] and len(rig.provider.posts) == 1
    await rig.root.abort()
    assert rig.provider.cancels == rig.provider.posts
    await rig.check(idle=True)


@pytest.mark.parametrize("how", ["conversation", "task", "submission"])
async def test_a03_every_way_to_abort_a_waiting_run_cancels_its_answer(opened: Open, how: str) -> None:
    rig = await opened([say("made", defer=9, after=LONG)])
    submission = await rig.root.submit("go")
    await until(lambda: _deferred(rig))
    if how == "conversation":
        await rig.root.abort()
    elif how == "task":
        [task] = await rig.storage.live_tasks()
        await rig.harness.abort_task(task["id"])
    else:
        assert await submission.abort() == "already_placed", "only what is queued is withdrawn"
        await rig.root.stop()
    assert (await submission.wait()).reason == "aborted"
    await rig.idle()
    assert rig.provider.cancels == rig.provider.posts
    rig.provider.script = [say("made", defer=0)]
    assert (await (await rig.root.submit("again")).wait()).status == "done"
    await rig.check(idle=True)


async def test_spec_8_3_what_is_said_meanwhile_is_queued_and_placed_after_the_answer(opened: Open) -> None:
    ready = asyncio.Event()
    rig = await opened(
        lambda request, index: say(
            f"answer {index}", defer=0, hold=ready if index == 0 else None, after=0.0
        )
    )  # fmt: skip
    first = await rig.root.submit("go")
    await rig.provider.wait_polls(1)
    steer = await rig.root.submit("steer me", when_busy="steer")
    follow = await rig.root.submit("follow me")
    write = await rig.root.write("pi.user", model=[{"role": "user", "content": "a note", "timestamp": 1}])
    assert [item["mode"] for item in await rig.inbox()] == ["steer", "followUp", "write"]
    ready.set()
    for submission in (first, steer, follow, write):
        assert (await submission.wait()).status == "done"
    assert await rig.transcript() == [
        "user: go",
        "ai: answer 0",
        "user: a note",
        "user: steer me",
        "user: follow me",
        "ai: answer 1",
    ]
    await rig.check(idle=True)


async def test_spec_8_4_a_steer_goes_in_after_the_tools_of_an_answer_made_elsewhere(opened: Open) -> None:
    ready = asyncio.Event()
    rig = await opened([call(("note", {"text": "n"}), defer=0, hold=ready), say("done", defer=1)])
    first = await rig.root.submit("go")
    await rig.provider.wait_polls(1)
    await rig.root.submit("steer me", when_busy="steer")
    ready.set()
    assert (await first.wait()).status == "done"
    lines = await rig.transcript()
    assert lines == ["user: go", "call note", "result note: noted n", "user: steer me", "ai: done"]
    await rig.check(idle=True)


async def test_spec_8_5_a_stop_parks_what_was_queued_meanwhile(opened: Open) -> None:
    rig = await opened([say("made", defer=9, after=LONG)])
    await rig.root.submit("go")
    await until(lambda: _deferred(rig))
    follow = await rig.root.submit("later")
    await rig.root.stop()
    await rig.idle()
    assert [item.get("parked") for item in await rig.inbox()] == [True]
    rig.provider.script = [say("x", defer=0)]
    await rig.root.release()
    assert (await follow.wait()).status == "done"
    await rig.check(idle=True)


class _Streams:
    """A provider of the same name that knows nothing of the background."""

    name = "strict"
    api = "scripted"

    async def stream(self, request: ModelRequest) -> AsyncIterator[StreamEvent]:
        raise AssertionError("nothing is asked anew")
        yield

    async def close(self) -> None:
        pass


@pytest.mark.parametrize(
    ("models", "words"),
    [
        (Models([_Streams()]), "strict: its API cannot ask for a deferred answer"),
        (Models(), "there is no provider 'strict'"),
    ],
)
async def test_spec_9_a_provider_that_is_gone_ends_the_run_in_clear_words(
    opened: Open, models: Models, words: str
) -> None:
    rig = await opened([say("made", defer=9, after=0.05)])
    submission = await rig.root.submit("go", request_id="r")
    await until(lambda: _deferred(rig))
    await rig.kill()
    known, rig.provider = rig.provider, models  # type: ignore[assignment]
    await rig.reopen()
    settled = await (await rig.harness.submission(submission.id)).wait()
    assert (settled.status, settled.reason) == ("unanswered", "model_error")
    assert (settled.detail or "").startswith(f"the answer made in the background cannot be fetched: {words}")
    rig.provider = known
    assert len(rig.provider.posts) == 1
    await rig.check(idle=True)


async def test_spec_6_9_a_faulted_run_leaves_no_answer_being_made(opened: Open) -> None:
    rig = await opened([say("made", defer=9, after=0.0)])
    rig.provider.before_poll = lambda _: asyncio.sleep(0.01)
    submission = await rig.root.submit("go")
    await rig.provider.wait_polls(1)
    found = rig.harness._agent.models.resolve
    rig.provider.resolve = lambda name: found(name + 1)  # type: ignore[method-assign, operator]
    settled = await submission.wait()
    assert settled.reason == "faulted"
    await until(lambda: rig.provider.cancels)
    assert rig.provider.cancels == rig.provider.posts
    del rig.provider.resolve
    await rig.check(idle=True)


async def test_spec_17_6_the_events_of_an_answer_made_elsewhere(opened: Open) -> None:
    rig = await opened([say("made", defer=2, after=0.005, chunks=3)])
    events, watch = Events(), rig.harness.watch(rig.root.id)
    seen = events.feed(await anext(watch))

    async def follow() -> None:
        async for frame in watch:
            seen.extend(events.feed(frame))

    following = asyncio.create_task(follow())
    assert (await (await rig.root.submit("go")).wait()).status == "done"
    await until(lambda: any(event["type"] == "run_end" for event in seen))
    await watch.aclose()
    await following
    kinds = [event["type"] for event in seen if event["type"] not in ("submission", "usage_changed")]
    assert kinds == [
        "snapshot",
        *("entry_appended", "run_start", "turn_start", "entry_appended"),  # the input, then the prompt
        *("deferred_poll", "deferred_poll", "deferred_poll"),
        *("message_start", "message_end", "entry_appended", "turn_end", "run_end"),
    ]
    times = [event["pollAt"] for event in seen if event["type"] == "deferred_poll"]
    assert times == sorted(set(times)) and len(times) == 3
    await rig.check(idle=True)


async def test_spec_9_partials_shown_before_the_provider_defers_are_no_answer(opened: Open) -> None:
    from durable_tui.models.provider import BlockDelta, BlockStart, Deferred

    rig = await opened([say("made", defer=1)])
    stream = rig.provider.stream
    shown = asyncio.Event()

    async def chatty(request: ModelRequest) -> AsyncIterator[StreamEvent]:
        yield BlockStart(0, {"type": "text", "text": ""})
        yield BlockDelta(0, "I will")
        await shown.wait()
        async for event in stream(request):
            assert isinstance(event, Deferred)
            yield event

    rig.provider.stream = chatty  # type: ignore[method-assign]
    submission = await rig.root.submit("go")

    async def partial() -> bool:
        return "message" in ((await rig.document("pi.live")) or {}).get("generation", {})

    await until(partial)
    shown.set()
    assert (await submission.wait()).status == "done"
    assert await rig.transcript() == ["user: go", "ai: made"]
    await rig.check(idle=True)


async def test_spec_6_12_deaths_while_it_waits_are_no_restarts_and_cost_no_other_request(opened: Open) -> None:
    """The wait holds no invocation: nothing was at work that could be to blame for a death."""
    rig = await opened([say("made", defer=9, after=LONG)])
    submission = await rig.root.submit("go", request_id="r")
    await until(lambda: _deferred(rig))
    for _ in range(6):
        await until(lambda: rig.harness.inspect()[0].get("blocked") == "poll")
        await rig.crash()
        await rig.harness.resume()
    await until(lambda: rig.harness.inspect()[0].get("blocked") == "poll")
    assert "restarts" not in rig.harness.inspect()[0]

    async def resumed() -> bool:
        return bool((await _row(rig)).get("verdict") == "resumed")

    await until(resumed)
    rig.provider.script = [say("made", defer=0)]
    later = 1_700_000_000_000_000
    rig.harness._session.now = lambda: later
    rig.harness._engine.wake()
    assert (await (await rig.harness.submission(submission.id)).wait()).status == "done"
    assert len(rig.provider.posts) == 1
    await rig.check(idle=True)


async def test_spec_9_hooks_see_an_answer_made_elsewhere_as_any_other(opened: Open) -> None:
    from durable_tui.agent.extension import Extension

    asked: list[str] = []
    answered: list[Any] = []

    async def before(request: ModelRequest) -> None:
        asked.append(request.key)

    async def after(message: Any) -> Any:
        answered.append(message["content"][0]["text"])
        return {**message, "content": [{"type": "text", "text": "changed"}]}

    async def on_yield(answer: Any) -> Any:
        return "go on" if len(answered) == 1 else None

    hooks = {"beforeRequest": before, "afterResponse": after, "onYield": on_yield}
    rig = await opened(
        lambda request, index: say(f"answer {index}", defer=1), extensions=[Extension("h", hooks=hooks)]
    )  # fmt: skip
    assert (await (await rig.root.submit("go")).wait()).status == "done"
    assert answered == ["answer 0", "answer 1"] and len(asked) == 2, "a request is prepared once, looks are none"
    assert await rig.transcript() == ["user: go", "ai: changed", "user: go on", "ai: changed"]
    assert codes(await rig.entries()) == []
    await rig.check(idle=True)
