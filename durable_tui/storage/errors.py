"""Errors of the store. All are raised before anything is published (spec 3.6, 4.2)."""

from __future__ import annotations

from typing import TypedDict


class StorageError(Exception):
    """Anything the store refuses or fails. The message is one sentence fit for a person."""


class StorageRejected(StorageError):
    """Nothing of the batch took effect; the session goes on (spec 3.6). `full` says it was for lack of space."""

    def __init__(self, message: str, *, full: bool = False) -> None:
        super().__init__(message)
        self.full = full


class StorageUncertain(StorageError):
    """Nobody can say whether the batch took effect: the session is poisoned (spec 3.6)."""


class Fenced(StorageError):
    """Another process owns the store now; certain, and fatal to this owner (spec 4.2)."""


class SnapshotLost(StorageError):
    """A file that was at rest is written to now, and a look at it saw two moments; look again."""


class LockHolder(TypedDict, total=False):
    """Who owns a session now, as far as it says so; times in milliseconds, `startedAt` is that of the opening."""

    pid: int
    host: str
    startedAt: int
    bootId: str
    processStartedAt: int


class SessionLocked(StorageError):
    """Another process owns the store (spec 4.2)."""

    def __init__(self, message: str, owner: LockHolder | None = None) -> None:
        super().__init__(message)
        self.owner: LockHolder = owner or {}


class StorageNewer(StorageError):
    """The file has a newer schema than this program (spec 4, 17.1)."""

    def __init__(self, message: str, found: int, supported: int) -> None:
        super().__init__(message)
        self.found = found
        self.supported = supported


class StorageDamaged(StorageError):
    """The file is no session, is torn, or misses confirmed data; it was not changed."""


class StorageForeign(StorageError):
    """The file belongs to another implementation and is never written (spec 17.1)."""
