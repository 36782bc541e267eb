"""Typing, pasting, hostile output and every size at the real screen (cases T20, U01-U09, UI-L07, UI-L08)."""

from __future__ import annotations

import asyncio
import json
import re
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.tools import bigsession
from tests.tools.screen_kit import Seat, draft_of

pytestmark = pytest.mark.terminal

LONG = [{"text": "A long answer.", "delay": 300}]


@pytest.fixture
def seat(tmp_path: Path) -> Iterator[Seat]:
    seat = Seat(tmp_path)
    yield seat
    seat.wait_gone()


def paste(text: str) -> bytes:
    return b"\x1b[200~" + text.encode() + b"\x1b[201~"


# --- what is typed and pasted -------------------------------------------------------------------------------


def test_u09_a_bracketed_paste_of_many_lines_and_200_kb_sends_nothing(seat: Seat) -> None:
    long = "".join(f"row {number} of what was pasted\r\n" for number in range(7000))
    assert len(long) > 200_000
    whole = f"line1\nline2\r\nline3\t漢字\n{long}end of paste"
    with seat.open() as window:
        window.write(paste(whole))
        window.wait_for("end of paste", 30)
        window.wait_store(lambda state: draft_of(state) == whole.replace("\r\n", "\n"), "the whole paste as the draft")
        assert not seat.said()
        window.press("enter")
        window.wait_for("It is done.")
    assert seat.said() == [whole.replace("\r\n", "\n")]


def test_u09_fast_typing_arrives_whole_and_in_order_and_cjk_in_one_go_too(seat: Seat) -> None:
    with seat.open() as window:
        for letter in "abcdefghijklmnopqrst":
            window.write(letter)
            time.sleep(0.0025)
        window.wait_for(lambda: window.composing == "abcdefghijklmnopqrst")
        window.write(" 한국어漢字")
        window.wait_store(lambda state: draft_of(state) == "abcdefghijklmnopqrst 한국어漢字", "all of it, in order")


def test_ui_l07_fifty_kb_without_paste_marks_send_nothing(seat: Seat) -> None:
    whole = "\n".join(f"line {number} typed by no hand" for number in range(1900)) + "\nthe last"
    assert len(whole) > 50_000
    with seat.open() as window:
        window.write(whole.replace("\n", "\r"))
        window.wait_for("the last", 30)
        window.wait_store(lambda state: draft_of(state) == whole, "all of it in the draft")
        assert not seat.said()


def test_ui_l08_a_paste_that_ends_itself_and_holds_nul_injects_no_command(seat: Seat) -> None:
    with seat.open() as window:
        window.write(b"\x1b[200~safe \x00text\t1\r\n\x1b[201~/quit\r\x1b[31m\rmore\x1b[201~")
        window.wait_for("more")
        time.sleep(0.5)
        window.pump()
        assert not seat.said(), "nothing was sent and no command ran"
        window.wait_for(lambda: "safe text" in window.text and "/quit" in window.text)
        assert "\x00" not in window.text
        window.wait_store(lambda state: draft_of(state).startswith("safe text\t1\n"), "the draft")


def test_ui_l01_ctrl_c_clears_into_the_history_and_only_twice_on_an_empty_line_quits(seat: Seat) -> None:
    with seat.open() as window:
        window.type("a long thought that must not be lost")
        window.wait_store(lambda state: draft_of(state) != "", "the stored draft")
        window.press("ctrl+c")
        window.wait_taken()
        window.wait_for("Up brings it back")
        window.press("up")
        window.wait_for(lambda: window.composing == "a long thought that must not be lost")
        window.press("ctrl+c")
        window.wait_taken()
        window.kill_app()
    with seat.open() as window:  # also after a restart
        window.wait_for(lambda: window.composing == "a long thought that must not be lost")
        window.press("ctrl+c")
        window.wait_taken()
        window.press("ctrl+c")
        window.wait_for("Ctrl+C again quits")
        window.press("ctrl+c")
        assert window.wait() == 0


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("/model nobody/none", "nobody"),
        ("/retry", "does not apply now"),
        ("/theme of-the-moon", "no theme is called of-the-moon"),
        ("/nosuchcommand", "there is no command /nosuchcommand"),
    ],
)
def test_ui_l04_a_command_that_fails_keeps_the_text(seat: Seat, text: str, says: str) -> None:
    with seat.open() as window:
        window.type(text)
        window.press("enter")
        window.wait_for(says)
        window.wait_for(lambda: window.composing == text)
        assert not seat.said()


