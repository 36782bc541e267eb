"""The headless command as a program among others (cases L01-L07), with real processes and a real server."""

from __future__ import annotations

import json
import os
import re
import signal
import sqlite3
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.tools.headless import Home, lines
from tests.tools.model_server import ModelServer

FAST_RETRY = "[settings]\nretry = {max_retries = 1, base_delay = 0.05, max_delay = 0.1}\n"
QUICK = [{"text": "It is done."}]


@pytest.fixture
def home(tmp_path: Path) -> Iterator[Home]:
    home = Home(tmp_path)
    yield home
    home.wait_gone()


def served(home: Home, server: ModelServer) -> None:
    """Ask this server."""
    home.write(QUICK, extra=f'{FAST_RETRY}[providers.net]\nbase_url = "{server.base_url}"', model="net/m")


@pytest.mark.parametrize(
    ("turns", "status", "says"),
    [
        ([{"status": 401, "body": '{"error": {"message": "bad key"}}'}], 1, "bad key"),
        ([{"status": 503, "body": "overloaded"}], 1, "overloaded"),
        ([{"calls": [{"name": "read", "args": {"path": "none.txt"}}]}, {"text": "There is no such file."}], 0, ""),
    ],
    ids=["401", "every retry fails", "a tool error, then an answer"],
)
def test_l01_text_and_json_end_with_the_same_status(
    home: Home, turns: list[dict[str, object]], status: int, says: str
) -> None:
    with ModelServer(turns) as server:
        served(home, server)
        text = home.run("run", "go")
        events = home.run("run", "--json", "go")
    assert (text.status, events.status) == (status, status), (text, events)
    last = lines(events.stdout)[-1]
    assert (last["type"], last["status"]) == ("exit", status)
    if status:
        assert text.stdout == "" and says in text.stderr and says in last["message"]
    else:
        assert text.stdout == "There is no such file.\n"


@pytest.mark.parametrize("form", [[], ["--json"]])
def test_l01_an_interrupt_is_130_in_both(home: Home, form: list[str]) -> None:
    with ModelServer([{"text": "never", "delay": 30}]) as server:
        served(home, server)
        ended = home.stop(home.busy(*form), signal.SIGINT)
    assert ended.status == 130
    if form:
        assert lines(ended.stdout)[-1]["status"] == 130


def test_l02_output_is_linear_in_the_answer_and_waits_for_a_slow_reader(home: Home) -> None:
    def size(pieces: int) -> int:
        text = "0123456789" * pieces
        with ModelServer([{"text": text, "delay": 1.0}]) as server:
            served(home, server)
            process = home.start(home.command("run", "--json", "go"))
            time.sleep(1.0)
            ended = home.finish(process)
        assert ended.status == 0, ended
        found = lines(ended.stdout)
        updates = [line for line in found if line["type"] == "message_update"]
        told = "".join(op[2] for line in updates for op in line["changes"] if op[0] == "a")
        assert told and told in text and len(told) < len(text), "updates hold only what was appended"
        # The prompt and tool descriptions are a fixed cost.
        return len(ended.stdout) - sum(len(json.dumps(line)) for line in found if line["type"] == "snapshot")

    short, double = size(4000), size(8000)
    assert short < 10 * 40_000 and double < 10 * 80_000
    assert double < 2.3 * short


NOISY = '''
import logging, os, sys, warnings
from pydantic import BaseModel
from durable_tui import Extension, tool

class Args(BaseModel):
    pass

@tool
async def shout(args: Args, call) -> str:
    """Write everywhere."""
    print("printed")
    os.write(1, b"written to 1\\n")
    os.system("echo from a child")
    warnings.warn("a warning", DeprecationWarning, stacklevel=1)
    logging.getLogger("library").warning("logged")
    return "shouted"

print("printed at import")
extension = Extension("noisy", tools=[shout])
'''


