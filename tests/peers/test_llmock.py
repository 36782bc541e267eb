"""llmock breaks what it serves, over each protocol, and then judges how its client took it: strictly, warnings count."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, replace
from typing import Any

import pytest

from tests.peers.kit import HTTP, SETTINGS, Server, Talk, talking, text
from tests.tools.sdk import check_request

pytestmark = pytest.mark.peers

LONG = "word " * 400  # far more than is read of it
PATHS = {
    "openai-chat": "/v1/chat/completions",
    "openai-responses": "/v1/responses",
    "anthropic": "/anthropic/v1/messages",
}


@dataclass
class Judge:
    """llmock with nothing scripted and nothing remembered. What is asked beside answers neither counts nor breaks."""

    server: Server
    api: str

    @property
    def base(self) -> str:
        return self.server.base(self.api, "/anthropic")

    def talking(self, **options: Any) -> AbstractAsyncContextManager[Talk]:
        """A session with it; options as of the kit's."""
        return talking(self.api, self.base, **options)

    def script(self, *behaviours: dict[str, Any]) -> None:
        """What the next requests for an answer meet, as llmock calls it."""
        match = {"path": PATHS[self.api], "stream": True}
        self.server.post("/_llmock/scenario", {"behaviors": [{**item, "match": match} for item in behaviours]})

    def findings(self) -> list[str]:
        """What the client did wrong, as codes; printed for whoever reads a failure."""
        print(self.server.get("/_llmock/verdict?format=text"))
        found = self.server.get("/_llmock/verdict")["findings"]
        return [finding["code"] for finding in found if finding["path"] == f"POST {PATHS[self.api]}"]

    def check(self, requests: int) -> None:
        """Assert that it got so many requests, each one right by the official client's types, and blames nobody."""
        assert self.findings() == []
        got = [item for item in self.server.get("/_llmock/requests")["requests"] if item["method"] == "POST"]
        assert [item["path"] for item in got] == [PATHS[self.api]] * requests
        for item in got:
            assert check_request(self.api, item["body"]) == []


@pytest.fixture
def judge(api: str, judging: Server) -> Iterator[Judge]:
    judging.post("/_llmock/reset", {})
    yield Judge(judging, api)
    judging.post("/_llmock/reset", {})


def stream_fault(kind: str, after: int, **more: Any) -> dict[str, Any]:
    return {"type": "stream_fault", "kind": kind, "after_chunks": after, **more}


async def test_an_undisturbed_run(judge: Judge) -> None:
    async with judge.talking() as talk:
        answer = await talk.answered("Hello")
        [attempt] = talk.attempts
        attempt.check()
        assert text(answer) != "" and answer["usage"]["input"] > 0 and answer["usage"]["output"] > 0
    judge.check(1)


@pytest.mark.parametrize(("status", "kind"), [(500, "server"), (502, "server")])
async def test_what_passes_is_tried_again_with_growing_waits(judge: Judge, status: int, kind: str) -> None:
    judge.script({"type": "fail", "status": status, "times": 2})
    async with judge.talking() as talk:
        assert text(await talk.answered("Hello")) != ""
        assert talk.kinds == [kind, kind, None]
    judge.check(3)


@pytest.mark.parametrize(("status", "kind"), [(429, "rate_limit"), (503, "overloaded"), (529, "overloaded")])
async def test_the_wait_that_is_asked_for_is_kept(judge: Judge, status: int, kind: str) -> None:
    judge.script({"type": "fail", "status": status, "retry_after": 0.4, "times": 2})
    async with judge.talking(settings=replace(SETTINGS, base_delay=0.0)) as talk:
        await talk.answered("Hello")
        assert talk.kinds == [kind, kind, None]
        assert [attempt.error and attempt.error.retry_after for attempt in talk.attempts] == [0.4, 0.4, None]
    judge.check(3)


async def test_an_outage_ends_the_run_after_some_attempts(judge: Judge) -> None:
    judge.script({"type": "fail", "status": 500, "times": None})
    async with judge.talking(settings=replace(SETTINGS, max_retries=3)) as talk:
        settled = await talk.ask("Hello")
        assert (settled.status, settled.reason) == ("unanswered", "model_error")
        assert talk.kinds == ["server"] * 4
    judge.check(4)


