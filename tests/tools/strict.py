"""The strict provider's rules: what a real server refuses with 400, as plain functions (CASES, "The strict provider").

Each check gives a list of sentences, one a violation, each beginning with the number of its rule in brackets:

1. each assistant tool call has exactly one result, and no result is without its call;
2. results come directly after their message, in call order (Anthropic: first in one user message);
3. ids are unique and non-empty;
4. arguments are a JSON object;
5. no text block is blank, no message is empty;
6. the body is strict JSON and UTF-8;
7. encoded images are within the limit;
8. signed thinking blocks of the latest turn are byte-identical to what the provider sent.

Rule 0 is ours: the shape itself is wrong (an unknown role, a request that ends in an assistant message).
"""

from __future__ import annotations

import base64
import binascii
import itertools
import json
import struct
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from durable_tui.models.provider import ModelRequest

IMAGE_BYTES = 5 * 1024 * 1024
IMAGE_SIDE = 8000

#: The newest assistant messages a provider sent, for rule 8: neutral content blocks or the wire's own.
Sent = Sequence[Sequence[Mapping[str, Any]]]


@dataclass(slots=True)
class _Turn:
    """One message, reduced to what pairing needs. `where` names it in a violation."""

    where: str
    role: str  # "assistant" | "result" | "other"
    calls: list[str] = field(default_factory=list)
    results: list[str] = field(default_factory=list)


def check_neutral(request: ModelRequest, sent: Sent = (), *, sendable: bool = True) -> list[str]:
    """Violations of a neutral request. `sendable=False` allows a derived context: it may end in an answer."""
    found = _json(
        {"system": request.system, "messages": request.messages, "tools": request.tools, "options": request.options}
    )
    turns: list[_Turn] = []
    for number, message in enumerate(request.messages):
        where = f"message {number}"
        role = message.get("role")
        content = message.get("content")
        if role == "user":
            turns.append(_Turn(where, "other"))
            found += _neutral_content(where, content, {"text", "image"}, empty=False)
        elif role == "assistant":
            blocks = content if isinstance(content, list) else []
            found += _neutral_content(where, content, {"text", "thinking", "toolCall"}, empty=False)
            if message.get("stopReason") in ("error", "aborted", "deferred"):
                found.append(f"[0] {where}: a {message['stopReason']} message was sent back")
            calls = [block for block in blocks if block.get("type") == "toolCall"]
            for call in calls:
                if not isinstance(call.get("arguments"), dict):
                    found.append(f"[4] {where}: the arguments of {call.get('id')!r} are no object")
                if not call.get("name"):
                    found.append(f"[0] {where}: a tool call without a name")
            turns.append(_Turn(where, "assistant", calls=[_text_id(call.get("id")) for call in calls]))
        elif role == "toolResult":
            found += _neutral_content(where, content, {"text", "image"}, empty=True)
            if not isinstance(message.get("isError"), bool):
                found.append(f"[0] {where}: a tool result without isError")
            turns.append(_Turn(where, "result", results=[_text_id(message.get("toolCallId"))]))
        else:
            found.append(f"[0] {where}: unknown role {role!r}")
    found += _pairing(turns)
    found += _signatures(
        [message.get("content", []) for message in request.messages if message.get("role") == "assistant"], sent
    )
    found += _tools(request.tools)
    if not request.messages:
        found.append("[0] the request has no message")
    elif sendable and request.messages[-1].get("role") == "assistant":
        found.append("[0] the request ends in an assistant message")
    return found


