"""Tasks of one session: how they start, run, end and recover (spec 6, 7, 15). It knows no kind of task.

The names here are what a kind of an extension's own is made of.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from durable_tui.ground.lazy import lazy

if TYPE_CHECKING:
    from durable_tui.engine.task import Abandonment, Decision, TaskDefinition, new_task
    from durable_tui.engine.task_handle import TaskHandle

_LAZY = {
    "Abandonment": "task",
    "Decision": "task",
    "TaskDefinition": "task",
    "TaskHandle": "task_handle",
    "new_task": "task",
}

__all__ = ["Abandonment", "Decision", "TaskDefinition", "TaskHandle", "new_task"]


__getattr__ = lazy(__name__, _LAZY)
