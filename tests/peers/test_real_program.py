"""The whole program with a real model, over each protocol; killed in the middle of an answer too."""

from __future__ import annotations

import json
import sqlite3
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.peers.kit import HANG, KEY, Server
from tests.tools.headless import Home

pytestmark = pytest.mark.peers

# The model is small and slow: a short prompt, short answers, and no tool that could do what it makes up.
PLUGIN = '''
import dataclasses
from pydantic import BaseModel
from durable_tui import Extension, tool

class Command(BaseModel):
    command: str = ""

@tool
async def look(args: Command, call) -> str:
    """Look at something by a command."""
    return "The river is blue and the boat is red."

async def short(request):
    tools = [item for item in request.tools if item["name"] in {tools}]
    options = {{**request.options, "maxTokens": {limit}}}
    return dataclasses.replace(request, system="Be short.", tools=tools, options=options)

extension = Extension("small", tools=[look], hooks={{"beforeRequest": short}})
'''


@pytest.fixture
def home(tmp_path: Path) -> Iterator[Home]:
    home = Home(tmp_path)
    yield home
    home.wait_gone()


def served(home: Home, server: Server, api: str, tools: tuple[str, ...], limit: int) -> None:
    """Ask this server."""
    home.environment["PEER_KEY"] = KEY
    provider = f'[providers.net]\napi = "{api}"\nbase_url = "{server.base(api)}"\napi_key_env = "PEER_KEY"'
    home.write([], extra=f"[settings]\nprogress = {{partial_interval = 0.02}}\n{provider}", model="net/m")
    home.plugin("small", PLUGIN.format(tools=tools, limit=limit))


def entries(home: Home) -> list[dict[str, Any]]:
    """The assistant's messages in the session, oldest first."""
    reader = sqlite3.connect(f"file:{home.session}?mode=ro", uri=True)
    try:
        rows = reader.execute("SELECT record FROM entries ORDER BY id").fetchall()
    finally:
        reader.close()
    messages = [message for row in rows for message in json.loads(row[0]).get("model", [])]
    return [message for message in messages if message["role"] == "assistant"]


def said(message: dict[str, Any]) -> str:
    return "".join(block["text"] for block in message["content"] if block["type"] == "text")


def test_a_run_calls_a_tool_and_prints_the_answer(api: str, home: Home, calling: Server) -> None:
    served(home, calling, api, ("look",), 100)
    ended = home.run(*home.in_session(prompt="Look around and tell me what you find."))
    assert ended.status == 0, ended
    called, final = entries(home)
    assert (called["stopReason"], final["stopReason"]) == ("toolUse", "stop")
    assert said(final).strip() != "" and ended.stdout.strip() == said(final).strip()


def test_a_run_killed_in_the_middle_of_an_answer_goes_on_and_completes(api: str, home: Home, endless: Server) -> None:
    served(home, endless, api, (), 1500)
    process = home.start(home.command(*home.in_session("--json", prompt="Tell me a story about a boat.")))
    assert process.stdout is not None
    told = ""
    for line in process.stdout:  # ends with the program, if no answer ever begins
        event = json.loads(line)
        if event["type"] == "message_update":
            told += "".join(op[2] for op in event["changes"] if op[0] == "a")
        if len(told) > 20:
            break
    assert process.poll() is None, process.communicate()
    home.kill(process)
    deadline = time.monotonic() + HANG
    while any(slot["is_processing"] for slot in endless.get("/slots")):
        assert time.monotonic() < deadline, "the server still generates for a dead client"
    served(home, endless, api, (), 30)
    ended = home.run(*home.in_session(prompt=None))
    assert ended.status == 0, ended
    partial, final = entries(home)
    assert partial["stopReason"] in ("aborted", "error") and said(partial) != ""
    assert final["stopReason"] == "length" and final["usage"]["output"] == 30
    assert ended.stdout.strip() == said(final).strip() != ""
