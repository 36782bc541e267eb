"""Images in a session: none is committed that cannot be sent (cases T30, T32, Q08)."""

from __future__ import annotations

import asyncio
import threading
from pathlib import Path
from typing import Any

import pytest
from pydantic import BaseModel

from durable_tui.agent import images as guard
from durable_tui.agent.extension import Extension, Registry, ToolCall, ToolResult, tool
from durable_tui.environment.local import LocalEnvironment
from durable_tui.harness.harness import Harness
from durable_tui.models.images import check_block
from durable_tui.storage import MemoryStorage
from durable_tui.tools import CodingTools
from tests.scenarios.conftest import Open
from tests.tools import pictures
from tests.tools.scenario import Rig, codes
from tests.tools.strict_provider import StrictScripted, call, say
from tests.tools.waiting import until

GOOD = pictures.plain("PNG", (30, 20))
WIDE = pictures.plain("PNG", (9000, 40))
BAD = {
    "torn": pictures.block(GOOD[:50]),
    "no image": pictures.block(b"no picture here"),
    "another kind": pictures.block(GOOD, "image/jpeg"),
    "no base64": {"type": "image", "data": "###", "mimeType": "image/png"},
    "too wide": pictures.block(WIDE),
    "empty": {"type": "image", "data": "", "mimeType": "image/png"},
}


def said(*blocks: dict[str, Any]) -> list[dict[str, Any]]:
    return [{"type": "text", "text": "look"}, *blocks]


def images_in(entries: list[Any]) -> list[Any]:
    """All image blocks of all messages, and of edits."""
    messages = [message for entry in entries for message in entry.get("model", ())]
    messages += [
        message for entry in entries for edit in entry.get("edits", ()) for message in edit.get("messages", ())
    ]
    contents = [message["content"] for message in messages if not isinstance(message["content"], str)]
    return [block for content in contents for block in content if block["type"] == "image"]


class Given(BaseModel):
    name: str = ""


def shows(*blocks: dict[str, Any]) -> Extension:
    """A tool `show` that answers with these blocks."""

    @tool
    async def show(args: Given, call: ToolCall) -> ToolResult:
        """Show what there is."""
        return ToolResult([dict(block) for block in blocks])

    return Extension("shows", tools=[show])


# -- inputs and writes


async def test_an_image_that_can_be_sent_is_committed_as_it_is(opened: Open) -> None:
    rig = await opened([say("I see it.")])
    settled = await (await rig.root.submit(said(pictures.block(GOOD)))).wait()
    assert settled.status == "done"
    assert images_in(await rig.entries()) == [pictures.block(GOOD)]
    assert rig.provider.requests[0].messages[0]["content"][1] == pictures.block(GOOD)
    await rig.check(idle=True)


@pytest.mark.parametrize("kind", sorted(BAD))
async def test_t30_t32_an_input_with_an_unsendable_image_leaves_no_trace(opened: Open, kind: str) -> None:
    rig = await opened([say("hello")])
    with pytest.raises(ValueError, match=r"image 2 of 2 cannot be sent: \w+"):
        await rig.root.submit(said(pictures.block(GOOD), BAD[kind]))
    with pytest.raises(ValueError, match=r"^the image cannot be sent: \w+"):
        await rig.root.write("note", model=[{"role": "user", "content": said(BAD[kind]), "timestamp": 1}])
    replaced = {"role": "user", "content": said(BAD[kind]), "timestamp": 1}
    with pytest.raises(ValueError, match="cannot be sent"):
        await rig.root.write("note", edits=[{"target": 1, "action": "replace", "messages": [replaced]}])
    assert await rig.entries() == [] and await rig.inbox() == []
    assert (await (await rig.root.submit("hi")).wait()).status == "done"
    await rig.check(idle=True)


async def test_a_queued_input_cannot_be_edited_into_an_unsendable_one(opened: Open) -> None:
    rig = await opened([call(("gate", {"text": "g"})), say("one"), say("two")])
    await rig.root.submit("go")
    await rig.effects.wait_started("gate")
    queued = await rig.root.submit(said(pictures.block(GOOD)))
    with pytest.raises(ValueError, match="cannot be sent"):
        await rig.root.edit_item(queued.id, said(BAD["torn"]))
    await rig.root.edit_item(queued.id, said(pictures.block(GOOD), pictures.block(GOOD)))
    await rig.crash()
    assert len((await rig.inbox())[0]["content"]) == 3
    rig.effects.gate("g").set()
    await rig.harness.resume()
    await rig.idle()
    assert len(images_in(await rig.entries())) == 2
    await rig.check(idle=True)


