"""Conversations, entries, submissions and tasks: keyed look-ups, cursors both ways, detached reads (spec 4)."""

from __future__ import annotations

from typing import Any

import pytest

from durable_tui.storage import StorageRejected
from durable_tui.storage.records import CommitRow, FlightRow
from tests.conformance.backends import Backend
from tests.tools.batches import batch, begin, entry, put, submission, task


async def test_spec_4_a_new_store_is_empty_and_its_first_id_is_one(backend: Backend) -> None:
    storage = await backend.open()
    assert storage.mint_id() == 1
    assert storage.epoch == 1
    assert not storage.read_only
    assert storage.previous is None and storage.former_owner == "dead"
    assert await storage.conversations() == []
    assert await storage.live_tasks() == []
    assert await storage.commits() == []
    assert await storage.poll_seq() == 0
    for read in (storage.conversation, storage.entry, storage.submission, storage.task):
        assert await read(1) is None
    assert await storage.newest_head(1) is None
    assert await storage.submission_by_request(1, "r") is None


async def test_spec_4_reads_after_commit_see_it(backend: Backend) -> None:
    storage = await backend.open()
    await begin(storage)
    child = {"id": 2, "parent": {"conversationId": 1, "at": 4}, "owner": {"conversationId": 1, "taskId": 9}}
    written = entry(4, model=[{"role": "user", "content": "é\u2028\x00 𝄞"}], data={"a": [1, None, 2.5]})
    seq = await put(storage, conversations=[child], entries=[written], submissions=[submission(5)], tasks=[task(6)])
    assert await storage.conversation(2) == child
    assert await storage.conversations() == [{"id": 1}, child]
    found = await storage.entry(4)
    assert found.record == written and found.seq == seq
    assert await storage.submission(5) == submission(5)
    assert await storage.task(6) == task(6)
    assert await storage.poll_seq() == seq


async def test_spec_4_reads_are_detached(backend: Backend) -> None:
    storage = await backend.open()
    await begin(storage)
    content: list[Any] = ["first"]
    record = entry(2, data={"list": content})
    made = batch(storage, entries=[record])
    await storage.commit(made)
    content.append("later")
    record["kind"] = "other"
    first = (await storage.entry(2)).record
    assert first == entry(2, data={"list": ["first"]})
    with pytest.raises(TypeError):
        first["data"]["list"].append("mine")
    assert (await storage.entry(2)).record == entry(2, data={"list": ["first"]})


async def test_spec_4_entries_page_both_ways_in_id_order(backend: Backend) -> None:
    storage = await backend.open()
    await begin(storage)
    await put(storage, conversations=[{"id": 2}], entries=[entry(i) for i in (3, 5, 7, 9)] + [entry(4, 2)])
    await put(storage, entries=[entry(11), entry(6)])

    async def ids(**how: Any) -> list[int]:
        return [found.record["id"] for found in await storage.entries(1, **how)]

    assert await ids() == [3, 5, 6, 7, 9, 11]
    assert await ids(reverse=True) == [11, 9, 7, 6, 5, 3]
    assert await ids(limit=2) == [3, 5]
    assert await ids(after=5, limit=2) == [6, 7]
    assert await ids(reverse=True, limit=2) == [11, 9]
    assert await ids(reverse=True, before=9, limit=2) == [7, 6]
    assert await ids(after=3, before=9) == [5, 6, 7]
    assert await ids(after=11) == [] and await ids(before=3) == [] and await ids(limit=0) == []
    assert [found.record["id"] for found in await storage.entries(2)] == [4]
    assert [found.seq for found in await storage.entries(1, after=5)] == [3, 2, 2, 3]


