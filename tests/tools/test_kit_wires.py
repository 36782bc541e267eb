"""The scripted server speaks its three protocols as the official clients' types and the clients themselves want it."""

from __future__ import annotations

import http.client
import json
import socket
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any

import pytest

from tests.tools import sdk, wire_anthropic, wire_chat, wire_responses
from tests.tools.model_process import model_process
from tests.tools.model_server import ModelServer

WIRES: dict[str, Any] = {wire.API: wire for wire in (wire_chat, wire_anthropic, wire_responses)}
REASONING = {"choices[].delta.reasoning_content", "choices[].message.reasoning_content"}
SCHEMA = {"type": "object", "properties": {"command": {"type": "string"}}}
BODIES: dict[str, dict[str, Any]] = {
    "openai-chat": {"model": "m", "messages": [{"role": "user", "content": "go"}]},
    "openai-responses": {
        "model": "m",
        "input": "go",
        "instructions": "be good",
        "store": False,
        "include": ["reasoning.encrypted_content"],
        "reasoning": {"effort": "low", "summary": "auto"},
        "tools": [{"type": "function", "name": "bash", "parameters": SCHEMA, "strict": False}],
    },
    "anthropic": {
        "model": "m",
        "max_tokens": 9000,
        "messages": [{"role": "user", "content": "go"}],
        "tools": [{"name": "bash", "input_schema": SCHEMA}],
    },
}
FULL: dict[str, Any] = {
    "thinking": "  first\nthen  ",
    "signature": "SIG+/==",
    "text": "Hello ünïcödé 🎉\u2028 world",
    "calls": [{"name": "bash", "args": {"command": 'ls "ä"'}}, {"name": "look"}, {"name": "bash", "id": "given_1"}],
    "usage": {"input": 10, "output": 50, "cacheRead": 100, "cacheWrite": 7, "reasoning": 20},
}
TURNS: dict[str, dict[str, Any]] = {
    "full": FULL,
    "text": {"text": "hi"},
    "nothing": {},
    "hidden": {"redacted": "DATA==", "text": "hi"},
    "omitted": {"thinking": "", "signature": "SIG==", "text": "hi"},
    "length": {"text": "cut", "calls": [{"name": "bash", "raw": '{"command": '}], "finish": "length"},
    "refusal": {"refusal": "I will not."},
    "filter": {"text": "par", "finish": "content_filter"},
    "interleaved": {
        "blocks": [
            {"thinking": ["one", "two"], "signature": "A=="},
            {"text": "so"},
            {"call": {"name": "bash", "args": {"command": "ls"}}},
            {"redacted": "B=="},
            {"call": {"name": "bash", "args": {"command": "pwd"}}},
        ]
    },
    "error": {"text": "par", "error": {"type": "overloaded_error", "message": "busy"}},
    "open reasoning": {"thinking": "hm", "reasoning_text": True, "text": "hi"},
    "unended": {"text": "par", "finish": None},
}


def ask(
    method: str, url: str, body: Any = None, headers: dict[str, str] | None = None
) -> tuple[int, dict[str, Any], dict[str, str]]:
    """Status, JSON and headers of an answer, whatever its status."""
    data = json.dumps(body).encode() if body is not None else None
    asked = urllib.request.Request(url, data, {"content-type": "application/json", **(headers or {})}, method=method)
    try:
        with urllib.request.urlopen(asked, timeout=30) as answer:
            return answer.status, json.loads(answer.read()), dict(answer.headers)
    except urllib.error.HTTPError as error:
        return error.code, json.loads(error.read()), dict(error.headers)


@pytest.mark.parametrize("name", TURNS)
@pytest.mark.parametrize("api", sdk.APIS)
def test_each_event_is_valid_for_the_official_types(api: str, name: str) -> None:
    raw = b"".join(WIRES[api].stream_of(TURNS[name], BODIES[api], "p"))
    assert sdk.frames(raw) and sdk.check_events(api, raw, REASONING) == []


