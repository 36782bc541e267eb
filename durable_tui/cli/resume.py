"""`durable-tui resume`: finish unfinished work without a screen, and print each verdict (spec 20, 15)."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

from durable_tui.cli.command_options import ResumeCommand
from durable_tui.cli.headless import HeadlessRun
from durable_tui.cli.output import BrokenOutput, Output, note
from durable_tui.cli.status import MEANING, Exit, Status, UsageError, exit_for
from durable_tui.cli.waiting import wait_for
from durable_tui.forensics.report import death_line, verdict_line
from durable_tui.host.paths import short_path
from durable_tui.views.blocked import is_retriable
from durable_tui.views.events import deaths_of

if TYPE_CHECKING:
    from durable_tui.engine.shapes import Recovery
    from durable_tui.host.opening import Host, Opened
    from durable_tui.views.event_shapes import Event


async def run_command(options: ResumeCommand, output: Output) -> Exit:
    """The whole command; one session after the other, the highest status counts."""
    from durable_tui.host.opening import Host
    from durable_tui.host.paths import working_directory

    directory = working_directory(options.directory)
    os.chdir(directory)
    host = Host.load()
    paths = await choose(host, options, directory)
    if not paths:
        note(f"durable-tui: nothing is unfinished{'' if options.all else f' in {short_path(directory)}'}")
        return Exit(Status.ANSWERED, "nothing")
    for warning in host.config.warnings:
        note(f"durable-tui: {warning}")
    worst = Exit(Status.ANSWERED)
    for path in paths:
        ended = await _one(host, path, directory, options, output)
        if ended.status > worst.status:
            worst = ended
        if not output.json_lines:
            await output.text(f"  = {ended.message or MEANING[ended.status]}\n")
    # What went wrong stands beside its session already.
    return worst if output.json_lines or len(paths) == 1 else Exit(worst.status, worst.reason)


async def choose(host: Host, options: ResumeCommand, directory: str) -> list[Path]:
    """The sessions named, or those with unfinished work and no owner, oldest first."""
    if options.sessions:
        paths = [host.catalogue.find(text) for text in options.sessions]
        for text, path in zip(options.sessions, paths, strict=True):
            if not path.exists():
                raise UsageError(f"{text}: there is no such session; `durable-tui sessions --all` lists them")
        return list(dict.fromkeys(paths))
    found = []
    for info in await host.catalogue.list(None if options.all else directory):
        if info.state == "unfinished":
            found.append(info.path)
        elif info.state == "running" and info.owner:
            note(f"durable-tui: {info.short_id} is being worked on by pid {info.owner['pid']}")
        elif info.state in ("damaged", "newer"):
            note(f"durable-tui: {info.short_id} was left alone: {info.message}")
    return found[::-1]


async def _one(host: Host, path: Path, directory: str, options: ResumeCommand, output: Output) -> Exit:
    from durable_tui.host.opening import open_session

    try:
        opened = await open_session(host, path, directory=directory, model=options.model, create=False)
    except Exception as error:
        ended = exit_for(error)
        if ended is None:
            raise
        if not output.json_lines:
            await output.text(f"{path.stem}\n")
        return ended
    try:
        for warning in opened.warnings:
            if warning not in host.config.warnings:  # those were told once, for all sessions
                note(f"durable-tui: {warning}")
        if not output.json_lines:
            document = opened.session
            title = f" {document['title']}" if document.get("title") else ""
            await output.text(f"{opened.id}{title} ({short_path(document.get('cwd', ''))})\n")
        return await _finish(opened, options, output)
    except BrokenOutput:
        raise
    except Exception as error:
        ended = exit_for(error)
        if ended is None:
            raise
        return ended
    finally:
        await opened.close()


async def _finish(opened: Opened, options: ResumeCommand, output: Output) -> Exit:
    async def tagged(event: Event) -> None:
        await output.event({**event, "session": opened.id})

    harness = opened.harness
    if harness.paused_reason and not options.retry:
        text = f"paused: {harness.paused_reason}; `durable-tui resume --retry {opened.short_id}` starts it anyway"
        return Exit(Status.PARKED, "paused", text)
    undecided = open_rows(await harness.recovery())
    before = await opened.root.open_inputs()
    if options.retry:
        for row in harness.inspect():
            if is_retriable(row):
                await harness.retry_task(row["id"])
    async with HeadlessRun(harness, opened.root, sink=tagged if output.json_lines else None) as headless_run:
        await harness.resume()
        ended = await wait_for(opened, headless_run, harness.wait_for_idle())
    if not output.json_lines:
        for line in verdicts(await harness.recovery(), undecided):
            await output.text(f"  {line}\n")
    return ended or await settlement(opened, before)


def open_rows(recovery: Recovery) -> set[tuple[int, int]]:
    """The rows still without a verdict: (the opening that found them, task id)."""
    return {
        (death["foundBy"], row["taskId"]) for death in deaths_of(recovery) for row in death["tasks"]
        if "verdict" not in row
    }  # fmt: skip


def verdicts(recovery: Recovery, rows: set[tuple[int, int]]) -> Iterable[str]:
    """The deaths that left these rows, with what was decided about each."""
    for death in deaths_of(recovery):
        mine = [row for row in death["tasks"] if (death["foundBy"], row["taskId"]) in rows]
        if mine:
            yield death_line(death)
            for row in mine:
                yield "  " + verdict_line(row)


async def settlement(opened: Opened, submissions: list[int]) -> Exit:
    """Return the exit for the inputs that were open; the last unanswered one gives the reason."""
    ended = Exit(Status.ANSWERED, submission=submissions[-1] if submissions else None)
    for number in submissions:
        record = (await opened.harness.submission(number)).record
        if record["status"] == "unanswered":
            reason = record.get("reason", "unanswered")
            detail = f": {record['detail']}" if record.get("detail") else ""
            ended = Exit(Status.UNANSWERED, reason, f"unanswered, {reason}{detail}", number)
    return ended
