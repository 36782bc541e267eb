"""`pi.tool`: one tool call, with its intent committed before its effect (spec 10, 17.5)."""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING, Any

from durable_tui.agent.cleanup import find_slot
from durable_tui.agent.documents import LIVE
from durable_tui.agent.extension import Extension, Tool, ToolResult
from durable_tui.agent.generation.partial_answer import Throttle
from durable_tui.agent.images import sendable
from durable_tui.agent.inbox import load_scene
from durable_tui.agent.usage import record_usage
from durable_tui.delta import freeze
from durable_tui.engine.commit_with_retry import patiently
from durable_tui.engine.recovery import note_verdict
from durable_tui.engine.task import InvocationCommit, InvocationEnded, TaskContext, TaskDefinition, checkpoint_of
from durable_tui.environment.base import Environment
from durable_tui.ground.bounded_text import MARGIN_BYTES, MARGIN_LINES, Tail, limit_text
from durable_tui.session import Transaction
from durable_tui.storage.errors import StorageError
from durable_tui.storage.records import TaskRecord

if TYPE_CHECKING:
    from durable_tui.engine.kernel import Kernel

OUTPUT_RATE = 100 * 1024  # bytes of progress a second that commits may cost


class RunningCall:
    """The running call as its tool sees it (see ToolCall)."""

    def __init__(self, context: TaskContext, call: dict[str, Any], tool: Tool, environment: Environment) -> None:
        self.id = call["id"]
        self.name = call["name"]
        self.task_id = context.id
        self.conversation_id = context.conversation_id
        self.environment = environment
        self.diagnostics: list[dict[str, Any]] = []
        self._context = context
        self._tail = Tail(tool.max_lines, tool.max_bytes)
        self._details: Any = None
        self._paced = 0
        self._throttle = Throttle(context.kernel.settings.output_interval, self._progress, self._pace)

    def output(self, text: str) -> None:
        if text:
            self._tail.append(text)
            self._throttle.touch()

    def details(self, value: Any) -> None:
        self._details = freeze(value)
        self._throttle.touch()

    def diagnostic(self, severity: str, message: str, code: str | None = None) -> None:
        item = {"severity": severity, "message": message}
        if code is not None:
            item["code"] = code
        self.diagnostics.append(item)
        self._throttle.touch()

    def commit(self) -> InvocationCommit:
        return self._context.commit()

    async def memo(self, name: str, candidate: Any) -> Any:
        return await self._context.memo(name, candidate)

    async def stop(self) -> None:
        """Commit no more progress."""
        await self._throttle.stop()

    def _pace(self) -> float:
        written = self._tail.written - self._paced
        self._paced = self._tail.written
        return written / OUTPUT_RATE

    async def _progress(self) -> None:
        try:
            async with self._context.commit(flush=False) as tx:
                scene_live = await tx.document(LIVE, self.conversation_id)
                for slot in scene_live.value.get("tools", ()):
                    if slot.get("taskId") == self.task_id and slot["status"] == "running":
                        self._write(slot)
        except InvocationEnded:
            return

    def _write(self, slot: Any) -> None:
        tail = self._tail.result()
        if tail.lines:
            slot["output"] = tail.kept
        for key, value in (
            ("droppedBytes", tail.dropped_bytes or None),
            ("droppedLines", tail.dropped_lines or None),
            ("details", self._details),
            ("diagnostics", self.diagnostics or None),
        ):
            if value is not None and slot.get(key) != value:
                slot[key] = value


# -- results ---------------------------------------------------------------------------------------------------------


def error_result(name: str, code: str, what: str, partial: str = "") -> ToolResult:
    """An error the harness writes: the durable partial output, then its block (spec 17.5)."""
    message = f"Tool {name} {what}"
    block = f"<harness>\n[error] {message}\n</harness>"
    text = f"{partial.rstrip()}\n\n{block}" if partial.strip() else block
    return ToolResult(text, is_error=True, diagnostics=[{"severity": "error", "message": message, "code": code}])


