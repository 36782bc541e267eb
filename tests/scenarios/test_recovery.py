"""Recovery and its report (spec 10, 15), killed in process on every backend."""

from __future__ import annotations

import asyncio
import dataclasses
from typing import Any

import pytest

from durable_tui.models.provider import ModelError
from durable_tui.storage.errors import StorageRejected
from tests.scenarios.conftest import Open
from tests.tools.scenario import FAST, Rig, codes
from tests.tools.strict_provider import call, say
from tests.tools.waiting import a_while, until


async def _rows(rig: Rig, death: int = -1) -> list[Any]:
    deaths = (await _recovery(rig))["deaths"]
    return list(deaths[death]["tasks"]) if deaths else []


async def _recovery(rig: Rig) -> Any:
    return await rig.harness.recovery()


async def _killed_in(opened: Open, *calls: Any, tool: str, count: int = 1, answer: str = "done") -> Rig:
    rig = await opened([call(*calls), say(answer)])
    await rig.root.submit("go", request_id="r")
    await rig.effects.wait_started(tool, count)
    await until(lambda: len(rig.effects.read()) >= count)
    await rig.crash()
    return rig


async def test_r02_an_unsafe_tool_never_runs_again(opened: Open) -> None:
    """cases R02, UI-D03: killed between the effect and the commit of the result."""
    rig = await _killed_in(opened, ("gate", {"text": "g"}), tool="gate")
    await rig.harness.resume()
    await rig.idle()
    assert rig.effects.texts("gate") == ["g"]
    assert await rig.transcript() == [
        "user: go",
        "call gate",
        "error gate: <harness>\n[error] Tool gate was interrupted and may have partially run\n</harness>",
        "ai: done",
    ]
    assert codes(await rig.entries()) == ["interrupted"]
    rows = await _rows(rig)
    assert [(row["kind"], row["phase"], row["verdict"]) for row in rows] == [
        ("pi.generation", "tools", "woken"),
        ("pi.tool", "execute", "interrupted"),
    ]
    await rig.check(idle=True)


async def test_r02_a_safe_tool_runs_again(opened: Open) -> None:
    rig = await opened([call(("peek", {"text": "p"}), ("gate", {"text": "g"})), say("done")])
    stop = asyncio.Event()

    def hang(effect: Any) -> None:
        if effect.name == "peek" and not stop.is_set():
            stop.set()
            raise asyncio.CancelledError

    rig.effects.after = hang
    await rig.root.submit("go")
    await rig.effects.wait_started("gate")
    await until(stop.is_set)
    await rig.crash()
    rig.effects.after = None
    await rig.harness.resume()
    await rig.idle()
    assert rig.effects.texts("gate") == ["g"]
    await rig.check(idle=True)


async def test_spec_10_the_partial_output_of_an_interrupted_tool_is_kept(opened: Open) -> None:
    rig = await opened([call(("talk", {"text": "t", "lines": 500, "seconds": 0.01})), say("done")])
    await rig.root.submit("go")

    async def shown() -> bool:
        slots = (await rig.document("pi.live") or {}).get("tools", [])
        return bool(slots and "line 1" in slots[0].get("output", ""))

    await until(shown)
    await rig.crash()
    await rig.harness.resume()
    await rig.idle()
    result = next(line for line in await rig.transcript() if line.startswith("error talk"))
    assert result.startswith("error talk: t line 0\nt line 1\n") and "interrupted" in result
    await rig.check(idle=True)


async def test_r02_a_finished_result_is_used_and_never_recomputed(opened: Open) -> None:
    """case R02, killed after the commit."""
    rig = await _killed_in(opened, ("note", {"text": "n"}), ("gate", {"text": "g"}), tool="gate", count=1)
    rig.effects.gate("g").set()
    await rig.harness.resume()
    await rig.idle()
    assert rig.effects.texts("note") == ["n"]
    await rig.check(idle=True)


async def test_r01_an_interrupted_call_is_paired_and_the_conversation_goes_on(opened: Open) -> None:
    """cases R01, UI-R06, UI-R08: two parallel calls, one finished; then "continue", twice."""
    rig = await _killed_in(opened, ("note", {"text": "n"}), ("gate", {"text": "g"}), tool="gate")
    await rig.harness.resume()
    await rig.idle()
    before = await rig.entries()
    for text in ("continue", "and again"):
        assert (await (await rig.root.submit(text)).wait()).status == "done"
    assert (await rig.entries())[: len(before)] == before, "stored entries are not rewritten"
    await rig.check(idle=True)