def test_l03_every_stdout_line_is_json_whatever_else_writes_to_stdout(home: Home) -> None:
    home.environment["PYTHONWARNINGS"] = "always"
    home.plugin("noisy", NOISY)
    home.write([{"calls": [{"name": "shout", "args": {}}]}, *QUICK])
    events = home.run("run", "--json", "go")
    assert events.status == 0, events
    found = lines(events.stdout)
    assert found[0]["type"] == "snapshot" and found[-1] == {**found[-1], "type": "exit", "status": 0}
    for stray in ("printed", "written to 1", "from a child", "printed at import"):
        assert stray in events.stderr
    text = home.run("run", "go")
    assert text.stdout == "It is done.\n"


@pytest.mark.parametrize("command", ["run", "resume"])
def test_a_key_of_the_configuration_that_does_nothing_is_told_once(home: Home, command: str) -> None:
    home.run("run", "--session", str(home.session), "go")
    home.write(QUICK, extra="[settings]\ncompaction = {enabled = true}")
    ended = home.run(*(["run", "go"] if command == "run" else ["resume", str(home.session), str(home.session)]))
    assert ended.status == 0, ended
    [line] = [line for line in ended.stderr.splitlines() if "compaction" in line]
    assert f"{home.home / 'config.toml'}, line " in line and "settings.compaction: has no effect yet" in line


@pytest.mark.parametrize("words", [["run", "--json", "--bad"], ["run", "--json", "--session", "nobody", "x"]])
def test_l03_a_failure_before_the_start_is_one_json_line_and_status_2(home: Home, words: list[str]) -> None:
    ended = home.run(*words)
    (last,) = lines(ended.stdout)
    assert ended.status == 2 and (last["type"], last["status"]) == ("exit", 2) and last["message"]


@pytest.mark.parametrize("form", [[], ["--json"]])
def test_l05_the_reader_leaves_while_a_tool_runs(home: Home, form: list[str]) -> None:
    home.environment["PYTHONUNBUFFERED"] = "1"
    home.write(
        [{"text": "first", "calls": [{"name": "bash", "args": {"command": "while :; do echo x; sleep 0.05; done"}}]}]
    )
    process = home.busy(*form, phase="execute")
    assert process.stdout is not None and process.stderr is not None
    process.stdout.close()
    assert process.wait(timeout=20) == 141
    said = process.stderr.read()
    assert "Traceback" not in said and "BrokenPipe" not in said
    process.stderr.close()
    home.wait_gone()
    home.write([*QUICK, *QUICK])
    assert home.run("resume", str(home.session)).status == 0


LEAVES = '''
import os, threading, time
from pydantic import BaseModel
from durable_tui import Extension, tool

class Args(BaseModel):
    how: str

@tool
async def leave(args: Args, call) -> str:
    """End in a bad way."""
    threading.Thread(target=time.sleep, args=(600,)).start()
    if args.how == "exit":
        raise SystemExit(9)
    if args.how == "raise":
        raise RuntimeError("a defect of the extension")
    if args.how == "block":
        time.sleep(600)
    return "normal"

extension = Extension("leaves", tools=[leave])
'''


@pytest.mark.parametrize(("how", "statuses"), [("normal", {0}), ("raise", {0}), ("exit", {0, 1})])
def test_l06_the_process_is_gone_whatever_an_extension_does(home: Home, how: str, statuses: set[int]) -> None:
    home.plugin("leaves", LEAVES)
    home.write([{"calls": [{"name": "leave", "args": {"how": how}}]}, *QUICK])
    process = home.start(home.command(*home.in_session()))
    home.wait_until(
        lambda reader: reader.execute("SELECT count(*) FROM tasks WHERE kind = 'pi.tool'").fetchone()[0] > 0
    )
    ended = home.finish(process, timeout=20)
    assert ended.status in statuses, ended
    assert "Traceback" not in ended.stderr
    home.write(QUICK)
    assert home.run("resume", str(home.session)).status == 0


