"""Neutral messages (spec 17.3) to a Chat Completions request. Pure; whatever the history holds, the request is valid.

Results of tools are messages of their own, so images of tools come in a user message after them.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal, NotRequired, TypedDict, get_args

from durable_tui.models.history import (
    EMPTY_OUTPUT,
    AnswerTurn,
    CallTurn,
    History,
    Turn,
    UserTurn,
    data_url,
    joined,
    parameters_of,
)
from durable_tui.models.json_text import WireObject, as_object, as_objects
from durable_tui.models.known_providers import OPENAI_CHAT, Quirks
from durable_tui.models.messages import ImageBlock, ToolDescription, UserBlock
from durable_tui.models.provider import ModelRequest

if TYPE_CHECKING:
    from durable_tui.delta import JsonObject

IMAGE_OUTPUT = "(an image, shown below)"
FILLER = "(no answer)"
TOOL_IMAGES = "Images from the tool results above:"
SIGNATURE_SENTINEL = "skip_thought_signature_validator"

ReasoningField = Literal["reasoning_content", "reasoning", "reasoning_text"]
REASONING_FIELDS: tuple[ReasoningField, ...] = get_args(ReasoningField)


# -- what the protocol takes (https://platform.openai.com/docs/api-reference/chat/create) ------------------------------


class CacheControl(TypedDict):
    """Anthropic's, where its models are reached over this protocol."""

    type: Literal["ephemeral"]


class TextPart(TypedDict):
    type: Literal["text"]
    text: str
    cache_control: NotRequired[CacheControl]


class ImageUrl(TypedDict):
    url: str


class ImagePart(TypedDict):
    type: Literal["image_url"]
    image_url: ImageUrl


ContentPart = TextPart | ImagePart


class ChatMessage(TypedDict):
    """A message of any role. A call of `tool_calls` holds what its server added to the protocol's keys.

    The reasoning is in the field its server has it in; none is OpenAI's.
    """

    role: Literal["system", "user", "assistant", "tool"]
    content: str | list[ContentPart] | None
    tool_call_id: NotRequired[str]
    tool_calls: NotRequired[list[WireObject]]
    reasoning_content: NotRequired[str]
    reasoning: NotRequired[str]
    reasoning_text: NotRequired[str]
    reasoning_details: NotRequired[list[WireObject]]


class FunctionDescription(TypedDict):
    name: str
    description: str
    parameters: JsonObject


class FunctionTool(TypedDict):
    type: Literal["function"]
    function: FunctionDescription


class FunctionName(TypedDict):
    name: str


class FunctionChoice(TypedDict):
    type: Literal["function"]
    function: FunctionName


class StreamOptions(TypedDict):
    include_usage: bool


class Effort(TypedDict):
    effort: str


class Body(TypedDict):
    model: str
    messages: list[ChatMessage]
    stream: bool
    stream_options: NotRequired[StreamOptions]
    tools: NotRequired[list[FunctionTool]]
    tool_choice: NotRequired[str | FunctionChoice]
    max_tokens: NotRequired[int]
    max_completion_tokens: NotRequired[int]
    temperature: NotRequired[float]
    top_p: NotRequired[float]
    seed: NotRequired[int]
    stop: NotRequired[list[str]]
    reasoning_effort: NotRequired[str]
    reasoning: NotRequired[Effort]
    prompt_cache_key: NotRequired[str]


# -- the request -------------------------------------------------------------------------------------------------------


def build_request(request: ModelRequest, quirks: Quirks) -> Body:
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
    body: Body = {"model": request.model.model_id, "messages": messages, "stream": True}
    if quirks.stream_usage:
        body["stream_options"] = {"include_usage": True}
    if request.tools:
        body["tools"] = [{"type": "function", "function": _tool(tool)} for tool in request.tools]
        if choice := options.get("toolChoice"):
            plain = choice in ("auto", "none", "required")
            body["tool_choice"] = choice if plain else {"type": "function", "function": {"name": choice}}
    if limit := options.get("maxTokens"):
        body[quirks.max_tokens_field] = limit
    if (temperature := options.get("temperature")) is not None:
        body["temperature"] = temperature
    if (top_p := options.get("topP")) is not None:
        body["top_p"] = top_p
    if (seed := options.get("seed")) is not None:
        body["seed"] = seed
    if (stop := options.get("stop")) is not None:
        body["stop"] = stop
    if effort := quirks.effort_for(request.model.model_id, request.thinking_level):
        if quirks.effort_field == "reasoning":
            body["reasoning"] = {"effort": effort}
        else:
            body["reasoning_effort"] = effort
    if quirks.session_field and request.session_id:
        body[quirks.session_field] = request.session_id
    return body