def _invalid(tool: Tool, why: object) -> ToolResult:
    return error_result(tool.name, "invalid_arguments", f"was called with invalid arguments: {why}")


def append_result(
    tx: Transaction,
    context: TaskContext,
    call: dict[str, Any],
    result: ToolResult,
    now: int,
    duration: int | None = None,
) -> int:
    """Append the `pi.tool-result` entry of a call; returns its id."""
    message: dict[str, Any] = {
        "role": "toolResult",
        "toolCallId": call["id"],
        "toolName": call["name"],
        "content": _blocks(result.content),
        "isError": result.is_error,
        "timestamp": now,
    }
    for key, value in (("details", result.details), ("durationMs", duration), ("usage", result.usage)):
        if value is not None:
            message[key] = value
    data = {"diagnostics": result.diagnostics} if result.diagnostics else None
    return tx.append(context.conversation_id, "pi.tool-result", model=[message], data=data, by_task=context.id)["id"]


def _blocks(content: str | list[dict[str, Any]]) -> list[dict[str, Any]]:
    if isinstance(content, str):
        return [{"type": "text", "text": content}] if content else []
    return content


def _limited(result: ToolResult, tool: Tool) -> ToolResult:
    """The result within the tool's limits; what was dropped is counted and reported (spec 10)."""
    blocks: list[dict[str, Any]] = []
    diagnostics = list(result.diagnostics)
    for block in _blocks(result.content):
        if block.get("type") == "text":
            limited = limit_text(block["text"], tool.keep, tool.max_lines + MARGIN_LINES, tool.max_bytes + MARGIN_BYTES)
            if limited.dropped_bytes:
                where = "end" if tool.keep == "head" else "start"
                text = f"{limited.dropped_lines} lines, {limited.dropped_bytes} bytes dropped from the {where}"
                diagnostics.append({"severity": "warn", "message": text, "code": "output_limited"})
                block = {**block, "text": limited.kept}
        blocks.append(block)
    result.content = blocks
    result.diagnostics = diagnostics
    return result


async def _settle(
    context: TaskContext,
    call: dict[str, Any],
    result: ToolResult,
    *,
    status: str = "completed",
    duration: int | None = None,
    verdict: str | None = None,
) -> None:
    """The result entry, the slot and the outcome, in one commit."""
    kernel = context.kernel
    control = {
        key: value
        for key, value in (
            ("terminate", result.terminate or None),
            ("handoff", result.handoff),
            ("addTools", result.add_tools),
        )
        if value is not None
    }

    async def commit(tx: Transaction) -> None:
        live = await tx.document(LIVE, context.conversation_id)
        entry = append_result(tx, context, call, result, kernel.session.now(), duration)
        for slot in live.value.get("tools", ()):
            if slot.get("taskId") == context.id:
                slot["status"] = "done"
                slot["entry"] = entry
                if verdict is not None:
                    slot["recovered"] = verdict
                for key in ("output", "details", "droppedBytes", "droppedLines", "diagnostics"):
                    slot.pop(key, None)
        await record_usage(tx, context.conversation_id, "tools", call["name"], result.usage)
        outcome: dict[str, Any] = {"entryId": entry}
        if control:
            outcome["control"] = control
        if verdict is not None:
            await note_verdict(kernel, tx, context.id, verdict, "10", entry=entry)
        if status == "completed":
            context.complete(tx, outcome)
        elif status == "aborted":
            context.end_aborted(tx, result=outcome)
        else:
            context.fail(tx, _first_line(result), result=outcome)

    await patiently(context, commit)


def _first_line(result: ToolResult) -> str:
    for diagnostic in result.diagnostics:
        return str(diagnostic["message"])
    return "the tool failed"


# -- phases ----------------------------------------------------------------------------------------------------------


