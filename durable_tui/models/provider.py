"""What the harness asks of a model provider, and what comes back. Providers know nothing of the harness."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol, get_args, runtime_checkable

from durable_tui.models.messages import AssistantMessage

ThinkingLevel = Literal["off", "minimal", "low", "medium", "high", "xhigh"]
THINKING_LEVELS: tuple[ThinkingLevel, ...] = get_args(ThinkingLevel)


@dataclass(slots=True, frozen=True)
class PriceRule:
    """Prices of whole requests that differ: with a prompt of `tokens` or more, or made in `hours` when these are given.

    One of `hours` is the first and last day of the week (Monday is 1) and the minutes of the day from and to, in UTC.
    """

    prices: dict[str, float]
    tokens: int = 0
    hours: tuple[tuple[int, int, int, int], ...] = ()


@dataclass(slots=True, frozen=True)
class Model:
    """A model as chosen: `provider/model_id`, with what is known of it (None = unknown).

    `prices` are USD per million tokens: input, output, cacheRead, cacheWrite; of `other_prices` the last that applies
    takes their place. `images`, `reasoning` and `tools` say what it can do; None is unknown and treated as able.
    """

    provider: str
    model_id: str
    api: str
    context_window: int | None = None
    max_output: int | None = None
    prices: dict[str, float] | None = None
    images: bool | None = None
    reasoning: bool | None = None
    tools: bool | None = None
    other_prices: tuple[PriceRule, ...] = ()

    @property
    def name(self) -> str:
        return f"{self.provider}/{self.model_id}"


@dataclass(slots=True, frozen=True)
class ModelRequest:
    """One attempt. `messages` are neutral (spec 17.3) without system ones; `tools` are `{name, description, parameters}`.

    `key` is the same for every sending of the same attempt, also after a crash: the idempotency key where one is taken.
    """

    model: Model
    system: str
    messages: list[dict[str, Any]]
    tools: list[dict[str, Any]] = field(default_factory=list)
    thinking_level: ThinkingLevel = "off"
    session_id: str = ""
    options: dict[str, Any] = field(default_factory=dict)
    key: str = ""


@dataclass(slots=True, frozen=True)
class BlockStart:
    """A content block begins at `index` (0, 1, …): an empty text, thinking or toolCall block, shaped as in spec 17.3."""

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


@dataclass(slots=True, frozen=True)
class Deferred:
    """The terminal event of an answer that is made in the background: ask for it again by `handle` (spec 9, `poll`).

    `handle` is plain JSON, all that `poll` and `cancel` need beside the model; it is committed before the first poll.
    `after` is the wait in seconds before the next poll.
    """

    handle: dict[str, Any]
    after: float


StreamEvent = BlockStart | BlockDelta | Finished | Deferred

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


TOO_LONG = "choose a model with a larger context window or begin a new session"  # what to do about an overflow


class ModelError(Exception):
    """An attempt failed. `kind` decides what follows; `retry_after` is in seconds as the server gave it.

    The message is fit for a person and holds no secret. `usage` is what the attempt is known to have cost. `polled` says
    that only a question for a deferred answer failed; the answer itself may still come.
    """

    def __init__(
        self,
        message: str,
        kind: ErrorKind,
        *,
        status: int | None = None,
        retry_after: float | None = None,
        usage: dict[str, Any] | None = None,
        polled: bool = False,
    ) -> None:
        super().__init__(message)
        self.kind = kind
        self.status = status
        self.retry_after = retry_after
        self.usage = usage
        self.polled = polled

    @property
    def retryable(self) -> bool:
        return self.kind in RETRYABLE


class Provider(Protocol):
    """One configured endpoint. `stream` yields starts and deltas, then Finished or Deferred; failures raise ModelError.

    A provider that defers has two methods more (see BackgroundProvider).
    """

    name: str
    api: str

    def stream(self, request: ModelRequest) -> AsyncIterator[StreamEvent]: ...

    async def close(self) -> None: ...


@runtime_checkable
class BackgroundProvider(Provider, Protocol):
    """A provider whose answers can be made in the background.

    `poll` asks once and changes nothing there: Deferred while the answer is not ready, else its events and Finished. A
    retryable ModelError whose `polled` is true says nothing about the answer: ask again. `cancel` ends the answer at
    the provider and may be repeated; it raises ModelError.
    """

    def poll(self, request: ModelRequest, handle: dict[str, Any]) -> AsyncIterator[StreamEvent]: ...

    async def cancel(self, handle: dict[str, Any]) -> None: ...
