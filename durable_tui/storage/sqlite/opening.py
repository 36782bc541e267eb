"""Opening a session file, as one job on the connection's thread (spec 4.2, 4.3, 15)."""

from __future__ import annotations

import sqlite3
import sys

from durable_tui.ground.clock import now_ms
from durable_tui.storage.errors import SnapshotLost, StorageDamaged, StorageError
from durable_tui.storage.identity import liveness, this_owner
from durable_tui.storage.protocol import Durability
from durable_tui.storage.records import Liveness, OwnerRow
from durable_tui.storage.sqlite import queries, schema
from durable_tui.storage.sqlite.commit import Writer
from durable_tui.storage.sqlite.disk import is_full, is_network, no_space
from durable_tui.storage.sqlite.inspection import (
    BUSY_MS,
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

    __slots__ = ("former_owner", "lock", "next_id", "next_seq", "owner", "previous", "writer")

    raw: sqlite3.Connection
    lock: OwnerLock
    writer: Writer
    owner: OwnerRow
    previous: OwnerRow | None
    former_owner: Liveness
    next_id: int
    next_seq: int

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
        if is_full(error, path):  # already reading needs room: a write-ahead log shares its index in a file
            raise no_space(path, "it was not opened") from error
        raise explain(error, label) from error
    except BaseException:
        lock.release()
        raise


def _create(path: str, label: str, wal: bool) -> None:
    try:
        schema.create(path, now_ms(), lambda name: connect(name, "mode=rw"), wal=wal)
    except sqlite3.Error as error:
        if error.sqlite_errorcode & 0xFF in (sqlite3.SQLITE_FULL, sqlite3.SQLITE_IOERR):
            raise no_space(path, "no session was made") from error
        raise StorageError(f"{label} could not be made ({error})") from error
    except OSError as error:
        raise StorageError(f"{label} could not be made ({error.strerror})") from error


def _begin(
    raw: sqlite3.Connection, path: str, label: str, durability: Durability, lock: OwnerLock, wal: bool
) -> Opening:
    opening = Opening(raw)
    opening.lock = lock
    opening.writer = Writer(path, label, durability)
    version = judge(raw, label, reading=False)
    opening.previous = next(iter(queries.owners(raw, 1)), None)
    unclean = opening.previous is not None and opening.previous.closed_at is None
    if unclean and not check_whole(raw, path, label):
        opening.warnings.append(f"{label} is too large to be checked after the unclean end")
    counters = raw.execute("SELECT next_id, next_seq FROM session").fetchone()
    if counters is None:
        raise StorageDamaged(f"{label} has lost its counters; it was not changed")
    opening.next_id, opening.next_seq = counters
    set_pragmas(raw)
    _set_journal(raw, opening, label, wal)
    opening.writer.always_flush(raw)
    if version < schema.VERSION:
        schema.migrate(raw, label)
    opening.former_owner = _former_owner(path, opening.previous)
    opening.owner = this_owner(opening.previous.epoch + 1 if opening.previous else 1, now_ms())
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


def _former_owner(path: str, previous: OwnerRow | None) -> Liveness:
    if previous is None or previous.closed_at is not None or (path, previous.epoch) in _ended:
        return "dead"
    return liveness(previous)


class Reading(Handle):
    """A read-only opening. While nobody writes it uses the file as it is, and opens it anew once it changed."""

    __slots__ = ("_in_snapshot", "_known", "_seen", "_version", "label", "path")

    def __init__(self, path: str, label: str) -> None:
        raw, self._seen = connect_reading(path)
        super().__init__(raw)
        self.path, self.label = path, label
        self._known: int | None = None
        self._version = 0
        self._in_snapshot = False
        raw.execute(f"PRAGMA busy_timeout={BUSY_MS}")

    def begin_snapshot(self) -> None:
        """Read what is committed now until `end_snapshot`."""
        if not self._in_snapshot:
            self.raw.execute("BEGIN")
            self._in_snapshot = True

    def end_snapshot(self) -> None:
        self._in_snapshot = False
        if self.raw.in_transaction:
            self.raw.execute("COMMIT")

    def moved(self) -> bool:
        """Whether the file may be other than what the connection has read; only for a file opened at rest."""
        return self._seen.quiet and signature(self.path) != self._seen

    def renew(self) -> None:
        """Open the file anew. Raises SnapshotLost inside a snapshot, and ends it."""
        if self._in_snapshot:
            self._in_snapshot = False
            raise SnapshotLost(f"{self.label} changed while it was looked at")
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
