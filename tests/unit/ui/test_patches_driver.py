"""The corrections of Textual's driver: a hang-up, and being continued (cases UI-A05, UI-T03)."""

from __future__ import annotations

import os
import pty
import threading
from collections.abc import Iterator
from io import StringIO

import pytest
from textual.drivers._writer_thread import MAX_QUEUED_WRITES, WriterThread
from textual.drivers.linux_driver import LinuxDriver

from durable_tui.ui import patches


@pytest.fixture(autouse=True)
def patched() -> None:
    patches.apply()


class Gone(StringIO):
    """A terminal after a hang-up."""

    def write(self, text: str) -> int:
        raise OSError(5, "Input/output error")


def test_ui_a05_a_terminal_that_is_gone_keeps_nobody_waiting() -> None:
    writer = WriterThread(Gone())
    writer.start()
    done = threading.Event()

    def draw() -> None:
        for _ in range(MAX_QUEUED_WRITES * 3):
            writer.write("frame")
        writer.stop()
        done.set()

    threading.Thread(target=draw, daemon=True).start()
    assert done.wait(10), "a full queue with nobody to empty it"


class Driver(LinuxDriver):
    """A driver that notes what it would do to the terminal."""

    def __init__(self, fd: int, reader: threading.Thread | None) -> None:
        self.fileno = fd
        self._auto_restart = True
        self._must_signal_resume = False
        self._key_thread = reader
        self.done: list[str] = []

    def suspend_application_mode(self) -> None:
        self.done.append("leave")

    def resume_application_mode(self) -> None:
        self.done.append("enter")


@pytest.fixture
def reader() -> Iterator[threading.Thread]:
    over = threading.Event()
    thread = threading.Thread(target=over.wait)
    thread.start()
    yield thread
    over.set()
    thread.join()


@pytest.fixture
def slave() -> Iterator[int]:
    master, slave = pty.openpty()
    yield slave
    os.close(master)
    os.close(slave)


def test_ui_t03_stopped_from_outside_it_leaves_its_modes_before_it_enters_them(
    slave: int, reader: threading.Thread
) -> None:
    driver = Driver(slave, reader)
    driver._sigcont_application()
    assert driver.done == ["leave", "enter"]
    assert driver._must_signal_resume, "the screen is drawn anew"


def test_ui_t03_suspended_by_itself_it_only_enters_its_modes(slave: int) -> None:
    driver = Driver(slave, None)
    driver._sigcont_application()
    assert driver.done == ["enter"]


def test_ui_a05_continued_by_a_hang_up_it_enters_nothing(reader: threading.Thread) -> None:
    master, slave = pty.openpty()
    os.close(master)
    driver = Driver(slave, reader)
    driver._sigcont_application()
    os.close(slave)
    assert driver.done == []


def test_the_echo_of_a_key_waits_for_no_slow_tick() -> None:
    from textual import constants, screen

    assert (patches.ECHO_PERIOD if "TEXTUAL_FPS" not in os.environ else 1 / constants.MAX_FPS) == screen.UPDATE_PERIOD
    assert patches.ECHO_PERIOD < 1 / 60, "not needed any more: paints come as fast as that without it"
