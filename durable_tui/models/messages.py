"""Neutral messages, shaped as in spec 17.3. Stored as they are; providers translate them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Literal, NotRequired, TypedDict, get_args

if TYPE_CHECKING:
    from durable_tui.delta import Json, JsonObject

StopReason = Literal["stop", "length", "toolUse", "error", "aborted", "deferred"]


TextKind = Literal["text", "thinking"]


class TextBlock(TypedDict):
    type: Literal["text"]
    text: str
    providerExtra: NotRequired[JsonObject]


class ThinkingBlock(TypedDict):
    type: Literal["thinking"]
    thinking: str
    signature: NotRequired[str]
    redacted: NotRequired[bool]
    providerExtra: NotRequired[JsonObject]


class ImageBlock(TypedDict):
    type: Literal["image"]
    data: str
    mimeType: str


class ToolCallBlock(TypedDict):
    """`providerExtra.invalid` holds `{error, raw}` when the arguments on the wire were no JSON object."""

    type: Literal["toolCall"]
    id: str
    name: str
    arguments: JsonObject
    providerExtra: NotRequired[JsonObject]


class Cost(TypedDict):
    input: float
    output: float
    cacheRead: float
    cacheWrite: float
    total: float


class Usage(TypedDict):
    """Tokens of one attempt, or of a sum; `input` excludes cached ones. `cost` is absent when the price is unknown.

    In a sum whose `cost` is that of a part only, `unpriced` counts the tokens without one: it cost at least so much.
    """

    input: int
    output: int
    cacheRead: int
    cacheWrite: int
    totalTokens: int
    cost: NotRequired[Cost]
    unpriced: NotRequired[int]


UserBlock = TextBlock | ImageBlock
AnswerBlock = TextBlock | ThinkingBlock | ToolCallBlock
ContentBlock = TextBlock | ThinkingBlock | ToolCallBlock | ImageBlock


class UserMessage(TypedDict):
    role: Literal["user"]
    content: str | list[UserBlock]
    timestamp: int


class PartialMessage(TypedDict):
    """An answer while it arrives: an assistant message without usage and stop reason."""

    role: Literal["assistant"]
    content: list[AnswerBlock]
    api: str
    provider: str
    model: str
    timestamp: int


class AssistantMessage(TypedDict):
    role: Literal["assistant"]
    content: list[AnswerBlock]
    api: str
    provider: str
    model: str
    usage: Usage
    stopReason: StopReason
    errorMessage: NotRequired[str]
    timestamp: int
    providerExtra: NotRequired[JsonObject]


class ToolResultMessage(TypedDict):
    role: Literal["toolResult"]
    toolCallId: str
    toolName: str
    content: list[UserBlock]
    details: NotRequired[Json]
    isError: bool
    durationMs: NotRequired[int]
    usage: NotRequired[Usage]
    timestamp: int


class ToolDescription(TypedDict):
    """A tool as a model is offered it; `parameters` is a JSON schema."""

    name: str
    description: str
    parameters: JsonObject


class ToolName(TypedDict):
    name: str


class SystemMessage(TypedDict):
    """A positional change of the system prompt: a section of None is removed (spec 9)."""

    role: Literal["system"]
    content: str
    sections: NotRequired[dict[str, str | None]]
    toolsAdded: NotRequired[list[ToolDescription]]
    toolsRemoved: NotRequired[list[ToolName]]
    timestamp: int


class UsageTable(TypedDict):
    """What a conversation used (`pi.usage`): by `provider/modelId`, and by tool."""

    models: dict[str, Usage]
    tools: dict[str, Usage]


Message = UserMessage | AssistantMessage | ToolResultMessage | SystemMessage


Part = Literal["input", "output", "cacheRead", "cacheWrite"]
PARTS: tuple[Part, ...] = get_args(Part)
TOKENS: tuple[Literal[Part, "totalTokens"], ...] = (*PARTS, "totalTokens")
COSTS: tuple[Literal[Part, "total"], ...] = (*PARTS, "total")


def text_block(kind: TextKind, text: str = "") -> TextBlock | ThinkingBlock:
    """A text or a thinking block."""
    return {"type": "text", "text": text} if kind == "text" else {"type": "thinking", "thinking": text}


def empty_usage() -> Usage:
    """No tokens, price unknown."""
    return {"input": 0, "output": 0, "cacheRead": 0, "cacheWrite": 0, "totalTokens": 0}


def empty_cost() -> Cost:
    """Nothing paid."""
    return {"input": 0.0, "output": 0.0, "cacheRead": 0.0, "cacheWrite": 0.0, "total": 0.0}


def add_usage(left: Usage, right: Usage) -> Usage:
    """Sum of two; the cost is that of what has one, and `unpriced` says how many tokens it leaves out.

    What a tool of any make left out counts as 0.
    """
    total = empty_usage()
    for key in TOKENS:
        total[key] = (left.get(key) or 0) + (right.get(key) or 0)
    costs = [usage["cost"] for usage in (left, right) if "cost" in usage]
    if costs:
        total["cost"] = empty_cost()
        for part in COSTS:
            total["cost"][part] = sum(cost.get(part) or 0 for cost in costs)
        unpriced = _unpriced(left) + _unpriced(right)
        if unpriced:
            total["unpriced"] = unpriced
    return total


def _unpriced(usage: Usage) -> int:
    if "cost" in usage:
        return usage.get("unpriced", 0)
    return sum(usage.get(part) or 0 for part in PARTS)


def content_text(content: object, image: Callable[[Mapping[str, object]], str] | None = None) -> str:
    """Return a content's text: its text blocks joined by newlines. `image` gives the words that stand for an image.

    What is no block of a content is left out, for a stored one may have come from anywhere.
    """
    if isinstance(content, str):
        return content
    texts: list[str] = []
    for block in content if isinstance(content, Sequence) else ():
        if not isinstance(block, Mapping):
            continue
        if block.get("type") == "text":
            texts.append(str(block.get("text", "")))
        elif image is not None and block.get("type") == "image":
            texts.append(image(block))
    return "\n".join(texts)


_ANSWER_TYPES = frozenset({"text", "thinking", "toolCall"})


def answer_blocks(message: AssistantMessage) -> list[AnswerBlock]:
    """Return the blocks of an answer in order. A content of plain text is one block; what is no block is left out."""
    content: object = message.get("content")
    if isinstance(content, str):
        return [{"type": "text", "text": content}]
    return [block for block in message.get("content") or () if block.get("type") in _ANSWER_TYPES]


def message_text(message: Mapping[str, object]) -> str:
    """Return the plain text of a message."""
    return content_text(message.get("content", ""))
