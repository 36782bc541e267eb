"""Who a process is, so that another one can tell whether it still lives (spec 4.2)."""

from __future__ import annotations

import os
import socket
import sys
from functools import lru_cache
from pathlib import Path

from durable_tui.storage.records import Liveness, OwnerRow

# A start time is derived from the clock at boot, which may be corrected a little later.
START_TOLERANCE = 2_000


def host_name() -> str:
    """This machine's name, as stored with an opening."""
    return socket.gethostname()


@lru_cache(maxsize=1)
def boot_id() -> str:
    """What is the same until the machine boots again; "" where the system does not say."""
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    except OSError:
        pass
    import psutil

    try:
        return f"boot-{int(psutil.boot_time())}"
    except (psutil.Error, OSError):
        return ""


def process_started_at(pid: int) -> int | None:
    """When a process of this machine started, in milliseconds; 0 when unknown, None when there is none (or a zombie)."""
    if sys.platform == "linux":
        return _started_by_proc(pid)
    else:
        import psutil

        try:
            process = psutil.Process(pid)
            if process.status() == psutil.STATUS_ZOMBIE:
                return None
            return int(process.create_time() * 1000)
        except psutil.NoSuchProcess:
            return None
        except psutil.AccessDenied:
            return 0


def _started_by_proc(pid: int) -> int | None:
    try:
        stat = Path(f"/proc/{pid}/stat").read_bytes()
    except (FileNotFoundError, ProcessLookupError):
        return None
    except OSError:
        return 0
    fields = stat[stat.rindex(b")") + 2 :].split()
    if fields[0] in (b"Z", b"X"):
        return None
    return _boot_time() + int(fields[19]) * 1000 // os.sysconf("SC_CLK_TCK")


@lru_cache(maxsize=1)
def _boot_time() -> int:
    for line in Path("/proc/stat").read_bytes().splitlines():
        if line.startswith(b"btime "):
            return int(line.split()[1]) * 1000
    return 0


def this_owner(epoch: int, opened_at: int) -> OwnerRow:
    """The row of an opening by this process."""
    pid = os.getpid()
    return OwnerRow(epoch, pid, host_name(), boot_id(), process_started_at(pid) or 0, opened_at)


def liveness(owner: OwnerRow) -> Liveness:
    """Return what can be proved of the process that made `owner`.

    "dead": another boot of this host, or no such process any more. "alive": the same pid with the same start time.
    "unknown": another host, or a start time that nobody may see.
    """
    if owner.host != host_name():
        return "unknown"
    if owner.boot_id and boot_id() and owner.boot_id != boot_id():
        return "dead"
    started = process_started_at(owner.pid)
    if started is None:
        return "dead"
    if not started or not owner.process_started_at:
        return "unknown"
    return "dead" if abs(started - owner.process_started_at) > START_TOLERANCE else "alive"
