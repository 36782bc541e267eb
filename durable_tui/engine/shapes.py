"""What the engine stores about deaths and decisions, as JSON objects (spec 15, 17.4)."""

from __future__ import annotations

from typing import Literal, NotRequired, TypeAlias, TypedDict

from durable_tui.storage.ends import LauncherEnd

Verdict = Literal[
    "restarted",
    "rerun",
    "verified",
    "reattached",
    "interrupted",
    "resent",
    "resumed",
    "woken",
    "blocked",
    "gaveUp",
    "aborted",
]


class FoundTask(TypedDict):
    """A task as a death left it, and what was decided about it: `seq` and `at` are those of the deciding commit.

    `deciding` stands until the result's commit, where that is the truth about it (spec 15).
    """

    taskId: int
    conversationId: int
    kind: str
    phase: str
    doing: str
    deciding: NotRequired[Verdict]
    verdict: NotRequired[Verdict]
    rule: NotRequired[str]
    seq: NotRequired[int]
    at: NotRequired[int]
    entry: NotRequired[int]
    detail: NotRequired[str]


class QueuedAtDeath(TypedDict):
    """An item that was queued at a death; `text` is its beginning."""

    id: int
    mode: str
    parked: NotRequired[bool]
    text: str


class BootEnd(TypedDict):
    """The host of the opening began another boot."""

    by: Literal["boot"]


End: TypeAlias = LauncherEnd | BootEnd
"""How the process of an opening that died ended, as far as that is known."""


class Death(TypedDict):
    """An opening that left work unfinished: it died, as the next one found it, or its close ended work with an effect.

    Times in milliseconds. `ended` is absent in rows from before it was kept: all of deaths. The row of a close has the
    tasks it ended, and `foundBy` is its own epoch until the next opening takes it over. `intents` are the tasks whose
    effect may have happened; of the `queue`, `moreQueued` items are left out.
    """

    epoch: int
    ended: NotRequired[Literal["died", "closed"]]
    pid: int
    host: str
    openedAt: int
    lastSeq: int
    lastAt: int
    foundBy: int
    foundAt: int
    tasks: list[FoundTask]
    intents: NotRequired[list[int]]
    queue: NotRequired[list[QueuedAtDeath]]
    moreQueued: NotRequired[int]
    end: NotRequired[End]


class Recovery(TypedDict):
    """`dt.recovery`: the newest hundred rows, oldest first."""

    deaths: list[Death]
