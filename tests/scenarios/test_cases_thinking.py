"""cases P21: thinking that a provider signed comes back to it unchanged, whatever happened in between."""

from __future__ import annotations

import contextlib
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from durable_tui.models import HttpSettings, Models
from durable_tui.models.known_providers import ANTHROPIC, OPENAI_CHAT
from tests.tools.model_server import ModelServer
from tests.tools.scenario import BACKENDS, Rig

SONNET = "anthropic/claude-sonnet-4-5"
THINKING = [{"thinking": "  a\nb  ", "signature": "SIG=="}, {"redacted": "RED=="}, {"text": "Let me see. "}]
SENT = [
    {"type": "thinking", "thinking": "  a\nb  ", "signature": "SIG=="},
    {"type": "redacted_thinking", "data": "RED=="},
    {"type": "text", "text": "Let me see. "},
]
TURN = {"blocks": [*THINKING, {"call": {"name": "note", "args": {"text": "n"}}}]}


def signed(body: dict[str, Any]) -> list[list[dict[str, Any]]]:
    """The assistant messages of a request that hold more than a text."""
    answers = [message["content"] for message in body["messages"] if message["role"] == "assistant"]
    return [
        [{k: v for k, v in block.items() if k != "cache_control"} for block in blocks]
        for blocks in answers
        if len(blocks) > 1
    ]


@contextlib.asynccontextmanager
async def session(server: ModelServer, backend: str, folder: Path) -> AsyncIterator[Rig]:
    """A session that speaks with the server in two protocols."""
    config = {
        "anthropic": {"api": ANTHROPIC, "base_url": server.base_url},
        "other": {"api": OPENAI_CHAT, "base_url": server.base_url},
    }
    models = Models.from_env({}, config, http=HttpSettings(read=10, linger=0.3))
    rig = Rig((), backend, folder / "session.sqlite")
    rig.provider = models  # type: ignore[assignment]
    await rig.open()
    try:
        yield rig
    finally:
        await rig.harness.close()
        await models.close()


@pytest.mark.parametrize("backend", BACKENDS)
async def test_p21_signed_thinking_survives_tools_a_kill_and_a_change_of_model(backend: str, tmp_path: Path) -> None:
    done = {"blocks": [*THINKING, {"text": "done"}]}
    script = {"turns": [TURN, done], "match": {"plain": [{"text": "elsewhere"}]}}
    with ModelServer(script, strict=True, sdk=True) as server:
        async with session(server, backend, tmp_path) as rig:

            async def ask(text: str, **choices: Any) -> None:
                await rig.root.configure(**choices)
                assert (await (await rig.root.submit(text)).wait()).status == "done"

            await ask("go", model=SONNET, thinkingLevel="medium")
            await rig.crash()
            await ask("go on")
            await ask("plain", model="other/m")
            await rig.crash()
            await ask("back", model=SONNET)
    assert server.violations == []
    assert server.apis == [ANTHROPIC] * 4 + [OPENAI_CHAT] + [ANTHROPIC] * 2
    asked = [signed(body) for body, api in zip(server.requests, server.apis, strict=True) if api == ANTHROPIC]
    assert [len(answers) for answers in asked] == [0, 1, 2, 3, 4, 5]
    assert all(json.dumps(blocks[:3]) == json.dumps(SENT) for answers in asked for blocks in answers)
    assert "SIG==" not in json.dumps(server.requests[4]) and "RED==" not in json.dumps(server.requests[4])


@pytest.mark.parametrize("backend", BACKENDS)
async def test_p21_a_kill_while_the_tool_runs_keeps_the_turn_it_belongs_to(backend: str, tmp_path: Path) -> None:
    turn = {"blocks": [*THINKING, {"call": {"name": "slow", "args": {"seconds": 30}}}]}
    with ModelServer([turn, {"text": "done"}], strict=True, sdk=True) as server:
        async with session(server, backend, tmp_path) as rig:
            await rig.root.configure(model=SONNET, thinkingLevel="medium")
            await rig.root.submit("go")
            await rig.effects.wait_started("slow")
            await rig.crash()
            await rig.idle()
    assert server.violations == [] and len(server.requests) == 2
    (blocks,) = signed(server.requests[1])
    assert json.dumps(blocks[:3]) == json.dumps(SENT) and blocks[3]["type"] == "tool_use"
    assert server.requests[1]["thinking"]["type"] == "enabled"
