"""Commands of the local environment: spec 10 and 16, cases T16-T20, T27, T28, UI-A01, UI-A06, UI-A07."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
import time
import uuid
from pathlib import Path

import pytest

from durable_tui.environment import (
    EnvironmentFailed,
    EnvironmentScope,
    LocalEnvironment,
    ProcessResult,
    end_leftovers,
    find_leftovers,
)
from durable_tui.environment.leftovers import Leftover
from durable_tui.environment.spill import KEEP_BYTES, KEEP_LINES
from durable_tui.environment.variables import command_variables, is_provider_key
from tests.tools.fake_call import children, marked
from tests.tools.waiting import a_while, until


class Room:
    """A directory, a mark, and the output of the last command."""

    def __init__(self, path: Path, files: Path | None = None) -> None:
        self.mark = uuid.uuid4().hex
        self.environment = LocalEnvironment.at(
            EnvironmentScope(str(path), files=str(files) if files else None, task_id=9, session=self.mark)
        )
        self.output = b""
        self.pieces = 0

    def take(self, piece: bytes) -> None:
        self.output += piece
        self.pieces += 1

    async def run(self, command: str, timeout: float | None = 60) -> ProcessResult:
        self.output = b""
        self.pieces = 0
        return await self.environment.run(command, timeout=timeout, on_output=self.take)

    def alive(self) -> list[int]:
        return marked(self.mark)


@pytest.fixture
def room(tmp_path: Path) -> Room:
    return Room(tmp_path, tmp_path / "files")


async def cancel_after(seconds: float, task: asyncio.Task[ProcessResult]) -> None:
    await asyncio.sleep(seconds)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


async def test_output_and_errors_come_in_order_and_the_code_is_told(room: Room) -> None:
    result = await room.run("echo one; echo two >&2; echo three; exit 5")
    assert room.output == b"one\ntwo\nthree\n"
    assert (result.code, result.signal, result.timed_out) == (5, None, False)
    assert (result.output_bytes, result.output_path, result.survivors_killed) == (14, None, 0)


async def test_output_comes_while_the_command_runs(room: Room) -> None:
    started = time.monotonic()
    seen: list[float] = []
    await room.environment.run("echo a; sleep 0.6; echo b", on_output=lambda _: seen.append(time.monotonic() - started))
    assert len(seen) == 2
    assert seen[1] - seen[0] > 0.3


async def test_t27_death_by_signal_is_told(room: Room) -> None:
    result = await room.run("sh -c 'kill -9 $$'")
    assert (result.code, result.signal) == (None, 9)


async def test_the_command_starts_with_default_signals(room: Room) -> None:
    # an ignored SIGPIPE or SIGTERM would be inherited by everything the command starts
    result = await room.run("grep -E '^SigIgn' /proc/self/status; yes | head -1")
    ignored, rest = room.output.removeprefix(b"SigIgn:\t").split(b"\n", 1)
    assert int(ignored, 16) & 0x7FFFFFFF == 0 and rest == b"y\n"  # from 32 on they are the C library's own
    assert result.code == 0


async def test_nothing_of_ours_is_open_in_the_command(room: Room) -> None:
    await room.run("ls /proc/self/fd | wc -l")
    assert int(room.output) == 4  # 0, 1, 2 and the directory that ls reads


async def test_the_environment_of_a_command(room: Room, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "secret")
    monkeypatch.setenv("MY_KEY", "secret")
    monkeypatch.setenv("PLAIN", "ü and \udcff")
    hiding = LocalEnvironment.hiding(["MY_KEY"])(EnvironmentScope(room.environment.cwd, task_id=3, session="s"))
    out: list[bytes] = []
    await hiding.run("cat /proc/self/environ", on_output=out.append)
    variables = dict(field.split(b"=", 1) for field in b"".join(out).split(b"\0") if field)
    assert b"OPENAI_API_KEY" not in variables and b"MY_KEY" not in variables
    assert variables[b"PLAIN"] == "ü and ".encode() + b"\xff"
    assert variables[b"DURABLE_TUI_TASK"] == b"3"
    assert variables[b"DURABLE_TUI_SESSION"] == b"s"
    assert variables[b"PAGER"] == b"cat"
    assert variables[b"GIT_TERMINAL_PROMPT"] == b"0"
    assert variables[b"TERM"] == b"dumb"
    assert b"NO_COLOR" not in variables


async def test_keys_are_not_found_in_the_supervisor_either(room: Room, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ANTHROPIC_API_KEY", "a-very-secret-key")
    await room.run("tr '\\0' '\\n' < /proc/$PPID/environ")
    assert b"PATH=" in room.output
    assert b"a-very-secret-key" not in room.output


@pytest.mark.parametrize(
    ("name", "key"),
    [
        ("OPENAI_API_KEY", True),
        ("ANTHROPIC_AUTH_TOKEN", True),
        ("OPENROUTER_API_KEY", True),
        ("GEMINI_API_KEY", True),
        ("xai_api_key", True),
        ("GITHUB_TOKEN", False),
        ("OPENAI_BASE_URL", False),
        ("MY_API_KEY", False),
    ],
)
def test_which_variables_are_provider_keys(name: str, key: bool) -> None:
    assert is_provider_key(name) is key


def test_marks_of_an_outer_session_are_replaced() -> None:
    inherited = {"DURABLE_TUI_RUN": "outer", "DURABLE_TUI_SESSION": "outer", "HOME": "/h"}
    found = command_variables(inherited, cwd="/w", marks={"DURABLE_TUI_SESSION": "inner"})
    assert found["DURABLE_TUI_SESSION"] == "inner" and found["HOME"] == "/h" and found["PWD"] == "/w"
    assert "DURABLE_TUI_RUN" not in found


@pytest.mark.parametrize("command", ["sleep 40 & echo started", "(while :; do echo t; sleep 0.2; done) & echo started"])
async def test_t16_ui_a07_a_background_child_does_not_hold_the_call(room: Room, command: str) -> None:
    started = time.monotonic()
    result = await room.run(command)
    assert time.monotonic() - started < 1.5
    assert result.code == 0
    assert b"started" in room.output
    assert result.survivors_killed >= 1
    assert room.alive() == []
    after = room.output
    await a_while(0.5)
    assert room.output == after
    assert len(asyncio.all_tasks()) == 1  # no reader is left behind


async def test_a_background_process_that_ends_in_time_is_no_survivor(room: Room) -> None:
    result = await room.run("(sleep 0.1; echo late) & echo started")
    assert room.output == b"started\nlate\n"
    assert result.survivors_killed == 0


async def test_output_of_a_process_substitution_is_whole(room: Room) -> None:
    await room.run("exec > >(cat) 2>&1; seq 1 20000")
    assert room.output.endswith(b"\n20000\n")


@pytest.mark.parametrize("command", ["setsid sh -c 'sleep 300' & sleep 300", "exec > >(cat) 2>&1; echo hi; sleep 300"])
async def test_t17_a_timeout_ends_members_of_other_sessions(room: Room, command: str) -> None:
    started = time.monotonic()
    result = await room.run(command, timeout=2)
    assert time.monotonic() - started < 5
    assert result.timed_out and result.code is None and result.signal is None
    assert room.alive() == []


async def test_t18_a_process_that_ignores_term_is_killed(room: Room) -> None:
    started = time.monotonic()
    result = await room.run("""sh -c 'trap "" TERM; while :; do sleep 1; done'""", timeout=1)
    assert result.timed_out
    assert time.monotonic() - started < 5
    assert room.alive() == []


@pytest.mark.parametrize("aborts", [1, 2])
async def test_t18_ui_a01_stop_reaches_who_ignores_term_and_a_second_one_at_once(room: Room, aborts: int) -> None:
    task = asyncio.create_task(room.run("trap '' TERM INT; echo up; while :; do sleep 1; done"))
    await until(lambda: b"up" in room.output)
    started = time.monotonic()
    for _ in range(aborts):
        task.cancel()
        await asyncio.sleep(0.1)
    with pytest.raises(asyncio.CancelledError):
        await task
    took = time.monotonic() - started
    assert took < 3.5
    assert (took > 1.5) is (aborts == 1)
    assert room.alive() == []


async def test_ui_a01_a_polite_process_may_clean_up_when_stopped(room: Room, tmp_path: Path) -> None:
    task = asyncio.create_task(room.run("trap 'touch cleaned; exit' TERM; echo up; sleep 100 & wait"))
    await until(lambda: b"up" in room.output)
    await cancel_after(0, task)
    assert (tmp_path / "cleaned").exists()


GRANDCHILD = f"{sys.executable} -c \"import subprocess,time; subprocess.Popen(['sleep','120']); time.sleep(120)\""


async def test_t19_a_cancel_ends_grandchildren_and_is_raised_again(room: Room) -> None:
    task = asyncio.create_task(room.run(GRANDCHILD))
    await until(lambda: len(room.alive()) >= 2, pause=0.02)
    started = time.monotonic()
    await cancel_after(0.0, task)
    assert time.monotonic() - started < 3
    assert room.alive() == []
    assert children() == []  # the supervisor is reaped


async def test_t19_a_timeout_ends_grandchildren(room: Room) -> None:
    result = await room.run(GRANDCHILD, timeout=1)
    assert result.timed_out
    assert room.alive() == []
    assert children() == []


async def test_cancelling_at_any_moment_leaves_nothing(room: Room) -> None:
    for delay in (0.0, 0.001, 0.005, 0.01, 0.02, 0.04, 0.08):
        task = asyncio.create_task(room.run("sleep 50 & sleep 60"))
        await cancel_after(delay, task)
        assert room.alive() == []
    assert children() == []
    assert len(asyncio.all_tasks()) == 1


async def test_no_descriptor_is_left_open(room: Room) -> None:
    await room.run("true")
    before = len(os.listdir("/proc/self/fd"))
    for _ in range(5):
        await room.run("seq 1 3000")
        with pytest.raises(EnvironmentFailed):
            await LocalEnvironment.at("/no/such/place").run("true")
        await cancel_after(0.03, asyncio.create_task(room.run("sleep 9")))
    assert len(os.listdir("/proc/self/fd")) <= before


async def test_double_forked_and_forking_processes_are_ended(room: Room) -> None:
    bomb = "f() { (setsid sh -c 'sleep 90; :' &) ; }; for i in 1 2 3 4 5 6 7 8 9 10; do f; done; while :; do f; sleep 0.01; done"
    result = await room.run(bomb, timeout=1)
    assert result.timed_out and "left" not in result.detail
    assert room.alive() == []


# nothing after the interrupted command may run: `sleep` must not be seen to end before its shell
NEXT = {
    "plain": "sleep 30; touch after",
    "nested": "sh -c 'sleep 30; touch after'; touch after",
    "other session": "setsid -w sh -c 'sleep 30; touch after'; touch after",
    "pipeline": "(sleep 30; touch after) | cat; touch after",
    "loop": "while :; do sleep 30; touch after; done",
}


@pytest.mark.parametrize("way", ["timeout", "cancel"])
@pytest.mark.parametrize("command", NEXT)
async def test_an_ended_script_does_not_go_on_with_its_next_command(
    room: Room, tmp_path: Path, command: str, way: str
) -> None:
    for _ in range(6):
        if way == "timeout":
            assert (await room.run(NEXT[command], timeout=0.1)).timed_out
        else:
            await cancel_after(0.1, asyncio.create_task(room.run(NEXT[command])))
        assert not (tmp_path / "after").exists()


async def test_nor_do_background_scripts_and_leftovers(room: Room, tmp_path: Path) -> None:
    for _ in range(4):
        await room.run("for i in 1 2 3 4; do (sleep 30; touch after) & done; echo started")
        assert not (tmp_path / "after").exists()
        task = asyncio.create_task(room.run("echo up; for i in 1 2 3 4; do (sleep 30; touch after) & done; wait"))
        await until(lambda: b"up" in room.output)
        await until(lambda: len(find_leftovers(room.mark)) >= 9, pause=0.02)
        assert await asyncio.to_thread(end_leftovers, find_leftovers(room.mark)) == []
        await task
        assert not (tmp_path / "after").exists()


async def test_a_stopped_process_is_ended_too(room: Room) -> None:
    result = await room.run("kill -STOP $$", timeout=0.5)
    assert result.timed_out
    assert room.alive() == []


async def test_t20_stdin_is_empty_and_there_is_no_terminal(room: Room) -> None:
    assert (await room.run("cat")).code == 0
    result = await room.run(f"{sys.executable} -c 'input()'")
    assert result.code == 1 and b"EOFError" in room.output
    await room.run("echo hello > /dev/tty")
    assert b"/dev/tty" in room.output  # refused: no terminal to write to


async def test_t28_a_missing_directory_is_named_and_may_come_back(tmp_path: Path) -> None:
    place = tmp_path / "w"
    place.mkdir()
    room = Room(place)
    assert (await room.run(f"rm -rf {place}")).code == 0
    with pytest.raises(EnvironmentFailed, match=f"{place} does not exist"):
        await room.run("echo hi")
    place.mkdir()
    await room.run("echo hi")
    assert room.output == b"hi\n"
    plain = tmp_path / "plain"
    plain.write_bytes(b"")
    with pytest.raises(EnvironmentFailed, match="not a directory"):
        await Room(plain).run("echo")


async def test_commands_no_system_can_start_are_refused(room: Room) -> None:
    with pytest.raises(EnvironmentFailed, match="too long"):
        await room.run("#" + "x" * 300_000)
    with pytest.raises(EnvironmentFailed, match="NUL"):
        await room.run("echo a\0b")
    with pytest.raises(EnvironmentFailed, match="surrogate"):
        await room.run("echo \ud800")
    assert children() == []


async def test_many_commands_at_once_stay_apart(room: Room) -> None:
    outputs: list[list[bytes]] = [[] for _ in range(12)]
    await asyncio.gather(
        *(room.environment.run(f"echo {n}; sleep 0.1; echo {n}", on_output=outputs[n].append) for n in range(12))
    )
    assert [b"".join(pieces) for pieces in outputs] == [b"%d\n%d\n" % (n, n) for n in range(12)]


async def test_a_raising_listener_ends_the_command(room: Room) -> None:
    def fail(_piece: bytes) -> None:
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        await room.environment.run("echo x; sleep 60", on_output=fail)
    assert room.alive() == []
    assert children() == []


async def test_a_killed_supervisor_is_noticed_and_its_command_ended(room: Room) -> None:
    task = asyncio.create_task(room.run("echo $PPID; setsid sleep 70 & sleep 80"))
    await until(lambda: b"\n" in room.output)
    os.kill(int(room.output), signal.SIGKILL)
    with pytest.raises(EnvironmentFailed, match="supervisor"):
        await task
    assert room.alive() == []
    assert children() == []


async def test_a_stuck_supervisor_is_ended_when_the_call_is_cancelled(
    room: Room, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("durable_tui.environment.process.PATIENCE", 0.3)
    task = asyncio.create_task(room.run("echo $PPID; sleep 80", timeout=None))
    await until(lambda: b"\n" in room.output)
    os.kill(int(room.output), signal.SIGSTOP)
    await cancel_after(0, task)
    assert room.alive() == []
    assert children() == []


async def test_small_output_makes_no_file_and_larger_one_is_stored_whole(room: Room, tmp_path: Path) -> None:
    small = await room.run(f"head -c {KEEP_BYTES} /dev/zero")
    assert small.output_path is None and small.output_bytes == KEEP_BYTES
    assert not (tmp_path / "files").exists()
    large = await room.run("seq 1 200000")
    assert large.output_path is not None and Path(large.output_path).parent == tmp_path / "files"
    assert Path(large.output_path).read_bytes() == room.output
    assert large.output_bytes == len(room.output)
    lines = await room.run(f"yes '' | head -n {KEEP_LINES + 1}")
    assert lines.output_path is not None
    assert Path(large.output_path).stat().st_mode & 0o777 == 0o600
    assert (tmp_path / "files").stat().st_mode & 0o777 == 0o700


async def test_without_a_folder_nothing_is_stored(tmp_path: Path) -> None:
    room = Room(tmp_path)
    result = await room.run("seq 1 200000")
    assert result.output_path is None and result.output_bytes == len(room.output) > 1_000_000


async def test_a_folder_that_cannot_be_written_ends_the_storing_not_the_command(tmp_path: Path) -> None:
    (tmp_path / "files").write_bytes(b"a file where the folder should be")
    room = Room(tmp_path, tmp_path / "files")
    result = await room.run("seq 1 200000; exit 3")
    assert result.code == 3 and room.output.endswith(b"200000\n")
    assert result.output_path is None
    assert "could not be stored" in str(result.detail["outputProblem"])


async def test_ui_a06_leftovers_are_found_by_their_mark_and_can_be_ended(room: Room) -> None:
    task = asyncio.create_task(room.run("echo up; setsid sleep 77 & wait"))
    await until(lambda: b"up" in room.output)
    found: list[Leftover] = []

    def both() -> bool:
        """A process on its way to another program (a fork of the shell, then setsid) bears the one before's name."""
        found[:] = find_leftovers(room.mark)
        commands = [item["command"] for item in found]
        return "sleep 77" in commands and sum(command.endswith("& wait") for command in commands) == 1

    await until(both, pause=0.02)
    assert {item["task"] for item in found} == {9}
    assert {item["session"] for item in found} == {room.mark}
    assert find_leftovers("another session") == []
    assert {item["pid"] for item in found} <= {item["pid"] for item in find_leftovers(None)}
    assert await asyncio.to_thread(end_leftovers, found) == []
    await task
    assert find_leftovers(room.mark) == []


async def test_leftovers_of_a_reused_pid_are_left_alone(room: Room) -> None:
    task = asyncio.create_task(room.run("echo up; sleep 66"))
    await until(lambda: b"up" in room.output)
    found = find_leftovers(room.mark)
    assert found
    strangers = [{**item, "started": "another time"} for item in found]
    assert await asyncio.to_thread(end_leftovers, strangers) == []  # type: ignore[arg-type]
    assert len(find_leftovers(room.mark)) == len(found)
    await cancel_after(0, task)
