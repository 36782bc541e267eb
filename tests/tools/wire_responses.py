"""OpenAI Responses as the scripted server speaks it (see model_server.py for turns). Standard library only."""

from __future__ import annotations

import json
import time
from typing import Any

from tests.tools.wire_chat import error_of
from tests.tools.wire_turns import blocks_of, pieces, sse, tokens_of

__all__ = ["API", "PATH", "describe", "error_of", "events_of", "messages_of", "response_of", "sent_of", "stream_of"]

API = "openai-responses"
PATH = "/v1/responses"
ENCRYPTED = "reasoning.encrypted_content"
_REASONS = {"length": "max_output_tokens", "max_tokens": "max_output_tokens"}
_INCOMPLETE = ("max_output_tokens", "content_filter", "max_messages", "steered")


def messages_of(body: dict[str, Any]) -> list[dict[str, Any]]:
    """The small form: reasoning, texts and calls that follow each other are one assistant message."""
    given = body.get("input", [])
    out: list[dict[str, Any]] = []
    for item in [{"role": "user", "content": given}] if isinstance(given, str) else given:
        if item.get("type") == "function_call_output":
            out.append({"role": "tool", "content": item.get("output")})
        elif item.get("type", "message") != "message" or item.get("role") == "assistant":
            if not out or out[-1]["role"] != "assistant":
                out.append({"role": "assistant", "content": []})
            if isinstance(content := item.get("content"), str):
                content = [{"type": "output_text", "text": content}]
            out[-1]["content"] += content or []
        else:
            role = item.get("role")
            out.append({"role": "system" if role == "developer" else role, "content": item.get("content")})
    return out


def events_of(turn: dict[str, Any], body: dict[str, Any], prefix: str) -> list[dict[str, Any]]:
    """The events of a streamed answer, numbered from 0."""
    begun = response_of(turn, body, prefix, "queued" if body.get("background") else "in_progress")
    events: list[dict[str, Any]] = [{"type": "response.created", "response": begun}]
    if body.get("background"):
        events.append({"type": "response.queued", "response": begun})
    events.append({"type": "response.in_progress", "response": {**begun, "status": "in_progress"}})
    for index, item in enumerate(sent_of(turn, body, prefix)):
        at = {"output_index": index, "item_id": item["id"]}
        events.append({"type": "response.output_item.added", "output_index": index, "item": _begun(item)})
        events += _item_events(item, at)
        events.append({"type": "response.output_item.done", "output_index": index, "item": item})
    status, _, _ = _ending(turn)
    if turn.get("error"):
        events.append(_error_event(turn["error"]))
    elif status is not None:
        status = "incomplete" if status == "cancelled" else status  # no event is called response.cancelled
        events.append({"type": f"response.{status}", "response": response_of(turn, body, prefix)})
    return [{**event, "sequence_number": number} for number, event in enumerate(events)]


def stream_of(turn: dict[str, Any], body: dict[str, Any], prefix: str) -> list[bytes]:
    """The frames of a streamed answer."""
    return [sse(event, event["type"]) for event in events_of(turn, body, prefix)]


def whole_of(turn: dict[str, Any], body: dict[str, Any], prefix: str) -> dict[str, Any]:
    """The answer as one Response."""
    return response_of(turn, body, prefix)


def response_of(turn: dict[str, Any], body: dict[str, Any], prefix: str, status: str | None = None) -> dict[str, Any]:
    """The Response object; with a `status` of an answer that is not ready, or was cancelled, it has no output."""
    ended, reason, error = _ending(turn)
    final = status is None
    status = status or ended or "completed"
    has_output = final and status != "cancelled"
    return {
        "id": f"resp_{prefix}",
        "object": "response",
        "created_at": int(time.time()),
        "status": status,
        "background": bool(body.get("background")),
        "error": error if final else None,
        "incomplete_details": {"reason": reason} if final and reason else None,
        "instructions": body.get("instructions"),
        "max_output_tokens": body.get("max_output_tokens"),
        "metadata": body.get("metadata") or {},
        "model": body.get("model", ""),
        "output": sent_of(turn, body, prefix) if has_output else [],
        "parallel_tool_calls": body.get("parallel_tool_calls", True),
        "previous_response_id": body.get("previous_response_id"),
        "reasoning": {"effort": None, "summary": None, **(body.get("reasoning") or {})},
        "temperature": body.get("temperature", 1.0),
        "text": body.get("text") or {"format": {"type": "text"}},
        "tool_choice": body.get("tool_choice", "auto"),
        "tools": body.get("tools") or [],
        "top_p": body.get("top_p", 1.0),
        "truncation": body.get("truncation", "disabled"),
        "usage": usage_of(turn, body) if has_output else None,
    }


