"""Submissions and the inbox (spec 8), and the queue cases."""

from __future__ import annotations

import asyncio
import random
from typing import Any

import pytest

from durable_tui import ConversationBusy
from durable_tui.agent.inbox import admit_input
from durable_tui.agent.settings import Settings
from durable_tui.engine.task_record import mark_for_abort
from durable_tui.models.provider import ModelError
from tests.scenarios.conftest import Open
from tests.tools.scenario import Rig, describe
from tests.tools.strict_provider import call, say
from tests.tools.waiting import until


def echo(request: object, index: int) -> object:
    """Answers the newest message with its own words."""
    last = request.messages[-1]  # type: ignore[attr-defined]
    content = last["content"]
    text = content if isinstance(content, str) else content[0]["text"]
    return say(f"re {text}")


async def test_spec_8_1_same_request_id_same_submission(opened: Open) -> None:
    rig = await opened(echo)
    first = await rig.root.submit("hello", request_id="r-1")
    again = await rig.root.submit("other text", request_id="r-1")
    assert again.id == first.id
    await first.wait()
    after = await rig.root.submit("hello", request_id="r-1", when_busy="reject")
    assert after.id == first.id and (await after.wait()).answer == (await first.wait()).answer
    assert len(rig.provider.requests) == 1
    await rig.check(idle=True)


async def test_spec_8_1_a_write_may_not_reuse_the_id_of_an_input(opened: Open) -> None:
    rig = await opened(echo)
    await (await rig.root.submit("hello", request_id="r-1")).wait()
    with pytest.raises(Exception, match="r-1"):
        await rig.root.write("pi.user", model=[{"role": "user", "content": "note", "timestamp": 1}], request_id="r-1")
    await rig.check(idle=True)


async def test_q05_one_request_id_makes_one_turn_whatever_happens(opened: Open) -> None:
    rig = await opened([say("once")])
    both = await asyncio.gather(*(rig.root.submit("hello", request_id="r-1") for _ in range(5)))
    assert len({one.id for one in both}) == 1
    settled = await both[0].wait()
    await rig.crash()
    again = await rig.root.submit("hello", request_id="r-1")
    assert again.id == both[0].id
    assert (await again.wait()).answer == settled.answer
    assert len(rig.provider.requests) == 1
    await rig.check(idle=True)


async def test_q05_after_a_crash_between_admission_and_reply(opened: Open) -> None:
    rig = await opened([say("once", delay=0.2)])
    first = await rig.root.submit("hello", request_id="r-1")
    await rig.crash()
    again = await rig.root.submit("hello", request_id="r-1")
    assert again.id == first.id and (await again.wait()).status == "done"
    assert [line for line in await rig.transcript() if line.startswith("user")] == ["user: hello"]
    await rig.check(idle=True)


async def test_spec_8_2_an_idle_input_is_placed_and_started_in_one_commit(opened: Open) -> None:
    rig = await opened([say("hi", delay=0.05)])
    before = (await rig.storage.commits(reverse=True, limit=1))[0].seq
    submission = await rig.root.submit("hello")
    record = await rig.storage.submission(submission.id)
    assert record["status"] == "placed"
    entry = await rig.storage.entry(record["entry"])
    live = await rig.document("pi.live")
    assert live["run"]["inputs"] == [submission.id]
    commits = await rig.storage.commits(after=before)
    assert commits[0].seq == entry.seq
    await submission.wait()
    await rig.check(idle=True)


async def test_spec_8_2_an_idle_write_is_done_at_once(opened: Open) -> None:
    rig = await opened(echo)
    write = await rig.root.write("pi.user", model=[{"role": "user", "content": "a note", "timestamp": 1}])
    settled = await write.wait()
    assert settled.status == "done" and not rig.provider.requests
    await (await rig.root.submit("hello")).wait()
    assert await rig.transcript() == ["user: a note", "user: hello", "ai: re hello"]
    await rig.check(idle=True)


async def test_spec_8_3_reject_leaves_no_trace(opened: Open) -> None:
    rig = await opened([call(("gate", {"text": "g"})), say("done")])
    submission = await rig.root.submit("go")
    await rig.effects.wait_started("gate")
    before = len(await rig.storage.submissions())
    with pytest.raises(ConversationBusy):
        await rig.root.submit("no", when_busy="reject", request_id="r-9")
    assert len(await rig.storage.submissions()) == before
    rig.effects.gate("g").set()
    await submission.wait()
    await rig.check(idle=True)


