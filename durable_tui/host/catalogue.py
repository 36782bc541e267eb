"""Which sessions there are (spec 17.7). `index.sqlite` remembers what was read; without it everything is read again."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import secrets
import sqlite3
import time
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from durable_tui.host.host_errors import HostError, SessionUnknown
from durable_tui.host.paths import Paths, private_folder
from durable_tui.host.reading import facts
from durable_tui.storage.records import OwnerRow

if TYPE_CHECKING:
    from durable_tui.host.session_facts import Facts, LiveOwner, Opening, Unreadable
    from durable_tui.models.messages import Usage

State = Literal["running", "unfinished", "clean", "damaged", "newer"]
SUFFIX = ".sqlite"
SHORT = 8  # characters at the end of an id that people see and type
_VERSION = 2
_SCHEMA = "CREATE TABLE IF NOT EXISTS sessions (path TEXT PRIMARY KEY, stamp TEXT NOT NULL, facts TEXT NOT NULL)"


@dataclass(slots=True, frozen=True)
class SessionInfo:
    """One session as listed. Times in milliseconds; `message` says what is wrong with a damaged or newer one."""

    id: str
    path: Path
    state: State
    cwd: str
    created_at: int
    updated_at: int
    unfinished: int = 0
    queued: int = 0
    title: str | None = None
    model: str | None = None
    usage: Usage | None = None  # of all conversations
    owner: LiveOwner | None = None
    message: str | None = None

    @property
    def short_id(self) -> str:
        return self.id[-SHORT:]

    @property
    def cost(self) -> float | None:
        """In USD, as far as it is known."""
        cost = self.usage.get("cost") if self.usage else None
        return None if cost is None else cost["total"]

    def json(self) -> dict[str, object]:
        """As `sessions --json` prints it (spec 17.7); `unpriced` counts tokens whose cost is not in `cost`."""
        value: dict[str, object] = {
            "id": self.id, "path": str(self.path), "title": self.title, "cwd": self.cwd, "state": self.state,
            "createdAt": self.created_at, "updatedAt": self.updated_at, "model": self.model,
            "unfinished": self.unfinished, "queued": self.queued, "cost": self.cost,
            "unpriced": self.usage.get("unpriced") if self.usage else None, "owner": self.owner, "message": self.message,
        }  # fmt: skip
        return {key: item for key, item in value.items() if item is not None}


def new_id(now: float | None = None) -> str:
    """A fresh id: the local time, so that names sort by age, and eight random characters that people use."""
    stamp = time.strftime("%Y%m%d-%H%M%S", time.localtime(now))
    return f"{stamp}-{secrets.token_hex(SHORT // 2)}"


def looks_like_path(text: str) -> bool:
    """Whether `--session` names a file rather than an id."""
    return os.sep in text or text.endswith(SUFFIX) or text in (".", "..") or text.startswith("~")


class Catalogue:
    """The sessions of one user. Methods may be called from any process at any time; a broken index is made anew."""

    def __init__(self, paths: Paths) -> None:
        self.paths = paths
        self._folder = paths.sessions.resolve()  # one name for a session, whatever links lead to it

    def new_path(self) -> Path:
        """Return the path for a new session; makes the folder."""
        self.paths.make_sessions()
        return self._folder / f"{new_id()}{SUFFIX}"

    async def list(self, cwd: str | None = None) -> list[SessionInfo]:
        """The sessions of a directory (None: all), newest first; damaged ones always, being nobody knows whose."""
        known = await asyncio.to_thread(self._known)
        found: list[SessionInfo] = []
        changed: dict[str, tuple[str, Facts | Unreadable]] = {}
        present = await asyncio.to_thread(lambda: list(self._present(known)))
        for path, stamp in present:
            old = known.get(str(path))
            if old is not None and old[0] == stamp:
                item = old[1]
            else:
                item = await facts(path)
                changed[str(path)] = (stamp, item)
            if cwd is None or "problem" in item or item.get("cwd") == cwd:
                found.append(await asyncio.to_thread(describe, path, item))
        gone = known.keys() - {str(path) for path, _ in present}
        if changed or gone:
            await asyncio.to_thread(self._store, changed, gone)
        return sorted(found, key=lambda info: (info.updated_at, info.id), reverse=True)

    async def describe(self, path: Path) -> SessionInfo:
        """One session, read now and remembered."""
        item = await facts(path)
        await asyncio.to_thread(self._store, {str(path): (stamp_of(path) or "", item)}, set())
        return await asyncio.to_thread(describe, path, item)

    async def remember(self, path: Path) -> None:
        """Keep in mind that there is a session outside our folder; what it holds is read when it is listed."""
        if path.parent != self._folder:
            await asyncio.to_thread(self._store, {str(path): ("", {})}, set())

    async def newest(self, cwd: str) -> SessionInfo | None:
        """The session of a directory that was used last, damaged ones aside."""
        for info in await self.list(cwd):
            if info.state not in ("damaged", "newer"):
                return info
        return None

    def find(self, text: str) -> Path:
        """The session's path for an id, a unique part of one, or a path. Raises SessionUnknown."""
        if looks_like_path(text):
            path = Path(text).expanduser().resolve()
            if path.is_dir():
                raise SessionUnknown(f"{text}: is a directory, not a session file")
            return path
        paths = [path for path, _ in self._present(self._known())]
        exact = [path for path in paths if path.stem == text]
        matches = exact or [path for path in paths if text and text in path.stem]
        if len(matches) == 1:
            return matches[0]
        if matches:
            names = ", ".join(sorted(path.stem for path in matches)[:8])
            more = "" if len(matches) <= 8 else f" and {len(matches) - 8} more"
            raise SessionUnknown(
                f"{text!r} is part of {len(matches)} sessions: {names}{more}; give more of the one you mean"
            )
        raise SessionUnknown(
            f"no session is called {text!r}; `durable-tui sessions --all` lists them, "
            f"and a path such as ./{text}{SUFFIX} makes one there"
        )

    # files

    def _present(self, known: Iterable[str]) -> Iterator[tuple[Path, str]]:
        """Session files with their stamps: those in our folder, and those elsewhere that were opened before."""
        with contextlib.suppress(FileNotFoundError, NotADirectoryError):
            try:
                names = sorted(os.listdir(self._folder))
            except PermissionError as error:
                raise HostError(f"{self._folder}: cannot be read ({error.strerror})") from None
            for name in names:
                if name.endswith(SUFFIX) and not name.startswith("."):
                    path = self._folder / name
                    stamp = stamp_of(path)
                    if stamp is not None:
                        yield path, stamp
        inside = str(self._folder) + os.sep
        for text in known:
            if not text.startswith(inside):
                stamp = stamp_of(Path(text))
                if stamp is not None:
                    yield Path(text), stamp

    # the index: only a cache, so whatever is wrong with it costs time and nothing else

    def _connect(self) -> sqlite3.Connection:
        private_folder(self.paths.index.parent)
        connection = sqlite3.connect(self.paths.index, timeout=2.0, isolation_level=None)
        try:
            connection.execute("PRAGMA synchronous = OFF")
            version = connection.execute("PRAGMA user_version").fetchone()[0]
            if version != _VERSION:
                connection.execute("BEGIN IMMEDIATE")
                connection.execute("DROP TABLE IF EXISTS sessions")
                connection.execute(_SCHEMA)
                connection.execute(f"PRAGMA user_version = {_VERSION}")
                connection.execute("COMMIT")
                os.chmod(self.paths.index, 0o600)
        except BaseException:
            connection.close()
            raise
        return connection

    def _known(self) -> dict[str, tuple[str, Facts | Unreadable]]:
        if not self.paths.index.exists():
            return {}
        try:
            with contextlib.closing(self._connect()) as connection:
                rows = connection.execute("SELECT path, stamp, facts FROM sessions").fetchall()
            return {str(path): (str(stamp), json.loads(text)) for path, stamp, text in rows}
        except sqlite3.OperationalError:
            return {}  # busy, or a place we may not write to
        except (sqlite3.DatabaseError, ValueError, TypeError):
            self._discard()
            return {}
        except (OSError, HostError):
            return {}

    def _store(self, changed: Mapping[str, tuple[str, Mapping[str, object]]], gone: set[str]) -> None:
        rows = [(path, stamp, json.dumps(item)) for path, (stamp, item) in changed.items()]
        try:
            with contextlib.closing(self._connect()) as connection:
                connection.execute("BEGIN IMMEDIATE")
                connection.executemany("INSERT OR REPLACE INTO sessions VALUES (?, ?, ?)", rows)
                connection.executemany("DELETE FROM sessions WHERE path = ?", [(path,) for path in gone])
                connection.execute("COMMIT")
        except sqlite3.OperationalError:
            return
        except sqlite3.DatabaseError:
            self._discard()
        except (OSError, HostError):
            return

    def _discard(self) -> None:
        for suffix in ("", "-journal", "-wal", "-shm"):
            with contextlib.suppress(OSError):
                os.unlink(f"{self.paths.index}{suffix}")


