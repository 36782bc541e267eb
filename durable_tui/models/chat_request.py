"""Neutral messages (spec 17.3) to a Chat Completions request. Pure; whatever the history holds, the request is valid.

Results of tools are messages of their own, so images of tools come in a user message after them.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Any

from durable_tui.models.history import (
    EMPTY_OUTPUT,
    AnswerTurn,
    CallTurn,
    History,
    UserTurn,
    data_url,
    joined,
    parameters_of,
)
from durable_tui.models.known_providers import OPENAI_CHAT, Quirks
from durable_tui.models.provider import ModelRequest

IMAGE_OUTPUT = "(an image, shown below)"
FILLER = "(no answer)"
TOOL_IMAGES = "Images from the tool results above:"
SIGNATURE_SENTINEL = "skip_thought_signature_validator"


def build_request(request: ModelRequest, quirks: Quirks) -> dict[str, Any]:
    """The body to POST, streaming.

    `request.options` may hold `maxTokens` (int), `temperature`, `topP` (numbers), `seed` (int), `stop` (list of strings)
    and `toolChoice` ("auto", "none", "required" or a tool's name); other keys are not for this provider.
    """
    options = request.options
    messages = Messages(quirks).build(History(request.model, quirks.call_ids).turns(request.messages))
    if request.system.strip():
        messages.insert(0, {"role": "system", "content": request.system})
    if quirks.cache_control and re.search(quirks.cache_control, request.model.model_id):
        _mark_stable(messages)
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
    if effort := quirks.effort_for(request.model.model_id, request.thinking_level):
        body[quirks.effort_field] = {"effort": effort} if quirks.effort_field == "reasoning" else effort
    if quirks.session_field and request.session_id:
        body[quirks.session_field] = request.session_id
    return body


def _mark_stable(messages: list[dict[str, Any]]) -> None:
    """Anthropic's cache breakpoints, where such models are reached over this protocol: the prompt, and all until now."""
    marked = [messages[0], messages[-1]] if len(messages) > 1 else messages[-1:]
    for message in marked:
        content = message["content"]
        parts = [{"type": "text", "text": content}] if isinstance(content, str) else list(content or ())
        if parts and parts[-1]["type"] == "text":
            message["content"] = [*parts[:-1], {**parts[-1], "cache_control": {"type": "ephemeral"}}]


def _tool(tool: dict[str, Any]) -> dict[str, Any]:
    return {"name": tool["name"], "description": tool.get("description", ""), "parameters": parameters_of(tool)}


@dataclass(slots=True)
class Messages:
    """Writes turns down as the wire's messages."""

    quirks: Quirks
    out: list[dict[str, Any]] = field(default_factory=list)

    def build(self, turns: list[UserTurn | AnswerTurn]) -> list[dict[str, Any]]:
        for turn in turns:
            if isinstance(turn, UserTurn):
                self._user(turn.parts)
            else:
                self._answer(turn)
        return self.out

    def _user(self, parts: list[dict[str, Any]]) -> None:
        if self.quirks.filler_after_tool and self.out and self.out[-1]["role"] == "tool":
            self.out.append({"role": "assistant", "content": FILLER})
        text = joined(parts)
        self.out.append({"role": "user", "content": text if text is not None else [_part(part) for part in parts]})

    def _answer(self, turn: AnswerTurn) -> None:
        # Blocks of this wire are pieces of one text; those of others are paragraphs.
        text = ("" if turn.message.get("api") == OPENAI_CHAT else "\n").join(turn.texts)
        wire: dict[str, Any] = {"role": "assistant", "content": text or None}
        self._reasoning(turn, wire)
        self.out.append(wire)
        if not turn.calls:
            return
        wire["tool_calls"] = [_call(call, turn.same) for call in turn.calls]
        if self.quirks.thought_signatures:
            _sign(wire["tool_calls"], turn.same)
        images: list[dict[str, Any]] = []
        for call in turn.calls:
            texts = [part["text"] for part in call.result if part["type"] == "text"]
            shown = [part for part in call.result if part["type"] == "image"]
            images += shown
            content = "\n".join(texts) or (IMAGE_OUTPUT if shown else EMPTY_OUTPUT)
            self.out.append({"role": "tool", "tool_call_id": call.id, "content": content})
        if images:
            self._user([{"type": "text", "text": TOOL_IMAGES}, *images])

    def _reasoning(self, turn: AnswerTurn, wire: dict[str, Any]) -> None:
        if self.quirks.echo_reasoning == "never":
            return
        extra = (turn.message.get("providerExtra") or {}) if turn.same else {}
        if name := extra.get("reasoningField"):
            wire[name] = "".join(block.get("thinking", "") for block in turn.blocks("thinking"))
        if extra.get("reasoningDetails"):
            wire["reasoning_details"] = extra["reasoningDetails"]
        if self.quirks.echo_reasoning == "calls" and turn.calls:
            # Such a server refuses messages with calls that lack the field, also those it never wrote itself.
            wire.setdefault("reasoning_content", "")


def _call(call: CallTurn, same: bool) -> dict[str, Any]:
    extra = (call.block.get("providerExtra") or {}) if same else {}
    return {
        **extra.get("wire", {}),
        "id": call.id,
        "type": "function",
        "function": {**extra.get("wireFunction", {}), "name": call.name, "arguments": call.arguments_text},
    }


def _part(block: dict[str, Any]) -> dict[str, Any]:
    if block["type"] == "image":
        return {"type": "image_url", "image_url": {"url": data_url(block)}}
    return block


def _sign(calls: list[dict[str, Any]], same: bool) -> None:
    """Gemini wants a signature on each foreign call and, in its own messages, on the first."""
    signed = any((call.get("extra_content") or {}).get("google") for call in calls)
    for call in () if signed else calls[:1] if same else calls:
        call["extra_content"] = {"google": {"thought_signature": SIGNATURE_SENTINEL}}
