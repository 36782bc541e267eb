"""The default system prompt: preamble, environment and context files, as the extension "prompt" (spec 19).

The guidance about tools is a section of the tools themselves.
"""

from __future__ import annotations

import platform
import time
from pathlib import PurePath

from durable_tui.agent.extension import Extension, PromptContext, Section
from durable_tui.environment.base import Environment, EnvironmentFailed

CONTEXT_NAMES = ("AGENTS.md", "CLAUDE.md")
FILE_LIMIT = 32 * 1024  # bytes of one context file
TOTAL_LIMIT = 64 * 1024  # bytes of all of them
DEPTH_LIMIT = 32  # directories looked at on the way up

PREAMBLE = """\
You are a coding agent working in the user's project through the tools you are given.
Look before you change: read the files concerned, then make the smallest change that does what was asked.
Check your work with the project's own tests or commands where it has them.
Your work is durable: a call marked "interrupted" may have run in part, so look at its effect before repeating it.
Answer briefly; say what you changed, what you ran, and what you could not do."""


def preamble(_context: PromptContext) -> str:
    return PREAMBLE


def environment(context: PromptContext) -> str:
    """Directory, platform, and the date of the session's start: nothing that changes within a session."""
    date = time.strftime("%Y-%m-%d", time.localtime(context.started_at / 1000))
    system = {"Darwin": "macOS"}.get(platform.system(), platform.system())
    return f"Working directory: {context.cwd}\nPlatform: {system}\nDate: {date}"


async def context_files(context: PromptContext) -> str | None:
    """AGENTS.md and CLAUDE.md from the repository's root down to the directory; without one, of the directory alone."""
    parts: list[str] = []
    left = TOTAL_LIMIT
    seen: set[str] = set()
    for directory in reversed(await _upwards(context.environment, context.cwd)):
        for name in CONTEXT_NAMES:
            path = str(PurePath(directory) / name)
            text = await _read(context.environment, path, min(FILE_LIMIT, left), seen)
            if text is None:
                continue
            left -= len(text.encode("utf-8", "replace"))
            parts.append(f'<context path="{path}">\n{text}\n</context>')
            if left <= 0:
                return "\n\n".join(parts)
    return "\n\n".join(parts) or None


async def _upwards(env: Environment, cwd: str) -> list[str]:
    """The directory and its parents up to the one that holds `.git`; the directory alone when none does."""
    found: list[str] = []
    path = PurePath(cwd)
    for directory in [path, *path.parents][:DEPTH_LIMIT]:
        found.append(str(directory))
        try:
            if await env.stat(str(directory / ".git")) is not None:
                return found
        except EnvironmentFailed:
            break
    return found[:1]


async def _read(env: Environment, path: str, limit: int, seen: set[str]) -> str | None:
    try:
        info = await env.stat(path)
        # One file under both names (a link) is read once.
        if info is None or info.kind != "file" or info.path in seen or info.size == 0:
            return None
        seen.add(info.path)
        raw = await env.read_bytes(path, limit=limit)
    except EnvironmentFailed:
        return None
    text = raw.decode("utf-8-sig", "replace").strip()
    if info.size > limit:
        # A cut inside a character leaves a replacement mark at the end.
        text = text.rstrip("\ufffd") + f"\n[cut: the first {limit} of {info.size} bytes]"
    return text or None


PromptExtension = Extension(
    "prompt",
    sections=[
        Section("preamble", preamble),
        Section("tools", lambda _context: None),  # the place of the tools' own guidance, which overrides it here
        Section("environment", environment),
        Section("context", context_files),
    ],
)
