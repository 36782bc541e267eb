"""Neutral messages (spec 17.3) to an Anthropic Messages request. Pure; whatever the history holds, the request is valid.

Sources: Anthropic's reference of the Messages API and its pages on thinking, preserved thinking and prompt caching.

Thinking goes back to the model that thought it, byte for byte and in its place, when it is signed. What another model
thought, or nobody signed, is left out: its signature would be refused here, and as plain text it would pass for
something that was said to the user.
"""

from __future__ import annotations

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
    digest,
    joined,
    parameters_of,
)
from durable_tui.models.json_text import as_object
from durable_tui.models.known_providers import Quirks, Thinking
from durable_tui.models.messages import ThinkingBlock, ToolDescription, UserBlock
from durable_tui.models.provider import ModelRequest
from durable_tui.models.usage import estimate_tokens

if TYPE_CHECKING:
    from durable_tui.delta import JsonObject

MAX_TOKENS = 8192  # of an answer, when the model's own limit is not known
LEAST_TOKENS = 1024  # of an answer beside its thinking, and of thinking: a smaller budget is refused
OPENING = "(the conversation so far)"
BINDING = "thinking-binding-controls-2026-08-01"

ImageType = Literal["image/jpeg", "image/png", "image/gif", "image/webp"]

_CHOICES: dict[str, ToolChoice] = {"auto": {"type": "auto"}, "none": {"type": "none"}, "required": {"type": "any"}}
_IMAGES: tuple[ImageType, ...] = get_args(ImageType)
_THOUGHTS = ("thinking", "redacted_thinking")


# -- what the protocol takes (https://docs.anthropic.com/en/api/messages) ----------------------------------------------


class CacheControl(TypedDict):
    type: Literal["ephemeral"]


class TextParam(TypedDict):
    type: Literal["text"]
    text: str
    cache_control: NotRequired[CacheControl]


class ImageSource(TypedDict):
    type: Literal["base64"]
    media_type: ImageType
    data: str


class ImageParam(TypedDict):
    type: Literal["image"]
    source: ImageSource
    cache_control: NotRequired[CacheControl]


class ThinkingParam(TypedDict):
    type: Literal["thinking"]
    thinking: str
    signature: str


class RedactedThinkingParam(TypedDict):
    type: Literal["redacted_thinking"]
    data: str


class ToolUseParam(TypedDict):
    type: Literal["tool_use"]
    id: str
    name: str
    input: JsonObject


class ToolResultParam(TypedDict):
    type: Literal["tool_result"]
    tool_use_id: str
    content: str | list[TextParam | ImageParam]
    is_error: NotRequired[bool]
    cache_control: NotRequired[CacheControl]


AnswerParam = TextParam | ThinkingParam | RedactedThinkingParam | ToolUseParam
UserParam = TextParam | ImageParam | ToolResultParam


class UserMessageParam(TypedDict):
    role: Literal["user"]
    content: list[UserParam]


class AnswerMessageParam(TypedDict):
    role: Literal["assistant"]
    content: list[AnswerParam]


MessageParam = UserMessageParam | AnswerMessageParam


class ToolParam(TypedDict):
    name: str
    input_schema: JsonObject
    description: NotRequired[str]
    cache_control: NotRequired[CacheControl]


class ToolChoice(TypedDict):
    type: Literal["auto", "any", "none", "tool"]
    name: NotRequired[str]


class BlockBinding(TypedDict):
    prefix_mismatch_behavior: Literal["drop_block"]


class ThinkingConfig(TypedDict):
    type: Literal["adaptive", "enabled", "disabled", "between_tools"]
    budget_tokens: NotRequired[int]
    display: NotRequired[Literal["summarized"]]
    block_binding: NotRequired[BlockBinding]


class OutputConfig(TypedDict):
    effort: str


class Metadata(TypedDict):
    user_id: str


class Body(TypedDict):
    model: str
    max_tokens: int
    stream: bool
    messages: list[MessageParam]
    system: NotRequired[list[TextParam]]
    tools: NotRequired[list[ToolParam]]
    tool_choice: NotRequired[ToolChoice]
    thinking: NotRequired[ThinkingConfig]
    output_config: NotRequired[OutputConfig]
    temperature: NotRequired[float]
    top_p: NotRequired[float]
    stop_sequences: NotRequired[list[str]]
    metadata: NotRequired[Metadata]


# -- the request -------------------------------------------------------------------------------------------------------


