"""What the engine stores about deaths and decisions, as JSON objects (spec 15, 17.4)."""

from __future__ import annotations

from typing import Literal, NotRequired, TypedDict

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


class Death(TypedDict):
    """An opening that did not end in order, as the next one found it. Times in milliseconds."""

    epoch: int
    pid: int
    host: str
    openedAt: int
    lastSeq: int
    lastAt: int
    foundBy: int
    foundAt: int
    tasks: list[FoundTask]


class Recovery(TypedDict):
    """`dt.recovery`: the newest hundred deaths, oldest first."""

    deaths: list[Death]
