"""The exit statuses, in one place (spec 20), and how an error becomes one."""

from __future__ import annotations

import signal
from dataclasses import dataclass
from enum import IntEnum
from typing import Any


class Status(IntEnum):
    """The exit statuses. Of several sessions the highest counts."""

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


MEANING: dict[Status, str] = {
    Status.ANSWERED: "answered",
    Status.UNANSWERED: "unanswered: the run ended without an answer, stderr says why",
    Status.USAGE: "usage, configuration, a missing key, model or directory",
    Status.OWNED: "the session is owned by another process",
    Status.STORAGE: "storage: damaged, newer, full or poisoned",
    Status.PARKED: "parked: a task waits for a person (restart limit, a missing extension)",
    Status.TIMEOUT: "--timeout, stopped in order, resumable",
    Status.HANGUP: "SIGHUP, closed in order, resumable",
    Status.INTERRUPTED: "SIGINT, closed in order, resumable",
    Status.KILLED: "SIGKILL (passed on by the launcher), resumable",
    Status.BROKEN_PIPE: "stdout's reader went away, closed in order, resumable",
    Status.TERMINATED: "SIGTERM, closed in order, resumable",
}

SIGNALS: dict[int, Status] = {
    signal.SIGHUP: Status.HANGUP,
    signal.SIGINT: Status.INTERRUPTED,
    signal.SIGTERM: Status.TERMINATED,
}


@dataclass(slots=True, frozen=True)
class Exit:
    """The end of a command: the status, and for `exit` events a reason word, a sentence and the submission's id."""

    status: Status
    reason: str | None = None
    message: str | None = None
    submission: int | None = None

    def event(self) -> dict[str, Any]:
        """The last line of `--json` (spec 17.6)."""
        event: dict[str, Any] = {"type": "exit", "status": int(self.status)}
        for key in ("reason", "message", "submission"):
            value = getattr(self, key)
            if value is not None:
                event[key] = value
        return event


class UsageError(Exception):
    """The command line asks for something that cannot be; the message says what to do."""


def exit_for(error: BaseException) -> Exit | None:
    """The exit for an error with a meaning for the user; None for a defect of ours."""
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
        (UsageError, Status.USAGE, "usage"),
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
            return Exit(status, "full" if full else reason, str(error))
    return None
