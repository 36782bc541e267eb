"""Five steps: five files in order, each made by one effect, whatever kills the program in between.

A real model server in its own process, the real command line, a real bash under its supervisor, SIGKILL at random
moments. The seed is printed; nobody types a prompt again.
"""

from __future__ import annotations

import asyncio
import json
import random
from pathlib import Path

import pytest

from durable_tui.storage import SqliteStorage
from tests.tools.invariants import check_idle, read_state
from tests.tools.processes import Processes, clean_environment
from tests.tools.strict_server import StrictServer

pytestmark = pytest.mark.crash

KILLS = 60
STEPS = 5
CONFIG = """
model = "local/strict"
[providers.local]
api = "openai-chat"
base_url = "{url}"
[settings]
restart_limit = 100
durability = "process"
retry = {{max_retries = 3, base_delay = 0.05, max_delay = 0.2}}
"""


def _processes(folder: Path, url: str) -> Processes:
    folder.mkdir()
    home = folder / "home"
    (home / "durable").mkdir(parents=True, mode=0o700)
    (home / "durable" / "config.toml").write_text(CONFIG.format(url=url))
    work = folder / "work"
    work.mkdir()
    return Processes(work, clean_environment(home))


async def _check(folder: Path, server: StrictServer) -> int:
    """All files, each with one line; one submission, answered; all invariants. Gives the number of deaths found."""
    for step in range(1, STEPS + 1):
        lines = (folder / "work" / f"step{step}.txt").read_text().splitlines()
        assert len(lines) == 1, f"step{step}.txt was made {len(lines)} times"
    order = [(folder / "work" / f"step{step}.txt").stat().st_mtime_ns for step in range(1, STEPS + 1)]
    assert order == sorted(order), "the steps were made out of order"
    storage = await SqliteStorage.open(folder / "five.sqlite", durability="process")
    try:
        found = await check_idle(storage)
        state = await read_state(storage)
    finally:
        await storage.close()
    found += server.violations()
    assert not found, "\n".join(found)
    assert [record["status"] for record in state.submissions.values()] == ["done"]
    return len((state.session_documents.get("dt.recovery") or {"deaths": []})["deaths"])


async def test_five_steps_survive_sixty_kills(tmp_path: Path) -> None:
    seed = random.SystemRandom().randrange(1 << 30)
    print(f"seed {seed}")
    rng = random.Random(seed)
    order = "STEPS " + json.dumps({"count": STEPS, "seconds": 0.15})
    kills = runs = deaths = 0
    with StrictServer(tmp_path / "requests.jsonl") as server:
        while kills < KILLS:
            runs += 1
            assert runs < 60, f"seed {seed}: only {kills} kills in {runs} runs"
            folder = tmp_path / f"run{runs}"
            processes = _processes(folder, server.url)
            session = str(folder / "five.sqlite")
            first = ["run", "--session", session, "--request-id", "five", order]
            moment = 0.0
            for attempt in range(40):
                # Ever later, so that a slow machine is not killed before it gets anywhere.
                moment = rng.uniform(0.25, 0.9 + 0.15 * attempt)
                begun = attempt > 1 and Path(session).exists()  # what was killed before that has to be said again
                arguments = ["resume", session] if begun and rng.random() >= 0.3 else first
                ended = processes.kill_after(processes.program(*arguments), moment)
                if not ended.killed:
                    break
                kills += 1
                if rng.random() < 0.5:
                    processes.wait_gone()
            else:
                raise AssertionError(f"seed {seed}: run {runs} never ended")
            assert ended.status == 0, f"seed {seed}: {ended}"
            final = processes.finish(processes.program(*first))
            assert final.status == 0 and "All steps are done." in final.stdout, f"seed {seed}: {final}"
            processes.wait_gone()
            deaths += await _check(folder, server)
    print(f"{kills} kills in {runs} runs, {deaths} deaths found")
    assert deaths > KILLS // 3


async def test_no_child_of_a_dead_owner_lives_on(tmp_path: Path) -> None:
    """case UI-A06: what the command started goes with its owner within three seconds, grandchildren in other sessions too."""
    with StrictServer(tmp_path / "requests.jsonl") as server:
        processes = _processes(tmp_path / "run", server.url)
        session = str(tmp_path / "run" / "s.sqlite")
        command = "setsid sh -c 'sleep 300' & (trap '' TERM; sleep 300) & sh -c 'sleep 300 & wait' & sleep 300"
        turns = [{"calls": [["bash", {"command": command}]]}, {"text": "finished"}]
        process = processes.program("run", "--session", session, "--request-id", "x", "SCRIPT " + json.dumps(turns))
        async with asyncio.timeout(20):
            while sum("sleep 300" in line for line in processes.alive()) < 4:
                assert process.poll() is None, processes.finish(process)
                await asyncio.sleep(0.02)
        assert processes.kill_after(process, 0.0).killed
        processes.wait_gone(3.0)
        ended = processes.finish(processes.program("resume", session))
        assert ended.status == 0, ended
        assert not server.violations()


async def test_one_request_id_makes_one_submission_on_the_command_line(tmp_path: Path) -> None:
    with StrictServer(tmp_path / "requests.jsonl") as server:
        processes = _processes(tmp_path / "run", server.url)
        session = str(tmp_path / "run" / "s.sqlite")
        turns = [{"text": "once only"}]
        command = ["run", "--session", session, "--request-id", "x", "SCRIPT " + json.dumps(turns)]
        for _ in range(3):
            ended = processes.finish(processes.program(*command))
            assert ended.status == 0 and ended.stdout.strip() == "once only", ended
        assert len(server.requests()) == 1
