"""The tool calls of stored answers (spec 10)."""

from __future__ import annotations

from durable_tui.agent.extension import Tool
from durable_tui.agent.recent_entries import RecentEntries
from durable_tui.agent.shapes import ToolInput
from durable_tui.delta import Json
from durable_tui.models.messages import ToolCallBlock, is_call
from durable_tui.storage.records import EntryRecord


async def find_call(entries: RecentEntries, which: ToolInput) -> ToolCallBlock | None:
    """A call by the entry it stands in and its id; None when either is gone."""
    return call_in(await entries.find(which["assistant"]), which["callId"])


def call_in(entry: EntryRecord | None, call_id: str) -> ToolCallBlock | None:
    """The call of an entry, None when it has no such call."""
    for message in entry.get("model", ()) if entry is not None else ():
        for block in message["content"] if message["role"] == "assistant" else ():
            if is_call(block) and block["id"] == call_id:
                return block
    return None


def call_phrase(tool: Tool | None, name: str, arguments: Json) -> str:
    """The name of a tool and the short form of its arguments."""
    if tool is None or tool.summary is None or not isinstance(arguments, dict):
        return name
    try:
        summary = str(tool.summary(arguments))
    except Exception as error:  # noqa: BLE001 - a phrase must not fail an opening
        summary = f"({error})"
    return f"{name} {' '.join(summary.split())}"[:120].rstrip()
