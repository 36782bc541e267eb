"""`durable-tui doctor`: what works here, and what to do about the rest (DESIGN 3)."""

from __future__ import annotations

import asyncio
import os
import platform
import sqlite3
import sys
from collections import Counter
from dataclasses import dataclass
from typing import Any, Literal

from durable_tui import __version__
from durable_tui.cli.output import Output, one_line
from durable_tui.cli.status import Exit, Status
from durable_tui.cli.waiting import free_space
from durable_tui.host.catalogue import Catalogue
from durable_tui.host.errors import HostError
from durable_tui.host.opening import HOW_TO_GET_A_MODEL, Host
from durable_tui.host.paths import Paths, short_path
from durable_tui.host.settings import load_config

Level = Literal["ok", "note", "problem"]
_MARKS: dict[Level, str] = {"ok": "ok     ", "note": "note   ", "problem": "PROBLEM"}
_FIXED_WAL = (3, 51, 3)


@dataclass(slots=True, frozen=True)
class Finding:
    """One line of the report; a problem's text says what to do."""

    level: Level
    text: str


async def body(options: Any, output: Output) -> Exit:
    """The whole command: status 2 when something keeps the program from working."""
    await output.text(f"durable-tui {__version__}, Python {platform.python_version()}, {platform.platform()}\n")
    problems = 0
    for title, findings in (
        ("terminal", await asyncio.to_thread(terminal)),
        ("data", await asyncio.to_thread(data)),
        ("models", await asyncio.to_thread(models)),
        ("sessions", await sessions()),
        ("leftover processes", await asyncio.to_thread(leftovers)),
    ):
        await output.text(f"\n{title}\n")
        for finding in findings:
            problems += finding.level == "problem"
            await output.text(f"  {_MARKS[finding.level]} {finding.text}\n")
    if problems:
        return Exit(Status.USAGE, "doctor", f"{problems} problem{'s' if problems > 1 else ''} to look at")
    return Exit(Status.ANSWERED)


def terminal() -> list[Finding]:
    """Whether the screen can be drawn here."""
    from durable_tui.cli.launcher import unusable

    reason = unusable()
    term = os.environ.get("TERM", "")
    if reason is not None:
        return [Finding("note", f"no screen here: {reason}")]
    found = [Finding("ok", f"TERM={term}, COLORTERM={os.environ.get('COLORTERM', '') or 'not set'}")]
    if not os.environ.get("COLORTERM"):
        found.append(Finding("note", "if colours look coarse and the terminal can do better, set COLORTERM=truecolor"))
    if "utf" not in (sys.stdout.encoding or "").lower():
        found.append(Finding("note", f"the encoding is {sys.stdout.encoding}; a UTF-8 locale shows every character"))
    return found


def data() -> list[Finding]:
    """The places, the configuration, SQLite, and room on the disk."""
    paths = Paths.from_env()
    found = []
    try:
        folder = paths.make_sessions()
        found.append(Finding("ok", f"sessions in {short_path(str(folder))}, {free_space(folder)} free"))
        if not os.access(folder, os.W_OK):
            found.append(Finding("problem", f"{folder} is not writable: change its owner or set DURABLE_TUI_HOME"))
    except HostError as error:
        found.append(Finding("problem", str(error)))
    try:
        load_config(paths.config)
        there = "" if paths.config.exists() else " (not there, which is fine)"
        found.append(Finding("ok", f"configuration {short_path(str(paths.config))}{there}"))
    except HostError as error:
        found.append(Finding("problem", str(error)))
    found.append(Finding("ok", f"SQLite {sqlite3.sqlite_version}"))
    if sqlite3.sqlite_version_info < _FIXED_WAL:
        found.append(Finding("note", "SQLite before 3.51.3: one writing connection a session is used, as always"))
    return found


def models() -> list[Finding]:
    """The providers that can be asked, and the model that would be."""
    from durable_tui.models import probe
    from durable_tui.models.known import APIS_LATER

    try:
        host = Host.load()
    except HostError as error:
        return [Finding("problem", str(error))]
    known = host.models()
    found = []
    missing: list[str] = []
    later: list[str] = []
    for info in known.known():
        if info.api == "scripted" and not info.configured:
            continue
        if info.problem is not None:
            if info.configured:
                found.append(Finding("problem", info.problem))
            elif info.api in APIS_LATER:
                later.append(info.name)
            else:
                missing.append(info.name)
        elif info.local or (info.base_url and probe.is_loopback(info.base_url)):
            if info.base_url and probe.reachable(info.base_url):
                found.append(Finding("ok", f"{info.name}: a server answers at {info.base_url}"))
            elif info.configured:
                found.append(Finding("note", f"{info.name}: no server answers at {info.base_url}; start it"))
        else:
            found.append(Finding("ok", f"{info.name}: {info.base_url or info.api}"))
    if missing:
        found.append(Finding("note", f"no key for {', '.join(missing)}"))
    if later:
        found.append(Finding("note", f"not in this version yet: {', '.join(later)}"))
    chosen = host.env.get("DURABLE_TUI_MODEL") or host.config.model or known.default()
    if chosen:
        problem = known.problem(chosen)
        found.append(
            Finding("problem" if problem else "ok", f"default model {chosen}{': ' + problem if problem else ''}")
        )
    else:
        found.append(Finding("note", f"no model to ask yet: {HOW_TO_GET_A_MODEL}"))
    return found


async def sessions() -> list[Finding]:
    """How many sessions there are in each state, and each that needs a person."""
    infos = await Catalogue(Paths.from_env()).list()
    counted = Counter(info.state for info in infos)
    found = [Finding("ok", ", ".join(f"{number} {state}" for state, number in counted.items()) or "none yet")]
    for info in infos:
        if info.state == "unfinished":
            text = f"{info.short_id} in {short_path(info.cwd)} is unfinished: durable-tui resume {info.short_id}"
            found.append(Finding("note", text))
        elif info.state in ("damaged", "newer"):
            found.append(Finding("note", f"{info.short_id} is {info.state}: {info.message}"))
    return found


def leftovers() -> list[Finding]:
    """Processes that commands of a session left behind."""
    from durable_tui.environment.leftovers import find_leftovers

    found = []
    for item in find_leftovers(None):
        whose = f"pid {item['pid']} of {item['session'] or 'a session'}"
        found.append(Finding("note", f"{whose}: {one_line(item['command'], 80)}; kill it if it is not wanted"))
    return found or [Finding("ok", "none")]
