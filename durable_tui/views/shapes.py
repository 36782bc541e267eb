"""The views front ends are given, as plain JSON objects: one shape for an owner and for a reader (spec 13)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Literal, NotRequired, TypedDict

from durable_tui.storage.records import EntryRecord

if TYPE_CHECKING:
    from durable_tui.agent.shapes import (
        AgentChoices,
        Draft,
        Inbox,
        LiveCompaction,
        LiveGeneration,
        Run,
        SessionFacts,
        Slot,
    )
    from durable_tui.engine.shapes import Recovery, Verdict
    from durable_tui.models.messages import UsageTable


class ShownEntry(EntryRecord):
    """An entry and the commit that wrote it."""

    seq: int


class ContextSize(TypedDict):
    """How full the model's window is, in tokens; `window` is None when it is not known."""

    tokens: int
    window: int | None


class ConversationView(TypedDict):
    """One conversation as a watch shows it. `first` says that `entries` begins with its very first entry."""

    entries: Sequence[ShownEntry]
    first: bool
    run: NotRequired[Run]
    generation: NotRequired[LiveGeneration]
    tools: Sequence[Slot]
    compactions: Sequence[LiveCompaction]
    inbox: Inbox
    agent: AgentChoices
    usage: UsageTable
    draft: Draft
    recovery: Recovery
    session: SessionFacts
    context: NotRequired[ContextSize]


class TaskRow(TypedDict):
    """One task as people see it: what it does, where it stands, what it waits for, why it is blocked."""

    id: int
    conversationId: int
    kind: str
    background: bool
    status: Literal["pending", "running", "waiting", "completing", "terminal"]
    abortRequested: bool
    doing: str
    owner: NotRequired[int]
    restarts: NotRequired[int]
    startedAt: NotRequired[int]
    endedAt: NotRequired[int]
    phase: NotRequired[str]
    provider: NotRequired[str]
    waitingOn: NotRequired[list[int]]
    outcome: NotRequired[str]
    blocked: NotRequired[str]
    recovered: NotRequired[Verdict]


class TaskReport(TypedDict):
    """A task in the terms of a recovery row (spec 17.4), with its status and outcome; what is not so is left out.

    `doing` is told of live tasks and of those that a death left behind.
    """

    taskId: int
    conversationId: int
    kind: str
    status: Literal["pending", "running", "waiting", "completing", "terminal"]
    phase: NotRequired[str]
    waitingOn: NotRequired[list[int]]
    outcome: NotRequired[str]
    detail: NotRequired[str]
    background: NotRequired[bool]
    abortRequested: NotRequired[bool]
    restarts: NotRequired[int]
    startedAt: NotRequired[int]
    endedAt: NotRequired[int]
    owner: NotRequired[int]
    provider: NotRequired[str]
    blocked: NotRequired[str]
    doing: NotRequired[str]
    verdict: NotRequired[Verdict]
    rule: NotRequired[str]
    seq: NotRequired[int]
    at: NotRequired[int]


class TasksView(TypedDict):
    """The live tasks and those that ended lately, in id order."""

    tasks: Sequence[TaskRow]


class SessionView(ConversationView):
    """All that is watched of a session with one of its conversations: `watch()` shows this (spec 13)."""

    tasks: Sequence[TaskRow]


class Position(TypedDict):
    """Where a copy of a watched view stands, to go on from there: the commit of its last frame, and that one's time.

    `oldest` is the id of the first entry it holds; absent, it holds all of them up to that commit.
    """

    seq: int
    at: int
    oldest: NotRequired[int]
