"""Looking at a session file before anything is written: what it is, and whether it may be opened (spec 4, 4.3).

Only SQLite opens the file, read-only. Without a `-wal` or `-journal` beside it nobody writes to it, and it is opened
immutable, so that looking leaves nothing behind.
"""

from __future__ import annotations

import os
import sqlite3
import stat
import time
from typing import NamedTuple
from urllib.parse import quote

from durable_tui.storage.errors import StorageDamaged, StorageError, StorageForeign, StorageNewer
from durable_tui.storage.sqlite import schema

BUSY_MS = 5_000

# A check after an unclean end reads the whole file: larger files are not checked, and no check takes longer.
CHECK_BYTES = 32 * 1024 * 1024
CHECK_SECONDS = 0.25


class Signature(NamedTuple):
    """What changes when somebody writes to a file that has neither `-wal` nor `-journal`."""

    inode: int
    size: int
    changed: int
    quiet: bool


def signature(path: str) -> Signature:
    """The state of the file by its folder's entries alone. Raises FileNotFoundError."""
    found = os.stat(path)
    quiet = not (os.path.exists(path + "-wal") or os.path.exists(path + "-journal"))
    return Signature(found.st_ino, found.st_size, found.st_mtime_ns, quiet)


def connect(path: str, query: str) -> sqlite3.Connection:
    """A connection for jobs: no implicit transactions, usable from the connection's thread, busy waits of BUSY_MS."""
    uri = f"file:{quote(os.fsencode(path))}?{query}"
    raw = sqlite3.connect(
        uri, uri=True, timeout=BUSY_MS / 1000, isolation_level=None, check_same_thread=False, cached_statements=256
    )
    raw.text_factory = _text
    return raw


def connect_reading(path: str) -> tuple[sqlite3.Connection, Signature]:
    """A read-only connection that leaves no file behind, and the state of the file it belongs to."""
    before = signature(path)
    return connect(path, "mode=ro&immutable=1" if before.quiet else "mode=ro"), before


def check_place(path: str, label: str) -> bool:
    """Whether there is a file at the resolved `path`. Raises StorageError for what cannot be a session file's place."""
    try:
        found = os.stat(path)
    except FileNotFoundError:
        folder = os.path.dirname(path)
        if not os.path.isdir(folder):
            raise StorageError(f"the folder {folder} does not exist") from None
        return False
    except NotADirectoryError:
        raise StorageError(f"{label} lies below something that is not a folder") from None
    except PermissionError:
        raise StorageError(f"no permission to look into the folder of {label}") from None
    except OSError as error:
        raise StorageError(f"{label} cannot be opened ({os.strerror(error.errno or 0)})") from error
    if stat.S_ISDIR(found.st_mode):
        raise StorageError(f"{label} is a folder, not a session file")
    if not stat.S_ISREG(found.st_mode):
        raise StorageError(f"{label} is not a regular file")
    if not os.access(path, os.R_OK):
        raise StorageError(f"no permission to read {label}")
    if found.st_size == 0:
        raise StorageDamaged(f"{label} is empty, not a session; it was not changed")
    return True


def check_writable(path: str, label: str) -> None:
    """Raise StorageError when this user may not write the file or beside it."""
    if not os.access(path, os.W_OK):
        raise StorageError(f"no permission to write {label}; it can only be opened read-only")
    folder = os.path.dirname(path)
    if not os.access(folder, os.W_OK | os.X_OK):
        raise StorageError(f"no permission to write in {folder}; {label} can only be opened read-only")


