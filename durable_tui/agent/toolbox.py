"""The installed extensions as one conversation has them: its tools, its hooks, its environment (spec 12)."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, TypeVar, cast

from durable_tui.agent.documents import AGENT
from durable_tui.agent.extension import Extension, Registry, Tool, select_tools
from durable_tui.engine.reports import Reports
from durable_tui.environment.base import Environment, EnvironmentFactory, EnvironmentScope
from durable_tui.session import Session

if TYPE_CHECKING:
    from durable_tui.agent.shapes import AgentChoices

V = TypeVar("V")


class Toolbox:
    """Selects by what a conversation's agent chose. Hooks that fail are reported."""

    def __init__(self, session: Session, registry: Registry, environment: EnvironmentFactory, reports: Reports) -> None:
        self.registry = registry
        self.environment = environment
        self._session = session
        self._reports = reports

    async def selection(self, conversation_id: int) -> tuple[list[Extension], dict[str, Tool]]:
        """The extensions and tools in effect for a conversation now."""
        agent = await self._session.value(AGENT, conversation_id)
        extensions = self.registry.extensions(agent.get("extensions"))
        return extensions, select_tools(extensions, agent.get("tools"))

    def known_tool(self, conversation_id: int, name: str) -> Tool | None:
        """A tool by the agent's choice as far as that is in memory."""
        state = self._session.cached_document(AGENT.address(conversation_id))
        agent: AgentChoices = state.value if state is not None else {}
        return select_tools(self.registry.extensions(agent.get("extensions")), agent.get("tools")).get(name)

    async def environment_for(self, conversation_id: int, task_id: int = 0) -> Environment:
        """The environment of one call: the agent's directory, the session's folder for output."""
        agent = await self._session.value(AGENT, conversation_id)
        return self.environment(
            EnvironmentScope(
                cwd=agent.get("cwd", "."),
                files=self._session.storage.files,
                conversation_id=conversation_id,
                task_id=task_id,
                session=self._session.storage.label,
            )
        )

    async def run_hooks(
        self,
        extensions: Iterable[Extension],
        name: str,
        value: V,
        accepts: Callable[[object], bool] | None = None,
    ) -> V:
        """Run a hook off the line, in extension order; each may replace the value by returning another.

        A hook that raises, or returns what is not of the value's kind (`accepts`), is reported and skipped.
        """
        for extension in extensions:
            hook = extension.hooks.get(name)
            if hook is None:
                continue
            try:
                answer = await hook(value)
            except Exception as error:  # noqa: BLE001 - a hook is somebody else's code; it is reported
                self._reports.add(f"hook {name} of extension {extension.name} failed: {error}")
                continue
            if answer is None:
                continue
            if accepts(answer) if accepts is not None else isinstance(answer, type(value)):
                value = cast(V, answer)
            else:
                self._reports.add(f"hook {name} of extension {extension.name} returned a {type(answer).__name__}")
        return value
