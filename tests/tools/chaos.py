"""A session under random hands (spec 7, 8); everything random comes from one seed."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator, Callable
from typing import Any

from pydantic import BaseModel

from durable_tui.agent.extension import Extension, ToolCall, tool
from durable_tui.agent.inbox import InboxItemGone
from durable_tui.agent.settings import Settings
from durable_tui.harness.conversation import agent_value, write_first_documents
from durable_tui.models.provider import ModelError
from durable_tui.storage.errors import StorageRejected
from tests.tools.invariants import check_history
from tests.tools.scenario import AGENT, Rig
from tests.tools.schedules import clock
from tests.tools.strict_provider import Turn, call, say

STEPS = 25


class Name(BaseModel):
    name: str


class Chaos:
    """One session under random hands. Everything random comes from the seed."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.active: set[int] = set()
        self.asking: set[str] = set()
        self.problems: list[str] = []
        self.submitted: list[int] = []
        self.refusals = seed % 3  # 0: none, 1: some commits are refused, 2: some for lack of space
        self.batches: list[Any] = []
        settings = Settings(
            steering_mode=self.random.choice(["all", "one_at_a_time"]),
            follow_up_mode=self.random.choice(["all", "one_at_a_time"]),
            tool_execution=self.random.choice(["parallel", "sequential"]),
            max_retries=2,
            restart_limit=0,
            limit_turns=40,
        )
        self.rig = Rig(self._turn, settings=settings, now=clock, record=True, extensions=[self._tools()])
        for name in ("stream", "poll"):
            setattr(self.rig.provider, name, self._alone(getattr(self.rig.provider, name)))

    def _tools(self) -> Extension:
        @tool(replay="safe")  # so that a second invocation would really run it
        async def once(args: Name, call: ToolCall) -> str:
            """Take a while; the same call must never run twice at once."""
            if call.task_id in self.active:
                self.problems.append(f"task {call.task_id} was invoked twice at once")
            self.active.add(call.task_id)
            try:
                for number in range(self.random.randrange(3)):
                    call.output(f"{args.name} {number}\n")
                    await asyncio.sleep(self.random.choice([0.0, 0.05, 0.2]))
                if self.random.random() < 0.1:
                    raise RuntimeError("chance")
            finally:
                self.active.discard(call.task_id)
            return args.name

        @tool
        async def delegate(args: Name, call: ToolCall) -> str:
            """Give a conversation of its own some work; wait for it, or leave it, or fail."""
            async with call.commit() as tx:
                child = tx.create_conversation(owner={"conversationId": call.conversation_id, "taskId": call.task_id})
                await write_first_documents(tx, child["id"], agent_value(AGENT))
            submission = await self.rig.harness.conversation(child["id"]).submit("sub", request_id="sub")
            if self.random.random() < 0.2:
                raise RuntimeError("chance")
            return str((await submission.wait()).status) if self.random.random() < 0.5 else "left alone"

        return Extension("chaos", tools=[once, delegate])

    def _alone(self, inner: Callable[..., AsyncIterator[Any]]) -> Callable[..., AsyncIterator[Any]]:
        """The provider's answer; one conversation never asks twice at once."""

        async def asking(request: Any, *more: Any) -> AsyncIterator[Any]:
            if request.session_id in self.asking:
                self.problems.append("two requests of one conversation at once")
            self.asking.add(request.session_id)
            try:
                async for event in inner(request, *more):
                    yield event
            finally:
                self.asking.discard(request.session_id)

        return asking

    def _turn(self, request: Any, index: int) -> Turn:
        dice = self.random.random()
        if dice < 0.15:
            return say("broken", chunks=3, error=ModelError("chance", "network"), error_after=2)
        if dice < 0.25:
            return say("cut off", chunks=4, cut=2)
        if dice < 0.35:
            return say("made elsewhere", defer=2, after=self.random.choice([0.0, 0.05, 1.0]))
        if dice < 0.65:
            tools = ["once", "note", "peek", "seq"] + ["delegate"] * (request.messages[0]["content"] != "sub")
            names = [self.random.choice(tools) for _ in range(self.random.randint(1, 3))]
            calls = [(name, {"name": "x"} if name in ("once", "delegate") else {"text": "x"}) for name in names]
            return call(*calls, text="thinking", chunks=2, pace=self.random.choice([0.0, 0.06]))
        return say("an answer in some words", chunks=4, pace=self.random.choice([0.0, 0.06]))

    async def live(self) -> None:
        await self.rig.open()
        self._refuse_some()
        try:
            for _ in range(STEPS):
                try:
                    await self._step()
                except StorageRejected:
                    pass
                await self.rig.check()
                await asyncio.sleep(self.random.choice([0.0, 0.0, 0.01, 0.1, 1.0]))
            await self._end()
        finally:
            await self.rig.harness.close()

    def _refuse_some(self) -> None:
        """Refuse a commit now and then; for lack of space, then for a while."""
        inner, until = self.rig.storage.commit, 0.0

        async def commit(batch: Any) -> None:
            nonlocal until
            now = asyncio.get_running_loop().time()
            if self.refusals and self.random.random() < 0.08:
                if self.refusals == 1:
                    raise StorageRejected("refused by chance")
                until = now + self.random.choice([0.5, 5.0])
            if self.refusals and now < until:
                raise StorageRejected("no space by chance", full=True)
            await inner(batch)

        self.rig.storage.commit = commit

    async def _step(self) -> None:
        rig, root = self.rig, self.rig.root
        what = self.random.choice(
            ["submit"] * 6
            + ["steer"] * 3
            + ["write", "stop", "abort", "release", "withdraw", "move", "promote", "close", "crash", "task"]
        )
        items = await rig.inbox()
        some = self.random.choice(items)["id"] if items else None
        if what in ("submit", "steer"):
            mode: Any = "steer" if what == "steer" else "follow_up"
            self.submitted.append((await root.submit(f"t{len(self.submitted)}", when_busy=mode)).id)
        elif what == "write":
            message = {"role": "user", "content": "a note", "timestamp": 1}
            self.submitted.append((await root.write("pi.user", model=[message])).id)
        elif what == "stop":
            await root.stop()
        elif what == "abort":
            await root.abort()
        elif what == "release":
            await root.release()
        elif what == "task":
            live = rig.harness.inspect()
            if live:
                try:
                    await rig.harness.abort_task(self.random.choice(live)["id"])
                except LookupError:
                    pass
        elif what in ("withdraw", "move", "promote") and some is not None:
            try:
                await {
                    "withdraw": lambda: root.withdraw(some),
                    "promote": lambda: root.promote_item(some),
                    "move": lambda: root.move_item(some, self.random.randrange(4)),
                }[what]()
            except (InboxItemGone, ValueError):
                pass
        elif what in ("close", "crash"):
            self.batches += rig.storage.log
            await (rig.close() if what == "close" else rig.kill())
            await rig.reopen()
            self._refuse_some()
            if self.random.random() < 0.8:
                await rig.harness.resume()

    async def _end(self) -> None:
        rig, self.refusals = self.rig, 0
        await asyncio.wait_for(rig.harness.wait_for_idle(), 3600)
        while any(item["mode"] != "write" for item in await rig.inbox()):
            await rig.root.release()
            await asyncio.wait_for(rig.harness.wait_for_idle(), 3600)
        await rig.check(idle=True)
        self.batches += rig.storage.log
        assert check_history(self.batches) == []
        for submission in self.submitted:
            record = await rig.storage.submission(submission)
            queued = record["status"] == "queued" and record["type"] == "write"
            assert record["status"] in ("done", "unanswered") or queued, record
        assert not self.active and not self.asking and self.problems == []