async def test_d05_a_paused_reader_neither_delays_commits_nor_loses_its_place(backend: Backend) -> None:
    storage = await backend.open()
    await begin(storage)
    await put(storage, entries=[entry(i) for i in range(2, 52)])
    seen: list[int] = []
    after = 0
    while page := await storage.entries(1, after=after, before=52, limit=7):
        seen += [found.record["id"] for found in page]
        after = seen[-1]
        await put(storage, entries=[entry(storage.mint_id())])
    assert seen == list(range(2, 52))


async def test_spec_11_the_newest_head(backend: Backend) -> None:
    storage = await backend.open()
    await begin(storage)
    await put(storage, entries=[entry(2), entry(3, head=2), entry(4), entry(5, head=5), entry(6), entry(7, 9, head=7)])
    assert (await storage.newest_head(1))["id"] == 5
    assert (await storage.newest_head(1, upto=5))["id"] == 5
    assert (await storage.newest_head(1, upto=4))["id"] == 3
    assert await storage.newest_head(1, upto=2) is None
    assert await storage.newest_head(2) is None


async def test_spec_8_1_submissions_are_found_by_request_status_and_cursor(backend: Backend) -> None:
    storage = await backend.open()
    await begin(storage)
    await put(
        storage,
        submissions=[
            submission(2, requestId="a"),
            submission(3, 9, "placed", requestId="a"),
            submission(4, status="done"),
            submission(5, status="queued"),
            submission(6, status="unanswered", reason="aborted"),
        ],
    )

    async def ids(*where: Any, **how: Any) -> list[int]:
        return [record["id"] for record in await storage.submissions(*where, **how)]

    assert (await storage.submission_by_request(1, "a"))["id"] == 2
    assert (await storage.submission_by_request(9, "a"))["id"] == 3
    assert await storage.submission_by_request(1, "b") is None
    assert await ids() == [2, 3, 4, 5, 6]
    assert await ids(1) == [2, 4, 5, 6]
    assert await ids(1, after=2, limit=2) == [4, 5]
    assert await ids(status="queued") == [2, 5]
    assert await ids(1, status="placed") == [] and await ids(9, status="placed") == [3]
    assert await ids(status="done") == [4] and await ids(1, status="unanswered") == [6]
    assert await ids(status="queued", after=2) == [5] and await ids(status="queued", limit=1) == [2]
    await put(storage, submissions=[submission(2, status="done", requestId="a", answer=8)])
    assert await storage.submission(2) == submission(2, status="done", requestId="a", answer=8)
    assert await ids(status="queued") == [5]
    assert (await storage.submission_by_request(1, "a"))["status"] == "done"


async def test_spec_4_live_tasks_are_those_not_terminal(backend: Backend) -> None:
    storage = await backend.open()
    await begin(storage)
    states = ["pending", "running", "waiting", "completing", "terminal"]
    await put(storage, tasks=[task(i + 2, status=status) for i, status in enumerate(states)] + [task(9, 2)])
    assert [record["id"] for record in await storage.live_tasks()] == [2, 3, 4, 5, 9]
    await put(storage, tasks=[task(3, status="terminal"), task(8)])
    assert [record["id"] for record in await storage.live_tasks()] == [2, 4, 5, 8, 9]
    assert [record["id"] for record in await storage.tasks()] == [2, 3, 4, 5, 6, 8, 9]
    assert [record["id"] for record in await storage.tasks(1, after=3, limit=2)] == [4, 5]
    assert [record["id"] for record in await storage.tasks(2)] == [9]
    assert (await storage.task(3))["state"]["status"] == "terminal"


async def test_spec_4_commits_keep_seq_time_and_epoch(backend: Backend) -> None:
    storage = await backend.open()
    await begin(storage)
    await put(storage, entries=[entry(2)])
    await storage.close()
    storage = await backend.open()
    storage.mint_seq()
    seq = await put(storage, entries=[entry(3)])
    rows = [CommitRow(1, 10, 1), CommitRow(2, 20, 1), CommitRow(seq, seq * 10, 2)]
    assert seq > 3
    assert await storage.commits() == rows
    assert await storage.commits(reverse=True, limit=1) == rows[2:]
    assert await storage.commits(after=1, before=seq) == rows[1:2]
    assert await storage.commits(after=seq) == []


