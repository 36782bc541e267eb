"""Telling the next opening of a session how the process that owned it ended (spec 15)."""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Iterable

from durable_tui.host.terminal import signal_name
from durable_tui.storage.ends import LauncherEnd, write_end


def tell_next_opening(paths: Iterable[str], status: int) -> None:
    """Write down how a process ended, by what `waitpid` says, in the end files of sessions it had not closed.

    A file that cannot be written is left out: the next opening calls the end unknown.
    """
    end: LauncherEnd = {"by": "launcher", "at": time.time_ns() // 1_000_000}
    if os.WIFSIGNALED(status):
        end["signal"] = signal_name(os.WTERMSIG(status))
    else:
        end["status"] = os.WEXITSTATUS(status)
    for path in paths:
        with contextlib.suppress(OSError):
            write_end(path, end)
