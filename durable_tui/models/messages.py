"""Neutral messages, shaped as in spec 17.3. Stored as they are; providers translate them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any, Literal, NotRequired, TypedDict, cast

if TYPE_CHECKING:
    from durable_tui.delta import Json, JsonObject

StopReason = Literal["stop", "length", "toolUse", "error", "aborted", "deferred"]


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
    content: list[Any]
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


PARTS = ("input", "output", "cacheRead", "cacheWrite")
TOKENS = (*PARTS, "totalTokens")


def empty_usage() -> Usage:
    """No tokens, price unknown."""
    return {"input": 0, "output": 0, "cacheRead": 0, "cacheWrite": 0, "totalTokens": 0}


def add_usage(left: Usage, right: Usage) -> Usage:
    """Sum of two; the cost is that of what has one, and `unpriced` says how many tokens it leaves out."""
    total = cast(Usage, _sums(TOKENS, left, right))
    costs = [usage["cost"] for usage in (left, right) if "cost" in usage]
    if costs:
        total["cost"] = cast(Cost, _sums((*PARTS, "total"), *costs))
        unpriced = _unpriced(left) + _unpriced(right)
        if unpriced:
            total["unpriced"] = unpriced
    return total


def _sums(keys: Iterable[str], *tables: Mapping[str, Any]) -> dict[str, Any]:
    """Key by key; what a tool of any make left out counts as 0."""
    return {key: sum(table.get(key) or 0 for table in tables) for key in keys}


def _unpriced(usage: Usage) -> int:
    if "cost" in usage:
        return usage.get("unpriced", 0)
    return sum(_sums(PARTS, usage).values())


def content_text(content: Any, image: Callable[[Mapping[str, Any]], str] | None = None) -> str:
    """Return a content's text: its text blocks joined by newlines. `image` gives the words that stand for an image.

    What is no block of a content is left out, for a stored one may have come from anywhere.
    """
    if isinstance(content, str):
        return content
    texts: list[str] = []
    for block in content or ():
        if not isinstance(block, Mapping):
            continue
        if block.get("type") == "text":
            texts.append(str(block.get("text", "")))
        elif image is not None and block.get("type") == "image":
            texts.append(image(block))
    return "\n".join(texts)


def message_text(message: Mapping[str, Any]) -> str:
    """Return the plain text of a message."""
    return content_text(message.get("content", ""))
