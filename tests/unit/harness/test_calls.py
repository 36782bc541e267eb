"""One tool call from its arguments to its result: limits, progress, hooks, wrappers, what goes wrong (spec 10, 12)."""

from __future__ import annotations

import asyncio
import dataclasses
import itertools
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import pytest
from pydantic import BaseModel

from durable_tui.agent.extension import Extension, Tool, ToolCall, ToolError, ToolResult, tool
from durable_tui.ground.bounded_text import MARGIN_BYTES, MARGIN_LINES
from durable_tui.storage import MemoryStorage
from tests.tools.effects import Text
from tests.tools.faults import Fault, FaultyStorage
from tests.tools.scenario import FAST, Rig, codes
from tests.tools.schedules import clock, run
from tests.tools.strict_provider import call, say
from tests.tools.waiting import a_while, turns, until

Made = Callable[..., Awaitable[Rig]]


@pytest.fixture
async def made() -> AsyncIterator[Made]:
    """`rig = await made(calls, *extensions)`: one round of calls, then "done"."""
    rigs: list[Rig] = []

    async def make(calls: list[tuple[str, Any]], *extensions: Extension, **options: Any) -> Rig:
        rig = Rig([call(*calls), say("done")], extensions=list(extensions), **options)
        rigs.append(rig)
        return await rig.open()

    yield make
    for rig in rigs:
        await rig.harness.close()
        assert not rig.provider.violations


async def _go(rig: Rig) -> list[Any]:
    """Run to the answer; the tool results' messages."""
    settled = await asyncio.wait_for((await rig.root.submit("go")).wait(), 10)
    assert settled.status == "done", settled
    await rig.idle()
    await rig.check(idle=True)
    return [entry["model"][0] for entry in await rig.entries() if entry["kind"] == "pi.tool-result"]


async def _tool_tasks(rig: Rig) -> list[Any]:
    return [task for task in await rig.storage.tasks() if task["kind"] == "pi.tool"]


def _tool(name: str, run: Callable[..., Awaitable[Any]], **more: Any) -> Extension:
    built = Tool(
        name, f"The {name} tool.", {"type": "object", "properties": {}}, run, more.pop("validate", dict), **more
    )
    return Extension(name, tools=[built])


# -- results ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("keep", ["head", "tail"])
@pytest.mark.parametrize("lines", [2000, 2000 + MARGIN_LINES, 3000])
async def test_spec_10_lines_over_the_limit_are_dropped_counted_and_reported(made: Made, keep: Any, lines: int) -> None:
    async def many(args: Any, call: ToolCall) -> str:
        return "".join(f"line {number}\n" for number in range(lines))

    (result,) = await _go(rig := await made([("many", {})], _tool("many", many, keep=keep)))
    text = result["content"][0]["text"]
    limit = 2000 + MARGIN_LINES
    kept = min(lines, limit)
    assert text.count("\n") == kept
    assert text.startswith("line 0\n") == (keep == "head" or lines <= limit)
    assert text.endswith(f"line {lines - 1}\n") == (keep == "tail" or lines <= limit)
    entry = next(entry for entry in await rig.entries() if entry["kind"] == "pi.tool-result")
    if lines > limit:
        (diagnostic,) = entry["data"]["diagnostics"]
        assert diagnostic["code"] == "output_limited" and f"{lines - kept} lines" in diagnostic["message"]
    else:
        assert "data" not in entry


async def test_spec_10_bytes_over_the_limit_are_dropped_without_cutting_a_character(made: Made) -> None:
    async def wide(args: Any, call: ToolCall) -> str:
        return "漢" * 60_000 + "END"

    (result,) = await _go(await made([("wide", {})], _tool("wide", wide)))
    text = result["content"][0]["text"]
    assert len(text.encode()) <= 50 * 1024 + MARGIN_BYTES and text.endswith("END")
    assert set(text) == set("漢END")


@pytest.mark.parametrize(
    ("answer", "status", "error"),
    [
        (ToolResult("fine"), "completed", False),
        (ToolResult("wrong", is_error=True), "completed", True),
        (ToolError("no good"), "failed", True),
        (KeyError("a bug"), "failed", True),
        (asyncio.CancelledError(), "failed", True),
        (ToolResult("odd", details={"n": float("nan")}), "failed", True),
        (ToolResult([{"type": "text"}]), "failed", True),
        (ToolResult(b"bytes"), "failed", True),  # type: ignore[arg-type]
    ],
    ids=["text", "returned error", "ToolError", "bug", "unasked cancellation", "NaN", "block without text", "bytes"],
)
async def test_spec_10_what_a_tool_returns_or_raises_becomes_its_result(
    made: Made, answer: Any, status: str, error: bool
) -> None:
    async def any_way(args: Any, call: ToolCall) -> Any:
        if isinstance(answer, BaseException):
            raise answer
        return answer

    rig = await made([("any_way", {})], _tool("any_way", any_way))
    (result,) = await _go(rig)
    assert result["isError"] is error
    (task,) = await _tool_tasks(rig)
    assert task["state"]["outcome"]["status"] == status
    if status == "failed":
        assert codes(await rig.entries()) == ["tool_error"] and "[error] Tool any_way" in result["content"][0]["text"]


