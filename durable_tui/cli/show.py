"""`durable-tui show`: read a session, whoever owns it, and change nothing."""

from __future__ import annotations

import os

from durable_tui.cli.command_options import ShowCommand
from durable_tui.cli.output import Output
from durable_tui.cli.status import Exit, Status, UsageError
from durable_tui.host.jsonlines import json_line


async def run_command(options: ShowCommand, output: Output) -> Exit:
    """The whole command."""
    from durable_tui.forensics import report, text_report
    from durable_tui.forensics.export import FORMATS
    from durable_tui.host.catalogue import Catalogue
    from durable_tui.host.paths import Paths, working_directory
    from durable_tui.host.reading import reading

    os.chdir(working_directory(options.directory))
    catalogue = Catalogue(Paths.from_env())
    path = catalogue.find(options.session)
    if not path.exists():
        raise UsageError(f"{options.session}: there is no such session; `durable-tui sessions --all` lists them")
    async with reading(path) as storage:
        found = await report.gather(storage, await catalogue.describe(path))
        if options.json:
            conversations = await report.entries_json(storage, found)
            await output.text(json_line({**found.json(), "conversations": conversations}))
            return Exit(Status.ANSWERED)
        render = FORMATS[options.export] if options.export else text_report.render
        async for piece in render(storage, found):
            await output.text(piece)
    return Exit(Status.ANSWERED)
