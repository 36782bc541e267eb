"""Neutral messages, shaped as in spec 17.3. Stored as they are; providers translate them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, cast

from durable_tui.storage.messages import (
    AnswerBlock,
    AssistantMessage,
    ContentBlock,
    Cost,
    ImageBlock,
    Message,
    PartialMessage,
    StopReason,
    SystemMessage,
    TextBlock,
    ThinkingBlock,
    ToolCallBlock,
    ToolDescription,
    ToolName,
    ToolResultMessage,
    Usage,
    UsageTable,
    UserBlock,
    UserMessage,
    is_call,
)

__all__ = [
    "PARTS",
    "TOKENS",
    "AnswerBlock",
    "AssistantMessage",
    "ContentBlock",
    "Cost",
    "ImageBlock",
    "Message",
    "PartialMessage",
    "StopReason",
    "SystemMessage",
    "TextBlock",
    "ThinkingBlock",
    "ToolCallBlock",
    "ToolDescription",
    "ToolName",
    "ToolResultMessage",
    "Usage",
    "UsageTable",
    "UserBlock",
    "UserMessage",
    "add_usage",
    "content_text",
    "empty_usage",
    "is_call",
    "message_text",
]

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
