"""Live (`pi.live`): the attempt, tool slots with time and output tail, retries, compactions."""

from __future__ import annotations

from typing import ClassVar

from durable_tui.ui.actions import bindings
from durable_tui.ui.widgets.panel import Panel


class Live(Panel):
    """Bright while something runs."""

    BINDINGS: ClassVar = bindings("live")
