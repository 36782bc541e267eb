"""How a command ends: its exit with status, reason and sentence, and what the statuses mean in words (spec 20)."""

from __future__ import annotations

import signal
from dataclasses import dataclass

from durable_tui.host.exit_status import Status, status_of

__all__ = ["MEANING", "SIGNALS", "Exit", "Status", "UsageError", "exit_for"]


MEANING: dict[Status, str] = {
    Status.ANSWERED: "answered",
    Status.UNANSWERED: "unanswered: the run ended without an answer, stderr says why",
    Status.USAGE: "usage, configuration, a missing key, model or directory",
    Status.OWNED: "the session is owned by another process",
    Status.STORAGE: "storage: damaged, newer, full or poisoned",
    Status.PARKED: "parked: a task waits for a person (restart limit, approval, a missing extension)",
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
    """How a command ended: the status, and for `exit` events a reason word, a sentence and the submission's id."""

    status: Status
    reason: str | None = None
    message: str | None = None
    submission: int | None = None

    def event(self) -> dict[str, object]:
        """The last line of `--json` (spec 17.6)."""
        event: dict[str, object] = {"type": "exit", "status": int(self.status)}
        for key in ("reason", "message", "submission"):
            value = getattr(self, key)
            if value is not None:
                event[key] = value
        return event


class UsageError(Exception):
    """The command line asks for something that cannot be; the message says what to do."""


def exit_for(error: BaseException) -> Exit | None:
    """The exit for an error with a meaning for the user; None for a defect of ours."""
    known = (Status.USAGE, "usage") if isinstance(error, UsageError) else status_of(error)
    return None if known is None else Exit(*known, str(error))
