"""The events of a headless run as plain JSON objects, one shape a type (spec 17.6)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Literal, NotRequired, TypeAlias, TypedDict

if TYPE_CHECKING:
    from durable_tui.agent.shapes import (
        AgentChoices,
        Diagnostic,
        Inbox,
        LiveCompaction,
        LiveGeneration,
        QueuedItem,
        Run,
        Slot,
    )
    from durable_tui.delta import Json, JsonObject, Op
    from durable_tui.engine.shapes import FoundTask, Recovery, Verdict
    from durable_tui.models.messages import PartialMessage, Usage, UsageTable
    from durable_tui.storage.records import SubmissionRecord
    from durable_tui.views.shapes import ShownEntry


class _Event(TypedDict):
    seq: int


class Snapshot(_Event):
    """All there is, at the start and whenever a consumer fell behind."""

    type: Literal["snapshot"]
    entries: Sequence[ShownEntry]
    run: NotRequired[Run]
    generation: NotRequired[LiveGeneration]
    tools: Sequence[Slot]
    compactions: Sequence[LiveCompaction]
    inbox: Inbox
    agent: AgentChoices
    usage: UsageTable
    recovery: Recovery
    first: bool


class RunEvent(_Event):
    type: Literal["run_start", "run_end"]
    inputs: list[int]


class TurnEvent(_Event):
    type: Literal["turn_start", "turn_end"]


class EntryAppended(_Event):
    type: Literal["entry_appended"]
    entry: ShownEntry


class MessageStart(_Event):
    type: Literal["message_start"]
    message: PartialMessage


class MessageUpdate(_Event):
    """`changes` are ops on the message, `usage` the new one when it moved."""

    type: Literal["message_update"]
    changes: list[Op]
    usage: NotRequired[Usage | None]


class MessageEnd(_Event):
    type: Literal["message_end"]
    entry: NotRequired[ShownEntry]


class RetryStart(_Event):
    type: Literal["auto_retry_start"]
    attempt: int | None
    at: int | None
    errorMessage: str | None


class RetryEnd(_Event):
    type: Literal["auto_retry_end"]


class DeferredPoll(_Event):
    type: Literal["deferred_poll"]
    pollAt: int | None


class TextChange(TypedDict, total=False):
    """How a bounded tail moved: UTF-16 units cut from its front, then text appended; or all of it anew."""

    trimStart: int
    append: str
    set: str


class ToolStart(_Event):
    type: Literal["tool_execution_start"]
    toolCallId: str
    toolName: str
    args: JsonObject


class ToolUpdate(_Event):
    type: Literal["tool_execution_update"]
    toolCallId: str
    toolName: str
    output: NotRequired[TextChange]
    details: NotRequired[Json]
    diagnostics: NotRequired[list[Diagnostic]]


class ToolEnd(_Event):
    type: Literal["tool_execution_end"]
    toolCallId: str
    toolName: str
    entry: NotRequired[int]
    recovered: NotRequired[Verdict]


class SubmissionStatus(TypedDict):
    """As much of a submission as a view knows; `with_records` puts the record in its place."""

    id: int
    status: Literal["queued", "placed", "settled"]


class SubmissionEvent(_Event):
    type: Literal["submission"]
    record: SubmissionStatus | SubmissionRecord


class InboxUpdate(_Event):
    type: Literal["inbox_update"]
    items: Sequence[QueuedItem]


class AgentChanged(_Event):
    type: Literal["agent_changed"]
    agent: AgentChoices


class UsageChanged(_Event):
    type: Literal["usage_changed"]
    usage: UsageTable


class CompactionStart(_Event):
    type: Literal["compaction_start"]
    taskId: int
    reason: str
    blocking: bool


class CompactionEnd(_Event):
    type: Literal["compaction_end"]
    taskId: int
    reason: str


class RecoveryEvent(_Event):
    type: Literal["recovery"]
    task: FoundTask


class TaskFailed(_Event):
    type: Literal["task_failed"]
    taskId: int
    kind: str
    message: str


class Parked(_Event):
    type: Literal["parked"]
    taskId: int
    reason: str


Event: TypeAlias = (
    Snapshot
    | RunEvent
    | TurnEvent
    | EntryAppended
    | MessageStart
    | MessageUpdate
    | MessageEnd
    | RetryStart
    | RetryEnd
    | DeferredPoll
    | ToolStart
    | ToolUpdate
    | ToolEnd
    | SubmissionEvent
    | InboxUpdate
    | AgentChanged
    | UsageChanged
    | CompactionStart
    | CompactionEnd
    | RecoveryEvent
    | TaskFailed
    | Parked
)
