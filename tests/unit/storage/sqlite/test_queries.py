"""Reads use their index (spec 4)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from durable_tui.storage import SqliteStorage
from durable_tui.storage.sqlite import queries
from tests.tools.sqlite_files import raw_of


async def test_spec_4_live_tasks_and_open_submissions_are_found_by_index(tmp_path: Path) -> None:
    storage = await SqliteStorage.open(tmp_path / "a.sqlite")

    async def plan(sql: str, *values: Any) -> str:
        rows = await raw_of(storage, lambda raw: raw.execute(f"EXPLAIN QUERY PLAN {sql}", values).fetchall())
        return "; ".join(row[3] for row in rows)

    assert await plan(queries.LIVE_TASKS) == "SCAN tasks USING INDEX tasks_live"
    assert "USING INDEX submissions_open" in await plan(queries.OPEN_SUBMISSIONS, "queued", 0, 5)
    assert "USING INDEX documents_live" in await plan(queries.DOCUMENT, 9, "session", 0, "k", b"")
    assert "USING INDEX documents_live" in await plan(queries.DOCUMENTS, 9, "session", 0)
    assert "USING COVERING INDEX tasks_wake" in await plan(queries.LEAST_WAKE)
    assert "USING INDEX documents_scope" in await plan(queries.DOCUMENTS_AS_OF, 9, "session", 0)
    assert "SCAN r" not in await plan(queries.REVISIONS, 2, 1)
    statements: list[str] = []
    await raw_of(storage, lambda raw: raw.set_trace_callback(statements.append))
    await storage.entries(1, after=5, before=9, reverse=True)
    await storage.newest_head(1, upto=3)
    await storage.submission_by_request(1, "r")
    await storage.tasks(1)
    await storage.submissions(1)
    await raw_of(storage, lambda raw: raw.set_trace_callback(None))
    for statement in statements:
        found = await plan(statement)
        assert "SEARCH" in found and "SCAN" not in found and "TEMP B-TREE" not in found, (statement, found)
    await storage.close()
