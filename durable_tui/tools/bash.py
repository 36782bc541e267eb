"""The `bash` tool."""

from __future__ import annotations

import signal

from pydantic import BaseModel, Field

from durable_tui.agent.extension import ToolCall, ToolResult, tool
from durable_tui.environment.base import EnvironmentFailed, ProcessResult
from durable_tui.ground.bounded_text import Limited, Tail
from durable_tui.ground.text import show_bytes
from durable_tui.tools.summaries import command_summary
from durable_tui.tools.text_output import Cleaner, LiveText

DEFAULT_TIMEOUT = 120.0
MAX_TIMEOUT = 3600.0


class BashArguments(BaseModel):
    command: str = Field(min_length=1, description="The command, for bash -c")
    timeout: float | None = Field(
        default=None,
        gt=0,
        le=MAX_TIMEOUT,
        description="Seconds until the command is ended; 120 if not given, 3600 at most",
    )


class _Output:
    """The output of a command: to the running call as it comes, and its end for the model."""

    def __init__(self, call: ToolCall) -> None:
        self._call = call
        self._cleaner = Cleaner()
        self._live = LiveText()
        self.tail = Tail()

    def feed(self, data: bytes, final: bool = False) -> None:
        text = self._cleaner.feed(data, final)
        self.tail.append(text)
        shown = self._live.feed(text, final)
        if shown:
            self._call.output(shown)

    def finish(self) -> Limited:
        self.feed(b"", final=True)
        return self.tail.result()


@tool(summary=command_summary)
async def bash(args: BashArguments, call: ToolCall) -> ToolResult:
    """Run a shell command in the working directory. Output and errors come in one text, of which the last 2000 lines or
    50 KiB are shown; a file with all of it is named then. There is no input and no terminal. Processes left in the
    background are ended when the command returns."""
    timeout = DEFAULT_TIMEOUT if args.timeout is None else args.timeout
    output = _Output(call)
    try:
        result = await call.environment.run(args.command, timeout=timeout, on_output=output.feed)
    except EnvironmentFailed as error:
        limited = output.finish()
        if not limited.text:
            raise
        return ToolResult(f"{limited.text}\n\n[{error}]", is_error=True)
    limited = output.finish()
    notes = [_footer(limited, result), *_verdict(result, timeout)]
    body = limited.text if limited.text.strip() else "(no output)"
    ending = "\n".join(note for note in notes if note)
    return ToolResult(
        f"{body}\n\n{ending}" if ending else body,
        is_error=result.timed_out or result.code != 0,
        details=_details(result),
    )


def _footer(limited: Limited, result: ProcessResult) -> str:
    if not limited.cut:
        return ""
    if limited.partial:
        shown = f"The last {show_bytes(len(limited.text.encode()))} of line {limited.last} shown"
    else:
        shown = f"Lines {limited.first}-{limited.last} of {limited.lines} shown"
    whole = f"{shown}, of {show_bytes(result.output_bytes)} in all"
    problem = result.detail.get("outputProblem")
    if result.output_path is None:
        return f"[{whole}. The rest was not kept{f': {problem}' if problem else ''}.]"
    if problem:
        return f"[{whole}. What was stored of it: {result.output_path}; {problem}]"
    return f"[{whole}. Full output: {result.output_path}]"


def _verdict(result: ProcessResult, timeout: float) -> list[str]:
    """Return notes on how the command ended, as far as the model should know."""
    notes = []
    if result.timed_out:
        notes.append(f"[timed out after {timeout:g} s and was ended; give a larger timeout if it needs longer]")
    elif result.signal is not None:
        notes.append(f"[killed by {_signal_name(result.signal)}]")
    elif result.code is not None and result.code > 128 and _known(result.code - 128):
        notes.append(f"[exited with code {result.code}: killed by {_signal_name(result.code - 128)}]")
    elif result.code:
        notes.append(f"[exited with code {result.code}]")
    if result.survivors_killed:
        count = result.survivors_killed
        what = (
            "1 process left in the background was" if count == 1 else f"{count} processes left in the background were"
        )
        notes.append(f"[{what} ended]")
    if result.detail.get("left"):
        notes.append(f"[these processes could not be ended: {result.detail['left']}]")
    return notes


def _known(number: int) -> bool:
    return number in signal.valid_signals()


def _signal_name(number: int) -> str:
    try:
        return f"signal {number} ({signal.Signals(number).name})"
    except ValueError:
        return f"signal {number}"


def _details(result: ProcessResult) -> dict[str, object]:
    found = {
        "exitCode": result.code,
        "signal": result.signal,
        "timedOut": True if result.timed_out else None,
        "outputPath": result.output_path,
        "outputBytes": result.output_bytes,
        "survivorsKilled": result.survivors_killed or None,
    }
    return {name: value for name, value in found.items() if value is not None}
