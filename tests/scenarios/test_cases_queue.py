"""Cases of the queue at their exact inputs: a stop at every commit of a run, in both modes."""

from __future__ import annotations

import asyncio
from typing import Any, Literal

import pytest

from durable_tui.agent.settings import Settings
from tests.scenarios.conftest import Open
from tests.tools.invariants import check_history
from tests.tools.scenario import Rig
from tests.tools.strict_provider import call, say
from tests.tools.waiting import turns, until


def _script(request: Any, index: int) -> Any:
    if index == 0:
        return call(*(("seq", {"text": str(number), "seconds": 0.0}) for number in range(3)))
    return say(f"answer {index}")


def _stop_at(rig: Rig, number: int, moment: str, how: str) -> dict[str, Any]:
    """`abort()` or `stop()` before, while, or right after the store takes its n-th commit from now on."""
    inner, state = rig.storage.commit, {"count": 0, "stopping": None}

    async def commit(batch: Any) -> None:
        state["count"] += 1
        if state["count"] != number:
            await inner(batch)
            return
        if moment == "after":
            await inner(batch)
        state["stopping"] = asyncio.create_task(getattr(rig.root, how)())
        if moment == "before":
            await turns()
        if moment != "after":
            await inner(batch)

    rig.storage.commit = commit
    return state


@pytest.mark.parametrize("how", ["abort", "stop"])
@pytest.mark.parametrize("moment", ["before", "inside", "after"])
@pytest.mark.parametrize("mode", ["one_at_a_time", "all"])
async def test_q01_a_stop_at_any_commit_leaves_each_input_in_exactly_one_state(
    backend: str, opened: Open, mode: Literal["one_at_a_time", "all"], moment: str, how: str
) -> None:
    settings = Settings(
        steering_mode=mode, follow_up_mode=mode, base_delay=0, max_delay=0, partial_interval=0, output_interval=0
    )
    ends: set[str] = set()
    for number in range(1, 60, 1 if backend == "memory" else 3):
        rig = await opened(_script, settings=settings, record=backend == "memory")
        # The tools wait for nothing, so what is said reaches the queue only while the run is held here.
        state = _stop_at(rig, number + 3, moment, how)
        first = await rig.root.submit("go")
        steer = await rig.root.submit("S1", when_busy="steer")
        follow = await rig.root.submit("F1")
        texts = {first.id: "go", steer.id: "S1", follow.id: "F1"}

        async def stopped_or_over(rig: Rig = rig, state: dict[str, Any] = state) -> bool:
            return state["stopping"] is not None or not (rig.harness.inspect() or await rig.inbox())

        await until(stopped_or_over)
        if state["stopping"] is not None:
            await asyncio.wait_for(state["stopping"], 10)
        await rig.idle()
        inbox = [item["id"] for item in await rig.inbox()]
        said = [line.removeprefix("user: ") for line in await rig.transcript() if line.startswith("user")]
        for one, text in texts.items():
            record = await rig.storage.submission(one)
            where = f"{text} after commit {number}: {record}"
            assert (record["status"] == "queued") == (one in inbox), where
            assert said.count(text) == (record.get("entry") is not None), where
            assert record["status"] in ("done", "queued") or record["reason"] == "aborted", where
            assert (record["status"] == "queued") <= (how == "stop"), where
            ends.add(f"{text} {record['status']}")
        if rig.backend == "memory":
            assert not check_history(rig.storage.log)
        await rig.check(idle=how == "abort")
        if state["stopping"] is None:
            break
    else:
        raise AssertionError("the run never got past the stop")
    assert number > 8
    assert ends >= {"go done", "go unanswered", "S1 done", "F1 done"}
    assert ("F1 queued" if how == "stop" else "F1 unanswered") in ends, "and some were stopped while they waited"
