"""Real deaths at chosen points, with a real model server in its own process (spec 4.1, 6.2, 10, 15; cases R02, D06)."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from durable_tui.storage import SqliteStorage
from tests.tools.effects import Effects
from tests.tools.invariants import check_effects, check_idle, read_state
from tests.tools.processes import Ended, Processes, clean_environment
from tests.tools.scenario import codes
from tests.tools.strict_server import StrictServer

pytestmark = pytest.mark.crash

TURNS = [
    {"text": "I look first.", "calls": [["peek", {"text": "p"}]], "chunks": 4},
    {"calls": [["note", {"text": "a"}], ["note", {"text": "b"}]]},
    {"text": "All of it is done.", "chunks": 6},
]


class Crashes:
    """One session, one server; the worker is started again until it ends by itself."""

    def __init__(self, tmp_path: Path, server: StrictServer) -> None:
        self.server = server
        self.session = tmp_path / "session.sqlite"
        self.log = tmp_path / "effects.log"
        environment = clean_environment(tmp_path, {"OPENAI_BASE_URL": server.url, "OPENAI_API_KEY": "test-key"})
        self.processes = Processes(tmp_path, environment)

    def start(self, turns: list[dict[str, Any]], *more: str) -> Any:
        prompt = "SCRIPT " + json.dumps(turns)
        return self.processes.worker(
            str(self.session), prompt, "--effects", str(self.log), "--request-id", "job", *more
        )

    def run(self, turns: list[dict[str, Any]], *more: str) -> Ended:
        return self.processes.finish(self.start(turns, *more))

    def settled(self, ended: Ended) -> dict[str, Any]:
        assert ended.status == 0, f"{ended.status}\n{ended.stdout}\n{ended.stderr}"
        line: dict[str, Any] = json.loads(ended.stdout.strip().split("\n")[-1])
        return line

    async def check(self) -> list[str]:
        """The invariants of the finished session; gives the codes of its results' diagnostics."""
        self.processes.wait_gone()
        storage = await SqliteStorage.open(self.session, durability="process")
        try:
            found = await check_idle(storage)
            found += await check_effects(storage, Effects(self.log).read())
            found += self.server.violations()
            state = await read_state(storage)
        finally:
            await storage.close()
        assert not found, "\n".join(found)
        assert len(state.submissions) == 1, "one request id, one submission"
        return codes(entry for _, entry in sorted(state.entries.items()))


@pytest.fixture
def crashes(tmp_path: Path) -> Iterator[Crashes]:
    with StrictServer(tmp_path / "requests.jsonl") as server:
        yield Crashes(tmp_path, server)


async def test_nothing_dies(crashes: Crashes) -> None:
    assert crashes.settled(crashes.run(TURNS))["text"] == "All of it is done."
    assert Effects(crashes.log).texts() == ["p", "a", "b"]
    assert await crashes.check() == []


async def test_killed_after_admission(crashes: Crashes) -> None:
    assert crashes.run(TURNS, "--die", "admitted").killed
    settled = crashes.settled(crashes.run(TURNS))
    assert (settled["status"], settled["text"]) == ("done", "All of it is done.")
    assert await crashes.check() == []


async def test_killed_between_intent_and_effect(crashes: Crashes) -> None:
    unsafe = [{"calls": [["note", {"text": "a"}]]}, {"text": "finished"}]
    assert crashes.run(unsafe, "--die", "intent").killed
    assert crashes.settled(crashes.run(unsafe))["status"] == "done"
    assert Effects(crashes.log).texts("note") == [], "nobody can know that it had not happened"
    assert await crashes.check() == ["interrupted"]


async def test_r02_killed_between_effect_and_result(crashes: Crashes) -> None:
    unsafe = [{"calls": [["note", {"text": "a"}]]}, {"text": "finished"}]
    assert crashes.run(unsafe, "--die", "effect").killed
    assert crashes.settled(crashes.run(unsafe))["status"] == "done"
    assert Effects(crashes.log).texts("note") == ["a"]
    assert await crashes.check() == ["interrupted"]


async def test_r02_a_safe_tool_killed_between_effect_and_result_runs_again(crashes: Crashes) -> None:
    safe = [{"calls": [["peek", {"text": "a"}]]}, {"text": "finished"}]
    assert crashes.run(safe, "--die", "effect").killed
    assert crashes.settled(crashes.run(safe))["status"] == "done"
    assert Effects(crashes.log).texts("peek") == ["a", "a"]
    assert await crashes.check() == []


async def test_r02_killed_between_result_and_successor(crashes: Crashes) -> None:
    unsafe = [{"calls": [["note", {"text": "a"}]]}, {"text": "finished"}]
    assert crashes.run(unsafe, "--die", "result").killed
    assert crashes.settled(crashes.run(unsafe))["status"] == "done"
    assert Effects(crashes.log).texts("note") == ["a"]
    assert await crashes.check() == []


async def test_r09_killed_while_the_model_streams(crashes: Crashes) -> None:
    slow = [{"text": "word " * 40, "chunks": 40, "pace": 0.05}]
    process = crashes.start(slow)
    while not crashes.server.requests():
        assert process.poll() is None, crashes.processes.finish(process)
    ended = crashes.processes.kill_after(process, 0.6)
    assert ended.killed
    settled = crashes.settled(crashes.run(slow))
    assert settled["text"].split() == ["word"] * 40
    assert len(crashes.server.requests()) == 2
    assert await crashes.check() == []


async def test_d06_r08_killed_after_every_commit_and_before_every_commit_and_during_the_recovery(
    crashes: Crashes,
) -> None:
    """cases D06, R08: the same session dies after its 2nd, 3rd, … commit of each opening until it is finished."""
    deaths = 0
    while True:
        where = ("after", "before")[deaths % 2]
        ended = crashes.run(TURNS, "--die", f"{where}:{2 + deaths % 4}", "--restart-limit", "100")
        if not ended.killed:
            break
        deaths += 1
        assert deaths < 60, "it never gets to its end"
    assert crashes.settled(ended)["text"] == "All of it is done."
    assert deaths > 4
    await crashes.check()


@pytest.mark.parametrize("where", ["before", "after"])
async def test_d06_each_commit_of_a_run_is_a_kill_point(tmp_path: Path, where: str) -> None:
    turns = [{"calls": [["note", {"text": "a"}]]}, {"text": "finished"}]
    with StrictServer(tmp_path / "requests.jsonl") as server:
        number = 0
        while True:
            number += 1
            folder = tmp_path / f"{number}"
            folder.mkdir()
            crashes = Crashes(folder, server)
            ended = crashes.run(turns, "--die", f"{where}:{number}")
            if not ended.killed:
                break
            settled = crashes.settled(crashes.run(turns))
            assert (settled["status"], settled["text"]) == ("done", "finished"), f"killed {where} commit {number}"
            await crashes.check()
        assert number > 8
