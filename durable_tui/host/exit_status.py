"""What an error means to whoever started the program: the exit statuses, in one place (spec 20)."""

from __future__ import annotations

from enum import IntEnum


class Status(IntEnum):
    """What the shell is told. Several sessions: the highest."""

    ANSWERED = 0
    UNANSWERED = 1
    USAGE = 2
    OWNED = 3
    STORAGE = 4
    PARKED = 5
    TIMEOUT = 124
    HANGUP = 129
    INTERRUPTED = 130
    KILLED = 137
    BROKEN_PIPE = 141
    TERMINATED = 143


def status_of(error: BaseException) -> tuple[Status, str] | None:
    """(status, reason word of spec 17.6) of an error with a meaning for the user; None for a defect of ours."""
    # Imported here: only a program that failed needs them, and every start would pay for them.
    from durable_tui.host.host_errors import ConfigError, HostError, ModelMissing
    from durable_tui.models.provider import ModelError
    from durable_tui.session.session_errors import DocumentRefused, SessionClosed, SessionPoisoned
    from durable_tui.storage.errors import (
        Fenced,
        SessionLocked,
        StorageDamaged,
        StorageError,
        StorageForeign,
        StorageNewer,
        StorageRejected,
        StorageUncertain,
    )

    table: list[tuple[type[BaseException], Status, str]] = [
        (ConfigError, Status.USAGE, "configuration"),
        (ModelMissing, Status.USAGE, "no_model"),
        (HostError, Status.USAGE, "usage"),
        (ModelError, Status.USAGE, "no_model"),
        (SessionLocked, Status.OWNED, "locked"),
        (Fenced, Status.OWNED, "fenced"),
        (StorageNewer, Status.STORAGE, "newer"),
        (StorageDamaged, Status.STORAGE, "damaged"),
        (StorageForeign, Status.STORAGE, "foreign"),
        (StorageUncertain, Status.STORAGE, "poisoned"),
        (StorageRejected, Status.STORAGE, "rejected"),
        (StorageError, Status.STORAGE, "storage"),
        (SessionPoisoned, Status.STORAGE, "poisoned"),
        (DocumentRefused, Status.STORAGE, "newer"),
        (SessionClosed, Status.STORAGE, "closed"),
    ]
    for kind, status, reason in table:
        if isinstance(error, kind):
            full = isinstance(error, StorageRejected) and error.full
            return status, "full" if full else reason
    return None
