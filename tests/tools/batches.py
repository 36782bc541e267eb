"""Short ways to write records and batches in tests of stores."""

from __future__ import annotations

from typing import Any, Literal

from durable_tui.storage.records import Batch, Revision, Scope

SESSION: Scope = {"kind": "session"}


def in_conversation(conversation_id: int) -> Scope:
    return {"kind": "conversation", "conversationId": conversation_id}


def of_task(task_id: int) -> Scope:
    return {"kind": "task", "taskId": task_id}


def entry(entry_id: int, conversation_id: int = 1, kind: str = "pi.user", **more: Any) -> Any:
    return {"id": entry_id, "conversationId": conversation_id, "kind": kind, **more}


def task(task_id: int, conversation_id: int = 1, status: str = "pending", *, gate: Any = None, **more: Any) -> Any:
    state: dict[str, Any] = {"status": status, **({"gate": gate} if gate else {})}
    if status in ("terminal", "completing"):
        state["outcome"] = {"status": "completed", "result": {}}
    else:
        state["checkpoint"] = {"phase": "call"}
    base = {"id": task_id, "conversationId": conversation_id, "kind": "pi.tool", "version": 1, "input": {}}
    return {**base, "background": False, "abortRequested": False, "state": state, **more}


def submission(submission_id: int, conversation_id: int = 1, status: str = "queued", **more: Any) -> Any:
    return {"id": submission_id, "conversationId": conversation_id, "type": "input", "status": status, **more}


def document(document_id: int, kind: str, scope: Scope, created: int, **more: Any) -> Any:
    return {"id": document_id, "kind": kind, "scope": scope, "createdAt": created, **more}


def base(
    document_id: int, value: Any, *, version: int = 1, drop: Literal["this", "previous"] | None = None
) -> Revision:
    return Revision(document_id, "base", version, value, drop_before=drop)


def delta(document_id: int, *ops: Any, version: int = 1) -> Revision:
    return Revision(document_id, "delta", version, list(ops))


def batch(storage: Any, *, at: int | None = None, flush: bool = True, **records: Any) -> Batch:
    """A batch with the store's next seq; `at` is ten times the seq unless given."""
    seq = storage.mint_seq()
    return Batch(seq, seq * 10 if at is None else at, flush=flush, **records)


async def put(storage: Any, **records: Any) -> int:
    """Commit records and return the seq."""
    made = batch(storage, **records)
    await storage.commit(made)
    return made.seq


async def begin(storage: Any) -> int:
    """Make the root conversation; returns the seq."""
    return await put(storage, conversations=[{"id": storage.mint_id()}])
