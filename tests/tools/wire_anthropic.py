"""Anthropic Messages as the scripted server speaks it (see model_server.py for turns). Standard library only."""

from __future__ import annotations

import json
from typing import Any

from tests.tools.wire_turns import blocks_of, pieces, sse, tokens_of

API = "anthropic"
PATH = "/v1/messages"
_STOPS = {
    "stop": "end_turn",
    "length": "max_tokens",
    "tool_calls": "tool_use",
    "toolUse": "tool_use",
    "content_filter": "refusal",
}
_ERRORS = {
    401: "authentication_error",
    402: "billing_error",
    403: "permission_error",
    404: "not_found_error",
    413: "request_too_large",
    429: "rate_limit_error",
    504: "timeout_error",
    529: "overloaded_error",
}


def messages_of(body: dict[str, Any]) -> list[dict[str, Any]]:
    """The small form: results of tools are messages of their own there, what a user says after them another."""
    out: list[dict[str, Any]] = []
    for message in body.get("messages", []):
        content = message.get("content") or ""
        blocks = [{"type": "text", "text": content}] if isinstance(content, str) else content
        if message.get("role") == "user":
            results = [block for block in blocks if block.get("type") == "tool_result"]
            out += [{"role": "tool", "content": block.get("content")} for block in results]
            if rest := [block for block in blocks if block.get("type") != "tool_result"]:
                out.append({"role": "user", "content": rest})
        else:
            out.append({"role": message.get("role"), "content": blocks})
    return out


def events_of(turn: dict[str, Any], body: dict[str, Any], prefix: str) -> list[dict[str, Any]]:
    """The events of a streamed answer, ping included."""
    usage = usage_of(turn, body)
    message = {**_message(body, prefix, [], None, None), "usage": {**usage, "output_tokens": 1}}
    events: list[dict[str, Any]] = [{"type": "message_start", "message": message}]
    for index, (start, deltas, _) in enumerate(_blocks(turn, prefix)):
        events.append({"type": "content_block_start", "index": index, "content_block": start})
        if index == 0:
            events.append({"type": "ping"})
        events += [{"type": "content_block_delta", "index": index, "delta": delta} for delta in deltas]
        events.append({"type": "content_block_stop", "index": index})
    if turn.get("error"):
        return [*events, _error_event(turn["error"], prefix)]
    reason, sequence, details = _stop(turn, body, prefix)
    if reason is None:
        return events
    delta: dict[str, Any] = {"stop_reason": reason, "stop_sequence": sequence}
    if details is not None:
        delta["stop_details"] = details
    events.append({"type": "message_delta", "delta": delta, "usage": _cumulative(usage)})
    if turn.get("done", True):
        events.append({"type": "message_stop"})
    return events


def stream_of(turn: dict[str, Any], body: dict[str, Any], prefix: str) -> list[bytes]:
    """The frames of a streamed answer."""
    return [sse(event, event["type"]) for event in events_of(turn, body, prefix)]


def whole_of(turn: dict[str, Any], body: dict[str, Any], prefix: str) -> dict[str, Any]:
    """The answer as one message."""
    reason, sequence, details = _stop(turn, body, prefix)
    message = _message(body, prefix, sent_of(turn, body, prefix), reason, sequence)
    if details is not None:
        message["stop_details"] = details
    return {**message, "usage": usage_of(turn, body)}


def sent_of(turn: dict[str, Any], body: dict[str, Any], prefix: str) -> list[dict[str, Any]]:
    """The whole blocks of the answer: signed thinking must come back byte for byte."""
    return [block for _, _, block in _blocks(turn, prefix)]


def error_of(status: int, message: str) -> dict[str, Any]:
    """An error answer's body."""
    kind = _ERRORS.get(status, "api_error" if status >= 500 else "invalid_request_error")
    return {"type": "error", "error": {"type": kind, "message": message}, "request_id": "req_scripted"}


