"""What an entry says, as labelled pieces of text that every rendering is made from. Nothing in them is markup."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from durable_tui.ground.text import one_line
from durable_tui.models.messages import content_text
from durable_tui.storage.records import EntryRecord

Kind = Literal["user", "ai", "thinking", "call", "result", "error", "system", "mark"]


@dataclass(slots=True, frozen=True)
class Block:
    """One piece: `label` names it in a word or two, `text` is the content, `diff` marks a unified diff."""

    kind: Kind
    label: str
    text: str
    diff: bool = False


def blocks(entry: EntryRecord) -> Iterator[Block]:
    """The pieces of one entry in order; none for an entry that shows nothing."""
    kind = entry["kind"]
    if kind == "pi.reset":
        yield Block("mark", "reset", "the context starts anew here")
    if kind == "pi.compaction":
        reason = (entry.get("data") or {}).get("reason", "")
        yield Block("mark", "compaction", f"older entries were summarised ({reason})" if reason else "summarised")
    for message in entry.get("model") or ():
        yield from _message(message, entry)


def _message(message: dict[str, Any], entry: EntryRecord) -> Iterator[Block]:
    role = message.get("role")
    if role == "user":
        yield Block("user", "you", content_text(message.get("content", ""), _image))
    elif role == "assistant":
        yield from _assistant(message)
    elif role == "toolResult":
        yield from _result(message, entry)
    elif role == "system":
        changed = ", ".join(message.get("sections") or {})
        tools = ", ".join(tool["name"] for tool in message.get("toolsAdded") or ())
        parts = [part for part in (changed and f"sections: {changed}", tools and f"tools: {tools}") if part]
        if parts:
            yield Block("system", "system", "; ".join(parts))


def _assistant(message: dict[str, Any]) -> Iterator[Block]:
    for block in message.get("content") or ():
        if block.get("type") == "text" and block["text"]:
            yield Block("ai", "ai", block["text"])
        elif block.get("type") == "thinking" and block.get("thinking"):
            yield Block("thinking", "thinking", block["thinking"])
        elif block.get("type") == "toolCall":
            yield Block("call", "call", f"{block['name']} {call_summary(block.get('arguments'))}".rstrip())
    if message.get("errorMessage"):
        yield Block("error", message.get("stopReason", "error"), message["errorMessage"])
    elif message.get("stopReason") in ("aborted", "error", "length"):
        yield Block("mark", message["stopReason"], {"length": "cut at the model's output limit"}.get(
            message["stopReason"], "this answer was not finished"))  # fmt: skip


def _result(message: dict[str, Any], entry: EntryRecord) -> Iterator[Block]:
    kind: Kind = "error" if message.get("isError") else "result"
    took = f", {message['durationMs'] / 1000:.1f} s" if "durationMs" in message else ""
    yield Block(kind, f"{message.get('toolName', 'tool')}{took}", content_text(message.get("content", ""), _image))
    details = message.get("details")
    if isinstance(details, dict) and isinstance(details.get("diff"), str) and details["diff"]:
        yield Block("result", "diff", details["diff"], diff=True)
    for diagnostic in (entry.get("data") or {}).get("diagnostics") or ():
        if diagnostic.get("severity") != "error":
            yield Block("mark", diagnostic.get("severity", "info"), diagnostic.get("message", ""))


def _image(block: Mapping[str, Any]) -> str:
    return f"[image {block.get('mimeType', '')}, {len(block.get('data', '')) * 3 // 4} bytes]"


def call_summary(arguments: Any, width: int = 120) -> str:
    """A call's arguments in a line: the path or command if there is one, else their JSON, cut."""
    if isinstance(arguments, dict):
        for key in ("path", "command", "task", "prompt"):
            if isinstance(arguments.get(key), str):
                text = arguments[key]
                break
        else:
            text = json.dumps(arguments, ensure_ascii=False) if arguments else ""
    else:
        text = json.dumps(arguments, ensure_ascii=False)
    return one_line(text, width)
