"""Answers made in the background by a real server, and a program that is killed while it waits (spec 9, 15).

The server is a process of its own, as the provider is: what it was asked to make goes on whatever becomes of us.
"""

from __future__ import annotations

import json
import random
import signal
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from durable_tui.storage import SqliteStorage
from tests.tools.headless import Home, in_phase, lines, openings
from tests.tools.invariants import check_idle
from tests.tools.model_process import model_process

pytestmark = pytest.mark.crash

PROVIDER = """
[providers.cloud]
api = "openai-responses"
base_url = "{url}"
background = true
[settings]
restart_limit = 100
durability = "process"
retry = {{max_retries = 3, base_delay = 0.05, max_delay = 0.2}}
"""
CALLS = {"calls": [{"name": "bash", "args": {"command": "echo once >> made.txt"}}], "polls": 1, "background_delay": 1}
DONE = {"text": "It was made elsewhere.", "thinking": "so far", "polls": 1, "background_delay": 1}


class Background(Home):
    """The program, its home, and the server's own account of what it was asked."""

    def __init__(self, folder: Path, url: str, accesses: Path) -> None:
        super().__init__(folder)
        self.write([], extra=PROVIDER.format(url=url), model="cloud/gpt-5.2")
        self._url = url
        self._accesses = accesses

    def asked(self, method: str) -> list[dict[str, Any]]:
        """The requests of a kind so far, in order."""
        rows = [json.loads(line) for line in self._accesses.read_text().splitlines()] if self._accesses.exists() else []
        return [row for row in rows if row["method"] == method and "/responses" in row["path"]]

    def state(self) -> dict[str, Any]:
        with urllib.request.urlopen(self._url.removesuffix("/v1") + "/state", timeout=10) as reply:
            answer: dict[str, Any] = json.load(reply)
        return answer

    def wait_asked(self, method: str, count: int, seconds: float = 60) -> None:
        end = time.monotonic() + seconds
        while len(self.asked(method)) < count:
            assert time.monotonic() < end, f"the server got no {count} {method}"
            time.sleep(0.02)

    async def check(self) -> None:
        """The invariants of the finished session; each attempt was made once and, once stored, only looked for."""
        storage = await SqliteStorage.open(self.session, durability="process")
        try:
            found = await check_idle(storage)
        finally:
            await storage.close()
        state = self.state()
        found += state["violations"]
        assert not found, "\n".join(found)
        jobs = state["jobs"]
        keys = [job["key"] for job in jobs.values()]
        assert len(keys) == len(set(keys)) and all(keys), "one answer for each attempt"
        looked: set[str] = set()
        for row in sorted([*self.asked("POST"), *self.asked("GET")], key=lambda row: row["at"]):
            if row["method"] == "GET":
                looked.add(jobs[row["path"].partition("?")[0].rpartition("/")[2]]["key"])
            else:
                assert row["key"] not in looked, "an answer whose handle was stored was asked for anew"


@pytest.fixture
def background(tmp_path: Path) -> Iterator[Background]:
    accesses = tmp_path / "accesses.jsonl"
    script = [CALLS, DONE]
    with model_process(tmp_path, script, "--access-log", str(accesses), "--strict", "--sdk") as url:
        yield Background(tmp_path / "home", url, accesses)


async def test_spec_9_three_deaths_while_an_answer_is_made_and_one_request_in_all(background: Background) -> None:
    home = background
    words = home.in_session("--request-id", "job")
    for number, looks in enumerate((0, 1, 1), 1):
        process = home.start(home.command(*words))
        home.wait_until(lambda reader, number=number: openings(reader) == number and in_phase(reader, "poll"))
        home.wait_asked("GET", looks)
        home.kill(process)
        assert len(home.asked("POST")) == 1
    ended = home.run(*words)
    assert ended.status == 0 and ended.stdout == "It was made elsewhere.\n", ended
    assert len(home.asked("POST")) == 2, "one for each turn"
    assert (home.project / "made.txt").read_text() == "once\n"
    await home.check()
    assert all(not job["cancels"] for job in home.state()["jobs"].values()), "a death is no abort"


async def test_spec_15_the_report_says_that_the_wait_went_on(background: Background) -> None:
    home = background
    process = home.busy("--request-id", "job", phase="poll")
    home.kill(process)
    ended = home.run("resume", str(home.session), "--json")
    assert ended.status == 0, ended
    [row] = [event["task"] for event in lines(ended.stdout) if event["type"] == "recovery"]
    assert (row["phase"], row["verdict"]) == ("poll", "resumed")
    assert row["doing"] == "waiting for gpt-5.2's answer, made at cloud"
    polls = [event["pollAt"] for event in lines(ended.stdout) if event["type"] == "deferred_poll"]
    assert polls and polls == sorted(polls)
    await home.check()


@pytest.mark.parametrize("how", ["timeout", "interrupt"])
async def test_spec_20_a_run_that_ends_in_order_leaves_its_answer_being_made(background: Background, how: str) -> None:
    home = background
    if how == "timeout":
        ended = home.run(*home.in_session("--request-id", "job", "--timeout", "1.5"))
        assert ended.status == 124, ended
    else:
        ended = home.stop(home.busy("--request-id", "job", phase="poll"), signal.SIGINT)
        assert ended.status == 130, ended
    assert len(home.asked("POST")) == 1
    again = home.run(*home.in_session("--request-id", "job"))
    assert again.status == 0 and again.stdout == "It was made elsewhere.\n", again
    assert "waiting for the answer; it is being made at the provider" in again.stderr
    assert len(home.asked("POST")) == 2
    await home.check()
    assert all(not job["cancels"] for job in home.state()["jobs"].values())


async def test_spec_9_random_deaths_make_no_answer_twice(background: Background) -> None:
    seed = random.SystemRandom().randrange(1 << 30)
    print(f"seed {seed}")
    rng = random.Random(seed)
    home = background
    command = home.command(*home.in_session("--request-id", "job"))
    kills = 0
    for attempt in range(60):
        # Ever later, so that a slow machine is not killed before it gets anywhere.
        ended = home.kill_after(home.start(command), rng.uniform(0.3, 1.5 + 0.2 * attempt))
        if not ended.killed:
            break
        kills += 1
    assert ended.status == 0, f"seed {seed}: {ended}"
    final = home.run(*home.in_session("--request-id", "job"))
    assert final.status == 0 and final.stdout == "It was made elsewhere.\n", f"seed {seed}: {final}"
    await home.check()
    jobs = home.state()["jobs"]
    print(f"{kills} kills, {len(home.asked('POST'))} requests, {len(home.asked('GET'))} looks, {len(jobs)} answers")
    made = home.project / "made.txt"
    assert not made.exists() or made.read_text() == "once\n", "an interrupted command is not run again"
