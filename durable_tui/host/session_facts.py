"""What a listing keeps of a session file, as `host/reading.py` reads it and the index remembers it (spec 17.7)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, NotRequired, TypedDict, final

if TYPE_CHECKING:
    from durable_tui.models.messages import Usage


class Opening(TypedDict):
    """The newest owner of a session that did not close in order. Times in milliseconds."""

    epoch: int
    pid: int
    host: str
    bootId: str
    startedAt: int
    openedAt: int


class LiveOwner(TypedDict):
    """The process that owns a session now; `startedAt` is its own start in milliseconds."""

    pid: int
    host: str
    startedAt: int


@final
class Facts(TypedDict):
    """What is known without knowing who lives; `newer` says why it is only read, never owned."""

    cwd: str
    createdAt: int
    updatedAt: int
    unfinished: int
    queued: int
    title: NotRequired[str]
    model: NotRequired[str]
    usage: NotRequired[Usage]
    opening: NotRequired[Opening]
    newer: NotRequired[str]


@final
class Unreadable(TypedDict):
    """A file that cannot be read, and why."""

    problem: Literal["damaged", "newer"]
    message: str
