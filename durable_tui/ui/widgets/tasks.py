"""Tasks: the ownership tree with states and what each waits for."""

from __future__ import annotations

from typing import ClassVar

from durable_tui.ui.actions import bindings
from durable_tui.ui.adapter.rows import Rows
from durable_tui.ui.widgets.panel import Panel


class Tasks(Panel):
    BINDINGS: ClassVar = bindings("tasks")
    keys_shown = (("task_abort", "stop"), ("task_retry", "retry"))

    def title_of(self, rows: Rows) -> str:
        return f"tasks · {rows.count} live" if rows.count else "tasks"