def admit(path: str, label: str, *, reading: bool) -> int:
    """The schema version of the session file at `path`, found out without writing.

    Raises StorageForeign, StorageNewer, StorageDamaged or StorageError. With `reading`, a newer file passes when it
    still has what reading needs.
    """
    try:
        raw, seen = connect_reading(path)
        try:
            try:
                version = judge(raw, label, reading=reading)
            except sqlite3.OperationalError as error:
                if reading or error.sqlite_errorcode != sqlite3.SQLITE_READONLY_ROLLBACK:
                    raise
                # A death in the middle of a write without WAL: SQLite rolls back once the owner opens for writing.
                raw.close()
                raw = connect(path, "mode=ro&immutable=1")
                version = judge(raw, label, reading=reading)
            if seen.quiet and seen.size % int(raw.execute("PRAGMA page_size").fetchone()[0]):
                raise StorageDamaged(f"{label} is cut off in the middle of a page; it was not changed")
            return version
        finally:
            raw.close()
    except sqlite3.Error as error:
        raise explain(error, label) from error
    except FileNotFoundError:
        raise StorageError(f"{label} is gone") from None


def judge(raw: sqlite3.Connection, label: str, *, reading: bool) -> int:
    """As `admit`, on a connection."""
    application = int(raw.execute("PRAGMA application_id").fetchone()[0])
    tables = {str(row[0]) for row in raw.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}
    if application != schema.APPLICATION_ID:
        if schema.FOREIGN_TABLE in tables:
            raise StorageForeign(f"{label} was written by another implementation; it can be imported, never written")
        raise StorageDamaged(f"{label} is a database, but not a session; it was not changed")
    version = int(raw.execute("PRAGMA user_version").fetchone()[0])
    if version > schema.VERSION and not (reading and _readable(raw, version)):
        raise StorageNewer(
            f"{label} has schema version {version}; this program knows version {schema.VERSION}",
            version,
            schema.VERSION,
        )
    if version < 1 or (version <= schema.VERSION and not _readable(raw, version)):
        raise StorageDamaged(f"{label} lacks tables of a session; it was not changed")
    return version


def _readable(raw: sqlite3.Connection, version: int) -> bool:
    """Whether the file has all that its version brought and this program knows of."""
    try:
        for since, tables in schema.COLUMNS.items():
            for table, columns in tables.items() if since <= version else ():
                raw.execute(f"SELECT {columns} FROM {table} LIMIT 0")
    except sqlite3.OperationalError:
        return False
    return True


def check_whole(raw: sqlite3.Connection, path: str, label: str) -> bool:
    """Check the file's structure after an unclean end; False when it was too large to check. Raises StorageDamaged."""
    if os.stat(path).st_size > CHECK_BYTES:
        return False
    until = time.monotonic() + CHECK_SECONDS
    raw.set_progress_handler(lambda: time.monotonic() > until, 20_000)
    try:
        found = raw.execute("PRAGMA quick_check(1)").fetchone()
    except sqlite3.OperationalError as error:
        if error.sqlite_errorcode == sqlite3.SQLITE_INTERRUPT:
            return False
        raise
    finally:
        raw.set_progress_handler(None, 0)
    if found is None or found[0] != "ok":
        raise StorageDamaged(f"{label} is damaged ({' '.join(str(found and found[0]).split())}); it was not changed")
    return True


def explain(error: sqlite3.Error, label: str) -> StorageError:
    """What went wrong while opening or reading, as an error of ours."""
    code = getattr(error, "sqlite_errorcode", 0)
    if code == sqlite3.SQLITE_READONLY_ROLLBACK:
        return StorageError(f"{label} was left in the middle of a write; open it for writing once, then it can be read")
    code &= 0xFF
    if code == sqlite3.SQLITE_NOTADB:
        return StorageDamaged(f"{label} is not a session file; it was not changed")
    if code in (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_FORMAT):
        return StorageDamaged(f"{label} is damaged ({error}); it was not changed")
    if code in (sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_PERM, sqlite3.SQLITE_READONLY, sqlite3.SQLITE_AUTH):
        return StorageError(f"no permission to open {label} ({error})")
    if code in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED):
        return StorageError(f"{label} is being written by another program")
    return StorageError(f"{label} cannot be read ({error})")


def _text(raw: bytes) -> str:
    return raw.decode("utf-8", "surrogatepass")
