"""Chat Completions over a real socket against a server that breaks on demand (cases P01-P26)."""

# ruff: noqa: E501 - bodies as they came
from __future__ import annotations

import asyncio
import json
import logging
import threading
import time
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import Any

import pytest

from durable_tui.models import Finished, HttpSettings, OpenAIChatProvider
from durable_tui.models.known_providers import Quirks
from durable_tui.models.provider import BlockDelta
from tests.tools.model_server import ModelServer
from tests.tools.waiting import until
from tests.wire.kit import (
    FAST,
    KEY,
    answering,
    ask,
    calls,
    chunk,
    events_of,
    fail,
    provider,
    refusing,
    request,
    result,
    text,
    user,
)

DONE = "data: [DONE]\n\n"


answer_to, failure_of = answering(), refusing()


async def test_a_conversation_with_calls_passes_the_strict_server() -> None:
    script = [
        {
            "thinking": "I think",
            "text": "Two calls.",
            "calls": [{"name": "bash", "args": {"command": "ls"}}, {"name": "bash"}],
        },
        {"text": "Both done."},
    ]
    with ModelServer(script, strict=True) as server:
        model = provider(server)
        first = await ask(model, user())
        results = [result(call) for call in calls(first)]
        second = await ask(model, user(), first, *reversed(results))
        await ask(model, user(), first, *results, second, user("more"))
        await model.close()
    assert first["stopReason"] == "toolUse" and calls(first)[0]["arguments"] == {"command": "ls"}
    assert text(second) == "Both done." and second["usage"]["input"] > 0
    assert server.violations == [] and len(server.requests) == 3
    assert server.headers[0]["authorization"] == f"Bearer {KEY}"
    assert server.requests[1]["messages"][2]["reasoning_content"] == "I think"


async def test_one_connection_serves_one_request_after_the_other() -> None:
    with ModelServer([{"text": "x"}]) as server:
        model = provider(server)
        for _ in range(3):
            await ask(model)
            client = model._client
            assert client is not None
            connections = client._transport._pool.connections  # type: ignore[attr-defined]
            await until(lambda connections=connections: all(item.is_idle() for item in connections))  # type: ignore[misc]
            assert len(connections) == 1
        await model.close()
        assert await ask(model)  # a closed provider opens again
        await model.close()


async def test_p01_every_cut_inside_characters() -> None:
    body = (chunk({"content": "北京🙂"}) + chunk({}, "stop") + DONE).encode()
    with ModelServer([{"body": body, "chunk_bytes": 1}]) as server:
        model = provider(server)
        assert text(await ask(model)) == "北京🙂"
        start = body.index("北".encode())
        for cut in range(start, start + len("北京🙂".encode()) + 1):
            server.script = [{"body": body, "stall": 0.005, "stall_after": cut}]
            assert text(await ask(model)) == "北京🙂"
        await model.close()


async def test_p02_unicode_line_ends_are_text() -> None:
    call = {"index": 0, "id": "c", "function": {"name": "bash", "arguments": '{"command":"a\u2028b\x85"}'}}
    message = await answer_to(
        chunk({"content": "a\u2028b\u2029c\x85d"}) + chunk({"tool_calls": [call]}, "tool_calls") + DONE
    )
    assert text(message) == "a\u2028b\u2029c\x85d"
    assert calls(message)[0]["arguments"] == {"command": "a\u2028b\x85"}


async def test_p04_comments_are_signs_of_life_but_no_events() -> None:
    comments = ": PROCESSING\n\n" * 40
    body = (comments + chunk({"content": "a"}) + ":\n\n" + chunk({"content": "b"}, "stop") + ":\n\n" + DONE).encode()
    # The whole takes longer than the read timeout; each comment resets it.
    settings = HttpSettings(read=0.4, linger=0.3)
    message = await answer_to(body, settings, chunk_bytes=24, chunk_delay=0.03)
    assert text(message) == "ab"


async def test_p04_comments_alone_are_no_progress() -> None:
    error, _ = await failure_of(
        {"body": ": x\n\n" * 100, "chunk_bytes": 5, "chunk_delay": 0.02}, HttpSettings(read=5.0, progress=0.2)
    )
    assert error.kind == "timeout"


async def test_p05_odd_frames() -> None:
    body = (
        "data:\n\n" + 'data: {"choices":[]}\n\n' + 'data: {"choices":null,"usage":{"prompt_tokens":1,"completion_tokens":1}}\n\n'
        + chunk({"content": "x"}) + 'data: {"choices":[{"delta":null,"finish_reason":"stop"}]}\n\n'
        + 'data: {"choices":[],"usage":{"prompt_tokens":7,"completion_tokens":3}}\n\n' + DONE
    )  # fmt: skip
    message = await answer_to(body)
    assert message["stopReason"] == "stop" and message["usage"]["input"] == 7


