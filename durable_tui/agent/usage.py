"""Adding up what models and tools used, in the commit that writes the entry (spec 14)."""

from __future__ import annotations

from typing import Literal

from durable_tui.agent.documents import USAGE
from durable_tui.models.messages import AssistantMessage, Usage, add_usage, empty_usage
from durable_tui.session import Transaction
from durable_tui.storage.records import EntryRecord


async def append_answer(tx: Transaction, conversation_id: int, message: AssistantMessage, by_task: int) -> EntryRecord:
    """Append what a model answered, failed answers too, and add its usage to the conversation's."""
    entry = tx.append(conversation_id, "pi.assistant", model=[message], by_task=by_task)
    await record_usage(tx, conversation_id, "models", f"{message['provider']}/{message['model']}", message.get("usage"))
    return entry


async def record_usage(
    tx: Transaction, conversation_id: int, group: Literal["models", "tools"], name: str, usage: Usage | None
) -> None:
    """Add an attempt's usage to the conversation's table."""
    if not usage or not any(usage.get(key) for key in ("totalTokens", "output", "input", "cost")):
        return
    draft = await tx.document(USAGE, conversation_id)
    table = draft.value[group]
    known = table.get(name)
    table[name] = add_usage(known if known is not None else empty_usage(), usage)
