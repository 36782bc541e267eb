"""A commit as one job on the connection's thread, and the verdict when it fails (spec 3.6, 4, 4.1)."""

from __future__ import annotations

import sqlite3
import sys
from collections.abc import Iterator
from typing import Literal, TypeAlias

from durable_tui.delta import clean_text, dumps
from durable_tui.storage.addresses import retired_first, wake_at
from durable_tui.storage.errors import Fenced, StorageDamaged, StorageError, StorageRejected, StorageUncertain
from durable_tui.storage.protocol import Durability
from durable_tui.storage.records import Batch, ConversationRecord, OwnerRow, scope_owner
from durable_tui.storage.sqlite.disk import is_full, no_space

SqlValue: TypeAlias = int | str | None
Step: TypeAlias = tuple[str, list[tuple[SqlValue, ...]]]

_COMMIT = "INSERT INTO commits (seq, at, epoch) SELECT ?, ?, ? WHERE (SELECT max(epoch) FROM owners) = ?"
_SESSION = "UPDATE session SET next_id = max(next_id, ?), next_seq = ? WHERE next_seq <= ?"
_CONVERSATION = (
    "INSERT INTO conversations (id, owner_conversation_id, owner_task_id, record) VALUES (?, ?, ?, ?)"
    " ON CONFLICT (id) DO UPDATE SET owner_conversation_id = excluded.owner_conversation_id,"
    " owner_task_id = excluded.owner_task_id, record = excluded.record"
)
_ENTRY = "INSERT INTO entries (id, conversation_id, kind, head, commit_seq, record) VALUES (?, ?, ?, ?, ?, ?)"
_SUBMISSION = (
    "INSERT INTO submissions (id, conversation_id, request_id, status, record) VALUES (?, ?, ?, ?, ?)"
    " ON CONFLICT (id) DO UPDATE SET conversation_id = excluded.conversation_id, request_id = excluded.request_id,"
    " status = excluded.status, record = excluded.record"
)
_TASK = (
    "INSERT INTO tasks (id, conversation_id, kind, status, abort_requested, background, record, wake_at)"
    " VALUES (?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT (id) DO UPDATE SET conversation_id = excluded.conversation_id,"
    " kind = excluded.kind, status = excluded.status, abort_requested = excluded.abort_requested,"
    " background = excluded.background, record = excluded.record, wake_at = excluded.wake_at"
)
_DOCUMENT = (
    "INSERT INTO documents (id, kind, key, scope_kind, owner_id, created_at, retired_at, record)"
    " VALUES (?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT (id) DO UPDATE SET kind = excluded.kind, key = excluded.key,"
    " scope_kind = excluded.scope_kind, owner_id = excluded.owner_id, created_at = excluded.created_at,"
    " retired_at = excluded.retired_at, record = excluded.record"
)
_REVISION = "INSERT INTO document_revisions (document_id, seq, kind, version, content) VALUES (?, ?, ?, ?, ?)"
_DROP_BEFORE_THIS = "DELETE FROM document_revisions WHERE document_id = ?1 AND seq < ?2"
_DROP_BEFORE_PREVIOUS = (
    "DELETE FROM document_revisions WHERE document_id = ?1 AND seq < (SELECT max(seq) FROM document_revisions"
    " WHERE document_id = ?1 AND kind = 'base' AND seq < ?2)"
)
_FLIGHT = "INSERT INTO flight (epoch, document_id, seq, at, kind, content) VALUES (?, ?, ?, ?, ?, ?)"
_KEEP_FLIGHTS = "DELETE FROM flight WHERE epoch NOT IN (SELECT DISTINCT epoch FROM flight ORDER BY epoch DESC LIMIT ?)"
_BEGIN_EPOCH = "INSERT INTO owners (epoch, pid, host, boot_id, process_started_at, opened_at) VALUES (?, ?, ?, ?, ?, ?)"
_END_EPOCH = "UPDATE owners SET closed_at = ? WHERE epoch = ? AND epoch = (SELECT max(epoch) FROM owners)"

