"""The running call as its tool sees it: progress goes into its slot at intervals (spec 10)."""

from __future__ import annotations

from typing import cast

from durable_tui.agent.documents import LIVE
from durable_tui.agent.extension import Severity, Tool
from durable_tui.agent.shapes import Diagnostic, Slot
from durable_tui.agent.slots import find_slot
from durable_tui.agent.throttle import Throttle
from durable_tui.delta import Json, freeze
from durable_tui.engine.task_handle import InvocationCommit, InvocationEnded, TaskHandle
from durable_tui.environment.base import Environment
from durable_tui.ground.bounded_text import Tail
from durable_tui.models.messages import ToolCallBlock

OUTPUT_RATE = 100 * 1024  # bytes of progress a second that commits may cost


class RunningCall:
    """The running call as its tool sees it (see ToolCall)."""

    def __init__(
        self, task: TaskHandle, call: ToolCallBlock, tool: Tool, environment: Environment, interval: float
    ) -> None:
        self.id = call["id"]
        self.name = call["name"]
        self.task_id = task.id
        self.conversation_id = task.conversation_id
        self.environment = environment
        self.diagnostics: list[Diagnostic] = []
        self._task = task
        self._tail = Tail(tool.max_lines, tool.max_bytes)
        self._details: Json = None
        self._paced = 0
        self._throttle = Throttle(interval, self._progress, self._pace)

    def output(self, text: str) -> None:
        if text:
            self._tail.append(text)
            self._throttle.touch()

    def details(self, value: object) -> None:
        self._details = cast("Json", freeze(value))
        self._throttle.touch()

    def diagnostic(self, severity: Severity, message: str, code: str | None = None) -> None:
        item: Diagnostic = {"severity": severity, "message": message}
        if code is not None:
            item["code"] = code
        self.diagnostics.append(item)
        self._throttle.touch()

    def commit(self) -> InvocationCommit:
        return self._task.commit()

    async def memo(self, name: str, candidate: Json) -> Json:
        return await self._task.memo(name, candidate)

    async def stop(self) -> None:
        """Commit no more progress."""
        await self._throttle.stop()

    def _pace(self) -> float:
        written = self._tail.written - self._paced
        self._paced = self._tail.written
        return written / OUTPUT_RATE

    async def _progress(self) -> None:
        try:
            async with self._task.commit(flush=False) as tx:
                live = await tx.document(LIVE, self.conversation_id)
                slot = find_slot(live.value, self.task_id)
                if slot is not None and slot["status"] == "running":
                    self._write(slot)
        except InvocationEnded:
            return

    def _write(self, slot: Slot) -> None:
        tail = self._tail.result()
        if tail.lines:
            slot["output"] = tail.kept
        if tail.dropped_bytes:
            slot["droppedBytes"] = tail.dropped_bytes
        if tail.dropped_lines:
            slot["droppedLines"] = tail.dropped_lines
        if self._details is not None and slot.get("details") != self._details:
            slot["details"] = self._details
        if self.diagnostics and slot.get("diagnostics") != self.diagnostics:
            slot["diagnostics"] = self.diagnostics
