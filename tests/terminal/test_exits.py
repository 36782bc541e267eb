"""The exit statuses (spec 20): one test a row, real processes, and what `resume` does afterwards."""

from __future__ import annotations

import os
import re
import signal
import sqlite3
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from durable_tui.cli.status import MEANING, Status
from tests.tools.headless import Home, lines
from tests.tools.screen_kit import Seat

SLOW = [{"text": "It is done.", "delay": 20}]
QUICK = [{"text": "It is done."}]


@pytest.fixture
def home(tmp_path: Path) -> Iterator[Home]:
    home = Home(tmp_path)
    yield home
    assert home.alive() == []


def resumed(home: Home, status: int = 0, says: str = "answered") -> None:
    """`resume` of the session afterwards."""
    home.write(QUICK)
    ended = home.run("resume", str(home.session))
    assert ended.status == status, ended
    assert says in ended.stdout


def test_every_status_has_a_meaning_and_a_row_here() -> None:
    assert set(MEANING) == set(Status)
    source = Path(__file__).read_text()
    for status in Status:
        assert re.search(rf"def test_exit_{int(status)}_", source), f"no row for {status!r}"


def test_exit_0_answered(home: Home) -> None:
    ended = home.run(*home.in_session())
    assert (ended.status, ended.stdout, ended.stderr) == (0, "It is done.\n", "")
    again = home.run("resume")
    assert again.status == 0 and "nothing is unfinished" in again.stderr


def test_exit_1_unanswered(home: Home) -> None:
    home.write([{"error": {"message": "the account is empty", "kind": "quota"}}])
    ended = home.run(*home.in_session())
    assert ended.status == 1 and ended.stdout == ""
    assert "unanswered, model_error: play: the account is empty" in ended.stderr
    assert lines(home.run(*home.in_session("--json")).stdout)[-1]["status"] == 1
    assert home.run("resume").status == 0


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["run"], "there is no prompt"),
        (["run", ""], "the prompt is empty"),
        (["run", "--what", "x"], "unrecognized arguments: --what"),
        (["run", "--request-id", "r", "x"], "--request-id needs a session"),
        (["run", "--session", "nobody", "x"], "no session is called 'nobody'"),
        (["run", "--session", "./gone.sqlite"], "there is no such session to resume"),
        (["run", "--session", "./no/where.sqlite", "x"], "there is no such directory"),
        (["run", "--timeout", "soon", "x"], "not a number of seconds"),
        (["run", "-C", "/nowhere", "x"], "choose one with -C DIR"),
        (["run", "--model", "openai/gpt", "x"], "set the environment variable OPENAI_API_KEY"),
        (["run", "--model", "nobody/m", "x"], "there is no provider 'nobody'"),
        (["run", "-"], "standard input held no prompt"),
        (["show", "nobody"], "no session is called 'nobody'"),
        (["resume", "./gone.sqlite"], "there is no such session"),
        ([], "the screen needs a terminal"),
    ],
)
def test_exit_2_usage(home: Home, words: list[str], says: str) -> None:
    ended = home.run(*words)
    assert ended.status == 2 and ended.stdout == "", ended
    assert says in ended.stderr and "Traceback" not in ended.stderr
    if words and words[0] != "show":
        (last,) = lines(home.run(words[0], "--json", *words[1:]).stdout)
        assert (last["type"], last["status"]) == ("exit", 2) and says in last["message"]


def test_exit_2_configuration_names_file_line_and_key(home: Home) -> None:
    (home.home / "config.toml").write_text("model = 'play/one'\n[settings]\nrestart_limt = 3\n")
    ended = home.run("run", "x")
    assert ended.status == 2
    where = home.home / "config.toml"
    assert f"{where}, line 3: settings.restart_limt: is not known; did you mean restart_limit?" in ended.stderr


def test_exit_2_no_model_says_how_to_get_one(home: Home) -> None:
    (home.home / "config.toml").unlink()
    ended = home.run("run", "x")
    assert ended.status == 2 and "OPENAI_API_KEY" in ended.stderr and "--model PROVIDER/MODEL" in ended.stderr
    assert not (home.home / "sessions").exists() or not list((home.home / "sessions").glob("*.sqlite"))


def test_exit_2_the_sessions_model_is_gone_and_its_return_goes_on(home: Home) -> None:
    home.write(SLOW)
    home.stop(home.busy(), signal.SIGTERM)
    (home.home / "config.toml").write_text("")
    ended = home.run("resume", str(home.session))
    assert ended.status == 2 and "choose another with --model PROVIDER/MODEL" in ended.stderr
    ended = home.run(*home.in_session())
    assert ended.status == 2 and "there is no provider 'play'" in ended.stderr
    resumed(home)


