"""bash with real processes: cases T16-T20, T22-T29, UI-S11."""

from __future__ import annotations

import asyncio
import sys
import time
from pathlib import Path

import pytest

from durable_tui.agent.extension import ToolResult
from durable_tui.environment import EnvironmentFailed
from durable_tui.tools.bash import bash
from tests.tools.fake_call import Bench, marked, measure, text_of
from tests.tools.waiting import until

LIMIT = 50 * 1024


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    (tmp_path / "work").mkdir()
    return Bench(tmp_path / "work", tmp_path / "files")


async def run(bench: Bench, command: str, **arguments: object) -> ToolResult:
    return await bench.call(bash, command=command, **arguments)


async def test_output_is_the_result(bench: Bench) -> None:
    result = await run(bench, "echo one; echo two >&2")
    assert (result.content, result.is_error) == ("one\ntwo", False)
    assert result.details == {"exitCode": 0, "outputBytes": 8}
    assert bench.shown == "one\ntwo\n"
    assert text_of(await run(bench, "true")) == "(no output)"


async def test_a_code_other_than_zero_is_an_error(bench: Bench) -> None:
    result = await run(bench, "echo no; exit 3")
    assert result.is_error
    assert text_of(result) == "no\n\n[exited with code 3]"


async def test_t16_a_background_process_is_ended_and_told(bench: Bench) -> None:
    started = time.monotonic()
    result = await run(bench, "sleep 40 & echo started", timeout=60)
    assert time.monotonic() - started < 1.5
    assert not result.is_error and text_of(result).startswith("started")
    assert "1 process left in the background was ended" in text_of(result)
    await run(bench, "(while :; do echo t; sleep 0.2; done) & echo started")
    before = bench.shown
    later = await run(bench, "sleep 0.5; echo later")
    assert text_of(later) == "later"
    assert "started" in before  # which of the two writes first is open
    assert marked(bench.mark) == []


@pytest.mark.parametrize("command", ["setsid sh -c 'sleep 300' & sleep 300", "exec > >(cat) 2>&1; sleep 300"])
async def test_t17_a_timeout_answers_in_time(bench: Bench, command: str) -> None:
    started = time.monotonic()
    result = await run(bench, command, timeout=2)
    assert time.monotonic() - started < 5
    assert result.is_error and "timed out after 2 s" in text_of(result)
    assert text_of(await run(bench, "echo next")) == "next"


async def test_t18_t19_a_cancelled_call_ends_its_processes(bench: Bench) -> None:
    command = f"{sys.executable} -c \"import subprocess,time; subprocess.Popen(['sleep','120']); time.sleep(120)\""
    task = asyncio.create_task(run(bench, command))
    await until(lambda: len(marked(bench.mark)) >= 2, pause=0.02)
    task.cancel()
    started = time.monotonic()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert time.monotonic() - started < 3
    assert marked(bench.mark) == []


async def test_t20_there_is_no_input(bench: Bench) -> None:
    assert text_of(await run(bench, "cat")) == "(no output)"
    result = await run(bench, f"{sys.executable} -c 'input()'")
    assert result.is_error and "EOFError" in text_of(result)


@pytest.mark.parametrize(
    ("command", "count"), [("python3 -c \"print('x'*70000)\"", 70001), ("printf 'y%.0s' $(seq 1 200000)", 200000)]
)
async def test_t22_one_very_long_line(bench: Bench, command: str, count: int) -> None:
    result = await run(bench, command.replace("python3", sys.executable))
    text, _, footer = text_of(result).partition("\n\n")
    assert not result.is_error
    assert len(set(text)) == 1 and len(text) == LIMIT
    assert "The last 50.0 KiB of line 1 shown" in footer
    assert result.details["outputBytes"] == count
    assert text_of(await run(bench, "echo next")) == "next"


async def test_t23_characters_are_never_split(bench: Bench) -> None:
    script = "import sys; sys.stdout.buffer.write('é'.encode()*1 + '漢'.encode()*60000)"
    result = await run(bench, f'{sys.executable} -c "{script}"')
    text = text_of(result).partition("\n\n")[0]
    assert set(text) == {"漢"} and LIMIT - 3 < len(text.encode()) <= LIMIT
    assert bench.shown == "é" + "漢" * 60_000
    slow = await run(bench, r"printf '\xe6\xbc'; sleep 0.3; printf '\xa2'")
    assert text_of(slow) == "漢" and bench.shown == "漢"


