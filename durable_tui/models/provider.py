"""What the harness asks of a model provider, and what comes back. Providers know nothing of the harness."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal, Protocol, TypedDict, get_args, runtime_checkable

from durable_tui.models.messages import AnswerBlock, AssistantMessage, Message, ToolDescription, Usage

if TYPE_CHECKING:
    from durable_tui.delta import JsonObject

ThinkingLevel = Literal["off", "minimal", "low", "medium", "high", "xhigh"]
THINKING_LEVELS: tuple[ThinkingLevel, ...] = get_args(ThinkingLevel)


class Prices(TypedDict, total=False):
    """USD per million tokens, of the parts that have a price."""

    input: float
    output: float
    cacheRead: float
    cacheWrite: float


class RequestOptions(TypedDict, total=False):
    """What an attempt may ask for beside; a provider leaves out what its protocol does not know.

    `toolChoice` is "auto", "none", "required" or a tool's name.
    """

    maxTokens: int
    temperature: float
    topP: float
    seed: int
    stop: list[str]
    toolChoice: str


@dataclass(slots=True, frozen=True)
class PriceRule:
    """Prices of whole requests that differ: with a prompt of `tokens` or more, or made in `hours` when these are given.

    One of `hours` is the first and last day of the week (Monday is 1) and the minutes of the day from and to, in UTC.
    """

    prices: Prices
    tokens: int = 0
    hours: tuple[tuple[int, int, int, int], ...] = ()


@dataclass(slots=True, frozen=True)
class Model:
    """A model as chosen: `provider/model_id`, with what is known of it (None = unknown).

    Of `other_prices` the last that applies takes the place of `prices`. `images`, `reasoning` and `tools` say what it can
    do; None is unknown and treated as able.
    """

    provider: str
    model_id: str
    api: str
    context_window: int | None = None
    max_output: int | None = None
    prices: Prices | None = None
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
    messages: Sequence[Message]
    tools: Sequence[ToolDescription] = field(default_factory=list)
    thinking_level: ThinkingLevel = "off"
    session_id: str = ""
    options: RequestOptions = field(default_factory=RequestOptions)
    key: str = ""


@dataclass(slots=True, frozen=True)
class BlockStart:
    """A content block begins at `index` (0, 1, …): an empty text, thinking or toolCall block, shaped as in spec 17.3."""

    index: int
    block: AnswerBlock


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

    handle: JsonObject
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
        usage: Usage | None = None,
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

    def poll(self, request: ModelRequest, handle: JsonObject) -> AsyncIterator[StreamEvent]: ...

    async def cancel(self, handle: JsonObject) -> None: ...
