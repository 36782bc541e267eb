"""The results of tool calls: written by the harness, kept within limits, appended (spec 10, 17.5)."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

from durable_tui.agent.extension import Tool, ToolResult
from durable_tui.engine.task_handle import TaskHandle
from durable_tui.ground.bounded_text import MARGIN_BYTES, MARGIN_LINES, limit_text
from durable_tui.models.messages import ToolCallBlock, ToolResultMessage, UserBlock
from durable_tui.session import Transaction

if TYPE_CHECKING:
    from durable_tui.delta import Json


def error_result(name: str, code: str, what: str, partial: str = "") -> ToolResult:
    """An error the harness writes: the durable partial output, then its block (spec 17.5)."""
    message = f"Tool {name} {what}"
    block = f"<harness>\n[error] {message}\n</harness>"
    text = f"{partial.rstrip()}\n\n{block}" if partial.strip() else block
    return ToolResult(text, is_error=True, diagnostics=[{"severity": "error", "message": message, "code": code}])


def invalid_arguments(tool: Tool, why: object) -> ToolResult:
    """The error result of a call whose arguments the tool does not take."""
    return error_result(tool.name, "invalid_arguments", f"was called with invalid arguments: {why}")


def append_result(
    tx: Transaction,
    task: TaskHandle,
    call: ToolCallBlock,
    result: ToolResult,
    duration: int | None = None,
) -> int:
    """Append the `pi.tool-result` entry of a call; returns its id."""
    message: ToolResultMessage = {
        "role": "toolResult",
        "toolCallId": call["id"],
        "toolName": call["name"],
        "content": blocks_of(result.content),
        "isError": result.is_error,
        "timestamp": task.session.now(),
    }
    if result.details is not None:
        message["details"] = cast("Json", result.details)
    if duration is not None:
        message["durationMs"] = duration
    if result.usage is not None:
        message["usage"] = result.usage
    data = {"diagnostics": result.diagnostics} if result.diagnostics else None
    return tx.append(task.conversation_id, "pi.tool-result", model=[message], data=data, by_task=task.id)["id"]


def blocks_of(content: str | list[UserBlock]) -> list[UserBlock]:
    """The content of a result as blocks."""
    if isinstance(content, str):
        return [{"type": "text", "text": content}] if content else []
    return content


def limited(result: ToolResult, tool: Tool) -> ToolResult:
    """The result within the tool's limits; what was dropped is counted and reported (spec 10)."""
    blocks: list[UserBlock] = []
    diagnostics = list(result.diagnostics)
    for block in blocks_of(result.content):
        if block["type"] == "text":
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


def first_line(result: ToolResult) -> str:
    """What went wrong, for the outcome of a failed call."""
    for diagnostic in result.diagnostics:
        return str(diagnostic["message"])
    return "the tool failed"
