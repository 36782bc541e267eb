"""What an entry says, as labelled pieces of text that every rendering is made from. Nothing in them is markup."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, cast

from durable_tui.ground.text import one_line
from durable_tui.models.messages import content_text
from durable_tui.storage.records import EntryRecord

if TYPE_CHECKING:
    from durable_tui.agent.shapes import Diagnostic
    from durable_tui.models.messages import AssistantMessage, Message, ToolResultMessage

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
        reason = _data(entry).get("reason", "")
        yield Block("mark", "compaction", f"older entries were summarised ({reason})" if reason else "summarised")
    for message in entry.get("model") or ():
        yield from _message(message, entry)


def _message(message: Message, entry: EntryRecord) -> Iterator[Block]:
    if message["role"] == "user":
        yield Block("user", "you", content_text(message["content"], _image))
    elif message["role"] == "assistant":
        yield from _assistant(message)
    elif message["role"] == "toolResult":
        yield from _result(message, entry)
    elif message["role"] == "system":
        changed = ", ".join(message.get("sections") or {})
        tools = ", ".join(tool["name"] for tool in message.get("toolsAdded") or ())
        parts = [part for part in (changed and f"sections: {changed}", tools and f"tools: {tools}") if part]
        if parts:
            yield Block("system", "system", "; ".join(parts))


def _assistant(message: AssistantMessage) -> Iterator[Block]:
    for block in message.get("content") or ():
        if block["type"] == "text":
            if block["text"]:
                yield Block("ai", "ai", block["text"])
        elif block["type"] == "thinking":
            if block["thinking"]:
                yield Block("thinking", "thinking", block["thinking"])
        elif block["type"] == "toolCall":
            yield Block("call", "call", f"{block['name']} {call_summary(block.get('arguments'))}".rstrip())
    stop = message.get("stopReason", "error")
    if message.get("errorMessage"):
        yield Block("error", stop, message["errorMessage"])
    elif stop in ("aborted", "error", "length"):
        cut = {"length": "cut at the model's output limit"}
        yield Block("mark", stop, cut.get(stop, "this answer was not finished"))


def _result(message: ToolResultMessage, entry: EntryRecord) -> Iterator[Block]:
    kind: Kind = "error" if message.get("isError") else "result"
    took = f", {message['durationMs'] / 1000:.1f} s" if "durationMs" in message else ""
    yield Block(kind, f"{message.get('toolName', 'tool')}{took}", content_text(message.get("content", ""), _image))
    details = message.get("details")
    diff = details.get("diff") if isinstance(details, Mapping) else None
    if isinstance(diff, str) and diff:
        yield Block("result", "diff", diff, diff=True)
    for diagnostic in cast("Sequence[Diagnostic]", _data(entry).get("diagnostics") or ()):
        if diagnostic["severity"] != "error":
            yield Block("mark", diagnostic["severity"], diagnostic["message"])


def _data(entry: EntryRecord) -> Mapping[str, object]:
    """What belongs to an entry's kind, as far as it is an object."""
    data = entry.get("data")
    return data if isinstance(data, Mapping) else {}


def _image(block: Mapping[str, Any]) -> str:
    return f"[image {block.get('mimeType', '')}, {len(block.get('data', '')) * 3 // 4} bytes]"


def call_summary(arguments: object, width: int = 120) -> str:
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
