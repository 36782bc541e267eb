"""The `read` tool."""

from __future__ import annotations

import asyncio
import shlex

from pydantic import BaseModel, Field

from durable_tui.agent.extension import ToolCall, ToolError, ToolResult, tool
from durable_tui.environment.base import Environment, FileInfo
from durable_tui.ground.bounded_text import MAX_LINES
from durable_tui.ground.text import show_bytes
from durable_tui.models.imagebytes import BEGINNING, SUFFIXES, kind_of
from durable_tui.models.images import FILE_LIMIT, ImageRefused, prepared, too_large
from durable_tui.tools.paths import find_file, show_name
from durable_tui.tools.reading import LineWindow, Shown, binary_kind, footer
from durable_tui.tools.summaries import read_summary

_PIECE = 1 << 20
_COUNTED = 64 << 20  # beyond so many bytes after the shown lines the rest is not counted
_NAMES = 50


class ReadArguments(BaseModel):
    path: str = Field(min_length=1, description="The file, absolute or relative to the working directory")
    offset: int | None = Field(default=None, ge=1, description="The first line to show, counted from 1")
    limit: int | None = Field(default=None, ge=1, description="How many lines to show at most")


@tool(replay="safe", summary=read_summary, keep="head")
async def read(args: ReadArguments, call: ToolCall) -> ToolResult:
    """Read a text file or look at an image. Of a text at most 2000 lines or 50 KiB are shown, from the beginning or from
    offset; the end of the result says how to go on. Images (PNG, JPEG, GIF, WebP, BMP) are shown whole, large ones
    made smaller. Other files that are no text are refused."""
    environment = call.environment
    info = await find_file(environment, args.path)
    if info.kind == "directory":
        raise ToolError(await _listing(environment, info.path))
    first = await environment.read_bytes(info.path, limit=_PIECE)
    if kind_of(first[:BEGINNING]) is not None:
        return await _image(environment, info, args.path)
    offset = args.offset or 1
    window = LineWindow(offset, args.limit or MAX_LINES)
    shown, count = await _scan(environment, info, window, first)
    if count == 0:
        if info.path.lower().endswith(SUFFIXES):
            raise ToolError(f"{args.path} is empty; there is no image in it")
        return ToolResult(f"[{args.path} is empty: it has 0 bytes]", details=_details(info, shown))
    if window.nul:
        raise ToolError(f"{args.path} is a binary file of {show_bytes(count)}; it cannot be read as text")
    if shown.last < shown.first:
        lines = "1 line" if shown.lines == 1 else f"{shown.lines} lines"
        raise ToolError(f"offset {offset} is past the end: {args.path} has {lines}")
    text, replaced = shown.text()
    notes = ["" if text.strip() else "[These lines are blank.]"]  # a result of nothing but blanks cannot be sent
    notes.append(footer(shown, shlex.quote(args.path), max(info.size, count)))
    if replaced:
        notes.append("[The file is not valid UTF-8: bytes that could not be decoded are shown as \ufffd.]")
    ending = "\n".join(note for note in notes if note)
    return ToolResult(f"{text}\n\n{ending}" if ending else text, details=_details(info, shown))


async def _scan(environment: Environment, info: FileInfo, window: LineWindow, data: bytes) -> tuple[Shown, int]:
    """Feed the file, whose first piece is `data`, to the window; returns what is shown and how many bytes were read.

    Raises ToolError for no text.
    """
    kind = binary_kind(data[:8192])
    if kind is not None:
        hint = "; convert it first, for example with iconv" if "UTF-16" in kind else ""
        size = show_bytes(max(info.size, len(data)))
        raise ToolError(f"{show_name(info.path)} is {kind} ({size}); it cannot be read as text{hint}")
    at = 0
    surplus = 0
    while surplus < _COUNTED:
        if not data:
            return window.result(), at
        was_full = window.full
        window.feed(data)
        at += len(data)
        surplus += len(data) if was_full else 0
        data = await environment.read_bytes(info.path, offset=at, limit=_PIECE)
    return window.result(complete=False), at


async def _image(environment: Environment, info: FileInfo, path: str) -> ToolResult:
    """The image with a line about it (cases T30, T32). Raises ToolError for one that cannot be shown."""
    try:
        if info.size > FILE_LIMIT:
            raise too_large(info.size)
        data = await environment.read_bytes(info.path, limit=FILE_LIMIT + 1)
        image = await asyncio.to_thread(prepared, data)
    except ImageRefused as error:
        raise ToolError(f"{path} cannot be shown: {error}") from None
    note = f"[{path}: {image}, {show_bytes(len(data))}]"
    details = {"path": show_name(info.path), "width": image.size[0], "height": image.size[1]}
    return ToolResult([{"type": "text", "text": note}, {**image.block}], details=details)


async def _listing(environment: Environment, path: str) -> str:
    names = await environment.list_names(path)
    shown = ", ".join(show_name(name) for name in names[:_NAMES])
    more = f" and {len(names) - _NAMES} more" if len(names) > _NAMES else ""
    content = f"It holds: {shown}{more}" if names else "It is empty"
    return f"{show_name(path)} is a directory, not a file. {content}"


def _details(info: FileInfo, shown: Shown) -> dict[str, object]:
    details: dict[str, object] = {"path": show_name(info.path), "first": shown.first, "last": shown.last}
    if shown.lines is not None:
        details["lines"] = shown.lines
    return details
