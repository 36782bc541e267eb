"""Short notes for people about what went wrong beside the work, and what keeps the session from going on."""

from __future__ import annotations

import logging
from collections.abc import Callable

log = logging.getLogger(__name__)
KEPT = 50


class Reports:
    """The newest notes of one session. `problem` is what keeps work from going on, None when nothing does."""

    def __init__(self) -> None:
        self.notes: list[str] = []
        self.problem: str | None = None
        self.on_problem: Callable[[str | None], None] | None = None

    def add(self, text: str) -> None:
        """Keep a short note for the front end and the log."""
        log.warning("%s", text)
        self.notes.append(text)
        del self.notes[:-KEPT]

    def set_problem(self, text: str | None) -> None:
        """Say what keeps work from going on, or that nothing does any more."""
        if text != self.problem:
            self.problem = text
            if self.on_problem is not None:
                self.on_problem(text)
