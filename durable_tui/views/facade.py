"""What a front end may ask of a session, by how it holds it: what reads is for every holder, what changes for its owner.

`harness.Harness` and `harness.Conversation` are these façades (spec 19); a session that another process owns has only
the readers, so a type checker refuses whatever would change it.
"""

from __future__ import annotations

from collections.abc import AsyncIterable, Awaitable
from typing import TYPE_CHECKING, Literal, Protocol, TypedDict, TypeVar, Unpack

from durable_tui.session.watch import Frame

if TYPE_CHECKING:
    from durable_tui.agent.shapes import AgentChoices, ExtensionEdit, ModelChoice, ToolEdit
    from durable_tui.models.messages import Usage, UserBlock
    from durable_tui.models.provider import ThinkingLevel
    from durable_tui.storage.records import StoredEntry
    from durable_tui.views.shapes import Position, SessionView

WhenBusy = Literal["follow_up", "steer", "reject"]
V_co = TypeVar("V_co", covariant=True)


class AgentChanges(TypedDict, total=False):
    """Choices of an agent to change, by their stored names (spec 17.4); None unsets one, a model may be a name."""

    model: str | ModelChoice | None
    thinkingLevel: ThinkingLevel | None
    extensions: list[str] | ExtensionEdit | None
    tools: list[str] | ToolEdit | None
    instructions: str | None
    cwd: str | None


class Frames(AsyncIterable[Frame[V_co]], Protocol[V_co]):
    """A watch under way; closing it stops no work."""

    def aclose(self) -> Awaitable[None]: ...


class Submitted(Protocol):
    """What was handed in, by its id."""

    @property
    def id(self) -> int: ...


class ConversationReader(Protocol):
    """A conversation to look at."""

    @property
    def id(self) -> int: ...

    async def entries(self, before: int | None = None, limit: int = 200) -> list[StoredEntry]: ...


class ConversationFacade(ConversationReader, Protocol):
    """A conversation of a session this process owns. What each method raises is told where it is implemented."""

    async def submit(
        self,
        content: str | list[UserBlock],
        *,
        when_busy: WhenBusy = "follow_up",
        request_id: str | None = None,
        clear_draft: bool = False,
    ) -> Submitted: ...

    async def stop(self) -> bool: ...

    async def release(self, submission_id: int | None = None) -> int | None: ...

    async def edit_item(self, submission_id: int, content: str | list[UserBlock]) -> None: ...

    async def move_item(self, submission_id: int, index: int) -> None: ...

    async def promote_item(self, submission_id: int) -> None: ...

    async def withdraw(self, submission_id: int) -> str: ...

    async def draft(self) -> str: ...

    async def set_draft(self, text: str) -> None: ...

    async def agent(self) -> AgentChoices: ...

    async def configure(self, **choices: Unpack[AgentChanges]) -> None: ...


class SessionReader(Protocol):
    """A session to look at."""

    @property
    def session_problem(self) -> str | None: ...

    @property
    def paused_reason(self) -> str | None: ...

    @property
    def paused_for_space(self) -> bool: ...

    def watch(
        self, conversation_id: int, *, tail: int | None = None, since: Position | None = None
    ) -> Frames[SessionView]: ...


class SessionFacade(SessionReader, Protocol):
    """A session this process owns."""

    @property
    def epoch(self) -> int: ...

    @property
    def end_file(self) -> str | None: ...

    async def resume(self) -> None: ...

    async def usage(self) -> Usage: ...

    async def rename(self, text: str) -> None: ...

    async def retry_task(self, task_id: int) -> None: ...

    async def abort_task(self, task_id: int) -> None: ...
