"""Answers that are made in the background, over a real socket (spec 9)."""

from __future__ import annotations

import json
from typing import Any

import pytest

from durable_tui.models import Deferred, Finished, HttpSettings, ModelError, ModelRequest, Models
from durable_tui.models.known_providers import OPENAI_RESPONSES
from durable_tui.models.openai_responses import ResponsesProvider
from durable_tui.models.provider import BackgroundProvider, BlockStart, StreamEvent
from tests.tools.model_server import ModelServer
from tests.wire import kit
from tests.wire.kit import FAST, KEY, ask, calls, failing, result, text, user

HI = {"type": "message", "id": "msg_1", "content": [{"type": "output_text", "text": "hi"}]}


def provider(server: ModelServer | str, settings: HttpSettings = FAST, background: bool = True) -> ResponsesProvider:
    url = server if isinstance(server, str) else server.base_url
    return ResponsesProvider("acme", url, key=KEY, key_env="ACME_KEY", settings=settings, background=background)


def request(*messages: dict[str, Any], key: str = "") -> ModelRequest:
    return kit.request(*messages, api=OPENAI_RESPONSES, key=key)


async def begun(model: ResponsesProvider, key: str = "k-1") -> Deferred:
    """What a background request leads to, when it is not ready at once."""
    events = [event async for event in model.stream(request(key=key))]
    assert len(events) == 1 and isinstance(events[0], Deferred)
    return events[0]


async def polled(model: ResponsesProvider, handle: dict[str, Any]) -> list[StreamEvent]:
    return [event async for event in model.poll(request(), handle)]


async def poll_failure(turn: dict[str, Any], settings: HttpSettings = FAST) -> ModelError:
    """The error that the first poll ends in."""
    with ModelServer([{"text": "x", **turn}]) as server:
        model = provider(server, settings)
        deferred = await begun(model)
        error, seen = await failing(model.poll(request(), deferred.handle))
        await model.close()
    assert seen == []
    return error


async def test_a_background_answer_is_asked_for_until_it_is_there() -> None:
    turn = {"thinking": "I think", "text": "at last", "calls": [{"name": "bash", "args": {"a": 1}}], "polls": 2}
    with ModelServer([turn, {"text": "done"}], strict=True, sdk=True) as server:
        model = provider(server)
        first = await begun(model)
        assert json.loads(json.dumps(first.handle)) == first.handle and first.handle["polls"] == 0
        waits, handle = [first.after], first.handle
        for _ in range(2):
            [deferred] = await polled(model, handle)
            assert isinstance(deferred, Deferred)
            waits.append(deferred.after)
            handle = deferred.handle
        events = await polled(model, handle)
        last = events[-1]
        assert isinstance(last, Finished) and isinstance(events[0], BlockStart)
        message = dict(last.message)
        assert text(message) == "at last" and message["stopReason"] == "toolUse" and message["usage"]["output"] > 0
        assert await polled(model, first.handle) != []  # to ask again changes nothing
        second = await begun_with(model, message)
        assert isinstance(second, Deferred)
        await model.close()
    assert waits == sorted(set(waits)) and waits[0] == 2.0
    assert server.violations == [] and server.counts == {"post": 2, "created": 2, "get": 4}
    assert server.headers[0]["idempotency-key"] == "k-1" and server.requests[0]["stream"] is False
    # Without being asked for, what goes back to the model would not be in a stored answer.
    gets = [row for row in server.accesses if row["method"] == "GET"]
    assert all(row["path"].endswith("?include%5B%5D=reasoning.encrypted_content") for row in gets)
    [item] = [item for item in server.requests[1]["input"] if item["type"] == "reasoning"]
    assert item["encrypted_content"] == message["content"][0]["providerExtra"]["item"]["encrypted_content"]


async def begun_with(model: ResponsesProvider, message: dict[str, Any]) -> StreamEvent:
    results = [result(call, "r") for call in calls(message)]
    [event] = [event async for event in model.stream(request(user(), message, *results))]
    return event


async def test_waits_grow_to_a_limit_and_never_overflow() -> None:
    with ModelServer([{"text": "x", "polls": 100}]) as server:
        model = provider(server)
        handle = (await begun(model)).handle
        waits = []
        for polls in (0, 1, 2, 3, 4, 5, 50, 10**9):
            [deferred] = await polled(model, {**handle, "polls": polls})
            assert isinstance(deferred, Deferred) and deferred.handle["polls"] == polls + 1
            waits.append(deferred.after)
        for odd in (None, "x", -3, 1.5):  # a handle of another make
            [deferred] = await polled(model, {"responseId": handle["responseId"], "polls": odd})
            assert isinstance(deferred, Deferred) and deferred.after == waits[0]
        await model.close()
    assert waits == sorted(waits) and waits[0] == 3.0 and waits[-1] == waits[-2] == 15.0


