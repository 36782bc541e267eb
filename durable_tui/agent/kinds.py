"""The built-in kinds of task as far as they are described to people, for who has no open session (spec 13)."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from durable_tui.agent.extension import Registry, Tool, select_tools
from durable_tui.agent.generation import phases
from durable_tui.agent.generation.provider_cancel import NAME as GENERATION
from durable_tui.agent.tool_task import NAME as TOOL
from durable_tui.agent.tool_task import doing_of
from durable_tui.engine.task import TaskDefinition
from durable_tui.storage.records import EntryRecord


def describing_kinds(entry: Callable[[int], EntryRecord | None], registry: Registry) -> dict[str, TaskDefinition]:
    """The kinds with their words alone; `entry` gives a known entry, the tools are those that are installed."""

    def tool(conversation_id: int, name: str) -> Tool | None:
        return select_tools(registry.extensions()).get(name)

    return {
        GENERATION: TaskDefinition(GENERATION, {}, lambda _: {}, doing=phases.doing, elsewhere=phases.elsewhere),
        TOOL: TaskDefinition(TOOL, {}, lambda _: {}, doing=partial(doing_of, entry, tool)),
    }