async def test_spec_3_8_a_lone_surrogate_neither_stops_a_commit_nor_a_read(backend: Backend) -> None:
    storage = await backend.open()
    await begin(storage)
    bad = "a\ud800b"
    held: Any = {"kind": "k" + bad, "scope": {"kind": "session"}, "id": 5, "createdAt": 2, "key": bad}
    await put(
        storage,
        entries=[entry(2, kind=bad, data={bad: bad})],
        submissions=[submission(3, requestId=bad)],
        tasks=[task(4, kind=bad)],
        documents=[held],
    )
    assert "�" in (await storage.entry(2)).record["kind"]
    assert (await storage.submission_by_request(1, bad))["id"] == 3
    assert (await storage.live_tasks())[0]["id"] == 4


async def test_spec_6_12_the_least_time_gate_of_all_tasks(backend: Backend) -> None:
    def gate(at: int) -> Any:
        return {"reason": "retry", "time": at, "since": 5}

    storage = await backend.open()
    await begin(storage)
    assert await storage.least_wake() is None
    others: list[Any] = [{"reason": "approval", "ask": "a1"}, {"reason": "budget", "person": True}]
    await put(storage, tasks=[task(2), task(3, gate=others[0]), task(4, gate=others[1]), task(5, status="terminal")])
    assert await storage.least_wake() is None
    await put(storage, tasks=[task(6, gate=gate(900)), task(7, 9, gate=gate(300)), task(2, gate=gate(600))])
    assert await storage.least_wake() == 300
    assert (await storage.task(7))["state"]["gate"] == gate(300)
    await put(storage, tasks=[task(7, 9, "running")])
    assert await storage.least_wake() == 600, "the reservation that finds a gate open drops it"
    await put(storage, tasks=[task(2, gate=gate(1200))])
    assert await storage.least_wake() == 900
    storage = await backend.crash(storage)
    assert await storage.least_wake() == 900
    await put(storage, tasks=[task(6, status="terminal"), task(2, gate=others[1])])
    assert await storage.least_wake() is None


async def test_spec_5_7_the_flight_recorder_keeps_the_newest_deaths(backend: Backend) -> None:
    def rows(epoch: int, *seqs: int) -> list[FlightRow]:
        found = [FlightRow(epoch, document, seq, seq * 7, "base", {"n": seq}) for document in (3, 2) for seq in seqs]
        return [*found, FlightRow(epoch, 2, 90, 95, "delta", [["s", ["n"], 1]])]

    def in_order(rows: list[FlightRow]) -> list[FlightRow]:
        return sorted(rows, key=lambda row: (row.document_id, row.seq))

    storage = await backend.open()
    await begin(storage)
    assert await storage.flight(1) == []
    seq = await put(storage, flight=rows(1, 8, 4))
    assert [row.seq for row in await storage.commits()] == [1, seq], "a recording alone is a commit"
    await put(storage, entries=[entry(2)], flight=rows(4, 30), keep_flights=2)
    assert await storage.flight(1) == in_order(rows(1, 8, 4)) and await storage.flight(4) == in_order(rows(4, 30))
    with pytest.raises(StorageRejected):
        await put(storage, entries=[entry(9)], flight=rows(4, 30), keep_flights=1)
    assert await storage.flight(1) and await storage.entry(9) is None, "a batch that is refused drops nothing"
    await put(storage, flight=rows(7, 40), keep_flights=2)
    storage = await backend.crash(storage)
    assert await storage.flight(1) == [], "the one of this batch counts"
    assert await storage.flight(4) == in_order(rows(4, 30)) and await storage.flight(7) == in_order(rows(7, 40))
    await put(storage, keep_flights=0)
    assert await storage.flight(4) == await storage.flight(7) == []
