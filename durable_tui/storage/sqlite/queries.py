"""Reads as jobs: each is one SELECT, fetched whole, so that no cursor stays open (spec 4)."""

from __future__ import annotations

import sqlite3
from dataclasses import dataclass
from typing import Generic, TypeAlias, TypeVar

from durable_tui.delta import clean_text, loads
from durable_tui.storage.addresses import unretired
from durable_tui.storage.errors import StorageDamaged
from durable_tui.storage.records import (
    CommitRow,
    ConversationRecord,
    EntryRecord,
    FlightRow,
    OwnerRow,
    Record,
    Scope,
    StoredDocument,
    StoredEntry,
    StoredRevision,
    SubmissionRecord,
    TaskRecord,
    scope_owner,
)
from durable_tui.storage.sqlite import schema

OPEN_STATUSES = ("queued", "placed")
_LAST = 1 << 62
R = TypeVar("R", bound=Record)


@dataclass(slots=True, frozen=True)
class Table(Generic[R]):
    """A table that holds records of the shape `R`."""

    name: str


CONVERSATIONS: Table[ConversationRecord] = Table("conversations")
SUBMISSIONS: Table[SubmissionRecord] = Table("submissions")
TASKS: Table[TaskRecord] = Table("tasks")

FoldRow: TypeAlias = tuple[int, str, str | None, int, str]  # document, its record, a revision's kind, version, content

LEAST_WAKE = "SELECT min(wake_at) FROM tasks INDEXED BY tasks_wake WHERE wake_at IS NOT NULL"
LIVE_TASKS = "SELECT record FROM tasks INDEXED BY tasks_live WHERE status <> 'terminal' ORDER BY id"
OPEN_SUBMISSIONS = (
    "SELECT record FROM submissions INDEXED BY submissions_open"
    " WHERE status = ?1 AND status IN ('queued', 'placed') AND id > ?2 ORDER BY id LIMIT ?3"
)
_FOLD = (
    "SELECT d.id, d.record, r.kind, r.version, r.content FROM documents AS d LEFT JOIN document_revisions AS r"
    " ON r.document_id = d.id AND r.seq <= ?1 AND r.seq >= (SELECT max(b.seq) FROM document_revisions AS b"
    " WHERE b.document_id = d.id AND b.kind = 'base' AND b.seq <= ?1)"
)
_FOLD_LIVE = _FOLD.replace("documents AS d", "documents AS d INDEXED BY documents_live")
DOCUMENT = (
    _FOLD_LIVE + " WHERE d.scope_kind = ?2 AND d.owner_id = ?3 AND d.kind = ?4 AND ifnull(d.key, x'') = ?5"
    " AND d.retired_at IS NULL ORDER BY r.seq"
)
DOCUMENTS = _FOLD_LIVE + " WHERE d.scope_kind = ?2 AND d.owner_id = ?3 AND d.retired_at IS NULL ORDER BY d.id, r.seq"
DOCUMENT_AS_OF = (
    _FOLD + " WHERE d.id = ?2 AND d.created_at <= ?1 AND (d.retired_at IS NULL OR d.retired_at > ?1) ORDER BY r.seq"
)
DOCUMENTS_AS_OF = (
    _FOLD + " WHERE d.scope_kind = ?2 AND d.owner_id = ?3 AND d.created_at <= ?1"
    " AND (d.retired_at IS NULL OR d.retired_at > ?1) ORDER BY d.id, r.seq"
)
REVISIONS = (
    "SELECT r.seq, c.at, r.kind, r.version, r.content FROM document_revisions AS r JOIN commits AS c ON c.seq = r.seq"
    " WHERE r.document_id = ?1 AND r.seq >= (SELECT min(seq) FROM (SELECT seq FROM document_revisions"
    " WHERE document_id = ?1 AND kind = 'base' ORDER BY seq DESC LIMIT ?2)) ORDER BY r.seq"
)


