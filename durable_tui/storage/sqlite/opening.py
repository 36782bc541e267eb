"""Opening a session file, as one job on the connection's thread (spec 4.2, 4.3, 15)."""

from __future__ import annotations

import sqlite3
import sys

from durable_tui.ground.clock import now_ms
from durable_tui.storage.errors import StorageDamaged, StorageError, StorageRejected
from durable_tui.storage.identity import is_dead, this_owner
from durable_tui.storage.records import OwnerRow
from durable_tui.storage.sqlite import queries, schema
from durable_tui.storage.sqlite.commit import Durability, Writer
from durable_tui.storage.sqlite.disk import free_bytes, is_network, lacks_space
from durable_tui.storage.sqlite.inspection import (
    BUSY_MS,
    Signature,
    admit,
    check_place,
    check_whole,
    check_writable,
    connect,
    connect_reading,
    explain,
    judge,
    signature,
)
from durable_tui.storage.sqlite.lock import OwnerLock, sibling
from durable_tui.storage.sqlite.thread import Handle

# Checkpoints happen when idle and at close; inside a commit only once the log is this long (pages of 4 KiB).
AUTOCHECKPOINT_PAGES = 16_384
JOURNAL_BYTES = 64 * 1024 * 1024

# Openings this process ended itself: their work is over although the process lives.
_ended: set[tuple[str, int]] = set()


class Opening(Handle):
    """An opening for writing: the connection, the lock and the row of this epoch."""

    __slots__ = ("former_owner_dead", "lock", "next_id", "next_seq", "owner", "previous", "warnings", "writer")

    raw: sqlite3.Connection
    lock: OwnerLock
    writer: Writer
    owner: OwnerRow
    previous: OwnerRow | None
    former_owner_dead: bool
    next_id: int
    next_seq: int
    warnings: list[str]

    def close(self) -> None:
        """Close the connection, then free the lock: nobody may open in between."""
        try:
            super().close()
        finally:
            self.lock.release()
            _ended.add((self.writer.path, self.owner.epoch))


def take(path: str, label: str, durability: Durability, create: bool) -> Opening:
    """Own the session file at the resolved `path`, made anew when there is none and `create` allows it.

    Raises SessionLocked, StorageForeign, StorageNewer, StorageDamaged, StorageRejected (no space) or StorageError.
    """
    exists = check_place(path, label)
    if exists:
        admit(path, label, reading=False)
        check_writable(path, label)
    elif not create:
        raise StorageError(f"there is no session at {label}")
    lock = OwnerLock.acquire(sibling(path, ".lock"), this_owner(0, now_ms()), label=label)
    try:
        wal = not is_network(path)
        if not exists and not check_place(path, label):
            _create(path, label, wal)
        raw = connect(path, "mode=rw")
        try:
            return _begin(raw, path, label, durability, lock, wal)
        except BaseException:
            raw.close()
            raise
    except sqlite3.Error as error:
        lock.release()
        if error.sqlite_errorcode & 0xFF in (sqlite3.SQLITE_FULL, sqlite3.SQLITE_IOERR) and lacks_space(path):
            # Already reading needs room: a write-ahead log shares its index in a file.
            message = f"no space left for {path} ({free_bytes(path):,} bytes free); it was not opened"
            raise StorageRejected(message, full=True) from error
        raise explain(error, label) from error
    except BaseException:
        lock.release()
        raise


def _create(path: str, label: str, wal: bool) -> None:
    try:
        schema.create(path, now_ms(), lambda name: connect(name, "mode=rw"), wal=wal)
    except sqlite3.Error as error:
        if error.sqlite_errorcode & 0xFF in (sqlite3.SQLITE_FULL, sqlite3.SQLITE_IOERR):
            message = f"no space left for {path} ({free_bytes(path):,} bytes free); no session was made"
            raise StorageRejected(message, full=True) from error
        raise StorageError(f"{label} could not be made ({error})") from error
    except OSError as error:
        raise StorageError(f"{label} could not be made ({error.strerror})") from error


