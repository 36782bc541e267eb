"""aimock plays what we wrote down in `fixtures`, over each protocol, and tells how it understood what we sent."""

from __future__ import annotations

import subprocess
import uuid
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.peers.kit import HERE, Server, Talk, talking, text
from tests.tools.sdk import check_request

pytestmark = pytest.mark.peers

# What others than OpenAI take in Chat Completions.
ALLOWED = {"messages[].reasoning_content"}


@dataclass
class Play:
    """A session with aimock, and what aimock got from it."""

    talk: Talk
    server: Server
    name: str
    api: str

    def got(self) -> list[dict[str, Any]]:
        """The requests for answers as aimock read them: a Chat Completions body, whatever the protocol was."""
        entries = self.server.get(f"/__aimock/journal?testId={self.name}&method=POST")
        return [{key: value for key, value in entry["body"].items() if key != "_endpointType"} for entry in entries]

    def check(self, requests: int) -> None:
        """Assert that so many requests were sent, each one right by the official client's types, as sent and as read."""
        assert len(self.talk.attempts) == requests
        assert len(self.got()) == requests
        for body in self.talk.bodies():
            assert check_request(self.api, body, ALLOWED) == []
        for body in self.got():
            assert check_request("openai-chat", body, ALLOWED) == []


Opens = Callable[..., AbstractAsyncContextManager[Play]]


@pytest.fixture
def play(api: str, acting: Server) -> Opens:
    """`async with play() as p:` a session that aimock keeps apart from all others; options as of `talking`."""

    @asynccontextmanager
    async def opened(**options: Any) -> AsyncIterator[Play]:
        name = uuid.uuid4().hex
        async with talking(api, acting.base(api), headers={"x-test-id": name}, **options) as talk:
            yield Play(talk, acting, name, api)

    return opened


def results(body: dict[str, Any]) -> list[tuple[str, str]]:
    """(call id, text) of the tool results in a body as aimock read it, in order."""
    return [(item["tool_call_id"], item["content"]) for item in body["messages"] if item["role"] == "tool"]


def test_our_fixtures_are_right(aimock_bin: Path) -> None:
    done = subprocess.run(
        [aimock_bin / "aimock", "validate", "--strict", HERE / "fixtures"], capture_output=True, text=True, timeout=60
    )
    assert done.returncode == 0, done.stdout + done.stderr


async def test_characters_of_every_size_arrive_whole(play: Opens) -> None:
    async with play() as p:
        answer = await p.talk.answered("say it in many scripts")
        p.talk.attempts[0].check()
        assert text(answer) == 'plain, ünïcödé, 北京, 🦄🎉, a line\nand "quotes" \\ end'
        assert (answer["usage"]["input"], answer["usage"]["output"]) == (1200, 34)
        assert len(p.talk.attempts[0].deltas) > 8
        p.check(1)


async def test_a_limit_reached_is_told_apart(play: Opens) -> None:
    async with play() as p:
        answer = await p.talk.answered("stop at the limit")
        assert (answer["stopReason"], text(answer)) == ("length", "It goes on and")


async def test_two_calls_after_a_text_are_run_and_answered_together(play: Opens) -> None:
    async with play(answers=["one", "two"]) as p:
        answer = await p.talk.answered("look both ways")
        assert text(answer) == "Both ways are free."
        called = p.talk.attempts[0]
        called.check()
        # Over Responses hidden reasoning comes first: a thinking block without a word.
        shown = [block["type"] for block in called.message["content"] if block.get("thinking") != ""]
        assert shown == ["text", "toolCall", "toolCall"]
        assert sorted(p.talk.seen) == ['left ⇐ "here"', "right"]
        told = {call["id"]: text(call_result) for call, call_result in await answered_calls(p.talk)}
        p.check(2)
        first, second = p.got()
        assert [tool["function"]["name"] for tool in first["tools"]] == ["look"]
        assert dict(results(second)) == told and set(told.values()) == {"one", "two"}


