"""The flight recorder: what a death leaves of the documents that tell what was going on (spec 5.7, 15)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

from durable_tui.delta import Json, Op, apply_ops, dumps
from durable_tui.session import Session, SomeDefinition
from durable_tui.storage.records import FlightRow, StoredRevision

LIMIT = 2 * 1024 * 1024  # bytes kept of one death, as JSON text
KEPT = 20  # deaths
BASES = 2  # a document's newest base may be a moment old: the one before it is kept for this


async def record_flight(
    session: Session,
    definitions: Sequence[SomeDefinition],
    conversations: Sequence[int],
    epoch: int,
    limit: int = LIMIT,
) -> list[FlightRow]:
    """The newest revisions of some documents of these conversations, as rows of the death of `epoch`.

    Of a document that takes more than its share of `limit` bytes the oldest deltas are folded into the base.
    """
    histories: dict[int, list[StoredRevision]] = {}
    for conversation_id in conversations:
        for definition in definitions:
            state = await session.load_document(definition.address(conversation_id))
            if state is not None:
                document_id = state.record["id"]
                histories[document_id] = await session.storage.revisions(document_id, bases=BASES)
    if not histories:
        return []
    share = limit // len(histories)
    return [
        FlightRow(epoch, document_id, revision.seq, revision.at, revision.kind, revision.content)
        for document_id, history in histories.items()
        for revision in fold_to(history, share)
    ]


def fold_to(history: Sequence[StoredRevision], limit: int) -> list[StoredRevision]:
    """A history of at most `limit` bytes: its oldest deltas folded into the base. [] when the last value is larger."""
    sizes = [len(dumps(revision.content).encode("utf-8", "surrogatepass")) for revision in history]
    total = sum(sizes)
    if total <= limit:
        return list(history)
    value: Json = None
    for index, revision in enumerate(history):
        value = (
            revision.content if revision.kind == "base" else apply_ops(value, cast("Sequence[Op]", revision.content))
        )
        size = len(dumps(value).encode("utf-8", "surrogatepass"))
        total -= sizes[index]
        if size + total <= limit:
            base = StoredRevision(revision.seq, revision.at, "base", revision.version, value)
            return [base, *history[index + 1 :]]
    return []