async def test_spec_8_3_steer_after_the_tools_and_follow_up_after_the_answer(opened: Open) -> None:
    def script(request: object, index: int) -> object:
        return call(("gate", {"text": "g"})) if index == 0 else echo(request, index)

    rig = await opened(script)
    first = await rig.root.submit("go")
    await rig.effects.wait_started("gate")
    follow = await rig.root.submit("later")
    steer = await rig.root.submit("now", when_busy="steer")
    assert [(item["id"], item["mode"]) for item in await rig.inbox()] == [(follow.id, "followUp"), (steer.id, "steer")]
    rig.effects.gate("g").set()
    await rig.idle()
    assert await rig.transcript() == [
        "user: go",
        "call gate",
        "result gate: through g",
        "user: now",
        "ai: re now",
        "user: later",
        "ai: re later",
    ]
    one, two = await first.wait(), await steer.wait()
    assert one.answer == two.answer and (await follow.wait()).answer > one.answer
    await rig.check(idle=True)


@pytest.mark.parametrize("mode", ["one_at_a_time", "all"])
async def test_spec_8_4_one_or_all_at_a_boundary_in_id_order(opened: Open, mode: str) -> None:
    def script(request: object, index: int) -> object:
        return call(("gate", {"text": "g"})) if index == 0 else say(f"answer {index}")

    settings = Settings(steering_mode=mode, follow_up_mode=mode, base_delay=0)  # type: ignore[arg-type]
    rig = await opened(script, settings=settings)
    await rig.root.submit("go")
    await rig.effects.wait_started("gate")
    for text in ("s1", "s2"):
        await rig.root.submit(text, when_busy="steer")
    for text in ("f1", "f2"):
        await rig.root.submit(text)
    rig.effects.gate("g").set()
    await rig.idle()
    said = [line for line in await rig.transcript() if line.startswith(("user", "ai"))]
    if mode == "all":
        assert said == ["user: go", "user: s1", "user: s2", "ai: answer 1", "user: f1", "user: f2", "ai: answer 2"]
    else:
        assert said == [
            "user: go",
            "user: s1",
            "ai: answer 1",
            "user: s2",
            "user: f1",
            "ai: answer 2",
            "user: f2",
            "ai: answer 3",
        ]
    await rig.check(idle=True)


async def test_spec_8_4_writes_come_first_at_a_boundary(opened: Open) -> None:
    rig = await opened([call(("gate", {"text": "g"})), say("done")])
    await rig.root.submit("go")
    await rig.effects.wait_started("gate")
    await rig.root.submit("steer", when_busy="steer")
    write = await rig.root.write("pi.user", model=[{"role": "user", "content": "note", "timestamp": 1}])
    assert (await rig.storage.submission(write.id))["status"] == "queued"
    rig.effects.gate("g").set()
    await rig.idle()
    said = [line for line in await rig.transcript() if line.startswith("user")]
    assert said == ["user: go", "user: note", "user: steer"]
    assert (await write.wait()).status == "done"
    await rig.check(idle=True)


async def test_q04_results_stay_together_and_other_messages_follow_in_order(opened: Open) -> None:
    rig = await opened([call(("note", {"text": "a"}), ("gate", {"text": "g"})), say("done")])
    await rig.root.submit("go")
    await rig.effects.wait_started("gate")
    await until(lambda: rig.effects.texts("note") == ["a"])
    await rig.root.submit("steer", when_busy="steer")
    await rig.root.write("pi.user", model=[{"role": "user", "content": "note", "timestamp": 1}])
    rig.effects.gate("g").set()
    await rig.idle()
    roles = [message["role"] for message in rig.provider.requests[-1].messages]
    assert roles == ["user", "assistant", "toolResult", "toolResult", "user", "user"]
    assert [m["toolName"] for m in rig.provider.requests[-1].messages[2:4]] == ["note", "gate"]
    await rig.check(idle=True)


async def _parked(opened: Open) -> Rig:
    def script(request: object, index: int) -> object:
        last = request.messages[-1]  # type: ignore[attr-defined]
        return call(("gate", {"text": "g"})) if last.get("content") == "go" else echo(request, index)

    rig = await opened(script)
    await rig.root.submit("go")
    await rig.effects.wait_started("gate")
    await rig.root.submit("p1")
    await rig.root.submit("p2", when_busy="steer")
    await rig.root.stop()
    await rig.idle()
    return rig