async def test_r04_a_sequence_goes_on_after_the_interrupted_call(opened: Open) -> None:
    calls = [("seq", {"text": str(number), "seconds": 0.0}) for number in (1, 3, 4, 5)]
    calls.insert(1, ("gate", {"text": "2"}))
    rig = await opened([call(*calls), say("done")])
    await rig.root.submit("go")
    await rig.effects.wait_started("gate")
    await rig.crash()
    await rig.harness.resume()
    await rig.idle()
    lines = [line.partition(":")[0] for line in await rig.transcript() if line.startswith(("result", "error"))]
    assert lines == ["result seq", "error gate", "result seq", "result seq", "result seq"]
    assert rig.effects.texts() == ["1", "2", "3", "4", "5"]
    await rig.check(idle=True)


async def test_r04_a_raising_call_does_not_stop_the_sequence(opened: Open) -> None:
    calls = [("seq", {"text": str(number), "seconds": 0.0}) for number in (1, 3, 4, 5)]
    rig = await opened([call(calls[0], ("bug", {"text": "2"}), *calls[1:]), say("done")])
    assert (await (await rig.root.submit("go")).wait()).status == "done"
    lines = [line.partition(":")[0] for line in await rig.transcript() if line.startswith(("result", "error"))]
    assert lines == ["result seq", "error bug", "result seq", "result seq", "result seq"]
    assert codes(await rig.entries()) == ["tool_error"]
    await rig.check(idle=True)


async def test_ui_r04_a_pending_call_starts_without_a_warning(opened: Open) -> None:
    """Killed between the commit of the calls and the intent: `restarted`, no error."""
    rig = await opened([call(("note", {"text": "n"})), say("done")])
    dead = rig.dies_at(
        lambda batch, number: any(
            task["kind"] == "pi.tool" and task["state"].get("checkpoint", {}).get("phase") == "execute"
            for task in batch.tasks
        )
    )
    submission = await rig.root.submit("go", request_id="r")
    await asyncio.wait_for(dead.wait(), 10)
    await rig.crash()
    assert [(row["kind"], row["phase"]) for row in await _rows(rig)] == [
        ("pi.generation", "tools"),
        ("pi.tool", "call"),
    ]
    assert all("verdict" not in row for row in await _rows(rig)), "nothing is decided before scheduling starts"
    await rig.harness.resume()
    await rig.idle()
    assert [row["verdict"] for row in await _rows(rig)] == ["woken", "restarted"]
    assert rig.effects.texts("note") == ["n"] and codes(await rig.entries()) == []
    record = await rig.storage.submission(submission.id)
    assert record["status"] == "done"
    await rig.check(idle=True)


@pytest.mark.parametrize("deltas", [0, 1, 20])
async def test_r09_killed_while_streaming(opened: Open, deltas: int) -> None:
    """The partial stays visible as aborted and is not in the next request (at 0 deltas also case UI-R09)."""
    rig = await opened([say("abcdefghijklmnopqrstuvwxyz", chunks=26, pace=0.004)])
    submission = await rig.root.submit("go", request_id="r")
    await rig.provider.wait_requests(1)

    async def streamed() -> bool:
        live = await rig.document("pi.live") or {}
        content = (live.get("generation", {}).get("message") or {}).get("content", [])
        return sum(len(block.get("text", "")) for block in content) >= deltas

    await until(streamed)
    await rig.crash()
    row = (await _rows(rig))[0]
    assert (row["kind"], row["phase"]) == ("pi.generation", "request")
    await rig.harness.resume()
    await rig.idle()
    assert (await _rows(rig))[0]["verdict"] == "resent"
    lines = await rig.transcript()
    assert lines[-1] == "ai: abcdefghijklmnopqrstuvwxyz"
    if deltas:
        assert lines[1].startswith("ai: a") and lines[1].endswith("(aborted)")
    assert [m["role"] for m in rig.provider.requests[-1].messages] == ["user"]
    assert (await (await rig.root.submit("go on")).wait()).status == "done"
    assert (await rig.storage.submission(submission.id))["status"] == "done"
    await rig.check(idle=True)


async def test_r06_the_attempt_and_its_time_survive(opened: Open) -> None:
    """Killed in the wait before the third attempt: the stored time is kept, the count goes on."""
    settings = dataclasses.replace(FAST, base_delay=0.2, max_delay=10.0)
    down = ModelError("down", "network")
    rig = await opened([say("x", error=down)], settings=settings)
    submission = await rig.root.submit("go", request_id="r")

    async def waiting() -> bool:
        live = await rig.document("pi.live") or {}
        return bool(live.get("generation", {}).get("retry")) and len(rig.provider.requests) == 2

    await until(waiting)
    before = (await rig.document("pi.live"))["generation"]
    await rig.crash()
    assert (await rig.document("pi.live"))["generation"]["retry"]["at"] == before["retry"]["at"]
    row = (await _rows(rig))[0]
    assert row["phase"] == "retry"
    await rig.harness.resume()
    await rig.idle()
    assert (await _rows(rig))[0]["verdict"] == "resumed"
    assert len(rig.provider.requests) == 1 + settings.max_retries
    record = await rig.storage.submission(submission.id)
    assert (record["status"], record["reason"]) == ("unanswered", "model_error") and "down" in record["detail"]
    await rig.check(idle=True)


