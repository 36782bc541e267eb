"""The store: records, the protocol every backend keeps, and the backends (spec 4)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from durable_tui.ground.lazy import lazy
from durable_tui.storage.errors import (
    Fenced,
    SessionLocked,
    SnapshotLost,
    StorageDamaged,
    StorageError,
    StorageForeign,
    StorageNewer,
    StorageRejected,
    StorageUncertain,
)

if TYPE_CHECKING:
    from durable_tui.storage.memory.store import MemoryStorage
    from durable_tui.storage.protocol import Follower, Owner, Reader
    from durable_tui.storage.sqlite.reader import SqliteReader
    from durable_tui.storage.sqlite.store import SqliteStorage

__all__ = [
    "Fenced",
    "Follower",
    "MemoryStorage",
    "Owner",
    "Reader",
    "SessionLocked",
    "SnapshotLost",
    "SqliteReader",
    "SqliteStorage",
    "StorageDamaged",
    "StorageError",
    "StorageForeign",
    "StorageNewer",
    "StorageRejected",
    "StorageUncertain",
]

_LAZY = {
    "Follower": "protocol",
    "MemoryStorage": "memory.store",
    "Owner": "protocol",
    "Reader": "protocol",
    "SqliteReader": "sqlite.reader",
    "SqliteStorage": "sqlite.store",
}


__getattr__ = lazy(__name__, _LAZY)
