"""Adding up what models and tools used (spec 14)."""

from __future__ import annotations

from typing import Any, cast

from durable_tui.agent.documents import USAGE
from durable_tui.models.messages import Usage, add_usage, empty_usage
from durable_tui.session import Transaction


async def record_usage(tx: Transaction, conversation_id: int, group: str, name: str, usage: Any) -> None:
    """Add an attempt's usage to the conversation, in the commit that writes its entry. `group`: models or tools."""
    if not usage or not any(usage.get(key) for key in ("totalTokens", "output", "input", "cost")):
        return
    draft = await tx.document(USAGE, conversation_id)
    table = draft.value[group]
    known = table.get(name)
    table[name] = add_usage(cast(Usage, dict(known)) if known is not None else empty_usage(), usage)
