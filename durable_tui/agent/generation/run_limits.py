"""The limits of a run: turns and cost (spec 20)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from durable_tui.agent.inbox import ConversationDraft

if TYPE_CHECKING:
    from durable_tui.agent.agent import Agent


async def over_limit(agent: Agent, draft: ConversationDraft) -> str | None:
    """Why the run may not go on, when one of its limits is reached."""
    settings = agent.settings
    if not (settings.limit_turns or settings.limit_cost) or "run" not in draft.live:
        return None
    first = draft.tx.submission_candidate(draft.live["run"]["inputs"][0])
    if first is None or "entry" not in first:
        return None
    context = await agent.contexts.load(draft.conversation_id)
    turns, cost = context.turns_since(first["entry"])
    if settings.limit_turns and turns >= settings.limit_turns:
        return f"the run reached its limit of {settings.limit_turns} turns"
    if settings.limit_cost and cost >= settings.limit_cost:
        return f"the run reached its limit of ${settings.limit_cost:g}"
    return None