async def call_phase(context: TaskContext) -> None:
    """Resolve, validate, ask the hooks, commit the intent, run, commit the result."""
    kernel = context.kernel
    call = await _call(context)
    extensions, tools = await kernel.selection(context.conversation_id)
    tool = tools.get(call["name"])
    if tool is None:
        await _settle(context, call, error_result(call["name"], "tool_unavailable", "is not available any more"))
        return
    arguments, refusal = await _arguments(kernel, context, extensions, tool, call)
    if refusal is not None:
        await _settle(context, call, refusal)
        return
    validated = tool.validate(arguments)
    async with context.commit() as tx:
        live = await tx.document(LIVE, context.conversation_id)
        for slot in live.value.get("tools", ()):
            if slot.get("taskId") == context.id:
                slot["status"] = "running"
        context.advance(tx, {"phase": "execute", "arguments": arguments, "replay": tool.replay})
    await _run(context, call, extensions, tool, validated)


async def _call(context: TaskContext) -> dict[str, Any]:
    call = await context.kernel.find_call(context.record)
    if call is None:
        raise LookupError(f"the call {context.input['callId']} of entry {context.input['assistant']} is not there")
    return call


async def _arguments(
    kernel: Kernel, context: TaskContext, extensions: list[Extension], tool: Tool, call: dict[str, Any]
) -> tuple[dict[str, Any], ToolResult | None]:
    """The final arguments, or the error result of a call that must not run (spec 10)."""
    invalid = call.get("providerExtra", {}).get("invalid")
    if invalid is not None:
        return {}, _invalid(tool, invalid["error"])
    arguments = dict(call["arguments"])
    try:
        if tool.repair is not None:
            arguments = tool.repair(arguments)
        tool.validate(arguments)
    except ValueError as error:
        return {}, _invalid(tool, error)
    for extension in extensions:
        hook = extension.hooks.get("beforeTool")
        if hook is None:
            continue
        try:
            answer = await hook(
                {
                    "tool": tool.name,
                    "arguments": arguments,
                    "callId": call["id"],
                    "conversationId": context.conversation_id,
                    "taskId": context.id,
                }
            )
        except Exception as error:  # noqa: BLE001 - a failing guard blocks the call
            reason = f"extension {extension.name} failed: {error}"
            kernel.report(f"hook beforeTool of {reason}")
            return {}, error_result(tool.name, "blocked", f"was blocked: {reason}")
        if isinstance(answer, dict) and answer.get("block"):
            return {}, error_result(tool.name, "blocked", f"was blocked: {answer['block']}")
        if isinstance(answer, dict) and "arguments" in answer:
            arguments = dict(answer["arguments"])
    try:
        tool.validate(arguments)
        freeze(arguments)  # a repair or a hook may have put in what cannot be stored
    except ValueError as error:
        return {}, _invalid(tool, error)
    return arguments, None


async def _run(
    context: TaskContext,
    call: dict[str, Any],
    extensions: list[Extension],
    tool: Tool,
    validated: Any,
) -> None:
    """The effect and its result. Nothing is committed of a run that somebody asked to end."""
    kernel = context.kernel
    started = time.monotonic()
    status = "completed"
    running: RunningCall | None = None
    try:
        environment = await kernel.environment_for(context.conversation_id, context.id)
        running = RunningCall(context, call, tool, environment)
        answer = await tool.run(validated, running)
        result = answer if isinstance(answer, ToolResult) else ToolResult(str(answer))
    except asyncio.CancelledError:
        if kernel.scheduler.invocations.was_asked(context.id):
            raise
        status = "failed"
        result = error_result(tool.name, "tool_error", "was cancelled, but nobody asked for it")
    except (InvocationEnded, StorageError):
        raise
    except Exception as error:  # noqa: BLE001 - a tool's failure is its result
        status = "failed"
        result = error_result(tool.name, "tool_error", f"failed: {_reason(error)}")
    finally:
        if running is not None:
            await running.stop()
    if running is not None:
        result.diagnostics = [*running.diagnostics, *result.diagnostics]
    result = await kernel.run_hooks(extensions, "afterTool", result)
    duration = round((time.monotonic() - started) * 1000)
    try:
        result = _limited(await sendable(result), tool)
        freeze([result.content, result.details, result.diagnostics, result.usage, result.handoff, result.add_tools])
    except Exception as error:  # noqa: BLE001 - what a tool returns is somebody else's code
        status = "failed"
        result = error_result(tool.name, "tool_error", f"returned what cannot be stored: {_reason(error)}")
    await _settle(context, call, result, status=status, duration=duration)


