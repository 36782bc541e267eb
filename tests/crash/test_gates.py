"""Real deaths while a task waits at a gate for a submission (spec 6.12)."""

from __future__ import annotations

import json
import sqlite3
from pathlib import Path
from typing import Any

import pytest

from durable_tui.storage import SqliteStorage
from tests.tools.crashes import Crashes
from tests.tools.headless import openings
from tests.tools.invariants import read_state
from tests.tools.strict_server import StrictServer
from tests.tools.waiting import wait_until

pytestmark = pytest.mark.crash

DEATHS = 6  # one more than the restart limit allows a task that is found at work
FOLLOW = ("--follow", "--restart-limit", "100")  # the run that is followed is found at work each time


def _read(session: Path) -> tuple[int, dict[str, Any]]:
    """(how often the session was opened, its tasks by kind), from outside."""
    reader = sqlite3.connect(f"file:{session}?mode=ro", uri=True, timeout=5)
    try:
        tasks = [json.loads(row[0]) for row in reader.execute("SELECT record FROM tasks")]
        return openings(reader), {task["kind"]: task for task in tasks}
    finally:
        reader.close()


def _is_waiting(crashes: Crashes, opening: int) -> bool:
    """Whether the process of an opening has asked the model, while the task is at its gate."""
    if len(crashes.server.requests()) < opening:
        return False
    number, tasks = _read(crashes.session)
    return number == opening and "gate" in tasks.get("t.follower", {"state": {}})["state"]


async def test_spec_6_12_deaths_at_a_gate_count_nothing_and_it_opens_when_its_submission_is_settled(
    tmp_path: Path,
) -> None:
    answer = tmp_path / "answer"
    with StrictServer(tmp_path / "requests.jsonl") as server:
        crashes = Crashes(tmp_path, server)
        turns = [{"text": "At last.", "until": str(answer)}]
        for death in range(1, DEATHS + 1):
            process = crashes.start(turns, *FOLLOW)
            assert wait_until(lambda opening=death: _is_waiting(crashes, opening)), process.poll()
            assert crashes.processes.kill_after(process, 0).killed
        _, tasks = _read(crashes.session)
        follower, run = tasks["t.follower"], tasks["pi.generation"]
        assert follower["state"]["status"] == "pending" and "restarts" not in follower
        assert run["restarts"] == DEATHS - 1, "the last death is counted by the next opening"
        process = crashes.start(turns, *FOLLOW)
        assert wait_until(lambda: _is_waiting(crashes, DEATHS + 1)), process.poll()
        answer.touch()
        assert crashes.settled(crashes.processes.finish(process))["text"] == "At last."
        _, tasks = _read(crashes.session)
        assert tasks["t.follower"]["state"] == {
            "status": "terminal",
            "outcome": {"status": "completed", "result": "done"},
        }
        assert "restarts" not in tasks["t.follower"]
        assert await crashes.check() == []
        *earlier, last = await _verdicts(crashes, "t.follower")
        assert last == ("resumed", "6.12") and len(earlier) == DEATHS - 1
        assert {*earlier} <= {last, (None, None)}, "a death may come before it is decided"


async def _verdicts(crashes: Crashes, kind: str) -> list[tuple[str | None, str | None]]:
    """What each report of a death says of the tasks of a kind: verdict and rule."""
    storage = await SqliteStorage.open(crashes.session, durability="process")
    try:
        state = await read_state(storage)
    finally:
        await storage.close()
    deaths = state.session_documents["dt.recovery"]["deaths"]
    return [(row.get("verdict"), row.get("rule")) for death in deaths for row in death["tasks"] if row["kind"] == kind]
