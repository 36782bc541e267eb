"""Test tools with an effect log: every effect appends one line `taskId name text`, at once and unbuffered.

The log is the witness of what really happened: an unsafe call has at most one line, and no line is without an intent.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from pydantic import BaseModel

from durable_tui.agent.extension import Extension, Tool, ToolCall, ToolError, ToolResult, tool
from tests.tools.waiting import until

#: Tools that must never have more than one effect a task.
UNSAFE = frozenset({"note", "slow", "boom", "seq", "gate", "talk", "stubborn", "after", "step", "delegate"})


@dataclass(frozen=True, slots=True)
class Effect:
    task_id: int
    name: str
    text: str


@dataclass
class Effects:
    """The log, in a file when `path` is given (other processes write it too), else in memory.

    `gates` are events that `gate` waits for by name; `started` tells that a tool has begun, by name of the tool;
    `before` and `after` are called around every effect, for tests that crash there.
    """

    path: Path | None = None
    gates: dict[str, asyncio.Event] = field(default_factory=dict)
    started: list[str] = field(default_factory=list)
    before: Callable[[Effect], None] | None = None
    after: Callable[[Effect], None] | None = None
    _lines: list[str] = field(default_factory=list)

    def append(self, task_id: int, name: str, text: str) -> None:
        """Do the effect: one line, one write call."""
        effect = Effect(task_id, name, text)
        if self.before is not None:
            self.before(effect)
        line = f"{task_id} {name} {text}\n"
        if self.path is None:
            self._lines.append(line)
        else:
            descriptor = os.open(self.path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
            try:
                os.write(descriptor, line.encode())
            finally:
                os.close(descriptor)
        if self.after is not None:
            self.after(effect)

    def read(self) -> list[Effect]:
        """All effects so far, in order."""
        if self.path is None:
            lines = list(self._lines)
        else:
            lines = self.path.read_text().split("\n")[:-1] if self.path.exists() else []
        found = []
        for line in lines:
            task_id, name, *text = line.rstrip("\n").split(" ", 2)
            found.append(Effect(int(task_id), name, text[0] if text else ""))
        return found

    def texts(self, name: str | None = None) -> list[str]:
        """The texts of the effects of one tool, or of all."""
        return [effect.text for effect in self.read() if name is None or effect.name == name]

    def gate(self, name: str) -> asyncio.Event:
        """The event the `gate` tool waits for under this name; made on first use."""
        return self.gates.setdefault(name, asyncio.Event())

    async def wait_started(self, name: str, count: int = 1) -> None:
        """Until a tool has begun `count` times."""
        await until(lambda: self.started.count(name) >= count)

    def extension(self) -> Extension:
        """The tools as an extension called `effects`."""
        return Extension("effects", tools=_tools(self))


class Text(BaseModel):
    text: str = "x"


class Slow(BaseModel):
    text: str = "x"
    seconds: float = 0.05


class Talk(BaseModel):
    text: str = "x"
    lines: int = 3
    seconds: float = 0.0


class Step(BaseModel):
    path: str
    seconds: float = 0.05


def _tools(log: Effects) -> list[Tool]:
    @tool
    async def note(args: Text, call: ToolCall) -> str:
        """Append a line. Unsafe."""
        log.started.append("note")
        log.append(call.task_id, "note", args.text)
        return f"noted {args.text}"

    @tool(replay="safe")
    async def peek(args: Text, call: ToolCall) -> str:
        """Look at something. Safe to repeat."""
        log.started.append("peek")
        log.append(call.task_id, "peek", args.text)
        return f"saw {args.text}"

    @tool
    async def slow(args: Slow, call: ToolCall) -> str:
        """Sleep, append a line, sleep again."""
        log.started.append("slow")
        await asyncio.sleep(args.seconds)
        log.append(call.task_id, "slow", args.text)
        await asyncio.sleep(args.seconds)
        return f"slowly {args.text}"

    @tool
    async def after(args: Slow, call: ToolCall) -> str:
        """Append a line, then sleep."""
        log.started.append("after")
        log.append(call.task_id, "after", args.text)
        await asyncio.sleep(args.seconds)
        return f"after {args.text}"

    @tool
    async def boom(args: Text, call: ToolCall) -> str:
        """Append a line, then fail."""
        log.started.append("boom")
        log.append(call.task_id, "boom", args.text)
        raise ToolError(f"boom {args.text}")

    @tool
    async def bug(args: Text, call: ToolCall) -> str:
        """Fail as code with a mistake does."""
        log.started.append("bug")
        raise KeyError(args.text)

    @tool(execution="sequential")
    async def seq(args: Slow, call: ToolCall) -> str:
        """Append a line; one at a time."""
        log.started.append("seq")
        await asyncio.sleep(args.seconds)
        log.append(call.task_id, "seq", args.text)
        return f"in turn {args.text}"

    @tool(execution="sequential")
    async def seqboom(args: Text, call: ToolCall) -> str:
        """Fail; one at a time."""
        log.started.append("seqboom")
        raise ToolError(f"boom {args.text}")

    @tool
    async def gate(args: Text, call: ToolCall) -> str:
        """Append a line, then wait until the test opens the gate."""
        log.started.append("gate")
        log.append(call.task_id, "gate", args.text)
        await log.gate(args.text).wait()
        return f"through {args.text}"

    @tool
    async def talk(args: Talk, call: ToolCall) -> str:
        """Append a line and show progress."""
        log.started.append("talk")
        log.append(call.task_id, "talk", args.text)
        for number in range(args.lines):
            call.output(f"{args.text} line {number}\n")
            await asyncio.sleep(args.seconds)
        return f"told {args.text}"

    @tool
    async def stubborn(args: Slow, call: ToolCall) -> str:
        """Append a line and take its time to end when cancelled."""
        log.started.append("stubborn")
        log.append(call.task_id, "stubborn", args.text)
        try:
            await asyncio.sleep(3600)
        finally:
            await asyncio.sleep(args.seconds)
        return "never"

    @tool
    async def unasked(args: Text, call: ToolCall) -> str:
        """Raise a cancellation nobody asked for (spec 6.3)."""
        log.started.append("unasked")
        raise asyncio.CancelledError

    @tool
    async def terminate(args: Text, call: ToolCall) -> ToolResult:
        """End the run with this result."""
        return ToolResult(f"over {args.text}", terminate=True)

    @tool
    async def empty(args: Text, call: ToolCall) -> str:
        """Answer nothing at all."""
        return ""

    @tool
    async def wrong(args: Text, call: ToolCall) -> ToolResult:
        """Return an error result without raising."""
        return ToolResult(f"wrong {args.text}", is_error=True)

    @tool(execution="sequential")
    async def step(args: Step, call: ToolCall) -> str:
        """Sleep, then make a file; a second making would show as a second line in it."""
        log.started.append("step")
        await asyncio.sleep(args.seconds)
        descriptor = os.open(args.path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
        try:
            log.append(call.task_id, "step", os.path.basename(args.path))
            os.write(descriptor, f"{call.task_id}\n".encode())
        finally:
            os.close(descriptor)
        return f"made {args.path}"

    plain = [note, peek, slow, after, boom, bug, gate, talk, stubborn, unasked, terminate, empty, wrong]
    return [*plain, seq, seqboom, step]


def eyes(began: asyncio.Event, free: asyncio.Event | None = None) -> Extension:
    """An extension whose safe tool `stare` sets `began` and looks until it is `free`; without that it never ends."""

    @tool(replay="safe")
    async def stare(args: Text, call: ToolCall) -> str:
        """Look at something for a long time."""
        began.set()
        await (free or asyncio.Event()).wait()
        return "seen"

    return Extension("eyes", tools=[stare])
