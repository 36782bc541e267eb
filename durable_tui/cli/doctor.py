"""`durable-tui doctor`: what works here, and what to do about the rest (spec 20)."""

from __future__ import annotations

import asyncio
import os
import platform
import sqlite3
import sys
from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from durable_tui import __version__
from durable_tui.cli.command_options import DoctorCommand
from durable_tui.cli.output import Output
from durable_tui.cli.status import Exit, Status
from durable_tui.cli.waiting import free_space
from durable_tui.ground.text import one_line
from durable_tui.host.catalogue import Catalogue
from durable_tui.host.host_errors import HostError
from durable_tui.host.opening import HOW_TO_GET_A_MODEL, Host
from durable_tui.host.paths import Paths, short_path
from durable_tui.host.settings import load_config
from durable_tui.models.known_providers import KNOWN, SCRIPTED
from durable_tui.models.listing import Offer
from durable_tui.models.provider import ModelError
from durable_tui.models.redact import redact

if TYPE_CHECKING:
    from durable_tui.models.models import Models
    from durable_tui.models.provider_config import ProviderInfo

Level = Literal["ok", "note", "problem"]
_MARKS: dict[Level, str] = {"ok": "ok     ", "note": "note   ", "problem": "PROBLEM"}
_FIXED_WAL = (3, 51, 3)
SHOWN = 3  # models of a server, by name


@dataclass(slots=True, frozen=True)
class Finding:
    """One line of the report; a problem's text says what to do."""

    level: Level
    text: str


async def run_command(options: DoctorCommand, output: Output) -> Exit:
    """The whole command: status 2 when something keeps the program from working."""
    await output.text(f"durable-tui {__version__}, Python {platform.python_version()}, {platform.platform()}\n")
    problems = 0
    for title, findings in (
        ("terminal", await asyncio.to_thread(terminal)),
        ("data", await asyncio.to_thread(data)),
        ("models", await models(options.ask)),
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
    """Return the findings about the terminal: the screen can be drawn here, or why not."""
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
        config = load_config(paths.config)
        there = "" if paths.config.exists() else " (not there, which is fine)"
        found.append(Finding("ok", f"configuration {short_path(str(paths.config))}{there}"))
        found += [Finding("note", warning) for warning in config.warnings]
    except HostError as error:
        found.append(Finding("problem", str(error)))
    found.append(Finding("ok", f"SQLite {sqlite3.sqlite_version}"))
    if sqlite3.sqlite_version_info < _FIXED_WAL:
        found.append(Finding("note", "SQLite before 3.51.3: one writing connection a session is used, as always"))
    return found


async def models(ask: bool = False) -> list[Finding]:
    """Each provider with what can be had of it, or why nothing, and the model a new session gets.

    Servers near by are asked for their models; with `ask` every other provider that can be used is, too.
    """
    try:
        host = await asyncio.to_thread(Host.load)
    except HostError as error:
        return [Finding("problem", str(error))]
    known = host.models()
    try:
        offers = [offer for offer in await asyncio.to_thread(known.listing) if offer.provider.name != SCRIPTED]
        far = [offer.provider for offer in offers if ask and not offer.why and not offer.provider.near]
        answers = dict(await asyncio.gather(*(_asked(known, info) for info in far)))
        found = [answers.get(offer.provider.name) or _offered(offer) for offer in offers]
        return [*found, _default(host, known, offers)]
    finally:
        await known.close()


def _offered(offer: Offer) -> Finding:
    info = offer.provider
    if offer.why:
        return Finding("problem" if info.configured and info.problem else "note", f"{info.name}: {offer.why}")
    if info.near:
        names = [model.model_id for model in offer.models]
        shown = ", ".join(names[:SHOWN]) + (f" and {len(names) - SHOWN} more" if len(names) > SHOWN else "")
        number = f"{len(names)} model{'s' if len(names) != 1 else ''}"
        return Finding("ok", f"{info.name}: {number} at {redact(info.base_url or '')}: {shown}")
    return Finding("ok", "; ".join([f"{info.name}: {_key(info)}", *_particulars(info)]))


def _key(info: ProviderInfo) -> str:
    if info.api == SCRIPTED:
        return "a script"
    return f"key in {info.key_env}" if info.key else "no key set"


def _particulars(info: ProviderInfo) -> list[str]:
    known = KNOWN.get(info.name)
    place = info.base_url if known is None or info.base_url != known.base_url else None
    parts = [f"at {redact(place)}"] if place else []
    return [*parts, *([f"default model {info.default_model}"] if info.default_model else [])]


async def _asked(models: Models, info: ProviderInfo) -> tuple[str, Finding | None]:
    """Ask a provider farther away for its models; return its name and the finding, None for one that is no server."""
    if info.api == SCRIPTED:
        return info.name, None
    try:
        listed = await models.ask(info.name)
    except ModelError as error:
        if error.kind == "authentication":
            return info.name, Finding("problem", f"the {_key(info)} is refused: {error}")
        return info.name, Finding("note", f"{error}")
    accepted = f"{_key(info)} is accepted" if info.key else "answers without a key"
    return info.name, Finding("ok", "; ".join([f"{info.name}: {accepted}, {len(listed)} models", *_particulars(info)]))


def _default(host: Host, models: Models, offers: list[Offer]) -> Finding:
    """The model that would be used, why that one, and what is in its way."""
    chosen = host.default_model(models, ask=False)
    if not chosen:
        return Finding("note", f"no model to ask yet: {HOW_TO_GET_A_MODEL}")
    name, _, model_id = chosen.partition("/")
    offer = next((offer for offer in offers if offer.provider.name == name), None)
    if host.named_models:
        source = f"from {host.named_models[0][1]}"
    elif offer is not None and offer.provider.near:
        source = "the first that a server near by lists"
    else:
        source = "of the first provider " + (
            "in the configuration" if offer and offer.provider.configured else "with a key"
        )
    problem = models.problem(chosen) or (offer.why if offer is not None else "")
    if problem:
        return Finding("problem", f"default model {chosen}, {source}: {problem}")
    if offer is not None and offer.provider.near and all(model.model_id != model_id for model in offer.models):
        return Finding("note", f"default model {chosen}, {source}: the server does not list it")
    return Finding("ok", f"default model {chosen}, {source}")


async def sessions() -> list[Finding]:
    """Return the number of sessions in each state, and each that needs a person."""
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
