"""Neutral messages (RECORDS 3) to a Chat Completions request. Pure; whatever the history holds, the request is valid.

Rules kept for strict servers: each tool call has exactly one result, directly after its message and in call order; ids
are unique and not empty; arguments are a JSON object in a string; no text is blank; images of tools come in a user
message after the results. Failed and aborted answers are never sent.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from durable_tui.models.jsontext import encode, replace_surrogates
from durable_tui.models.known import OPENAI_CHAT, Quirks
from durable_tui.models.provider import ModelRequest

EMPTY_OUTPUT = "(no output)"
EMPTY_INPUT = "(empty message)"
IMAGE_OUTPUT = "(an image, shown below)"
NO_RESULT = "(no result was recorded for this call)"
FILLER = "(no answer)"
TOOL_IMAGES = "Images from the tool results above:"
UNSENT = frozenset({"error", "aborted", "deferred"})
SIGNATURE_SENTINEL = "skip_thought_signature_validator"


def build_request(request: ModelRequest, quirks: Quirks) -> dict[str, Any]:
    """The body to POST, streaming.

    `request.options` may hold `maxTokens` (int), `temperature`, `topP` (numbers), `seed` (int), `stop` (list of strings)
    and `toolChoice` ("auto", "none", "required" or a tool's name); other keys are not for this provider.
    """
    options = request.options
    messages = Messages(request.model.provider, quirks).build(request.messages)
    if request.system.strip():
        messages.insert(0, {"role": "system", "content": request.system})
    body: dict[str, Any] = {"model": request.model.model_id, "messages": messages, "stream": True}
    if quirks.stream_usage:
        body["stream_options"] = {"include_usage": True}
    if request.tools:
        body["tools"] = [{"type": "function", "function": _tool(tool)} for tool in request.tools]
        if choice := options.get("toolChoice"):
            plain = choice in ("auto", "none", "required")
            body["tool_choice"] = choice if plain else {"type": "function", "function": {"name": choice}}
    if limit := options.get("maxTokens"):
        body[quirks.max_tokens_field] = limit
    for name, wire in (("temperature", "temperature"), ("topP", "top_p"), ("seed", "seed"), ("stop", "stop")):
        if options.get(name) is not None:
            body[wire] = options[name]
    if effort := _effort(request, quirks):
        body[quirks.effort_field] = {"effort": effort} if quirks.effort_field == "reasoning" else effort
    if quirks.session_field and request.session_id:
        body[quirks.session_field] = request.session_id
    return body


def _effort(request: ModelRequest, quirks: Quirks) -> str | None:
    if request.thinking_level == "off":
        return None
    for effort in quirks.effort:
        if re.search(effort.models, request.model.model_id):
            return effort.levels.get(request.thinking_level)
    return None


def _tool(tool: dict[str, Any]) -> dict[str, Any]:
    parameters = tool.get("parameters") or {"type": "object", "properties": {}}
    return {"name": tool["name"], "description": tool.get("description", ""), "parameters": parameters}


@dataclass(slots=True)
class Messages:
    """Builds the wire's messages for one provider."""

    provider: str
    quirks: Quirks
    out: list[dict[str, Any]] = field(default_factory=list)
    used: set[str] = field(default_factory=set)

    def build(self, messages: list[dict[str, Any]]) -> list[dict[str, Any]]:
        position = 0
        unsent: set[str] = set()
        while position < len(messages):
            message = messages[position]
            position += 1
            role = message.get("role")
            if role == "user":
                self._user(message)
            elif role == "assistant":
                end = next(
                    (i for i in range(position, len(messages)) if messages[i].get("role") == "assistant"), len(messages)
                )
                following = messages[position:end]
                position = end
                if message.get("stopReason") in UNSENT:
                    unsent |= {call.get("id", "") for call in _blocks(message, "toolCall")}
                    rest = following
                else:
                    rest = self._assistant(message, following)
                for other in rest:
                    if other.get("role") == "user":
                        self._user(other)
                    elif other.get("role") == "toolResult" and other.get("toolCallId") not in unsent:
                        self._orphan(other)
            elif role == "toolResult":
                self._orphan(message)
        return self.out

    def _user(self, message: dict[str, Any]) -> None:
        content = message.get("content", "")
        if isinstance(content, str):
            content = [{"type": "text", "text": content}]
        parts = _parts(content)
        if not parts:
            parts = [{"type": "text", "text": EMPTY_INPUT}]
        texts = [part["text"] for part in parts if part["type"] == "text"]
        self._push_user("\n".join(texts) if len(texts) == len(parts) else parts)

    def _push_user(self, content: str | list[dict[str, Any]]) -> None:
        if self.quirks.filler_after_tool and self.out and self.out[-1]["role"] == "tool":
            self.out.append({"role": "assistant", "content": FILLER})
        self.out.append({"role": "user", "content": content})

    def _assistant(self, message: dict[str, Any], following: list[dict[str, Any]]) -> list[dict[str, Any]]:
        """Append the message and the results of its calls; the messages of `following` that are left."""
        calls = _blocks(message, "toolCall")
        same = message.get("provider") == self.provider and message.get("api", OPENAI_CHAT) == OPENAI_CHAT
        texts = [block["text"] for block in _blocks(message, "text") if block.get("text", "").strip()]
        # Blocks of this wire are pieces of one text; those of others are paragraphs.
        text = ("" if message.get("api") == OPENAI_CHAT else "\n").join(texts)
        if not (calls or text):
            return following
        wire: dict[str, Any] = {"role": "assistant", "content": text or None}
        self._reasoning(message, wire, same, bool(calls))
        self.out.append(wire)
        if not calls:
            return following
        ids = [self._id(call.get("id", ""), same) for call in calls]
        wire["tool_calls"] = [self._call(call, id, same) for call, id in zip(calls, ids, strict=True)]
        if self.quirks.thought_signatures:
            _sign(wire["tool_calls"], same)
        rest = list(following)
        images: list[dict[str, Any]] = []
        for call, id in zip(calls, ids, strict=True):
            result = next(
                (m for m in rest if m.get("role") == "toolResult" and m.get("toolCallId") == call.get("id", "")), None
            )
            content = NO_RESULT
            if result is not None:
                rest = [other for other in rest if other is not result]
                parts = _parts(result.get("content", []))
                shown = [part for part in parts if part["type"] == "image_url"]
                images += shown
                content = "\n".join(part["text"] for part in parts if part["type"] == "text")
                content = content or (IMAGE_OUTPUT if shown else EMPTY_OUTPUT)
            self.out.append({"role": "tool", "tool_call_id": id, "content": content})
        if images:
            self._push_user([{"type": "text", "text": TOOL_IMAGES}, *images])
        return rest

    def _reasoning(self, message: dict[str, Any], wire: dict[str, Any], same: bool, calls: bool) -> None:
        if self.quirks.echo_reasoning == "never":
            return
        extra = message.get("providerExtra") or {}
        name = extra.get("reasoningField") if same else None
        if name:
            wire[name] = "".join(block.get("thinking", "") for block in _blocks(message, "thinking"))
        if same and extra.get("reasoningDetails"):
            wire["reasoning_details"] = extra["reasoningDetails"]
        if self.quirks.echo_reasoning == "calls" and calls:
            # Such a server refuses messages with calls that lack the field, also those it never wrote itself.
            wire.setdefault("reasoning_content", "")

    def _call(self, call: dict[str, Any], id: str, same: bool) -> dict[str, Any]:
        arguments = call.get("arguments")
        extra = (call.get("providerExtra") or {}) if same else {}
        return {
            **extra.get("wire", {}),
            "id": id,
            "type": "function",
            "function": {
                **extra.get("wireFunction", {}),
                "name": _tool_name(call.get("name", "")),
                "arguments": encode(arguments if isinstance(arguments, dict) else {}).decode("utf-8"),
            },
        }

    def _id(self, id: str, same: bool) -> str:
        """An id in the form this server takes, unique in the request."""
        if self.quirks.call_ids == "alnum9":
            wire = id if re.fullmatch(r"[A-Za-z0-9]{9}", id) else _digest(id, 9)
        elif same and id:
            wire = id
        else:
            wire = id if re.fullmatch(r"[A-Za-z0-9_\-]{1,40}", id) else "call_" + _digest(id, 24)
        number = 0
        while wire in self.used:
            number += 1
            wire = (
                _digest(f"{id}\n{number}", 9)
                if self.quirks.call_ids == "alnum9"
                else "call_" + _digest(f"{id}\n{number}", 24)
            )
        self.used.add(wire)
        return wire

    def _orphan(self, message: dict[str, Any]) -> None:
        """A result whose call is not in the request: said by the user, as servers refuse it otherwise."""
        parts = _parts(message.get("content", []))
        name = message.get("toolName") or "a tool"
        head = {"type": "text", "text": f"(Earlier result of {name})"}
        parts = [head, *(parts or [{"type": "text", "text": EMPTY_OUTPUT}])]
        texts = [part["text"] for part in parts if part["type"] == "text"]
        self._push_user("\n".join(texts) if len(texts) == len(parts) else parts)


def _blocks(message: dict[str, Any], kind: str) -> list[dict[str, Any]]:
    content = message.get("content", [])
    if isinstance(content, str):
        return [{"type": "text", "text": content}] if kind == "text" else []
    return [block for block in content if block.get("type") == kind]


def _parts(content: Iterable[dict[str, Any]] | str) -> list[dict[str, Any]]:
    """Text and image blocks as the wire's parts, without blank ones."""
    if isinstance(content, str):
        content = [{"type": "text", "text": content}]
    parts: list[dict[str, Any]] = []
    for block in content:
        if block.get("type") == "text" and block.get("text", "").strip():
            parts.append({"type": "text", "text": block["text"]})
        elif block.get("type") == "image":
            url = f"data:{block['mimeType']};base64,{block['data']}"
            parts.append({"type": "image_url", "image_url": {"url": url}})
    return parts


def _tool_name(name: str) -> str:
    """A name that a model made up is sent back in the form servers accept."""
    return re.sub(r"[^A-Za-z0-9_\-]", "_", name)[:64] or "unnamed_tool"


def _sign(calls: list[dict[str, Any]], same: bool) -> None:
    """Gemini wants a signature on each foreign call and, in its own messages, on the first."""
    signed = any((call.get("extra_content") or {}).get("google") for call in calls)
    for call in () if signed else calls[:1] if same else calls:
        call["extra_content"] = {"google": {"thought_signature": SIGNATURE_SENTINEL}}


def _digest(text: str, length: int) -> str:
    return hashlib.sha256(replace_surrogates(text).encode("utf-8")).hexdigest()[:length]
