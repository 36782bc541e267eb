"""A running call outside the harness: runs a tool in a real directory and keeps what it shows."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import uuid
from pathlib import Path
from typing import Any

from durable_tui.agent.extension import Tool, ToolResult
from durable_tui.environment.base import Environment, EnvironmentScope
from durable_tui.environment.local import LocalEnvironment


class FakeCall:
    """What a tool gets as its call (spec 10)."""

    def __init__(self, name: str, environment: Environment) -> None:
        self.id = "call-1"
        self.name = name
        self.task_id = 7
        self.conversation_id = 1
        self.environment = environment
        self.shown: list[str] = []
        self.shown_details: Any = None
        self.diagnostics: list[tuple[str, str, str | None]] = []

    def output(self, text: str) -> None:
        self.shown.append(text)

    def details(self, value: Any) -> None:
        self.shown_details = value

    def diagnostic(self, severity: str, message: str, code: str | None = None) -> None:
        self.diagnostics.append((severity, message, code))

    def commit(self) -> Any:
        raise AssertionError("the built-in tools commit nothing of their own")

    async def memo(self, name: str, candidate: Any) -> Any:
        return candidate


class Bench:
    """A directory with an environment, and a way to call tools in it.

    `call` validates like the harness does; a raised ToolError or EnvironmentFailed comes through. `mark` is in the
    environment of every command.
    """

    def __init__(self, cwd: Path, files: Path | None = None) -> None:
        self.cwd = cwd
        self.mark = uuid.uuid4().hex
        self.environment: Environment = LocalEnvironment.at(
            EnvironmentScope(str(cwd), files=None if files is None else str(files), task_id=7, session=self.mark)
        )
        self.last: FakeCall | None = None

    def put(self, name: str, content: bytes) -> Path:
        path = self.cwd / name
        path.write_bytes(content)
        return path

    async def call(self, tool: Tool, **arguments: Any) -> ToolResult:
        if tool.repair is not None:
            arguments = tool.repair(arguments)
        self.last = FakeCall(tool.name, self.environment)
        result = await tool.run(tool.validate(arguments), self.last)
        return result if isinstance(result, ToolResult) else ToolResult(result)

    @property
    def shown(self) -> str:
        assert self.last is not None
        return "".join(self.last.shown)


def text_of(result: ToolResult) -> str:
    assert isinstance(result.content, str)
    return result.content


def marked(mark: str) -> list[int]:
    """Living processes whose environment holds a text (zombies have none)."""
    found = []
    for name in os.listdir("/proc"):
        if name.isdigit() and int(name) != os.getpid():
            try:
                block = Path("/proc", name, "environ").read_bytes()
            except OSError:
                continue
            if mark.encode() in block:
                found.append(int(name))
    return found


def children() -> list[int]:
    """Child processes of this one, zombies included."""
    found = []
    for name in os.listdir("/proc"):
        if name.isdigit():
            try:
                fields = Path("/proc", name, "stat").read_bytes().rpartition(b")")[2].split()
            except OSError:
                continue
            if int(fields[1]) == os.getpid():
                found.append(int(name))
    return found


def owner(*arguments: str) -> subprocess.Popen[str]:
    """`tests/tools/owner.py`, in a session of its own."""
    return subprocess.Popen(
        [sys.executable, "-m", "tests.tools.owner", *arguments],
        cwd=Path(__file__).resolve().parents[2],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )


def measure(folder: Path, command: str) -> dict[str, Any]:
    """What a command cost the process that ran it: a fresh one, so that its peak of memory is this command's."""
    out, _ = owner("measure", str(folder), command).communicate(timeout=300)
    found: dict[str, Any] = json.loads(out)
    return found
