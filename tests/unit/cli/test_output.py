"""stdout as a pipe: one value a line, back-pressure, a reader that leaves (cases L02, L05, L07)."""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import json
import os
import select
import sys
from collections.abc import Iterator

import pytest

from durable_tui.cli.output import BrokenOutput, Output
from durable_tui.ground.text import clean, one_line
from durable_tui.host.jsonlines import json_line
from tests.tools.waiting import a_while, until


@contextlib.contextmanager
def piped() -> Iterator[list[int]]:
    """A small pipe in the place of descriptor 1, from inside the test, below pytest's own capture.

    The list holds its reading end, until that is closed.
    """
    reading, writing = os.pipe()
    os.set_blocking(reading, False)
    fcntl.fcntl(writing, fcntl.F_SETPIPE_SZ, 4096) if hasattr(fcntl, "F_SETPIPE_SZ") else None
    sys.stdout.flush()
    saved = os.dup(1)
    os.dup2(writing, 1)
    os.close(writing)
    ends = [reading]
    try:
        yield ends
    finally:
        os.dup2(saved, 1)
        os.close(saved)
        for end in ends:
            os.close(end)


def read(fd: int) -> bytes:
    try:
        return os.read(fd, 65536)
    except BlockingIOError:
        return b""


def test_l07_no_consumer_sees_a_line_end_inside_a_line() -> None:
    text = "a\u2028b\u2029c\u0085d\x00e\nf\r\x0b\x0c\x1c\x1d\x1e\ud800"
    line = json_line({"text": text})
    assert line.count("\n") == 1 and len(line.splitlines()) == 1
    assert json.loads(line)["text"] == text
    assert json_line({"text": "ä😀"}) == '{"text":"ä😀"}\n'


def test_terminal_text_has_no_control_sequences() -> None:
    assert clean("a\x1b[31mb\x07\x9bc\td\ne") == "ab\td\ne"
    assert one_line("a\n  b" + "x" * 200, 10) == "a bxxxxxx…"


async def test_l02_a_slow_reader_holds_the_writer_and_not_the_loop() -> None:
    with piped() as pipe, Output() as output:
        writing = asyncio.ensure_future(output.text("x" * 20_000))
        await a_while()
        assert not writing.done()
        got = b""
        while len(got) < 20_000:
            got += read(pipe[0])
            await asyncio.sleep(0.001)
        await writing
        assert got == b"x" * 20_000


async def test_l05_a_reader_that_leaves_is_noticed_while_writing_and_while_not() -> None:
    with piped() as pipe, Output() as output:
        gone = asyncio.Event()
        output.on_reader_gone(gone.set)
        await output.text("a line\n")
        assert not gone.is_set()
        os.close(pipe.pop())
        await asyncio.wait_for(gone.wait(), 5)
        with pytest.raises(BrokenOutput):
            await output.text("more")
        output.finish("last words", 1.0)


async def test_l03_a_line_cut_off_by_a_stop_is_finished_before_the_last_one() -> None:
    with piped() as pipe, Output(json_lines=True) as output:
        writing = asyncio.ensure_future(output.event({"long": "x" * 8000}))
        await until(lambda: select.select([pipe[0]], [], [], 0)[0])
        writing.cancel()
        await asyncio.gather(writing, return_exceptions=True)
        first = read(pipe[0])
        last = json_line({"type": "exit"})
        thread = asyncio.get_running_loop().run_in_executor(None, output.finish, last, 5.0)
        rest = b""
        while not rest.endswith(last.encode()):
            await asyncio.sleep(0.01)
            rest += read(pipe[0])
        await thread
    assert [set(json.loads(line)) for line in (first + rest).decode().splitlines()] == [{"long"}, {"type"}]


def test_l03_what_others_write_to_descriptor_1_is_not_on_stdout() -> None:
    with piped() as pipe, Output() as output:
        os.write(1, b"stray")
        output.finish("mine", 1.0)
        assert read(pipe[0]) == b"mine"


def test_last_words_give_up_on_a_reader_that_does_not_read() -> None:
    with piped(), Output() as output:
        output.finish("x" * 100_000, 0.2)
