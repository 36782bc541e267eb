"""Cases of recovery at their exact inputs: histories of older builds, finished and safe calls, an empty answer."""

from __future__ import annotations

import asyncio
from typing import Any

from durable_tui.agent.extension import Extension, ToolCall, tool
from tests.scenarios.conftest import Open
from tests.tools.effects import Text
from tests.tools.scenario import codes
from tests.tools.strict_provider import call, say
from tests.tools.waiting import until


def _user(text: str) -> dict[str, Any]:
    return {"role": "user", "content": text, "timestamp": 1}


def _assistant(*content: dict[str, Any], stop: str = "toolUse") -> dict[str, Any]:
    return {
        "role": "assistant", "content": list(content), "api": "scripted", "provider": "strict", "model": "m",
        "usage": {"input": 1, "output": 1, "cacheRead": 0, "cacheWrite": 0, "totalTokens": 2},
        "stopReason": stop, "timestamp": 1,
    }  # fmt: skip


def _call(call_id: str) -> dict[str, Any]:
    return {"type": "toolCall", "id": call_id, "name": "note", "arguments": {"text": call_id}}


def _result(call_id: str) -> dict[str, Any]:
    content = [{"type": "text", "text": f"noted {call_id}"}]
    return {
        "role": "toolResult", "toolCallId": call_id, "toolName": "note", "content": content, "isError": False,
        "timestamp": 1,
    }  # fmt: skip


async def test_r01_r09_ui_r06_an_older_builds_history_is_paired_in_the_request_and_left_alone_in_the_store(
    opened: Open,
) -> None:
    """An unanswered call in the middle and one at the end, results out of order, and one that nothing asked for."""
    rig = await opened([say("unused")])
    history = [
        ("pi.user", _user("first")),
        ("pi.assistant", _assistant({"type": "text", "text": "two"}, _call("c1"), _call("c2"))),
        ("pi.tool-result", _result("c2")),
        ("pi.user", _user("second")),
        ("pi.tool-result", _result("unknown")),
        ("pi.assistant", _assistant({"type": "text", "text": "answered"}, stop="stop")),
        ("pi.user", _user("third")),
        ("pi.assistant", _assistant(_call("c3"), _call("c4"))),
        ("pi.tool-result", _result("c3")),
    ]
    async with rig.harness.commit() as tx:
        for kind, message in history:
            tx.append(1, kind, model=[message])
    await rig.crash()
    before = await rig.entries()
    # The script counts answers, and the history holds three.
    rig.provider.script = lambda request, index: say("paired")
    assert (await (await rig.root.submit("continue")).wait()).status == "done"
    asked = rig.provider.requests[-1].messages
    assert [(m["role"], m.get("toolCallId"), m.get("isError")) for m in asked] == [
        ("user", None, None),
        ("assistant", None, None), ("toolResult", "c1", True), ("toolResult", "c2", False),
        ("user", None, None),
        ("assistant", None, None),
        ("user", None, None),
        ("assistant", None, None), ("toolResult", "c3", False), ("toolResult", "c4", True),
        ("user", None, None),
    ]  # fmt: skip
    assert "may have partly run" in asked[2]["content"][0]["text"]
    assert (await rig.entries())[: len(before)] == before, "what is stored stays as it is"
    assert not rig.provider.violations and rig.effects.read() == [], "nothing of the old history is run"


async def test_r02_a_stored_result_is_used_after_the_kill(opened: Open) -> None:
    """case R02, killed after the commit: the result of one call is committed, the other still runs."""
    rig = await opened([call(("note", {"text": "n"}), ("gate", {"text": "g"})), say("done")])
    await rig.root.submit("go", request_id="r")
    await rig.effects.wait_started("gate")

    async def stored() -> bool:
        return any(
            task["kind"] == "pi.tool" and task["state"]["status"] == "terminal" for task in await rig.storage.tasks()
        )

    await until(stored)
    await rig.crash()
    await rig.harness.resume()
    await rig.idle()
    assert rig.effects.texts() == ["n", "g"]
    results = [line.partition("\n")[0] for line in await rig.transcript() if line.startswith(("result", "error"))]
    assert results == ["result note: noted n", "error gate: <harness>"]
    assert codes(await rig.entries()) == ["interrupted"]
    rows = (await rig.harness.recovery())["deaths"][-1]["tasks"]
    assert len([row for row in rows if row["kind"] == "pi.tool"]) == 1, "a finished call is not found as unfinished"
    await rig.check(idle=True)


async def test_r02_a_safe_tool_interrupted_between_effect_and_result_runs_again(opened: Open) -> None:
    held = asyncio.Event()

    @tool(replay="safe")
    async def look(args: Text, call: ToolCall) -> str:
        """Look, and the first time hang before the result."""
        looked.append(args.text)
        if not held.is_set():
            await asyncio.sleep(3600)
        return f"saw {args.text}"

    looked: list[str] = []
    rig = await opened(
        [call(("look", {"text": "p"}), ("gate", {"text": "g"})), say("done")],
        extensions=[Extension("looks", tools=[look])],
    )
    await rig.root.submit("go", request_id="r")
    await rig.effects.wait_started("gate")
    await until(lambda: looked == ["p"])
    await rig.crash()
    held.set()
    await rig.harness.resume()
    await rig.idle()
    assert looked == ["p", "p"] and rig.effects.texts("gate") == ["g"], "the safe one twice, the unsafe one once"
    assert "result look: saw p" in await rig.transcript()
    rows = (await rig.harness.recovery())["deaths"][-1]["tasks"]
    assert sorted(row["verdict"] for row in rows if row["kind"] == "pi.tool") == ["interrupted", "rerun"]
    await rig.check(idle=True)


async def test_ui_r09_aborted_before_its_first_word_the_answer_is_in_no_later_request(opened: Open) -> None:
    for how in ("abort", "stop"):
        rig = await opened([say("never", delay=3600)])
        await rig.root.submit("go")
        await rig.provider.wait_requests(1)
        await getattr(rig.root, how)()
        await rig.idle()
        rig.provider.script = lambda request, index: say("fine")
        assert (await (await rig.root.submit("again")).wait()).status == "done"
        assert [(m["role"], m["content"]) for m in rig.provider.requests[-1].messages] == [
            ("user", "go"), ("user", "again"),
        ]  # fmt: skip
        await rig.check(idle=True)