def _mark_stable(messages: list[ChatMessage]) -> None:
    """Anthropic's cache breakpoints, where such models are reached over this protocol: the prompt, and all until now."""
    marked = [messages[0], messages[-1]] if len(messages) > 1 else messages[-1:]
    for message in marked:
        content = message["content"]
        parts: list[ContentPart] = (
            [{"type": "text", "text": content}] if isinstance(content, str) else [*(content or ())]
        )
        if not parts:
            continue
        last = parts[-1]
        if last["type"] == "text":
            message["content"] = [*parts[:-1], {**last, "cache_control": {"type": "ephemeral"}}]


def _tool(tool: ToolDescription) -> FunctionDescription:
    return {"name": tool["name"], "description": tool.get("description", ""), "parameters": parameters_of(tool)}


@dataclass(slots=True)
class Messages:
    """Writes turns down as the wire's messages."""

    quirks: Quirks
    out: list[ChatMessage] = field(default_factory=list)

    def build(self, turns: Sequence[Turn]) -> list[ChatMessage]:
        for turn in turns:
            if isinstance(turn, UserTurn):
                self._user(turn.parts)
            else:
                self._answer(turn)
        return self.out

    def _user(self, parts: Sequence[UserBlock]) -> None:
        if self.quirks.filler_after_tool and self.out and self.out[-1]["role"] == "tool":
            self.out.append({"role": "assistant", "content": FILLER})
        text = joined(parts)
        self.out.append({"role": "user", "content": text if text is not None else [_part(part) for part in parts]})

    def _answer(self, turn: AnswerTurn) -> None:
        # Blocks of this wire are pieces of one text; those of others are paragraphs.
        text = ("" if turn.message.get("api") == OPENAI_CHAT else "\n").join(turn.texts)
        wire: ChatMessage = {"role": "assistant", "content": text or None}
        self._reasoning(turn, wire)
        self.out.append(wire)
        if not turn.calls:
            return
        wire["tool_calls"] = [_call(call, turn.same) for call in turn.calls]
        if self.quirks.thought_signatures:
            _sign(wire["tool_calls"], turn.same)
        images: list[ImageBlock] = []
        for call in turn.calls:
            texts = [part["text"] for part in call.result if part["type"] == "text"]
            shown = [part for part in call.result if part["type"] == "image"]
            images += shown
            content = "\n".join(texts) or (IMAGE_OUTPUT if shown else EMPTY_OUTPUT)
            self.out.append({"role": "tool", "tool_call_id": call.id, "content": content})
        if images:
            self._user([{"type": "text", "text": TOOL_IMAGES}, *images])

    def _reasoning(self, turn: AnswerTurn, wire: ChatMessage) -> None:
        if self.quirks.echo_reasoning == "never":
            return
        extra = as_object(turn.message.get("providerExtra")) if turn.same else {}
        for name in REASONING_FIELDS:
            if name == extra.get("reasoningField"):
                wire[name] = "".join(block.get("thinking", "") for block in turn.blocks if block["type"] == "thinking")
        if details := as_objects(extra.get("reasoningDetails")):
            wire["reasoning_details"] = details
        if self.quirks.echo_reasoning == "calls" and turn.calls:
            # Such a server refuses messages with calls that lack the field, also those it never wrote itself.
            wire.setdefault("reasoning_content", "")


def _call(call: CallTurn, same: bool) -> WireObject:
    extra = as_object(call.block.get("providerExtra")) if same else {}
    function = as_object(extra.get("wireFunction"))
    return {
        **as_object(extra.get("wire")),
        "id": call.id,
        "type": "function",
        "function": {**function, "name": call.name, "arguments": call.arguments_text},
    }


def _part(block: UserBlock) -> ContentPart:
    if block["type"] == "image":
        return {"type": "image_url", "image_url": {"url": data_url(block)}}
    return {"type": "text", "text": block["text"]}


def _sign(calls: list[WireObject], same: bool) -> None:
    """Gemini wants a signature on each foreign call and, in its own messages, on the first."""
    signed = any(as_object(call.get("extra_content")).get("google") for call in calls)
    for call in () if signed else calls[:1] if same else calls:
        call["extra_content"] = {"google": {"thought_signature": SIGNATURE_SENTINEL}}
