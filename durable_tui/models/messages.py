"""Neutral messages, shaped as in RECORDS 3. Stored as they are; providers translate them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Literal, NotRequired, TypedDict, cast

StopReason = Literal["stop", "length", "toolUse", "error", "aborted", "deferred"]


class TextBlock(TypedDict):
    type: Literal["text"]
    text: str
    providerExtra: NotRequired[dict[str, Any]]


class ThinkingBlock(TypedDict):
    type: Literal["thinking"]
    thinking: str
    signature: NotRequired[str]
    redacted: NotRequired[bool]
    providerExtra: NotRequired[dict[str, Any]]


class ImageBlock(TypedDict):
    type: Literal["image"]
    data: str
    mimeType: str


class ToolCallBlock(TypedDict):
    """`providerExtra.invalid` holds `{error, raw}` when the arguments on the wire were no JSON object."""

    type: Literal["toolCall"]
    id: str
    name: str
    arguments: dict[str, Any]
    providerExtra: NotRequired[dict[str, Any]]


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


class UserMessage(TypedDict):
    role: Literal["user"]
    content: str | list[Any]
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
    providerExtra: NotRequired[dict[str, Any]]


class ToolResultMessage(TypedDict):
    role: Literal["toolResult"]
    toolCallId: str
    toolName: str
    content: list[Any]
    details: NotRequired[Any]
    isError: bool
    durationMs: NotRequired[int]
    usage: NotRequired[Usage]
    timestamp: int


class SystemMessage(TypedDict):
    """A positional change of the system prompt: a section of None is removed (contract 9)."""

    role: Literal["system"]
    content: str
    sections: NotRequired[dict[str, str | None]]
    toolsAdded: NotRequired[list[dict[str, Any]]]
    toolsRemoved: NotRequired[list[dict[str, Any]]]
    timestamp: int


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


def message_text(message: dict[str, Any]) -> str:
    """The plain text of a message: its text blocks joined by newlines."""
    content = message.get("content", "")
    if isinstance(content, str):
        return content
    return "\n".join(block["text"] for block in content if block.get("type") == "text")
