"""Documents: bases and deltas, versions, incarnations (spec 5)."""

from __future__ import annotations

from typing import Any

import pytest

from durable_tui.delta import apply_ops
from durable_tui.session import Commit, DocumentDefinition, DocumentRefused, Session, TransactionClosed
from durable_tui.storage import MemoryStorage
from durable_tui.storage.records import Batch, Scope

NOTES = DocumentDefinition("test.notes", "conversation", lambda: {"text": "", "list": []}, history="latest")
BASED = DocumentDefinition(
    "test.based", "conversation", lambda: {"n": 0}, history="latest", checkpoint=lambda value, deltas: deltas >= 3
)
SCOPE: Scope = {"kind": "conversation", "conversationId": 1}


async def opened() -> tuple[Session, Any]:
    storage = MemoryStorage(record=True)
    return await Session.open(storage), storage


def revisions(batch: Batch) -> list[tuple[str, Any]]:
    return [(revision.kind, revision.content) for revision in batch.revisions]


async def test_creation_writes_a_base_even_when_nothing_changed() -> None:
    session, storage = await opened()
    async with session.commit() as tx:
        await tx.document(NOTES, 1)
    assert revisions(storage.log[-1]) == [("base", {"text": "", "list": []})]


async def test_later_writes_are_deltas_with_only_what_changed() -> None:
    session, storage = await opened()
    async with session.commit() as tx:
        (await tx.document(NOTES, 1)).value["text"] = "ab"
    async with session.commit() as tx:
        (await tx.document(NOTES, 1)).value["text"] += "cd"
    assert revisions(storage.log[-1]) == [("delta", [["a", ["text"], "cd"]])]
    assert await session.value(NOTES, 1) == {"text": "abcd", "list": []}


async def test_an_untouched_document_is_not_written() -> None:
    session, storage = await opened()
    async with session.commit() as tx:
        await tx.document(NOTES, 1)
    count = len(storage.log)
    async with session.commit() as tx:
        assert (await tx.document(NOTES, 1)).value["text"] == ""
    assert len(storage.log) == count


async def test_the_checkpoint_rule_asks_for_bases() -> None:
    session, storage = await opened()
    for number in range(8):
        async with session.commit() as tx:
            (await tx.document(BASED, 1)).value["n"] = number + 1
    assert [batch.revisions[0].kind for batch in storage.log] == [
        "base", "delta", "delta", "base", "delta", "delta", "base", "delta",
    ]  # fmt: skip


async def test_a_raising_checkpoint_rule_rolls_the_commit_back() -> None:
    def broken(value: Any, deltas: int) -> bool:
        raise RuntimeError("rule")

    bad = DocumentDefinition("test.bad", "conversation", lambda: {"n": 0}, checkpoint=broken)
    session, storage = await opened()
    async with session.commit() as tx:
        await tx.document(bad, 1)
    with pytest.raises(RuntimeError, match="rule"):
        async with session.commit() as tx:
            tx.append(1, "test.entry")
            (await tx.document(bad, 1)).value["n"] = 1
    assert await storage.entries(1) == [] and await session.value(bad, 1) == {"n": 0}


async def test_base_plus_ops_gives_the_value_also_after_reopening() -> None:
    session, storage = await opened()
    for text in ("a", "ab", "b", "bcd", ""):
        async with session.commit() as tx:
            draft = await tx.document(NOTES, 1)
            draft.value["text"] = text
            draft.value["list"].append({"text": text})
    again = await Session.open(storage.crash())
    assert await again.value(NOTES, 1) == await session.value(NOTES, 1)
    stored = await again.storage.document("test.notes", SCOPE)
    assert stored is not None
    value = stored.base
    for ops in stored.deltas:
        value = apply_ops(value, ops)
    assert value == await session.value(NOTES, 1)


async def test_one_draft_per_address_also_when_acquired_twice_at_once() -> None:
    import asyncio

    session, storage = await opened()
    async with session.commit() as tx:
        await tx.document(NOTES, 1)
    again = await Session.open(storage.crash())
    async with again.commit() as tx:
        first, second = await asyncio.gather(tx.document(NOTES, 1), tx.document(NOTES, 1))
        assert first is second
        assert first is await tx.document(NOTES, 1)