@pytest.mark.parametrize("name", [name for name in TURNS if name not in ("error", "unended")])
@pytest.mark.parametrize("api", sdk.APIS)
def test_each_whole_answer_is_valid_and_says_what_its_stream_says(api: str, name: str) -> None:
    with ModelServer([TURNS[name]]) as server:
        path = WIRES[api].PATH.removeprefix("/v1")
        status, whole, _ = ask("POST", server.base_url + path, BODIES[api])
        assert status == 200 and sdk.check_response(whole, REASONING) == []
    events = [json.loads(data) for _, data in sdk.frames(b"".join(WIRES[api].stream_of(TURNS[name], BODIES[api], "p")))
              if data != "[DONE]"]  # fmt: skip
    if api == "openai-responses":
        ended = events[-1]["response"]
        assert [item["type"] for item in whole["output"]] == [item["type"] for item in ended["output"]]
        assert (whole["status"], whole["usage"]) == (ended["status"], ended["usage"])
    elif api == "anthropic":
        starts = [event["content_block"]["type"] for event in events if event["type"] == "content_block_start"]
        assert [block["type"] for block in whole["content"]] == starts
        assert whole["stop_reason"] == events[-2]["delta"]["stop_reason"]
    else:
        assert whole["choices"][0]["finish_reason"] == events[-2]["choices"][0]["finish_reason"]


@pytest.mark.parametrize("api", sdk.APIS)
def test_the_official_clients_assemble_what_the_script_says(api: str) -> None:
    with ModelServer([FULL], strict=True, sdk=True) as server:
        said = sdk.assemble(api, server.base_url, BODIES[api])
        assert server.violations == [] and server.apis == [api]
    ids = [call.pop("id") for call in said["calls"]]
    assert len(set(ids)) == 3 and ids[2] == "given_1"
    assert said == {
        "text": FULL["text"],
        "thinking": FULL["thinking"],
        "signatures": [] if api == "openai-chat" else [FULL["signature"]],
        "calls": [
            {"name": "bash", "arguments": {"command": 'ls "ä"'}},
            {"name": "look", "arguments": {}},
            {"name": "bash", "arguments": {}},
        ],
        "stop": "toolUse",
        "usage": {"input": 117, "output": 50, "cacheRead": 100, "cacheWrite": 7},
    }
    again = sdk.assemble_bytes(api, b"".join(WIRES[api].stream_of(FULL, BODIES[api], "p")))
    assert [again[key] for key in ("text", "thinking", "stop", "usage")] == [
        said[key] for key in ("text", "thinking", "stop", "usage")
    ]


@pytest.mark.parametrize("api", sdk.APIS)
@pytest.mark.parametrize(
    ("name", "stop"), [("text", "stop"), ("length", "length"), ("filter", "refused"), ("interleaved", "toolUse")]
)
def test_the_official_clients_are_told_why_it_ended(api: str, name: str, stop: str) -> None:
    with ModelServer([TURNS[name]]) as server:
        said = sdk.assemble(api, server.base_url, BODIES[api])
    assert said["stop"] == stop
    if name == "length":
        assert said["calls"][0]["arguments"] is None
    if name == "interleaved" and api != "openai-chat":
        assert said["signatures"] == ["A==", "B=="] and said["thinking"] == "one\n\ntwo"


@pytest.mark.parametrize("api", sdk.APIS)
def test_the_official_clients_raise_the_scripted_errors(api: str) -> None:
    import anthropic
    import openai

    failures = (openai.APIError, anthropic.APIError, RuntimeError)
    with ModelServer([TURNS["error"]]) as server, pytest.raises(failures, match="busy"):
        sdk.assemble(api, server.base_url, BODIES[api])
    with ModelServer([{"status": 429, "headers": {"retry-after": "1"}}]) as server, pytest.raises(failures) as caught:
        sdk.assemble(api, server.base_url, BODIES[api])
    assert isinstance(caught.value, openai.RateLimitError | anthropic.RateLimitError)
    assert caught.value.response.headers["retry-after"] == "1"


def test_anthropic_events_come_in_the_official_order() -> None:
    turn = {"thinking": "abc", "signature": "S", "text": "abc", "calls": [{"name": "x"}], "usage": FULL["usage"]}
    events = wire_anthropic.events_of(turn, BODIES["anthropic"], "p")
    block = ["content_block_start", "content_block_delta", "content_block_stop"]
    assert [event["type"] for event in events] == [
        "message_start", "content_block_start", "ping", "content_block_delta", "content_block_delta",
        "content_block_stop", *block, *block, "message_delta", "message_stop",
    ]  # fmt: skip
    assert [event["index"] for event in events if "index" in event] == [0, 0, 0, 0, 1, 1, 1, 2, 2, 2]
    deltas = [event["delta"] for event in events if event["type"] == "content_block_delta"]
    assert deltas[1] == {"type": "signature_delta", "signature": "S"}
    assert deltas[3] == {"type": "input_json_delta", "partial_json": ""}
    start, end = events[0]["message"]["usage"], events[-2]["usage"]
    assert (start["input_tokens"], start["cache_read_input_tokens"], start["output_tokens"]) == (10, 100, 1)
    assert (end["input_tokens"], end["cache_creation_input_tokens"], end["output_tokens"]) == (10, 7, 50)


