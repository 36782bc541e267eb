"""Runs whose answers are made in the background, through the harness and over a real socket (spec 9; case A03)."""

from __future__ import annotations

import dataclasses
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from durable_tui.models import Models, openai_responses
from tests.tools.invariants import check_idle
from tests.tools.model_server import ModelServer
from tests.tools.scenario import FAST, Rig
from tests.tools.waiting import until

AGENT = {"model": "cloud/gpt-5.2", "cwd": "."}
Serve = Callable[[list[dict[str, Any]]], Awaitable[tuple[Rig, ModelServer]]]


@pytest.fixture
async def serve(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> AsyncIterator[Serve]:
    """`rig, server = await serve(script)`; the rig's models are the real ones."""
    monkeypatch.setattr(openai_responses, "_FIRST_WAIT", 0.02)
    opened: list[tuple[Rig, ModelServer, Models]] = []

    async def start(script: list[dict[str, Any]]) -> tuple[Rig, ModelServer]:
        server = ModelServer(script, strict=True, sdk=True)
        server.__enter__()
        config = {"cloud": {"api": "openai-responses", "base_url": server.base_url, "background": True}}
        models = Models.from_env({}, config=config)
        rig = Rig([], settings=dataclasses.replace(FAST, max_retries=1), agent=AGENT)
        rig.provider = models  # type: ignore[assignment]
        opened.append((rig, server, models))
        return await rig.open(), server

    yield start
    for rig, server, models in opened:
        found = await check_idle(rig.storage)
        await rig.harness.close()
        await models.close()
        server.stop()
        assert not [*found, *server.violations]


async def _deferred(rig: Rig) -> bool:
    return "deferred" in ((await rig.document("pi.live")) or {}).get("generation", {})


async def test_spec_9_a_run_of_two_answers_made_in_the_background(serve: Serve) -> None:
    note = {"thinking": "hm", "calls": [{"name": "note", "args": {"text": "a"}}], "polls": 2}
    rig, server = await serve([note, {"text": "done", "polls": 1, "usage": {"input": 20, "output": 4}}])
    assert (await (await rig.root.submit("go")).wait()).status == "done"
    assert await rig.transcript() == ["user: go", "call note", "result note: noted a", "ai: done"]
    assert server.counts["post"] == server.counts["created"] == 2 and server.counts["get"] == 5
    keys = [row["key"] for row in server.accesses if row["method"] == "POST"]
    assert len(set(keys)) == 2 and all(keys)
    assert (await rig.document("pi.usage"))["models"]["cloud/gpt-5.2"]["totalTokens"] > 24


async def test_spec_9_and_15_it_is_looked_for_by_whoever_opens_the_session_next(serve: Serve) -> None:
    rig, server = await serve([{"text": "made", "polls": 0, "background_delay": 1.0}])
    submission = await rig.root.submit("go", request_id="r")
    for _ in range(3):
        await until(lambda: _deferred(rig))
        await rig.crash()
        await rig.harness.resume()
    await rig.idle()
    assert (await rig.harness.submission(submission.id)).record["status"] == "done"
    assert server.counts["post"] == 1 and server.counts["cancel"] == 0
    assert await rig.transcript() == ["user: go", "ai: made"]


async def test_a03_an_abort_cancels_the_answer_at_its_provider(serve: Serve) -> None:
    rig, server = await serve([{"text": "made", "polls": 10_000}])
    submission = await rig.root.submit("go")
    await until(lambda: server.counts["get"] >= 1)
    start = time.monotonic()
    await rig.root.abort()
    assert (await submission.wait()).reason == "aborted" and time.monotonic() - start < 2.0
    await until(lambda: all(job["cancelled"] for job in server.jobs.report().values()))
    [job] = server.jobs.report().values()
    assert job["cancels"] == 1 and server.counts["post"] == 1
    assert rig.harness.reports == []


async def test_a03_a_server_that_never_confirms_the_cancel_delays_nothing(serve: Serve) -> None:
    rig, server = await serve([{"text": "made", "polls": 10_000, "cancel_faults": [{"stall": True, "stall_after": 0}]}])
    submission = await rig.root.submit("go")
    await until(lambda: _deferred(rig))
    start = time.monotonic()
    await rig.root.stop()
    assert (await submission.wait()).reason == "aborted" and time.monotonic() - start < 2.0
    await until(lambda: server.counts["cancel"] == 1)


async def test_spec_9_a_server_in_trouble_is_asked_again_and_makes_it_once(serve: Serve) -> None:
    faults = [{"status": 500}, {"status": 429, "headers": {"retry-after": "0"}}, {"reset_after": 20}, {"status": 502}]
    rig, server = await serve([{"text": "made", "polls": 0, "poll_faults": faults}])
    assert (await (await rig.root.submit("go")).wait()).status == "done"
    assert server.counts["post"] == 1 and server.counts["get"] == 5
    assert await rig.transcript() == ["user: go", "ai: made"]


async def test_spec_9_an_answer_that_is_gone_ends_the_run_in_words(serve: Serve) -> None:
    rig, server = await serve([{"text": "made", "poll_faults": [{"status": 404}]}])
    settled = await (await rig.root.submit("go")).wait()
    assert settled.reason == "model_error" and "no longer has this answer" in (settled.detail or "")
    assert server.counts["post"] == server.counts["get"] == 1


@pytest.mark.parametrize(
    ("turn", "posts", "words"),
    [
        ({"finish": "failed", "failed": {"code": "server_error", "message": "broke"}}, 2, "broke"),
        ({"finish": "failed", "failed": {"code": "invalid_prompt", "message": "not this"}}, 1, "not this"),
    ],
)
async def test_spec_9_an_answer_that_failed_is_an_attempt_that_failed(
    serve: Serve, turn: dict[str, Any], posts: int, words: str
) -> None:
    rig, server = await serve([{**turn, "polls": 1}])
    settled = await (await rig.root.submit("go")).wait()
    assert settled.reason == "model_error" and words in (settled.detail or "")
    assert server.counts["post"] == server.counts["created"] == posts and server.counts["cancel"] == 0
    failed = [entry["model"][0] for entry in await rig.entries() if entry["kind"] == "pi.assistant"]
    assert [message["stopReason"] for message in failed] == ["error"] * posts


async def test_spec_9_an_answer_cut_by_its_limit_is_kept(serve: Serve) -> None:
    rig, server = await serve([{"text": "half of it", "finish": "length", "polls": 1}])
    assert (await (await rig.root.submit("go")).wait()).status == "done"
    assert await rig.transcript() == ["user: go", "ai: half of it (length)"] and server.counts["post"] == 1