def test_exit_3_owned_by_another_process(home: Home) -> None:
    home.write(SLOW)
    owner = home.busy()
    ended = home.run(*home.in_session(prompt="me too"))
    assert ended.status == 3 and f"{owner.pid}" in ended.stderr
    (last,) = lines(home.run(*home.in_session("--json", prompt="me too")).stdout)
    assert (last["status"], last["reason"]) == (3, "locked")
    assert home.run("show", str(home.session)).status == 0, "reading needs no ownership"
    home.stop(owner, signal.SIGTERM)
    resumed(home)


def test_exit_4_damaged(home: Home) -> None:
    home.session.write_text("this is no session, only text\n")
    before = home.session.read_bytes()
    ended = home.run(*home.in_session())
    assert ended.status == 4 and str(home.session) in ended.stderr and "Traceback" not in ended.stderr
    last = lines(home.run(*home.in_session("--json")).stdout)[-1]
    assert (last["type"], last["status"], last["reason"]) == ("exit", 4, "damaged")
    assert home.session.read_bytes() == before
    assert home.run("resume", str(home.session)).status == 4
    assert lines(home.run("resume", "--json", str(home.session)).stdout)[-1]["status"] == 4


def test_exit_4_newer_names_both_versions_and_changes_nothing(home: Home) -> None:
    assert home.run(*home.in_session()).status == 0
    with sqlite3.connect(home.session) as raw:
        raw.execute("PRAGMA user_version = 77")
    raw.close()
    before = home.session.read_bytes()
    ended = home.run(*home.in_session())
    assert ended.status == 4 and "version 77" in ended.stderr and "version 2" in ended.stderr
    last = lines(home.run(*home.in_session("--json")).stdout)[-1]
    assert (last["type"], last["status"], last["reason"]) == ("exit", 4, "newer")
    assert home.run("resume", str(home.session)).status == 4
    shown = home.run("show", str(home.session))
    assert shown.status == 0 and "It is done." in shown.stdout, "what can be read may be read"
    assert home.session.read_bytes() == before


REFUSES = """
from durable_tui import Extension
from durable_tui.storage import SqliteStorage
from durable_tui.storage.errors import StorageRejected, StorageUncertain

inner = SqliteStorage.commit

async def commit(self, batch):
    if any(task["kind"] == "pi.tool" and task["state"]["status"] == "terminal" for task in batch.tasks):
        raise {error}
    await inner(self, batch)

SqliteStorage.commit = commit
extension = Extension("refuses")
"""


@pytest.mark.parametrize("form", [[], ["--json"]])
@pytest.mark.parametrize(
    ("error", "reason"),
    [
        ("StorageRejected(f'{self.label}: no space left, 0 bytes free', full=True)", "full"),
        ("StorageUncertain('the connection broke during COMMIT')", "poisoned"),
    ],
)
def test_exit_4_full_and_poisoned_while_a_result_is_stored(
    home: Home, error: str, reason: str, form: list[str]
) -> None:
    home.plugin("refuses", REFUSES.format(error=error))
    home.write([{"calls": [{"name": "bash", "args": {"command": "echo once >> made"}}]}, *QUICK])
    ended = home.run(*home.in_session(*form, "--request-id", "r"))
    assert ended.status == 4 and "Traceback" not in ended.stderr, ended
    if form:
        last = lines(ended.stdout)[-1]
        assert (last["type"], last["status"], last["reason"]) == ("exit", 4, reason)
    else:
        assert ended.stdout == "" and str(home.session) in ended.stderr
        assert {"full": "no space left, 0 bytes free", "poisoned": "broke during COMMIT"}[reason] in ended.stderr
    (home.home / "extensions" / "refuses.py").unlink()
    ended = home.run("resume", str(home.session))
    assert ended.status == 0 and "answered" in ended.stdout, ended
    assert (home.project / "made").read_text() == "once\n", "its outcome was unknown, so it did not run again"


def test_exit_5_parked_by_the_restart_limit_and_retry_finishes(home: Home) -> None:
    home.write(SLOW, extra="[settings]\nrestart_limit = 1")
    home.kill(home.busy())
    ended = home.run(*home.in_session(prompt=None))
    assert ended.status == 5 and "restart_limit" in ended.stderr and "resume --retry" in ended.stderr
    last = lines(home.run(*home.in_session("--json", prompt=None)).stdout)[-1]
    assert (last["status"], last["reason"]) == (5, "restart_limit")
    home.write(QUICK, extra="[settings]\nrestart_limit = 1")
    assert home.run("resume", str(home.session)).status == 5
    assert home.run("resume", "--retry", str(home.session)).status == 0


