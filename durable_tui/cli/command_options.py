"""What each command was asked for: what its command line is read into."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from durable_tui.models.provider import ThinkingLevel


class CommandOptions:
    """What every command takes."""

    directory: str | None
    model: str | None
    version: bool


class ScreenCommand(CommandOptions):
    prompt: list[str]
    new: bool
    session: str | None
    paused: bool
    thinking: ThinkingLevel | None


class RunCommand(CommandOptions):
    """`newest` is `--continue`."""

    prompt: list[str]
    session: str | None
    newest: bool
    request_id: str | None
    images: list[str]
    thinking: ThinkingLevel | None
    timeout: float | None
    json: bool


class ResumeCommand(CommandOptions):
    sessions: list[str]
    all: bool
    retry: bool
    timeout: float | None
    json: bool


class SessionsCommand(CommandOptions):
    all: bool
    json: bool


class ShowCommand(CommandOptions):
    session: str
    json: bool
    export: str | None


class DemoCommand(CommandOptions):
    keep: bool


class DoctorCommand(CommandOptions):
    ask: bool
