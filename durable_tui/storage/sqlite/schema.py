"""The schema of a session file (spec 17.1), its making and its migrations."""

from __future__ import annotations

import os
import secrets
import sqlite3
from collections.abc import Callable
from pathlib import Path

from durable_tui.storage.errors import StorageError

APPLICATION_ID = 0x44545549
VERSION = 2
GATES = 2  # the version that brought gates and the flight recorder
FOREIGN_TABLE = "durable_schema"

# What a file of each version, and of all later ones, must have to be read.
COLUMNS = {
    1: {
        "session": "next_id, next_seq, created_at",
        "owners": "epoch, pid, host, boot_id, process_started_at, opened_at, closed_at",
        "commits": "seq, at, epoch",
        "conversations": "id, owner_conversation_id, owner_task_id, record",
        "entries": "id, conversation_id, kind, head, commit_seq, record",
        "submissions": "id, conversation_id, request_id, status, record",
        "tasks": "id, conversation_id, kind, status, abort_requested, background, record",
        "documents": "id, kind, key, scope_kind, owner_id, created_at, retired_at, record",
        "document_revisions": "document_id, seq, kind, version, content",
    },
    2: {"tasks": "wake_at", "flight": "epoch, document_id, seq, at, kind, content"},
}

_TASKS_WAKE = "CREATE INDEX tasks_wake ON tasks (wake_at) WHERE wake_at IS NOT NULL"
_DOCUMENTS_SCOPE = "CREATE INDEX documents_scope ON documents (scope_kind, owner_id)"
_FLIGHT = (
    "CREATE TABLE flight (epoch INTEGER NOT NULL, document_id INTEGER NOT NULL, seq INTEGER NOT NULL,"
    " at INTEGER NOT NULL, kind TEXT NOT NULL, content TEXT NOT NULL, PRIMARY KEY (epoch, document_id, seq))"
    " WITHOUT ROWID"
)

STATEMENTS = (
    "CREATE TABLE session (id INTEGER PRIMARY KEY CHECK (id = 1), next_id INTEGER NOT NULL, next_seq INTEGER NOT NULL,"
    " created_at INTEGER NOT NULL)",
    "CREATE TABLE owners (epoch INTEGER PRIMARY KEY, pid INTEGER NOT NULL, host TEXT NOT NULL, boot_id TEXT NOT NULL,"
    " process_started_at INTEGER NOT NULL, opened_at INTEGER NOT NULL, closed_at INTEGER)",
    "CREATE TABLE commits (seq INTEGER PRIMARY KEY, at INTEGER NOT NULL, epoch INTEGER NOT NULL)",
    "CREATE TABLE conversations (id INTEGER PRIMARY KEY, owner_conversation_id INTEGER, owner_task_id INTEGER,"
    " record TEXT NOT NULL)",
    "CREATE TABLE entries (id INTEGER PRIMARY KEY, conversation_id INTEGER NOT NULL, kind TEXT NOT NULL, head INTEGER,"
    " commit_seq INTEGER NOT NULL, record TEXT NOT NULL)",
    "CREATE INDEX entries_conversation ON entries (conversation_id, id)",
    "CREATE INDEX entries_head ON entries (conversation_id, id) WHERE head IS NOT NULL",
    "CREATE TABLE submissions (id INTEGER PRIMARY KEY, conversation_id INTEGER NOT NULL, request_id TEXT,"
    " status TEXT NOT NULL, record TEXT NOT NULL)",
    "CREATE INDEX submissions_conversation ON submissions (conversation_id, id)",
    "CREATE UNIQUE INDEX submissions_request ON submissions (conversation_id, request_id) WHERE request_id IS NOT NULL",
    "CREATE INDEX submissions_open ON submissions (id) WHERE status IN ('queued', 'placed')",
    "CREATE TABLE tasks (id INTEGER PRIMARY KEY, conversation_id INTEGER NOT NULL, kind TEXT NOT NULL,"
    " status TEXT NOT NULL, abort_requested INTEGER NOT NULL, background INTEGER NOT NULL, record TEXT NOT NULL,"
    " wake_at INTEGER)",
    "CREATE INDEX tasks_conversation ON tasks (conversation_id, id)",
    "CREATE INDEX tasks_live ON tasks (id) WHERE status <> 'terminal'",
    _TASKS_WAKE,
    "CREATE TABLE documents (id INTEGER PRIMARY KEY, kind TEXT NOT NULL, key TEXT, scope_kind TEXT NOT NULL,"
    " owner_id INTEGER NOT NULL, created_at INTEGER NOT NULL, retired_at INTEGER, record TEXT NOT NULL)",
    "CREATE UNIQUE INDEX documents_live ON documents (scope_kind, owner_id, kind, ifnull(key, x''))"
    " WHERE retired_at IS NULL",
    _DOCUMENTS_SCOPE,
    "CREATE TABLE document_revisions (document_id INTEGER NOT NULL REFERENCES documents (id), seq INTEGER NOT NULL,"
    " kind TEXT NOT NULL, version INTEGER NOT NULL, content TEXT NOT NULL, PRIMARY KEY (document_id, seq))"
    " WITHOUT ROWID",
    _FLIGHT,
)

