"""Files and processes a tool may touch (contract 1, 10, 16)."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from durable_tui.environment.base import (
    Environment,
    EnvironmentFactory,
    EnvironmentFailed,
    EnvironmentScope,
    FileInfo,
    ProcessResult,
)

if TYPE_CHECKING:
    from durable_tui.environment.leftovers import Leftover, end_leftovers, find_leftovers
    from durable_tui.environment.local import LocalEnvironment

__all__ = [
    "Environment",
    "EnvironmentFactory",
    "EnvironmentFailed",
    "EnvironmentScope",
    "FileInfo",
    "Leftover",
    "LocalEnvironment",
    "ProcessResult",
    "end_leftovers",
    "find_leftovers",
]

_LAZY = {
    "Leftover": "leftovers",
    "LocalEnvironment": "local",
    "end_leftovers": "leftovers",
    "find_leftovers": "leftovers",
}


def __getattr__(name: str) -> Any:
    if name not in _LAZY:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"{__name__}.{_LAZY[name]}"), name)