async def answered_calls(talk: Talk) -> list[tuple[Any, Any]]:
    """Each call of the conversation with its result."""
    calls = [
        block
        for message in await talk.messages("assistant")
        for block in message["content"]
        if block["type"] == "toolCall"
    ]
    found = {message["toolCallId"]: message for message in await talk.messages("toolResult")}
    assert set(found) == {call["id"] for call in calls}
    return [(call, found[call["id"]]) for call in calls]


async def test_calls_around_a_text_keep_their_order(play: Opens) -> None:
    async with play(answers=["seen"]) as p:
        assert text(await p.talk.answered("call before you talk")) == "I have seen it twice."
        calls = [call["arguments"]["command"] for call, _ in await answered_calls(p.talk)]
        assert calls == ["first", "second"] and sorted(p.talk.seen) == ["first", "second"]
        p.check(2)


async def test_thinking_is_kept_and_a_later_question_is_understood(play: Opens) -> None:
    async with play(thinking="low") as p:
        answer = await p.talk.answered("think first")
        p.talk.attempts[0].check()
        assert [block["type"] for block in answer["content"]] == ["thinking", "text"]
        assert answer["content"][0]["thinking"] == "Two and two make four."
        assert text(answer) == "It is four."
        assert text(await p.talk.answered("and once more")) == "Still four."
        p.check(2)


async def test_thinking_before_a_call_goes_back_with_its_signature(play: Opens, api: str) -> None:
    async with play(answers=["seen"], thinking="low") as p:
        assert text(await p.talk.answered("think and look")) == "I looked there."
        thought = p.talk.attempts[0].message["content"][0]
        assert thought["type"] == "thinking" and thought["thinking"] == "I should look before I answer."
        p.check(2)
        sent = p.talk.bodies()[1]
        if api == "openai-chat":
            [reasoning] = [item["reasoning_content"] for item in sent["messages"] if "tool_calls" in item]
            assert reasoning == thought["thinking"]
        elif api == "openai-responses":
            kinds_sent = [item.get("type") for item in sent["input"]]
            place = kinds_sent.index("function_call")
            assert kinds_sent[place - 1] == "reasoning" and sent["input"][place - 1]["encrypted_content"] != ""
        else:
            first, second = sent["messages"][1]["content"]
            assert first["thinking"] == thought["thinking"] and first["signature"] != ""
            assert second["type"] == "tool_use"


async def test_a_rate_limit_is_waited_for_as_told(play: Opens) -> None:
    async with play() as p:
        assert text(await p.talk.answered("too many at once")) == "Now there is room."
        assert p.talk.kinds == ["rate_limit", None]
        assert p.talk.attempts[0].error is not None and p.talk.attempts[0].error.retry_after == 1.0
        failed, answered = await p.talk.messages("assistant")
        assert answered["timestamp"] - failed["timestamp"] >= 1000
        p.check(2)


async def test_an_overloaded_server_is_asked_again(play: Opens) -> None:
    async with play() as p:
        assert text(await p.talk.answered("too busy")) == "Now there is time."
        assert p.talk.kinds == ["overloaded", None]
        p.check(2)


@pytest.mark.parametrize("how", ["words", "time"])
async def test_a_cut_answer_is_begun_again(play: Opens, how: str) -> None:
    async with play() as p:
        assert text(await p.talk.answered(f"cut after some {how}")) == "This one is whole."
        first, second = p.talk.kinds
        assert first in ("network", "truncated") and second is None
        cut, whole = await p.talk.messages("assistant")
        assert cut["stopReason"] == "error" and "end" not in text(cut)
        assert whole["stopReason"] == "stop"
        p.check(2)


async def test_a_call_that_is_cut_is_not_run(play: Opens) -> None:
    async with play(answers=["seen"]) as p:
        assert text(await p.talk.answered("cut inside a call")) == "I looked once."
        assert p.talk.seen == ["once"]
        assert len(p.talk.attempts) == 3 and p.talk.kinds[1:] == [None, None]
        p.check(3)
