"""Finding and ending processes whose supervisor is gone too, by the marks in their environment."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterable, Iterator
from typing import TypedDict

from durable_tui.environment.variables import SESSION_MARK, TASK_MARK


class Leftover(TypedDict):
    """A process a session's command left behind. `started` tells it from a later one with the same pid."""

    pid: int
    task: int
    session: str
    command: str
    started: str


def find_leftovers(session_mark: str | None) -> list[Leftover]:
    """The living processes that carry this session's mark, by pid; with None, those of every session.

    Only the user's own processes can be seen, and a process may have cleared its environment. This process is left out.
    Blocking: call it in a thread.
    """
    found: list[Leftover] = []
    for pid, variables in _processes():
        session = variables.get(SESSION_MARK)
        if session is None or (session_mark is not None and session != session_mark):
            continue
        identity = _identity(pid)
        if identity is None:
            continue
        started, command = identity
        task = variables.get(TASK_MARK, "")
        found.append(
            {
                "pid": pid,
                "task": int(task) if task.isdigit() else 0,
                "session": session,
                "command": command,
                "started": started,
            }
        )
    return sorted(found, key=lambda item: item["pid"])


def end_leftovers(leftovers: Iterable[Leftover], grace: float = 1.0) -> list[Leftover]:
    """TERM, a grace in seconds, then KILL, for those that are still the same processes. Returns the ones that live on.

    Blocking, at most about one second longer than the grace.
    """
    rest = list(leftovers)
    for number, patience in ((signal.SIGTERM, grace), (signal.SIGKILL, 1.0)):
        rest = [item for item in rest if _same(item)]
        _send_all([item["pid"] for item in rest], number)
        end = time.monotonic() + patience
        while rest and time.monotonic() < end:
            time.sleep(0.02)
            rest = [item for item in rest if _same(item)]
    return rest


def kill_marked(name: str, value: str) -> int:
    """KILL every process whose environment has this mark, until none is left (3 s at most). Returns how many."""
    killed: set[int] = set()
    end = time.monotonic() + 3.0
    while time.monotonic() < end:
        marked = [pid for pid, variables in _processes() if variables.get(name) == value and _identity(pid)]
        if not marked:
            break
        _send_all(marked, signal.SIGKILL)
        killed.update(marked)
        time.sleep(0.01)
    return len(killed)


def _send_all(pids: list[int], number: int) -> None:
    """A signal to all at one moment: a shell that saw its child die first would go on with the next command."""
    for step in (signal.SIGSTOP, number, signal.SIGCONT):
        for pid in pids:
            try:
                os.kill(pid, step)
            except (ProcessLookupError, PermissionError):
                continue


def _same(item: Leftover) -> bool:
    identity = _identity(item["pid"])
    return identity is not None and identity[0] == item["started"]


def _linux() -> bool:
    return os.path.exists("/proc/self/environ")


def _processes() -> Iterator[tuple[int, dict[str, str]]]:
    """Every other process whose environment we may read."""
    own = os.getpid()
    if not _linux():
        yield from _processes_by_psutil(own)
        return
    for entry in os.listdir("/proc"):
        if not entry.isdigit() or int(entry) == own:
            continue
        try:
            with open(f"/proc/{entry}/environ", "rb") as file:
                block = file.read()
        except OSError:
            continue  # it ended, or is another user's
        if SESSION_MARK.encode() in block:
            pairs = (field.partition("=") for field in os.fsdecode(block).split("\0"))
            yield int(entry), {name: value for name, _, value in pairs}


def _processes_by_psutil(own: int) -> Iterator[tuple[int, dict[str, str]]]:
    import psutil

    for process in psutil.process_iter():
        try:
            if process.pid != own:
                yield process.pid, process.environ()
        except psutil.Error:
            continue


def _identity(pid: int) -> tuple[str, str] | None:
    """When a process started, and its command line; None for the dead and for zombies."""
    if not _linux():
        return _identity_by_psutil(pid)
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            fields = file.read().rpartition(b")")[2].split()
        with open(f"/proc/{pid}/cmdline", "rb") as file:
            command = file.read()
    except OSError:
        return None
    if len(fields) < 20 or fields[0] in (b"Z", b"X"):
        return None
    words = command.rstrip(b"\0").decode("utf-8", "replace").split("\0")
    return fields[19].decode(), " ".join(words)


def _identity_by_psutil(pid: int) -> tuple[str, str] | None:
    import psutil

    try:
        process = psutil.Process(pid)
        if process.status() == psutil.STATUS_ZOMBIE:
            return None
        return repr(process.create_time()), " ".join(process.cmdline())
    except psutil.Error:
        return None
