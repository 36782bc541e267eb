"""Real deaths at chosen points, with a real model server in its own process (spec 4.1, 6.2, 10, 15; cases R02, D06)."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.tools.crashes import TURNS, Crashes
from tests.tools.effects import Effects
from tests.tools.strict_server import StrictServer

pytestmark = pytest.mark.crash


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