async def test_t24_bytes_that_are_no_text(bench: Bench) -> None:
    result = await run(bench, r"printf 'ok\xff\xf0\n'; exit 3")
    assert text_of(result) == "ok\ufffd\ufffd\n\n[exited with code 3]"
    noise = await run(bench, "head -c 4096 /dev/urandom")
    for text in (text_of(noise), bench.shown):
        assert not any((ord(c) < 32 and c not in "\t\n\b") or 0x7F <= ord(c) <= 0x9F for c in text)
        text.encode("utf-8")


@pytest.mark.parametrize("ending", ["\\n", ""])
async def test_t25_an_oversized_last_line_keeps_its_end(bench: Bench, ending: str) -> None:
    result = await run(bench, f"{sys.executable} -c \"import sys; sys.stdout.write('z'*250000+'LAST{ending}')\"")
    text, _, footer = text_of(result).partition("\n\n")
    assert text.endswith("zLAST") and len(text) <= LIMIT
    assert "244.1 KiB in all" in footer
    path = Path(result.details["outputPath"])
    assert str(path) in footer
    assert path.stat().st_size == 250_004 + bool(ending)


async def test_t26_lines_are_counted_right_and_once(bench: Bench) -> None:
    result = await run(bench, "seq 1 4000")
    text = text_of(result)
    assert text.startswith("2001\n") and "\n4000\n\n[" in text
    assert text.count("of 4000") == 1 and "Lines 2001-4000 of 4000 shown" in text
    path = result.details["outputPath"]
    assert path in text and Path(path).read_bytes() == b"".join(b"%d\n" % n for n in range(1, 4001))


async def test_t27_a_timeout_keeps_the_output(bench: Bench) -> None:
    result = await run(bench, "for i in 1 2 3 4 5 6 7 8 9; do echo tick$i; sleep 1; done", timeout=2.5)
    assert result.is_error
    assert text_of(result).startswith("tick1\ntick2\ntick3\n\n[timed out after 2.5 s")
    assert "tick4" not in text_of(result) and "Terminated" not in text_of(result)


async def test_t27_death_by_signal_is_no_success(bench: Bench) -> None:
    result = await run(bench, "sh -c 'kill -9 $$'")
    assert result.is_error and "killed by signal 9 (SIGKILL)" in text_of(result)
    inner = await run(bench, "sh -c 'kill -15 $$'; exit $?")
    assert inner.is_error and "exited with code 143: killed by signal 15 (SIGTERM)" in text_of(inner)


async def test_t28_a_missing_directory_is_named(bench: Bench) -> None:
    await run(bench, f"rm -rf {bench.cwd}")
    with pytest.raises(EnvironmentFailed, match=str(bench.cwd)):
        await run(bench, "echo hi")
    bench.cwd.mkdir()
    assert text_of(await run(bench, "echo hi")) == "hi"


async def test_output_before_a_failing_environment_is_kept(bench: Bench) -> None:
    result = await run(bench, "echo before; sleep 0.3; kill -9 $PPID; sleep 60")
    assert result.is_error
    assert text_of(result).startswith("before\n\n[") and "supervisor" in text_of(result)
    assert marked(bench.mark) == []


def test_t29_ui_s11_much_output_needs_little_memory_and_leaves_the_loop_free(tmp_path: Path) -> None:
    found = measure(tmp_path, "head -c 300000000 /dev/zero | tr '\\0' a")
    assert found["grownMiB"] < 50
    assert found["longest"] < 0.2
    assert len(found["text"].partition("\n\n")[0]) == LIMIT
    assert found["details"]["outputBytes"] == 300_000_000
    path = Path(found["details"]["outputPath"])
    assert path.stat().st_size == 300_000_000
    path.unlink()


async def test_output_that_could_not_be_stored_is_told(tmp_path: Path) -> None:
    (tmp_path / "files").write_bytes(b"a file where the folder should be")
    text = text_of(await run(Bench(tmp_path, tmp_path / "files"), "seq 1 4000"))
    assert "The rest was not kept: the output could not be stored whole" in text
    assert "The rest was not kept.]" in text_of(await run(Bench(tmp_path), "seq 1 4000"))


async def test_colours_and_progress_bars(bench: Bench) -> None:
    result = await run(bench, r"printf '\033[32mok\033[0m\n'; printf '10%%\r50%%\r100%%\r\n'; printf 'a\bb\n'")
    assert text_of(result) == "ok\n100%\nb"
    assert "\x1b" not in bench.shown and "\r" not in bench.shown


@pytest.mark.parametrize("timeout", [0, -1, 3601, "soon"])
async def test_an_impossible_timeout_is_a_value_error(bench: Bench, timeout: object) -> None:
    with pytest.raises(ValueError, match="timeout"):
        await run(bench, "true", timeout=timeout)
