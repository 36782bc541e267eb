"""What an extension may bring: nothing that would be taken and never used."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest

from durable_tui.agent.extension import Extension, ToolCall, tool
from tests.tools.effects import Text


async def _hook(event: Any) -> None:
    pass


@pytest.mark.parametrize("name", ["beforeCompact", "before_request"])
def test_a_hook_that_nothing_calls_is_refused_with_the_names_of_those_there_are(name: str) -> None:
    with pytest.raises(ValueError, match=f"extension mine: no hook is called '{name}'; there are beforeRequest, "):
        Extension("mine", hooks={name: _hook})


@pytest.mark.parametrize("word", ["verify", "sfae"])
def test_a_replay_policy_that_does_not_exist_is_refused(word: Any) -> None:
    async def look(args: Text, call: ToolCall) -> str:
        """Look."""
        return args.text

    with pytest.raises(ValueError, match=f"tool look: replay='{word}' does not exist; \"unsafe\" never repeats"):
        tool(replay=word)(look)
    with pytest.raises(ValueError, match=f"replay='{word}' does not exist"):
        dataclasses.replace(tool(look), replay=word)