@pytest.mark.parametrize(
    ("status", "kind"),
    [
        (400, "bad_request"),
        (401, "authentication"),
        (403, "authentication"),
        (404, "not_found"),
        (422, "bad_request"),
    ],
)
async def test_what_cannot_pass_is_tried_once(judge: Judge, status: int, kind: str) -> None:
    judge.script({"type": "fail", "status": status, "times": None})
    async with judge.talking() as talk:
        settled = await talk.ask("Hello")
        assert (settled.status, settled.reason) == ("unanswered", "model_error")
        assert talk.kinds == [kind]
    judge.check(1)


@pytest.mark.parametrize("scripted", [True, False], ids=["told to", "counted"])
async def test_an_overflow_is_known_and_not_sent_again(judge: Judge, scripted: bool) -> None:
    if scripted:
        message = "This model's maximum context length was exceeded."
        judge.script({"type": "fail", "status": 400, "code": "context_length_exceeded", "message": message})
    async with judge.talking() as talk:
        settled = await talk.ask("Hello" if scripted else "many words " * 8000)
        assert settled.status == "unanswered"
        assert talk.kinds == ["overflow"]
    judge.check(1)


@pytest.mark.parametrize("after", [0, 1, 4])
@pytest.mark.parametrize(
    ("fault", "expected"),
    [("disconnect", {"network", "truncated"}), ("truncate", {"truncated"}), ("malformed", {"malformed"})],
)
async def test_a_broken_stream_is_no_answer(judge: Judge, fault: str, expected: set[str], after: int) -> None:
    judge.script(stream_fault(fault, after), {"type": "reply", "text": LONG}, {"type": "reply", "text": "It is whole."})
    async with judge.talking() as talk:
        answer = await talk.answered("Hello")
        broken, whole = talk.kinds
        assert broken in expected and whole is None
        assert text(answer) == "It is whole."
        [first, second] = await talk.messages("assistant")
        assert first["stopReason"] == "error" and second["stopReason"] == "stop"
    judge.check(2)


async def test_a_stream_that_stalls_is_given_up(judge: Judge) -> None:
    judge.script(stream_fault("stall", 3, stall_seconds=60.0))
    async with judge.talking(http=replace(HTTP, read=2.5)) as talk:
        assert text(await talk.answered("Hello")) != ""
        assert talk.kinds == ["timeout", None]
    judge.check(2)


async def test_a_slow_first_word_is_waited_for(judge: Judge) -> None:
    judge.script({"type": "slow_first_token", "seconds": 1.0})
    async with judge.talking() as talk:
        assert text(await talk.answered("Hello")) != ""
        assert talk.kinds == [None]
    judge.check(1)


async def test_a_tool_loop_ends_by_itself(judge: Judge) -> None:
    async with judge.talking(answers=["It is raining."]) as talk:
        assert text(await talk.answered("Look at the weather")) != ""
        assert len(talk.seen) == 1
        [result] = await talk.messages("toolResult")
        assert text(result) == "It is raining." and not result["isError"]
    judge.check(2)


@pytest.mark.parametrize("broken", ["malformed_arguments", "unknown_tool"])
async def test_a_broken_call_is_told_to_the_model_and_runs_nothing(judge: Judge, broken: str) -> None:
    judge.script({"type": "tool_fault", "kind": broken})
    async with judge.talking(answers=["It is raining."]) as talk:
        assert text(await talk.answered("Look at the weather")) != ""
        [result] = await talk.messages("toolResult")
        assert result["isError"] and talk.seen == []
        assert talk.kinds == [None, None]
    judge.check(2)


@pytest.mark.parametrize("fault", ["disconnect", "truncate", "malformed"])
async def test_a_call_in_a_broken_stream_is_not_run(judge: Judge, fault: str) -> None:
    long, short = ({"name": "look", "arguments": {"command": command}} for command in (LONG, "the short one"))
    judge.script(stream_fault(fault, 6), *({"type": "reply", "tool_calls": [call]} for call in (long, short)))
    async with judge.talking(answers=["It is raining."]) as talk:
        assert text(await talk.answered("Look at the weather")) != ""
        assert talk.seen == ["the short one"]
        assert talk.kinds[1:] == [None, None]
    judge.check(3)


async def test_the_judge_notices_a_client_that_gives_up(judge: Judge) -> None:
    judge.script({"type": "fail", "status": 503, "times": None})
    async with judge.talking(settings=replace(SETTINGS, max_retries=0)) as talk:
        await talk.ask("Hello")
    assert judge.findings() == ["gave_up"]