def usage_of(turn: dict[str, Any], body: dict[str, Any]) -> dict[str, Any]:
    """Usage as the wire has it: `input_tokens` without cached ones."""
    given = turn.get("usage")
    if given is not None and "input_tokens" in given and "input_tokens_details" not in given:
        return dict(given)
    tokens = tokens_of(turn, body)
    written = tokens["cacheWrite"]
    return {
        "input_tokens": tokens["input"],
        "cache_creation_input_tokens": written,
        "cache_read_input_tokens": tokens["cacheRead"],
        "cache_creation": {"ephemeral_5m_input_tokens": written, "ephemeral_1h_input_tokens": 0},
        "output_tokens": tokens["output"],
        "service_tier": "standard",
    }


def describe(body: dict[str, Any]) -> str:
    """The conversation of the body as text, for the prefix of ids."""
    return json.dumps(body.get("messages", []), sort_keys=True)


def _message(
    body: dict[str, Any], prefix: str, content: list[Any], reason: str | None, sequence: str | None
) -> dict[str, Any]:
    return {
        "id": f"msg_{prefix}", "type": "message", "role": "assistant", "model": body.get("model", ""),
        "content": content, "stop_reason": reason, "stop_sequence": sequence,
    }  # fmt: skip


def _blocks(turn: dict[str, Any], prefix: str) -> list[tuple[dict[str, Any], list[dict[str, Any]], dict[str, Any]]]:
    """Of each block: how it starts, its deltas, the whole."""
    out: list[tuple[dict[str, Any], list[dict[str, Any]], dict[str, Any]]] = []
    for block in blocks_of(turn, prefix, "toolu"):
        if block["kind"] == "thinking":
            signature = block["signature"]
            deltas = [{"type": "thinking_delta", "thinking": piece} for piece in pieces(block["text"], 6)]
            if signature is not None:
                deltas.append({"type": "signature_delta", "signature": signature})
            start = {"type": "thinking", "thinking": "", "signature": ""}
            out.append((start, deltas, {**start, "thinking": block["text"], "signature": signature or ""}))
        elif block["kind"] == "redacted":
            whole = {"type": "redacted_thinking", "data": block["data"]}
            out.append((whole, [], whole))
        elif block["kind"] == "text":
            deltas = [{"type": "text_delta", "text": piece} for piece in pieces(block["text"], 6)]
            out.append(({"type": "text", "text": ""}, deltas, {"type": "text", "text": block["text"]}))
        elif block["kind"] == "call":
            # The first piece is empty, and the only one of a call without arguments.
            raw = "" if block["raw"] == "{}" else block["raw"]
            deltas = [{"type": "input_json_delta", "partial_json": piece} for piece in ["", *pieces(raw, 12)]]
            start = {"type": "tool_use", "id": block["id"], "name": block["name"], "input": {}}
            out.append((start, deltas, {**start, "input": block["args"] or _parsed(raw)}))
    return out


def _parsed(raw: str) -> dict[str, Any]:
    try:
        value = json.loads(raw or "{}")
    except ValueError:
        return {}
    return value if isinstance(value, dict) else {}


def _stop(turn: dict[str, Any], body: dict[str, Any], prefix: str) -> tuple[str | None, str | None, Any]:
    """Stop reason, stop sequence, stop details."""
    kinds = {block["kind"]: block for block in blocks_of(turn, prefix)}
    natural = "refusal" if "refusal" in kinds else "tool_use" if "call" in kinds else "end_turn"
    finish = turn.get("finish", natural)
    reason = _STOPS.get(finish, finish)
    sequence = (body.get("stop_sequences") or [None])[0] if reason == "stop_sequence" else None
    details = None
    if reason == "refusal":
        details = {"type": "refusal", "category": None, "explanation": kinds.get("refusal", {}).get("text")}
    return reason, sequence, details


def _cumulative(usage: dict[str, Any]) -> dict[str, Any]:
    """Usage in message_delta, where some keys never come."""
    return {key: value for key, value in usage.items() if key not in ("cache_creation", "service_tier")}


def _error_event(error: Any, prefix: str) -> dict[str, Any]:
    """`error` in the script's form, or the whole event as it is."""
    if isinstance(error, dict) and error.get("type") == "error":
        return error
    if not isinstance(error, dict):
        error = {"message": error}
    inner = {"type": error.get("type", "api_error"), "message": error.get("message", "")}
    return {"type": "error", "error": inner, "request_id": f"req_{prefix}"}
