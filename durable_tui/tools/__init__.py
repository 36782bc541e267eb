"""The built-in tools, as extensions (design 2). They touch the outside only through the environment of their call."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from durable_tui.tools.coding import CodingTools

__all__ = ["CodingTools"]


def __getattr__(name: str) -> Any:
    if name == "CodingTools":
        from durable_tui.tools.coding import CodingTools

        return CodingTools
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
