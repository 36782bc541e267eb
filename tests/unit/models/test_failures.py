"""What failures mean (cases P17-P20) and what their messages must not hold."""

# ruff: noqa: E501 - bodies as they came
from __future__ import annotations

import json
from typing import Any

import pytest

from durable_tui.models.failures import Endpoint, classify, error_in, read_error, retry_after
from durable_tui.models.provider import RETRYABLE
from durable_tui.models.redact import redact

AT = Endpoint("acme", "sk-secret-abcdef123", "ACME_KEY", "https://acme.test/v1")


def kind(status: int | None, body: Any, headers: dict[str, str] | None = None) -> str:
    return classify(AT, status, body, headers).kind


OVERFLOWS = [
    (400, {"error": {"code": "context_length_exceeded", "message": "too long"}}),
    (400, {"error": {"message": "This model's maximum context length is 8192 tokens. However, your messages resulted in 9000"}}),
    (400, {"error": {"message": "Input tokens exceed the configured limit of 272000 tokens."}}),
    (None, {"type": "error", "error": {"type": "invalid_request_error", "message": "Your input exceeds the context window of this model"}}),
    (400, {"type": "error", "error": {"type": "invalid_request_error", "message": "prompt is too long: 210000 tokens > 200000 maximum"}}),
    (400, {"error": {"message": "input length and `max_tokens` exceed context limit: 190000 + 20000 > 200000"}}),
    (400, {"error": {"message": "input length and max_tokens exceed context limit: A + B > C"}}),
    (400, "Input is too long for requested model."),
    (400, [{"error": {"code": 400, "status": "INVALID_ARGUMENT", "message": "The input token count (1300000) exceeds the maximum number of tokens allowed (1048576)."}}]),
    (400, {"message": "Prompt contains 40000 tokens and 0 draft tokens, too large for model with 32768 maximum context length"}),
    (400, {"error": {"message": "prompt contains at least 9001 input tokens"}}),
    (400, {"error": {"message": "Please reduce the length of the messages or completion.", "code": "context_length_exceeded"}}),
    (400, {"error": {"message": "This model's maximum prompt length is 131072 but the request contains 140000 tokens."}}),
    (400, {"error": {"message": "This endpoint's maximum context length is 32768 tokens. However, you requested about 40000 tokens"}}),
    (400, {"error": {"code": 400, "message": "request (8031 tokens) exceeds the available context size (1024 tokens), try increasing it", "type": "exceed_context_size_error", "n_ctx": 1024}}),
    (400, {"object": "error", "message": "maximum context length is 4096 tokens. However, you requested 5000 tokens", "type": "BadRequestError", "code": 400}),
    (None, {"error": "The number of tokens to keep is greater than the context length"}),
    (400, {"error": {"message": "Your request exceeded model token limit: 131072"}}),
    (400, {"error": {"message": "invalid params, context window exceeds limit"}}),
    (400, {"error": {"message": "prompt token count of 150000 exceeds the limit of 128000"}}),
    (413, ""),
    (413, {"error": {"type": "request_too_large", "message": "Request exceeds the maximum size"}}),
    (422, {"error": {"message": "`inputs` tokens + `max_new_tokens` must be <= 4096"}}),
    (400, {"error": {"message": "Provider returned error", "code": 400, "metadata": {"raw": '{"message":"prompt is too long: 3 tokens > 2 maximum"}'}}}),
]  # fmt: skip


@pytest.mark.parametrize(("status", "body"), OVERFLOWS)
def test_p20_wordings_that_mean_too_long(status: int | None, body: Any) -> None:
    assert kind(status, body) == "overflow"
    if not isinstance(body, str):
        assert kind(status, json.dumps(body).encode()) == "overflow"


@pytest.mark.parametrize(
    ("status", "body", "expected"),
    [
        (429, {"error": {"message": "Rate limit reached: tokens per minute (TPM): Limit 30000, maximum context length"}}, "rate_limit"),
        (400, {"error": {"message": "max_tokens must be <= 8192"}}, "bad_request"),
        (400, {"error": {"message": "image size 7000000 exceeds the limit of 5242880 bytes"}}, "bad_request"),
        (400, {"error": {"code": "string_above_max_length", "message": "string too long, maximum context length"}}, "bad_request"),
        (413, {"error": {"message": "Request too large: tokens per minute (TPM)", "code": "rate_limit_exceeded"}}, "rate_limit"),
    ],
)  # fmt: skip
def test_p20_wordings_that_do_not(status: int, body: Any, expected: str) -> None:
    assert kind(status, body) == expected


