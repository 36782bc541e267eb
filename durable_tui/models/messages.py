"""Neutral messages, shaped as in spec 17.3. Stored as they are; providers translate them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Literal, get_args

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
    "COSTS",
    "PARTS",
    "TOKENS",
    "AnswerBlock",
    "AssistantMessage",
    "ContentBlock",
    "Cost",
    "ImageBlock",
    "Message",
    "Part",
    "PartialMessage",
    "StopReason",
    "SystemMessage",
    "TextBlock",
    "TextKind",
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
    "answer_blocks",
    "content_text",
    "empty_cost",
    "empty_usage",
    "is_call",
    "message_text",
    "text_block",
]

TextKind = Literal["text", "thinking"]

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