async def test_spec_10_diagnostics_details_and_usage_are_in_the_result(made: Made) -> None:
    usage = {
        "input": 1,
        "output": 2,
        "cacheRead": 0,
        "cacheWrite": 0,
        "totalTokens": 3,
        "cost": {"input": 0.0, "output": 0.1, "cacheRead": 0.0, "cacheWrite": 0.0, "total": 0.1},
    }

    async def rich(args: Any, call: ToolCall) -> ToolResult:
        call.diagnostic("warn", "careful", "odd")
        return ToolResult("x", details={"a": 1}, usage=usage, diagnostics=[{"severity": "info", "message": "note"}])

    rig = await made([("rich", {})], _tool("rich", rich))
    (result,) = await _go(rig)
    assert result["details"] == {"a": 1} and result["usage"]["totalTokens"] == 3 and result["durationMs"] >= 0
    entry = next(entry for entry in await rig.entries() if entry["kind"] == "pi.tool-result")
    assert [item["message"] for item in entry["data"]["diagnostics"]] == ["careful", "note"]
    assert (await rig.document("pi.usage"))["tools"]["rich"]["totalTokens"] == 3
    assert (await rig.harness.usage())["totalTokens"] == 33


@pytest.mark.parametrize("full", [False, True])
def test_spec_3_6_a_result_waits_for_a_store_that_refuses_for_a_while(full: bool) -> None:
    """What happened is not lost to refusals that pass: five seconds without, an hour with a full disk."""

    async def body() -> None:
        until = 0.0

        def plan(number: int, batch: Any) -> Fault | None:
            refused = asyncio.get_running_loop().time() < until
            return Fault("full" if full else "reject") if refused else None

        rig = Rig([call(("gate", {"text": "g"})), say("done")], now=clock)
        await rig.open(FaultyStorage(MemoryStorage(), plan))
        submission = await rig.root.submit("go")
        await rig.effects.wait_started("gate")
        until = asyncio.get_running_loop().time() + (3600.0 if full else 5.0)
        rig.effects.gate("g").set()
        assert (await submission.wait()).status == "done"
        assert "result gate: through g" in await rig.transcript() and codes(await rig.entries()) == []
        await rig.idle()
        await rig.check(idle=True)
        await rig.harness.close()

    run(body())


# -- arguments, hooks, wrappers --------------------------------------------------------------------------------------


class Count(BaseModel):
    number: int


async def test_spec_10_unavailable_invalid_and_blocked_calls_settle_without_an_intent(made: Made) -> None:
    ran: list[str] = []

    @tool
    async def count(args: Count, call: ToolCall) -> str:
        """Count."""
        ran.append("count")
        return "counted"

    async def guard(value: Any) -> Any:
        return {"block": "not today"} if value["tool"] == "note" else None

    calls = [("nowhere", {}), ("count", {"number": "many"}), ("note", {"text": "x"})]
    rig = await made(calls, Extension("e", tools=[count], hooks={"beforeTool": guard}), record=True)
    results = await _go(rig)
    assert [result["isError"] for result in results] == [True] * 3 and ran == [] and rig.effects.read() == []
    assert sorted(codes(await rig.entries())) == ["blocked", "invalid_arguments", "tool_unavailable"]
    assert "not today" in str(results) and "number" in str(results)
    assert isinstance(rig.storage, MemoryStorage)
    phases = [task["state"].get("checkpoint", {}).get("phase") for batch in rig.storage.log for task in batch.tasks]
    assert "execute" not in phases