@pytest.mark.parametrize(
    ("status", "body", "headers", "expected"),
    [
        (429, {"error": {"code": "insufficient_quota", "message": "You exceeded your current quota"}}, {}, "quota"),
        (429, {"error": "INSUFFICIENT QUOTA", "message": "too many concurrent requests"}, {}, "rate_limit"),
        (429, {"error": {"code": "rate_limit_exceeded", "message": "slow down"}}, {"retry-after": "2"}, "rate_limit"),
        (400, {"error": {"message": "bad"}}, {}, "bad_request"),
        (401, {"error": {"message": "no"}}, {}, "authentication"),
        (402, {"error": {"message": "credits"}}, {}, "quota"),
        (402, {"error": {"message": "in flight"}}, {"retry-after": "3"}, "rate_limit"),
        (403, {"error": {"message": "flagged", "metadata": {"reasons": ["x"]}}}, {}, "refused"),
        (404, {"error": {"message": 'model "x" not found, try pulling it first'}}, {}, "not_found"),
        (408, "", {}, "timeout"),
        (409, {}, {}, "server"),
        (500, {}, {}, "server"),
        (502, "<html><title>502 Bad Gateway</title></html>", {}, "server"),
        (503, {"error": {"message": "Loading model", "type": "unavailable_error", "code": 503}}, {}, "overloaded"),
        (529, {"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}}, {}, "overloaded"),
        (500, {}, {"x-should-retry": "false"}, "bad_request"),
        (400, {}, {"x-should-retry": "true"}, "server"),
        (302, "", {}, "configuration"),
        (400, {"error": {"code": "tool_use_failed", "message": "m", "failed_generation": "x"}}, {}, "malformed"),
        (400, {"type": "error", "error": {"type": "invalid_request_error", "message": "Your credit balance is too low to access the Anthropic API."}}, {}, "quota"),
        (402, {"type": "error", "error": {"type": "billing_error", "message": "no"}}, {}, "quota"),
        (403, {"type": "error", "error": {"type": "permission_error", "message": "no"}}, {}, "authentication"),
        (404, {"type": "error", "error": {"type": "not_found_error", "message": "model: x"}}, {}, "not_found"),
        (429, {"type": "error", "error": {"type": "rate_limit_error", "message": "This would exceed your limit of 40,000 input tokens per minute; prompt is too long"}}, {}, "rate_limit"),
        (500, {"type": "error", "error": {"type": "api_error", "message": "Internal server error"}}, {}, "server"),
        (504, {"type": "error", "error": {"type": "timeout_error", "message": "no"}}, {}, "timeout"),
        (400, {"type": "error", "error": {"type": "invalid_request_error", "message": "max_tokens: 64000 > 8192, which is the maximum allowed number of output tokens for x"}}, {}, "bad_request"),
        (422, {"detail": [{"msg": "Extra inputs are not permitted", "loc": ["body"]}]}, {}, "bad_request"),
    ],
)  # fmt: skip
def test_p18_codes_decide_before_texts(status: int, body: Any, headers: dict[str, str], expected: str) -> None:
    assert kind(status, body, headers) == expected


@pytest.mark.parametrize("where", ["body", "header"])
def test_the_name_of_the_request_is_told(where: str) -> None:
    body = {"type": "error", "error": {"type": "api_error", "message": "Internal server error"}}
    if where == "body":
        assert str(classify(AT, 500, {**body, "request_id": "req_1a"})).endswith("error (HTTP 500, request req_1a)")
        assert str(classify(AT, None, {**body, "request_id": "req_1a"})).endswith("error (request req_1a)")
        assert str(classify(AT, 500, {**body, "request_id": "a b" * 99})).endswith("error (HTTP 500)")
    else:
        assert str(classify(AT, 500, body, {"request-id": "req_2b"})).endswith("error (HTTP 500, request req_2b)")


def test_p18_what_is_retried() -> None:
    assert classify(AT, 429, {"error": {"code": "rate_limit_exceeded"}}).retryable
    assert not classify(AT, 429, {"error": {"code": "insufficient_quota"}}).retryable
    assert not {"quota", "authentication", "bad_request", "overflow", "configuration"} & RETRYABLE


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ({"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}}, "overloaded"),
        ({"error": {"message": "overloaded", "code": 529}}, "overloaded"),
        ({"error": {"message": "upstream went away", "code": 502}}, "server"),
        ({"error": "something"}, "server"),
        ({"error": {"type": "invalid_request_error", "message": "no"}}, "bad_request"),
        ({"error": {"code": "insufficient_quota", "message": "x"}}, "quota"),
    ],
)
def test_p17_errors_in_a_200_stream(body: Any, expected: str) -> None:
    assert error_in(body) is not None
    assert kind(None, body) == expected


def test_p17_an_answer_is_no_error() -> None:
    assert error_in({"choices": [], "error": None}) is None
    assert error_in({"id": "x"}) is None


@pytest.mark.parametrize(
    ("headers", "expected"),
    [
        ({"retry-after": "7200"}, 7200.0),
        ({"retry-after": "1.5"}, 1.5),
        ({"retry-after-ms": "1500", "retry-after": "9"}, 1.5),
        ({"retry-after-ms": "soon", "retry-after": "9"}, 9.0),
        ({"retry-after": "Thu, 01 Jan 1970 00:16:50 GMT"}, 10.0),
        ({"retry-after": "Thu, 01 Jan 1970 00:16:30 GMT"}, 0.0),
        ({"retry-after": "garbage"}, None),
        ({"retry-after": "-5"}, None),
        ({"retry-after": "nan"}, None),
        ({"retry-after": "٣"}, None),
        ({"retry-after": "Thu, 99 Foo 1970"}, None),
        ({"retry-after": ""}, None),
        ({}, None),
    ],
)
def test_p19_retry_after_in_all_forms(headers: dict[str, str], expected: float | None) -> None:
    assert retry_after(headers, now=1000.0) == expected


def test_p19_gemini_says_it_in_the_body() -> None:
    body = [{"error": {"code": 429, "message": "m", "details": [{"@type": "RetryInfo", "retryDelay": "23s"}]}}]
    error = classify(AT, 429, body)
    assert (error.kind, error.retry_after, error.status) == ("rate_limit", 23.0, 429)


@pytest.mark.parametrize(
    "text",
    [
        "Incorrect API key provided: sk-secret-abcdef123.",
        "header Bearer sk-other_key-99 is wrong",
        "Authorization: bearer abcdefgh",
        "key sk-proj-abc***********xyz",
        "api_key=abcdefgh12 refused",
        "https://user:hunter22@host/v1 and ?key=abcd1234",
        "AIzaSyA0123456789abcdefghij",
    ],
)
def test_secrets_are_in_no_message(text: str) -> None:
    message = str(classify(AT, 400, {"error": {"message": text}}))
    for secret in ("sk-secret", "sk-other", "abcdefgh", "sk-proj", "hunter22", "abcd1234", "AIza"):
        assert secret not in message, message
    assert "***" in message


def test_a_key_that_looks_like_no_key_is_removed_too() -> None:
    plain = Endpoint("acme", "plainword99zz", "ACME_KEY", "https://acme.test/v1")
    assert "plainword99zz" not in str(classify(plain, 400, {"error": {"message": "got plainword99zz there"}}))
    assert "plainword99zz" not in str(plain.fail("x plainword99zz y", "network")) + repr(plain)


def test_messages_are_one_bounded_line_and_name_the_variable() -> None:
    error = classify(AT, 401, {"error": {"message": "no\x1b[31m\n" + "x" * 5000}})
    assert str(error).startswith("acme: no xxx") and str(error).endswith("…")
    assert len(str(error)) < 800 and "\n" not in str(error)
    assert "ACME_KEY" in str(classify(AT, 401, "{}"))
    assert "502 Bad Gateway" in str(classify(AT, 502, "<!doctype html><title>502 Bad Gateway</title>"))


def test_dummy_keys_do_not_garble_messages() -> None:
    assert redact("ollama: not found", ("ollama",)) == "ollama: not found"
    assert redact("the basic model", ()) == "the basic model"


@pytest.mark.parametrize(
    "body", ["", "[" * 100_000, b"\xff\xfe", None, 3, [], {"error": {"error": {"error": {}}}}, [[]]]
)
def test_any_body_is_understood(body: Any) -> None:
    read_error(body)
    assert classify(AT, 500, body).kind == "server"
