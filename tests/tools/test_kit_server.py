"""The strict server answers from the request alone and refuses what the rules forbid."""

from __future__ import annotations

import json
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any

import pytest

from tests.tools.strict_server import StrictServer, next_turn


def _post(server: StrictServer, messages: list[Any]) -> list[Any]:
    body = json.dumps({"model": "m", "stream": True, "messages": messages}).encode()
    asked = urllib.request.Request(f"{server.url}/chat/completions", body, {"content-type": "application/json"})
    with urllib.request.urlopen(asked, timeout=10) as answer:
        lines = answer.read().decode().split("\n")
    return [json.loads(line[6:]) for line in lines if line.startswith("data: {")]


def _answered(turn: dict[str, Any], *results: str) -> list[dict[str, Any]]:
    calls = [
        {
            "id": f"{turn['prefix']}-{index}",
            "type": "function",
            "function": {"name": name, "arguments": json.dumps(arguments)},
        }
        for index, (name, arguments) in enumerate(turn["calls"])
    ]
    told = [
        {"role": "tool", "tool_call_id": call["id"], "content": text} for call, text in zip(calls, results, strict=True)
    ]
    return [{"role": "assistant", "content": None, "tool_calls": calls}, *told]


def test_a_script_in_the_prompt_is_followed_over_http(tmp_path: Path) -> None:
    prompt = "SCRIPT " + json.dumps([{"calls": [["note", {"text": "a"}]]}, {"text": "finished", "chunks": 3}])
    with StrictServer(tmp_path / "log.jsonl") as server:
        first = _post(server, [{"role": "user", "content": prompt}])
        deltas = [choice["delta"] for event in first for choice in event["choices"]]
        pieces = [call["function"]["arguments"] for delta in deltas for call in delta.get("tool_calls", [])]
        assert json.loads("".join(pieces)) == {"text": "a"}
        turn = next_turn([{"role": "user", "content": prompt}])
        second = _post(server, [{"role": "user", "content": prompt}, *_answered(turn, "noted a")])
        assert "".join(c["delta"].get("content", "") for e in second for c in e["choices"]) == "finished"
        with pytest.raises(urllib.error.HTTPError) as caught:
            _post(server, [{"role": "user", "content": prompt}, _answered(turn, "noted a")[0]])
        assert caught.value.code == 400
        assert len(server.requests()) == 3 and server.violations()


def test_steps_are_made_once_and_doubt_is_looked_into() -> None:
    order = {"role": "user", "content": 'STEPS {"count": 2, "seconds": 0}'}
    messages: list[dict[str, Any]] = [order]
    commands = []
    for answer in ("made it", "Tool bash was interrupted and may have partially run", "is missing", "made it"):
        turn = next_turn(messages)
        commands.append(turn["calls"][0][1]["command"])
        messages += _answered(turn, answer)
    assert [command.split()[0] for command in commands] == ["sleep", "sleep", "test", "sleep"]
    assert [command[-1] for command in commands] == ["1", "2", "2", "2"]
    assert next_turn(messages) == {"text": "All steps are done."}
    there = messages[:3] + _answered(next_turn(messages[:3]), "interrupted")
    there += _answered(next_turn(there), "is there")
    assert next_turn(there) == {"text": "All steps are done."}
