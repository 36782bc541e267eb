"""The documents of conversations and of the session (spec 17.4, 5.7)."""

from __future__ import annotations

from durable_tui.agent.shapes import AgentChoices, Asks, Draft, Inbox, Live, ProviderIdentity, SessionFacts
from durable_tui.models.messages import UsageTable
from durable_tui.session import DocumentDefinition

TOLD_DELTAS = 64  # of pi.live and pi.inbox between two bases
TOLD_BYTES = 64 * 1024


def _nothing_runs(value: Live, deltas: int) -> bool:
    return ("run" not in value and not value.get("compactions")) or deltas >= TOLD_DELTAS


def _always(value: object, deltas: int) -> bool:
    return True


def _every_64(value: object, deltas: int) -> bool:
    return deltas >= 64


def _is_empty(value: Inbox, deltas: int) -> bool:
    return not value["items"] or deltas >= TOLD_DELTAS


AGENT: DocumentDefinition[AgentChoices] = DocumentDefinition(
    "pi.agent", "conversation", AgentChoices, history="rewindable", fork="asOf", checkpoint=_always
)
PROVIDER: DocumentDefinition[ProviderIdentity] = DocumentDefinition(
    "pi.provider", "conversation", ProviderIdentity, history="latest", fork="initial", checkpoint=_always
)
LIVE: DocumentDefinition[Live] = DocumentDefinition(
    "pi.live", "conversation", Live, history="latest", fork="initial", checkpoint=_nothing_runs,
    base_bytes=TOLD_BYTES, keep_previous=True,
)  # fmt: skip
INBOX: DocumentDefinition[Inbox] = DocumentDefinition(
    "pi.inbox", "conversation", lambda: {"items": []}, history="latest", fork="initial", checkpoint=_is_empty,
    base_bytes=TOLD_BYTES, keep_previous=True,
)  # fmt: skip
USAGE: DocumentDefinition[UsageTable] = DocumentDefinition(
    "pi.usage", "conversation", lambda: {"models": {}, "tools": {}},
    history="latest", fork="initial", checkpoint=_always,
)  # fmt: skip
SESSION: DocumentDefinition[SessionFacts] = DocumentDefinition(
    "dt.session", "session", lambda: {"cwd": "", "createdAt": 0}, checkpoint=_always
)
DRAFT: DocumentDefinition[Draft] = DocumentDefinition(
    "dt.draft", "conversation", lambda: {"text": ""}, history="latest", fork="initial", checkpoint=_every_64
)
ASKS: DocumentDefinition[Asks] = DocumentDefinition("dt.asks", "session", lambda: {"asks": []}, checkpoint=_every_64)
RECORDED = (LIVE, INBOX)  # what the flight recorder keeps of a death (spec 5.7)
