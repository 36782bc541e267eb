"""The commit line: order, refusal, poison (spec 3)."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from durable_tui.delta import JsonError
from durable_tui.session import (
    Commit,
    DocumentDefinition,
    NestedCommit,
    ReadAfterWrite,
    Session,
    SessionClosed,
    SessionPoisoned,
    TransactionClosed,
)
from durable_tui.storage import MemoryStorage
from durable_tui.storage.errors import Fenced, StorageRejected, StorageUncertain
from tests.tools.faults import Fault, FaultyStorage

NOTES = DocumentDefinition("test.notes", "session", lambda: {"text": ""})


async def opened(plan: Any = None) -> tuple[Session, Any]:
    storage: Any = MemoryStorage()
    if plan is not None:
        storage = FaultyStorage(storage, plan)
    return await Session.open(storage), storage


async def write(session: Session, text: str = "x") -> None:
    async with session.commit() as tx:
        tx.append(1, "test.entry", data={"text": text})


async def test_commits_run_one_at_a_time_in_the_order_they_were_asked_for() -> None:
    session, _ = await opened()
    inside = 0
    order: list[int] = []

    async def one(number: int) -> None:
        nonlocal inside
        async with session.commit() as tx:
            inside += 1
            assert inside == 1
            await asyncio.sleep(0)
            order.append(number)
            tx.append(1, "test.entry", data=number)
            inside -= 1

    await asyncio.gather(*(one(number) for number in range(20)))
    assert order == list(range(20))
    stored = await session.storage.entries(1)
    assert [entry.record["data"] for entry in stored] == order


async def test_a_commit_inside_a_commit_raises_at_once() -> None:
    session, _ = await opened()
    async with session.commit() as tx:
        with pytest.raises(NestedCommit):
            await write(session)

        async def child() -> None:
            await write(session)

        with pytest.raises(NestedCommit):
            await asyncio.create_task(child())
        tx.append(1, "test.entry")
    await write(session)
    assert len(await session.storage.entries(1)) == 2


async def test_a_task_started_in_a_body_may_commit_after_it_ended() -> None:
    session, _ = await opened()
    go = asyncio.Event()

    async def later() -> None:
        await go.wait()
        await write(session)

    async with session.commit() as tx:
        task = asyncio.create_task(later())
        tx.append(1, "test.entry")
    go.set()
    await task
    assert len(await session.storage.entries(1)) == 2


async def test_a_raising_body_leaves_nothing_and_uses_no_seq() -> None:
    session, storage = await opened()
    await write(session)
    seq = session.seq
    with pytest.raises(RuntimeError, match="oops"):
        async with session.commit() as tx:
            tx.append(1, "test.entry")
            (await tx.document(NOTES)).value["text"] = "lost"
            raise RuntimeError("oops")
    assert session.seq == seq
    assert len(await storage.entries(1)) == 1
    assert await session.value(NOTES) == {"text": ""}
    await write(session)


async def test_a_body_that_writes_nothing_stores_nothing() -> None:
    session, storage = await opened()
    await write(session)
    rows = len(await storage.commits())
    seen: list[Commit] = []
    session.observe(seen.append)
    async with session.commit() as tx:
        await tx.entries(1)
    assert len(await storage.commits()) == rows
    assert seen == []


async def test_tables_are_read_before_the_first_table_write_only() -> None:
    session, _ = await opened()
    async with session.commit() as tx:
        await tx.entries(1)
        (await tx.document(NOTES)).value["text"] = "a"
        await tx.task(5)
        tx.append(1, "test.entry")
        for read in (tx.entries(1), tx.task(5), tx.submission(5), tx.conversation(1), tx.entry(1), tx.newest_head(1)):
            with pytest.raises(ReadAfterWrite):
                await read
        assert (await tx.document(NOTES)).value["text"] == "a"


async def test_transactions_and_drafts_raise_after_the_body_ended() -> None:
    session, _ = await opened()
    async with session.commit() as tx:
        document = await tx.document(NOTES)
        value = document.value
        value["text"] = "kept"
    with pytest.raises(TransactionClosed):
        tx.append(1, "test.entry")
    with pytest.raises(TransactionClosed):
        await tx.document(NOTES)
    with pytest.raises(RuntimeError):
        value["text"] = "late"
    assert await session.value(NOTES) == {"text": "kept"}


async def test_a_body_that_ends_while_acquiring_fails_as_a_whole() -> None:
    session, storage = await opened()
    blocked = asyncio.Event()
    original = storage.entries

    async def slow(*args: Any, **kwargs: Any) -> Any:
        await blocked.wait()
        return await original(*args, **kwargs)

    storage.entries = slow
    with pytest.raises(TransactionClosed):
        async with session.commit() as tx:
            pending = asyncio.create_task(tx.entries(1))
            await asyncio.sleep(0)
            tx._wrote = False
            tx.submissions[9] = {"id": 9, "conversationId": 1, "type": "input", "status": "queued"}
    blocked.set()
    await pending
    storage.entries = original
    assert await storage.submission(9) is None


@pytest.mark.parametrize("value", [float("nan"), float("inf"), {1: "x"}, object(), {"a": {"b": [set()]}}])
async def test_what_is_not_strict_json_raises_at_the_assignment(value: Any) -> None:
    session, _ = await opened()
    async with session.commit() as tx:
        with pytest.raises(JsonError):
            tx.append(1, "test.entry", data=value)
        document = await tx.document(NOTES)
        with pytest.raises(JsonError):
            document.value["text"] = value
    assert await session.storage.entries(1) == []


async def test_values_are_copied_and_lone_surrogates_replaced() -> None:
    session, storage = await opened()
    data = {"list": [1], "text": "a\ud800b"}
    async with session.commit() as tx:
        tx.append(1, "test.entry", data=data)
        data["list"].append(2)  # type: ignore[attr-defined]
    stored = (await storage.entries(1))[0].record["data"]
    assert stored == {"list": [1], "text": "a\ufffdb"}


async def test_observers_see_a_commit_after_it_is_stored_and_adopted() -> None:
    session, storage = await opened()
    seen: list[tuple[int, int]] = []

    def observe(commit: Commit) -> None:
        seen.append((commit.seq, session.seq))

    session.observe(observe)
    await write(session)
    await write(session)
    stored = [row.seq for row in await storage.commits()][-2:]
    assert seen == [(stored[0], stored[0]), (stored[1], stored[1])]


async def test_a_raising_observer_disturbs_nobody() -> None:
    session, _ = await opened()
    seen: list[int] = []

    def bad(_: Commit) -> None:
        raise RuntimeError("observer")

    session.observe(bad)
    session.observe(lambda commit: seen.append(commit.seq))
    await write(session)
    assert len(seen) == 1 and session.state == "open"


async def test_a_rejected_commit_leaves_the_session_going() -> None:
    session, storage = await opened({1: Fault("reject")})
    seen: list[Commit] = []
    session.observe(seen.append)
    with pytest.raises(StorageRejected):
        async with session.commit() as tx:
            tx.append(1, "test.entry")
            (await tx.document(NOTES)).value["text"] = "lost"
    assert (session.state, seen) == ("open", [])
    assert await session.value(NOTES) == {"text": ""}
    await write(session)
    assert len(await storage.entries(1)) == 1


@pytest.mark.parametrize("when", ["before", "after"])
async def test_an_uncertain_commit_poisons_the_session(when: Any) -> None:
    session, _ = await opened({1: Fault("uncertain", when)})
    seen: list[Commit] = []
    session.observe(seen.append)
    with pytest.raises(StorageUncertain):
        await write(session)
    assert (session.state, seen) == ("poisoned", [])
    with pytest.raises(SessionPoisoned, match="open it again"):
        await write(session)


async def test_a_failing_adoption_poisons_the_session(monkeypatch: pytest.MonkeyPatch) -> None:
    session, _ = await opened()

    def broken(*_: Any) -> Any:
        raise RuntimeError("no memory")

    monkeypatch.setattr(session, "_adopt", broken)
    with pytest.raises(RuntimeError):
        await write(session)
    with pytest.raises(SessionPoisoned, match="no memory"):
        await write(session)


async def test_a_fenced_owner_is_told_and_stays_out() -> None:
    session, storage = await opened()
    storage.crash()
    with pytest.raises(Fenced):
        await write(session)
    assert session.state == "fenced"
    with pytest.raises(Fenced):
        await write(session)


async def test_d02_cancelling_during_a_commit_stores_all_or_nothing() -> None:
    for step in range(12):
        session, storage = await opened()

        async def commit(session: Session = session) -> None:
            async with session.commit() as tx:
                for number in range(6):
                    tx.append(1, "test.entry", data=number)

        task = asyncio.create_task(commit())
        for _ in range(step):
            await asyncio.sleep(0)
        task.cancel()
        task.cancel()
        outcome = (await asyncio.gather(task, return_exceptions=True))[0]
        count = len(await storage.entries(1))
        assert count in (0, 6)
        assert session.seq == ((await storage.commits())[-1].seq if await storage.commits() else 0)
        if count == 0:
            assert isinstance(outcome, asyncio.CancelledError)
        await write(session)
        assert len(await storage.entries(1)) == count + 1


async def test_a_cancelled_committer_learns_of_the_cancellation_after_the_commit_stands() -> None:
    session, storage = await opened({1: Fault("cancel")})
    seen: list[Commit] = []
    session.observe(seen.append)

    async def commit() -> None:
        await write(session)

    task = asyncio.create_task(commit())
    with pytest.raises(asyncio.CancelledError):
        await task
    assert len(seen) == 1 and len(await storage.entries(1)) == 1


async def test_a_closed_session_admits_nothing() -> None:
    session, _ = await opened()
    await session.close()
    await session.close()
    with pytest.raises(SessionClosed):
        await write(session)
