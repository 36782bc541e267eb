"""When garbage is looked for: a whole pass holds the screen up for dozens of milliseconds, so it waits for a calm one."""

from __future__ import annotations

import gc

SELDOM = 1000  # younger passes before a whole one comes by itself
ENOUGH = 20  # younger passes that make a whole one worth its time


def keep_imports() -> None:
    """What imports made stays: it is never looked through again, and whole passes wait for `in_calm`."""
    gc.freeze()
    gc.set_threshold(*gc.get_threshold()[:2], SELDOM)


def in_calm() -> None:
    """A whole pass if there is something to find. For moments when nothing runs."""
    if gc.get_count()[2] >= ENOUGH:
        gc.collect()
