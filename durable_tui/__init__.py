"""A durable agent runtime and its front ends. Names are loaded when first asked for: importing the package is cheap."""

from __future__ import annotations

from typing import TYPE_CHECKING

from durable_tui.ground.lazy import lazy

if TYPE_CHECKING:
    from durable_tui.agent.extension import Extension, Registry, Section, Tool, ToolCall, ToolError, ToolResult, tool
    from durable_tui.agent.inbox import ConversationBusy
    from durable_tui.agent.settings import Settings
    from durable_tui.harness.harness import Harness
    from durable_tui.session.session_errors import ReadAfterWrite
    from durable_tui.storage.errors import SessionLocked, StorageRejected

__version__ = "0.1.0"

_PLACES = {
    "ConversationBusy": "agent.inbox",
    "Extension": "agent.extension",
    "Harness": "harness.harness",
    "ReadAfterWrite": "session.session_errors",
    "Registry": "agent.extension",
    "Section": "agent.extension",
    "SessionLocked": "storage.errors",
    "Settings": "agent.settings",
    "StorageRejected": "storage.errors",
    "Tool": "agent.extension",
    "ToolCall": "agent.extension",
    "ToolError": "agent.extension",
    "ToolResult": "agent.extension",
    "tool": "agent.extension",
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
