"""The screen: renders what `watch()` delivers and calls the façade; never reads storage (spec 18, 21)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from durable_tui.ground.lazy import lazy

if TYPE_CHECKING:
    from durable_tui.ui.run import run_screen

__all__ = ["run_screen"]

__getattr__ = lazy(__name__, {"run_screen": "run"})
