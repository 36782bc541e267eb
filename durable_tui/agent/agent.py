"""What the conversations of one session share: the parts that kinds of task and the façade are made of (spec 8-12)."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from durable_tui.agent.inbox import Conversations
from durable_tui.agent.model_context import Contexts
from durable_tui.agent.recent_entries import RecentEntries
from durable_tui.agent.settings import Settings
from durable_tui.agent.settlements import Settlements
from durable_tui.agent.toolbox import Toolbox
from durable_tui.engine.engine import Engine
from durable_tui.models.provider import Model, ModelRequest, StreamEvent
from durable_tui.session import Session

if TYPE_CHECKING:
    from durable_tui.delta import Json


class ModelSource(Protocol):
    """The models an agent may ask; `durable_tui.models.Models` is one."""

    def resolve(self, name: str) -> Model:
        """The model `provider/modelId`. Raises ModelError when there is none."""

    def stream(self, request: ModelRequest) -> AsyncIterator[StreamEvent]:
        """Ask a model."""

    def poll(self, request: ModelRequest, handle: dict[str, Json]) -> AsyncIterator[StreamEvent]:
        """Ask for an answer that is made in the background."""

    async def cancel(self, provider: str, handle: dict[str, Json]) -> None:
        """End such an answer at its provider."""


@dataclass(slots=True)
class Agent:
    """The parts, each with one idea; a module takes only those it needs."""

    session: Session
    engine: Engine
    models: ModelSource
    settings: Settings
    toolbox: Toolbox
    conversations: Conversations
    contexts: Contexts
    entries: RecentEntries
    settlements: Settlements

    def report(self, text: str) -> None:
        """Keep a short note for the front end and the log."""
        self.engine.reports.add(text)
