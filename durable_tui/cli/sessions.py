"""`durable-tui sessions`: what there is, and in which state (spec 17.7)."""

from __future__ import annotations

import time

from durable_tui.cli.command_options import SessionsCommand
from durable_tui.cli.output import Output, note
from durable_tui.cli.status import Exit, Status
from durable_tui.ground.text import clean
from durable_tui.host.catalogue import SessionInfo
from durable_tui.host.jsonlines import json_line
from durable_tui.host.paths import short_path


async def run_command(options: SessionsCommand, output: Output) -> Exit:
    """The whole command."""
    from durable_tui.host.catalogue import Catalogue
    from durable_tui.host.paths import Paths, working_directory

    directory = working_directory(options.directory)
    found = await Catalogue(Paths.from_env()).list(None if options.all else directory)
    if options.json:
        await output.text(json_line([info.json() for info in found]))
        return Exit(Status.ANSWERED)
    if not found:
        note(f"durable-tui: no sessions{'' if options.all else f' of {short_path(directory)}; --all lists every one'}")
    for info in found:
        await output.text(line(info, with_directory=options.all))
    return Exit(Status.ANSWERED)


def line(info: SessionInfo, *, with_directory: bool) -> str:
    """One session in a line; what is wrong with a damaged one, and what can be done, in a second."""
    state = info.state
    if info.owner:
        state_text = f"running (pid {info.owner['pid']})"
    elif info.unfinished:
        state_text = f"{state} ({info.unfinished})"
    else:
        state_text = state
    when = time.strftime("%Y-%m-%d %H:%M", time.localtime(info.updated_at / 1000))
    parts = [f"{info.short_id:8}", when, f"{state_text:18}"]
    if info.model:
        parts.append(info.model)
    parts.append(clean(info.title or "(no input yet)" if info.message is None else info.path.name))
    if with_directory and info.cwd:
        parts.append(short_path(info.cwd))
    text = "  ".join(parts).rstrip() + "\n"
    if info.message is not None:
        text += f"          {clean(info.message)}\n"
        if info.state == "damaged":
            text += "          it is left as it is; `sqlite3 FILE .recover` on a copy may bring entries back\n"
    return text