def build_request(request: ModelRequest, quirks: Quirks) -> Body:
    """The body to POST, streaming.

    `request.options` may hold `maxTokens` (int), `temperature`, `topP` (numbers; the first wins, newer models refuse
    both), `stop` (list of strings) and `toolChoice` ("auto", "none", "required" or a tool's name); other keys are not
    for this provider. A model that thinks takes neither temperature nor topP and chooses its tools itself.
    """
    options = request.options
    turns = History(request.model, quirks.call_ids).turns(request.messages)
    limit = options.get("maxTokens") or _limit(request)
    told = _told(request, quirks)
    thinking, echo = _thinking(request, told, limit, turns, quirks)
    thinks = thinking is not None and thinking["type"] != "disabled"
    messages = Messages(echo and quirks.echo_thinking).build(turns)
    body: Body = {"model": request.model.model_id, "max_tokens": limit, "stream": True, "messages": messages}
    if request.system.strip():
        body["system"] = [{"type": "text", "text": request.system}]
    if request.tools:
        body["tools"] = [_tool(tool) for tool in request.tools]
        if choice := options.get("toolChoice"):
            wire = _CHOICES.get(choice, {"type": "tool", "name": choice})
            body["tool_choice"] = {"type": "auto"} if thinks and wire["type"] in ("any", "tool") else wire
    if thinking is not None:
        body["thinking"] = thinking
        if thinking["type"] == "adaptive" and (effort := _effort(request, told)):
            body["output_config"] = {"effort": effort}
    if not thinks and (told is None or told.sampling):
        if (temperature := options.get("temperature")) is not None:
            body["temperature"] = temperature
        elif (top_p := options.get("topP")) is not None:
            body["top_p"] = top_p
    if stop := [text for text in options.get("stop") or () if text.strip()]:
        body["stop_sequences"] = stop
    if request.session_id:
        body["metadata"] = {"user_id": digest(request.session_id, 32)}
    _mark(body)
    return body


def betas(request: ModelRequest, quirks: Quirks) -> list[str]:
    """The names for the header `anthropic-beta`: what the request holds beside the plain protocol."""
    told = _told(request, quirks)
    return [BINDING] if told is not None and told.bound and quirks.binding else []


@dataclass(slots=True)
class Messages:
    """Writes turns down as the wire's messages, whose roles alternate. `echo` says whether thinking goes back."""

    echo: bool
    out: list[MessageParam] = field(default_factory=list)

    def build(self, turns: Sequence[Turn]) -> list[MessageParam]:
        for turn in turns:
            if isinstance(turn, UserTurn):
                self._user([_part(part) for part in turn.parts])
            else:
                self._answer(_answer(turn, self.echo))
                self._user([_result(call) for call in turn.calls])
        if self.out and self.out[0]["role"] == "assistant":
            self.out.insert(0, {"role": "user", "content": [{"type": "text", "text": OPENING}]})
        last = self.out[-1] if self.out else None
        if last is not None and last["role"] == "assistant":
            end = last["content"][-1]
            if end["type"] == "text":
                # What such a message ends in, the model would have to continue: no blanks.
                end["text"] = end["text"].rstrip()
        return self.out

    def _user(self, blocks: Sequence[UserParam]) -> None:
        last = self.out[-1] if self.out else None
        if last is not None and last["role"] == "user":
            last["content"] += blocks
        elif blocks:
            self.out.append({"role": "user", "content": list(blocks)})

    def _answer(self, blocks: Sequence[AnswerParam]) -> None:
        last = self.out[-1] if self.out else None
        if last is not None and last["role"] == "assistant":
            last["content"] += blocks
        else:
            self.out.append({"role": "assistant", "content": list(blocks)})


def _answer(turn: AnswerTurn, echo: bool) -> list[AnswerParam]:
    """The blocks of an answer in their order. None may be blank, and thinking may not be the last."""
    calls = iter(turn.calls)
    out: list[AnswerParam] = []
    for block in turn.blocks:
        if block["type"] == "toolCall":
            call = next(calls)
            out.append({"type": "tool_use", "id": call.id, "name": call.name, "input": call.arguments})
        elif block["type"] == "text":
            if block.get("text", "").strip():
                out.append({"type": "text", "text": block["text"]})
        elif echo and turn.same_model and (thought := _thought(block)) is not None:
            out.append(thought)
    while out[-1]["type"] in _THOUGHTS:
        out.pop()
    return out


def _thought(block: ThinkingBlock) -> ThinkingParam | RedactedThinkingParam | None:
    """A thinking block as it came; None without a signature, or with one whose text was lost."""
    signature = block.get("signature")
    if not signature:
        return None
    text = block.get("thinking", "")
    omitted = bool(as_object(block.get("providerExtra")).get("omitted"))
    if block.get("redacted") and not omitted:
        return {"type": "redacted_thinking", "data": signature}
    return {"type": "thinking", "thinking": text, "signature": signature} if text or omitted else None


