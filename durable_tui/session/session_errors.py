"""Errors of the commit line (spec 3)."""

from __future__ import annotations


class SessionError(Exception):
    """The session refuses; the message is one sentence fit for a person."""


class ReadAfterWrite(SessionError):
    """A table was read after the body's first table write: a programming error (spec 3.4)."""


class NestedCommit(SessionError):
    """A commit was begun inside another commit's body; it would wait for itself (spec 3.1)."""


class TransactionClosed(SessionError):
    """A transaction or draft was used after its body ended (spec 3.7)."""


class SessionPoisoned(SessionError):
    """The store's state is uncertain: close the session and open it again (spec 3.6)."""


class SessionClosed(SessionError):
    """The session was closed; nothing is admitted any more (spec 13)."""


class DocumentRefused(SessionError):
    """A stored document is newer than the code, or its migration is missing or failed (spec 5.4)."""