def test_responses_events_come_in_the_official_order() -> None:
    turn = {"thinking": "abc", "signature": "SIGN", "text": "abc", "calls": [{"name": "x"}]}
    events = wire_responses.events_of(turn, BODIES["openai-responses"], "p")
    summary, call = "response.reasoning_summary", "response.function_call_arguments"
    assert [event["type"] for event in events] == [
        "response.created", "response.in_progress",
        "response.output_item.added", f"{summary}_part.added", f"{summary}_text.delta", f"{summary}_text.done",
        f"{summary}_part.done", "response.output_item.done",
        "response.output_item.added", "response.content_part.added", "response.output_text.delta",
        "response.output_text.done", "response.content_part.done", "response.output_item.done",
        "response.output_item.added", f"{call}.delta", f"{call}.done", "response.output_item.done",
        "response.completed",
    ]  # fmt: skip
    assert [event["sequence_number"] for event in events] == list(range(len(events)))
    assert events[2]["item"]["encrypted_content"] == "SI" and events[7]["item"]["encrypted_content"] == "SIGN"
    done = [event["item"] for event in events if event["type"] == "response.output_item.done"]
    assert events[-1]["response"]["output"] == done
    assert [event["output_index"] for event in events if "output_index" in event] == [0] * 6 + [1] * 6 + [2] * 4
    bare = wire_responses.events_of(turn, {"model": "m", "input": "go"}, "p")
    assert all("encrypted_content" not in event.get("item", {}) for event in bare)


def _answers(api: str) -> list[dict[str, Any]]:
    """A body's messages after the first question: the first turn with its two calls, and their results."""
    if api == "openai-chat":
        calls = [{"id": id, "type": "function", "function": {"name": "bash", "arguments": "{}"}} for id in "ab"]
        results = [{"role": "tool", "tool_call_id": id, "content": "ok"} for id in "ab"]
        return [{"role": "assistant", "content": None, "tool_calls": calls}, *results]
    if api == "anthropic":
        uses = [{"type": "tool_use", "id": id, "name": "bash", "input": {}} for id in "ab"]
        results = [{"type": "tool_result", "tool_use_id": id, "content": "ok"} for id in "ab"]
        return [{"role": "assistant", "content": uses}, {"role": "user", "content": results}]
    told = {"role": "assistant", "content": "first"}
    calls = [{"type": "function_call", "call_id": id, "name": "bash", "arguments": "{}"} for id in "ab"]
    return [told, *calls, *({"type": "function_call_output", "call_id": id, "output": "ok"} for id in "ab")]


@pytest.mark.parametrize("api", sdk.APIS)
def test_the_turn_is_found_from_each_protocols_body(api: str) -> None:
    script = {"turns": [{"text": "first"}, {"text": "second"}], "match": {"other": [{"text": "match"}]}}
    field = "input" if api == "openai-responses" else "messages"
    with ModelServer(script, strict=True, sdk=True) as server:

        def said(*messages: dict[str, Any]) -> str:
            body = {**BODIES[api], field: [{"role": "user", "content": "go"}, *messages]}
            return str(sdk.assemble(api, server.base_url, body)["text"])

        answered = _answers(api)
        assert [said(), said(*answered)] == ["first", "second"]
        if api == "anthropic":
            steered = [*answered[-1]["content"], {"type": "text", "text": "the other thing"}]
            assert said(answered[0], {"role": "user", "content": steered}) == "match"
        else:
            assert said(*answered, {"role": "user", "content": "the other thing"}) == "match"
        assert server.violations == []


