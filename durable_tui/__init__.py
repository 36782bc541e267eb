"""A durable agent runtime and its front ends. Names are loaded when first asked for: importing the package is cheap."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from durable_tui.harness.extension import Extension, Registry, Section, Tool, ToolCall, ToolError, ToolResult, tool
    from durable_tui.harness.harness import Harness
    from durable_tui.harness.inbox import ConversationBusy
    from durable_tui.harness.settings import Settings
    from durable_tui.session.errors import ReadAfterWrite
    from durable_tui.storage.errors import SessionLocked, StorageRejected

__version__ = "0.1.0"

_PLACES = {
    "ConversationBusy": "durable_tui.harness.inbox",
    "Extension": "durable_tui.harness.extension",
    "Harness": "durable_tui.harness.harness",
    "ReadAfterWrite": "durable_tui.session.errors",
    "Registry": "durable_tui.harness.extension",
    "Section": "durable_tui.harness.extension",
    "SessionLocked": "durable_tui.storage.errors",
    "Settings": "durable_tui.harness.settings",
    "StorageRejected": "durable_tui.storage.errors",
    "Tool": "durable_tui.harness.extension",
    "ToolCall": "durable_tui.harness.extension",
    "ToolError": "durable_tui.harness.extension",
    "ToolResult": "durable_tui.harness.extension",
    "tool": "durable_tui.harness.extension",
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


def __getattr__(name: str) -> Any:
    place = _PLACES.get(name)
    if place is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_module(place), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
