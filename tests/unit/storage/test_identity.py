"""Who a process is, and who is provably dead (spec 4.2)."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from dataclasses import replace

import pytest

from durable_tui.storage import identity
from durable_tui.storage.identity import liveness, process_started_at, this_owner


def test_spec_4_2_who_is_provably_dead() -> None:
    me = this_owner(1, 0)
    assert liveness(me) == "alive"
    assert liveness(replace(me, boot_id="another boot")) == "dead"
    assert liveness(replace(me, host="elsewhere", boot_id="another boot")) == "unknown"
    assert liveness(replace(me, process_started_at=me.process_started_at + 1_500)) == "alive", "clocks are corrected"
    reused = replace(me, process_started_at=me.process_started_at - 60_000)
    assert liveness(reused) == "dead", "the pid was given to another program"
    assert liveness(replace(me, process_started_at=0)) == "unknown", "an unknown start time proves nothing"
    gone = subprocess.Popen([sys.executable, "-c", ""])
    born = process_started_at(gone.pid)
    gone_row = replace(me, pid=gone.pid, process_started_at=born or 0)
    gone.wait()
    assert liveness(gone_row) == "dead" and process_started_at(gone.pid) is None

    assert liveness(replace(gone_row, boot_id="")) == "dead", "without a boot id the process decides"


def test_spec_4_2_a_start_time_that_nobody_may_see_is_unknown(monkeypatch: pytest.MonkeyPatch) -> None:
    me = this_owner(1, 0)
    monkeypatch.setattr(identity, "process_started_at", lambda pid: 0)
    assert liveness(me) == "unknown"


def test_spec_4_2_a_zombie_is_dead() -> None:
    zombie = subprocess.Popen([sys.executable, "-c", ""])
    row = replace(this_owner(1, 0), pid=zombie.pid)
    until = time.monotonic() + 10
    while process_started_at(zombie.pid) is not None and time.monotonic() < until:
        time.sleep(0.01)
    assert liveness(row) == "dead"
    zombie.wait()


def test_a_process_knows_when_it_started() -> None:
    started = process_started_at(os.getpid())
    assert started is not None and 0 < started <= time.time() * 1000 + 2000
    import psutil

    assert abs(psutil.Process().create_time() * 1000 - started) < 2000