def check_openai(body: Mapping[str, Any] | bytes | str) -> list[str]:
    """Violations of a chat-completions body, given as bytes (then the bytes are judged too) or decoded."""
    found, decoded = _body(body)
    if decoded is None:
        return found
    turns: list[_Turn] = []
    messages = decoded.get("messages")
    if not isinstance(messages, list) or not messages:
        return [*found, "[0] the request has no message"]
    for number, message in enumerate(messages):
        where = f"message {number}"
        role = message.get("role")
        content = message.get("content")
        if role in ("system", "developer"):
            found += _wire_content(where, content, empty=False)
        elif role == "user":
            turns.append(_Turn(where, "other"))
            found += _wire_content(where, content, empty=False)
        elif role == "assistant":
            calls = message.get("tool_calls") or []
            if "tool_calls" in message and not calls:
                found.append(f"[5] {where}: an empty list of tool calls")
            if content is None:
                if not calls:
                    found.append(f"[5] {where}: neither content nor tool calls")
            else:
                found += _wire_content(where, content, empty=False)
            for call in calls:
                found += _openai_call(where, call)
            turns.append(_Turn(where, "assistant", calls=[_text_id(call.get("id")) for call in calls]))
        elif role == "tool":
            found += _wire_content(where, content, empty=False)
            turns.append(_Turn(where, "result", results=[_text_id(message.get("tool_call_id"))]))
        else:
            found.append(f"[0] {where}: unknown role {role!r}")
    found += _pairing(turns)
    found += _tools([tool.get("function", {}) for tool in decoded.get("tools") or []])
    if messages[-1].get("role") == "assistant":
        found.append("[0] the request ends in an assistant message")
    return found


def check_anthropic(body: Mapping[str, Any] | bytes | str, sent: Sent = ()) -> list[str]:
    """Violations of a messages body: all results of a message are first in the one user message after it."""
    found, decoded = _body(body)
    if decoded is None:
        return found
    messages = decoded.get("messages")
    if not isinstance(messages, list) or not messages:
        return [*found, "[0] the request has no message"]
    system = decoded.get("system")
    if system is not None:
        found += _wire_content("system", system, empty=False)
    turns: list[_Turn] = []
    if messages[0].get("role") != "user":
        found.append("[0] the first message is no user message")
    for number, message in enumerate(messages):
        where = f"message {number}"
        role = message.get("role")
        content = message.get("content")
        blocks: list[Any] = content if isinstance(content, list) else []
        found += _wire_content(where, content, empty=False)
        if role == "assistant":
            uses = [block for block in blocks if block.get("type") == "tool_use"]
            for use in uses:
                if not isinstance(use.get("input"), dict):
                    found.append(f"[4] {where}: the input of {use.get('id')!r} is no object")
            turns.append(_Turn(where, "assistant", calls=[_text_id(use.get("id")) for use in uses]))
        elif role == "user":
            kinds = [block.get("type") == "tool_result" for block in blocks]
            if any(later and not earlier for earlier, later in itertools.pairwise(kinds)):
                found.append(f"[2] {where}: results are not first in their message")
            results = [_text_id(block.get("tool_use_id")) for block in blocks if block.get("type") == "tool_result"]
            for block in blocks:
                if block.get("type") == "tool_result" and "content" in block:
                    found += _wire_content(where, block["content"], empty=False)
            turns.append(_Turn(where, "result" if results else "other", results=results))
        else:
            found.append(f"[0] {where}: unknown role {role!r}")
    found += _pairing(turns, one_message=True)
    found += _signatures([m.get("content", []) for m in messages if m.get("role") == "assistant"], sent)
    found += _tools(decoded.get("tools") or [])
    return found


def _text_id(value: Any) -> str:
    return value if isinstance(value, str) else ""


def _pairing(turns: Iterable[_Turn], *, one_message: bool = False) -> list[str]:
    """Rules 1 to 3 over the reduced messages."""
    found: list[str] = []
    seen: set[str] = set()
    known: set[str] = set()
    answered: set[str] = set()
    open_calls: list[str] = []  # of the assistant message whose results are being read, in call order
    reading = False
    rounds = 0
    for turn in turns:
        if turn.role == "result":
            rounds += 1
            for call_id in turn.results:
                if call_id in answered:
                    found.append(f"[1] {turn.where}: a second result for {call_id!r}")
                elif call_id not in known:
                    found.append(f"[1] {turn.where}: a result for {call_id!r}, which nobody called")
                elif not reading or call_id not in open_calls:
                    found.append(f"[2] {turn.where}: the result for {call_id!r} is not directly after its message")
                elif call_id != open_calls[0]:
                    found.append(f"[2] {turn.where}: the result for {call_id!r} is out of call order")
                    open_calls.remove(call_id)
                else:
                    open_calls.pop(0)
                answered.add(call_id)
            if one_message and rounds > 1:
                found.append(f"[2] {turn.where}: results are spread over several messages")
            continue
        found += [f"[1] {turn.where}: {call_id!r} has no result before it" for call_id in open_calls]
        open_calls, reading, rounds = [], turn.role == "assistant", 0
        if turn.role == "assistant":
            for call_id in turn.calls:
                if not call_id.strip():
                    found.append(f"[3] {turn.where}: a tool call with an empty id")
                elif call_id in seen:
                    found.append(f"[3] {turn.where}: the id {call_id!r} is used twice")
                seen.add(call_id)
                known.add(call_id)
            open_calls = list(turn.calls)
    found += [f"[1] at the end: {call_id!r} has no result" for call_id in open_calls]
    return found


