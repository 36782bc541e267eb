"""The `edit` tool."""

from __future__ import annotations

import asyncio
import json

from pydantic import BaseModel, Field

from durable_tui.agent.extension import Arguments, ToolCall, ToolError, ToolResult, tool
from durable_tui.environment.base import FileInfo
from durable_tui.ground.text import show_bytes
from durable_tui.tools.editing import EditRefused, apply_edits, splice
from durable_tui.tools.file_diff import Diff, of_replacements
from durable_tui.tools.paths import find_file, one_writer, show_name
from durable_tui.tools.summaries import path_summary
from durable_tui.tools.write import links_note

_LARGEST = 32 << 20


class Edit(BaseModel):
    oldText: str = Field(description="The exact text to replace, as read shows it; it must occur exactly once")
    newText: str = Field(description="The text to put in its place")


class EditArguments(BaseModel):
    path: str = Field(min_length=1, description="The file, absolute or relative to the working directory")
    edits: list[Edit] = Field(
        min_length=1,
        description="Replacements, all matched against the file as it is before the call; they must not overlap",
    )


def repair(arguments: Arguments) -> Arguments:
    """Take what models send instead: the list as a JSON text, one edit as an object, or its two texts beside the path."""
    edits = arguments.get("edits")
    if isinstance(edits, str):
        try:
            edits = json.loads(edits)
        except ValueError:
            return arguments
    if edits is None and "oldText" in arguments and "newText" in arguments:
        edits = {"oldText": arguments["oldText"], "newText": arguments["newText"]}
    if isinstance(edits, dict):
        edits = [edits]
    rest = {key: value for key, value in arguments.items() if key not in ("edits", "oldText", "newText")}
    return arguments if edits is None else {**rest, "edits": edits}


@tool(summary=path_summary, repair=repair)
async def edit(args: EditArguments, call: ToolCall) -> ToolResult:
    """Replace texts in a file. Each oldText must match exactly once; give enough text around it to be unique. Put
    several changes of one file into one call: all are made, or none."""
    environment = call.environment
    async with one_writer(environment, args.path):
        info = await environment.stat(args.path)
        if info is None:
            near = await find_file(environment, args.path)  # raises with near names, unless exactly one looks the same
            raise ToolError(f"{args.path}: no such file; {show_name(near.path)!r} looks the same, give its exact name")
        if info.size > _LARGEST:
            raise ToolError(f"{args.path} has {show_bytes(info.size)}, too much to edit; use a command")
        before = await environment.read_bytes(info.path)
        pairs = [(item.oldText, item.newText) for item in args.edits]
        try:
            after, diff = await asyncio.to_thread(_apply, before, pairs)
        except EditRefused as error:
            raise ToolError(f"{args.path} was not changed: {error}") from None
        if _version(await environment.stat(args.path)) != _version(info):
            raise ToolError(f"{args.path} was not changed: the file changed meanwhile; read it again")
        await environment.write_bytes(args.path, after)
    count = len(pairs)
    replaced = "1 text" if count == 1 else f"{count} texts"
    return ToolResult(
        f"Replaced {replaced} in {args.path} (+{diff.added} -{diff.removed} lines).{links_note(info)}",
        details={"path": show_name(info.path), "diff": diff.text, "added": diff.added, "removed": diff.removed},
    )


def _apply(before: bytes, pairs: list[tuple[str, str]]) -> tuple[bytes, Diff]:
    replacements = apply_edits(before, pairs)
    return splice(before, replacements), of_replacements(before, replacements)


def _version(info: FileInfo | None) -> tuple[int, int, int] | None:
    return None if info is None else (info.inode, info.size, info.mtime_ns)