async def test_r06_after_a_failed_run_the_next_input_sends_no_failed_message(opened: Open) -> None:
    def script(request: object, index: int) -> object:
        if request.messages[-1]["role"] == "toolResult":  # type: ignore[attr-defined]
            return say("partial", chunks=7, error=ModelError("down", "network"), error_after=3)
        return call(("note", {"text": "n"})) if index == 0 else say("better")

    rig = await opened(script)
    first = await (await rig.root.submit("go")).wait()
    assert (first.status, first.reason) == ("unanswered", "model_error")
    assert (await (await rig.root.submit("go on")).wait()).status == "done"
    roles = [message["role"] for message in rig.provider.requests[-1].messages]
    assert roles == ["user", "assistant", "toolResult", "user"]
    assert rig.effects.texts("note") == ["n"]
    assert len([line for line in await rig.transcript() if line.endswith("(error)")]) == 4
    await rig.check(idle=True)


@pytest.mark.parametrize("failing", [1, 2, 3])
async def test_r07_a_rejected_commit_during_recovery_strands_nothing(opened: Open, failing: int) -> None:
    calls = [("gate", {"text": str(number)}) for number in range(10)]
    rig = await opened([call(*calls), say("done")])
    submission = await rig.root.submit("go", request_id="r")
    await rig.effects.wait_started("gate", 10)
    await rig.kill()
    opens = rig.storage if rig.backend == "memory" else None
    count = 0

    def fail_once(storage: Any) -> None:
        nonlocal count
        inner = storage.commit

        async def commit(batch: Any) -> None:
            nonlocal count
            count += 1
            if count == failing:
                raise StorageRejected("the database is locked")
            await inner(batch)

        storage.commit = commit

    if opens is None:
        from durable_tui.storage import SqliteStorage

        assert rig.path is not None
        opens = await SqliteStorage.open(rig.path, durability="process")
    fail_once(opens)
    try:
        await rig.open(opens)
    except StorageRejected:
        if rig.backend == "memory":
            await rig.open(opens.crash())
        else:
            await opens.abandon()
            await rig.open()
    await rig.harness.resume()
    await rig.idle()
    record = await rig.storage.submission(submission.id)
    assert record["status"] == "done"
    assert count >= failing, "the refusal was met"
    assert codes(await rig.entries()) == ["interrupted"] * 10
    await rig.check(idle=True)


async def test_r08_a_task_between_two_steps_goes_on_by_itself(opened: Open) -> None:
    """Killed right after each commit of a whole run: reopening and resuming is all it takes."""
    total = 0
    for dies_after in range(1, 40):
        rig = await opened([call(("note", {"text": "n"})), say("done")])
        dead = rig.dies_at(lambda batch, number, last=dies_after: number > last)
        submission = await rig.root.submit("go", request_id="r")
        waiting = asyncio.create_task(submission.wait())
        dying = asyncio.create_task(dead.wait())
        await asyncio.wait({waiting, dying}, return_when=asyncio.FIRST_COMPLETED, timeout=10)
        finished = not dead.is_set()
        dying.cancel()
        await asyncio.gather(waiting, dying, return_exceptions=True)
        await rig.crash()
        await rig.harness.resume()
        await rig.idle()
        assert (await rig.storage.submission(submission.id))["status"] == "done"
        assert len(rig.effects.texts("note")) <= 1
        await rig.check(idle=True)
        total += 1
        if finished:
            break
    assert total > 5


async def test_ui_r01_every_unfinished_task_gets_exactly_one_verdict(opened: Open) -> None:
    rig = await _killed_in(
        opened, ("gate", {"text": "a"}), ("gate", {"text": "b"}), ("peek", {"text": "c"}), tool="gate", count=2
    )
    found = await _rows(rig)
    live = [task["id"] for task in await rig.storage.live_tasks()]
    assert [row["taskId"] for row in found] == live and all("verdict" not in row for row in found)
    await rig.harness.resume()
    await rig.idle()
    rows = await _rows(rig)
    assert [row["taskId"] for row in rows] == live and all("verdict" in row for row in rows)
    commits = {row.seq for row in await rig.storage.commits()}
    assert all(row["seq"] in commits and row["rule"] for row in rows)
    assert not (await rig.document("pi.live")).get("tools")
    await rig.check(idle=True)


