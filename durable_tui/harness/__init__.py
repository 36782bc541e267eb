"""The façade: one open session as front ends and embedding programs use it (spec 19)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from durable_tui.ground.lazy import lazy

if TYPE_CHECKING:
    from durable_tui.harness.conversation import Conversation
    from durable_tui.harness.harness import Harness
    from durable_tui.harness.submission import Settled, Submission

_LAZY = {
    "Conversation": "conversation",
    "Harness": "harness",
    "Settled": "submission",
    "Submission": "submission",
}

__all__ = ["Conversation", "Harness", "Settled", "Submission"]


__getattr__ = lazy(__name__, _LAZY)
