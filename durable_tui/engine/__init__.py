"""Tasks of one session: how they start, run, end and recover (spec 6, 7, 15). It knows no kind of task.

The names here are what a kind of an extension's own is made of.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from durable_tui.ground.lazy import lazy

if TYPE_CHECKING:
    from durable_tui.engine.gates import time_gate
    from durable_tui.engine.task import (
        Abandonment,
        Decision,
        TaskDefinition,
        TaskNotGated,
        advance_gated,
        new_task,
    )
    from durable_tui.engine.task_handle import TaskHandle

_LAZY = {
    "Abandonment": "task",
    "Decision": "task",
    "TaskDefinition": "task",
    "TaskHandle": "task_handle",
    "TaskNotGated": "task",
    "advance_gated": "task",
    "new_task": "task",
    "time_gate": "gates",
}

__all__ = [
    "Abandonment",
    "Decision",
    "TaskDefinition",
    "TaskHandle",
    "TaskNotGated",
    "advance_gated",
    "new_task",
    "time_gate",
]


__getattr__ = lazy(__name__, _LAZY)