async def test_spec_8_5_stop_parks_the_queue_and_a_new_input_goes_first(opened: Open) -> None:
    rig = await _parked(opened)
    assert [(item["content"], item.get("parked")) for item in await rig.inbox()] == [("p1", True), ("p2", True)]
    settled = await (await rig.root.submit("new")).wait()
    assert settled.status == "done"
    await rig.idle()
    assert [item["content"] for item in await rig.inbox()] == ["p1", "p2"]
    await rig.root.release()
    await rig.idle()
    assert [line for line in await rig.transcript() if line.startswith("user")] == ["user: go", "user: new", "user: p1"]
    await rig.root.release()
    await rig.idle()
    assert await rig.inbox() == [] and (await rig.transcript())[-1] == "ai: re p2"
    await rig.check()


async def test_ui_q01_parked_items_survive_a_crash_and_reopening_releases_nothing(opened: Open) -> None:
    rig = await _parked(opened)
    await rig.crash()
    await rig.harness.resume()
    await rig.idle()
    assert [(item["content"], item.get("parked")) for item in await rig.inbox()] == [("p1", True), ("p2", True)]
    items = await rig.inbox()
    await rig.root.release(items[1]["id"])
    await rig.idle()
    assert [item["content"] for item in await rig.inbox()] == ["p1"]
    assert (await rig.transcript())[-1] == "ai: re p2"
    await rig.check()


@pytest.mark.parametrize("how", ["submit", "release"])
async def test_ui_q01_what_comes_while_the_run_is_being_stopped_is_answered(opened: Open, how: str) -> None:
    """Esc, and at once a new input or Enter on the empty composer: the tool still takes its time to end."""

    def script(request: object, index: int) -> object:
        last = request.messages[-1]  # type: ignore[attr-defined]
        return call(("stubborn", {"seconds": 0.1})) if last.get("content") == "go" else echo(request, index)

    rig = await opened(script)
    await rig.root.submit("go")
    await rig.effects.wait_started("stubborn")
    parked = await rig.root.submit("parked")
    await rig.root.stop()
    if how == "release":
        assert await rig.root.release() == parked.id
        wanted = parked
    else:
        wanted = await rig.root.submit("new")
    assert (await asyncio.wait_for(wanted.wait(), 10)).status == "done"
    await rig.idle()
    assert [item["content"] for item in await rig.inbox()] == ([] if how == "release" else ["parked"])
    await rig.check()


async def test_spec_8_5_an_input_during_the_stop_is_answered_after_a_crash_too(opened: Open) -> None:
    rig = await opened(lambda request, index: call(("stubborn", {"seconds": 5.0})) if index == 0 else say("ok"))
    await rig.root.submit("go")
    await rig.effects.wait_started("stubborn")
    await rig.root.submit("parked")
    await rig.root.stop()
    new = await rig.root.submit("new")
    await rig.crash()
    await rig.harness.resume()
    await rig.idle()
    assert (await rig.storage.submission(new.id))["status"] == "done"
    assert [item["content"] for item in await rig.inbox()] == ["parked"]
    await rig.check()


async def test_ui_q05_queued_items_can_be_edited_moved_promoted_withdrawn(opened: Open) -> None:
    def script(request: object, index: int) -> object:
        return call(("gate", {"text": "g"})) if index == 0 else echo(request, index)

    rig = await opened(script)
    await rig.root.submit("go")
    await rig.effects.wait_started("gate")
    items = [await rig.root.submit(text) for text in ("a", "b", "c", "d")]
    await rig.root.edit_item(items[0].id, "A")
    await rig.root.move_item(items[2].id, 0)
    await rig.root.promote_item(items[3].id)
    await rig.root.withdraw(items[1].id)
    assert [(item["content"], item["mode"]) for item in await rig.inbox()] == [
        ("c", "followUp"),
        ("A", "followUp"),
        ("d", "steer"),
    ]
    gone = await items[1].wait()
    assert (gone.status, gone.reason) == ("unanswered", "aborted")
    rig.effects.gate("g").set()
    await rig.idle()
    said = [line for line in await rig.transcript() if line.startswith("user")]
    assert said[:2] == ["user: go", "user: d"] and sorted(said[2:]) == ["user: A", "user: c"]
    with pytest.raises(Exception, match=r"\w"):
        await rig.root.edit_item(items[0].id, "too late")
    await rig.check(idle=True)