async def test_spec_10_repair_then_hooks_in_order_then_validation_again(made: Made) -> None:
    seen: list[Any] = []

    @tool(repair=lambda arguments: {"number": int(arguments["number"])})
    async def count(args: Count, call: ToolCall) -> str:
        """Count."""
        return f"counted {args.number}"

    async def first(value: Any) -> Any:
        seen.append(("first", value["arguments"]))
        return {"arguments": {"number": 5}}

    async def second(value: Any) -> Any:
        seen.append(("second", value["arguments"]))

    rig = await made(
        [("count", {"number": "3"})],
        Extension("a", tools=[count], hooks={"beforeTool": first}),
        Extension("b", hooks={"beforeTool": second}),
        record=True,
    )
    (result,) = await _go(rig)
    assert result["content"][0]["text"] == "counted 5"
    assert seen == [("first", {"number": 3}), ("second", {"number": 5})]
    checkpoints = [task["state"].get("checkpoint", {}) for batch in rig.storage.log for task in batch.tasks]
    assert {"phase": "execute", "arguments": {"number": 5}, "replay": "unsafe"} in checkpoints


@pytest.mark.parametrize("arguments", [{"number": "no"}, {"number": float("inf")}], ids=["invalid", "not JSON"])
async def test_spec_10_what_a_hook_made_of_the_arguments_is_validated(made: Made, arguments: Any) -> None:
    async def spoil(value: Any) -> Any:
        return (
            {"arguments": {**value["arguments"], "extra": arguments["number"]}}
            if value["tool"] == "loose"
            else {"arguments": arguments}
        )

    async def loose(args: Any, call: ToolCall) -> str:
        return "ran"

    @tool
    async def count(args: Count, call: ToolCall) -> str:
        """Count."""
        return "ran"

    calls = [("count", {"number": 1})] if arguments["number"] == "no" else [("loose", {})]
    rig = await made(calls, Extension("c", tools=[count], hooks={"beforeTool": spoil}), _tool("loose", loose))
    (result,) = await _go(rig)
    assert result["isError"] and codes(await rig.entries()) == ["invalid_arguments"]


async def test_spec_12_a_raising_guard_blocks_other_raising_hooks_are_reported_and_skipped(made: Made) -> None:
    async def broken(value: Any) -> Any:
        raise RuntimeError("a broken hook")

    rig = await made([("note", {"text": "x"})], Extension("g", hooks={"beforeTool": broken}))
    (result,) = await _go(rig)
    assert codes(await rig.entries()) == ["blocked"] and "a broken hook" in result["content"][0]["text"]
    assert rig.effects.read() == [] and any("a broken hook" in line for line in rig.harness.reports)

    other = await made([("note", {"text": "x"})], Extension("g", hooks={"afterTool": broken, "onYield": broken}))
    (result,) = await _go(other)
    assert not result["isError"] and len([line for line in other.harness.reports if "a broken hook" in line]) == 2


@pytest.mark.parametrize("junk", [42, {"role": "assistant"}, {"role": "assistant", "content": [{"type": "odd"}]}])
async def test_spec_12_what_a_hook_returns_of_another_kind_is_reported_and_skipped(made: Made, junk: Any) -> None:
    async def hook(value: Any) -> Any:
        return junk

    hooks = {"beforeRequest": hook, "afterResponse": hook, "afterTool": hook}
    rig = await made([("note", {"text": "x"})], Extension("g", hooks=hooks))
    (result,) = await _go(rig)
    assert not result["isError"] and rig.effects.read()
    for name in hooks:
        assert any(f"hook {name} of extension g returned" in line for line in rig.harness.reports)


async def test_spec_12_after_tool_hooks_may_replace_the_result_in_extension_order(made: Made) -> None:
    def stamp(word: str) -> Any:
        async def hook(result: ToolResult) -> ToolResult:
            return dataclasses.replace(result, content=f"{result.content} {word}")

        return hook

    rig = await made(
        [("note", {"text": "x"})],
        Extension("a", hooks={"afterTool": stamp("one")}),
        Extension("b", hooks={"afterTool": stamp("two")}),
    )
    (result,) = await _go(rig)
    assert result["content"][0]["text"] == "noted x one two"


async def test_spec_12_wrappers_apply_to_the_winner(made: Made) -> None:
    async def other(args: Any, call: ToolCall) -> str:
        return f"other {args.text}"

    def wrap(inner: Tool) -> Tool:
        async def run(args: Any, call: ToolCall) -> str:
            return f"[{await inner.run(args, call)}]"

        return dataclasses.replace(inner, run=run)

    @tool(name="note")
    async def override(args: Text, call: ToolCall) -> str:
        """Another note."""
        return await other(args, call)

    rig = await made(
        [("note", {"text": "x"})],
        Extension("wraps", wrappers={"note": wrap, "absent": wrap}),
        Extension("overrides", tools=[override]),
    )
    (result,) = await _go(rig)
    assert result["content"][0]["text"] == "[other x]" and rig.effects.read() == []


