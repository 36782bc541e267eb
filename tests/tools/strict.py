"""The strict provider's rules: what a real server refuses with 400, as plain functions (spec 24).

Each check gives a list of sentences, one a violation, each beginning with the number of its rule in brackets:

1. each assistant tool call has exactly one result, and no result is without its call;
2. results come directly after their message, in call order (Anthropic: first in one user message);
3. ids are unique and non-empty;
4. arguments are a JSON object;
5. no text block is blank, no message is empty;
6. the body is strict JSON and UTF-8;
7. encoded images are within the limit;
8. signed thinking blocks of the latest turn (at Responses, its encrypted reasoning) are byte-identical to what the
   provider sent.

Rule 0 is ours: the shape itself is wrong (an unknown role, a request that ends in an assistant message).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from durable_tui.models.provider import ModelRequest
from tests.tools.strict_anthropic import check_anthropic
from tests.tools.strict_responses import check_responses
from tests.tools.strict_rules import (
    Sent,
    Turn,
    decoded_body,
    json_arguments,
    neutral_content,
    pairing,
    signatures,
    strict_json,
    text_id,
    tools_named_once,
    wire_content,
)

__all__ = ["check_anthropic", "check_neutral", "check_openai", "check_responses"]


def check_neutral(request: ModelRequest, sent: Sent = (), *, sendable: bool = True) -> list[str]:
    """Violations of a neutral request. `sendable=False` allows a derived context: it may end in an answer."""
    found = strict_json(
        {"system": request.system, "messages": request.messages, "tools": request.tools, "options": request.options}
    )
    turns: list[Turn] = []
    for number, message in enumerate(request.messages):
        where = f"message {number}"
        role = message.get("role")
        content = message.get("content")
        if role == "user":
            turns.append(Turn(where, "other"))
            found += neutral_content(where, content, {"text", "image"}, empty=False)
        elif role == "assistant":
            blocks = content if isinstance(content, list) else []
            found += neutral_content(where, content, {"text", "thinking", "toolCall"}, empty=False)
            if message.get("stopReason") in ("error", "aborted", "deferred"):
                found.append(f"[0] {where}: a {message['stopReason']} message was sent back")
            calls = [block for block in blocks if block.get("type") == "toolCall"]
            for call in calls:
                if not isinstance(call.get("arguments"), dict):
                    found.append(f"[4] {where}: the arguments of {call.get('id')!r} are no object")
                if not call.get("name"):
                    found.append(f"[0] {where}: a tool call without a name")
            turns.append(Turn(where, "assistant", calls=[text_id(call.get("id")) for call in calls]))
        elif role == "toolResult":
            found += neutral_content(where, content, {"text", "image"}, empty=True)
            if not isinstance(message.get("isError"), bool):
                found.append(f"[0] {where}: a tool result without isError")
            turns.append(Turn(where, "result", results=[text_id(message.get("toolCallId"))]))
        else:
            found.append(f"[0] {where}: unknown role {role!r}")
    found += pairing(turns)
    found += signatures(
        [message.get("content", []) for message in request.messages if message.get("role") == "assistant"], sent
    )
    found += tools_named_once(request.tools)
    if not request.messages:
        found.append("[0] the request has no message")
    elif sendable and request.messages[-1].get("role") == "assistant":
        found.append("[0] the request ends in an assistant message")
    return found


def check_openai(body: Mapping[str, Any] | bytes | str) -> list[str]:
    """Violations of a chat-completions body, given as bytes (then the bytes are judged too) or decoded."""
    found, decoded = decoded_body(body)
    if decoded is None:
        return found
    turns: list[Turn] = []
    messages = decoded.get("messages")
    if not isinstance(messages, list) or not messages:
        return [*found, "[0] the request has no message"]
    for number, message in enumerate(messages):
        where = f"message {number}"
        role = message.get("role")
        content = message.get("content")
        if role in ("system", "developer"):
            found += wire_content(where, content, empty=False)
        elif role == "user":
            turns.append(Turn(where, "other"))
            found += wire_content(where, content, empty=False)
        elif role == "assistant":
            calls = message.get("tool_calls") or []
            if "tool_calls" in message and not calls:
                found.append(f"[5] {where}: an empty list of tool calls")
            if content is None:
                if not calls:
                    found.append(f"[5] {where}: neither content nor tool calls")
            else:
                found += wire_content(where, content, empty=False)
            for call in calls:
                found += _openai_call(where, call)
            turns.append(Turn(where, "assistant", calls=[text_id(call.get("id")) for call in calls]))
        elif role == "tool":
            found += wire_content(where, content, empty=False)
            turns.append(Turn(where, "result", results=[text_id(message.get("tool_call_id"))]))
        else:
            found.append(f"[0] {where}: unknown role {role!r}")
    found += pairing(turns)
    found += tools_named_once([tool.get("function", {}) for tool in decoded.get("tools") or []])
    if messages[-1].get("role") == "assistant":
        found.append("[0] the request ends in an assistant message")
    return found


def _openai_call(where: str, call: Mapping[str, Any]) -> list[str]:
    function = call.get("function")
    if call.get("type") != "function" or not isinstance(function, dict) or not function.get("name"):
        return [f"[0] {where}: a tool call that is no named function"]
    return json_arguments(where, call.get("id"), function.get("arguments"))
