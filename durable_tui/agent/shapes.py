"""The documents and checkpoints of conversations as stored JSON objects (spec 17.4, 17.5).

Every value read from the store is immutable. Inside a commit the same shapes are drafts, which record what is changed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, NotRequired, TypedDict

if TYPE_CHECKING:
    from durable_tui.delta import Json, JsonObject
    from durable_tui.engine.shapes import Verdict
    from durable_tui.models.messages import Message, PartialMessage, UserBlock
    from durable_tui.models.provider import ThinkingLevel
    from durable_tui.storage.records import EntryEdit


class ModelChoice(TypedDict):
    provider: str
    modelId: str


class ExtensionEdit(TypedDict):
    """A choice of extensions as a change of what the host installed."""

    add: NotRequired[list[str]]
    remove: NotRequired[list[str]]


class ToolEdit(TypedDict):
    remove: list[str]


class AgentChoices(TypedDict):
    """`pi.agent`: choices by name; what is absent follows the host (spec 12)."""

    model: NotRequired[ModelChoice]
    thinkingLevel: NotRequired[ThinkingLevel]
    extensions: NotRequired[list[str] | ExtensionEdit]
    tools: NotRequired[list[str] | ToolEdit]
    instructions: NotRequired[str]
    cwd: NotRequired[str]


class ProviderIdentity(TypedDict):
    """`pi.provider`: the id a provider knows the conversation by."""

    sessionId: NotRequired[str]


# -- pi.live ---------------------------------------------------------------------------------------------------------


class Run(TypedDict):
    taskId: int
    inputs: list[int]


class LiveRetry(TypedDict):
    at: int
    error: str


class LiveDeferred(TypedDict):
    pollAt: int


class LiveGeneration(TypedDict):
    """The answer that is being made; `message` is its partial text so far."""

    attempt: int
    message: NotRequired[PartialMessage]
    retry: NotRequired[LiveRetry]
    deferred: NotRequired[LiveDeferred]


class Diagnostic(TypedDict):
    severity: Literal["info", "warn", "error"]
    message: str
    code: NotRequired[str]


class ResultData(TypedDict):
    """The `data` of a `pi.tool-result` entry."""

    diagnostics: NotRequired[list[Diagnostic]]


class Slot(TypedDict):
    """A tool call of the running round."""

    callId: str
    name: str
    taskId: NotRequired[int]
    status: Literal["pending", "running", "done"]
    output: NotRequired[str]
    droppedBytes: NotRequired[int]
    droppedLines: NotRequired[int]
    details: NotRequired[Json]
    diagnostics: NotRequired[list[Diagnostic]]
    entry: NotRequired[int]
    waitingFor: NotRequired[Literal["approval"]]
    recovered: NotRequired[Verdict]


class LiveCompaction(TypedDict):
    taskId: int
    reason: Literal["manual", "threshold", "overflow"]
    blocking: bool
    attempt: int
    retry: NotRequired[LiveRetry]


class Live(TypedDict):
    """`pi.live`: what a conversation is at; empty when nothing runs."""

    run: NotRequired[Run]
    generation: NotRequired[LiveGeneration]
    tools: NotRequired[list[Slot]]
    compactions: NotRequired[list[LiveCompaction]]


# -- pi.inbox --------------------------------------------------------------------------------------------------------


class QueuedEntry(TypedDict):
    """The entry a queued write will append."""

    kind: str
    model: NotRequired[list[Message]]
    data: NotRequired[Json]
    head: NotRequired[int | Literal["self"]]
    edits: NotRequired[list[EntryEdit]]


class QueuedInput(TypedDict):
    id: int
    mode: Literal["steer", "followUp"]
    content: str | list[UserBlock]
    parked: NotRequired[bool]
    afterStop: NotRequired[bool]


class QueuedWrite(TypedDict):
    id: int
    mode: Literal["write"]
    entry: QueuedEntry


QueuedItem = QueuedInput | QueuedWrite


class Inbox(TypedDict):
    """`pi.inbox`: what waits for a boundary, in order."""

    items: list[QueuedItem]


class Draft(TypedDict):
    """`dt.draft`: the composer's text."""

    text: str


class SessionFacts(TypedDict):
    """`dt.session`."""

    title: NotRequired[str]
    cwd: str
    createdAt: int


class Answer(TypedDict):
    """What was decided, in a word of whoever asked, and when, in milliseconds."""

    decision: str
    at: int


class Ask(TypedDict):
    """A question of a task, and its answer once there is one."""

    askId: str
    conversationId: int
    taskId: int
    at: int
    answer: NotRequired[Answer]


class Asks(TypedDict):
    """`dt.asks`: oldest first."""

    asks: list[Ask]


# -- checkpoints -----------------------------------------------------------------------------------------------------


class Compacted(TypedDict):
    """What every phase of a generation keeps of the phase before."""

    compacted: NotRequired[bool]
    overflow: NotRequired[bool]


class _Attempt(Compacted):
    attempt: int


class Prepare(_Attempt):
    phase: Literal["prepare"]


class Request(_Attempt):
    phase: Literal["request"]
    model: ModelChoice
    thinkingLevel: ThinkingLevel
    streamOptions: JsonObject
    cutoff: int


class Retry(_Attempt):
    phase: Literal["retry"]
    until: int
    since: NotRequired[int]


class Poll(_Attempt):
    phase: Literal["poll"]
    model: ModelChoice
    thinkingLevel: ThinkingLevel
    streamOptions: JsonObject
    cutoff: int
    handle: JsonObject
    pollAt: int
    since: NotRequired[int]
    failures: NotRequired[int]


class ToolRound(TypedDict):
    phase: Literal["tools"]
    assistant: int
    tools: list[int]
    pending: list[str]


AttemptCheckpoint = Prepare | Request | Retry | Poll
GenerationCheckpoint = AttemptCheckpoint | ToolRound


class ToolInput(TypedDict):
    """The input of `pi.tool`: which call of which message."""

    assistant: int
    callId: str


class CallPhase(TypedDict):
    phase: Literal["call"]


class ExecutePhase(TypedDict):
    phase: Literal["execute"]
    arguments: JsonObject
    replay: Literal["safe", "unsafe", "verify"]


ToolCheckpoint = CallPhase | ExecutePhase


class ToolControl(TypedDict):
    terminate: NotRequired[bool]
    handoff: NotRequired[str]
    addTools: NotRequired[list[str]]


class ToolOutcome(TypedDict):
    """The result of `pi.tool`."""

    entryId: int
    control: NotRequired[ToolControl]
