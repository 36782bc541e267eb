"""The screen: renders what `watch()` delivers and calls the façade; never reads storage (spec 18, 21)."""

from __future__ import annotations

from typing import Any


def __getattr__(name: str) -> Any:
    if name == "run_screen":
        from durable_tui.ui.run import run_screen

        return run_screen
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
