"""A durable agent runtime and its front ends. Names are loaded when first asked for: importing the package is cheap."""

from __future__ import annotations

from typing import TYPE_CHECKING

from durable_tui.lazy import lazy

if TYPE_CHECKING:
    from durable_tui.harness.extension import Extension, Registry, Section, Tool, ToolCall, ToolError, ToolResult, tool
    from durable_tui.harness.harness import Harness
    from durable_tui.harness.inbox import ConversationBusy
    from durable_tui.harness.settings import Settings
    from durable_tui.session.errors import ReadAfterWrite
    from durable_tui.storage.errors import SessionLocked, StorageRejected

__version__ = "0.1.0"

_PLACES = {
    "ConversationBusy": "harness.inbox",
    "Extension": "harness.extension",
    "Harness": "harness.harness",
    "ReadAfterWrite": "session.errors",
    "Registry": "harness.extension",
    "Section": "harness.extension",
    "SessionLocked": "storage.errors",
    "Settings": "harness.settings",
    "StorageRejected": "storage.errors",
    "Tool": "harness.extension",
    "ToolCall": "harness.extension",
    "ToolError": "harness.extension",
    "ToolResult": "harness.extension",
    "tool": "harness.extension",
}

__all__ = [
    "ConversationBusy",
    "Extension",
    "Harness",
    "ReadAfterWrite",
    "Registry",
    "Section",
    "SessionLocked",
    "Settings",
    "StorageRejected",
    "Tool",
    "ToolCall",
    "ToolError",
    "ToolResult",
    "__version__",
    "tool",
]


__getattr__ = lazy(__name__, _PLACES)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