@pytest.mark.parametrize("api", sdk.APIS)
def test_faults_are_the_same_in_each_protocol(api: str) -> None:
    faults = [{"status": 529}, {"cut_after": 90}, {"reset_after": 200}, {"chunk_bytes": 1}]
    path = WIRES[api].PATH
    with ModelServer([{"text": "ü" * 20, "faults": faults}]) as server:
        answers: list[Any] = []
        for _ in faults:
            peer = http.client.HTTPConnection("127.0.0.1", server.port, timeout=30)
            peer.request("POST", path, json.dumps({**BODIES[api], "stream": True}))
            answer = peer.getresponse()
            try:
                answers.append((answer.status, len(answer.read())))
            except (ConnectionResetError, http.client.IncompleteRead) as error:
                answers.append(type(error))
            peer.close()
        assert answers[0][0] == 529 and answers[1] == (200, 90)
        assert answers[2] in (ConnectionResetError, http.client.IncompleteRead)
        assert answers[3][1] > 200 and sdk.assemble(api, server.base_url, BODIES[api])["text"] == "ü" * 20


@pytest.mark.parametrize("api", sdk.APIS)
def test_refusals_have_the_protocols_own_shape(api: str) -> None:
    headers = {"anthropic-version": "2023-06-01"} if api == "anthropic" else {}
    path = WIRES[api].PATH.removeprefix("/v1")
    with ModelServer([{"status": 500, "body": WIRES[api].error_of(500, "broken")}], strict=True, sdk=True) as server:
        bad = {**BODIES[api], "maxx_tokens": 5}
        for status, answer, _ in (
            ask("POST", server.base_url + path, bad, headers),
            ask("POST", server.base_url + path, BODIES[api], headers),
            ask("POST", server.base_url + "/nowhere", {}, headers),
        ):
            assert status in (400, 404, 500) and sdk.check_response(answer) == []
            assert ("type" in answer) == (api == "anthropic")
        assert server.violations == ["[sdk] maxx_tokens: unknown key"]


def test_models_are_listed_for_both() -> None:
    with ModelServer([], models=("a", "b")) as server:
        _, openai, _ = ask("GET", f"{server.base_url}/models")
        _, anthropic, _ = ask("GET", f"{server.base_url}/models", headers={"anthropic-version": "2023-06-01"})
    assert [model["id"] for model in openai["data"]] == [model["id"] for model in anthropic["data"]] == ["a", "b"]
    assert sdk.check_response(openai) == [] and sdk.check_response(anthropic) == []
    assert anthropic["first_id"] == "a" and "object" not in anthropic


BACKGROUND = {**BODIES["openai-responses"], "store": True, "background": True}


@pytest.mark.parametrize(
    ("turn", "status"),
    [
        ({"text": "done", "calls": [{"name": "bash"}]}, "completed"),
        ({"text": "cut", "finish": "length"}, "incomplete"),
        ({"text": "par", "failed": {"code": "rate_limit_exceeded", "message": "slow"}}, "failed"),
        ({"finish": "cancelled"}, "cancelled"),
    ],
)
def test_a_background_answer_is_polled_to_its_end(turn: dict[str, Any], status: str) -> None:
    with ModelServer([{**turn, "polls": 3}], strict=True, sdk=True) as server:
        url = f"{server.base_url}/responses"
        _, first, _ = ask("POST", url, BACKGROUND)
        states = [first, *(ask("GET", f"{url}/{first['id']}")[1] for _ in range(5))]
        assert [state["status"] for state in states] == [
            "queued", "queued", "in_progress", "in_progress", status, status,
        ]  # fmt: skip
        assert [line for state in states for line in sdk.check_response(state)] == []
        assert {(state["id"], state["created_at"]) for state in states} == {(first["id"], first["created_at"])}
        assert states[-1] == states[-2] and all(not state["output"] for state in states[:4])
        assert bool(states[-1]["output"]) == (status != "cancelled")
        assert server.counts == {"post": 1, "created": 1, "get": 5}


def test_a_background_answer_can_take_its_time_and_be_cancelled_twice() -> None:
    with ModelServer([{"text": "never", "background_delay": 1000}], strict=True) as server:
        url = f"{server.base_url}/responses"
        _, first, _ = ask("POST", url, BACKGROUND)
        assert ask("GET", f"{url}/{first['id']}")[1]["status"] == "queued"
        cancelled = [ask("POST", f"{url}/{first['id']}/cancel", {})[1] for _ in range(2)]
        assert cancelled[0]["status"] == "cancelled" and cancelled[0] == cancelled[1]
        assert ask("GET", f"{url}/{first['id']}")[1] == cancelled[0]
        assert sdk.check_response(cancelled[0]) == []
        assert server.counts["cancel"] == 2 and server.counts["created"] == 1
    with ModelServer([{"text": "at once"}]) as server:
        url = f"{server.base_url}/responses"
        _, first, _ = ask("POST", url, BACKGROUND)
        done = ask("GET", f"{url}/{first['id']}")[1]
        assert done["status"] == "completed" and ask("POST", f"{url}/{first['id']}/cancel", {})[1] == done
        for method, path in (("GET", "resp_unknown"), ("POST", "resp_unknown/cancel")):
            status, answer, _ = ask(method, f"{url}/{path}", {} if method == "POST" else None)
            assert status == 404 and sdk.check_response(answer) == []


