"""The `write` tool."""

from __future__ import annotations

import asyncio

from pydantic import BaseModel, Field

from durable_tui.agent.extension import ToolCall, ToolError, ToolResult, tool
from durable_tui.environment.base import Environment, FileInfo
from durable_tui.ground.text import show_bytes
from durable_tui.tools.editing import EditRefused, to_bytes
from durable_tui.tools.file_diff import compare
from durable_tui.tools.paths import one_writer, show_name
from durable_tui.tools.summaries import path_summary

_COMPARED = 4 << 20  # a larger former content is not compared


class WriteArguments(BaseModel):
    path: str = Field(min_length=1, description="The file, absolute or relative to the working directory")
    content: str = Field(description="The whole new content of the file")


@tool(summary=path_summary)
async def write(args: WriteArguments, call: ToolCall) -> ToolResult:
    """Write a file: makes it, with missing directories, or replaces its whole content. Use edit to change a part."""
    try:
        content = to_bytes(args.content, "content")
    except EditRefused as error:
        raise ToolError(str(error)) from None
    environment = call.environment
    async with one_writer(environment, args.path):
        info = await environment.stat(args.path)
        before = await _former(environment, info)
        if before is not None:
            _refuse_damage(before, args.content, args.path)
        await environment.write_bytes(args.path, content)
    path = show_name(info.path if info is not None else environment.resolve(args.path))
    details: dict[str, object] = {"path": path, "bytes": len(content)}
    if info is None:
        details["created"] = True
    if before is not None:
        diff = await asyncio.to_thread(compare, before, content)
        details |= {"diff": diff.text, "added": diff.added, "removed": diff.removed}
    text = f"{'Made' if info is None else 'Replaced'} {args.path} ({show_bytes(len(content))})."
    return ToolResult(text + links_note(info), details=details)


def links_note(info: FileInfo | None) -> str:
    """Return a note for the model about a file with several names: replacing one leaves the others."""
    if info is None or info.links < 2:
        return ""
    others = info.links - 1
    names = "1 other hard link" if others == 1 else f"{others} other hard links"
    return f" The file had {names}; there the old content stays."


async def _former(environment: Environment, info: FileInfo | None) -> bytes | None:
    """The content before, b"" for a new file; None when it is no file or too large to compare."""
    if info is None:
        return b""
    if info.kind != "file" or info.size > _COMPARED:
        return None
    return await environment.read_bytes(info.path, limit=_COMPARED)


def _refuse_damage(before: bytes, content: str, path: str) -> None:
    """Text that was read with U+FFFD in place of unknown bytes must not come back over them (case T06)."""
    if "\ufffd" not in content:
        return
    try:
        before.decode("utf-8")
    except UnicodeDecodeError:
        raise ToolError(
            f"{path} is not valid UTF-8, and the new content holds the signs \ufffd that reading it put in place of its "
            "bytes; writing them would destroy these bytes. Use edit, or a command that knows the encoding"
        ) from None
