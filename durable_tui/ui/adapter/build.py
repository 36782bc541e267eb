"""Entries as blocks: one entry gives a head, its text in chunks, its tool calls, its notes (spec 17.2, 17.3)."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, cast

from durable_tui.models.messages import content_text, is_call
from durable_tui.ui.adapter import words
from durable_tui.ui.adapter.blocks import Block, Head, Marker, Note, Prose, Said, Thinking, Tool, ToolState
from durable_tui.ui.adapter.chunks import Chunk, Chunker, chunks

if TYPE_CHECKING:
    from durable_tui.agent.shapes import ResultData, Slot
    from durable_tui.delta import Json
    from durable_tui.models.messages import (
        AnswerBlock,
        AssistantMessage,
        ContentBlock,
        ImageBlock,
        Message,
        SystemMessage,
        ToolCallBlock,
        ToolResultMessage,
        UserMessage,
    )
    from durable_tui.views.shapes import ShownEntry

    Summarize = Callable[[str, Json], str]
_HARNESS = re.compile(r"\n?<harness>\n(.*?)\n?</harness>\s*$", re.DOTALL)
_SAID_LINES = 64
ROLES = ("user", "assistant", "system", "toolResult")
_CODES: dict[str, ToolState] = {"interrupted": "interrupted", "aborted": "aborted", "blocked": "blocked"}


def images_of(content: str | Sequence[ContentBlock]) -> list[ImageBlock]:
    """Return the images of a message's content."""
    return [] if isinstance(content, str) else [part for part in content if part["type"] == "image"]


