"""A stand-in for the screen: it takes the terminal as the real one does, reports to the launcher, and obeys.

Arguments after the folder: `exit=N` ends with that status at once; `plain` never touches the terminal;
`silent` reports nothing; `clean-signals` closes in order on signals; `cwd=DIR` is the session's directory; `ends=FILE`
is where the launcher is to tell how it ended.
Keys: q quits, z suspends. It writes `pid` and a line for each thing that happens to `log` in the folder.
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys
import termios
import tty
from pathlib import Path

from durable_tui.host import terminal

MOUSE = (1000, 1003, 1006, 1015, 1016)
OTHERS = (1004, 2004, 2048)


def modes(numbers: tuple[int, ...], end: str) -> str:
    return "".join(f"\x1b[?{number}{end}" for number in numbers)


ENTER = "\x1b[?1049h" + modes((*MOUSE, *OTHERS), "h") + "\x1b[?25l\x1b[>25u\x1b[?7l"
LEAVE = "\x1b[?7h" + modes((*MOUSE, *OTHERS), "l") + "\x1b[<u\x1b[?1049l\x1b[?25h"

folder = Path(sys.argv[1])
words = sys.argv[2:]
options = dict(word.partition("=")[::2] for word in words)


def log(line: str) -> None:
    with open(folder / "log", "a") as file:
        file.write(line + "\n")


def put(text: str) -> None:
    terminal.write_all(2, text.encode())  # a closed terminal refuses it


class Screen:
    def __init__(self) -> None:
        self.saved = terminal.save()
        self.before = self.saved
        self.ended: asyncio.Future[int] = asyncio.get_running_loop().create_future()

    def enter(self) -> None:
        put(ENTER + "\x1b[2J\x1b[Hstand-in screen")
        self.before = terminal.save()
        tty.setraw(0)
        log("entered")

    def leave(self) -> None:
        put(LEAVE)
        assert self.before is not None
        try:
            termios.tcsetattr(0, termios.TCSANOW, self.before)
        except termios.error:
            log("not in the foreground")
        log("left")

    def suspend(self, *_: object) -> None:
        self.leave()
        log("stopping")
        os.kill(os.getpid(), signal.SIGSTOP)

    def resume(self, *_: object) -> None:
        log("continued")
        self.enter()

    def key(self) -> None:
        for byte in os.read(0, 1024):
            if byte == ord("q"):
                self.end(0)
            elif byte in (ord("z"), 0x1A):
                os.kill(os.getpid(), signal.SIGTSTP)

    def end(self, status: int) -> None:
        if not self.ended.done():
            self.ended.set_result(status)

    def signalled(self, signum: int) -> None:
        log(f"signal {signum}")
        self.end(128 + signum)

    def abandoned(self) -> None:
        log("launcher gone")
        self.end(99)


async def main() -> int:
    loop = asyncio.get_running_loop()
    screen = Screen()
    if "silent" not in words:
        terminal.report(
            session="20261130-000000-1a2b3c4d",
            cwd=options.get("cwd", os.getcwd()),
            unfinished=int(options.get("unfinished", "2")),
            ends=[options["ends"]] if "ends" in options else [],
        )
    terminal.watch_launcher(loop, screen.abandoned)
    if "clean-signals" in words:
        terminal.watch_stop_signals(loop, screen.signalled)
    if "plain" not in words:
        signal.signal(signal.SIGTSTP, screen.suspend)
        signal.signal(signal.SIGCONT, screen.resume)
        screen.enter()
        loop.add_reader(0, screen.key)
    if "exit" in options:
        screen.end(int(options["exit"]))
    (folder / "pid").write_text(str(os.getpid()))
    status = await screen.ended
    if "plain" not in words and "exit" not in options:
        loop.remove_reader(0)
        screen.leave()
    if status == 99:
        terminal.abandoned(screen.saved)
        log("restored")
    return status


if __name__ == "__main__":
    if "early" in words:
        (folder / "pid").write_text(str(os.getpid()))
        signal.pause()
    sys.exit(asyncio.run(main()))
