"""A real model on a real llama.cpp server, over each protocol. Nothing here depends on what the model says."""

from __future__ import annotations

import asyncio
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from durable_tui.models.chat_request import build_request
from durable_tui.models.known_providers import Quirks
from tests.peers.kit import HANG, SETTINGS, Server, llama, talking, text

pytestmark = pytest.mark.peers

STORY = "Tell me a story about a boat."


def slots(server: Server) -> list[dict[str, Any]]:
    return list(server.get("/slots"))


def predicted(server: Server) -> int:
    """The tokens that the server has generated since it started."""
    found = re.search(r"^llamacpp:tokens_predicted_total (\d+)", server.get("/metrics"), re.MULTILINE)
    assert found is not None
    return int(found[1])


async def slots_free(server: Server) -> None:
    """Until the server generates nothing any more."""
    async with asyncio.timeout(HANG):
        while any(slot["is_processing"] for slot in await asyncio.to_thread(slots, server)):
            await asyncio.sleep(0.01)


async def test_an_answer_streams_and_is_what_was_streamed(api: str, calling: Server) -> None:
    async with talking(api, calling.base(api), tokens=48) as talk:
        answer = await talk.answered(STORY)
        [attempt] = talk.attempts
        attempt.check()
        assert len(attempt.deltas) >= 8
        assert text(answer) == text(attempt.message) != ""
        assert answer["usage"]["input"] + answer["usage"]["cacheRead"] > 5 and answer["usage"]["output"] > 5
        assert not (answer.get("providerExtra") or {}).get("usageEstimated")
        assert answer["stopReason"] in ("stop", "length")


async def test_an_answer_that_reaches_its_limit_says_so(api: str, endless: Server) -> None:
    async with talking(api, endless.base(api), tokens=12) as talk:
        answer = await talk.answered(STORY)
        assert answer["stopReason"] == "length" and answer["usage"]["output"] == 12


async def test_a_call_its_result_and_the_answer(api: str, calling: Server) -> None:
    told = "The river is blue and the boat is red."
    async with talking(api, calling.base(api), answers=[told], tokens=100) as talk:
        answer = await talk.answered("Look around and tell me what you find.")
        called, final = talk.attempts
        called.check()
        final.check()
        assert called.message["stopReason"] == "toolUse" and final.message["stopReason"] == "stop"
        [call] = [block for block in called.message["content"] if block["type"] == "toolCall"]
        assert call["name"] == "look" and talk.seen == [call["arguments"].get("command", "")]
        [result] = await talk.messages("toolResult")
        assert result["toolCallId"] == call["id"] and not result["isError"]
        assert text(answer) != ""
        # What the model was really given, after the server's own reading of the request.
        assert any(told in slot.get("prompt", "") for slot in slots(calling))


async def test_the_server_reads_a_tool_result_where_we_put_it(calling: Server) -> None:
    told = "The lamp is broken."
    async with talking("openai-chat", calling.base("openai-chat"), answers=[told], tokens=100) as talk:
        await talk.answered("Look at the lamp.")
        body = build_request(talk.attempts[-1].request, Quirks())
        prompt = calling.post("/apply-template", {"messages": body["messages"], "tools": body["tools"]})["prompt"]
        user = prompt.index("Look at the lamp.")
        assert user < prompt.index(told) and prompt.count(told) == 1


async def test_an_abort_frees_the_server(api: str, endless: Server) -> None:
    limit, before = 1500, predicted(endless)
    async with talking(api, endless.base(api), tokens=limit) as talk:
        submission = await talk.root.submit(STORY)
        begun = await talk.shown()
        assert any(slot["is_processing"] for slot in slots(endless))
        assert await talk.root.stop()
        async with asyncio.timeout(HANG):
            settled = await submission.wait()
        assert (settled.status, settled.reason) == ("unanswered", "aborted")
        await slots_free(endless)
        assert predicted(endless) - before < limit
        [partial] = await talk.messages("assistant")
        assert partial["stopReason"] == "aborted" and text(partial).startswith(begun) and begun != ""


async def test_a_server_that_loads_its_model_is_waited_for(api: str, folder: Path, tmp_path: Path) -> None:
    settings = replace(SETTINGS, base_delay=0.01, max_delay=0.01, max_retries=10_000)
    for attempt in range(10):
        with llama(folder, tmp_path / f"loading-{attempt}") as server:
            server.until(503, 200)
            async with talking(api, server.base(api), tokens=8, settings=settings) as talk:
                answer = await talk.answered(STORY)
                errors = [attempt.error for attempt in talk.attempts[:-1]]
                assert text(answer) != "" and talk.attempts[-1].error is None
        if errors:  # else it was ready before we asked
            assert all(error is not None and error.retryable for error in errors)
            loading = [error for error in errors if error is not None and error.status == 503]
            assert loading and all(error.kind == "overloaded" for error in loading)
            assert "Loading model" in str(loading[0])
            return
    raise AssertionError("the server was always ready before it was asked")


async def test_a_request_beyond_the_context_is_an_overflow(api: str, calling: Server) -> None:
    async with talking(api, calling.base(api), tokens=8) as talk:
        settled = await talk.ask("boat " * 3000)
        assert settled.status == "unanswered"
        error = talk.attempts[0].error
        assert error is not None and (error.kind, error.status) == ("overflow", 400)
        assert not error.retryable


async def test_thinking_is_a_block_of_its_own_and_may_go_back(api: str, thinking: Server) -> None:
    async with talking(api, thinking.base(api), tokens=100, thinking="low") as talk:
        answer = await talk.answered("Which is the colour of grass?")
        talk.attempts[0].check()
        kinds = [block["type"] for block in answer["content"]]
        assert kinds == ["thinking", "text"], answer["content"]
        assert answer["content"][0]["thinking"].strip() and "<think>" not in text(answer)
        await talk.answered("And the colour of snow?")


async def test_a_second_turn_is_read_from_the_prompt_cache(api: str, calling: Server) -> None:
    async with talking(api, calling.base(api), tokens=24) as talk:
        first = await talk.answered(f"{STORY} It is called {api}, it has two masts, and it sails at dawn.")
        second = await talk.answered("Go on.")
        assert second["usage"]["cacheRead"] > first["usage"]["input"] / 2
        assert second["usage"]["input"] >= 0
        total = [message["usage"]["input"] + message["usage"]["cacheRead"] for message in (first, second)]
        assert total[1] > total[0]
