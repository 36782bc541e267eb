"""The command line (spec 20): words to options, options to a command, its end to an exit status."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from typing import NoReturn, cast

from durable_tui import __version__
from durable_tui.cli.command_options import (
    CommandOptions,
    DemoCommand,
    DoctorCommand,
    ResumeCommand,
    RunCommand,
    ScreenCommand,
    SessionsCommand,
    ShowCommand,
)
from durable_tui.cli.status import Exit, Status, UsageError, exit_for

COMMANDS = ("run", "resume", "sessions", "show", "demo", "doctor")
_OPTIONS: dict[str | None, type[CommandOptions]] = {
    None: ScreenCommand,
    "run": RunCommand,
    "resume": ResumeCommand,
    "sessions": SessionsCommand,
    "show": ShowCommand,
    "demo": DemoCommand,
    "doctor": DoctorCommand,
}
_WITH_VALUE = ("-C", "--model", "--thinking", "--session", "--request-id", "--image", "--timeout", "--export")

_USAGE = """\
durable-tui [PROMPT]              the screen, on the newest session of this directory
durable-tui --new | --session S | --paused
durable-tui run [PROMPT | -]      without a screen: ask, wait, print the answer
durable-tui resume [SESSION ...]  finish unfinished work, print each verdict
durable-tui sessions              the sessions of this directory
durable-tui show SESSION          transcript, tasks, recoveries
durable-tui demo                  a tour: no key, no network, a real kill and its recovery
durable-tui doctor                what works here, and what to do about the rest

