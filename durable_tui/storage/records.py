"""The stored records as plain JSON objects, named as in spec 17.2. Treat every one as immutable: build anew, never edit."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal, NotRequired, TypeAlias, TypedDict, final

if TYPE_CHECKING:
    from collections.abc import Sequence

    from durable_tui.delta import Json, JsonObject, Op
    from durable_tui.storage.messages import Message

TaskStatus = Literal["pending", "running", "waiting", "completing", "terminal"]
Liveness: TypeAlias = Literal["dead", "alive", "unknown"]  # of a process, as far as it can be proved (spec 4.2)
RevisionKind: TypeAlias = Literal["base", "delta"]
SubmissionStatus = Literal["queued", "placed", "done", "unanswered"]


ROOT = 1
"""The id of every session's first conversation (spec 2)."""


class ParentRef(TypedDict):
    conversationId: int
    at: int


class OwnerRef(TypedDict):
    conversationId: int
    taskId: int


class ConversationRecord(TypedDict):
    id: int
    parent: NotRequired[ParentRef]
    owner: NotRequired[OwnerRef]


class Omission(TypedDict):
    """An edit that leaves an earlier entry out of the model's context."""

    target: int
    action: Literal["omit"]


class Replacement(TypedDict):
    """An edit that puts other messages in the place of an earlier entry's."""

    target: int
    action: Literal["replace"]
    messages: list[Message]


EntryEdit = Omission | Replacement


class EntryRecord(TypedDict):
    """`model` are the messages the model sees of it, `data` what belongs to its kind (spec 17.2, 17.3)."""

    id: int
    conversationId: int
    kind: str
    model: NotRequired[list[Message]]
    data: NotRequired[Json]
    head: NotRequired[int]
    edits: NotRequired[list[EntryEdit]]
    byTaskId: NotRequired[int]


class SubmissionRecord(TypedDict):
    id: int
    conversationId: int
    type: Literal["input", "write"]
    status: SubmissionStatus
    requestId: NotRequired[str]
    entry: NotRequired[int]
    answer: NotRequired[int]
    reason: NotRequired[str]
    detail: NotRequired[str]


@final
class TimeGate(TypedDict):
    """A wait for a time; `since` is when it began. Both in milliseconds."""

    reason: str
    time: int
    since: int


@final
class SubmissionGate(TypedDict):
    """A wait until the submission of that id is settled."""

    reason: str
    submission: int


@final
class AskGate(TypedDict):
    """A wait for the answer to the ask of that id."""

    reason: str
    ask: str


@final
class PersonGate(TypedDict):
    """A wait until a person lets the task go on."""

    reason: str
    person: Literal[True]


Gate = TimeGate | SubmissionGate | AskGate | PersonGate  # what a pending task waits for that is no task (spec 6.12)


class LiveState(TypedDict):
    """A task that may run or runs; `checkpoint` is `{phase, …}` of its kind, `gate` what a pending one waits for."""

    status: Literal["pending", "running"]
    checkpoint: JsonObject
    gate: NotRequired[Gate]


class WaitingState(TypedDict):
    status: Literal["waiting"]
    checkpoint: JsonObject
    on: list[int]
    policy: Literal["allSettled", "failFast"]


class TaskError(TypedDict):
    message: str
    detail: NotRequired[Json]


class Completed(TypedDict):
    status: Literal["completed"]
    result: Json


class Failed(TypedDict):
    status: Literal["failed"]
    error: TaskError
    result: NotRequired[Json]


class Aborted(TypedDict):
    status: Literal["aborted"]
    reason: NotRequired[str]
    result: NotRequired[Json]


class Orphaned(TypedDict):
    status: Literal["orphaned"]
    reason: str


class Faulted(TypedDict):
    status: Literal["faulted"]
    error: str


Outcome = Completed | Failed | Aborted | Orphaned | Faulted


class EndedState(TypedDict):
    """An outcome that is fixed, held while owned work lives (`completing`) or final (`terminal`)."""

    status: Literal["completing", "terminal"]
    outcome: Outcome


