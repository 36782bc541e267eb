"""Files and processes a tool may touch (spec 1, 10, 16)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from durable_tui.environment.base import (
    Environment,
    EnvironmentFactory,
    EnvironmentFailed,
    EnvironmentScope,
    FileInfo,
    ProcessResult,
)
from durable_tui.ground.lazy import lazy

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


__getattr__ = lazy(__name__, _LAZY)
