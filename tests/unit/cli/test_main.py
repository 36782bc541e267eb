"""The command line (spec 20)."""

from __future__ import annotations

import pytest

from durable_tui import __version__
from durable_tui.cli.main import main, parse, prompt_of, split, wants_json
from durable_tui.cli.status import MEANING, Exit, Status, UsageError, exit_for
from durable_tui.host.host_errors import ConfigError, HostError
from durable_tui.storage.errors import (
    Fenced,
    SessionLocked,
    StorageDamaged,
    StorageNewer,
    StorageRejected,
    StorageUncertain,
)


@pytest.mark.parametrize(
    ("argv", "command", "prompt"),
    [
        ([], None, []),
        (["fix the bug"], None, ["fix the bug"]),
        (["fix", "the", "bug"], None, ["fix", "the", "bug"]),
        (["run", "x"], "run", ["x"]),
        (["run", "run"], "run", ["run"]),
        (["-C", "run", "--model", "demo", "run", "x"], "run", ["x"]),
        (["--", "run"], None, ["run"]),
        (["run", "--", "--json"], "run", ["--json"]),
        (["run", "-"], "run", ["-"]),
        (["run", "x", "--json"], "run", ["x"]),
        (["run", "a", "--json", "b"], "run", ["a", "b"]),
        (["run", "--timeout", "3", "--", "-x", "y"], "run", ["-x", "y"]),
        (["--thinking", "high", "run", "x"], "run", ["x"]),
    ],
)
def test_spec_20_command_and_prompt(argv: list[str], command: str | None, prompt: list[str]) -> None:
    found, options = parse(argv)
    assert (found, options.prompt) == (command, prompt)


def test_spec_20_options_may_stand_before_the_command() -> None:
    command, options = parse(["-C", "/tmp", "--model", "p/m", "run", "--session", "s", "--request-id", "r", "x"])
    assert command == "run" and (options.directory, options.model) == ("/tmp", "p/m")
    assert (options.session, options.request_id, options.timeout, options.json) == ("s", "r", None, False)
    assert split(["--session", "run", "hello"])[0] is None


@pytest.mark.parametrize(
    "argv",
    [
        ["run", "--session", "a", "--continue", "x"],
        ["--new", "--session", "a"],
        ["run", "--timeout", "0", "x"],
        ["run", "--timeout", "nan", "x"],
        ["run", "--timeout"],
        ["run", "--thinking", "hard", "x"],
        ["--thinking"],
        ["resume", "--thinking", "low"],
        ["run", "--sess", "a", "x"],
        ["show"],
        ["show", "a", "--json", "--export", "md"],
        ["show", "a", "--export", "pdf"],
        ["sessions", "what"],
        ["--json", "x"],
    ],
)
def test_spec_20_wrong_words_are_usage_errors(argv: list[str]) -> None:
    with pytest.raises(UsageError, match="--help"):
        parse(argv)


def test_thinking_is_one_of_the_levels_and_the_others_are_named() -> None:
    assert parse(["--thinking", "xhigh"])[1].thinking == "xhigh" and parse(["run", "x"])[1].thinking is None
    with pytest.raises(UsageError, match="'hard' is not one of off, minimal, low, medium, high, xhigh"):
        parse(["run", "--thinking=hard", "x"])


def test_spec_20_json_is_known_before_the_words_are_right() -> None:
    assert wants_json(["run", "--what", "--json"]) and wants_json(["-C", "x", "sessions", "--json"])
    assert not wants_json(["run", "--", "--json"]) and not wants_json(["--json", "x"])


def test_spec_20_prompts() -> None:
    assert prompt_of([]) is None and prompt_of(["a", "b"]) == "a b"
    assert prompt_of(["bad \udcff byte"]) == "bad ? byte"
    with pytest.raises(UsageError, match="empty"):
        prompt_of([" ", ""])


def test_spec_20_version_and_help(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--version"]) == 0 and main(["run", "--version"]) == 0
    assert capsys.readouterr().out == f"durable-tui {__version__}\n" * 2
    assert main(["--help"]) == 0
    assert "durable-tui resume [SESSION ...]" in capsys.readouterr().out
    for command in ("run", "resume", "sessions", "show", "demo", "doctor"):
        assert main([command, "--help"]) == 0


@pytest.mark.parametrize(
    ("error", "status", "reason"),
    [
        (UsageError("x"), 2, "usage"),
        (HostError("x"), 2, "usage"),
        (ConfigError("x"), 2, "configuration"),
        (SessionLocked("x", {"pid": 1}), 3, "locked"),
        (Fenced("x"), 3, "fenced"),
        (StorageDamaged("x"), 4, "damaged"),
        (StorageNewer("x", 2, 1), 4, "newer"),
        (StorageRejected("x", full=True), 4, "full"),
        (StorageRejected("x"), 4, "rejected"),
        (StorageUncertain("x"), 4, "poisoned"),
    ],
)
def test_spec_20_errors_become_statuses(error: Exception, status: int, reason: str) -> None:
    assert exit_for(error) == Exit(Status(status), reason, "x")


def test_spec_20_a_defect_has_no_status_of_its_own() -> None:
    assert exit_for(KeyError("x")) is None


def test_spec_17_6_the_exit_event_leaves_out_what_is_unknown() -> None:
    assert Exit(Status.ANSWERED).event() == {"type": "exit", "status": 0}
    full = Exit(Status.PARKED, "restart_limit", "waits", 7).event()
    assert full == {"type": "exit", "status": 5, "reason": "restart_limit", "message": "waits", "submission": 7}
    assert list(Status) == sorted(MEANING)