async def test_spec_8_6_abort_says_what_became_of_it(opened: Open) -> None:
    rig = await opened([call(("gate", {"text": "g"})), say("done")])
    first = await rig.root.submit("go")
    await rig.effects.wait_started("gate")
    queued = await rig.root.submit("later")
    assert await queued.abort() == "withdrawn"
    assert await queued.abort() == "settled"
    assert await first.abort() == "already_placed"
    rig.effects.gate("g").set()
    assert (await first.wait()).status == "done"
    assert await first.abort() == "settled"
    settled = await queued.wait()
    assert (settled.status, settled.reason) == ("unanswered", "aborted")
    await rig.check(idle=True)


async def test_spec_8_6_cancelling_a_wait_cancels_only_the_wait(opened: Open) -> None:
    rig = await opened([call(("gate", {"text": "g"})), say("done")])
    submission = await rig.root.submit("go")
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(submission.wait(), 0.02)
    await rig.effects.wait_started("gate")
    rig.effects.gate("g").set()
    assert (await submission.wait()).status == "done"
    await rig.check(idle=True)


async def test_spec_8_4_a_failed_run_leaves_the_inbox_alone_and_order_holds(opened: Open) -> None:
    """cases Q09, UI-Q12: after the failure the older follow-ups run before the new input."""

    def script(request: object, index: int) -> object:
        if request.messages[-1]["role"] == "toolResult":  # type: ignore[attr-defined]
            return say("x", error=ModelError("no credit", "quota"))
        return call(("gate", {"text": "g"})) if index == 0 else echo(request, index)

    rig = await opened(script)
    first = await rig.root.submit("go")
    await rig.effects.wait_started("gate")
    for text in ("f1", "f2", "f3"):
        await rig.root.submit(text)
    await rig.crash()
    assert [item["content"] for item in await rig.inbox()] == ["f1", "f2", "f3"]
    first = await rig.harness.submission(first.id)
    await rig.harness.resume()
    settled = await first.wait()
    assert (settled.status, settled.reason) == ("unanswered", "model_error") and "no credit" in settled.detail
    await rig.idle()
    assert [item["content"] for item in await rig.inbox()] == ["f1", "f2", "f3"]
    await rig.root.submit("new")
    await rig.idle()
    said = [line for line in await rig.transcript() if line.startswith("user")]
    assert said == ["user: go", "user: f1", "user: f2", "user: f3", "user: new"]
    await rig.check()


async def test_q01_abort_around_the_boundary_never_loses_a_message(opened: Open) -> None:
    def script(request: object, index: int) -> object:
        if index == 0:
            calls = [("seq", {"text": str(number), "seconds": 0.002}) for number in range(3)]
            return call(*calls)
        return echo(request, index)

    for round_number in range(12):
        rig = await opened(script)
        await rig.root.submit("go")
        await rig.effects.wait_started("seq")
        steer = await rig.root.submit("S1", when_busy="steer")
        follow = await rig.root.submit("F1")
        await asyncio.sleep(round_number * 0.002)
        await rig.check()
        await rig.root.abort()
        await rig.check()
        for one in (steer, follow):
            settled = await asyncio.wait_for(one.wait(), 10)
            said = await rig.transcript()
            placed = f"user: {'S1' if one is steer else 'F1'}" in said
            assert settled.status == "done" or (settled.reason == "aborted"), settled
            assert placed == (settled.entry is not None)
        await rig.check(idle=True)


async def test_q03_a_follow_up_at_the_end_of_a_run_is_always_answered(backend: str, opened: Open) -> None:
    rig = await opened(echo)
    seed = random.randrange(1 << 30)
    print(f"seed {seed}")
    rng = random.Random(seed)
    rounds = 120 if backend == "memory" else 40
    for number in range(rounds):
        first = await rig.root.submit(f"a{number}")
        steps = rng.randrange(40)
        for _ in range(steps):
            await asyncio.sleep(0)
        second = await rig.root.submit(f"b{number}")
        for one in (first, second):
            assert (await asyncio.wait_for(one.wait(), 10)).status == "done", f"seed {seed}"
    await rig.idle()
    assert await rig.inbox() == []
    await rig.check(idle=True)


async def test_q03_a_follow_up_from_the_watch_of_the_final_entry(opened: Open) -> None:
    rig = await opened(echo)
    seen: list[int] = []

    async def watch() -> None:
        async for frame in rig.root.watch():
            last = frame.value["entries"][-1] if len(frame.value["entries"]) else None
            if last is not None and last["kind"] == "pi.assistant" and last["id"] not in seen:
                seen.append(last["id"])
                if len(seen) == 10:
                    return
                await rig.root.submit(f"more {len(seen)}")

    watching = asyncio.create_task(watch())
    await rig.root.submit("start")
    await asyncio.wait_for(watching, 20)
    await rig.idle()
    assert await rig.inbox() == []
    await rig.check(idle=True)