A prompt that looks like a command goes after --."""


class _Parser(argparse.ArgumentParser):
    """Errors become UsageError, so that one place decides how they are told."""

    def error(self, message: str) -> NoReturn:
        raise UsageError(f"{message}; see `{self.prog} --help`")


def _common(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("common")
    group.add_argument("-C", dest="directory", metavar="DIR", help="work in this directory")
    group.add_argument("--model", metavar="P/M", help="provider and model, as in deepseek/deepseek-flash")
    group.add_argument("--version", action="store_true", help="print the version")


def _thinking(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--thinking", type=_level, metavar="LEVEL", help="how much the model thinks, off to xhigh")


def _level(text: str) -> str:
    from durable_tui.models.provider import THINKING_LEVELS  # here, for the launcher starts without it

    if text not in THINKING_LEVELS:
        raise argparse.ArgumentTypeError(f"{text!r} is not one of {', '.join(THINKING_LEVELS)}")
    return text


def _parser(command: str | None) -> argparse.ArgumentParser:
    if command is None:
        parser = _Parser(prog="durable-tui", usage=_USAGE, allow_abbrev=False)
        parser.add_argument("prompt", nargs="*", help=argparse.SUPPRESS)
        which = parser.add_mutually_exclusive_group()
        which.add_argument("--new", action="store_true", help="start a new session")
        which.add_argument("--session", metavar="S", help="an id, a unique part of one, or a path")
        parser.add_argument("--paused", action="store_true", help="show what was found, start nothing")
        _thinking(parser)
        _common(parser)
        return parser
    descriptions = {
        "run": "Submit a prompt, wait, and print the answer. A new session unless told otherwise.",
        "resume": "Finish unfinished work of this directory's sessions and print each verdict.",
        "sessions": "List the sessions of this directory.",
        "show": "Print a session: transcript, tasks, recoveries. Never changes it.",
        "demo": "The tour: a real edit, a real kill -9, and its recovery. No key, no network.",
        "doctor": "Look at the terminal, providers, data directory and leftover processes.",
    }
    parser = _Parser(prog=f"durable-tui {command}", description=descriptions[command], allow_abbrev=False)
    if command == "run":
        parser.add_argument("prompt", nargs="*", metavar="PROMPT", help="the prompt; - reads it from standard input")
        which = parser.add_mutually_exclusive_group()
        which.add_argument("--session", metavar="S", help="an id, a unique part of one, or a path (made when missing)")
        which.add_argument("--continue", dest="newest", action="store_true", help="this directory's newest session")
        parser.add_argument("--request-id", metavar="R", help="submit at most once under this name; needs a session")
        parser.add_argument(
            "--image", dest="images", action="append", default=[], metavar="PATH", help="an image to send; repeatable"
        )
        _thinking(parser)
        parser.add_argument("--timeout", type=_seconds, metavar="S", help="stop in order after this many seconds")
        parser.add_argument("--json", action="store_true", help="events, one JSON object a line")
    elif command == "resume":
        parser.add_argument("sessions", nargs="*", metavar="SESSION", help="ids, unique parts of them, or paths")
        parser.add_argument("--all", action="store_true", help="sessions of all directories")
        parser.add_argument("--retry", action="store_true", help="also start again what the restart limit parked")
        parser.add_argument("--timeout", type=_seconds, metavar="S", help="stop in order after this many seconds")
        parser.add_argument("--json", action="store_true", help="events, one JSON object a line")
    elif command == "sessions":
        parser.add_argument("--all", action="store_true", help="sessions of all directories")
        parser.add_argument("--json", action="store_true", help="one JSON array")
    elif command == "show":
        parser.add_argument("session", metavar="SESSION", help="an id, a unique part of one, or a path")
        form = parser.add_mutually_exclusive_group()
        form.add_argument("--json", action="store_true", help="one JSON object")
        form.add_argument("--export", choices=("md", "html", "jsonl"), help="the whole session in this form")
    elif command == "demo":
        parser.add_argument("--keep", action="store_true", help="leave the demo's directory behind")
    elif command == "doctor":
        parser.add_argument("--ask", action="store_true", help="also ask each provider that has a key for its models")
    _common(parser)
    return parser


def _seconds(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = -1.0
    if not 0 < value < 1e9:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of seconds above 0")
    return value


def split(argv: Sequence[str]) -> tuple[str | None, list[str]]:
    """The command, if the first plain word is one, and the other words in order."""
    index = 0
    while index < len(argv):
        word = argv[index]
        if word == "--":
            break
        if word in _WITH_VALUE:
            index += 2
            continue
        if not word.startswith("-") or word == "-":
            if word in COMMANDS:
                return word, [*argv[:index], *argv[index + 1 :]]
            break
        index += 1
    return None, list(argv)


def parse(argv: Sequence[str]) -> tuple[str | None, CommandOptions]:
    """The command (None: the screen) and its options. Raises UsageError, or SystemExit(0) after printing --help."""
    command, words = split(argv)
    place = {None: "prompt", "run": "prompt", "resume": "sessions"}.get(command)
    rest: list[str] = []
    if place is not None and "--" in words:
        # argparse would look for options among these, too.
        rest = words[words.index("--") + 1 :]
        words = words[: words.index("--")]
    try:
        options = _parser(command).parse_intermixed_args(words, _OPTIONS[command]())
    except argparse.ArgumentTypeError as error:
        raise UsageError(str(error)) from None
    if place is not None:
        setattr(options, place, [*getattr(options, place), *rest])
    return command, options


def prompt_of(words: Sequence[str]) -> str | None:
    """The prompt of the words given, None when there are none. Raises UsageError for an empty one."""
    if not words:
        return None
    text = " ".join(words)
    if not text.strip():
        raise UsageError("the prompt is empty; say what to do")
    # Undecodable bytes of the command line arrive as lone surrogates.
    return text.encode("utf-8", "replace").decode("utf-8")


def wants_json(argv: Sequence[str]) -> bool:
    """Whether JSON was asked for, also on a command line that cannot be parsed."""
    command, words = split(argv)
    if command is None:
        return False
    return "--json" in (words[: words.index("--")] if "--" in words else words)


def main(argv: Sequence[str] | None = None) -> int:
    """Run the program and return its exit status (`host/exit_status.py`)."""
    words = list(sys.argv[1:] if argv is None else argv)
    json_lines = wants_json(words)
    try:
        command, options = parse(words)
        if options.version:
            print(f"durable-tui {__version__}")
            return int(Status.ANSWERED)
        from durable_tui.host.paths import check_platform

        check_platform()
        if isinstance(options, ScreenCommand):
            return _screen(options)
        return int(_headless(cast(str, command), options, json_lines).status)
    except KeyboardInterrupt:  # before there was a session
        return int(Status.INTERRUPTED)
    except SystemExit as error:  # argparse, after --help
        return int(error.code) if isinstance(error.code, int) else 0
    except Exception as error:
        ended = exit_for(error)
        if ended is None:
            raise
        return _refused(ended, json_lines)


def _refused(ended: Exit, json_lines: bool) -> int:
    """Say why nothing started: on stderr, and as the last line of `--json`."""
    from durable_tui.cli.output import Output, note
    from durable_tui.host.jsonlines import json_line

    note(f"durable-tui: {ended.message}")
    if json_lines:
        with Output(json_lines=True) as output:
            output.finish(json_line(ended.event()), timeout=1.0)
    return int(ended.status)


def _screen(options: ScreenCommand) -> int:
    from durable_tui.cli.launcher import launch, unusable

    prompt = prompt_of(options.prompt)
    if unusable() is not None:
        return launch([])
    from durable_tui.host.options import ScreenOptions
    from durable_tui.host.paths import working_directory

    return launch(
        ScreenOptions(
            directory=working_directory(options.directory),
            prompt=prompt,
            new=options.new,
            session=options.session,
            paused=options.paused,
            model=options.model,
            thinking=options.thinking,
        ).words()
    )


def _headless(command: str, options: CommandOptions, json_lines: bool) -> Exit:
    from importlib import import_module

    from durable_tui.cli.output import Output
    from durable_tui.cli.supervise import Supervisor, quiet_interpreter_exit
    from durable_tui.host.logs import start_logging
    from durable_tui.host.paths import Paths

    start_logging(Paths.from_env())
    with Output(json_lines=json_lines) as output:
        one_value = command in ("sessions", "show")
        supervisor = Supervisor(output, getattr(options, "timeout", None), one_value=one_value)
        run_command = import_module(f"durable_tui.cli.{command}").run_command
        ended = supervisor.run(lambda: run_command(options, output))
    quiet_interpreter_exit()
    return ended


def leave(status: int) -> int:
    """The status to exit with. Threads that an extension left running would keep the process: then it ends here."""
    import os
    import threading

    others = [thread for thread in threading.enumerate() if not thread.daemon and thread is not threading.main_thread()]
    if others:
        from durable_tui.cli.supervise import quiet_interpreter_exit

        quiet_interpreter_exit()
        os._exit(status)
    return status
