"""The real screen on a real terminal, at a person's home with scripted models or a model server."""

from __future__ import annotations

import asyncio
import os
import signal
import sqlite3
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import psutil

from durable_tui.storage import SqliteReader
from tests.tools.headless import Home
from tests.tools.invariants import State, check_idle, check_store, read_state
from tests.tools.processes import MARK
from tests.tools.pty_kit import Terminal, wait_until

HTTP = """\
model = "local/one"
[providers.local]
api = "openai-chat"
base_url = "{url}"
[settings]
restart_limit = 100
retry = {{max_retries = 3, base_delay = 0.05, max_delay = 0.2}}
{extra}
"""


class Seat(Home):
    """A home whose sessions lie where the program puts them; `open` sits down at a screen."""

    def served_by(self, url: str, extra: str = "") -> None:
        """Ask the server at `url` from now on."""
        (self.home / "config.toml").write_text(HTTP.format(url=url, extra=extra))

    def open(
        self, *words: str, size: tuple[int, int] = (100, 30), env: dict[str, str] | None = None, ready: bool = True
    ) -> Window:
        """Start the program on a pty of its own; by default wait until a session is open and drawn."""
        window = Window(self, words, size, env or {})
        if ready:
            window.wait_ready()
        return window

    def open_served(self, server: Any, *words: str, extra: str = "", **how: Any) -> Window:
        """`open`, with a running model server to ask."""
        self.served_by(server.base_url, extra)
        return self.open(*words, **how)

    @property
    def path(self) -> Path:
        """The newest session's file."""
        found = sorted((self.home / "sessions").glob("*.sqlite"), key=lambda path: path.stat().st_mtime)
        assert found, "there is no session"
        return found[-1]

    def state(self, path: Path | None = None) -> State:
        """What the newest session's store holds now, read beside whoever owns it."""

        async def read() -> State:
            storage = await SqliteReader.open(path or self.path)
            try:
                return await read_state(storage)
            finally:
                await storage.close()

        return asyncio.run(read())

    def problems(self, *, idle: bool = True, path: Path | None = None) -> list[str]:
        """What is wrong with the newest session's store."""

        async def read() -> list[str]:
            storage = await SqliteReader.open(path or self.path)
            try:
                return await (check_idle(storage) if idle else check_store(storage))
            finally:
                await storage.close()

        return asyncio.run(read())

    def draft(self) -> str:
        return draft_of(self.state())

    def inbox(self) -> list[dict[str, Any]]:
        return list(self.state().inbox(1))

    def said(self) -> list[str]:
        """The texts of the placed inputs, in order."""
        return [said_text(entry) for entry in self.state().entries.values() if entry["kind"] == "pi.user"]

    def count(self, sql: str) -> int:
        """One number by SQL, read beside whoever owns the session."""
        reader = sqlite3.connect(f"file:{self.path}?mode=ro", uri=True, timeout=5)
        try:
            return int(reader.execute(sql).fetchone()[0])
        finally:
            reader.close()


def draft_of(state: State) -> str:
    return str((state.documents.get(1, {}).get("dt.draft") or {}).get("text", ""))


def said_text(entry: Any) -> str:
    content = entry["model"][0]["content"]
    return content if isinstance(content, str) else "".join(part.get("text", "") for part in content)


class Window(Terminal):
    """The program on its terminal: `app` is the process that draws, its parent the launcher."""

    def __init__(self, seat: Seat, words: Sequence[str], size: tuple[int, int], env: dict[str, str]) -> None:
        self.seat = seat
        super().__init__(
            seat.command(*words),
            size=size,
            cwd=seat.project,
            env={**seat.environment, MARK: seat.mark, "COLORTERM": "truecolor", **env},
        )

    @property
    def app(self) -> int:
        """The process that draws, once the launcher has started it."""
        return int(wait_until(lambda: psutil.Process(self.pid).children(), "the app")[0].pid)

    def wait_ready(self) -> None:
        """Until a session is open: the header counts its commits."""
        self.wait_for(lambda: any(" #" in line for line in self.screen[:2]))

    def kill_app(self) -> int:
        """SIGKILL the process that draws; the launcher's status."""
        os.kill(self.app, signal.SIGKILL)
        return self.wait()

    def type(self, text: str) -> None:
        """Type as a person does: shown before anything else is pressed."""
        self.write(text)
        self.wait_for(text[-30:])

    def say(self, text: str, key: str = "enter") -> None:
        """Type, send, and wait until the composer is empty: the program has taken it."""
        self.type(text)
        self.press(key)
        self.wait_taken()

    @property
    def composing(self) -> str | None:
        """What stands in the composer: the lines inside the last frame; "" for the placeholder, None for no frame."""
        lines = [line.strip() for line in self.screen]
        bottom = next((i for i in range(len(lines) - 1, -1, -1) if lines[i].startswith("╰")), 0)
        top = next((i for i in range(bottom - 1, -1, -1) if lines[i].startswith("╭")), None)
        if top is None:
            return None
        text = "\n".join(line[1:-1].strip() for line in lines[top + 1 : bottom]).strip()
        return "" if text.startswith("type a message") else text

    def wait_taken(self) -> None:
        self.wait_for(lambda: self.composing == "")

    def wait_line(self, *words: str, limit: float = 20.0) -> None:
        """Until one line of the screen holds all the words."""
        self.wait_for(lambda: any(all(word in line for word in words) for line in self.screen), limit)

    def wait_state(self, word: str, limit: float = 20.0) -> None:
        """Until the header says so: `ready`, `running`, `parked`, `paused` …"""
        self.wait_for(lambda: any(word in line for line in self.screen[:2]), limit)

    def wait_store(self, condition: Callable[[State], object], what: str, limit: float = 20.0) -> None:
        """Until the store holds it, taking in what is drawn meanwhile."""

        def holds() -> object:
            self.pump(0)
            return condition(self.seat.state())

        wait_until(holds, what, limit)