async def test_q08_a_cancelled_submit_writes_nothing_or_is_there(opened: Open) -> None:
    rig = await opened(echo)
    await rig.harness.wait_for_idle()
    for number in range(20):
        task = asyncio.create_task(rig.root.submit(f"t{number}", request_id=f"r{number}"))
        for _ in range(number):
            await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
            raise asyncio.CancelledError
        await rig.check()
    await rig.idle()
    entries = [line for entry in await rig.entries() for line in describe(entry) if line.startswith("user")]
    stored = await rig.storage.submissions()
    assert len(entries) == len(stored)
    await rig.check(idle=True)


async def test_q09_three_follow_ups_survive_in_order(opened: Open) -> None:
    def script(request: object, index: int) -> object:
        return call(("gate", {"text": "g"})) if index == 0 else echo(request, index)

    rig = await opened(script)
    await rig.root.submit("go")
    await rig.effects.wait_started("gate")
    for text in ("f1", "f2", "f3"):
        await rig.root.submit(text)
    await rig.crash()
    assert [item["content"] for item in await rig.inbox()] == ["f1", "f2", "f3"]
    await rig.harness.resume()
    await rig.idle()
    said = [line for line in await rig.transcript() if line.startswith("user")]
    assert said == ["user: go", "user: f1", "user: f2", "user: f3"]
    await rig.check(idle=True)


async def test_q10_a_follow_up_typed_while_streaming_sorts_after_the_answer(opened: Open) -> None:
    rig = await opened([say("answer A", chunks=8, pace=0.01), say("answer F")])
    await rig.root.submit("first")
    await rig.provider.wait_requests(1)
    follow = await rig.root.submit("F1")
    queued_at = (await rig.storage.commits(reverse=True, limit=1))[0].at
    await rig.idle()
    expected = ["user: first", "ai: answer A", "user: F1", "ai: answer F"]
    assert await rig.transcript() == expected
    entry = await rig.storage.entry((await follow.wait()).entry)
    assert entry.record["model"][0]["timestamp"] >= queued_at
    await rig.crash()
    assert await rig.transcript() == expected
    await rig.check(idle=True)


async def test_spec_16_the_draft_is_cleared_in_the_commit_that_admits(opened: Open) -> None:
    rig = await opened(echo)
    await rig.root.set_draft("hello wor")
    await rig.crash()
    assert await _draft(rig) == "hello wor"
    submission = await rig.root.submit("hello world", clear_draft=True)
    assert await _draft(rig) == ""
    assert (await submission.wait()).status == "done"
    await rig.check(idle=True)


async def _draft(rig: Rig) -> str:
    return str(((await rig.document("dt.draft")) or {"text": ""})["text"])


async def test_spec_8_5_what_came_during_a_stop_starts_with_its_end_and_is_then_a_queue_like_any(opened: Open) -> None:
    """One run at a time: the second and third input wait for the answer of the first, and a reset starts them once."""

    def script(request: Any, index: int) -> Any:
        last = request.messages[-1]
        if last["role"] != "user":
            return say("after the gate")
        return {"go": say("slow", delay=3600), "A": call(("gate", {"text": "g"}))}.get(last["content"], say("heard"))

    rig = await opened(script)
    await rig.root.submit("go")
    await rig.provider.wait_requests(1)
    [row] = rig.harness.inspect()
    async with rig.harness.commit() as tx:  # as by a stop and what is said before it has ended
        draft = await rig.harness._agent.conversations.load(tx, rig.root.id)
        mark_for_abort(tx, [row["id"]])
        records = [admit_input(draft, text, when_busy="follow_up", request_id=text) for text in ("A", "B", "C")]
    assert [item.get("afterStop") for item in await rig.inbox()] == [True, True, True]
    rig.harness._engine.signal_abort([row["id"]])
    queued = [await rig.harness.submission(record["id"]) for record in records]
    await rig.effects.wait_started("gate")
    assert [item.get("afterStop") for item in await rig.inbox()] == [None, None]
    await rig.root.write("pi.reset", head="self")
    rig.effects.gate("g").set()
    for submission in queued[1:]:
        assert (await asyncio.wait_for(submission.wait(), 10)).status == "done"
    await rig.idle()
    await rig.check(idle=True)
