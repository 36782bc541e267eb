"""What every backend needs to know about records (spec 4, 5)."""

from __future__ import annotations

from durable_tui.delta import clean_text, freeze
from durable_tui.storage.records import Batch, DocumentRecord, Scope, TaskRecord, scope_owner

Address = tuple[str, str, int, str | None]


def address_of(kind: str, scope: Scope, key: str | None) -> Address:
    """Where a document lives: kind, scope kind, owner id (0 for the session), key."""
    return (clean_text(kind), scope["kind"], scope_owner(scope), None if key is None else clean_text(key))


def next_free_id(batch: Batch, next_id: int) -> int:
    """The smallest id free after `batch`, given the one so far."""
    for records in (batch.conversations, batch.entries, batch.submissions, batch.tasks, batch.documents):
        for record in records:
            if record["id"] >= next_id:
                next_id = record["id"] + 1
    return next_id


def retired_first(documents: list[DocumentRecord]) -> list[DocumentRecord]:
    """Documents in an order that frees an address before it is taken again (spec 5.6)."""
    return documents if len(documents) < 2 else sorted(documents, key=lambda record: "retiredAt" not in record)


def unretired(record: DocumentRecord) -> DocumentRecord:
    """A document's record as it stood before it was retired."""
    if "retiredAt" not in record:
        return record
    standing: DocumentRecord = freeze({name: value for name, value in record.items() if name != "retiredAt"})
    return standing


def wake_at(record: TaskRecord) -> int | None:
    """Return when a task's time gate opens, in milliseconds; None without one (spec 6.12)."""
    state = record["state"]
    gate = state.get("gate") if state["status"] == "pending" else None
    return gate["time"] if gate and "time" in gate else None
