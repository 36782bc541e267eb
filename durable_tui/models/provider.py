"""What the harness asks of a model provider, and what comes back. Providers know nothing of the harness."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol

from durable_tui.models.messages import AssistantMessage

ThinkingLevel = Literal["off", "minimal", "low", "medium", "high", "xhigh"]


@dataclass(slots=True, frozen=True)
class Model:
    """A model as chosen: `provider/model_id`, with what is known of it (None = unknown)."""

    provider: str
    model_id: str
    api: str
    context_window: int | None = None
    max_output: int | None = None
    prices: dict[str, float] | None = None  # USD per million tokens: input, output, cacheRead, cacheWrite

    @property
    def name(self) -> str:
        return f"{self.provider}/{self.model_id}"


@dataclass(slots=True, frozen=True)
class ModelRequest:
    """One attempt. `messages` are neutral (RECORDS 3) without system ones; `tools` are `{name, description, parameters}`."""

    model: Model
    system: str
    messages: list[dict[str, Any]]
    tools: list[dict[str, Any]] = field(default_factory=list)
    thinking_level: ThinkingLevel = "off"
    session_id: str = ""
    options: dict[str, Any] = field(default_factory=dict)


@dataclass(slots=True, frozen=True)
class BlockStart:
    """A content block begins at `index` (0, 1, …): an empty text, thinking or toolCall block, shaped as in RECORDS 3."""

    index: int
    block: dict[str, Any]


@dataclass(slots=True, frozen=True)
class BlockDelta:
    """Text for the block at `index`: to its text or thinking, or the raw JSON of a tool call's arguments."""

    index: int
    text: str


@dataclass(slots=True, frozen=True)
class Finished:
    """The terminal event: the whole message as the provider meant it. A stream without it is a failed attempt."""

    message: AssistantMessage


StreamEvent = BlockStart | BlockDelta | Finished

ErrorKind = Literal[
    "network",
    "rate_limit",
    "overloaded",
    "server",
    "timeout",
    "truncated",
    "malformed",
    "overflow",
    "authentication",
    "quota",
    "refused",
    "bad_request",
    "not_found",
    "configuration",
]
RETRYABLE: frozenset[str] = frozenset(
    {"network", "rate_limit", "overloaded", "server", "timeout", "truncated", "malformed"}
)


class ModelError(Exception):
    """An attempt failed. `kind` decides what follows; `retry_after` is in seconds as the server gave it.

    The message is fit for a person and holds no secret. `usage` is what the attempt is known to have cost.
    """

    def __init__(
        self,
        message: str,
        kind: ErrorKind,
        *,
        status: int | None = None,
        retry_after: float | None = None,
        usage: dict[str, Any] | None = None,
    ) -> None:
        super().__init__(message)
        self.kind = kind
        self.status = status
        self.retry_after = retry_after
        self.usage = usage

    @property
    def retryable(self) -> bool:
        return self.kind in RETRYABLE


class Provider(Protocol):
    """One configured endpoint. `stream` yields starts and deltas, then Finished; failures raise ModelError."""

    name: str
    api: str

    def stream(self, request: ModelRequest) -> AsyncIterator[StreamEvent]: ...

    async def close(self) -> None: ...