@pytest.mark.parametrize(
    ("headers", "after"),
    [
        ({"retry-after": "7"}, 7.0), ({"retry-after-ms": "2500"}, 2.5), ({"openai-poll-after-ms": "5000"}, 5.0),
        ({"retry-after": "0"}, 1.0), ({"retry-after": "7200"}, 600.0), ({"retry-after": "soon"}, 3.0),
    ],
)  # fmt: skip
async def test_a_server_may_say_when_to_ask_again(headers: dict[str, str], after: float) -> None:
    waiting = {"object": "response", "id": "resp_x", "status": "in_progress", "output": []}
    fault = {"status": 200, "body": waiting, "headers": headers}
    with ModelServer([{"text": "x", "poll_faults": [fault]}]) as server:
        model = provider(server)
        [deferred] = await polled(model, (await begun(model)).handle)
        await model.close()
    assert isinstance(deferred, Deferred) and deferred.after == after


async def test_the_same_key_gives_the_same_answer_after_a_crash() -> None:
    with ModelServer([{"text": "x", "polls": 3}]) as server:
        first, second = provider(server), provider(server)
        handles = [(await begun(model)).handle for model in (first, second)]
        other = (await begun(second, "k-2")).handle
        await first.close()
        await second.close()
    assert handles[0]["responseId"] == handles[1]["responseId"] != other["responseId"]
    assert server.counts["created"] == 2


async def test_a_handle_is_served_without_background_and_an_answer_at_once_is_taken() -> None:
    with ModelServer([{"text": "hi"}]) as server:
        model = provider(server)
        handle = (await begun(model)).handle
        await model.close()
        plain = provider(server, background=False)
        assert isinstance(plain, BackgroundProvider)
        assert isinstance((await polled(plain, handle))[-1], Finished)
        await plain.cancel(handle)
        assert text(await ask(plain)) == "hi" and server.requests[-1]["stream"] is True
        await plain.close()
    ready = {"object": "response", "id": "any/id", "status": "completed", "output": [HI]}
    with ModelServer([{"status": 200, "body": ready}]) as server:  # a server that makes nothing in the background
        model = provider(server)
        assert text(await ask(model)) == "hi"
        await model.close()


async def test_models_ask_for_and_cancel_by_the_name_of_the_provider() -> None:
    with ModelServer([{"text": "hi", "polls": 1}]) as server:
        config = {"acme": {"api": OPENAI_RESPONSES, "base_url": server.base_url, "background": True}}
        models = Models.from_env({}, config)
        asked = ModelRequest(models.resolve("acme/m"), "", [user()], key="k")
        [deferred] = [event async for event in models.stream(asked)]
        assert isinstance(deferred, Deferred)
        [again] = [event async for event in models.poll(asked, deferred.handle)]
        assert isinstance(again, Deferred)
        await models.cancel("acme", again.handle)
        await models.cancel("acme", again.handle)
        error, _ = await failing(models.poll(asked, again.handle))
        await models.close()
    assert error.kind == "refused" and not error.retryable and not error.polled
    assert server.counts["cancel"] == 2


@pytest.mark.parametrize(
    ("turn", "kind"),
    [
        ({"failed": {"code": "server_error", "message": "told"}}, "server"),
        ({"failed": {"code": "rate_limit_exceeded", "message": "told"}}, "rate_limit"),
        ({"failed": {"code": "invalid_prompt", "message": "told"}}, "bad_request"),
        ({"failed": {"code": "context_length_exceeded", "message": "told"}}, "overflow"),
        ({"finish": "content_filter"}, "refused"),
        ({"finish": "cancelled"}, "refused"),
    ],
)
async def test_a_background_answer_that_failed_is_a_failed_attempt(turn: dict[str, Any], kind: str) -> None:
    error = await poll_failure(turn)
    assert error.kind == kind and error.retryable is (kind in ("server", "rate_limit")) and not error.polled
    assert "failed" not in turn or "told" in str(error)


async def test_a_background_answer_that_was_cut_says_so() -> None:
    with ModelServer([{"text": "Once upon", "finish": "length"}]) as server:
        model = provider(server)
        last = (await polled(model, (await begun(model)).handle))[-1]
        await model.close()
    assert isinstance(last, Finished) and last.message["stopReason"] == "length"


