"""The system prompt as positional entries: only what changed is appended (spec 9, 12)."""

from __future__ import annotations

import inspect
from typing import TYPE_CHECKING

from durable_tui.agent.documents import AGENT, SESSION
from durable_tui.agent.extension import Extension, PromptContext, Section, Tool
from durable_tui.agent.model_context import ContextCache

if TYPE_CHECKING:
    from durable_tui.agent.agent import Agent
    from durable_tui.models.messages import SystemMessage, ToolDescription, ToolName


async def render_sections(
    agent: Agent, conversation_id: int, extensions: list[Extension], tools: dict[str, Tool], shown: dict[str, str]
) -> dict[str, str]:
    """The sections as they should be now, in order. A failing one keeps its shown text and is reported."""
    choices = await agent.session.value(AGENT, conversation_id)
    environment = await agent.toolbox.environment_for(conversation_id)
    context = PromptContext(
        conversation_id=conversation_id,
        cwd=environment.cwd,
        agent={**choices},
        environment=environment,
        tools=tuple(tools.values()),
        started_at=(await agent.session.value(SESSION))["createdAt"],
    )
    chosen: dict[str, tuple[str, Section]] = {}
    for extension in extensions:
        for section in extension.sections:
            chosen[section.key] = (extension.name, section)
    sections: dict[str, str] = {}
    for key, (name, section) in chosen.items():
        try:
            text = section.render(context)
            if inspect.isawaitable(text):
                text = await text
        except Exception as error:  # noqa: BLE001 - reported; the shown text stays
            agent.report(f"prompt section {key} of extension {name} failed: {error}")
            text = shown.get(key)
        if text:
            sections[key] = text
    if choices.get("instructions"):
        sections["instructions"] = choices["instructions"]
    return sections


def tool_descriptions(tools: dict[str, Tool]) -> dict[str, ToolDescription]:
    """The tools as a model is offered them."""
    return {
        name: {"name": name, "description": item.description, "parameters": item.parameters}
        for name, item in tools.items()
    }


def plan(
    cache: ContextCache, sections: dict[str, str], tools: dict[str, ToolDescription], now: int
) -> list[SystemMessage]:
    """The system messages that take what the transcript shows to what it should show; [] when nothing changed.

    A changed order of sections takes two: one removes all, one states them anew.
    """
    added = [item for name, item in tools.items() if cache.tools.get(name) != item]
    removed: list[ToolName] = [{"name": name} for name in cache.tools if name not in tools]
    kept = [key for key in cache.sections if key in sections]
    fresh = [key for key in sections if key not in cache.sections]
    reordered = list(sections) != kept + fresh
    plans: list[SystemMessage] = []
    if reordered and cache.sections:
        plans.append(_message(dict.fromkeys(cache.sections), [], [], now))
        changes: dict[str, str | None] = dict(sections)
    else:
        changes = {key: text for key, text in sections.items() if cache.sections.get(key) != text}
        changes.update({key: None for key in cache.sections if key not in sections})
    if changes or added or removed or not cache.has_prompt:
        plans.append(_message(changes, added, removed, now))
    return plans


def _message(
    sections: dict[str, str | None], added: list[ToolDescription], removed: list[ToolName], now: int
) -> SystemMessage:
    message: SystemMessage = {"role": "system", "content": "", "timestamp": now}
    if sections:
        message["sections"] = sections
    if added:
        message["toolsAdded"] = added
    if removed:
        message["toolsRemoved"] = removed
    return message