async def test_spec_15_a_second_death_during_recovery_leaves_undecided_rows(opened: Open) -> None:
    rig = await _killed_in(opened, ("gate", {"text": "a"}), tool="gate")
    await rig.crash()
    deaths = (await _recovery(rig))["deaths"]
    assert len(deaths) == 2 and [death["foundBy"] for death in deaths] == [deaths[1]["epoch"], deaths[1]["epoch"] + 1]
    assert [row["taskId"] for row in deaths[0]["tasks"]] == [row["taskId"] for row in deaths[1]["tasks"]]
    await rig.harness.resume()
    await rig.idle()
    first, second = await _rows(rig, 0), await _rows(rig, 1)
    assert all("verdict" not in row for row in first) and all("verdict" in row for row in second)
    await rig.check(idle=True)


async def test_spec_15_a_clean_reopen_writes_no_death_and_goes_on(opened: Open) -> None:
    rig = await opened([call(("gate", {"text": "a"})), say("done")])
    submission = await rig.root.submit("go", request_id="r")
    await rig.effects.wait_started("gate")
    await rig.close()
    await rig.reopen()
    assert [death["ended"] for death in (await _recovery(rig))["deaths"]] == ["closed"], "it ended a call, and no life"
    await rig.harness.resume()
    await rig.idle()
    assert (await rig.storage.submission(submission.id))["status"] == "done"
    assert rig.effects.texts("gate") == ["a"]
    await rig.check(idle=True)


async def test_spec_15_terminal_work_never_runs_again(opened: Open) -> None:
    rig = await opened([call(("note", {"text": "a"})), say("done")])
    await (await rig.root.submit("go")).wait()
    await rig.idle()
    before = await rig.transcript()
    for _ in range(3):
        await rig.crash()
        await rig.harness.resume()
        await rig.idle()
    assert await rig.transcript() == before and len(rig.provider.requests) == 2
    assert rig.effects.texts("note") == ["a"]
    await rig.check(idle=True)


async def test_spec_7_reading_and_watching_start_nothing(opened: Open) -> None:
    rig = await _killed_in(opened, ("gate", {"text": "a"}), tool="gate")
    requests = len(rig.provider.requests)
    rig.harness.inspect()
    async for frame in rig.root.watch():
        assert frame.value["run"]
        break
    await rig.root.entries()
    await a_while()
    assert len(rig.provider.requests) == requests
    assert all("verdict" not in row for row in await _rows(rig))
    await rig.check()


async def test_spec_6_11_five_deaths_in_one_step_park_the_task(opened: Open) -> None:
    rig = await opened([call(("peek", {"text": "a"}), ("gate", {"text": "b"})), say("done")])
    rig.provider.before = None
    rig.script = [say("x", delay=3600)]
    rig.provider.script = rig.script
    submission = await rig.root.submit("go", request_id="r")
    await rig.provider.wait_requests(1)
    for death in range(5):
        await rig.crash()
        await rig.harness.resume()
        if death < 4:
            await rig.provider.wait_requests(death + 2)
    await until(lambda: [row.get("blocked") for row in rig.harness.inspect()] == ["restart_limit"])
    await a_while()
    assert len(rig.provider.requests) == 5, "over the limit nothing is sent"
    rows = rig.harness.inspect()
    assert (await _rows(rig))[-1]["verdict"] == "gaveUp"
    assert (await rig.storage.submission(submission.id))["status"] == "placed"
    rig.provider.script = [say("at last")]
    await rig.harness.retry_task(rows[0]["id"])
    await rig.idle()
    assert (await rig.storage.submission(submission.id))["status"] == "done"
    await rig.check(idle=True)


async def test_spec_6_11_progress_clears_the_count(opened: Open) -> None:
    script = [call(("gate", {"text": str(number)}), ids=[f"g{number}"]) for number in range(7)]
    rig = await opened([*script, say("done")])
    submission = await rig.root.submit("go", request_id="r")
    for number in range(7):
        await rig.effects.wait_started("gate", number + 1)
        await rig.crash()
        await rig.harness.resume()
    await rig.idle()
    assert (await rig.storage.submission(submission.id))["status"] == "done"
    assert rig.effects.texts("gate") == [str(number) for number in range(7)]
    await rig.check(idle=True)


async def test_ui_d04_a_call_id_is_answered_once_across_many_deaths(opened: Open) -> None:
    rig = await opened([call(("note", {"text": "a"}), ("gate", {"text": "b"})), say("done", delay=0.05)])
    await rig.root.submit("go", request_id="r")
    await rig.effects.wait_started("gate")
    for _ in range(4):
        await rig.crash()
        await rig.harness.resume()
        await asyncio.sleep(0.01)
    await rig.idle()
    results = [line for line in await rig.transcript() if line.startswith(("result", "error"))]
    assert len(results) == 2 and rig.effects.texts() == ["a", "b"]
    await rig.check(idle=True)