TaskState = LiveState | WaitingState | EndedState


class StoredDecision(TypedDict):
    """What was decided about a task that a death left behind; it counts in its own epoch only (spec 15)."""

    epoch: int
    verdict: str
    rule: str
    detail: NotRequired[str]


class TaskRecord(TypedDict):
    id: int
    conversationId: int
    kind: str
    version: int
    input: Json
    owner: NotRequired[int]
    background: bool
    abortRequested: bool
    restarts: NotRequired[int]
    recovery: NotRequired[StoredDecision]
    startedAt: NotRequired[int]
    endedAt: NotRequired[int]
    memos: NotRequired[dict[str, Json]]
    state: TaskState


class Scope(TypedDict):
    kind: Literal["session", "conversation", "task"]
    conversationId: NotRequired[int]
    taskId: NotRequired[int]


class DocumentRecord(TypedDict):
    id: int
    kind: str
    key: NotRequired[str]
    scope: Scope
    history: NotRequired[str]
    fork: NotRequired[str]
    createdAt: int
    retiredAt: NotRequired[int]


Record = ConversationRecord | EntryRecord | SubmissionRecord | TaskRecord | DocumentRecord


def scope_owner(scope: Scope) -> int:
    """The id a scope belongs to; 0 for the session."""
    return scope.get("conversationId") or scope.get("taskId") or 0


@dataclass(slots=True, frozen=True)
class Revision:
    """A change of a document to be stored: a base holds the value, a delta the list of ops (spec 5).

    A base of a document that keeps no history may drop the revisions before itself (`drop_before="this"`), or only
    those before the base that precedes it (`"previous"`).
    """

    document_id: int
    kind: RevisionKind
    version: int
    content: Json
    drop_before: Literal["this", "previous"] | None = None


@dataclass(slots=True, frozen=True)
class StoredRevision:
    """A change of a document as it was stored: by commit `seq`, at `at` milliseconds."""

    seq: int
    at: int
    kind: RevisionKind
    version: int
    content: Json


@dataclass(slots=True, frozen=True)
class FlightRow:
    """A revision as the flight recorder keeps it: the document's, at the death of the opening `epoch` (spec 5.7)."""

    epoch: int
    document_id: int
    seq: int
    at: int
    kind: RevisionKind
    content: Json


@dataclass(slots=True)
class Batch:
    """What one commit writes, in the order of creation. Records are whole: a known id is replaced.

    With `keep_flights` the recordings in `flight` of all but so many of the newest epochs are dropped, counted with
    those of this batch.
    """

    seq: int
    at: int
    flush: bool = True
    conversations: list[ConversationRecord] = field(default_factory=list)
    entries: list[EntryRecord] = field(default_factory=list)
    submissions: list[SubmissionRecord] = field(default_factory=list)
    tasks: list[TaskRecord] = field(default_factory=list)
    documents: list[DocumentRecord] = field(default_factory=list)
    revisions: list[Revision] = field(default_factory=list)
    flight: list[FlightRow] = field(default_factory=list)
    keep_flights: int | None = None

    def __bool__(self) -> bool:
        return bool(
            self.conversations
            or self.entries
            or self.submissions
            or self.tasks
            or self.documents
            or self.revisions
            or self.flight
            or self.keep_flights is not None
        )


@dataclass(slots=True, frozen=True)
class StoredEntry:
    """An entry and the commit that wrote it."""

    record: EntryRecord
    seq: int


@dataclass(slots=True, frozen=True)
class StoredDocument:
    """A live document and its value: the newest base, and the deltas after it in order."""

    record: DocumentRecord
    version: int
    base: Json
    deltas: tuple[Sequence[Op], ...]


@dataclass(slots=True, frozen=True)
class CommitRow:
    seq: int
    at: int
    epoch: int


@dataclass(slots=True, frozen=True)
class OwnerRow:
    """One opening of the store. Times in milliseconds; `closed_at` is None when it did not end in order."""

    epoch: int
    pid: int
    host: str
    boot_id: str
    process_started_at: int
    opened_at: int
    closed_at: int | None = None