def image_bytes(images: Sequence[ImageBlock]) -> int:
    """Return the bytes of all these images."""
    return sum(len(image["data"]) * 3 // 4 for image in images)


def message_of(record: ShownEntry) -> Message | None:
    """What the model sees of an entry, its first message; None when it sees nothing, or what is no message we know."""
    model = record.get("model")
    first: object = model[0] if model else None  # an extension may have written anything
    if not isinstance(first, Mapping) or first.get("role") not in ROLES:
        return None
    return cast("Message", first)


class Builder:
    """Makes blocks of entries; knows how tools are summed up and what their replay policy is."""

    def __init__(self, summarize: Summarize | None = None, replay_of: Callable[[str], str] | None = None) -> None:
        self._summarize = summarize
        self._replay_of = replay_of

    def blocks(self, record: ShownEntry) -> list[Block]:
        """The blocks of one entry. A tool result gives none: it belongs to its call (`fill`)."""
        kind, entry, seq = record["kind"], record["id"], record["seq"]
        message = message_of(record)
        if kind == "pi.reset":
            parts = [Block((entry, "m"), Marker("reset: the model starts afresh from here"), gap=True)]
        elif kind == "pi.compaction":
            text = content_text(message["content"]) if message is not None else ""
            data = record.get("data")
            reason = data.get("reason", "") if isinstance(data, Mapping) else ""
            label = "compacted: what is above is now a summary" + (f" ({reason})" if reason else "")
            parts = [Block((entry, "m"), Marker(label, text), gap=True)]
        elif message is None:
            parts = [Block((entry, "m"), Marker(kind or "entry"), gap=True)]
        elif message["role"] == "user":
            parts = self._user(entry, message)
        elif message["role"] == "assistant":
            parts = self._assistant(entry, message)
        elif message["role"] == "system":
            parts = self._system(entry, message)
        else:
            parts = []
        for block in parts:
            block.entry, block.seq = entry, seq
        return parts

    def _user(self, entry: int, message: UserMessage) -> list[Block]:
        content = message["content"]
        text, images = content_text(content), images_of(content)
        facts = f"{words.plural(len(images), 'image')}, {words.size(image_bytes(images))}" if images else ""
        out = [Block((entry, "h"), Head("user", message.get("timestamp"), facts), gap=True)]
        lines = text.split("\n")
        for start in range(0, len(lines), _SAID_LINES):
            out.append(Block((entry, "s", start), Said("\n".join(lines[start : start + _SAID_LINES]))))
        return out

    def _assistant(self, entry: int, message: AssistantMessage) -> list[Block]:
        out = [Block((entry, "h"), Head("assistant", message.get("timestamp")), gap=True)]
        for index, part in enumerate(message["content"]):
            out.extend(self.part(entry, index, part))
        stop = message.get("stopReason")
        error = message.get("errorMessage", "")
        if stop == "aborted":
            note = "aborted" if len(out) > 1 else "aborted, no output"
            out.append(Block((entry, "n"), Note("aborted", note + (f": {error}" if error else ""))))
        elif stop == "error":
            out.append(Block((entry, "n"), Note("failed", error or "the model failed without a reason", "failed")))
        elif stop == "length":
            out.append(Block((entry, "n"), Note("interrupted", "stopped at the length limit", "attention")))
        elif error:
            out.append(Block((entry, "n"), Note("interrupted", error, "attention")))
        return out

    def part(self, entry: int | str, index: int, part: AnswerBlock, chunker: Chunker | None = None) -> list[Block]:
        """The blocks of one content block; with a chunker, of one that is still growing."""
        if is_call(part):
            return [Block((entry, "t", index), self.tool(part))]
        if part["type"] == "text":
            text = part["text"]
            if chunker is None:
                return self.prose(entry, index, chunks(text)) if text.strip() else []
            chunker.update(text)
            return self.prose(entry, index, chunker.all())
        if part["type"] == "thinking":
            text = part["thinking"]
            if part.get("redacted") and not text:
                text = "(hidden by the provider)"
            if not text.strip():
                return []
            block = Block((entry, "k", index), Thinking(text, live=chunker is not None))
            block.version = len(text)
            return [block]
        return [Block((entry, "p", index), Note("pending", f"a block of kind {part['type']}"))]

    def prose(self, entry: int | str, index: int, parts: Sequence[Chunk]) -> list[Block]:
        out = []
        for number, chunk in enumerate(parts):
            block = Block((entry, "x", index, number), Prose(chunk), gap=chunk.gap)
            block.version = len(chunk.text)
            out.append(block)
        return out

    def tool(self, call: ToolCallBlock) -> Tool:
        name, arguments = call["name"], call["arguments"]
        tool = Tool(call["id"], name, arguments, self.summary(name, arguments))
        tool.replay = self.replay_of(name)
        return tool

    def replay_of(self, name: str) -> str:
        """The replay policy of a tool that is installed, else ""."""
        return self._replay_of(name) if self._replay_of is not None else ""

    def summary(self, name: str, arguments: Json) -> str:
        if self._summarize is not None:
            text = self._summarize(name, arguments)
            if text:
                return text
        return words.summary(name, arguments)

    def _system(self, entry: int, message: SystemMessage) -> list[Block]:
        sections = message.get("sections", {})
        added = [item["name"] for item in message.get("toolsAdded", ())]
        removed = [item["name"] for item in message.get("toolsRemoved", ())]
        shown = [key for key, text in sections.items() if text is not None]
        gone = [key for key, text in sections.items() if text is None]
        facts = [words.plural(len(shown), "section")] if shown else []
        facts += [f"without {', '.join(gone)}"] if gone else []
        facts += [f"{words.plural(len(added), 'tool')}: {', '.join(added)}"] if added else []
        facts += [f"without the tools {', '.join(removed)}"] if removed else []
        body = "\n\n".join(f"[{key}]\n{text}" for key, text in sections.items() if text)
        label = "system prompt" + (" · " + " · ".join(facts) if facts else "")
        return [Block((entry, "m"), Marker(label, body or message["content"]), gap=True)]


def fill(tool: Tool, record: ShownEntry, message: ToolResultMessage) -> None:
    """Put a result entry, whose message this is, into its call's block."""
    text = content_text(message["content"])
    data = record.get("data")
    diagnostics = list(cast("ResultData", data).get("diagnostics", ())) if isinstance(data, Mapping) else []
    codes = {item.get("code", "") for item in diagnostics}
    state: ToolState = "failed" if message["isError"] else "done"
    for code, value in _CODES.items():
        if code in codes and message["isError"]:
            state = value
    harness = _HARNESS.search(text)
    if harness:
        text = text[: harness.start()]
        if not diagnostics:
            diagnostics = [{"severity": "error", "message": harness.group(1).removeprefix("[error] ")}]
    tool.state = state
    tool.result = text
    tool.images = len(images_of(message["content"]))
    tool.diagnostics = diagnostics
    tool.result_entry = record["id"]
    tool.result_seq = record["seq"]
    tool.task_id = record.get("byTaskId", tool.task_id)
    tool.duration_ms = message.get("durationMs")
    if message.get("details") is not None:
        tool.details = message["details"]
    if not tool.name:
        tool.name = message["toolName"]
    tool.output = ""


def fill_slot(tool: Tool, slot: Slot) -> None:
    """Put a live slot into its call's block, unless the result is there."""
    if tool.settled:
        return
    tool.task_id = slot.get("taskId", tool.task_id)
    tool.state = slot["status"]
    tool.output = slot.get("output", "")
    tool.dropped_lines = slot.get("droppedLines", 0)
    tool.dropped_bytes = slot.get("droppedBytes", 0)
    tool.details = slot.get("details", tool.details)
    tool.diagnostics = list(slot.get("diagnostics", ()))
    tool.verdict = slot.get("recovered", tool.verdict)
