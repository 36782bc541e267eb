"""The façade as it is documented (spec 19): an embedding program, real files, a real server, a real death."""

from __future__ import annotations

from pathlib import Path

import pytest
from pydantic import BaseModel

import durable_tui
from durable_tui import (
    ConversationBusy,
    Extension,
    Harness,
    ReadAfterWrite,
    Registry,
    SessionLocked,
    StorageRejected,
    ToolCall,
    ToolResult,
    tool,
)
from durable_tui.environment import LocalEnvironment
from durable_tui.models import Models
from durable_tui.storage import MemoryStorage, SqliteStorage
from durable_tui.tools import CodingTools
from tests.tools.model_server import ModelServer


class Add(BaseModel):
    a: int
    b: int


@tool(replay="safe")
async def add(args: Add, call: ToolCall) -> ToolResult | str:
    """Add two numbers."""
    call.output("adding\n")
    call.details({"a": args.a})
    first = await call.memo("first", args.a)
    async with call.commit() as tx:
        tx.append(call.conversation_id, "sums.note", data={"first": first})
    return str(args.a + args.b)


TURNS = [
    {
        "text": "I will read it and add.",
        "calls": [
            {"name": "read", "args": {"path": "dev.json"}},
            {"name": "add", "args": {"a": 2, "b": 3}},
        ],
    },
    {"calls": [{"name": "edit", "args": {"path": "dev.json", "edits": [{"oldText": '"80"', "newText": "80"}]}}]},
    {"text": "The sum is 5 and the port a number."},
]


async def test_the_documented_program_works(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "dev.json").write_text('{"port": "80"}\n')
    with ModelServer(TURNS, strict=True) as server:
        monkeypatch.setenv("DEEPSEEK_API_KEY", "a-key")
        monkeypatch.setenv("DEEPSEEK_BASE_URL", server.base_url)
        registry = Registry()
        registry.install(CodingTools)
        registry.install(Extension("sums", tools=[add]))
        models = Models.from_env()
        storage = await SqliteStorage.open(tmp_path / "fix.sqlite", durability="intents")
        async with Harness.open(storage, models=models, registry=registry, environment=LocalEnvironment.at) as harness:
            root = await harness.root(agent={"model": "deepseek/deepseek-chat", "cwd": str(tmp_path)})
            submission = await root.submit("Read and fix the config", request_id="fix-config-1")
            settled = await submission.wait()
            assert settled.status == "done" and settled.reason is None
            entry = next(stored for stored in await root.entries() if stored.record["id"] == settled.answer)
            assert entry.record["model"][0]["content"][0]["text"] == "The sum is 5 and the port a number."
            again = await root.submit("whatever", request_id="fix-config-1")
            assert again.id == submission.id and len(server.requests) == 3
            with pytest.raises(SessionLocked, match="pid"):
                await SqliteStorage.open(tmp_path / "fix.sqlite")
            with pytest.raises(ReadAfterWrite):
                async with harness.commit() as tx:
                    tx.append(1, "host.note")
                    await tx.entries(1)
            assert not harness.inspect() and harness.idle
            assert (await harness.usage())["totalTokens"] > 0
        await models.close()
        assert not server.violations
    assert (tmp_path / "dev.json").read_text() == '{"port": 80}\n'


def test_the_names_of_the_package_root() -> None:
    assert issubclass(ConversationBusy, Exception) and issubclass(StorageRejected, Exception)
    assert set(durable_tui.__all__) >= {
        "ConversationBusy", "Extension", "Harness", "ReadAfterWrite", "Registry", "SessionLocked", "StorageRejected", "tool",
    }  # fmt: skip
    for name in durable_tui.__all__:
        assert getattr(durable_tui, name) is not None
    assert MemoryStorage().label
