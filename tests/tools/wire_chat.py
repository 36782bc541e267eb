"""Chat Completions as the scripted server speaks it (see model_server.py for turns). Standard library only."""

from __future__ import annotations

import json
from typing import Any

from tests.tools.wire_turns import blocks_of, pieces, sse, tokens_of

API = "openai-chat"
PATH = "/v1/chat/completions"


def messages_of(body: dict[str, Any]) -> list[dict[str, Any]]:
    """The body's messages: they are the small form already."""
    return list(body.get("messages", []))


def deltas(turn: dict[str, Any], prefix: str) -> list[dict[str, Any]]:
    """The deltas of a turn, in small pieces as a model sends them."""
    out: list[dict[str, Any]] = [{"role": "assistant", "content": None}]
    fields = {"thinking": "reasoning_content", "text": "content", "refusal": "refusal"}
    index = 0
    for block in blocks_of(turn, prefix):
        if block["kind"] == "call":
            head = {"index": index, "id": block["id"], "type": "function"}
            out.append({"tool_calls": [{**head, "function": {"name": block["name"], "arguments": ""}}]})
            out += [
                {"tool_calls": [{"index": index, "function": {"arguments": piece}}]}
                for piece in pieces(block["raw"], 12)
            ]
            index += 1
        elif block["kind"] in fields:
            out += [{fields[block["kind"]]: piece} for piece in pieces(block["text"], 6)]
    return out


def stream_of(turn: dict[str, Any], body: dict[str, Any], prefix: str) -> list[bytes]:
    """The frames of a streamed answer."""
    head = {"id": f"chatcmpl-{prefix}", "object": "chat.completion.chunk", "created": 0, "model": body.get("model", "")}
    frames = [
        sse({**head, "choices": [{"index": 0, "delta": delta, "finish_reason": None}]})
        for delta in deltas(turn, prefix)
    ]
    if turn.get("error"):
        error = turn["error"] if isinstance(turn["error"], dict) else {"message": turn["error"], "type": "server_error"}
        return [*frames, sse({"error": error})]
    finish = turn.get("finish", _finish(turn, prefix))
    if finish is not None:
        frames.append(sse({**head, "choices": [{"index": 0, "delta": {}, "finish_reason": finish}]}))
        frames.append(sse({**head, "choices": [], "usage": usage_of(turn, body)}))
        if turn.get("done", True):
            frames.append(b"data: [DONE]\n\n")
    return frames


def whole_of(turn: dict[str, Any], body: dict[str, Any], prefix: str) -> dict[str, Any]:
    """The answer as one `chat.completion` object."""
    blocks = blocks_of(turn, prefix)
    texts = {
        kind: "".join(b["text"] for b in blocks if b["kind"] == kind) or None
        for kind in ("text", "refusal", "thinking")
    }
    message: dict[str, Any] = {"role": "assistant", "content": texts["text"], "refusal": texts["refusal"]}
    if texts["thinking"]:
        message["reasoning_content"] = texts["thinking"]
    calls = [
        {"id": block["id"], "type": "function", "function": {"name": block["name"], "arguments": block["raw"]}}
        for block in blocks
        if block["kind"] == "call"
    ]
    if calls:
        message["tool_calls"] = calls
    choice = {
        "index": 0, "message": message, "finish_reason": turn.get("finish", _finish(turn, prefix)), "logprobs": None,
    }  # fmt: skip
    return {
        "id": f"chatcmpl-{prefix}", "object": "chat.completion", "created": 0, "model": body.get("model", ""),
        "choices": [choice], "usage": usage_of(turn, body),
    }  # fmt: skip


def error_of(status: int, message: str) -> dict[str, Any]:
    """An error answer's body."""
    kinds = {401: "authentication_error", 404: "not_found_error", 429: "rate_limit_error"}
    kind = kinds.get(status, "server_error" if status >= 500 else "invalid_request_error")
    return {"error": {"message": message, "type": kind, "param": None, "code": None}}


def usage_of(turn: dict[str, Any], body: dict[str, Any]) -> dict[str, Any]:
    """Usage as the wire has it; given in another form than the neutral one it is sent as it is."""
    given = turn.get("usage")
    if given is not None and "input" not in given:
        return dict(given)
    tokens = tokens_of(turn, body)
    read, written, output = tokens["cacheRead"], tokens["cacheWrite"], tokens["output"]
    prompt = tokens["input"] + read + written
    usage: dict[str, Any] = {"prompt_tokens": prompt, "completion_tokens": output, "total_tokens": prompt + output}
    if read or written:
        usage["prompt_tokens_details"] = {"cached_tokens": read, "cache_write_tokens": written}
    if tokens["reasoning"]:
        usage["completion_tokens_details"] = {"reasoning_tokens": tokens["reasoning"]}
    return usage


def sent_of(turn: dict[str, Any], body: dict[str, Any], prefix: str) -> list[dict[str, Any]]:
    """Nothing of it must come back byte for byte."""
    return []


def _finish(turn: dict[str, Any], prefix: str) -> str:
    return "tool_calls" if any(block["kind"] == "call" for block in blocks_of(turn, prefix)) else "stop"


def describe(body: dict[str, Any]) -> str:
    """The conversation of the body as text, for the prefix of ids."""
    return json.dumps(body.get("messages", []), sort_keys=True)
