"""The scripted server itself, as the process that other tests start."""

from __future__ import annotations

import json
import urllib.error
import urllib.request
from pathlib import Path

from tests.tools.model_process import model_process
from tests.tools.model_server import ModelServer
from tests.wire.kit import ask, calls, fail, provider, result, text, user


async def test_the_process_plays_its_script_and_logs_each_body(tmp_path: Path) -> None:
    log = tmp_path / "log.jsonl"
    script = [{"text": "one", "calls": [{"name": "bash", "args": {"command": "ls"}}]}, {"text": "two"}]
    with model_process(tmp_path, script, "--log", str(log), "--strict", "--delay", "0.05") as url:
        model = provider(url)
        first = await ask(model)
        second = await ask(model, user(), first, result(calls(first)[0], "x"))
        assert (text(first), text(second)) == ("one", "two")
        await model.close()
    lines = [json.loads(line) for line in log.read_text().splitlines()]
    assert len(lines) == 2 and lines[1]["messages"][-1]["role"] == "tool"


def test_strict_refuses_with_400_and_logs_it(tmp_path: Path) -> None:
    log = tmp_path / "log.jsonl"
    with model_process(tmp_path, [{"text": "x"}], "--log", str(log), "--strict") as url:
        body = json.dumps({"model": "m", "messages": [{"role": "user", "content": " "}]}).encode()
        try:
            urllib.request.urlopen(urllib.request.Request(f"{url}/chat/completions", body), timeout=5)
            raise AssertionError("a blank message was taken")
        except urllib.error.HTTPError as error:
            assert error.code == 400 and "blank" in error.read().decode()
        assert len(log.read_text().splitlines()) == 1


async def test_faults_meet_as_many_requests_as_they_say() -> None:
    faults = [{"status": 503, "body": {"error": {"message": "Loading model"}}, "times": 2}, {"cut_after": 40}]
    with ModelServer([{"text": "fine " * 20, "faults": faults}]) as server:
        model = provider(server)
        kinds = [(await fail(model))[0].kind for _ in range(3)]
        assert kinds == ["overloaded", "overloaded", "truncated"]
        assert text(await ask(model)) == "fine " * 20
        assert (await fail(model, user("other")))[0].kind == "overloaded"
        await model.close()


async def test_a_script_can_be_chosen_by_the_last_input() -> None:
    with ModelServer({"match": {"child": [{"text": "I am the child"}]}, "turns": [{"text": "root"}]}) as server:
        model = provider(server)
        assert text(await ask(model, user("do the child work"))) == "I am the child"
        assert text(await ask(model, user("do it"))) == "root"
        await model.close()
