"""`durable-tui run`: submit, wait, print the answer (spec 20)."""

from __future__ import annotations

import asyncio
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from durable_tui.agent.inbox import is_parked
from durable_tui.cli.command_options import RunCommand
from durable_tui.cli.headless import HeadlessRun
from durable_tui.cli.main import prompt_of
from durable_tui.cli.output import Output, note
from durable_tui.cli.status import Exit, Status, UsageError
from durable_tui.cli.waiting import wait_for
from durable_tui.host.attachments import content, load_images
from durable_tui.models.images import ImageRefused
from durable_tui.models.messages import message_text

if TYPE_CHECKING:
    from durable_tui.harness.submission import Settled, Submission
    from durable_tui.host.opening import Host, Opened
    from durable_tui.models.messages import ImageBlock, UserBlock


async def run_command(options: RunCommand, output: Output) -> Exit:
    """The whole command; raises what `exit_for` knows."""
    from durable_tui.host.opening import Host, open_session
    from durable_tui.host.paths import working_directory

    prompt = prompt_of(options.prompt)
    if options.request_id is not None and options.session is None and not options.newest:
        raise UsageError("--request-id needs a session: add --session S or --continue")
    if options.request_id is not None and not options.request_id.strip():
        raise UsageError("--request-id is empty; give a name that stays the same when the command is repeated")
    if prompt is None and options.session is None and not options.newest:
        raise UsageError("there is no prompt; give one, or - to read it from standard input, or a --session to resume")
    if options.images and prompt is None:
        raise UsageError("--image needs a prompt to be sent with")
    if prompt == "-":
        prompt = read_prompt()
    directory = working_directory(options.directory)
    os.chdir(directory)  # as if started there: relative paths of sessions are meant from it
    host = Host.load()
    path = await choose(host, options, directory, prompt)
    # A request that the session knows is not submitted again, and its images may be gone by now.
    images = [] if options.request_id is not None and path.exists() else await load(options.images, directory)
    opened = await open_session(host, path, directory=directory, model=options.model, thinking=options.thinking)
    try:
        for warning in opened.warnings:
            note(f"durable-tui: {warning}")
        named = await opened.root.submission(options.request_id) if options.request_id is not None else None
        if options.images and not images and named is None:
            images = await load(options.images, directory)
        return await _work(opened, options, content(prompt, images) if prompt is not None else None, output)
    finally:
        await opened.close()


async def load(paths: list[str], directory: str) -> list[ImageBlock]:
    """The images of `--image`. Raises UsageError naming the one that cannot be sent."""
    try:
        return await asyncio.to_thread(load_images, paths, directory)
    except ImageRefused as error:
        raise UsageError(f"--image {error}") from None


def read_prompt() -> str:
    """The prompt from standard input, to its end; one final newline is the shell's, not the person's."""
    try:
        raw = sys.stdin.buffer.read()
    except (OSError, ValueError, AttributeError):
        raise UsageError("standard input cannot be read; give the prompt as an argument") from None
    text = raw.decode("utf-8", "replace").removesuffix("\n")
    if not text.strip():
        raise UsageError("standard input held no prompt")
    return text


async def choose(host: Host, options: RunCommand, directory: str, prompt: str | None) -> Path:
    """The file of the session to run in. Without a prompt it must exist."""
    if options.session is not None:
        path = host.catalogue.find(options.session)
        if prompt is None and not path.exists():
            raise UsageError(f"{options.session}: there is no such session to resume; give a prompt to start one there")
        return path
    if options.newest:
        info = await host.catalogue.newest(directory)
        if info is not None:
            return info.path
        if prompt is None:
            raise UsageError(f"there is no session of {directory} to continue; give a prompt to start one")
        note(f"durable-tui: no session of {directory} yet; starting one")
    return host.catalogue.new_path()


async def _work(opened: Opened, options: RunCommand, prompt: str | list[UserBlock] | None, output: Output) -> Exit:
    paused = opened.harness.paused_reason
    if paused:
        text = f"paused: {paused}; `durable-tui resume --retry {opened.short_id}` starts it anyway"
        return Exit(Status.PARKED, "paused", text)
    sink = output.event if output.json_lines else None
    async with HeadlessRun(opened.harness, opened.root, sink=sink) as headless_run:
        if prompt is not None:
            try:
                submission = await opened.root.submit(prompt, request_id=options.request_id)
            except ValueError as error:  # the request id belongs to a write
                raise UsageError(str(error)) from None
        else:
            submission = await existing(opened, options.request_id)
            await opened.harness.resume()
        headless_run.wait_with(submission.id)
        releasing = asyncio.create_task(headless_run.release_stranded(submission.id))
        try:
            settled = await wait_for(opened, headless_run, submission.wait())
        finally:
            releasing.cancel()
            await asyncio.gather(releasing, return_exceptions=True)
    if isinstance(settled, Exit):
        return with_submission(settled, submission.id)
    return await _answer(opened, submission.id, settled, output)


async def existing(opened: Opened, request_id: str | None) -> Submission:
    """The submission to wait for when no prompt was given: that of the request id, else the newest input."""
    if request_id is not None:
        named = await opened.root.submission(request_id)
        if named is None:
            raise UsageError(f"the session knows no request {request_id!r}; give its prompt to submit it")
        return named
    parked = sum(is_parked(item) for item in await opened.root.queue())
    if parked:
        note(f"durable-tui: {parked} parked input(s) stay in the queue; the screen can release them")
    waiting = await opened.root.open_inputs()
    if waiting:
        return await opened.harness.submission(max(waiting))
    newest = await opened.root.newest_input()
    if newest is None:
        raise UsageError("the session has no input to wait for; give a prompt")
    return newest


async def _answer(opened: Opened, submission_id: int, settled: Settled, output: Output) -> Exit:
    if settled.status != "done":
        detail = f": {settled.detail}" if settled.detail else ""
        message = f"unanswered, {settled.reason or 'no reason given'}{detail}"
        return Exit(Status.UNANSWERED, settled.reason or "unanswered", message, submission_id)
    if not output.json_lines:
        text = await answer_text(opened, settled.answer)
        await output.text(text if text.endswith("\n") or not text else text + "\n")
    return Exit(Status.ANSWERED, submission=submission_id)


async def answer_text(opened: Opened, entry_id: int | None) -> str:
    """The text of an answer's entry."""
    entry = await opened.root.entry(entry_id) if entry_id is not None else None
    if entry is None:
        return ""
    return "\n".join(message_text(message) for message in entry.record.get("model") or ())


def with_submission(ended: Exit, submission_id: int) -> Exit:
    return Exit(ended.status, ended.reason, ended.message, submission_id)
