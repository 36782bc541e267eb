"""The built-in tools, as extensions (spec 19). They touch the outside only through the environment of their call."""

from __future__ import annotations

from typing import TYPE_CHECKING

from durable_tui.ground.lazy import lazy

if TYPE_CHECKING:
    from durable_tui.tools.coding import CodingTools

__all__ = ["CodingTools"]


__getattr__ = lazy(__name__, {"CodingTools": "coding"})