@pytest.mark.parametrize("form", [[], ["--json"]])
def test_exit_124_timeout_stops_in_order(home: Home, form: list[str]) -> None:
    home.write(SLOW)
    ended = home.run(*home.in_session("--timeout", "1", *form))
    assert ended.status == 124 and "--timeout" in ended.stderr, ended
    if form:
        assert lines(ended.stdout)[-1]["status"] == 124
    else:
        assert ended.stdout == ""
    assert closed_in_order(home)
    resumed(home)


@pytest.mark.parametrize("form", [[], ["--json"]])
@pytest.mark.parametrize(("number", "status"), [(signal.SIGHUP, 129), (signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_exit_129_130_143_signals_close_in_order(home: Home, number: int, status: int, form: list[str]) -> None:
    home.write(SLOW)
    ended = home.stop(home.busy(*form), number)
    assert ended.status == status and signal.Signals(number).name in ended.stderr, ended
    if form:
        assert lines(ended.stdout)[-1]["status"] == status
    else:
        assert ended.stdout == ""
    assert closed_in_order(home)
    resumed(home)


def test_exit_129_hangup(home: Home) -> None:
    home.write(SLOW)
    assert home.stop(home.busy(), signal.SIGHUP).status == 129


def test_exit_130_interrupt_of_a_tool_ends_its_processes(home: Home) -> None:
    home.write([{"calls": [{"name": "bash", "args": {"command": "sleep 61"}}]}, *QUICK])
    assert home.stop(home.busy(phase="execute"), signal.SIGINT).status == 130
    home.wait_gone()


def test_exit_143_terminated_twice_is_still_143(home: Home) -> None:
    home.write(SLOW)
    process = home.busy()
    os.kill(process.pid, signal.SIGTERM)
    assert home.stop(process, signal.SIGTERM).status == 143


def test_exit_137_killed_and_run_again_with_the_request_id_never_submits_twice(home: Home) -> None:
    home.write(SLOW)
    for _ in range(2):
        home.kill(home.busy("--request-id", "job-1"))
    home.write(QUICK)
    ended = home.run(*home.in_session("--request-id", "job-1"))
    assert (ended.status, ended.stdout) == (0, "It is done.\n")
    with sqlite3.connect(home.session) as raw:
        assert raw.execute("SELECT count(*) FROM submissions").fetchone() == (1,)
    raw.close()
    assert Status.KILLED == 137


def test_exit_137_a_killed_screen_through_its_launcher_and_resume_without_one(tmp_path: Path) -> None:
    seat = Seat(tmp_path)
    seat.write(SLOW)
    with seat.open() as window:
        window.say("begin")
        window.wait_state("running")
        assert window.kill_app() == 137
        window.pump()
        assert b"durable-tui was killed (SIGKILL)." in window.raw and b"Continue: " in window.raw
    seat.wait_gone()
    seat.write(QUICK)
    ended = seat.run("resume")
    assert ended.status == 0 and "= answered" in ended.stdout, ended


@pytest.mark.parametrize("form", [[], ["--json"]])
def test_exit_141_broken_pipe(home: Home, form: list[str]) -> None:
    home.write(SLOW)
    process = home.busy(*form)
    assert process.stdout is not None
    process.stdout.close()
    process.stdout = None
    assert process.wait(timeout=30) == 141
    assert process.stderr is not None and "Traceback" not in process.stderr.read()
    process.stderr.close()
    assert closed_in_order(home)
    resumed(home)


def test_the_highest_status_of_several_sessions_counts(home: Home) -> None:
    home.write(SLOW)
    home.stop(home.busy(), signal.SIGTERM)
    broken = home.folder / "broken.sqlite"
    broken.write_text("no session\n")
    home.write(QUICK)
    ended = home.run("resume", str(home.session), str(broken))
    assert ended.status == 4 and "= answered" in ended.stdout


def test_nohup_ignored_signals_stay_ignored(home: Home) -> None:
    home.write([{"text": "It is done.", "delay": 1.5}])
    home.environment["IGNORED"] = "1"
    process = subprocess.Popen(
        ["nohup", *home.command(*home.in_session())], cwd=home.project, env=home.environment,
        stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    home.wait_until(lambda reader: reader.execute("SELECT count(*) FROM tasks").fetchone()[0] > 0)
    ended = home.stop(process, signal.SIGHUP)
    assert (ended.status, ended.stdout) == (0, "It is done.\n")


def closed_in_order(home: Home) -> bool:
    raw = sqlite3.connect(f"file:{home.session}?mode=ro", uri=True)
    try:
        (closed,) = raw.execute("SELECT closed_at FROM owners ORDER BY epoch DESC LIMIT 1").fetchone()
    finally:
        raw.close()
    return closed is not None