def _begin(
    raw: sqlite3.Connection, path: str, label: str, durability: Durability, lock: OwnerLock, wal: bool
) -> Opening:
    opening = Opening(raw)
    opening.lock = lock
    opening.warnings = []
    opening.writer = Writer(path, label, durability)
    version = judge(raw, label, reading=False)
    opening.previous = next(iter(queries.owners(raw, 1)), None)
    unclean = opening.previous is not None and opening.previous.closed_at is None
    if unclean and not check_whole(raw, path, label):
        opening.warnings.append(f"{label} is too large to be checked after the unclean end")
    set_pragmas(raw)
    _set_journal(raw, opening, label, wal)
    opening.writer.always_flush(raw)
    if version < schema.VERSION:
        schema.migrate(raw, label)
    opening.former_owner_dead = _provably_ended(path, opening.previous)
    opening.owner = this_owner(opening.previous.epoch + 1 if opening.previous else 1, now_ms())
    counters = raw.execute("SELECT next_id, next_seq FROM session").fetchone()
    if counters is None:
        raise StorageDamaged(f"{label} has lost its counters; it was not changed")
    opening.next_id, opening.next_seq = counters
    opening.writer.begin_epoch(raw, opening.owner)
    return opening


def set_pragmas(raw: sqlite3.Connection) -> None:
    """What every writing connection sets explicitly, whatever SQLite was built with."""
    raw.execute(f"PRAGMA busy_timeout={BUSY_MS}")
    raw.execute("PRAGMA foreign_keys=ON")
    raw.execute("PRAGMA trusted_schema=OFF")
    raw.execute(f"PRAGMA wal_autocheckpoint={AUTOCHECKPOINT_PAGES}")
    raw.execute(f"PRAGMA journal_size_limit={JOURNAL_BYTES}")
    if sys.platform == "darwin":
        raw.execute("PRAGMA checkpoint_fullfsync=ON")


def _set_journal(raw: sqlite3.Connection, opening: Opening, label: str, wal: bool) -> None:
    mode = raw.execute("PRAGMA journal_mode").fetchone()[0]
    wanted = "wal" if wal else "truncate"
    if mode != wanted:
        mode = raw.execute(f"PRAGMA journal_mode={wanted}").fetchone()[0]
    if not wal:
        opening.warnings.append(f"{label} lies on a network file system: slower journal, ownership by its locks only")
    elif mode != wanted:
        opening.warnings.append(f"{label} could not be switched to write-ahead logging: slower journal")


def _provably_ended(path: str, previous: OwnerRow | None) -> bool:
    if previous is None or previous.closed_at is not None or (path, previous.epoch) in _ended:
        return True
    return is_dead(previous)


class Reading(Handle):
    """A read-only opening. While nobody writes it uses the file as it is, and opens it anew once it changed."""

    __slots__ = ("_known", "_seen", "_version", "label", "path", "warnings")

    def __init__(self, path: str, label: str) -> None:
        raw, self._seen = connect_reading(path)
        super().__init__(raw)
        self.path, self.label = path, label
        self.warnings: list[str] = []
        self._known: int | None = None
        self._version = 0
        raw.execute(f"PRAGMA busy_timeout={BUSY_MS}")

    def moved(self) -> bool:
        """Whether the file may be other than what the connection has read; only for a file opened at rest."""
        return self._seen.quiet and signature(self.path) != self._seen

    def renew(self) -> None:
        self.raw.close()
        self.raw, self._seen = connect_reading(self.path)
        self.raw.execute(f"PRAGMA busy_timeout={BUSY_MS}")
        self._known = None

    def newest_seq(self) -> int:
        """The newest commit's seq; asked for only when another connection changed the file."""
        version = int(self.raw.execute("PRAGMA data_version").fetchone()[0])
        if self._known is None or version != self._version:
            self._version, self._known = version, queries.newest_seq(self.raw)
        return self._known


def follow(path: str, label: str) -> Reading:
    """A read-only opening of the session file at the resolved `path`, owned by whomever. Raises as `take`."""
    if not check_place(path, label):
        raise StorageError(f"there is no session at {label}")
    version = admit(path, label, reading=True)
    try:
        reading = Reading(path, label)
    except sqlite3.Error as error:
        raise explain(error, label) from error
    if version > schema.VERSION:
        reading.warnings.append(
            f"{label} has schema version {version}; this program knows version {schema.VERSION} and only reads it"
        )
    return reading


__all__ = ["Opening", "Reading", "Signature", "follow", "take"]
