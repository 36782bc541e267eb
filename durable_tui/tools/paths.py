"""Paths as tools take them: names that look alike, one writer at a time."""

from __future__ import annotations

import asyncio
import difflib
import os
import unicodedata
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from durable_tui.agent.extension import ToolError
from durable_tui.environment.base import Environment, EnvironmentFailed, FileInfo
from durable_tui.ground.text import clean

_ALIKE = str.maketrans({"\u2018": "'", "\u2019": "'", "\u201c": '"', "\u201d": '"'})


def _loose(name: str) -> str:
    """Names that people cannot tell apart are equal here: composed or not, whichever blank or quote (case T34)."""
    return "".join(
        " " if character.isspace() else character for character in unicodedata.normalize("NFKC", name)
    ).translate(_ALIKE)


async def find_file(environment: Environment, path: str) -> FileInfo:
    """Return what is at the path. The exact name comes first; else the only file of the directory whose name looks the same.

    Raises ToolError, with near names, when there is none or more than one. Never used for writing.
    """
    info = await environment.stat(path)
    if info is not None:
        return info
    whole = environment.resolve(path)
    folder, name = os.path.split(whole)
    try:
        names = await environment.list_names(folder)
    except EnvironmentFailed:
        raise ToolError(f"{whole}: no such file, and no directory {folder}") from None
    alike = [other for other in names if _loose(other) == _loose(name)]
    if len(alike) == 1:
        info = await environment.stat(os.path.join(folder, alike[0]))
        if info is not None:
            return info
    near = alike or difflib.get_close_matches(name, names, n=5, cutoff=0.6)
    hint = "; near it: " + ", ".join(show_name(other) for other in near[:5]) if near else ""
    raise ToolError(f"{whole}: no such file{hint}")


def show_name(name: str) -> str:
    """A name from the file system as text: bytes that are no UTF-8 become U+FFFD."""
    return clean(os.fsencode(name).decode("utf-8", "replace"))


async def real_path(environment: Environment, path: str) -> str:
    """One name for one file, through links; of what does not exist yet, through the links of its directory."""
    whole = environment.resolve(path)
    rest: list[str] = []
    at = whole
    while True:
        info = await environment.stat(at)
        if info is not None:
            return os.path.join(info.path, *reversed(rest))
        at, name = os.path.split(at)
        if not name:
            return whole
        rest.append(name)


_locks: dict[tuple[str, str], tuple[asyncio.Lock, int]] = {}


@asynccontextmanager
async def one_writer(environment: Environment, path: str) -> AsyncIterator[None]:
    """Hold the lock of a real path: writes and edits of one file in this process go one after the other (case T11)."""
    key = (environment.id, await real_path(environment, path))
    lock, users = _locks.get(key, (asyncio.Lock(), 0))
    _locks[key] = (lock, users + 1)
    try:
        async with lock:
            yield
    finally:
        lock, users = _locks[key]
        if users == 1:
            del _locks[key]
        else:
            _locks[key] = (lock, users - 1)