def _neutral_content(where: str, content: Any, kinds: set[str], *, empty: bool) -> list[str]:
    if isinstance(content, str):
        return [] if content.strip() else [f"[5] {where}: blank text"]
    if not isinstance(content, list):
        return [f"[0] {where}: content is neither text nor a list"]
    found: list[str] = []
    if not content and not empty:
        found.append(f"[5] {where}: empty content")
    for block in content:
        kind = block.get("type")
        if kind not in kinds:
            found.append(f"[0] {where}: a {kind!r} block does not belong here")
        elif kind == "text" and not (isinstance(block.get("text"), str) and block["text"].strip()):
            found.append(f"[5] {where}: a blank text block")
        elif kind == "image":
            found += _image(where, block.get("data"))
        elif kind == "thinking" and block.get("signature") and not block.get("thinking") and not block.get("redacted"):
            found.append(f"[8] {where}: a signature without its thinking")
    return found


def _wire_content(where: str, content: Any, *, empty: bool) -> list[str]:
    if isinstance(content, str):
        return [] if content.strip() else [f"[5] {where}: blank text"]
    if not isinstance(content, list):
        return [f"[0] {where}: content is neither text nor a list"]
    found: list[str] = []
    if not content and not empty:
        found.append(f"[5] {where}: empty content")
    for block in content:
        kind = block.get("type")
        if kind == "text" and not str(block.get("text") or "").strip():
            found.append(f"[5] {where}: a blank text block")
        elif kind == "image_url":
            url = block.get("image_url", {}).get("url", "")
            if url.startswith("data:"):
                found += _image(where, url.partition(",")[2])
        elif kind == "image" and block.get("source", {}).get("type") == "base64":
            found += _image(where, block["source"].get("data"))
        elif kind == "thinking" and not block.get("thinking"):
            found.append(f"[8] {where}: a signature without its thinking")
    return found


def _openai_call(where: str, call: Mapping[str, Any]) -> list[str]:
    found: list[str] = []
    function = call.get("function")
    if call.get("type") != "function" or not isinstance(function, dict) or not function.get("name"):
        return [f"[0] {where}: a tool call that is no named function"]
    arguments = function.get("arguments")
    if not isinstance(arguments, str):
        return [f"[4] {where}: the arguments of {call.get('id')!r} are no JSON text"]
    try:
        value = _strict_loads(arguments)
    except (ValueError, RecursionError) as error:
        return [f"[4] {where}: the arguments of {call.get('id')!r} are no JSON: {error}"]
    if not isinstance(value, dict):
        found.append(f"[4] {where}: the arguments of {call.get('id')!r} are no object")
    return found


def _tools(tools: Iterable[Mapping[str, Any]]) -> list[str]:
    found: list[str] = []
    names: set[str] = set()
    for tool in tools:
        name = tool.get("name")
        if not isinstance(name, str) or not name:
            found.append("[0] a tool without a name")
        elif name in names:
            found.append(f"[3] the tool {name!r} is offered twice")
        else:
            names.add(name)
    return found


def _signatures(answers: Sequence[Any], sent: Sent) -> list[str]:
    """Rule 8: when the latest assistant message came from here and was signed, its thinking is what was sent."""
    if not answers or not isinstance(answers[-1], list):
        return []
    latest = answers[-1]
    calls = [block.get("id") for block in latest if block.get("type") in ("toolCall", "tool_use")]
    texts = [block.get("text") for block in latest if block.get("type") == "text"]
    kinds = ("thinking", "redacted_thinking")
    for original in reversed(sent):
        theirs = [block.get("id") for block in original if block.get("type") in ("toolCall", "tool_use")]
        their_texts = [block.get("text") for block in original if block.get("type") == "text"]
        if theirs != calls or (not calls and their_texts != texts):
            continue
        signed = [block for block in original if block.get("type") in kinds]
        if not any(block.get("signature") or block.get("data") for block in signed):
            return []
        if [_bytes(block) for block in signed] != [_bytes(b) for b in latest if b.get("type") in kinds]:
            return ["[8] the thinking of the latest turn is not what was sent"]
        return []
    return []


