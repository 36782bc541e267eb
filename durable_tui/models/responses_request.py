"""Neutral messages (spec 17.3) to an OpenAI Responses request. Pure; whatever the history holds, the request is valid.

What was said before is written down as new items: calls have no item id, and texts one that is made up, as the protocol's
types ask for one. So no item is looked up at the server, and none is bound to reasoning that is not sent. Reasoning is
the exception: it goes back to the model it came from just as it came, with its id, directly before the item it led to.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal, NotRequired, TypeAlias, TypedDict

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
from durable_tui.models.json_text import WireObject, as_object, as_objects, as_text
from durable_tui.models.known_providers import Quirks
from durable_tui.models.messages import TextBlock, ThinkingBlock, ToolDescription, UserBlock
from durable_tui.models.provider import Model, ModelRequest

if TYPE_CHECKING:
    from durable_tui.delta import Json, JsonObject

ENCRYPTED = "reasoning.encrypted_content"


# -- what the protocol takes (https://platform.openai.com/docs/api-reference/responses/create) -------------------------


class InputText(TypedDict):
    type: Literal["input_text"]
    text: str


class InputImage(TypedDict):
    type: Literal["input_image"]
    image_url: str
    detail: Literal["auto"]


InputPart = InputText | InputImage


class UserItem(TypedDict):
    type: Literal["message"]
    role: Literal["user"]
    content: list[InputPart]


class OutputText(TypedDict):
    type: Literal["output_text"]
    text: str
    annotations: list[JsonObject]


class OutputRefusal(TypedDict):
    type: Literal["refusal"]
    refusal: str


class AnswerItem(TypedDict):
    type: Literal["message"]
    role: Literal["assistant"]
    id: str
    status: Literal["completed"]
    content: list[OutputText | OutputRefusal]
    phase: NotRequired[str]


class CallItem(TypedDict):
    type: Literal["function_call"]
    call_id: str
    name: str
    arguments: str


class ResultItem(TypedDict):
    type: Literal["function_call_output"]
    call_id: str
    output: str | list[InputPart]


ReasoningItem: TypeAlias = WireObject
"""As its server gave it, without the keys that have no value."""
InputItem: TypeAlias = "UserItem | AnswerItem | CallItem | ResultItem | ReasoningItem"


class FunctionTool(TypedDict):
    type: Literal["function"]
    name: str
    description: str
    parameters: JsonObject
    strict: bool


class FunctionChoice(TypedDict):
    type: Literal["function"]
    name: str


class StreamOptions(TypedDict):
    include_obfuscation: bool


class Reasoning(TypedDict, total=False):
    effort: str
    summary: Literal["auto"]


class Body(TypedDict):
    model: str
    input: list[InputItem]
    stream: bool
    store: bool
    background: NotRequired[bool]
    stream_options: NotRequired[StreamOptions]
    instructions: NotRequired[str]
    include: NotRequired[list[str]]
    tools: NotRequired[list[FunctionTool]]
    tool_choice: NotRequired[str | FunctionChoice]
    max_output_tokens: NotRequired[int]
    temperature: NotRequired[float]
    top_p: NotRequired[float]
    reasoning: NotRequired[Reasoning]
    prompt_cache_key: NotRequired[str]


# -- the request -------------------------------------------------------------------------------------------------------


def build_request(request: ModelRequest, quirks: Quirks, *, background: bool = False) -> Body:
    """The body to POST: streaming and stored nowhere, or with `background` stored, so that it can be asked for.

    `request.options` may hold `maxTokens` (int), `temperature`, `topP` (numbers) and `toolChoice` ("auto", "none",
    "required" or a tool's name); other keys are not for this provider. OpenAI takes no `maxTokens` below 16, and its
    reasoning models no `temperature` and no `topP`.
    """
    model, options = request.model, request.options
    turns = History(model, quirks.call_ids).turns(request.messages)
    body: Body = {
        "model": model.model_id,
        "input": Items(quirks).build(turns),
        "stream": not background,
        "store": background,
    }
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
    if (limit := options.get("maxTokens")) is not None:
        body["max_output_tokens"] = limit
    if (temperature := options.get("temperature")) is not None:
        body["temperature"] = temperature
    if (top_p := options.get("topP")) is not None:
        body["top_p"] = top_p
    if reasons(model, quirks):
        effort = quirks.effort_for(model.model_id, request.thinking_level)
        reasoning: Reasoning = {"effort": effort} if effort else {}
        if effort != "none" and quirks.reasoning_summary:
            reasoning["summary"] = "auto"
        if reasoning:
            body["reasoning"] = reasoning
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


def sendable(item: Json) -> ReasoningItem | None:
    """A reasoning item as it may be sent back, or None.

    What is not stored must be in the item itself: encrypted, or plain as open models give it. Keys without a value are
    left out, as they are only valid in answers.
    """
    if not isinstance(item, dict) or item.get("type") != "reasoning" or not as_text(item.get("id")):
        return None
    kept = {key: value for key, value in item.items() if value is not None and value != ""}
    if "encrypted_content" not in kept and not any(part.get("text") for part in as_objects(item.get("content"))):
        return None
    return {**kept, "summary": [*as_objects(item.get("summary"))]}


def _tool(tool: ToolDescription) -> FunctionTool:
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
    out: list[InputItem] = field(default_factory=list)
    sent: set[str] = field(default_factory=set)  # ids of reasoning: the same item twice is refused

    def build(self, turns: Sequence[Turn]) -> list[InputItem]:
        for turn in turns:
            if isinstance(turn, UserTurn):
                content = [_part(part) for part in turn.parts]
                self.out.append({"type": "message", "role": "user", "content": content})
            else:
                self._answer(turn)
        return self.out

    def _answer(self, turn: AnswerTurn) -> None:
        calls = iter(turn.calls)
        reasoning: list[ReasoningItem] = []  # waits for the item it led to; without that it is refused
        for block in turn.blocks:
            if block["type"] == "thinking":
                thought = self._reasoning(block) if turn.same_model else None
                if thought and all(thought["id"] != waiting["id"] for waiting in reasoning):
                    reasoning.append(thought)
                continue
            item = _call(next(calls)) if block["type"] == "toolCall" else self._text(block, turn, len(reasoning))
            if item is not None:
                self.out += [*reasoning, item]
                self.sent |= {as_text(thought["id"]) for thought in reasoning}
            reasoning = []
        self.out += [_result(call) for call in turn.calls]

    def _reasoning(self, block: ThinkingBlock) -> ReasoningItem | None:
        item = sendable(as_object(block.get("providerExtra")).get("item"))
        if item is None or item["id"] in self.sent:
            return None
        return None if "encrypted_content" in item and not self.quirks.encrypted_reasoning else item

    def _text(self, block: TextBlock, turn: AnswerTurn, before: int) -> AnswerItem | None:
        text = as_text(block.get("text"))
        if not text.strip():
            return None
        extra = as_object(block.get("providerExtra")) if turn.same else {}
        content: OutputText | OutputRefusal = {"type": "output_text", "text": text, "annotations": []}
        if extra.get("refusal"):
            content = {"type": "refusal", "refusal": text}
        item: AnswerItem = {
            "type": "message",
            "role": "assistant",
            "id": f"msg_{len(self.out) + before}",
            "status": "completed",
            "content": [content],
        }
        if turn.same_model and (phase := as_text(extra.get("phase"))):
            item["phase"] = phase
        return item


def _call(call: CallTurn) -> CallItem:
    return {"type": "function_call", "call_id": call.id, "name": call.name, "arguments": call.arguments_text}


def _result(call: CallTurn) -> ResultItem:
    text = joined(call.result)
    output = [_part(part) for part in call.result] if text is None else text or EMPTY_OUTPUT
    return {"type": "function_call_output", "call_id": call.id, "output": output}


def _part(block: UserBlock) -> InputPart:
    if block["type"] == "image":
        return {"type": "input_image", "image_url": data_url(block), "detail": "auto"}
    return {"type": "input_text", "text": block["text"]}