def stamp_of(path: Path) -> str | None:
    """Return a mark that changes when the session does: time and size of the file and its log. None: no such file."""
    parts = []
    for suffix in ("", "-wal"):
        try:
            info = os.stat(f"{path}{suffix}")
        except OSError:
            if not suffix:
                return None
            parts.append("-")
        else:
            parts.append(f"{info.st_mtime_ns}.{info.st_size}.{info.st_ino}")
    return ":".join(parts)


def describe(path: Path, item: Facts | Unreadable) -> SessionInfo:
    """The listing's line for facts read earlier; the state is judged now, by whether the owner lives."""
    if "problem" in item:
        changed = int(os.stat(path).st_mtime * 1000) if path.exists() else 0
        return SessionInfo(path.stem, path, item["problem"], "", changed, changed, message=item["message"])
    opening = item.get("opening")
    owner: LiveOwner | None = None
    if opening is not None and not _dead(opening):
        owner = {"pid": opening["pid"], "host": opening["host"], "startedAt": opening["startedAt"]}
    state: State = "running" if owner else ("unfinished" if item["unfinished"] else "clean")
    if "newer" in item:
        state = "newer"
    return SessionInfo(
        path.stem, path, state, item["cwd"], item["createdAt"], item["updatedAt"],
        unfinished=item["unfinished"], queued=item["queued"], title=item.get("title"), model=item.get("model"),
        usage=item.get("usage"), owner=owner, message=item.get("newer"),
    )  # fmt: skip


def _dead(opening: Opening) -> bool:
    from durable_tui.storage.identity import liveness

    owner = OwnerRow(
        epoch=opening["epoch"], pid=opening["pid"], host=opening["host"], boot_id=opening["bootId"],
        process_started_at=opening["startedAt"], opened_at=opening["openedAt"],
    )  # fmt: skip
    return liveness(owner) == "dead"
