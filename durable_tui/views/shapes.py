"""The views front ends are given, as plain JSON objects: one shape for an owner and for a reader (spec 13)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Literal, NotRequired, TypedDict, cast

from durable_tui.storage.records import EntryRecord, StoredEntry

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
        UsageTable,
    )
    from durable_tui.engine.shapes import Recovery, Verdict


class ShownEntry(EntryRecord):
    """An entry and the commit that wrote it."""

    seq: int


def shown(stored: StoredEntry) -> ShownEntry:
    """An entry as a view has it."""
    return cast(ShownEntry, {**stored.record, "seq": stored.seq})


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
    """One task as people see it: what it does, where it stands, what it waits for, why it is blocked.

    `doing` and `recovered` are known to the session's owner only.
    """

    id: int
    conversationId: int
    kind: str
    background: bool
    status: Literal["pending", "running", "waiting", "completing", "terminal"]
    abortRequested: bool
    doing: NotRequired[str]
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


class TasksView(TypedDict):
    """The live tasks and those that ended lately, in id order."""

    tasks: Sequence[TaskRow]