def _reason(error: Exception) -> str:
    text = str(error).strip()
    from durable_tui.agent.extension import ToolError
    from durable_tui.environment.base import EnvironmentFailed

    if isinstance(error, ToolError | EnvironmentFailed):
        return text
    return f"{type(error).__name__}: {text}" if text else type(error).__name__


async def rerun_allowed(kernel: Kernel, record: TaskRecord) -> bool:
    """Whether a call found in `execute` may run again: the stricter of stored and current policy is safe, and the
    former owner is provably gone (spec 4.2, 10)."""
    call = await kernel.find_call(record)
    if call is None or not kernel.former_owner_dead:
        return False
    _, tools = await kernel.selection(record["conversationId"])
    tool = tools.get(call["name"])
    if tool is None:
        return False
    stored: str = checkpoint_of(record).get("replay", "unsafe")
    return stored == tool.replay == "safe"  # an old session's "verify" is as strict as "unsafe"


async def execute_phase(context: TaskContext) -> None:
    """Only ever entered by recovery: run a safe call again, settle any other as interrupted (spec 10)."""
    kernel = context.kernel
    call = await _call(context)
    extensions, tools = await kernel.selection(context.conversation_id)
    if await rerun_allowed(kernel, context.record):
        tool = tools[call["name"]]
        try:
            validated = tool.validate(dict(context.checkpoint["arguments"]))
        except ValueError as error:
            await _settle(context, call, _invalid(tool, error), status="failed")
            return
        await _clear_progress(context)
        await _run(context, call, extensions, tool, validated)
        return
    result = error_result(
        call["name"], "interrupted", "was interrupted and may have partially run", await _partial_output(context)
    )
    await _settle(context, call, result, status="failed", verdict="interrupted")


async def _clear_progress(context: TaskContext) -> None:
    async with context.commit() as tx:
        live = await tx.document(LIVE, context.conversation_id)
        for slot in live.value.get("tools", ()):
            if slot.get("taskId") == context.id:
                slot["status"] = "running"
                slot["recovered"] = "rerun"
                for key in ("output", "details", "droppedBytes", "droppedLines", "diagnostics"):
                    slot.pop(key, None)


async def _partial_output(context: TaskContext) -> str:
    live = await context.kernel.session.value(LIVE, context.conversation_id)
    for slot in live.get("tools", ()):
        if slot.get("taskId") == context.id:
            return str(slot.get("output", ""))
    return ""


async def abort(context: TaskContext) -> None:
    """The result of an aborted call: what is durable of its output, and that it was aborted."""
    kernel = context.kernel
    call = await kernel.find_call(context.record)
    extensions, _ = await kernel.selection(context.conversation_id)
    await kernel.run_hooks(extensions, "onAbort", {"conversationId": context.conversation_id, "taskId": context.id})
    if call is None:
        async with context.commit() as tx:
            scene = await load_scene(kernel, tx, context.conversation_id)
            slot = find_slot(scene, context.id)
            if slot is not None:
                slot["status"] = "done"
            context.end_aborted(tx)
        return
    began = context.checkpoint.get("phase") == "execute"
    what = "was aborted and may have partially run" if began else "was aborted before it started"
    partial = await _partial_output(context) if began else ""
    await _settle(context, call, error_result(call["name"], "aborted", what, partial), status="aborted")


TOOL = TaskDefinition(
    name="pi.tool",
    phases={"call": call_phase, "execute": execute_phase},
    initial=lambda _: {"phase": "call"},
    abort=abort,
)
