"""Transcript blocks: what the adapter makes of entries, the smallest unit that is laid out, cached and folded."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

from durable_tui.ui.adapter.chunks import Chunk

if TYPE_CHECKING:
    from durable_tui.agent.shapes import Diagnostic
    from durable_tui.delta import Json
    from durable_tui.engine.shapes import Death, FoundTask

Key = tuple[str | int, ...]
ToolState = Literal[
    "writing", "pending", "running", "unfinished", "done", "failed", "interrupted", "aborted", "blocked"
]


@dataclass(slots=True)
class Head:
    """The line naming a speaker. `facts` stand behind the time, faint."""

    role: Literal["user", "assistant"]
    at: int | None = None
    facts: str = ""


@dataclass(slots=True)
class Said:
    """Text of a person: plain, with a bar at its left."""

    text: str


@dataclass(slots=True)
class Prose:
    """A chunk of the assistant's Markdown; `live` shows where more will come."""

    chunk: Chunk
    live: bool = False


@dataclass(slots=True)
class Thinking:
    text: str
    live: bool = False
    folded: bool = True


@dataclass(slots=True)
class Tool:
    """A tool call with all that is known of it: arguments, live slot, result entry, recovery."""

    call_id: str
    name: str
    arguments: Json = None
    summary: str = ""
    state: ToolState = "pending"
    task_id: int | None = None
    started_at: int | None = None
    output: str = ""
    dropped_lines: int = 0
    dropped_bytes: int = 0
    details: Json = None
    diagnostics: list[Diagnostic] = field(default_factory=list)
    result: str = ""
    images: int = 0
    result_entry: int | None = None
    result_seq: int | None = None
    duration_ms: int | None = None
    recovered: tuple[FoundTask, Death] | None = None  # what dt.recovery has of it
    verdict: str = ""
    died_at: int | None = None
    occasion: str = "a crash"  # what it was recovered from
    replay: str = ""
    folded: bool = True

    @property
    def settled(self) -> bool:
        return self.result_entry is not None

    @property
    def diff(self) -> str:
        details = self.details
        if isinstance(details, Mapping) and isinstance(details.get("diff"), str):
            return str(details["diff"])
        return ""


@dataclass(slots=True)
class Note:
    """A sentence about what happened. `tone` is a token: dim, attention, failed."""

    glyph: str
    text: str
    tone: str = "dim"


@dataclass(slots=True)
class Marker:
    """A divider in the transcript: system prompt, reset, compaction, an entry of another kind."""

    text: str
    body: str = ""
    folded: bool = True


Data = Head | Said | Prose | Thinking | Tool | Note | Marker


@dataclass(slots=True)
class Block:
    """`key` is stable over the life of the transcript; `version` grows when what is shown changes."""

    key: Key
    data: Data
    entry: int | None = None
    seq: int | None = None
    gap: bool = False
    version: int = 0

    @property
    def foldable(self) -> bool:
        return isinstance(self.data, Tool | Thinking) or (isinstance(self.data, Marker) and bool(self.data.body))

    def changed(self) -> None:
        self.version += 1


def source_text(blocks: list[Block]) -> str:
    """What copying these blocks gives: the text as it was written, without decoration."""
    parts: list[str] = []
    for block in blocks:
        data = block.data
        if isinstance(data, Prose):
            if data.chunk.continues and parts:
                parts[-1] += data.chunk.text
            else:
                parts.append(data.chunk.text.rstrip("\n"))
        elif isinstance(data, Said | Thinking | Note):
            parts.append(data.text)
        elif isinstance(data, Tool):
            parts.append(" ".join(filter(None, (data.name, data.summary))))
            body = data.diff or data.result or data.output
            if body:
                parts.append(body)
        elif isinstance(data, Marker) and data.body:
            parts.append(data.body)
    return "\n".join(parts)