# The statements that take a file from the keyed version to the next one.
MIGRATIONS: dict[int, tuple[str, ...]] = {
    # Version 1 had no gates, so no task of it has a time to wake.
    1: ("ALTER TABLE tasks ADD COLUMN wake_at INTEGER", _TASKS_WAKE, _DOCUMENTS_SCOPE, _FLIGHT),
}


def create(path: str, at: int, connect: Callable[[str], sqlite3.Connection], *, wal: bool) -> None:
    """Make a new session file: a temporary one beside it, flushed, then renamed into place. Its lock is held."""
    folder, name = os.path.split(path)
    for left in Path(folder).glob(f".{_globbed(name)}.*.new*"):
        left.unlink(missing_ok=True)
    temporary = os.path.join(folder, f".{name}.{secrets.token_hex(4)}.new")
    os.close(os.open(temporary, os.O_CREAT | os.O_EXCL | os.O_RDWR | os.O_CLOEXEC, 0o600))
    try:
        raw = connect(temporary)
        try:
            raw.execute("PRAGMA synchronous=FULL")
            if wal:
                raw.execute("PRAGMA journal_mode=WAL")
            raw.execute("BEGIN IMMEDIATE")
            raw.execute(f"PRAGMA application_id={APPLICATION_ID}")
            raw.execute(f"PRAGMA user_version={VERSION}")
            for statement in STATEMENTS:
                raw.execute(statement)
            raw.execute("INSERT INTO session (id, next_id, next_seq, created_at) VALUES (1, 1, 1, ?)", (at,))
            raw.execute("COMMIT")
        finally:
            raw.close()
        os.rename(temporary, path)
    except BaseException:
        for suffix in ("", "-wal", "-shm", "-journal"):
            Path(temporary + suffix).unlink(missing_ok=True)
        raise
    flush_folder(folder)


def flush_folder(folder: str) -> None:
    """Make a rename in `folder` durable."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def migrate(raw: sqlite3.Connection, label: str) -> None:
    """Bring an older file to VERSION in one transaction; when that fails, the file is as before.

    Raises StorageError, or sqlite3.Error when the disk is at fault.
    """
    raw.execute("BEGIN IMMEDIATE")
    found = int(raw.execute("PRAGMA user_version").fetchone()[0])
    try:
        for version in range(found, VERSION):
            for statement in MIGRATIONS[version]:
                raw.execute(statement)
        raw.execute(f"PRAGMA user_version={VERSION}")
        raw.execute("COMMIT")
    except (sqlite3.Error, KeyError) as error:
        if raw.in_transaction:
            raw.execute("ROLLBACK")
        if getattr(error, "sqlite_errorcode", 0) & 0xFF in (sqlite3.SQLITE_FULL, sqlite3.SQLITE_IOERR):
            raise
        raise StorageError(
            f"{label} could not be brought from version {found} to {VERSION} ({error}); it is as before"
        ) from error


def _globbed(name: str) -> str:
    return "".join(f"[{char}]" if char in "*?[" else char for char in name)