async def test_p06_a_body_that_ends_early_is_a_failed_attempt() -> None:
    body = chunk({"content": "one"}) + chunk({"content": "two"})
    error, seen = await failure_of({"body": body})
    assert error.kind == "truncated" and error.retryable
    assert "".join(event.text for event in seen if isinstance(event, BlockDelta)) == "onetwo"
    error, _ = await failure_of({"text": "x" * 200, "cut_after": 900})
    assert error.kind == "truncated"
    error, _ = await failure_of({"text": "x" * 200, "cut_after": 900, "abrupt": True})
    assert error.kind == "truncated"
    error, seen = await failure_of({"body": chunk({"content": "one"}) + chunk({"content": "two"})[:-12]})
    assert error.kind == "truncated" and len(seen) == 2


async def test_p06_a_reset_is_transient() -> None:
    error, _ = await failure_of({"text": "x" * 200, "reset_after": 900})
    assert error.retryable and error.kind in ("network", "truncated")


async def test_p06_counter_case_a_finish_reason_is_enough() -> None:
    assert text(await answer_to(chunk({"content": "hi"}) + chunk({}, "stop"))) == "hi"
    body = chunk({"content": "hi"}) + chunk({}, "stop")
    assert text(await answer_to(body + DONE, cut_after=len(body), abrupt=True)) == "hi"
    start = time.monotonic()
    assert text(await answer_to(body + DONE, stall=True, stall_after=len(body))) == "hi"
    assert time.monotonic() - start < 3


async def test_a_last_event_without_its_blank_line_counts() -> None:
    assert text(await answer_to((chunk({"content": "hi"}) + chunk({}, "stop")).rstrip("\n"))) == "hi"


async def test_p12_a_bad_call_does_not_poison_the_session() -> None:
    script = [{"calls": [{"name": "bash", "raw": '{"command": "ls", timeout": 5}'}]}, {"text": "I see."}]
    with ModelServer(script, strict=True) as server:
        model = provider(server)
        first = await ask(model)
        call = calls(first)[0]
        assert call["arguments"] == {} and "invalid" in call["providerExtra"]
        assert (
            text(await ask(model, user(), first, result(call, call["providerExtra"]["invalid"]["error"]))) == "I see."
        )
        await model.close()
    assert server.requests[1]["messages"][2]["tool_calls"][0]["function"]["arguments"] == "{}"


@pytest.mark.parametrize(
    ("finish", "raw"),
    [
        ("length", '{"path":"app.py","content":"def'),
        ("stop", '{"path":"app.py","content":"def'),
        ("length", '{"path":"app.py"}'),
    ],
)
async def test_p14_cut_calls_are_marked(finish: str, raw: str) -> None:
    with ModelServer([{"calls": [{"name": "write", "raw": raw}], "finish": finish}]) as server:
        model = provider(server)
        call = calls(await ask(model))[0]
        await model.close()
    assert call["arguments"] == {} and "output limit" in call["providerExtra"]["invalid"]["error"]


async def test_p15_ids_are_made_unique_before_they_are_kept() -> None:
    made = [{"name": "bash", "id": id, "args": {"n": n}} for n, id in enumerate(["t1", "t2", "t2", ""])]
    with ModelServer([{"calls": made}, {"text": "ok"}], strict=True) as server:
        model = provider(server)
        first = await ask(model)
        ids = [call["id"] for call in calls(first)]
        assert len(set(ids)) == 4 and all(ids) and [c["arguments"]["n"] for c in calls(first)] == [0, 1, 2, 3]
        second = await ask(model, user(), first, *[result(call, "r") for call in calls(first)])
        # The next turn repeats the ids of the first, as servers do that count anew.
        server.script = [{"calls": made}, {"text": "ok"}]
        third = await ask(model, user(), first, *[result(call, "r") for call in calls(first)], second, user("again"))
        assert not {call["id"] for call in calls(third)} & set(ids)
        await model.close()
    assert server.violations == []


@pytest.mark.parametrize(
    "error",
    ['event: error\ndata: {"type":"error","error":{"type":"overloaded_error","message":"Overloaded"}}\n\n',
     'data: {"error":{"message":"overloaded","code":529}}\n\n'],
)  # fmt: skip
@pytest.mark.parametrize("before", [0, 30])
async def test_p17_an_error_inside_a_200(error: str, before: int) -> None:
    found, seen = await failure_of({"body": chunk({"content": "x"}) * before + error})
    assert found.kind == "overloaded" and found.retryable and "verloaded" in str(found)
    assert len(seen) == (before + 1 if before else 0)
    assert not any(isinstance(event, Finished) for event in seen)


