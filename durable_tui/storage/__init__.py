"""The store: records, the protocol every backend keeps, and the backends (contract 4)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

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

if TYPE_CHECKING:
    from durable_tui.storage.memory import MemoryStorage
    from durable_tui.storage.protocol import Storage
    from durable_tui.storage.sqlite import SqliteStorage

__all__ = [
    "Fenced",
    "MemoryStorage",
    "SessionLocked",
    "SqliteStorage",
    "Storage",
    "StorageDamaged",
    "StorageError",
    "StorageForeign",
    "StorageNewer",
    "StorageRejected",
    "StorageUncertain",
]

_LAZY = {"MemoryStorage": "memory", "SqliteStorage": "sqlite", "Storage": "protocol"}


def __getattr__(name: str) -> Any:
    module = _LAZY.get(name)
    if module is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(f"{__name__}.{module}"), name)