async def test_revisions_share_what_did_not_change_and_cannot_be_changed() -> None:
    session, _ = await opened()
    async with session.commit() as tx:
        (await tx.document(NOTES, 1)).value["list"].append({"deep": [1, 2, 3]})
    before = await session.value(NOTES, 1)
    async with session.commit() as tx:
        (await tx.document(NOTES, 1)).value["text"] = "x"
    after = await session.value(NOTES, 1)
    assert after["list"] is before["list"]
    with pytest.raises(TypeError):
        after["list"].append(1)


async def test_retire_and_create_is_a_new_incarnation() -> None:
    session, storage = await opened()
    seen: list[Commit] = []
    session.observe(seen.append)
    async with session.commit() as tx:
        (await tx.document(NOTES, 1)).value["text"] = "old"
    first = seen[-1].documents[0].record["id"]
    async with session.commit() as tx:
        draft = await tx.document(NOTES, 1)
        draft.retire()
        with pytest.raises(TransactionClosed):
            _ = draft.value
        with pytest.raises(TransactionClosed):
            await tx.document(NOTES, 1)
    assert seen[-1].documents[0].ops == (("r", None),) and seen[-1].documents[0].retired
    assert await storage.document("test.notes", SCOPE) is None
    async with session.commit() as tx:
        (await tx.document(NOTES, 1)).value["text"] = "new"
    assert seen[-1].documents[0].record["id"] != first
    assert (await session.value(NOTES, 1))["text"] == "new"


async def test_a_newer_stored_version_is_refused() -> None:
    session, _ = await opened()
    newer = DocumentDefinition("test.notes", "conversation", dict, version=2, history="latest")
    async with session.commit() as tx:
        await tx.document(newer, 1)
    with pytest.raises(DocumentRefused, match="version 2"):
        async with session.commit() as tx:
            await tx.document(NOTES, 1)
    with pytest.raises(DocumentRefused, match="version 1"):
        await session.value(NOTES, 1)


async def test_migration_is_lazy_and_writes_a_base_in_the_first_commit_that_acquires_it() -> None:
    session, storage = await opened()
    async with session.commit() as tx:
        (await tx.document(NOTES, 1)).value["text"] = "a"
    newer = DocumentDefinition(
        "test.notes",
        "conversation",
        dict,
        version=2,
        history="latest",
        migrate=lambda value, version: {"words": [value["text"]], "from": version},
    )
    assert await session.value(newer, 1) == {"words": ["a"], "from": 1}
    async with session.commit() as tx:
        assert (await tx.document(newer, 1)).value["words"] == ["a"]
    assert revisions(storage.log[-1]) == [("base", {"words": ["a"], "from": 1})]
    assert storage.log[-1].revisions[0].version == 2


def test_history_and_fork_exist_on_conversation_documents_only() -> None:
    with pytest.raises(ValueError, match="conversation documents only"):
        DocumentDefinition("test.x", "session", dict, history="latest")
    with pytest.raises(ValueError, match="rewindable"):
        DocumentDefinition("test.x", "conversation", dict, fork="asOf")
    with pytest.raises(ValueError, match="owner"):
        NOTES.address()


async def test_task_documents_retire_with_their_task() -> None:
    scratch = DocumentDefinition("test.scratch", "task", lambda: {"n": 0})
    session, storage = await opened()
    async with session.commit() as tx:
        (await tx.document(scratch, 7)).value["n"] = 1
        (await tx.document(scratch, 8)).value["n"] = 2
    async with session.commit() as tx:
        tx.append(1, "test.entry")
        await tx.retire_task_documents(7)
    assert await storage.document("test.scratch", {"kind": "task", "taskId": 7}) is None
    assert await storage.document("test.scratch", {"kind": "task", "taskId": 8}) is not None


async def test_the_seq_a_body_sees_is_the_seq_it_is_stored_under() -> None:
    session, storage = await opened()
    async with session.commit() as tx:
        seq = tx.seq
        tx.append(1, "test.entry")
    assert session.seq == seq == (await storage.commits())[-1].seq