async def test_p17_openrouter_ends_with_an_error_and_a_finish_reason() -> None:
    body = {
        "error": {"code": 502, "message": "upstream"},
        "choices": [{"index": 0, "delta": {}, "finish_reason": "error"}],
    }
    found, _ = await failure_of({"body": f"data: {json.dumps(body)}\n\n"})
    assert found.kind == "server" and "upstream" in str(found)


async def test_json_on_a_streamed_request() -> None:
    with ModelServer([{"json": True, "text": "whole", "calls": [{"name": "bash", "args": {"a": 1}}]}]) as server:
        model = provider(server)
        message = await ask(model)
        await model.close()
    assert (
        text(message) == "whole" and calls(message)[0]["arguments"] == {"a": 1} and message["stopReason"] == "toolUse"
    )
    error, _ = await failure_of({"json": {"error": {"message": "prompt is too long: 5 tokens > 4 maximum"}}})
    assert error.kind == "overflow"
    error, _ = await failure_of({"json": {"object": "error", "message": "no such model", "code": 404}})
    assert error.kind == "not_found"
    error, _ = await failure_of({"body": '{"error": {"message": "overloaded"}}'})  # under the stream's content type
    assert error.kind == "overloaded"
    error, _ = await failure_of({"body": "<html>hello</html>", "content_type": "text/html; charset=utf-8"})
    assert error.kind == "configuration" and "base URL" in str(error)


async def test_what_is_no_json_is_malformed() -> None:
    error, _ = await failure_of({"body": "data: {broken\n\n" + DONE})
    assert error.kind == "malformed" and error.retryable


@pytest.mark.parametrize(
    ("turn", "kind", "retryable", "wait"),
    [
        ({"status": 429, "body": {"error": {"code": "insufficient_quota", "message": "quota"}}}, "quota", False, None),
        ({"status": 429, "body": {"error": "INSUFFICIENT QUOTA", "message": "concurrent requests"}}, "rate_limit", True, None),
        ({"status": 429, "body": {"error": {"code": "rate_limit_exceeded"}}, "headers": {"Retry-After": "2"}}, "rate_limit", True, 2.0),
        ({"status": 429, "body": {}, "headers": {"retry-after": "7200"}}, "rate_limit", True, 7200.0),
        ({"status": 429, "body": {}, "headers": {"retry-after-ms": "1500"}}, "rate_limit", True, 1.5),
        ({"status": 429, "body": {}, "headers": {"retry-after": "garbage"}}, "rate_limit", True, None),
        ({"status": 400, "body": {"error": {"message": "bad"}}}, "bad_request", False, None),
        ({"status": 401, "body": {"error": {"message": f"wrong key {KEY}"}}}, "authentication", False, None),
        ({"status": 404, "body": "nothing here"}, "not_found", False, None),
        ({"status": 413, "body": ""}, "overflow", False, None),
        ({"status": 503, "body": {"error": {"message": "Loading model", "type": "unavailable_error", "code": 503}}}, "overloaded", True, None),
        ({"status": 500, "body": "<html><title>Oops</title></html>"}, "server", True, None),
    ],
)  # fmt: skip
async def test_p18_p19_p20_error_answers(turn: dict[str, Any], kind: str, retryable: bool, wait: float | None) -> None:
    error, seen = await failure_of(turn)
    assert (error.kind, error.retryable, error.retry_after, error.status) == (kind, retryable, wait, turn["status"])
    assert seen == [] and str(error).startswith("acme: ")


async def test_silence_is_a_timeout_and_no_server_is_a_network_error() -> None:
    error, _ = await failure_of({"text": "x", "stall": True}, HttpSettings(read=0.2))
    assert error.kind == "timeout" and error.retryable
    with ModelServer([]) as server:
        gone = provider(server)
    error, _ = await fail(gone)
    assert error.kind == "network" and error.retryable and "is the server running?" in str(error)


@pytest.mark.parametrize(
    ("url", "key"),
    [("ftp://x.test", KEY), ("http://[::", KEY), ("http://127.0.0.1:1/v1", "ключ"), ("http://127.0.0.1:1", "a\nb")],
)
async def test_unusable_configuration_says_so(url: str, key: str) -> None:
    model = OpenAIChatProvider("acme", url, key=key, key_env="ACME_KEY")
    error, _ = await fail(model)
    assert error.kind == "configuration" and key not in str(error)