def one(raw: sqlite3.Connection, table: Table[R], record_id: int) -> R | None:
    """Return the record of `table` with that id, decoded, or None."""
    row = raw.execute(f"SELECT record FROM {table.name} WHERE id = ?", (record_id,)).fetchone()
    return None if row is None else loads(row[0])


def page(raw: sqlite3.Connection, table: Table[R], conversation_id: int | None, after: int, limit: int) -> list[R]:
    """Records of `table` with id > after, in id order; of one conversation where one is given."""
    where = "" if conversation_id is None else " AND conversation_id = ?3"
    values: tuple[int, ...] = (after, max(0, limit))
    if conversation_id is not None:
        values = (*values, conversation_id)
    return _records(raw, table, f"SELECT record FROM {table.name} WHERE id > ?1{where} ORDER BY id LIMIT ?2", values)


def entry(raw: sqlite3.Connection, entry_id: int) -> StoredEntry | None:
    row = raw.execute("SELECT record, commit_seq FROM entries WHERE id = ?", (entry_id,)).fetchone()
    return None if row is None else StoredEntry(loads(row[0]), row[1])


def entries(
    raw: sqlite3.Connection, conversation_id: int, after: int, before: int | None, limit: int, reverse: bool
) -> list[StoredEntry]:
    rows = raw.execute(
        "SELECT record, commit_seq FROM entries WHERE conversation_id = ? AND id > ? AND id < ?"
        f" ORDER BY id {'DESC' if reverse else 'ASC'} LIMIT ?",
        (conversation_id, after, _LAST if before is None else before, max(0, limit)),
    ).fetchall()
    return [StoredEntry(loads(text), seq) for text, seq in rows]


def newest_head(raw: sqlite3.Connection, conversation_id: int, upto: int | None) -> EntryRecord | None:
    row = raw.execute(
        "SELECT record FROM entries INDEXED BY entries_head"
        " WHERE conversation_id = ? AND head IS NOT NULL AND id <= ? ORDER BY id DESC LIMIT 1",
        (conversation_id, _LAST if upto is None else upto),
    ).fetchone()
    return None if row is None else loads(row[0])


def submission_by_request(raw: sqlite3.Connection, conversation_id: int, request_id: str) -> SubmissionRecord | None:
    row = raw.execute(
        "SELECT record FROM submissions WHERE conversation_id = ? AND request_id = ?",
        (conversation_id, clean_text(request_id)),
    ).fetchone()
    return None if row is None else loads(row[0])


def submissions(
    raw: sqlite3.Connection, conversation_id: int | None, status: str | None, after: int, limit: int
) -> list[SubmissionRecord]:
    if status is None:
        return page(raw, SUBMISSIONS, conversation_id, after, limit)
    if status in OPEN_STATUSES:
        sql, values = OPEN_SUBMISSIONS, (status, after, max(0, limit))
        if conversation_id is None:
            return _records(raw, SUBMISSIONS, sql, values)
        return _records(
            raw, SUBMISSIONS, sql.replace(" ORDER", " AND conversation_id = ?4 ORDER"), (*values, conversation_id)
        )
    where = "" if conversation_id is None else " AND conversation_id = ?4"
    base: tuple[int | str, ...] = (status, after, max(0, limit))
    return _records(
        raw,
        SUBMISSIONS,
        f"SELECT record FROM submissions WHERE status = ?1 AND id > ?2{where} ORDER BY id LIMIT ?3",
        base if conversation_id is None else (*base, conversation_id),
    )


def live_tasks(raw: sqlite3.Connection) -> list[TaskRecord]:
    return _records(raw, TASKS, LIVE_TASKS, ())


def least_wake(raw: sqlite3.Connection) -> int | None:
    if _version(raw) < schema.GATES:
        return None
    found: int | None = raw.execute(LEAST_WAKE).fetchone()[0]
    return found


def document(raw: sqlite3.Connection, kind: str, scope: Scope, key: str | None) -> StoredDocument | None:
    name: str | bytes = b"" if key is None else clean_text(key)
    found = _fold(raw, DOCUMENT, (_LAST, scope["kind"], scope_owner(scope), clean_text(kind), name))
    return found[0] if found else None


