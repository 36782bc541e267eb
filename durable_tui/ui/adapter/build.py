"""Entries as blocks: one entry gives a head, its text in chunks, its tool calls, its notes (spec 17.2, 17.3)."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from durable_tui.models.images import is_image
from durable_tui.models.messages import content_text
from durable_tui.ui.adapter import words
from durable_tui.ui.adapter.blocks import Block, Head, Marker, Note, Prose, Said, Thinking, Tool, ToolState
from durable_tui.ui.adapter.chunks import Chunk, Chunker, chunks

Summarize = Callable[[str, Any], str]
_HARNESS = re.compile(r"\n?<harness>\n(.*?)\n?</harness>\s*$", re.DOTALL)
_SAID_LINES = 64
_CODES: dict[str, ToolState] = {"interrupted": "interrupted", "aborted": "aborted", "blocked": "blocked"}


def images_of(content: Any) -> list[Mapping[str, Any]]:
    """Return the images of a message's content."""
    return [] if isinstance(content, str) else [part for part in content or () if is_image(part)]


def image_bytes(images: Sequence[Mapping[str, Any]]) -> int:
    """Return the bytes of all these images."""
    return sum(len(image.get("data") or "") * 3 // 4 for image in images)


def message_of(record: Mapping[str, Any]) -> Mapping[str, Any]:
    model = record.get("model") or ()
    return model[0] if model and isinstance(model[0], Mapping) else {}


class Builder:
    """Makes blocks of entries; knows how tools are summed up and what their replay policy is."""

    def __init__(self, summarize: Summarize | None = None, replay_of: Callable[[str], str] | None = None) -> None:
        self._summarize = summarize
        self._replay_of = replay_of

    def blocks(self, record: Mapping[str, Any]) -> list[Block]:
        """The blocks of one entry. A tool result gives none: it belongs to its call (`fill`)."""
        kind = record.get("kind", "")
        entry, seq = int(record["id"]), record.get("seq")
        message = message_of(record)
        role = message.get("role")
        if kind == "pi.reset":
            parts = [Block((entry, "m"), Marker("reset: the model starts afresh from here"), gap=True)]
        elif kind == "pi.compaction":
            text = content_text(message.get("content", ""))
            reason = (record.get("data") or {}).get("reason", "") if isinstance(record.get("data"), Mapping) else ""
            label = "compacted: what is above is now a summary" + (f" ({reason})" if reason else "")
            parts = [Block((entry, "m"), Marker(label, text), gap=True)]
        elif role == "user":
            parts = self._user(entry, message)
        elif role == "assistant":
            parts = self._assistant(entry, message)
        elif role == "system":
            parts = self._system(entry, message)
        elif role == "toolResult":
            parts = []
        else:
            parts = [Block((entry, "m"), Marker(str(kind) or "entry"), gap=True)]
        for block in parts:
            block.entry, block.seq = entry, seq
        return parts

    def _user(self, entry: int, message: Mapping[str, Any]) -> list[Block]:
        content = message.get("content", "")
        text, images = content_text(content), images_of(content)
        facts = f"{words.plural(len(images), 'image')}, {words.size(image_bytes(images))}" if images else ""
        out = [Block((entry, "h"), Head("user", message.get("timestamp"), facts), gap=True)]
        lines = text.split("\n")
        for start in range(0, len(lines), _SAID_LINES):
            out.append(Block((entry, "s", start), Said("\n".join(lines[start : start + _SAID_LINES]))))
        return out

    def _assistant(self, entry: int, message: Mapping[str, Any]) -> list[Block]:
        out = [Block((entry, "h"), Head("assistant", message.get("timestamp")), gap=True)]
        for index, part in enumerate(message.get("content") or ()):
            out.extend(self.part(entry, index, part))
        stop = message.get("stopReason")
        error = str(message.get("errorMessage") or "")
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

    def part(self, entry: Any, index: int, part: Mapping[str, Any], chunker: Chunker | None = None) -> list[Block]:
        """The blocks of one content block; with a chunker, of one that is still growing."""
        kind = part.get("type")
        if kind == "text":
            text = str(part.get("text", ""))
            if chunker is None:
                return self.prose(entry, index, chunks(text)) if text.strip() else []
            chunker.update(text)
            return self.prose(entry, index, chunker.all())
        if kind == "thinking":
            text = str(part.get("thinking", ""))
            if part.get("redacted") and not text:
                text = "(hidden by the provider)"
            if not text.strip():
                return []
            block = Block((entry, "k", index), Thinking(text, live=chunker is not None))
            block.version = len(text)
            return [block]
        if kind == "toolCall":
            return [Block((entry, "t", index), self.tool(part))]
        return [Block((entry, "p", index), Note("pending", f"a block of kind {kind}"))]

    def prose(self, entry: Any, index: int, parts: Sequence[Chunk]) -> list[Block]:
        out = []
        for number, chunk in enumerate(parts):
            block = Block((entry, "x", index, number), Prose(chunk), gap=chunk.gap)
            block.version = len(chunk.opening) + len(chunk.text)
            out.append(block)
        return out

    def tool(self, part: Mapping[str, Any]) -> Tool:
        name = str(part.get("name", ""))
        arguments = part.get("arguments")
        tool = Tool(str(part.get("id", "")), name, arguments, self.summary(name, arguments))
        tool.replay = self._replay_of(name) if self._replay_of else ""
        return tool

    def summary(self, name: str, arguments: Any) -> str:
        if self._summarize is not None:
            text = self._summarize(name, arguments)
            if text:
                return text
        return words.summary(name, arguments)

    def _system(self, entry: int, message: Mapping[str, Any]) -> list[Block]:
        sections = message.get("sections") or {}
        added = [str(item.get("name", "")) for item in message.get("toolsAdded") or ()]
        removed = [str(item.get("name", "")) for item in message.get("toolsRemoved") or ()]
        shown = [key for key, text in sections.items() if text is not None]
        gone = [key for key, text in sections.items() if text is None]
        facts = [words.plural(len(shown), "section")] if shown else []
        facts += [f"without {', '.join(gone)}"] if gone else []
        facts += [f"{words.plural(len(added), 'tool')}: {', '.join(added)}"] if added else []
        facts += [f"without the tools {', '.join(removed)}"] if removed else []
        body = "\n\n".join(f"[{key}]\n{text}" for key, text in sections.items() if text)
        content = content_text(message.get("content", ""))
        label = "system prompt" + (" · " + " · ".join(facts) if facts else "")
        return [Block((entry, "m"), Marker(label, body or content), gap=True)]


def fill(tool: Tool, record: Mapping[str, Any]) -> None:
    """Put a result entry into its call's block."""
    message = message_of(record)
    content = message.get("content", "")
    text = content_text(content)
    data = record.get("data")
    diagnostics = list(data.get("diagnostics") or ()) if isinstance(data, Mapping) else []
    codes = {str(item.get("code", "")) for item in diagnostics if isinstance(item, Mapping)}
    state: ToolState = "failed" if message.get("isError") else "done"
    for code, value in _CODES.items():
        if code in codes and message.get("isError"):
            state = value
    harness = _HARNESS.search(text)
    if harness:
        text = text[: harness.start()]
        if not diagnostics:
            diagnostics = [{"severity": "error", "message": harness.group(1).removeprefix("[error] ")}]
    tool.state = state
    tool.result = text
    tool.images = len(images_of(content))
    tool.diagnostics = diagnostics
    tool.result_entry = int(record["id"])
    tool.result_seq = record.get("seq")
    tool.task_id = record.get("byTaskId", tool.task_id)
    tool.duration_ms = message.get("durationMs")
    if message.get("details") is not None:
        tool.details = message["details"]
    if not tool.name:
        tool.name = str(message.get("toolName", ""))
    tool.output = ""


def fill_slot(tool: Tool, slot: Mapping[str, Any]) -> None:
    """Put a live slot into its call's block, unless the result is there."""
    if tool.settled:
        return
    status = slot.get("status")
    tool.task_id = slot.get("taskId", tool.task_id)
    tool.state = "running" if status == "running" else "done" if status == "done" else "pending"
    tool.output = str(slot.get("output") or "")
    tool.dropped_lines = int(slot.get("droppedLines") or 0)
    tool.dropped_bytes = int(slot.get("droppedBytes") or 0)
    tool.details = slot.get("details", tool.details)
    tool.diagnostics = list(slot.get("diagnostics") or ())
    tool.verdict = str(slot.get("recovered") or tool.verdict)
