"""The clipboard. Copying goes by OSC 52: wrapped for tmux, bounded, and honest about what is known.

A terminal pastes only text, so an image is read through the tools that a desktop has for it.
"""

from __future__ import annotations

import asyncio
import base64
import contextlib
import os
import re
import shutil
import signal
import sys
import tempfile
from collections.abc import Mapping
from typing import IO

from durable_tui.models.images import FILE_LIMIT

LIMIT = 74_000  # bytes of text; many terminals drop longer sequences whole
TOOL_TIME = 10.0  # seconds a clipboard tool may take; the owner of the clipboard may hang
LOOK = 0.05  # seconds between looks at how much it wrote
IMAGE_KINDS = ("image/png", "image/jpeg", "image/webp", "image/gif", "image/bmp", "image/tiff")  # the best first


class NoImage(Exception):
    """There is no image to paste; the message says why, for the person."""


def sequence(text: str, environ: Mapping[str, str] | None = None) -> tuple[str, int, bool]:
    """(what to write to the terminal, bytes of text in it, whether it was cut)."""
    environ = os.environ if environ is None else environ
    data = text.encode("utf-8", "replace")
    cut = len(data) > LIMIT
    if cut:
        data = data[:LIMIT].decode("utf-8", "ignore").encode()
    code = f"\x1b]52;c;{base64.b64encode(data).decode()}\x07"
    if environ.get("TMUX"):
        code = "\x1bPtmux;" + code.replace("\x1b", "\x1b\x1b") + "\x1b\\"
    elif environ.get("TERM", "").startswith("screen"):
        code = f"\x1bP{code}\x1b\\"
    return code, len(data), cut


async def read_image() -> bytes:
    """The image on the clipboard as the bytes of a file, by the first tool of this system. Raises NoImage."""
    tools = [tool for tool in _tools() if shutil.which(tool)]
    if not tools:
        needed = "pngpaste" if sys.platform == "darwin" else "wl-clipboard (Wayland) or xclip (X11)"
        raise NoImage(f"no tool can read an image from the clipboard; install {needed}, or paste the path of a file")
    data = b""
    for tool in tools:
        data = await _read_with(tool)
        if data:
            return data
    raise NoImage("the clipboard holds no image")


def _tools() -> list[str]:
    if sys.platform == "darwin":
        return ["pngpaste", "osascript"]
    return ["wl-paste", "xclip"] if os.environ.get("WAYLAND_DISPLAY") else ["xclip", "wl-paste"]


async def _read_with(tool: str) -> bytes:
    """What a tool gives, nothing when it has no image."""
    if tool == "pngpaste":
        return await _run(tool, "-")
    if tool == "osascript":
        answer = await _run(tool, "-e", "the clipboard as «class PNGf»")
        found = re.search(rb"data PNGf([0-9A-F]+)", answer)
        return bytes.fromhex(found[1].decode()) if found else b""
    if tool == "wl-paste":
        offered, take = await _run(tool, "--list-types"), [tool, "--type"]
    else:
        take = [tool, "-selection", "clipboard", "-o", "-t"]
        offered = await _run(*take, "TARGETS")
    kinds = offered.decode("utf-8", "replace").split()
    kind = next((kind for kind in IMAGE_KINDS if kind in kinds), None)
    return await _run(*take, kind) if kind else b""


async def _run(*command: str) -> bytes:
    """What a command writes; nothing when it fails, hangs, or writes more than an image may have.

    It writes into a file: a pipe that nobody empties, or that a child still holds, would keep asyncio waiting for ever.
    """
    null = asyncio.subprocess.DEVNULL
    with tempfile.TemporaryFile() as file:
        try:
            process = await asyncio.create_subprocess_exec(
                *command, stdin=null, stdout=file, stderr=null, start_new_session=True
            )
        except OSError:
            return b""
        loop = asyncio.get_running_loop()
        end = loop.time() + TOOL_TIME
        try:
            while process.returncode is None and loop.time() < end and _size(file) <= FILE_LIMIT:
                with contextlib.suppress(TimeoutError):
                    await asyncio.wait_for(process.wait(), LOOK)
        finally:
            if process.returncode is None:
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(process.pid, signal.SIGKILL)
                await process.wait()
        if process.returncode != 0 or _size(file) > FILE_LIMIT:
            return b""
        file.seek(0)
        return file.read()


def _size(file: IO[bytes]) -> int:
    return os.fstat(file.fileno()).st_size