# A failed COMMIT may still be whole in the log when its flush or the log's index failed; these cannot have been.
_CERTAIN = {
    sqlite3.SQLITE_FULL,
    sqlite3.SQLITE_BUSY,
    sqlite3.SQLITE_BUSY_SNAPSHOT,
    sqlite3.SQLITE_CONSTRAINT_FOREIGNKEY,
    sqlite3.SQLITE_IOERR_WRITE,
    sqlite3.SQLITE_READONLY,
}


def steps(batch: Batch) -> list[Step]:
    """The batch as statements and their rows, encoded once. Raises StorageRejected for what is not JSON."""
    try:
        return [step for step in _steps(batch) if step[1]]
    except ValueError as error:
        raise StorageRejected(f"a record is not JSON ({error}); nothing was stored") from error


def _steps(batch: Batch) -> list[Step]:
    seq = batch.seq
    return [
        (_CONVERSATION, [(r["id"], *_owner(r), dumps(r)) for r in batch.conversations]),
        (
            _ENTRY,
            [
                (r["id"], r["conversationId"], clean_text(r["kind"]), r.get("head"), seq, dumps(r))
                for r in batch.entries
            ],
        ),
        (
            _SUBMISSION,
            [
                (r["id"], r["conversationId"], _cleaned(r.get("requestId")), r["status"], dumps(r))
                for r in batch.submissions
            ],
        ),
        (
            _TASK,
            [
                (
                    r["id"],
                    r["conversationId"],
                    clean_text(r["kind"]),
                    r["state"]["status"],
                    int(r["abortRequested"]),
                    int(r["background"]),
                    dumps(r),
                    wake_at(r),
                )
                for r in batch.tasks
            ],
        ),
        (
            _DOCUMENT,
            [
                (
                    r["id"],
                    clean_text(r["kind"]),
                    _cleaned(r.get("key")),
                    r["scope"]["kind"],
                    scope_owner(r["scope"]),
                    r["createdAt"],
                    r.get("retiredAt"),
                    dumps(r),
                )
                for r in retired_first(batch.documents)
            ],
        ),
        (_REVISION, [(r.document_id, seq, r.kind, r.version, dumps(r.content)) for r in batch.revisions]),
        *_further_steps(batch),
    ]


def _further_steps(batch: Batch) -> Iterator[Step]:
    """Yield what most batches do not need: revisions and recordings that go, and recordings that come."""
    for revision in batch.revisions:
        if revision.drop_before:
            statement = _DROP_BEFORE_THIS if revision.drop_before == "this" else _DROP_BEFORE_PREVIOUS
            yield statement, [(revision.document_id, batch.seq)]
    if batch.flight:
        yield _FLIGHT, [(r.epoch, r.document_id, r.seq, r.at, r.kind, dumps(r.content)) for r in batch.flight]
    if batch.keep_flights is not None:
        yield _KEEP_FLIGHTS, [(batch.keep_flights,)]


def _owner(record: ConversationRecord) -> tuple[int | None, int | None]:
    owner = record.get("owner")
    return (owner["conversationId"], owner["taskId"]) if owner else (None, None)


def _cleaned(name: str | None) -> str | None:
    return None if name is None else clean_text(name)


