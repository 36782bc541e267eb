"""The turns of a script, as the scripted provider plays them and files hold them (spec 20)."""

from __future__ import annotations

from typing import TYPE_CHECKING, NotRequired, TypedDict

if TYPE_CHECKING:
    from durable_tui.delta import JsonObject
    from durable_tui.models.provider import ErrorKind


class ScriptedCall(TypedDict):
    name: str
    args: NotRequired[JsonObject]


class ScriptedError(TypedDict, total=False):
    message: str
    kind: ErrorKind
    status: int
    retry_after: float


class ScriptedDefer(TypedDict, total=False):
    polls: int
    after: float


class Turn(TypedDict, total=False):
    """One answer of a script; `scripted` says what each key means."""

    text: str
    thinking: str
    calls: list[ScriptedCall]
    delay: float
    error: str | ScriptedError
    defer: ScriptedDefer