def _result(call: CallTurn) -> ToolResultParam:
    parts = [_part(part) for part in call.result]
    text = joined(parts)
    content = parts if text is None else text or EMPTY_OUTPUT
    result: ToolResultParam = {"type": "tool_result", "tool_use_id": call.id, "content": content}
    if call.is_error and text is not None:  # an error may hold nothing but text
        result["is_error"] = True
    return result


def _part(block: UserBlock) -> TextParam | ImageParam:
    if block["type"] != "image":
        return {"type": "text", "text": block["text"]}
    kind = next((kind for kind in _IMAGES if kind == block.get("mimeType")), None)
    if kind is None:
        return {"type": "text", "text": f"(an image of type {block.get('mimeType')}, which cannot be sent)"}
    return {"type": "image", "source": {"type": "base64", "media_type": kind, "data": block["data"]}}


def _tool(tool: ToolDescription) -> ToolParam:
    wire: ToolParam = {"name": tool["name"], "input_schema": {"type": "object", **parameters_of(tool)}}
    if tool.get("description"):
        wire["description"] = tool["description"]
    return wire


def _limit(request: ModelRequest) -> int:
    """The limit of output tokens when the caller sets none.

    Many servers refuse a limit that reaches beyond the context window, so it shrinks as the prompt grows. Tokens are
    estimated, on the safe side.
    """
    model = request.model
    limit = model.max_output or MAX_TOKENS
    if model.context_window:
        prompt = estimate_tokens(request.system, request.messages, request.tools) * 5 // 4
        limit = min(limit, max(model.context_window - prompt, LEAST_TOKENS))
    return limit


# -- thinking ----------------------------------------------------------------------------------------------------------


def _told(request: ModelRequest, quirks: Quirks) -> Thinking | None:
    return None if request.model.reasoning is False else quirks.thinking_for(request.model.model_id)


def _thinking(
    request: ModelRequest, told: Thinking | None, limit: int, turns: Sequence[Turn], quirks: Quirks
) -> tuple[ThinkingConfig | None, bool]:
    """Return the body's part about thinking, and whether earlier thinking goes back: else it would be refused."""
    if told is None:
        return None, True
    if _effort(request, told):
        # Newer models keep their thinking to themselves unless asked.
        thinking: ThinkingConfig = {"type": "adaptive", "display": "summarized"}
        if told.bound and quirks.binding:
            # Prompt and tools may change during a session: better without earlier thinking than refused for ever.
            thinking["block_binding"] = {"prefix_mismatch_behavior": "drop_block"}
        return thinking, True
    if budget := (told.budget or {}).get(request.thinking_level):
        budget = min(budget, limit - LEAST_TOKENS)
        if budget >= LEAST_TOKENS and not _unthought(turns, quirks.echo_thinking):
            return {"type": "enabled", "budget_tokens": budget}, True
        return {"type": "disabled"}, False
    if told.off == "disabled" or told.off == "between_tools":
        return {"type": told.off}, told.off == "between_tools"
    return None, told.off is None


def _effort(request: ModelRequest, told: Thinking | None) -> str | None:
    return (told.adaptive or {}).get(request.thinking_level) if told is not None else None


def _unthought(turns: Sequence[Turn], echo: bool) -> bool:
    """Whether a round of tools is unfinished that began without thinking: a budget for thinking is refused until it ends.

    So it is after a change of model, or of the level, in the midst of it. What the user said meanwhile came with
    results, and whether it ended the round is the server's secret.
    """
    rounds: list[AnswerTurn] = []
    for turn in reversed(turns):
        if isinstance(turn, AnswerTurn):
            if not turn.calls:
                break
            rounds.append(turn)
    return bool(rounds) and not (
        all(turn.same_model for turn in rounds) and _answer(rounds[-1], echo)[0]["type"] in _THOUGHTS
    )


# -- the cache ---------------------------------------------------------------------------------------------------------


def _mark(body: Body) -> None:
    """Mark where the server may cut its cache, at most four times.

    The order is tools, system, messages. The last two user messages end where this request ends and where the one
    before it ended, so that is found again however many blocks came since.
    """
    ends: list[ToolParam | UserParam] = [*body.get("tools", ())[-1:], *body.get("system", ())[-1:]]
    ends += [message["content"][-1] for message in body["messages"] if message["role"] == "user"][-2:]
    for block in ends:
        block["cache_control"] = {"type": "ephemeral"}
