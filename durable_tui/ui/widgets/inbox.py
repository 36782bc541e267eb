"""Inbox (`pi.inbox`): what waits its turn, each item to send, edit, drop, move and promote."""

from __future__ import annotations

from typing import ClassVar

from durable_tui.ui.actions import bindings
from durable_tui.ui.widgets.panel import Panel


class Inbox(Panel):
    BINDINGS: ClassVar = bindings("inbox")
    keys_shown = (("item_send", "send"), ("item_edit", "edit"), ("item_drop", "drop"), ("item_promote", "steer"))