def sent_of(turn: dict[str, Any], body: dict[str, Any], prefix: str) -> list[dict[str, Any]]:
    """The whole output items. `encrypted_content` is there only when the request includes it, as at OpenAI."""
    encrypted = ENCRYPTED in (body.get("include") or [])
    status, reason, _ = _ending(turn)
    out: list[dict[str, Any]] = []
    for place, block in enumerate(blocks_of(turn, prefix)):
        if block["kind"] in ("thinking", "redacted"):
            secret = block.get("signature") or block.get("data")
            item: dict[str, Any] = {"id": f"rs_{prefix}_{place}", "type": "reasoning", "summary": []}
            if turn.get("reasoning_text") and block.get("text"):
                item["content"] = [{"type": "reasoning_text", "text": block["text"]}]
            else:
                item["summary"] = [{"type": "summary_text", "text": part} for part in block.get("parts", []) if part]
            if encrypted and secret:
                item["encrypted_content"] = secret
        elif block["kind"] == "call":
            item = {"id": f"fc_{prefix}_{place}", "type": "function_call", "status": "completed"}
            item |= {"call_id": block["id"], "name": block["name"], "arguments": block["raw"]}
        else:
            part = {"type": "output_text", "text": block["text"], "annotations": [], "logprobs": []}
            if block["kind"] == "refusal":
                part = {"type": "refusal", "refusal": block["text"]}
            item = {"id": f"msg_{prefix}_{place}", "type": "message", "status": "completed", "role": "assistant"}
            item["content"] = [part]
        out.append(item)
    if out and status == "incomplete" and reason and "status" in out[-1]:
        out[-1]["status"] = "incomplete"
    return out


def usage_of(turn: dict[str, Any], body: dict[str, Any]) -> dict[str, Any]:
    """Usage as the wire has it: `input_tokens` with cached ones."""
    given = turn.get("usage")
    if given is not None and ("input_tokens_details" in given or "total_tokens" in given) and "input_tokens" in given:
        return dict(given)
    tokens = tokens_of(turn, body)
    read, written, output = tokens["cacheRead"], tokens["cacheWrite"], tokens["output"]
    whole = tokens["input"] + read + written
    return {
        "input_tokens": whole,
        "input_tokens_details": {"cached_tokens": read, "cache_write_tokens": written},
        "output_tokens": output,
        "output_tokens_details": {"reasoning_tokens": tokens["reasoning"]},
        "total_tokens": whole + output,
    }


def describe(body: dict[str, Any]) -> str:
    """The conversation of the body as text, for the prefix of ids."""
    return json.dumps(body.get("input", []), sort_keys=True)


def _ending(turn: dict[str, Any]) -> tuple[str | None, str | None, dict[str, Any] | None]:
    """Status (None for a stream that just ends), reason of an incomplete one, error of a failed one."""
    finish = turn.get("finish", "failed" if turn.get("failed") else "completed")
    if finish is None:
        return None, None, None
    finish = _REASONS.get(finish, finish)
    if finish in _INCOMPLETE:
        return "incomplete", finish, None
    if finish == "failed":
        error = turn.get("failed") or {}
        error = error if isinstance(error, dict) else {"message": str(error)}
        return "failed", None, {"code": "server_error", "message": "The model failed.", **error}
    return (finish if finish in ("incomplete", "cancelled") else "completed"), None, None


def _begun(item: dict[str, Any]) -> dict[str, Any]:
    """The item as it is when it begins. Its encrypted content may be only half of what it will be."""
    begun = {**item, "status": "in_progress"} if "status" in item else dict(item)
    if item["type"] == "message":
        begun["content"] = []
    elif item["type"] == "function_call":
        begun["arguments"] = ""
    else:
        begun["summary"] = []
        begun.pop("content", None)
        if "encrypted_content" in begun:
            begun["encrypted_content"] = begun["encrypted_content"][: len(begun["encrypted_content"]) // 2]
    return begun


def _item_events(item: dict[str, Any], at: dict[str, Any]) -> list[dict[str, Any]]:
    """What comes between the item's added and done."""
    out: list[dict[str, Any]] = []
    if item["type"] == "function_call":
        name = "response.function_call_arguments"
        out += [{"type": f"{name}.delta", **at, "delta": piece} for piece in pieces(item["arguments"], 12)]
        return [*out, {"type": f"{name}.done", **at, "arguments": item["arguments"]}]
    for number, part in enumerate(item.get("summary", [])):
        here = {**at, "summary_index": number}
        name = "response.reasoning_summary"
        out.append({"type": f"{name}_part.added", **here, "part": {**part, "text": ""}})
        out += [{"type": f"{name}_text.delta", **here, "delta": piece} for piece in pieces(part["text"], 6)]
        out.append({"type": f"{name}_text.done", **here, "text": part["text"]})
        out.append({"type": f"{name}_part.done", **here, "part": part})
    for number, part in enumerate(item.get("content", [])):
        here = {**at, "content_index": number}
        key = "refusal" if part["type"] == "refusal" else "text"
        more = {"logprobs": []} if part["type"] == "output_text" else {}
        name = f"response.{part['type']}"
        out.append({"type": "response.content_part.added", **here, "part": {**part, key: ""}})
        out += [{"type": f"{name}.delta", **here, "delta": piece, **more} for piece in pieces(part[key], 6)]
        out.append({"type": f"{name}.done", **here, key: part[key], **more})
        out.append({"type": "response.content_part.done", **here, "part": part})
    return out


def _error_event(error: Any) -> dict[str, Any]:
    """`error` in the script's form, or the whole event as it is."""
    if isinstance(error, dict) and (error.get("type") == "error" or "error" in error):
        return {"type": "error", **error}
    if not isinstance(error, dict):
        error = {"message": error}
    code = error.get("code", error.get("type", "server_error"))
    return {"type": "error", "code": code, "message": error.get("message", ""), "param": error.get("param")}
