"""What is found at the usual ports of model servers, and what is not taken for one."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Callable
from typing import Any

import pytest

from durable_tui.models.probe import Outcome, Server, ask, is_loopback, is_near, same_place
from tests.tools.model_server import ModelServer
from tests.tools.tiny_server import TinyServer, drips, floods, hangs, lists, says, tiny

NOBODY = Server("http://127.0.0.1:9/v1/models")
PATIENCE = 10.0  # seconds; far beyond the time an answer is waited for


def asked(talk: Callable[[TinyServer, socket.socket], None], timeout: float = PATIENCE) -> Outcome:
    with tiny(talk) as server:
        return ask([Server(f"{server.base_url}/models")], timeout)[0]


def test_all_models_of_a_server_are_found_in_its_order() -> None:
    found = asked(lists("qwen3:8b", {"id": "llama3.2:3b", "owned_by": "library"}, "gpt-oss:20b"))
    assert found.state == "lists" and list(found.models) == ["qwen3:8b", "llama3.2:3b", "gpt-oss:20b"]
    assert set(found.models.values()) == {None}
    with ModelServer([]) as server:
        assert list(ask([Server(f"{server.base_url}/models")])[0].models) == ["scripted-model"]


def test_the_context_window_is_what_the_server_serves_not_what_the_model_was_trained_for() -> None:
    found = asked(
        lists(
            {"id": "llama.cpp", "meta": {"n_ctx": 4096, "n_ctx_train": 131072}},
            {"id": "vllm", "max_model_len": 32768},
            {"id": "other", "context_length": 8192},
            {"id": "trained", "meta": {"n_ctx_train": 131072}},
            {"id": "odd", "max_model_len": "much", "context_window": True, "meta": [1]},
            {"id": "none", "max_model_len": 0},
        )
    )
    assert found.models == {
        "llama.cpp": 4096, "vllm": 32768, "other": 8192, "trained": None, "odd": None, "none": None,
    }  # fmt: skip


def test_what_does_not_chat_is_left_out() -> None:
    found = asked(lists("nomic-embed-text:latest", "qwen3", "bge-reranker-v2", {"id": ""}, {"id": 3}, 7))
    assert list(found.models) == ["qwen3"]
    assert asked(lists("text-embedding-nomic")).state == "empty"


@pytest.mark.parametrize(
    ("talk", "state"),
    [
        (lists(), "empty"),
        (says({"object": "list", "data": None}), "empty"),
        (says([{"id": "m"}]), "lists"),
        (says({"error": {"message": "Loading model", "type": "unavailable_error"}}, 503), "loading"),
        (says({"error": {"message": "Invalid API Key"}}, 401), "refused"),
        (says(b"<html>log in</html>", 403, "text/html"), "refused"),
        (says(b"<html><body>It works!</body></html>", kind="text/html"), "foreign"),
        (says({"detail": "Not Found"}, 404), "foreign"),
        (says({"data": "no list"}), "foreign"),
        (says({}), "foreign"),
        (says(3), "foreign"),
        (says(b"[" * 100_000), "foreign"),
        (says(b"\xff\xfe\x00"), "foreign"),
        (says(b"", 302), "foreign"),
        (lambda server, connection: connection.sendall(b"SSH-2.0-OpenSSH_9.6\r\n"), "foreign"),
        (lambda server, connection: connection.close(), "foreign"),
        (floods, "foreign"),
    ],
)
def test_what_else_may_answer_is_told_apart(talk: Any, state: str) -> None:
    found = asked(talk)
    assert found.state == state and bool(found.models) == (state == "lists")


def test_those_that_hang_or_dole_out_their_answers_hold_up_nobody() -> None:
    with tiny(hangs) as silent, tiny(drips) as slow, tiny(lists("m")) as server:
        urls = [f"{one.base_url}/models" for one in (silent, slow, server)]
        start = time.monotonic()
        found = ask([*map(Server, urls), NOBODY], 3.0)
        assert time.monotonic() - start < PATIENCE
        assert [item.state for item in found] == ["silent", "silent", "lists", "absent"]
        left = [thread for thread in threading.enumerate() if thread.name == "models of a local server"]
        for thread in left:
            thread.join(PATIENCE)
        assert not any(thread.is_alive() for thread in left)


def test_nobody_there_and_addresses_that_are_none() -> None:
    urls = [
        "http://127.0.0.1:9/v1/models",
        "nonsense",
        "http://[::",
        "http://x:99999999/",
        "http://no.invalid/v1",
        "http://a b/",
    ]
    assert {item.state for item in ask([Server(url) for url in urls], PATIENCE)} == {"absent"}
    assert ask([]) == []


def test_a_key_goes_along_and_is_shown_nowhere() -> None:
    with tiny(lists("m")) as server:
        whom = Server(f"{server.base_url}/models?version=2", {"authorization": "Bearer sk-local"})
        assert ask([whom], PATIENCE)[0].state == "lists"
        head = server.asked[0].lower()
    assert head.startswith("get /v1/models?version=2 http/1.1\r\n") and "authorization: bearer sk-local\r\n" in head
    assert "sk-local" not in repr(whom)


def test_what_is_near() -> None:
    for url in ("http://localhost:1/v1", "http://[::1]:1", "http://127.0.0.1"):
        assert is_loopback(url) and is_near(url)
    for url in ("http://192.168.1.5:8000/v1", "http://10.0.0.2"):
        assert is_near(url) and not is_loopback(url)
    for url in ("https://api.openai.com/v1", "http://8.8.8.8", "nonsense", "http://[::", ""):
        assert not is_near(url) and not is_loopback(url)
    assert same_place("http://localhost:8080/v1/", "http://127.0.0.1:8080/v1") and not same_place(
        "http://localhost:1", None
    )