async def test_spec_12_running_work_keeps_its_code_and_the_next_call_sees_the_new_one(made: Made) -> None:
    rig = Rig([call(("gate", {"text": "g"})), call(("gate", {"text": "h"})), say("done")])
    await rig.open()
    submission = await rig.root.submit("go")
    await rig.effects.wait_started("gate")
    rig.harness._agent.toolbox.registry.uninstall("effects")
    rig.effects.gate("g").set()
    assert (await asyncio.wait_for(submission.wait(), 10)).status == "done"
    results = [line for line in await rig.transcript() if line.startswith(("result", "error"))]
    assert results[0] == "result gate: through g" and "not available" in results[1]
    assert codes(await rig.entries()) == ["tool_unavailable"]
    await rig.idle()
    await rig.check(idle=True)
    await rig.harness.close()


async def test_spec_9_a_sequential_round_starts_one_call_after_the_other(made: Made) -> None:
    active, most, expected = 0, 0, 4

    async def one(args: Any, call: ToolCall) -> str:
        nonlocal active, most
        active += 1
        most = max(most, active)
        await until(lambda: most == expected)  # until those that may run with it do
        await turns()  # and so does one that may not
        active -= 1
        return "ok"

    parallel = await made([("one", {})] * 4, _tool("one", one))
    assert len(await _go(parallel)) == 4 and most == 4
    most, expected = 0, 1
    mixed = await made([("one", {})] * 3 + [("seq", {"text": "s", "seconds": 0})], _tool("one", one))
    assert len(await _go(mixed)) == 4 and most == 1
    most = 0
    settings = dataclasses.replace(FAST, tool_execution="sequential")
    by_setting = await made([("one", {})] * 4, _tool("one", one), settings=settings)
    assert len(await _go(by_setting)) == 4 and most == 1


# -- progress --------------------------------------------------------------------------------------------------------


async def test_spec_10_progress_is_bounded_and_counts_what_it_dropped(made: Made) -> None:
    hold = asyncio.Event()

    async def chatty(args: Any, call: ToolCall) -> str:
        for number in range(5000):
            call.output(f"line {number}\n")
        call.details({"step": 1})
        await hold.wait()
        return "quiet"

    rig = await made([("chatty", {})], _tool("chatty", chatty))
    submission = await rig.root.submit("go")

    async def shown() -> bool:
        slots = (await rig.document("pi.live") or {}).get("tools", [])
        return bool(slots and "line 4999" in slots[0].get("output", ""))

    await until(shown)
    slot = (await rig.document("pi.live"))["tools"][0]
    assert slot["output"].count("\n") == 2000 and slot["droppedLines"] == 3000 and slot["details"] == {"step": 1}
    assert slot["droppedBytes"] == sum(len(f"line {number}\n") for number in range(3000))
    hold.set()
    await submission.wait()
    await rig.idle()
    await rig.check(idle=True)


async def test_spec_10_progress_is_committed_only_while_its_own_slot_exists(made: Made) -> None:
    kept: list[ToolCall] = []

    async def leaky(args: Any, call: ToolCall) -> str:
        call.output("early\n")
        kept.append(call)
        return "over"

    rig = await made([("leaky", {})], _tool("leaky", leaky))
    await _go(rig)
    seq = rig.harness.seq
    kept[0].output("late\n")
    await a_while()
    assert rig.harness.seq == seq
    with pytest.raises(Exception, match=r"may not commit|has ended"):
        async with kept[0].commit():
            pass


def test_spec_10_progress_commits_keep_their_distance_and_big_output_is_paced() -> None:
    """At most every max(100 ms, bytes written / 100 KiB/s)."""

    async def body() -> None:
        chunk, gaps_expected = 0, {1: 0.1, 50 * 1024: 0.5}

        async def steady(args: Any, call: ToolCall) -> str:
            for _ in range(100):
                call.output("x" * (chunk // 10 or 1))
                await asyncio.sleep(0.01)
            return "done"

        for chunk, least in gaps_expected.items():
            settings = dataclasses.replace(FAST, output_interval=0.1)
            rig = Rig(
                [call(("steady", {})), say("done")],
                settings=settings,
                now=clock,
                record=True,
                extensions=[_tool("steady", steady)],
            )
            await rig.open()
            assert (await (await rig.root.submit("go")).wait()).status == "done"
            progress = [
                batch.at for batch in rig.storage.log if not batch.flush and not batch.tasks and not batch.entries
            ]
            gaps = [later - earlier for earlier, later in itertools.pairwise(progress)]
            assert progress and all(gap >= least * 1000 - 2 for gap in gaps), (chunk, gaps)
            assert len(progress) <= 1.0 / least + 1
            await rig.check(idle=True)
            await rig.harness.close()

    run(body())