def test_l06_sigterm_while_an_extension_blocks_the_loop(home: Home) -> None:
    home.plugin("leaves", LEAVES)
    home.write([{"calls": [{"name": "leave", "args": {"how": "block"}}]}, *QUICK])
    process = home.busy("--json", phase="execute")
    begun = time.monotonic()
    ended = home.stop(process, signal.SIGTERM)
    assert ended.status == 143 and lines(ended.stdout)[-1]["status"] == 143
    assert time.monotonic() - begun < 6, "gone within 3 s, on a machine that may be busy"
    (home.home / "extensions" / "leaves.py").unlink()
    home.write([*QUICK, *QUICK])
    assert home.run("resume", str(home.session)).status == 0


WORD = '''
from pydantic import BaseModel
from durable_tui import Extension, tool
from durable_tui.engine import TaskDefinition, new_task

class Args(BaseModel):
    pass

async def wait(task):
    async with task.commit() as tx:
        task.advance(tx, {"phase": "end"}, gate={"reason": "idle", "person": True})

async def end(task):
    async with task.commit() as tx:
        task.complete(tx, None)

KIND = TaskDefinition("t.word", {"wait": wait, "end": end}, lambda _: {"phase": "wait"})

@tool
async def word(args: Args, call) -> str:
    """Begin something that waits for a word."""
    async with call.commit() as tx:
        new_task(tx, conversation_id=call.conversation_id, definition=KIND, input={}, owner=call.task_id, running=True)
    return "begun"

extension = Extension("word", tools=[word], tasks=[KIND])
'''


def test_spec_6_12_a_run_that_waits_for_a_person_is_parked_until_it_is_retried(home: Home) -> None:
    home.plugin("word", WORD)
    home.write([{"calls": [{"name": "word", "args": {}}]}, *QUICK])
    ended = home.run(*home.in_session("--json"))
    *events, last = lines(ended.stdout)
    assert (ended.status, last["reason"]) == (5, "idle"), ended
    assert [event["reason"] for event in events if event["type"] == "parked"] == ["idle"]
    again = home.run("resume", str(home.session))
    assert again.status == 5 and "resume --retry" in again.stdout, again
    assert home.run("resume", "--retry", str(home.session)).status == 0


def test_spec_6_12_a_task_that_waits_for_a_person_keeps_no_other_input_from_its_answer(home: Home) -> None:
    home.plugin("word", WORD.replace("owner=call.task_id, ", ""))
    home.write([{"calls": [{"name": "word", "args": {}}]}, {"text": "It is begun."}])
    assert home.run(*home.in_session()).status == 0
    home.write([{"text": "And this is another answer."}])
    for _ in range(3):
        ended = home.run(*home.in_session("--json", prompt="and another"))
        *events, last = lines(ended.stdout)
        assert (ended.status, last["type"], last["status"]) == (0, "exit", 0), ended
        assert [event["record"]["status"] for event in events if event["type"] == "submission"][-1] == "done"
    assert home.run("resume", str(home.session)).status == 5


def settled(reader: sqlite3.Connection) -> bool:
    """Whether the newest input has its answer."""
    row = reader.execute("SELECT record FROM submissions ORDER BY id DESC LIMIT 1").fetchone()
    return row is not None and json.loads(row[0])["status"] == "done"


def test_spec_17_6_a_reader_that_comes_late_gets_every_line_and_the_last_one(home: Home) -> None:
    home.write([{"text": "It is done, at last."}])
    process = home.start(home.command(*home.in_session("--json", prompt="0123456789" * 12_000)))
    home.wait_until(settled)
    time.sleep(1.5)  # the reader is late
    ended = home.finish(process)
    assert ended.status == 0, ended.stderr
    told = lines(ended.stdout)
    kinds = [line["type"] for line in told]
    assert kinds[0] == "snapshot" and kinds[-1] == "exit" and kinds.count("exit") == 1
    assert {"run_start", "message_end", "run_end"} <= set(kinds)
    assert [line["record"]["status"] for line in told if line["type"] == "submission"][-1] == "done"


