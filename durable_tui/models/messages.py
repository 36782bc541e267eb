"""Neutral messages, shaped as in RECORDS 3. Stored as they are; providers translate them."""

from __future__ import annotations

from typing import Any, Literal, NotRequired, TypedDict

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
    """Tokens of one attempt; `input` excludes cached ones. `cost` is absent when the price is unknown."""

    input: int
    output: int
    cacheRead: int
    cacheWrite: int
    totalTokens: int
    cost: NotRequired[Cost]


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


def empty_usage() -> Usage:
    """No tokens, price unknown."""
    return {"input": 0, "output": 0, "cacheRead": 0, "cacheWrite": 0, "totalTokens": 0}


def add_usage(left: Usage, right: Usage) -> Usage:
    """Sum of two; the cost is known when any of the two is known."""
    total: Usage = {
        "input": left["input"] + right["input"],
        "output": left["output"] + right["output"],
        "cacheRead": left["cacheRead"] + right["cacheRead"],
        "cacheWrite": left["cacheWrite"] + right["cacheWrite"],
        "totalTokens": left["totalTokens"] + right["totalTokens"],
    }
    costs = [usage["cost"] for usage in (left, right) if "cost" in usage]
    if costs:
        total["cost"] = {
            "input": sum(c["input"] for c in costs),
            "output": sum(c["output"] for c in costs),
            "cacheRead": sum(c["cacheRead"] for c in costs),
            "cacheWrite": sum(c["cacheWrite"] for c in costs),
            "total": sum(c["total"] for c in costs),
        }
    return total


def message_text(message: dict[str, Any]) -> str:
    """The plain text of a message: its text blocks joined by newlines."""
    content = message.get("content", "")
    if isinstance(content, str):
        return content
    return "\n".join(block["text"] for block in content if block.get("type") == "text")
