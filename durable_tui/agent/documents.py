"""The built-in documents (spec 17.4, 5.7)."""

from __future__ import annotations

from typing import Any

from durable_tui.delta import FrozenDict, freeze
from durable_tui.session import DocumentDefinition
from durable_tui.session.documents import empty_object


def _live_base(value: Any, deltas: int) -> bool:
    return "run" not in value and not value.get("compactions")


def _always(value: Any, deltas: int) -> bool:
    return True


def _every_64(value: Any, deltas: int) -> bool:
    return deltas >= 64


def _inbox_base(value: Any, deltas: int) -> bool:
    return not value["items"]


def _items() -> Any:
    return freeze({"items": []})


AGENT = DocumentDefinition(
    "pi.agent", "conversation", empty_object, history="rewindable", fork="asOf", checkpoint=_always
)
PROVIDER = DocumentDefinition(
    "pi.provider", "conversation", empty_object, history="latest", fork="initial", checkpoint=_always
)
LIVE = DocumentDefinition(
    "pi.live", "conversation", empty_object, history="latest", fork="initial", checkpoint=_live_base
)
INBOX = DocumentDefinition("pi.inbox", "conversation", _items, history="latest", fork="initial", checkpoint=_inbox_base)
USAGE = DocumentDefinition(
    "pi.usage",
    "conversation",
    lambda: freeze({"models": {}, "tools": {}}),
    history="latest",
    fork="initial",
    checkpoint=_always,
)
SESSION = DocumentDefinition("dt.session", "session", lambda: freeze({"cwd": "", "createdAt": 0}), checkpoint=_always)
DRAFT = DocumentDefinition(
    "dt.draft", "conversation", lambda: freeze({"text": ""}), history="latest", fork="initial", checkpoint=_every_64
)
RECOVERY = DocumentDefinition("dt.recovery", "session", lambda: freeze({"deaths": []}), checkpoint=_every_64)

EMPTY = FrozenDict()
