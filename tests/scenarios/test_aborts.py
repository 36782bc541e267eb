"""Stop and abort (spec 6.8; cases A)."""

from __future__ import annotations

import asyncio
import dataclasses
import time

import pytest

from durable_tui.agent.extension import Extension, ToolCall, tool
from durable_tui.models.provider import ModelError
from tests.scenarios.conftest import Open
from tests.tools.effects import Text
from tests.tools.scenario import FAST, codes
from tests.tools.strict_provider import call, say
from tests.tools.waiting import until


async def test_a01_abort_in_the_wait_before_a_retry(opened: Open) -> None:
    settings = dataclasses.replace(FAST, base_delay=60.0, max_delay=60.0)
    rig = await opened([say("x", error=ModelError("down", "network"))], settings=settings)
    submission = await rig.root.submit("go")

    async def waiting() -> bool:
        return "retry" in ((await rig.document("pi.live")) or {}).get("generation", {})

    await until(waiting)
    start = time.monotonic()
    await rig.root.abort()
    settled = await submission.wait()
    assert time.monotonic() - start < 2.0
    assert (settled.status, settled.reason) == ("unanswered", "aborted")
    assert len(rig.provider.requests) == 1
    await rig.check(idle=True)


@pytest.mark.parametrize("how", ["abort", "stop"])
async def test_a01_abort_while_the_model_streams(opened: Open, how: str) -> None:
    rig = await opened([say("slowly but surely", chunks=17, pace=0.05)])
    submission = await rig.root.submit("go")

    async def streaming() -> bool:
        return "message" in ((await rig.document("pi.live")) or {}).get("generation", {})

    await until(streaming)
    await getattr(rig.root, how)()
    settled = await asyncio.wait_for(submission.wait(), 5)
    assert (settled.status, settled.reason) == ("unanswered", "aborted")
    await rig.idle()
    lines = await rig.transcript()
    assert lines[0] == "user: go" and all(line.endswith("(aborted)") for line in lines[1:])
    assert (await (await rig.root.submit("again")).wait()).status == "done"
    await rig.check(idle=True)


async def test_spec_6_8_a_running_tool_is_cancelled_and_has_its_aborted_result(opened: Open) -> None:
    rig = await opened([call(("gate", {"text": "g"}), ("note", {"text": "n"})), say("done")])
    submission = await rig.root.submit("go")
    await rig.effects.wait_started("gate")

    async def noted() -> bool:
        return "result note: n" in await rig.transcript() or any(
            task["state"]["status"] == "terminal" for task in await rig.storage.tasks() if task["kind"] == "pi.tool"
        )

    await until(noted)
    await rig.root.abort()
    settled = await submission.wait()
    assert (settled.status, settled.reason) == ("unanswered", "aborted")
    assert codes(await rig.entries()) == ["aborted"]
    outcomes = {task["kind"]: [] for task in await rig.storage.tasks()}
    for task in await rig.storage.tasks():
        outcomes[task["kind"]].append(task["state"]["outcome"]["status"])
    assert outcomes == {"pi.generation": ["aborted"], "pi.tool": ["aborted", "completed"]}
    ended = {task["kind"]: task["endedAt"] for task in await rig.storage.tasks()}
    assert ended["pi.generation"] >= ended["pi.tool"]
    assert (await (await rig.root.submit("again")).wait()).status == "done"
    await rig.check(idle=True)


async def test_spec_6_8_abort_withdraws_inputs_and_keeps_writes(opened: Open) -> None:
    rig = await opened([call(("gate", {"text": "g"})), say("done")])
    await rig.root.submit("go")
    await rig.effects.wait_started("gate")
    follow = await rig.root.submit("later")
    write = await rig.root.write("pi.user", model=[{"role": "user", "content": "note", "timestamp": 1}])
    await rig.root.abort()
    settled = await follow.wait()
    assert (settled.status, settled.reason) == ("unanswered", "aborted")
    assert [item["id"] for item in await rig.inbox()] == [write.id]
    await rig.check()