@pytest.mark.parametrize(
    ("fault", "kind", "wait"),
    [
        ({"status": 500}, "server", None),
        ({"status": 503}, "overloaded", None),
        ({"status": 429, "headers": {"retry-after": "4"}}, "rate_limit", 4.0),
        ({"status": 409}, "server", None),
        ({"status": 408}, "timeout", None),
        ({"status": 200, "body": "no JSON"}, "malformed", None),
        ({"status": 200, "body": {"message": "what?"}}, "server", None),
        ({"status": 200, "body": {"error": {"message": "overloaded"}}}, "overloaded", None),
        ({"cut_after": 40, "abrupt": True}, "truncated", None),
        ({"stall": True}, "timeout", None),
    ],
)
async def test_a_question_that_failed_says_nothing_about_the_answer(
    fault: dict[str, Any], kind: str, wait: float | None
) -> None:
    error = await poll_failure({"poll_faults": [fault]}, HttpSettings(read=0.5))
    assert error.polled and error.retryable and (error.kind, error.retry_after) == (kind, wait)


async def test_a_server_that_is_gone_is_asked_again() -> None:
    with ModelServer([{"text": "x", "polls": 1}]) as server:
        model = provider(server)
        handle = (await begun(model)).handle
    await model.close()
    error, _ = await failing(model.poll(request(), handle))
    assert error.polled and error.retryable and error.kind == "network"


async def test_an_answer_that_is_gone_or_not_ours_is_not_asked_for_again() -> None:
    error = await poll_failure({"poll_faults": [{"status": 404}]})
    assert error.kind == "not_found" and not error.retryable and not error.polled
    assert "no longer has this answer" in str(error)
    for status in (401, 403):
        error = await poll_failure({"poll_faults": [{"status": status}]})
        assert error.kind == "authentication" and not error.retryable and "ACME_KEY" in str(error)


@pytest.mark.parametrize(
    "id", [None, 3, "", ".", "..", "../models", "a/b", "a?b", "a#b", "a%2fb", "a b", "ä", "a\n", "x" * 600]
)
async def test_an_id_that_is_no_single_segment_never_gets_into_a_url(id: Any) -> None:
    waiting = {"object": "response", "id": id, "status": "queued", "output": []}
    with ModelServer([{"status": 200, "body": waiting}]) as server:
        model = provider(server)
        for stream in (model.stream(request()), model.poll(request(), {"responseId": id})):
            error, _ = await failing(stream)
            assert error.kind == "bad_request" and not error.retryable and "id" in str(error)
        with pytest.raises(ModelError) as caught:
            await model.cancel({"responseId": id})
        assert caught.value.kind == "bad_request"
        await model.close()
    assert [row["method"] for row in server.accesses] == ["POST"]


async def test_a_base_url_with_a_query_keeps_it_behind_every_path() -> None:
    with ModelServer([{"text": "x", "polls": 1}]) as server:
        model = provider(f"{server.base_url}?api-version=preview")
        handle = (await begun(model)).handle
        await polled(model, handle)
        await model.cancel(handle)
        await model.close()
    assert [row["path"].partition("?")[2] for row in server.accesses] == [
        "api-version=preview", "include%5B%5D=reasoning.encrypted_content&api-version=preview", "api-version=preview",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("fault", "fine"),
    [
        ({"status": 404}, True),
        ({"status": 400, "body": {"error": {"message": "Cannot cancel a completed response."}}}, True),
        ({"status": 409, "body": {"error": {"message": "The response is already cancelled."}}}, True),
        ({"status": 400, "body": {"error": {"message": "no such parameter"}}}, False),
        ({"status": 200, "body": "no JSON, but fine"}, True),
        ({"status": 500}, False),
        ({"status": 401}, False),
    ],
)
async def test_cancelling_what_has_ended_is_no_failure(fault: dict[str, Any], fine: bool) -> None:
    with ModelServer([{"text": "x", "polls": 9, "cancel_faults": [fault]}]) as server:
        model = provider(server)
        handle = (await begun(model)).handle
        if fine:
            await model.cancel(handle)
        else:
            with pytest.raises(ModelError) as caught:
                await model.cancel(handle)
            assert caught.value.status == fault["status"]
            await model.cancel(handle)  # the second try gets through
            assert next(iter(server.jobs.all.values())).cancelled
        await model.close()


async def test_cancelling_ends_the_answer_at_the_server() -> None:
    with ModelServer([{"text": "x", "polls": 9}]) as server:
        model = provider(server)
        handle = (await begun(model)).handle
        await model.cancel(handle)
        await model.cancel(handle)
        await model.close()
    job = server.jobs.get(handle["responseId"])
    assert job is not None and job.cancelled and job.cancels == 2
    assert server.accesses[-1]["path"] == f"/v1/responses/{handle['responseId']}/cancel"
