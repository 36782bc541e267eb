"""A façade made of plain values, feeding the screen views built from real record shapes (spec 17.2 to 17.4).

`FakeConversation.emit(*ops)` commits ops to the view and sends the frame, as a harness would.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from durable_tui.agent.extension import Registry
from durable_tui.delta import apply_ops, freeze
from durable_tui.host.opening import Host
from durable_tui.host.paths import Paths
from durable_tui.host.settings import Config
from durable_tui.models import Model, Offer, ProviderInfo
from durable_tui.session import Frame
from durable_tui.storage.records import StoredEntry

START = 1_790_000_000_000  # a fixed time in milliseconds


class FakeWatch:
    """Frames pushed by the fake, first the whole view."""

    def __init__(self, first: Frame[Any]) -> None:
        self.queue: asyncio.Queue[Frame[Any] | None] = asyncio.Queue()
        self.queue.put_nowait(first)

    def __aiter__(self) -> AsyncIterator[Frame[Any]]:
        return self

    async def __anext__(self) -> Frame[Any]:
        frame = await self.queue.get()
        if frame is None:
            raise StopAsyncIteration
        return frame

    async def aclose(self) -> None:
        self.queue.put_nowait(None)


def empty_view(**parts: Any) -> dict[str, Any]:
    return {
        "entries": [],
        "tools": [],
        "compactions": [],
        "inbox": {"items": []},
        "agent": {"model": {"provider": "deepseek", "modelId": "deepseek-chat"}, "cwd": "/home/me/src/app"},
        "usage": {"models": {}, "tools": {}},
        "draft": {"text": ""},
        "recovery": {"deaths": []},
        "session": {"cwd": "/home/me/src/app", "createdAt": START},
        "first": True,
        "tasks": [],
        **parts,
    }


class FakeConversation:
    """`calls` notes what the screen asked for; `fail` makes the next submit raise; `older` is served by `entries`."""

    id = 1

    def __init__(self, view: dict[str, Any] | None = None, seq: int = 1) -> None:
        self.view: Any = freeze(view or empty_view())
        self.seq = seq
        self.at = START
        self.watches: list[FakeWatch] = []
        self.calls: list[tuple[Any, ...]] = []
        self.fail: Exception | None = None
        self.older: list[dict[str, Any]] = []
        self.gate: asyncio.Event | None = None

    def watch(self) -> FakeWatch:
        watch = FakeWatch(Frame(self.view, [["r", self.view]], self.seq, self.at))
        self.watches.append(watch)
        return watch

    def emit(self, *ops: Any) -> None:
        """One commit."""
        self.seq += 1
        self.at += 100
        ops_list = [freeze(op) for op in ops]
        self.view = apply_ops(self.view, ops_list)
        for watch in self.watches:
            watch.queue.put_nowait(Frame(self.view, list(ops_list), self.seq, self.at))

    def append(self, *records: dict[str, Any]) -> None:
        """Commit entries."""
        at = len(self.view["entries"])
        self.emit(["p", ["entries"], at, 0, [{**record, "seq": self.seq + 1} for record in records]])

    async def submit(self, content: Any, **options: Any) -> None:
        self.calls.append(("submit", content, options))
        if self.gate is not None:
            await self.gate.wait()
        if self.fail is not None:
            raise self.fail

    async def entries(self, before: int | None = None, limit: int = 200) -> list[StoredEntry]:
        self.calls.append(("entries", before))
        found = [record for record in self.older if before is None or record["id"] < before]
        return [StoredEntry(record, record.get("seq", 1)) for record in found[-limit:]]

    async def set_draft(self, text: str) -> None:
        self.calls.append(("set_draft", text))
        if text != self.view["draft"]["text"]:
            self.emit(["s", ["draft", "text"], text])

    async def stop(self) -> bool:
        self.calls.append(("stop",))
        return "run" in self.view

    async def release(self, submission_id: int | None = None) -> int | None:
        self.calls.append(("release", submission_id))
        return submission_id or 1

    async def withdraw(self, submission_id: int) -> str:
        self.calls.append(("withdraw", submission_id))
        items = self.view["inbox"]["items"]
        index = next((index for index, item in enumerate(items) if item["id"] == submission_id), None)
        if index is None:
            return "already_placed"
        self.emit(["d", ["inbox", "items", index]])
        return "withdrawn"

    async def promote_item(self, submission_id: int) -> None:
        self.calls.append(("promote", submission_id))

    async def move_item(self, submission_id: int, index: int) -> None:
        self.calls.append(("move", submission_id, index))

    async def configure(self, **choices: Any) -> None:
        self.calls.append(("configure", choices))


class FakeHarness:
    epoch = 2
    end_file: str | None = None
    paused_for_space = False
    paused_reason: str | None = None

    def __init__(self, tasks: list[dict[str, Any]] | None = None) -> None:
        self.tasks = tasks or []
        self.conversation = FakeConversation()  # the one that is watched; FakeOpened puts its own here
        self.resumed = 0
        self.resumed_when: Any = None
        self.session_problem: str | None = None
        self.on_resume: Any = None

    def watch(self, conversation_id: int, *, tail: int | None = None, since: Any = None) -> FakeWatch:
        return self.conversation.watch()

    def set_tasks(self, tasks: list[dict[str, Any]]) -> None:
        self.tasks = tasks
        self.conversation.emit(["s", ["tasks"], tasks])

    async def resume(self) -> None:
        self.resumed += 1
        if self.on_resume is not None:
            self.on_resume()

    async def abort_task(self, task_id: int) -> None:
        self.set_tasks([{**task, "abortRequested": True} if task["id"] == task_id else task for task in self.tasks])

    async def retry_task(self, task_id: int) -> None:
        pass

    async def rename(self, text: str) -> None:
        pass


def provider_info(name: str, *, near: bool = False, problem: str | None = None) -> ProviderInfo:
    return ProviderInfo(
        name, "openai-chat", "http://x.test/v1", f"{name.upper()}_KEY", None, near, False, problem, near
    )


def model(name: str, window: int | None = None, prices: tuple[float, float] | None = None, **more: Any) -> Model:
    provider, _, model_id = name.partition("/")
    price = {"input": prices[0], "output": prices[1]} if prices else None
    return Model(provider, model_id, "openai-chat", context_window=window, prices=price, **more)


OFFERS = (
    Offer(
        provider_info("openai"),
        (
            model("openai/gpt-5.2", 400_000, (1.75, 14.0)),
            model("openai/gpt-5.4-mini", 400_000, (0.25, 2.0)),
            model("openai/o3", 200_000, (2.0, 8.0), tools=False),
        ),
    ),
    Offer(provider_info("anthropic"), why="no key; set the environment variable ANTHROPIC_API_KEY"),
    Offer(
        provider_info("deepseek"),
        (model("deepseek/deepseek-chat", 128_000, (0.28, 0.42)), model("deepseek/deepseek-reasoner", 128_000)),
    ),
    Offer(provider_info("ollama", near=True), asked=False),
    Offer(provider_info("llama.cpp", near=True), asked=False),
    Offer(provider_info("box")),
)
ANSWERED = (
    *OFFERS[:3],
    Offer(provider_info("ollama", near=True), (model("ollama/qwen3:8b", 32_768), model("ollama/llama3.2:3b"))),
    Offer(
        provider_info("llama.cpp", near=True),
        why="no server answers at http://127.0.0.1:8080/v1; start it: llama-server -m MODEL.gguf",
    ),
    OFFERS[5],
)


class FakeModels:
    """Lists OFFERS; once it is let `answer`, asking the servers near by gives ANSWERED. `learned` notes names."""

    def __init__(self) -> None:
        self.answer = threading.Event()
        self.learned: list[str] = []

    def listing(self, *, ask: bool = True) -> tuple[Offer, ...]:
        return ANSWERED if ask and self.answer.wait(30) else OFFERS

    def default(self, *, ask: bool = True) -> str | None:
        return "openai/gpt-5.2"

    def problem(self, name: str) -> str | None:
        if "/" not in name:
            return "is not of the form PROVIDER/MODEL"
        if name.partition("/")[0] in ("openai", "deepseek", "box"):
            return None
        return f"there is no provider {name.partition('/')[0]!r}"

    def learn(self, name: str) -> None:
        self.learned.append(name)

    def resolve(self, name: str) -> Model:
        return model(name)


@dataclass
class FakeOpened:
    """Stands in for host.opening.Opened."""

    root: FakeConversation
    harness: FakeHarness
    path: Path = Path("/home/me/.sessions/20260101-000000-abcd1234.sqlite")
    registry: Registry = field(default_factory=Registry)
    models: FakeModels = field(default_factory=FakeModels)
    host: Host = field(default_factory=lambda: Host(Paths.under(Path("/home/me")), Config(), {}))
    session: dict[str, Any] = field(default_factory=lambda: {"cwd": "/home/me/src/app"})
    warnings: list[str] = field(default_factory=list)
    closed: int = 0

    def __post_init__(self) -> None:
        self.harness.conversation = self.root
        self.root.view = freeze({**self.root.view, "tasks": self.harness.tasks})

    @property
    def id(self) -> str:
        return self.path.stem

    async def close(self) -> None:
        self.closed += 1


# --- records --------------------------------------------------------------------------------------------------


def user(entry: int, text: Any, at: int = START) -> dict[str, Any]:
    message = {"role": "user", "content": text, "timestamp": at}
    return {"id": entry, "conversationId": 1, "kind": "pi.user", "model": [message]}


def text(value: str) -> dict[str, Any]:
    return {"type": "text", "text": value}


def call(call_id: str, name: str, **arguments: Any) -> dict[str, Any]:
    return {"type": "toolCall", "id": call_id, "name": name, "arguments": arguments}


def assistant(entry: int, *content: dict[str, Any], stop: str = "stop", at: int = START, **more: Any) -> dict[str, Any]:
    message = {
        "role": "assistant",
        "content": list(content),
        "api": "openai-chat",
        "provider": "deepseek",
        "model": "deepseek-chat",
        "usage": {"input": 10, "output": 5, "cacheRead": 0, "cacheWrite": 0, "totalTokens": 15},
        "stopReason": stop,
        "timestamp": at,
        **more,
    }
    return {"id": entry, "conversationId": 1, "kind": "pi.assistant", "model": [message]}


def result(
    entry: int,
    call_id: str,
    name: str,
    value: str,
    *,
    error: str | None = None,
    details: Any = None,
    task: int | None = None,
    duration: int | None = None,
) -> dict[str, Any]:
    message: dict[str, Any] = {
        "role": "toolResult",
        "toolCallId": call_id,
        "toolName": name,
        "content": [text(value)],
        "isError": error is not None,
        "timestamp": START,
    }
    if details is not None:
        message["details"] = details
    if duration is not None:
        message["durationMs"] = duration
    record = {
        "id": entry,
        "conversationId": 1,
        "kind": "pi.tool-result",
        "model": [message],
        "data": {"diagnostics": []},
    }
    if error is not None:
        record["data"] = {"diagnostics": [{"severity": "error", "message": f"{name}: {error}", "code": error}]}
    if task is not None:
        record["byTaskId"] = task
    return record


def death(*tasks: dict[str, Any], epoch: int = 1, found_by: int = 2) -> dict[str, Any]:
    return {
        "epoch": epoch,
        "pid": 4711,
        "host": "laptop",
        "openedAt": START - 120_000,
        "lastSeq": 96,
        "lastAt": START + 123_000,
        "foundBy": found_by,
        "foundAt": START + 160_000,
        "tasks": list(tasks),
    }


def found(task: int, kind: str, phase: str, doing: str, verdict: str | None = None, **more: Any) -> dict[str, Any]:
    row = {"taskId": task, "conversationId": 1, "kind": kind, "phase": phase, "doing": doing, **more}
    if verdict is not None:
        row |= {"verdict": verdict, "rule": "10", "seq": more.get("seq", 97), "at": START + 161_000}
    return row


def task_row(task_id: int, status: str = "running", **more: Any) -> dict[str, Any]:
    """A row of a task view: of a tool call unless `kind` says otherwise."""
    facts = {"conversationId": 1, "kind": "pi.tool", "background": False, "abortRequested": False, "doing": ""}
    return {"id": task_id, **facts, "status": status, **more}


DIFF = '@@ -1,5 +1,5 @@\n {\n   "host": "localhost",\n-  "port": "8080",\n+  "port": 8080,\n   "debug": true\n }'


def recovered_scene() -> FakeOpened:
    """The scene of the look: a crash just recovered, a run going on."""
    t = START
    entries = [
        user(2, "Read and fix config/dev.json, then run the tests.", t),
        assistant(
            4,
            text("I will read the configuration first."),
            call("c1", "read", path="config/dev.json"),
            stop="toolUse",
            at=t + 20_000,
        ),
        result(6, "c1", "read", "\n".join(f"line {n}" for n in range(12))),
        assistant(
            7,
            text(
                "The port is a **string**; it has to be a number:\n\n"
                '- `config/dev.json` says `"8080"`\n- the loader wants an integer'
            ),
            call("c2", "edit", path="config/dev.json", edits=[]),
            call("c2b", "read", path="tests/test_config.py"),
            stop="toolUse",
            at=t + 60_000,
        ),
        result(12, "c2", "edit", "", error="interrupted", task=8),
        result(13, "c2b", "read", "x\n" * 40, task=9),
        assistant(
            14,
            text("The edit may have been cut short, so I look and do it again."),
            call("c3", "edit", path="config/dev.json", edits=[]),
            stop="toolUse",
            at=t + 170_000,
        ),
        result(
            16,
            "c3",
            "edit",
            "done",
            details={"path": "config/dev.json", "diff": DIFF, "added": 1, "removed": 1},
            task=15,
        ),
        assistant(
            17,
            text("Fixed. Running the tests now."),
            call("c4", "bash", command="pytest -q"),
            stop="toolUse",
            at=t + 175_000,
        ),
    ]
    view = empty_view(
        entries=[{**record, "seq": 80 + record["id"]} for record in entries],
        run={"taskId": 5, "inputs": [1]},
        generation={"attempt": 1},
        tools=[
            {
                "callId": "c4",
                "name": "bash",
                "taskId": 19,
                "status": "running",
                "output": "." * 20 + " [ 62%]\n" + "." * 16,
            },
        ],
        inbox={
            "items": [
                {"id": 30, "mode": "steer", "content": "use the dev config"},
                {"id": 31, "mode": "followUp", "content": "then update the changelog"},
                {"id": 32, "mode": "followUp", "content": "and open a pull request", "parked": True},
            ]
        },
        usage={
            "models": {
                "deepseek/deepseek-chat": {
                    "input": 1,
                    "output": 1,
                    "cacheRead": 0,
                    "cacheWrite": 0,
                    "totalTokens": 2,
                    "cost": {"total": 0.012},
                }
            },
            "tools": {},
        },
        session={"title": "fix the flaky config test", "cwd": "/home/me/src/app", "createdAt": t},
        context={"tokens": 29_440, "window": 128_000},
        recovery={
            "deaths": [
                death(
                    found(8, "pi.tool", "execute", "edit config/dev.json", "interrupted", entry=12),
                    found(9, "pi.tool", "execute", "read tests/test_config.py", "rerun", seq=98, entry=13),
                    found(3, "pi.generation", "tools", "asking deepseek-chat", "woken", seq=101),
                )
            ]
        },
    )
    now = t + 179_200
    tasks = [
        {
            "id": 5,
            "conversationId": 1,
            "kind": "pi.generation",
            "background": False,
            "status": "waiting",
            "phase": "tools",
            "waitingOn": [19],
            "abortRequested": False,
            "startedAt": now - 4_200,
            "doing": "asking deepseek-chat",
        },
        {
            "id": 15,
            "conversationId": 1,
            "kind": "pi.tool",
            "owner": 5,
            "background": False,
            "status": "terminal",
            "outcome": "completed",
            "abortRequested": False,
            "startedAt": t,
            "endedAt": t + 100,
            "doing": "edit config/dev.json",
        },
        {
            "id": 19,
            "conversationId": 1,
            "kind": "pi.tool",
            "owner": 5,
            "background": False,
            "status": "running",
            "phase": "execute",
            "abortRequested": False,
            "startedAt": now - 4_200,
            "doing": "bash pytest -q",
        },
        {
            "id": 20,
            "conversationId": 1,
            "kind": "pi.compaction",
            "background": True,
            "status": "running",
            "phase": "summarize",
            "abortRequested": False,
            "startedAt": now - 9_000,
            "doing": "compacting",
        },
    ]
    return FakeOpened(FakeConversation(view, seq=128), FakeHarness(tasks))


NOW = START + 179_200