class Writer:
    """The writing side of one opening; lives on the connection's thread."""

    def __init__(self, path: str, label: str, durability: Durability) -> None:
        self.path = path
        self.label = label
        self.durability = durability
        self.epoch = 0
        self._full: bool | None = None

    def synchronous(self, raw: sqlite3.Connection, flush: bool) -> None:
        """Choose whether the next COMMIT waits for the disk; outside a transaction, only on change (spec 4.3)."""
        full = self.durability == "power" or (flush and self.durability == "intents")
        if full is not self._full:
            self._full = None
            raw.execute("PRAGMA synchronous=FULL" if full else "PRAGMA synchronous=NORMAL")
            if sys.platform == "darwin":
                raw.execute("PRAGMA fullfsync=ON" if full else "PRAGMA fullfsync=OFF")
            self._full = full

    def always_flush(self, raw: sqlite3.Connection) -> None:
        """The next COMMIT waits for the disk whatever the durability: openings and closings."""
        self._full = None
        raw.execute("PRAGMA synchronous=FULL")
        if sys.platform == "darwin":
            raw.execute("PRAGMA fullfsync=ON")

    def commit(self, raw: sqlite3.Connection, batch: Batch, written: list[Step], next_id: int) -> None:
        """The whole commit. Raises StorageRejected, StorageUncertain or Fenced."""
        seq = batch.seq
        committing = False
        try:
            self.synchronous(raw, batch.flush)
            raw.execute("BEGIN IMMEDIATE")
            if raw.execute(_COMMIT, (seq, batch.at, self.epoch, self.epoch)).rowcount == 0:
                raise Fenced(f"another process has taken over {self.label}; this one can no longer write to it")
            if raw.execute(_SESSION, (next_id, seq + 1, seq)).rowcount == 0:
                raise StorageRejected(f"commit {seq} does not follow the newest one; nothing was stored")
            for statement, rows in written:
                if len(rows) == 1:
                    raw.execute(statement, rows[0])
                else:
                    raw.executemany(statement, rows)
            committing = True
            raw.execute("COMMIT")
        except Exception as error:  # noqa: BLE001 - whatever it is, no transaction may stay open
            verdict = self.verdict(raw, error, committing, "SELECT 1 FROM commits WHERE seq = ?", seq)
            raise verdict from (None if verdict is error else error)

    def verdict(
        self, raw: sqlite3.Connection, error: Exception, committing: bool, probe: str, key: int
    ) -> StorageError:
        """What a failed transaction means: rejected only when it provably left nothing (spec 3.6)."""
        absent = False
        try:
            if raw.in_transaction:
                raw.execute("ROLLBACK")
            # Before COMMIT a closed transaction is proof enough; after it, the commit's own row is asked for.
            absent = not raw.in_transaction and (not committing or raw.execute(probe, (key,)).fetchone() is None)
        except sqlite3.Error:
            pass  # not absent: uncertain
        if isinstance(error, StorageError) and absent:
            return error
        code = getattr(error, "sqlite_errorcode", 0)
        if not absent or (committing and code not in _CERTAIN):
            return StorageUncertain(f"whether the newest change reached {self.label} is unknown ({error})")
        if is_full(error, self.path):
            return no_space(self.path, "nothing was stored")
        if code & 0xFF in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED):
            return StorageRejected(f"{self.label} is being written by another program; nothing was stored")
        if code & 0xFF in (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB):
            return StorageRejected(f"{self.label} is damaged ({error}); nothing was stored")
        return StorageRejected(f"{self.label} refused the change ({error}); nothing was stored")

    def begin_epoch(self, raw: sqlite3.Connection, owner: OwnerRow) -> None:
        """Add the opening's row, flushed. Raises as `commit`."""
        values = (owner.epoch, owner.pid, owner.host, owner.boot_id, owner.process_started_at, owner.opened_at)
        self._own(raw, _BEGIN_EPOCH, values, "SELECT 1 FROM owners WHERE epoch = ?", owner.epoch)
        self.epoch = owner.epoch

    def end_epoch(self, raw: sqlite3.Connection, at: int) -> None:
        """Write the close mark, flushed, and empty the log. A newer opening's row is left alone. Raises as `commit`."""
        probe = "SELECT 1 FROM owners WHERE epoch = ? AND closed_at IS NOT NULL"
        self._own(raw, _END_EPOCH, (at, self.epoch), probe, self.epoch)
        self.checkpoint(raw, "TRUNCATE")

    def _own(
        self, raw: sqlite3.Connection, statement: str, values: tuple[SqlValue, ...], probe: str, epoch: int
    ) -> None:
        """One statement on `owners` as a flushed transaction of its own; `probe` finds what it leaves."""
        self.always_flush(raw)
        committing = False
        try:
            raw.execute("BEGIN IMMEDIATE")
            raw.execute(statement, values)
            committing = True
            raw.execute("COMMIT")
        except sqlite3.Error as error:
            raise self.verdict(raw, error, committing, probe, epoch) from error

    def checkpoint(self, raw: sqlite3.Connection, mode: Literal["PASSIVE", "TRUNCATE"]) -> None:
        """Move the log into the file as far as readers allow; what cannot be moved stays in the log."""
        try:
            raw.execute(f"PRAGMA wal_checkpoint({mode})").fetchall()
        except sqlite3.OperationalError:
            pass  # full or busy: every commit is in the log and stays there
        except sqlite3.DatabaseError as error:
            raise StorageDamaged(f"{self.label} is damaged ({error})") from error