async def test_the_key_is_neither_logged_nor_shown(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    error, _ = await failure_of({"status": 400, "body": {"error": {"message": f"Bearer {KEY} / {KEY}"}}})
    assert KEY not in str(error) and KEY not in repr(error) and KEY not in caplog.text
    assert KEY not in repr(provider("http://x.test").__dict__)


async def test_a_secret_in_a_configured_header_is_not_shown() -> None:
    secret = "zq81-hidden-words"
    with ModelServer([{"status": 400, "body": {"error": {"message": f"who is {secret}?"}}}]) as server:
        headers = {"Proxy-Authorization": f"Custom {secret}", "X-Team": "who"}
        model = OpenAIChatProvider("acme", server.base_url, headers=headers, settings=FAST)
        error, _ = await fail(model)
        await model.close()
    assert secret not in str(error) and "who is" in str(error)


async def drip(server: ModelServer, model: OpenAIChatProvider, seen: asyncio.Event) -> None:
    async for event in model.stream(request()):
        seen.set()
        del event


async def test_p26_double_cancellation_leaves_the_pool_whole() -> None:
    """Thirty aborts, each cancelled twice, over a pool of four: a leaked slot would end in PoolTimeout."""
    settings = HttpSettings(connect=5.0, read=30.0, pool=1.5, max_connections=4)
    dripping = {"text": "drip " * 400, "delay": 60.0}
    with ModelServer([dripping]) as server:
        model = provider(server, settings)
        for number in range(30):
            seen = asyncio.Event()
            task = asyncio.create_task(drip(server, model, seen))
            if number % 3 == 0:  # while it connects
                for _ in range(number % 7):
                    await asyncio.sleep(0)
            else:
                await asyncio.wait_for(seen.wait(), 5)
            task.cancel()
            await asyncio.sleep(0)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
        server.script = [{"text": "fine"}]
        async with asyncio.timeout(2):
            assert text(await ask(model)) == "fine"
        await until(lambda: server.closed == server.opened - 1)
        assert server.closed == server.opened - 1 >= 20
        assert not model._running or len(model._running) == 1
        await model.close()


async def test_p26_an_exchange_is_cancelled_once_however_often_it_is_stopped() -> None:
    with ModelServer([{"text": "drip " * 400, "delay": 60.0}]) as server:
        model = provider(server)
        stream = model.stream(request())
        await anext(aiter(stream))
        (exchange,) = model._running
        task = exchange._task
        assert task is not None
        exchange.stop()
        exchange.stop()
        assert task.cancelling() == 1
        await stream.aclose()  # type: ignore[attr-defined]
        await model.close()
        assert task.done() and task.cancelling() == 1


async def test_a_reader_that_stops_reading_closes_the_connection() -> None:
    with ModelServer([{"text": "drip " * 400, "delay": 60.0}]) as server:
        model = provider(server)
        stream = model.stream(request())
        await anext(aiter(stream))
        await stream.aclose()  # type: ignore[attr-defined]
        await until(lambda: server.closed)
        assert server.closed == 1 and not model._running
        stream = model.stream(request())
        await anext(aiter(stream))
        await model.close()
        await until(lambda: server.closed == 2)
        assert server.closed == 2


async def test_many_streams_at_once() -> None:
    with ModelServer([{"text": "word " * 20, "delay": 0.05}]) as server:
        model = provider(server)
        answers = await asyncio.gather(*(ask(model) for _ in range(20)))
        await model.close()
    assert {text(answer) for answer in answers} == {"word " * 20}


async def test_events_come_while_the_server_still_writes() -> None:
    with ModelServer([{"text": "a b c d e f g h i j", "delay": 0.5}]) as server:
        model = provider(server)
        times = []
        async for _ in model.stream(request()):
            times.append(time.monotonic())
        await model.close()
    assert times[-1] - times[0] > 0.2


async def test_a_stop_while_the_head_is_awaited_returns_at_once() -> None:
    """case A01: nothing waits for the server when a run is stopped."""
    with ModelServer([{"text": "x", "stall": True}]) as server:
        model = provider(server, HttpSettings(read=60.0))
        task = asyncio.create_task(events_of(model))
        await until(lambda: server.requests)
        start = time.monotonic()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert time.monotonic() - start < 1.0
        assert len(server.requests) == 1
        await model.close()


async def test_a_query_in_the_base_url_and_another_header_for_the_key() -> None:
    """Azure wants both."""
    asked: list[tuple[str, dict[str, str]]] = []

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            asked.append((self.path, {key.lower(): value for key, value in self.headers.items()}))
            self.rfile.read(int(self.headers["content-length"]))
            body = (chunk({"content": "hi"}, "stop") + DONE).encode()
            self.send_response(200)
            self.send_header("content-type", "text/event-stream")
            self.send_header("content-length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: Any) -> None:
            """Quiet."""

    with HTTPServer(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        url = f"http://127.0.0.1:{server.server_port}/openai/?api-version=1"
        model = OpenAIChatProvider("az", url, key=KEY, quirks=Quirks(auth="api-key"), settings=FAST)
        assert text(await ask(model)) == "hi"
        await model.close()
        server.shutdown()
    path, headers = asked[0]
    assert path == "/openai/chat/completions?api-version=1"
    assert headers["api-key"] == KEY and "authorization" not in headers