def test_t20_commands_cannot_eat_what_is_typed(seat: Seat) -> None:
    calls = [
        {"name": "bash", "args": {"command": "cat"}},
        {"name": "bash", "args": {"command": 'sleep 1; python3 -c "input()"'}},
        {"name": "bash", "args": {"command": "sleep 1; head -c 1 < /dev/tty; stty -echo < /dev/tty"}},
    ]
    seat.write([{"calls": calls}, {"text": "All three ended."}])
    with seat.open() as window:
        window.say("go")
        window.wait_line("bash", "cat")
        for letter in "hello":
            window.press(letter)
            window.pump(0.05)
        window.wait_for("All three ended.")
        window.wait_for(lambda: window.composing == "hello")
        results = [
            message
            for entry in seat.state().entries.values()
            for message in entry.get("model", [])
            if message["role"] == "toolResult"
        ]
    by_text = {json.dumps(result["content"]): result["isError"] for result in results}
    assert sorted(by_text.values()) == [False, True, True]
    assert any("EOFError" in text for text in by_text) and any("/dev/tty" in text for text in by_text)


# --- what others write --------------------------------------------------------------------------------------

SEQUENCES = [
    r"\033]52;c;ZXZpbA==\007", r"\033]0;a b\\c\033\\", r"\033[2J\033[H", r"\033[?1049h", r"\033[?1003h",
    r"\033P0;1|17/ab\033\\", r"\302\23331m", r"tail\b\b\b\b\b\b\b\b\b\b\b\b\b\b\b\b\b\b\b\b", r"50%%\r100%%\r\n",
    r"\033[31mred\033[0m", r"\033_apc\033\\", r"\033c", r"\033[6n", r"\377\376",
]  # fmt: skip


def test_u03_ui_o01_sequences_in_output_never_reach_the_terminal(seat: Seat) -> None:
    noise = "".join(f"printf 'row{number} {text}end{number}\\n'\n" for number, text in enumerate(SEQUENCES))
    (seat.project / "noise.sh").write_text(noise)
    command = "sh noise.sh"
    said = "A title \x1b]0;evil\x07 and \x1b[2Jnothing \x9b31mmore"
    seat.write([{"text": said, "calls": [{"name": "bash", "args": {"command": command}}]}, {"text": "After it."}])
    with seat.open(size=(120, 60)) as window:
        window.say("print it")
        window.wait_for("After it.")
        window.wait_state("ready")
        window.press("f7", "up", "enter")
        window.wait_for("end13")
        window.wait_for("100%")
        window.pump(0.3)
        raw = window.raw
        for text in (
            b"ZXZpbA",
            b"\x1b]0;a",
            b"\x1b]0;evil",
            b"\x1bP0;1|",
            b"\x1b_apc",
            b"\x1bc",
            b"\xc2\x9b",
            b"\x9b3",
        ):
            assert text not in raw, text
        assert raw.count(b"\x1b[?1049h") == 1, "only the screen itself switched to the alternate screen"
        assert b"\x1b[6n" not in raw and b"\x1b[2J" not in raw.partition(b"end13")[2]
        shown = window.text
        assert re.search(r"row9 redend9", shown), shown
        for litter in ("]52;", "[2J", "[?1049", "0;1|17", "[31m", "a b\\c"):
            assert litter not in shown, (litter, shown)
    assert not seat.problems()


HOSTILE = ["[/]", "[/", "see [/usr/bin]", "[n=7,kind=open]", "[link='a", "[bold]x[/bold", "range [a to z"]


def test_u01_markup_like_text_is_literal_everywhere(seat: Seat) -> None:
    everything = " ".join(HOSTILE)
    seat.write(
        [
            {
                "text": "Said: " + "\n\n".join(HOSTILE),
                "calls": [
                    {"name": "bash", "args": {"command": f"echo {quoted(everything)}"}},
                    {"name": everything, "args": {}},
                ],
            },
            {"error": {"message": f"refused {everything}", "kind": "quota"}},
        ]
    )
    with seat.open(size=(160, 60)) as window:
        window.say(everything)
        window.wait_for(f"refused {everything}"[:60])
        window.wait_state("ready")
        for text in HOSTILE:
            assert window.text.count(text) >= 3, (text, window.text)
        window.write(b"\x1b[200~/rename " + everything.encode() + b"\x1b[201~")
        window.wait_for("/rename")
        window.press("enter")
        window.wait_for(lambda: "see [/usr/bin]" in window.screen[0])
        window.type("/model [/]/[bold]x")
        window.press("enter")
        window.wait_line("╭", "[/]/[bold]x")
        window.press("ctrl+c")
        window.wait_taken()
        window.press("ctrl+o")
        window.wait_line("see [/usr/bin]", "this one")
        window.press("escape")
        window.press("f4")
        window.wait_for("tasks")
        window.kill_app()
    with seat.open(size=(160, 60)) as window:
        window.wait_for("see [/usr/bin]")