async def test_q08_an_input_given_up_while_its_image_is_looked_at_is_not_admitted(
    opened: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    rig = await opened([say("hello")])
    looking, go_on = asyncio.Event(), threading.Event()
    loop = asyncio.get_running_loop()

    def slowly(block: Any) -> str | None:
        loop.call_soon_threadsafe(looking.set)
        go_on.wait(30)
        return check_block(block)

    monkeypatch.setattr(guard, "check_block", slowly)
    submitting = asyncio.create_task(rig.root.submit(said(pictures.block(GOOD))))
    await asyncio.wait_for(looking.wait(), 20)
    submitting.cancel()
    go_on.set()
    with pytest.raises(asyncio.CancelledError):
        await submitting
    await rig.idle()
    assert await rig.entries() == [] and not rig.provider.requests


# -- results of tools


@pytest.mark.parametrize("kind", sorted(set(BAD) - {"too wide", "another kind"}))
async def test_t30_a_tools_unsendable_image_becomes_a_text_and_the_session_goes_on(opened: Open, kind: str) -> None:
    rig = await opened(
        [call(("show", {})), say("I cannot see it."), say("hello")], extensions=[shows(*said(BAD[kind]))]
    )
    assert (await (await rig.root.submit("show it")).wait()).status == "done"
    entries = await rig.entries()
    assert images_in(entries) == [] and codes(entries) == ["image_refused"]
    (result,) = [message for entry in entries for message in entry.get("model", ()) if message["role"] == "toolResult"]
    assert not result["isError"] and "(an image of the result was left out: " in result["content"][1]["text"]
    assert (await (await rig.root.submit("hi")).wait()).status == "done"
    await rig.check(idle=True)


async def test_t32_a_tools_image_is_made_to_fit(opened: Open) -> None:
    blocks = [pictures.block(WIDE), BAD["another kind"], pictures.block(pictures.plain("WEBP"), "image/webp")]
    rig = await opened([call(("show", {})), say("I see them.")], extensions=[shows(*said(*blocks))])
    assert (await (await rig.root.submit("show it")).wait()).status == "done"
    entries = await rig.entries()
    wide, right, webp = images_in(entries)
    assert pictures.opened(wide).size == (2000, 9)
    assert right == pictures.block(GOOD) and webp["mimeType"] in ("image/png", "image/jpeg")
    (data,) = [entry["data"] for entry in entries if entry["kind"] == "pi.tool-result"]
    assert [item["severity"] for item in data["diagnostics"]] == ["info"] * 3
    assert "9000x40" in data["diagnostics"][0]["message"]
    await rig.check(idle=True)


async def test_a_hook_cannot_bring_in_an_unsendable_image(opened: Open) -> None:
    async def swap(result: ToolResult) -> ToolResult:
        return ToolResult(said(BAD["torn"]))

    rig = await opened([call(("note", {})), say("ok")], extensions=[Extension("swap", hooks={"afterTool": swap})])
    await (await rig.root.submit("go")).wait()
    entries = await rig.entries()
    assert images_in(entries) == [] and codes(entries) == ["image_refused"]


async def test_a_result_that_is_no_content_at_all_is_a_tool_error(opened: Open) -> None:
    rig = await opened([call(("show", {})), say("ok")], extensions=[shows({"type": "image", "data": object()})])
    assert (await (await rig.root.submit("go")).wait()).status == "done"
    assert images_in(await rig.entries()) == []
    await rig.check(idle=True)


# -- the read tool


async def test_t30_t32_files_read_as_images_never_poison_the_session(tmp_path: Path) -> None:
    files = {
        "pic.jpeg": b"no picture here\n",
        "empty.png": b"",
        "cut.png": GOOD[:20],
        "wide.png": WIDE,
        "good.png": GOOD,
    }
    for name, data in files.items():
        (tmp_path / name).write_bytes(data)
    calls = call(*(("read", {"path": name}) for name in files))
    provider = StrictScripted([calls, say("I have seen them."), say("hello")])
    registry = Registry()
    registry.install(CodingTools)
    async with await _harness(provider, registry) as harness:
        root = await harness.root(agent={"model": "strict/m", "cwd": str(tmp_path)})
        assert (await (await root.submit("look at all")).wait()).status == "done"
        assert (await (await root.submit("hi")).wait()).status == "done"
        entries = [stored.record for stored in await root.entries()]
    results = [m for entry in entries for m in entry.get("model", ()) if m["role"] == "toolResult"]
    assert sum(result["isError"] for result in results) == 2 and len(results) == 5
    assert {pictures.opened(block).size for block in images_in(entries)} == {(2000, 9), (30, 20)}
    assert not provider.violations


async def _harness(provider: StrictScripted, registry: Registry) -> Harness:
    return await Harness.open(MemoryStorage(), models=provider, registry=registry, environment=LocalEnvironment.at)


async def test_a_read_cut_off_by_a_death_is_run_again_and_sees_the_image(tmp_path: Path) -> None:
    (tmp_path / "good.png").write_bytes(GOOD)
    started, gate = asyncio.Event(), asyncio.Event()

    async def wait(result: ToolResult) -> ToolResult:
        started.set()
        await gate.wait()
        return result

    rig = Rig([call(("read", {"path": str(tmp_path / "good.png")})), say("I see it.")], extensions=[CodingTools])
    rig.extensions.append(Extension("slow", hooks={"afterTool": wait}))
    await rig.open()
    rig.harness._agent.toolbox.environment = LocalEnvironment.at
    await rig.root.submit("look")
    await asyncio.wait_for(started.wait(), 20)
    await rig.kill()
    gate.set()
    await rig.reopen()
    rig.harness._agent.toolbox.environment = LocalEnvironment.at
    await rig.harness.resume()
    await until(lambda: len(rig.provider.requests) == 2, 20)
    await rig.idle()
    assert images_in(await rig.entries()) == [pictures.block(GOOD)]
    await rig.close()