def test_l07_unicode_line_ends_and_nul_do_not_break_lines(home: Home) -> None:
    text = "a\u2028b\u2029c\u0085d\x00e\x0bf\x1cg 😀"
    home.write([{"text": text}])
    events = home.run("run", "--json", "go")
    raw = events.stdout
    assert len(raw.splitlines()) == raw.count("\n") == len(lines(raw))
    entries = [line["entry"] for line in lines(raw) if line["type"] == "message_end"]
    assert entries[-1]["model"][0]["content"][0]["text"] == text
    for character in "\u2028\u2029\u0085\x00":
        assert character not in raw
    assert home.run("run", "go").stdout == text + "\n"


def test_spec_20_the_prompt_from_stdin_only_for_a_dash(home: Home) -> None:
    words = home.command("run", "--json", "-")
    ended = subprocess.run(
        words, cwd=home.project, env=home.environment, input=b"from\xff stdin\n", capture_output=True, timeout=60
    )
    first = next(line for line in lines(ended.stdout.decode()) if line["type"] == "entry_appended")
    assert first["entry"]["model"][0]["content"] == "from\ufffd stdin"
    reading, writing = os.pipe()  # a stdin that never ends
    process = subprocess.run(
        home.command("run", "go"),
        cwd=home.project,
        env=home.environment,
        stdin=reading,
        capture_output=True,
        timeout=60,
    )
    os.close(reading)
    os.close(writing)
    assert process.returncode == 0


def test_spec_20_a_slow_step_says_what_it_is_on_stderr(home: Home) -> None:
    home.write([{"calls": [{"name": "bash", "args": {"command": "sleep 2.5"}}]}, *QUICK])
    ended = home.run("run", "go")
    assert (ended.status, ended.stdout) == (0, "It is done.\n")
    assert ended.stderr == "… running bash sleep 2.5\n"


def test_spec_20_closed_standard_streams_are_no_place_for_the_session(home: Home) -> None:
    command = " ".join(home.command(*home.in_session(prompt="go")))
    ended = subprocess.run(
        ["sh", "-c", f"{command} >&- 2>&- <&-; echo status $?"], cwd=home.project, env=home.environment,
        capture_output=True, text=True, timeout=60,
    )  # fmt: skip
    assert ended.stdout == "status 0\n"
    assert home.run("show", str(home.session)).status == 0


def test_spec_20_run_in_the_newest_session_and_by_a_part_of_its_id(home: Home) -> None:
    assert home.run("run", "--continue", "--request-id", "a", "one").status == 0
    assert home.run("run", "--continue", "two").status == 0
    (info,) = json.loads(home.run("sessions", "--json").stdout)
    assert (info["state"], info["title"], info["cwd"]) == ("clean", "one", str(home.project.resolve()))
    ended = home.run("run", "--session", info["id"][-8:], "--request-id", "a", "other words")
    assert ended.status == 0
    shown = json.loads(home.run("show", "--json", info["id"][-8:]).stdout)
    assert [item["status"] for item in shown["submissions"]] == ["done", "done"]
    assert shown["session"]["id"] == info["id"] and shown["recovery"] == {"deaths": []}


def test_spec_20_demo_without_a_terminal(home: Home) -> None:
    home.environment["TMPDIR"] = str(home.folder)
    ended = home.run("demo", timeout=60)
    assert ended.status == 0, ended
    assert "kill -9 of worker" in ended.stdout and "→ interrupted" in ended.stdout
    assert '-  "port": "8080",' in ended.stdout and '+  "port": 8080,' in ended.stdout
    assert not list(home.folder.glob("durable-tui-demo-*"))


def test_run_lets_the_model_think_as_much_as_is_asked(home: Home) -> None:
    with ModelServer([{"text": "It is done."}]) as server:
        home.write(QUICK, extra=f'[providers.ollama]\nbase_url = "{server.base_url}"', model="ollama/gpt-oss:20b")
        first = home.run("run", "--thinking", "high", "--session", str(home.session), "go")
        again = home.run("run", "--session", str(home.session), "go on")
        other = home.run("run", "go")
        assert first.status == again.status == other.status == 0, (first, again, other)
        assert [body.get("reasoning_effort") for body in server.requests] == ["high", "high", None]