def quoted(text: str) -> str:
    return "'" + text.replace("'", "'\\''") + "'"


# --- sizes and colours --------------------------------------------------------------------------------------


def test_u04_ui_t06_tiny_sizes_and_storms_of_resizes_while_an_answer_streams(seat: Seat) -> None:
    words = " ".join(f"word{number}" for number in range(400))
    seat.write([{"text": words, "delay": 3}, {"text": words}])
    with seat.open() as window:
        window.say("talk")
        sizes = [(1, 1), (20, 5), (80, 24), (2, 40), (200, 60), (59, 12), (99, 23), (101, 30), (40, 3), (120, 40)]
        for number in range(60):
            window.resize(*sizes[number % len(sizes)])
            window.pump(0.03)
            if number % 20 == 7:
                window.press("f4", "f3", "f8")
        window.resize(100, 30)
        window.wait_for("word399")
        window.wait_state("ready")
        for size in ((1, 1), (20, 5)):
            window.resize(*size)
            window.press("x")
            window.pump(0.2)
        window.resize(100, 30)
        window.wait_for(lambda: window.composing == "xx")
        window.press("ctrl+q")
        assert window.wait() == 0
    assert b"Traceback" not in window.raw


def test_ui_t06_exported_sizes_are_not_taken_for_the_terminal_s(seat: Seat) -> None:
    with seat.open(size=(120, 40), env={"COLUMNS": "61", "LINES": "17"}) as window:
        assert len(window.screen[0]) > 100
        window.resize(140, 44)
        window.wait_for(lambda: len(window.screen[0]) > 125)


@pytest.mark.parametrize("size", [(1, 1), (20, 5)])
def test_ui_t06_it_starts_at_a_tiny_size(seat: Seat, size: tuple[int, int]) -> None:
    with seat.open(size=size, ready=False) as window:
        window.wait_for(lambda: any(seat.home.glob("sessions/*.sqlite")))
        window.resize(100, 30)
        window.wait_ready()
        window.say("hello")
        window.wait_for("It is done.")


def test_ui_t07_no_color_draws_without_colours(seat: Seat) -> None:
    with seat.open(env={"NO_COLOR": "1"}) as window:
        window.say("hello")
        window.wait_for("It is done.")
        window.wait_state("ready")
        colours = {
            code
            for codes in re.findall(rb"\x1b\[([0-9;]+)m", window.raw)
            if (code := re.search(rb"(?:^|;)(?:[34]8;[25];([0-9;]+))", codes) and codes)
        }
        shades = {tuple(re.findall(rb"[34]8;2;(\d+);(\d+);(\d+)", codes)) for codes in colours}
        assert all(len(set(shade)) == 1 for found in shades for shade in found), shades


def test_u06_a_session_of_3000_entries_opens_and_reacts(seat: Seat) -> None:
    with seat.open() as window:
        window.press("ctrl+q")
        window.wait()

    async def fill() -> None:
        _, harness, _ = await bigsession.open_silent(seat.path, "play/one")
        try:
            for begin in range(0, 3000, 500):
                async with harness.commit() as tx:
                    for number in range(begin, begin + 500):
                        message = {"role": "user", "content": f"entry {number} " + "text " * 130, "timestamp": 0}
                        tx.append(1, "pi.user", model=[message])
        finally:
            await harness.close()

    asyncio.run(fill())
    assert seat.path.stat().st_size > 2_000_000
    began = time.monotonic()
    with seat.open(ready=False) as window:
        window.wait_for("entry 2999", 10)
        print(f"opened in {time.monotonic() - began:.2f} s")
        window.press("\x1b[O", "\x1b[I")
        window.resize(120, 40)
        began = time.monotonic()
        for letter in "typing_over_history!":
            window.press(letter)
            window.wait_for(lambda letter=letter: (window.composing or "").endswith(letter))
        print(f"20 keys in {time.monotonic() - began:.2f} s")
        window.press("f7", "g")
        for _ in range(12):
            window.press("g")
            window.pump(0.15)
        window.press("f8")
        window.type(" fine")
        window.wait_for(lambda: "entry 2999" not in window.text)  # one is further up