def documents(raw: sqlite3.Connection, scope: Scope) -> list[StoredDocument]:
    return _fold(raw, DOCUMENTS, (_LAST, scope["kind"], scope_owner(scope)))


def document_as_of(raw: sqlite3.Connection, document_id: int, seq: int) -> StoredDocument | None:
    found = _as_of(_groups(raw, DOCUMENT_AS_OF, (seq, document_id)))
    return found[0] if found else None


def documents_as_of(raw: sqlite3.Connection, scope: Scope, seq: int) -> list[StoredDocument]:
    return _as_of(_groups(raw, DOCUMENTS_AS_OF, (seq, scope["kind"], scope_owner(scope))))


def revisions(raw: sqlite3.Connection, document_id: int, bases: int) -> list[StoredRevision]:
    rows = raw.execute(REVISIONS, (document_id, max(0, bases))).fetchall()
    return [StoredRevision(seq, at, kind, version, loads(text)) for seq, at, kind, version, text in rows]


def flight(raw: sqlite3.Connection, epoch: int) -> list[FlightRow]:
    if _version(raw) < schema.GATES:
        return []
    rows = raw.execute(
        "SELECT document_id, seq, at, kind, content FROM flight WHERE epoch = ? ORDER BY document_id, seq", (epoch,)
    ).fetchall()
    return [FlightRow(epoch, document_id, seq, at, kind, loads(text)) for document_id, seq, at, kind, text in rows]


def _version(raw: sqlite3.Connection) -> int:
    """The file's schema version now: its owner may bring it to a newer one while others read it."""
    return int(raw.execute("PRAGMA user_version").fetchone()[0])


def _fold(raw: sqlite3.Connection, sql: str, values: tuple[int | str | bytes, ...]) -> list[StoredDocument]:
    return [_folded(rows) for rows in _groups(raw, sql, values)]


def _groups(raw: sqlite3.Connection, sql: str, values: tuple[int | str | bytes, ...]) -> list[list[FoldRow]]:
    groups: dict[int, list[FoldRow]] = {}
    for row in raw.execute(sql, values).fetchall():
        groups.setdefault(row[0], []).append(row)
    return list(groups.values())


def _as_of(groups: list[list[FoldRow]]) -> list[StoredDocument]:
    found = [_folded(rows) for rows in groups if rows[0][2] is not None]
    return [StoredDocument(unretired(held.record), held.version, held.base, held.deltas) for held in found]


def _folded(rows: list[FoldRow]) -> StoredDocument:
    if rows[0][2] is None:
        raise StorageDamaged(f"document {rows[0][0]} has no base; the session is damaged")
    deltas = tuple(loads(row[4]) for row in rows[1:])
    return StoredDocument(loads(rows[0][1]), rows[-1][3], loads(rows[0][4]), deltas)


def commits(raw: sqlite3.Connection, after: int, before: int | None, limit: int, reverse: bool) -> list[CommitRow]:
    rows = raw.execute(
        "SELECT seq, at, epoch FROM commits WHERE seq > ? AND seq < ?"
        f" ORDER BY seq {'DESC' if reverse else 'ASC'} LIMIT ?",
        (after, _LAST if before is None else before, max(0, limit)),
    ).fetchall()
    return [CommitRow(*row) for row in rows]


def owners(raw: sqlite3.Connection, limit: int) -> list[OwnerRow]:
    rows = raw.execute(
        "SELECT epoch, pid, host, boot_id, process_started_at, opened_at, closed_at FROM owners"
        " ORDER BY epoch DESC LIMIT ?",
        (max(0, limit),),
    ).fetchall()
    return [OwnerRow(*row) for row in reversed(rows)]


def newest_seq(raw: sqlite3.Connection) -> int:
    return int(raw.execute("SELECT ifnull(max(seq), 0) FROM commits").fetchone()[0])


def _records(raw: sqlite3.Connection, table: Table[R], sql: str, values: tuple[int | str, ...]) -> list[R]:
    return [loads(row[0]) for row in raw.execute(sql, values).fetchall()]
