"""However the real screen ends, what it acknowledged is there, and the person is told what goes on (spec 20, 21)."""

from __future__ import annotations

import random
import signal
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.tools.model_server import ModelServer
from tests.tools.pty_kit import alive, wait_until
from tests.tools.screen_kit import Seat, Window

pytestmark = pytest.mark.terminal

LONG = [{"text": "A long answer.", "delay": 300}]
QUICK = [{"text": "It goes on and ends."}]


@pytest.fixture
def seat(tmp_path: Path) -> Iterator[Seat]:
    seat = Seat(tmp_path)
    yield seat
    seat.wait_gone()


def closed_in_order(seat: Seat) -> bool:
    return seat.count("SELECT closed_at IS NOT NULL FROM owners ORDER BY epoch DESC LIMIT 1") == 1


@pytest.mark.parametrize("signum", [signal.SIGTERM, signal.SIGHUP, signal.SIGINT])
def test_after_a_signal_every_acknowledged_input_is_queued_placed_or_settled_on_reopening(
    seat: Seat, signum: signal.Signals
) -> None:
    seat.write(LONG)
    sent = ["the first", "waits one", "waits two"]
    with seat.open() as window:
        for text in sent:
            window.say(text, "alt+enter")
        window.signal(signum)
        assert window.wait() == 128 + signum
        assert b"unfinished" in window.raw and b"Continue: " in window.raw
        assert b"Traceback" not in window.raw
        assert window.attributes == window.before
    assert closed_in_order(seat)
    assert not seat.problems(idle=False)
    seat.write(QUICK)
    with seat.open() as window:
        window.wait_for(lambda: window.text.count("It goes on and ends.") >= 3)
        window.wait_state("ready")
        assert "found after a crash" not in window.text, "it was no crash"
    assert seat.said() == sent
    assert not seat.problems()


def test_sigterm_at_any_moment_around_enter_loses_nothing(seat: Seat) -> None:
    seed = random.SystemRandom().randrange(1 << 30)
    print(f"seed {seed}")
    rng = random.Random(seed)
    seat.write(LONG)
    with seat.open() as window:
        window.say("begin")
        window.press("ctrl+q")
        window.wait()
    for number in range(4):
        text = f"message number {number}"
        with seat.open() as window:
            window.wait_state("running")
            window.write(b"\x1b[200~" + text.encode() + b"\x1b[201~")
            window.wait_for(text)
            window.press("alt+enter")
            until = time.monotonic() + rng.uniform(0, 0.06)
            while time.monotonic() < until:
                window.pump(0.001)
            window.signal(signal.SIGTERM)
            assert window.wait() == 143
        queued = [item["content"] for item in seat.inbox()]
        assert (text in queued) != (seat.draft() == text), f"seed {seed}: {queued}, draft {seat.draft()!r}"
        if seat.draft():
            with seat.open() as window:
                window.wait_for(lambda text=text: window.composing == text)
                window.press("alt+enter")
                window.wait_taken()
                window.press("ctrl+q")
                window.wait()
    assert [item["content"] for item in seat.inbox()] == [f"message number {number}" for number in range(4)]


@pytest.mark.parametrize("keys", [["ctrl+q"], ["ctrl+d"], ["ctrl+c", "ctrl+c"]], ids=["^Q", "^D", "^C ^C"])
def test_quitting_while_busy_says_that_the_work_goes_on_and_it_does(seat: Seat, keys: list[str]) -> None:
    seat.write([{"calls": [{"name": "bash", "args": {"command": "sleep 300"}}]}, *QUICK])
    with seat.open(size=(120, 30)) as window:
        window.say("work on it")
        window.wait_line("bash", "sleep 300")
        for key in keys:
            if key != keys[0]:
                window.wait_for("Ctrl+C again quits")
                window.wait_for("will go on at the next open")
            window.press(key)
        assert window.wait() == 0
        told = window.raw.partition(b"\x1b[?1049l")[2]
        assert b"unfinished; they go on at the next open." in told and b"Continue: " in told
    assert closed_in_order(seat)
    seat.wait_gone()
    with seat.open() as window:
        window.wait_for("It goes on and ends.")
        window.wait_state("ready")
        assert seat.said() == ["work on it"]
    assert not seat.problems()


def test_ui_a05_a_closed_terminal_ends_everything_in_order(seat: Seat) -> None:
    seat.write([{"calls": [{"name": "bash", "args": {"command": "sleep 300"}}]}, *QUICK])
    with seat.open() as window:
        window.say("work on it")
        window.wait_line("bash", "sleep 300")
        app = window.app
        window.hang_up()
        wait_until(lambda: not alive(app), "the end of the app")
    seat.wait_gone()
    assert closed_in_order(seat)


BROKEN = """
from durable_tui import Extension
from durable_tui.ui.widgets import transcript
def fail(*args, **keys):
    raise RuntimeError("the renderer is broken")
{where} = fail
extension = Extension("broken")
"""


def test_ui_r20_a_block_that_cannot_be_drawn_stops_neither_the_screen_nor_the_run(seat: Seat) -> None:
    seat.plugin("broken", BROKEN.format(where="transcript.layout"))
    with seat.open() as window:
        window.say("go on")
        window.wait_for("cannot be shown")
        window.wait_store(lambda state: not state.live_ids and state.submissions, "the end of the run")
        window.press("ctrl+q")
        assert window.wait() == 0
    assert not seat.problems()


def test_u08_ui_r20_a_widget_that_fails_ends_the_screen_and_loses_no_work(seat: Seat) -> None:
    seat.write(LONG)
    with seat.open() as window:
        window.say("keep this")
        window.press("ctrl+q")
        window.wait()
    seat.plugin("broken", BROKEN.format(where="transcript.Transcript.render_line"))
    with seat.open(ready=False) as window:
        assert window.wait() == 1
        assert b"the work is kept" in window.raw.partition(b"\x1b[?1049l")[2]
        assert b"Traceback" not in window.raw
        assert window.attributes == window.before
    assert closed_in_order(seat)
    (seat.home / "extensions" / "broken.py").unlink()
    seat.write(QUICK)
    with seat.open() as window:
        window.wait_for("It goes on and ends.")


def test_work_goes_on_while_the_terminal_takes_nothing_in(seat: Seat) -> None:
    words = " ".join(f"word{number}" for number in range(4000))
    with ModelServer([{"text": words, "delay": 3}], strict=True) as server, seat.open_served(server) as window:
        window.say("talk")
        wait_until(lambda: not seat.state().live_ids, "the end of the run, unseen", 40)
        window.wait_for("word3999")
        window.wait_state("ready")


def test_ctrl_q_twice_ends_at_once(seat: Seat) -> None:
    seat.write(LONG)
    with Window(seat, (), (100, 30), {}) as window:
        window.wait_ready()
        window.press("ctrl+q", "ctrl+q", "ctrl+q")
        assert window.wait() == 0