@pytest.mark.parametrize("calls", [2, 4])
async def test_spec_6_8_calls_that_never_started_are_synthesised(opened: Open, calls: int) -> None:
    first = ("gate", {"text": "g"})
    rest = [("seq", {"text": str(number)}) for number in range(calls - 1)]
    rig = await opened([call(first, *rest), say("done")])
    await rig.root.submit("go")
    await rig.effects.wait_started("gate")
    await rig.root.abort()
    assert (await (await rig.root.submit("again")).wait()).status == "done"
    assert rig.effects.texts("seq") == []
    await rig.check(idle=True)


async def test_spec_6_8_a_crash_after_the_mark_still_ends_aborted(opened: Open) -> None:
    rig = await opened([call(("stubborn", {"seconds": 5.0})), say("done")])
    submission = await rig.root.submit("go", request_id="r")
    await rig.effects.wait_started("stubborn")
    stopping = asyncio.create_task(rig.root.stop())

    async def marked() -> bool:
        return any(task["abortRequested"] for task in await rig.storage.live_tasks())

    await until(marked)
    crashing = asyncio.create_task(rig.crash())
    await asyncio.wait({stopping}, timeout=10)
    stopping.cancel()
    await asyncio.gather(stopping, return_exceptions=True)
    await crashing
    await rig.harness.resume()
    await rig.idle()
    record = await rig.storage.submission(submission.id)
    assert (record["status"], record["reason"]) == ("unanswered", "aborted")
    assert len(rig.provider.requests) == 1
    rows = (await rig.harness.recovery())["deaths"][-1]["tasks"]
    assert {row["verdict"] for row in rows} == {"aborted"}
    await rig.check(idle=True)


async def test_a04_the_outcome_is_decided_by_one_commit(backend: str, opened: Open) -> None:
    rig = await opened(lambda request, index: say("done"))
    rounds = 200 if backend == "memory" else 60
    alone = 0.0  # seconds of the last undisturbed run
    both = set()
    for number in range(rounds):
        submission = await rig.root.submit(f"t{number}")
        await asyncio.sleep(alone * (number % 30) / 10)  # from the start of a run to well after its end
        await rig.root.abort()
        settled = await asyncio.wait_for(submission.wait(), 10)
        assert settled.status == "done" or settled.reason == "aborted"
        both.add(settled.status)
        began = time.monotonic()
        following = await (await rig.root.submit(f"n{number}")).wait()
        alone = time.monotonic() - began
        assert following.status == "done", "an abort hit the next run"
    assert both == {"done", "unanswered"}
    await rig.check(idle=True)


async def test_a07_a_raising_tool_aborts_the_conversation_it_owns(opened: Open) -> None:
    """case A07, a tool that raises: the owned child is aborted before the call's result is final."""
    made: list[int] = []

    @tool
    async def delegate(args: Text, call: ToolCall) -> str:
        """Own a conversation that works, then fail."""
        async with call.commit() as tx:
            record = tx.create_conversation(owner={"conversationId": call.conversation_id, "taskId": call.task_id})
            made.append(record["id"])
        raise KeyError("a bug")

    rig = await opened(
        [call(("delegate", {"text": "x"})), say("done")], extensions=[Extension("delegates", tools=[delegate])]
    )
    settled = await (await rig.root.submit("go")).wait()
    assert settled.status == "done" and made
    await rig.idle()
    assert codes(await rig.entries()) == ["tool_error"]
    await rig.check(idle=True)


async def test_spec_6_8_closing_never_writes_outcomes(opened: Open) -> None:
    rig = await opened([call(("gate", {"text": "g"})), say("done")])
    submission = await rig.root.submit("go", request_id="r")
    await rig.effects.wait_started("gate")
    await rig.close()
    await rig.reopen()
    live = await rig.storage.live_tasks()
    assert [task["kind"] for task in live] == ["pi.generation", "pi.tool"]
    assert live[1]["state"]["checkpoint"]["phase"] == "execute"
    assert (await rig.storage.submission(submission.id))["status"] == "placed"
    await rig.harness.resume()
    await rig.idle()
    await rig.check(idle=True)
