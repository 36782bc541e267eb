"""Cases with the real command line and real deaths: groups killed, two that recover at once, what was announced."""

from __future__ import annotations

import json
import os
import random
import signal
import sqlite3
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.tools.headless import Home, lines
from tests.tools.model_server import ModelServer

pytestmark = pytest.mark.crash

SERVED = """
[providers.net]
base_url = "{url}"
[settings]
restart_limit = 100
"""


@pytest.fixture
def home(tmp_path: Path) -> Iterator[Home]:
    home = Home(tmp_path)
    yield home
    home.wait_gone()


def served(home: Home, server: ModelServer) -> None:
    """Ask this server from now on."""
    home.write([], extra=SERVED.format(url=server.base_url), model="net/m")


def shown(home: Home) -> Any:
    return json.loads(home.run("show", "--json", str(home.session)).stdout)


def bash(command: str) -> dict[str, Any]:
    return {"name": "bash", "args": {"command": command}}


def test_ui_r08_r01_the_whole_group_is_killed_while_two_parallel_tools_run(home: Home) -> None:
    calls = [bash("echo a >> made; sleep 60"), bash("echo b >> made; sleep 60")]
    script = {"match": {"continue": [{"text": "It goes on."}]}, "turns": [{"calls": calls}, {"text": "I was told."}]}
    with ModelServer(script, strict=True) as server:
        served(home, server)
        process = home.busy("--request-id", "r", phase="execute")
        made = home.project / "made"
        home.wait_until(lambda _: made.exists() and len(made.read_text().split()) == 2)
        os.killpg(process.pid, signal.SIGKILL)
        process.communicate()
        home.wait_gone()
        ended = home.run(*home.in_session("--request-id", "r"))
        assert (ended.status, ended.stdout) == (0, "I was told.\n"), ended
        results = [message for message in server.requests[-1]["messages"] if message["role"] == "tool"]
        assert len(results) == 2 and all("interrupted" in str(message["content"]) for message in results)
        assert home.run(*home.in_session(prompt="continue")).stdout == "It goes on.\n"
        assert not server.violations
    assert sorted(made.read_text().split()) == ["a", "b"], "neither ran again"


def test_ui_d05_r08_two_that_resume_at_once_make_one_recovery(home: Home) -> None:
    script = [{"calls": [bash("echo once >> made; sleep 60")]}, {"text": "Recovered.", "delay": 1.5}]
    with ModelServer(script, strict=True) as server:
        served(home, server)
        process = home.busy(phase="execute")
        home.wait_until(lambda _: (home.project / "made").exists())
        home.kill(process)
        home.wait_gone()
        both = [home.start(home.command(*home.in_session(prompt=None))) for _ in range(2)]
        ended = sorted((home.finish(one) for one in both), key=lambda one: one.status)
        assert len(server.requests) == 2
    assert [one.status for one in ended] == [0, 3], ended
    assert ended[0].stdout == "Recovered.\n" and "pid" in ended[1].stderr, ended
    assert (home.project / "made").read_text() == "once\n"
    assert len(shown(home)["recovery"]["deaths"]) == 1


def test_r08_a_new_process_is_refused_until_the_old_one_has_closed(home: Home) -> None:
    """The old one is told to end; its command ignores TERM, so it takes its time."""
    home.write([{"calls": [bash("trap '' TERM; echo once >> made; while :; do sleep 1; done")]}, {"text": "Told."}])
    process = home.busy(phase="execute")
    home.wait_until(lambda _: (home.project / "made").exists())
    os.kill(process.pid, signal.SIGTERM)
    refused = 0
    while process.poll() is None:
        ended = home.run(*home.in_session(prompt=None))
        if ended.status == 3:
            refused += 1
        else:
            assert ended.status == 0 and process.wait(timeout=10) == 143, ended
    assert home.finish(process).status == 143
    assert refused, "nobody came while it was closing"
    ended = home.run(*home.in_session(prompt=None))
    assert (ended.status, ended.stdout) == (0, "Told.\n"), ended
    assert (home.project / "made").read_text() == "once\n"


def test_d06_ui_r15_ui_r16_what_was_announced_before_a_kill_is_stored(home: Home) -> None:
    """`--json` tells what was committed; killed at any moment, every entry it told of is in the file."""
    seed = random.SystemRandom().randrange(1 << 30)
    print(f"seed {seed}")
    rng = random.Random(seed)
    turns = [
        {"text": "I look.", "calls": [bash("sleep 0.1; echo one")]},
        {"text": "And write.", "calls": [bash("sleep 0.1; echo two"), bash("echo three")]},
        {"text": "All done, at some length.", "delay": 0.3},
    ]
    announced = kills = 0
    with ModelServer(turns, strict=True) as server:
        served(home, server)
        began = time.monotonic()
        assert home.run(*home.in_session("--json", "--request-id", "first")).status == 0
        alone = time.monotonic() - began
        request = 0
        for _ in range(30):
            process = home.start(home.command(*home.in_session("--json", "--request-id", f"r{request}")))
            ended = home.kill_after(process, rng.uniform(0.1, 1.0) * alone)
            request += not ended.killed
            told = [line["entry"] for line in whole(ended.stdout) if isinstance(line.get("entry"), dict)]
            kills += ended.killed
            if not home.session.exists():
                continue
            with sqlite3.connect(f"file:{home.session}?mode=ro", uri=True) as reader:
                stored = {row[0]: json.loads(row[1]) for row in reader.execute("SELECT id, record FROM entries")}
            reader.close()
            for entry in told:
                announced += 1
                record = stored.get(entry["id"])
                assert record is not None, f"seed {seed}: {entry} was told and is not there"
                assert record.get("model") == entry.get("model"), f"seed {seed}: {entry} is stored as {record}"
        home.wait_gone()
        assert home.run("resume", str(home.session)).status == 0
        assert not server.violations
    assert kills > 5 and announced > 10, f"seed {seed}: {kills} kills, {announced} entries"
    assert {record["status"] for record in shown(home)["submissions"]} == {"done"}


def whole(text: str) -> list[dict[str, Any]]:
    """The JSON lines of a stdout that may end in the middle of one."""
    return lines(text[: text.rfind("\n") + 1])