def _bytes(block: Mapping[str, Any]) -> bytes:
    return json.dumps(block, sort_keys=True, ensure_ascii=True).encode()


def _json(value: Any) -> list[str]:
    try:
        json.dumps(value, allow_nan=False, ensure_ascii=False).encode("utf-8")
    except UnicodeEncodeError:
        return ["[6] the request is not UTF-8: a lone surrogate"]
    except (TypeError, ValueError, RecursionError) as error:
        return [f"[6] the request is not strict JSON: {error}"]
    if not _string_keys(value):
        return ["[6] the request is not strict JSON: a key that is no text"]
    return []


def _string_keys(value: Any) -> bool:
    if isinstance(value, dict):
        return all(isinstance(key, str) and _string_keys(part) for key, part in value.items())
    if isinstance(value, list | tuple):
        return all(_string_keys(part) for part in value)
    return True


def _no_constant(name: str) -> Any:
    raise ValueError(f"{name} is no JSON")


def _strict_loads(text: str) -> Any:
    return json.loads(text, parse_constant=_no_constant)


def _body(body: Mapping[str, Any] | bytes | str) -> tuple[list[str], dict[str, Any] | None]:
    if isinstance(body, Mapping):
        return _json(dict(body)), dict(body)
    try:
        text = body.decode("utf-8") if isinstance(body, bytes) else body
        text.encode("utf-8")
    except UnicodeError:
        return ["[6] the body is not UTF-8"], None
    try:
        value = _strict_loads(text)
    except (ValueError, RecursionError) as error:
        return [f"[6] the body is not strict JSON: {error}"], None
    if not isinstance(value, dict):
        return ["[6] the body is no JSON object"], None
    # Escaped lone surrogates are legal JSON bytes that many servers refuse after decoding.
    return _json(value), value


def _image(where: str, data: Any) -> list[str]:
    try:
        raw = base64.b64decode(data, validate=True) if isinstance(data, str) else b""
    except (binascii.Error, ValueError):
        return [f"[7] {where}: an image that is no base64"]
    if not raw:
        return [f"[7] {where}: an empty image"]
    if len(data) > IMAGE_BYTES:
        return [f"[7] {where}: an image of {len(data)} encoded bytes"]
    size = _image_size(raw)
    if size is None:
        return [f"[7] {where}: an image of no known kind"]
    if max(size) > IMAGE_SIDE:
        return [f"[7] {where}: an image of {size[0]}x{size[1]} pixels"]
    return []


def _image_size(raw: bytes) -> tuple[int, int] | None:
    """Width and height of a PNG, GIF, JPEG or WebP; None for anything else, torn headers included."""
    try:
        if raw.startswith(b"\x89PNG\r\n\x1a\n"):
            width, height = struct.unpack(">II", raw[16:24])
            return width, height
        if raw[:6] in (b"GIF87a", b"GIF89a"):
            width, height = struct.unpack("<HH", raw[6:10])
            return width, height
        if raw[:2] == b"\xff\xd8":
            return _jpeg_size(raw)
        if raw[:4] == b"RIFF" and raw[8:12] == b"WEBP":
            return 1, 1  # the limit on bytes bounds it well enough
    except struct.error:
        return None
    return None


def _jpeg_size(raw: bytes) -> tuple[int, int] | None:
    at = 2
    while at + 9 <= len(raw):
        marker, length = raw[at + 1], struct.unpack(">H", raw[at + 2 : at + 4])[0]
        if 0xC0 <= marker <= 0xCF and marker not in (0xC4, 0xC8, 0xCC):
            height, width = struct.unpack(">HH", raw[at + 5 : at + 9])
            return width, height
        at += 2 + length
    return None
