"""The commit line, transactions, documents and watches (spec 3, 5, 13)."""

from durable_tui.session.documents import (
    DocumentDefinition,
    DocumentDraft,
    DocumentState,
    SomeDefinition,
    stored_value,
)
from durable_tui.session.session import Commit, Session
from durable_tui.session.session_errors import (
    DocumentRefused,
    NestedCommit,
    ReadAfterWrite,
    SessionClosed,
    SessionError,
    SessionPoisoned,
    TransactionClosed,
)
from durable_tui.session.transaction import Transaction
from durable_tui.session.watch import Frame, Watch

__all__ = [
    "Commit",
    "DocumentDefinition",
    "DocumentDraft",
    "DocumentRefused",
    "DocumentState",
    "Frame",
    "NestedCommit",
    "ReadAfterWrite",
    "Session",
    "SessionClosed",
    "SessionError",
    "SessionPoisoned",
    "SomeDefinition",
    "Transaction",
    "TransactionClosed",
    "Watch",
    "stored_value",
]