def test_an_idempotency_key_begins_one_answer() -> None:
    faults = [{"status": 500}, {"status": 503, "late": True}, {"reset_after": 0}]
    with ModelServer([{"text": "x", "faults": faults}], strict=True) as server:
        url = f"{server.base_url}/responses"
        key = {"idempotency-key": "k1"}
        assert ask("POST", url, BACKGROUND, key)[0] == 500 and server.counts["created"] == 0
        assert ask("POST", url, BACKGROUND, key)[0] == 503 and server.counts["created"] == 1
        with pytest.raises((ConnectionError, http.client.HTTPException, urllib.error.URLError)):
            ask("POST", url, BACKGROUND, key)
        same = [ask("POST", url, BACKGROUND, key)[1]["id"] for _ in range(2)]
        other = ask("POST", url, BACKGROUND, {"idempotency-key": "k2"})[1]["id"]
        assert same[0] == same[1] != other and server.counts["created"] == 2 and server.counts["post"] == 6
        status, answer, _ = ask("POST", url, {**BACKGROUND, "instructions": "else"}, key)
        assert status == 400 and "k1" in answer["error"]["message"]
        assert [row["key"] for row in server.accesses] == ["k1"] * 5 + ["k2", "k1"]


def test_polls_and_cancellations_have_faults_of_their_own() -> None:
    turn = {
        "text": "x",
        "poll_faults": [{"status": 500, "times": 2}, {"status": 404}],
        "cancel_faults": [{"status": 429}],
    }
    with ModelServer([turn]) as server:
        url = f"{server.base_url}/responses"
        _, first, _ = ask("POST", url, BACKGROUND)
        assert ask("POST", f"{url}/{first['id']}/cancel", {})[0] == 429
        assert [ask("GET", f"{url}/{first['id']}")[0] for _ in range(4)] == [500, 500, 404, 200]


def test_the_process_outlives_a_client_that_dies_and_tells_what_it_saw(tmp_path: Path) -> None:
    log, access = tmp_path / "log.jsonl", tmp_path / "access.jsonl"
    options = ("--strict", "--sdk", "--log", str(log), "--access-log", str(access))
    with model_process(tmp_path, [{"text": "x", "polls": 1}], *options) as base:
        root = base.removesuffix("/v1")
        url = f"{base}/responses"
        head = "POST /v1/responses HTTP/1.1\r\nhost: x\r\nidempotency-key: k\r\ncontent-length: "
        body = json.dumps(BACKGROUND)
        with socket.create_connection(("127.0.0.1", int(root.rpartition(":")[2])), timeout=30) as client:
            client.sendall(f"{head}{len(body)}\r\n\r\n{body}".encode())
            client.recv(1)  # it was taken; the rest of the answer is lost
        _, again, _ = ask("POST", url, BACKGROUND, {"idempotency-key": "k"})
        ask("GET", f"{url}/{again['id']}")
        _, done, _ = ask("GET", f"{url}/{again['id']}")
        ask("POST", f"{base}/messages", {**BODIES["anthropic"], "x": 1}, {"anthropic-version": "1"})
        ask("GET", f"{base}/models")
        _, state, _ = ask("GET", f"{root}/state")
    assert done["status"] == "completed"
    assert state["counts"] == {"post": 2, "created": 1, "get": 2}
    assert state["jobs"] == {again["id"]: {"key": "k", "polls": 2, "cancels": 0, "cancelled": False, "ready": True}}
    assert state["violations"] == ["[sdk] x: unknown key"]
    rows = [json.loads(line) for line in access.read_text().splitlines()]
    assert [(row["method"], row["path"].partition("/v1/")[2].partition("/")[0]) for row in rows[:-1]] == [
        ("POST", "responses"), ("POST", "responses"), ("GET", "responses"), ("GET", "responses"), ("POST", "messages"),
        ("GET", "models"),
    ]  # fmt: skip
    assert [json.loads(line).get("background") for line in log.read_text().splitlines()] == [True, True, None]
