"""Neutral messages (spec 17.3) to an OpenAI Responses request. Pure; whatever the history holds, the request is valid.

What was said before is written down as new items: calls have no item id, and texts one that is made up, as the protocol's
types ask for one. So no item is looked up at the server, and none is bound to reasoning that is not sent. Reasoning is
the exception: it goes back to the model it came from just as it came, with its id, directly before the item it led to.
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
from durable_tui.models.json_text import as_objects, as_text
from durable_tui.models.known_providers import Quirks
from durable_tui.models.provider import Model, ModelRequest

ENCRYPTED = "reasoning.encrypted_content"


def build_request(request: ModelRequest, quirks: Quirks, *, background: bool = False) -> dict[str, Any]:
    """The body to POST: streaming and stored nowhere, or with `background` stored, so that it can be asked for.

    `request.options` may hold `maxTokens` (int), `temperature`, `topP` (numbers) and `toolChoice` ("auto", "none",
    "required" or a tool's name); other keys are not for this provider. OpenAI takes no `maxTokens` below 16, and its
    reasoning models no `temperature` and no `topP`.
    """
    model, options = request.model, request.options
    turns = History(model, quirks.call_ids).turns(request.messages)
    body: dict[str, Any] = {"model": model.model_id, "input": Items(quirks).build(turns), "stream": not background}
    body["store"] = background
    if background:
        body["background"] = True
    elif quirks.stream_usage:
        body["stream_options"] = {"include_obfuscation": False}
    if request.system.strip():
        body["instructions"] = request.system
    if include := included(model, quirks):
        body["include"] = include
    if request.tools:
        body["tools"] = [_tool(tool) for tool in request.tools]
        if choice := options.get("toolChoice"):
            plain = choice in ("auto", "none", "required")
            body["tool_choice"] = choice if plain else {"type": "function", "name": choice}
    for name, wire in (("maxTokens", "max_output_tokens"), ("temperature", "temperature"), ("topP", "top_p")):
        if options.get(name) is not None:
            body[wire] = options[name]
    if reasons(model, quirks):
        effort = quirks.effort_for(model.model_id, request.thinking_level)
        reasoning = {"effort": effort} if effort else {}
        summary = {"summary": "auto"} if effort != "none" and quirks.reasoning_summary else {}
        if reasoning or summary:
            body["reasoning"] = reasoning | summary
    if quirks.session_field and request.session_id:
        body[quirks.session_field] = request.session_id
    return body


def reasons(model: Model, quirks: Quirks) -> bool | None:
    """Return whether a model is known to reason here, by its efforts; None for a server of which nothing is known."""
    if model.reasoning is False:
        return False
    if any(re.search(effort.models, model.model_id) for effort in quirks.effort):
        return True
    return False if quirks.effort else None


def included(model: Model, quirks: Quirks) -> list[str]:
    """Return what the answer is to hold beside the usual. Models that do not reason refuse to be asked for reasoning."""
    asked = quirks.encrypted_reasoning and (model.reasoning or reasons(model, quirks) is not False)
    return [ENCRYPTED] if asked else []


def sendable(item: Any) -> dict[str, Any] | None:
    """A reasoning item as it may be sent back, or None.

    What is not stored must be in the item itself: encrypted, or plain as open models give it. Keys without a value are
    left out, as they are only valid in answers.
    """
    if not isinstance(item, dict) or item.get("type") != "reasoning" or not as_text(item.get("id")):
        return None
    kept = {key: value for key, value in item.items() if value is not None and value != ""}
    if "encrypted_content" not in kept and not any(part.get("text") for part in as_objects(item.get("content"))):
        return None
    return {**kept, "summary": as_objects(item.get("summary"))}


def _tool(tool: dict[str, Any]) -> dict[str, Any]:
    return {
        "type": "function",
        "name": tool["name"],
        "description": tool.get("description", ""),
        "parameters": parameters_of(tool),
        "strict": False,  # the default asks for schemas of a special form
    }


@dataclass(slots=True)
class Items:
    """Writes turns down as the wire's items."""

    quirks: Quirks
    out: list[dict[str, Any]] = field(default_factory=list)
    sent: set[str] = field(default_factory=set)  # ids of reasoning: the same item twice is refused

    def build(self, turns: list[UserTurn | AnswerTurn]) -> list[dict[str, Any]]:
        for turn in turns:
            if isinstance(turn, UserTurn):
                content = [_part(part) for part in turn.parts]
                self.out.append({"type": "message", "role": "user", "content": content})
            else:
                self._answer(turn)
        return self.out

    def _answer(self, turn: AnswerTurn) -> None:
        calls = iter(turn.calls)
        reasoning: list[dict[str, Any]] = []  # waits for the item it led to; without that it is refused
        for block in turn.blocks("thinking", "text", "toolCall"):
            if block["type"] == "thinking":
                item = self._reasoning(block) if turn.same_model else None
                if item and all(item["id"] != waiting["id"] for waiting in reasoning):
                    reasoning.append(item)
                continue
            item = _call(next(calls)) if block["type"] == "toolCall" else self._text(block, turn, len(reasoning))
            if item is not None:
                self.out += [*reasoning, item]
                self.sent |= {given["id"] for given in reasoning}
            reasoning = []
        self.out += [_result(call) for call in turn.calls]

    def _reasoning(self, block: dict[str, Any]) -> dict[str, Any] | None:
        item = sendable((block.get("providerExtra") or {}).get("item"))
        if item is None or item["id"] in self.sent:
            return None
        return None if "encrypted_content" in item and not self.quirks.encrypted_reasoning else item

    def _text(self, block: dict[str, Any], turn: AnswerTurn, before: int) -> dict[str, Any] | None:
        text = as_text(block.get("text"))
        if not text.strip():
            return None
        extra = (block.get("providerExtra") or {}) if turn.same else {}
        content: dict[str, Any] = {"type": "output_text", "text": text, "annotations": []}
        if extra.get("refusal"):
            content = {"type": "refusal", "refusal": text}
        phase = {"phase": extra["phase"]} if turn.same_model and extra.get("phase") else {}
        return {
            "type": "message",
            "role": "assistant",
            "id": f"msg_{len(self.out) + before}",
            "status": "completed",
            "content": [content],
            **phase,
        }


def _call(call: CallTurn) -> dict[str, Any]:
    return {"type": "function_call", "call_id": call.id, "name": call.name, "arguments": call.arguments_text}


def _result(call: CallTurn) -> dict[str, Any]:
    text = joined(call.result)
    output = [_part(part) for part in call.result] if text is None else text or EMPTY_OUTPUT
    return {"type": "function_call_output", "call_id": call.id, "output": output}


def _part(block: dict[str, Any]) -> dict[str, Any]:
    if block["type"] == "image":
        return {"type": "input_image", "image_url": data_url(block), "detail": "auto"}
    return {"type": "input_text", "text": block["text"]}