def test_spec_20_doctor_says_what_to_do(home: Home) -> None:
    ended = home.run("doctor")
    assert ended.status == 0, ended
    assert (
        "openai: no key; set the environment variable OPENAI_API_KEY" in ended.stdout
        and "default model play/one" in ended.stdout
    )


def test_spec_8_4_an_input_behind_a_run_that_fails_is_still_taken(home: Home) -> None:
    home.write([{"text": "x", "delay": 30}])
    home.kill(home.busy())
    failing = '{"message": "no", "kind": "quota"}'
    (home.home / "turns.json").write_text(f'[{{"error": {failing}}}]')
    ended = home.run(*home.in_session("--timeout", "20", prompt="and then this"))
    assert ended.status == 1 and "unanswered, model_error" in ended.stderr, ended
    shown = json.loads(home.run("show", "--json", str(home.session)).stdout)
    assert [item["status"] for item in shown["submissions"]] == ["unanswered", "unanswered"]


def test_spec_20_a_session_without_a_prompt_gives_its_newest_answer_again(home: Home) -> None:
    assert home.run(*home.in_session()).status == 0
    for _ in range(2):
        ended = home.run(*home.in_session(prompt=None))
        assert (ended.status, ended.stdout) == (0, "It is done.\n")
    ended = home.run(*home.in_session("--request-id", "never", prompt=None))
    assert ended.status == 2 and "knows no request 'never'" in ended.stderr


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_spec_15_a_command_that_a_signal_ends_with_its_run_is_told_by_show_and_resume(home: Home, number: int) -> None:
    home.write([{"calls": [{"name": "bash", "args": {"command": "echo once >> made; sleep 30"}}]}, *QUICK])
    process = home.busy(phase="execute")
    home.wait_until(lambda _: (home.project / "made").exists())
    assert home.stop(process, number).status == 128 + number
    home.wait_gone()
    (row,) = json.loads(home.run("show", "--json", str(home.session)).stdout)["recovery"]["deaths"]
    assert row["ended"] == "closed" and [task["phase"] for task in row["tasks"]] == ["execute"]
    assert "verdict" not in row["tasks"][0]
    assert "not opened since" in home.run("show", str(home.session)).stdout
    told = home.run("resume").stdout
    assert f"pid {process.pid} on " in told and "was closed (in order, ending what ran)" in told and "died" not in told
    assert "→ interrupted in #" in told
    assert (home.project / "made").read_text() == "once\n"


def test_spec_15_resume_and_show_print_the_rows_of_the_report(home: Home) -> None:
    home.write([{"calls": [{"name": "bash", "args": {"command": "echo once >> made; sleep 30"}}]}, *QUICK])
    process = home.busy(phase="execute")
    home.wait_until(lambda _: (home.project / "made").exists())
    home.kill(process)
    home.wait_gone()
    ended = home.run("resume", "--json")
    assert ended.status == 0, ended
    found = lines(ended.stdout)
    assert found[0]["type"] == "snapshot" and found[-1]["type"] == "exit"
    assert {line["session"] for line in found[:-1]} == {"job"}
    tasks = [line["task"] for line in found if line["type"] == "recovery"]
    verdicts = {task["kind"]: task["verdict"] for task in tasks}
    assert verdicts == {"pi.tool": "interrupted", "pi.generation": "woken"}
    shown = json.loads(home.run("show", "--json", str(home.session)).stdout)
    (death,) = shown["recovery"]["deaths"]
    assert death["pid"] == process.pid and sorted(death["tasks"], key=str) == sorted(tasks, key=str)
    text = home.run("show", str(home.session)).stdout
    assert f"pid {process.pid} on " in text and re.search(r"→ interrupted in #\d+: An effect .* \(spec 10\)\n", text)
    assert (home.project / "made").read_text() == "once\n"
