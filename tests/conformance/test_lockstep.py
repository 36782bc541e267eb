"""Every backend does the same, whatever comes: random batches, bad ones too, deaths and closings."""

from __future__ import annotations

import asyncio
import tempfile
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from durable_tui.storage import StorageDamaged, StorageRejected
from durable_tui.storage.records import Batch, FlightRow, Revision
from tests.conformance.backends import BACKENDS
from tests.tools.batches import SESSION, document, entry, in_conversation, of_task, submission, task

IDS = st.integers(1, 12)
SMALL = st.integers(1, 3)
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-9, 9) | st.text(max_size=3),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.text(max_size=2), inner, max_size=2),
    max_leaves=4,
)
ENTRIES = st.builds(
    lambda i, c, head, data: entry(i, c, data=data, **({"head": head} if head else {})),
    IDS,
    SMALL,
    IDS | st.none(),
    VALUES,
)
REQUESTS: list[dict[str, Any]] = [{}, {"requestId": ""}, {"requestId": "r"}, {"requestId": "\ud800"}]
SCOPES = [SESSION, in_conversation(1), in_conversation(2), of_task(3)]
KEYS: list[dict[str, Any]] = [{}, {"key": ""}, {"key": "k"}]
# What a record is called and where it belongs follows from its id: that never changes. Many ids share an address.
SUBMISSIONS = st.builds(
    lambda i, status: submission(i, i % 2 + 1, status, **REQUESTS[i % 3 + i % 2]),
    IDS,
    st.sampled_from(["queued", "placed", "done", "unanswered"]),
)
TASKS = st.builds(
    lambda i, status, at: task(i, i % 3 + 1, status, gate={"reason": "retry", "time": at} if at else None),
    IDS,
    st.sampled_from(["pending", "running", "waiting", "completing", "terminal"]),
    st.none() | st.integers(1, 99),
)
DOCUMENTS = st.builds(
    lambda i, retired: (i, "ab"[i % 2], SCOPES[i % 4], KEYS[i % 3 if i < 7 else 0], retired), IDS, st.booleans()
)
REVISIONS = st.builds(
    lambda i, base, value, drop: Revision(
        i, "base" if base else "delta", 1, value if base else [["r", value]], drop_before=drop if base else None
    ),
    IDS,
    st.booleans(),
    VALUES,
    st.sampled_from([None, "this", "previous"]),
)
FLIGHT = st.builds(
    lambda epoch, i, seq, value: FlightRow(epoch, i, seq, seq * 10, "base", value), SMALL, SMALL, SMALL, VALUES
)
BATCHES = st.fixed_dictionaries(
    {
        "conversations": st.lists(st.builds(lambda i: {"id": i}, IDS), max_size=1),
        "entries": st.lists(ENTRIES, max_size=2),
        "submissions": st.lists(SUBMISSIONS, max_size=2, unique_by=lambda record: record["id"]),
        "tasks": st.lists(TASKS, max_size=2, unique_by=lambda record: record["id"]),
        "documents": st.lists(DOCUMENTS, max_size=2, unique_by=lambda made: made[0]),
        "revisions": st.lists(REVISIONS, max_size=2),
        "flight": st.lists(FLIGHT, max_size=2),
        "keep_flights": st.sampled_from([None, None, None, 0, 1, 2]),
    }
)
STEPS = st.lists(BATCHES | st.sampled_from(["close", "crash", "old seq"]), max_size=8)


def build(seq: int, made: dict[str, Any]) -> Batch:
    documents = []
    for document_id, kind, scope, key, retired in made["documents"]:
        ended = {"retiredAt": seq} if retired else {}
        documents.append(document(document_id, kind, scope, seq, **key, **ended))
    return Batch(seq, seq, **{**made, "documents": documents})


async def outcome(reading: Any) -> Any:
    try:
        return await reading
    except StorageDamaged:
        return "damaged"


async def view(storage: Any) -> Any:
    found: list[Any] = [await storage.conversations(), await storage.live_tasks(), await storage.commits()]
    found += [await storage.least_wake(), *[await storage.flight(epoch) for epoch in (1, 2, 3)]]
    for number in (1, 2, 3):
        found += [
            await storage.entries(number, reverse=True, limit=5),
            await storage.entries(number, after=3, before=9),
            await storage.newest_head(number),
            await storage.newest_head(number, upto=6),
            await storage.submissions(number),
            await storage.tasks(number, after=2),
        ]
        for request in ("", "r", "\ud800"):
            found.append(await storage.submission_by_request(number, request))
    for status in ("queued", "placed", "done", "unanswered"):
        found += [await storage.submissions(status=status), await storage.submissions(2, status=status, limit=2)]
    for scope in (SESSION, in_conversation(1), in_conversation(2), of_task(3)):
        found.append(await outcome(storage.documents(scope)))
        found += [await storage.documents_as_of(scope, seq) for seq in range(1, 9, 3)]
        for kind in ("a", "b"):
            for key in (None, "", "k"):
                found.append(await outcome(storage.document(kind, scope, key)))
    for number in range(1, 13):
        found += [await storage.entry(number), await storage.submission(number), await storage.task(number)]
        found += [await storage.revisions(number, bases=bases) for bases in (1, 2)]
        for seq in range(1, 9, 2):
            found.append(await outcome(storage.document_as_of(number, seq)))
    return [*found, await storage.poll_seq(), storage.epoch]


async def run(name: str, folder: str, steps: list[Any]) -> list[Any]:
    backend = BACKENDS[name](Path(folder))
    storage = await backend.open()
    seen: list[Any] = []
    for step in steps:
        if step == "close":
            await storage.close()
            storage = await backend.open()
        elif step == "crash":
            storage = await backend.crash(storage)
        else:
            old = step == "old seq"
            made = Batch(1, 1, conversations=[{"id": 11}]) if old else build(storage.mint_seq(), step)
            try:
                await storage.commit(made)
                seen.append("stored")
            except StorageRejected:
                seen.append("rejected")
        seen.append(storage.mint_id())
    seen.append(await view(storage))
    seen.append(await view(await backend.crash(storage)))
    await backend.end()
    return seen


@pytest.mark.parametrize("name", sorted(set(BACKENDS) - {"memory"}))
@settings(max_examples=50, suppress_health_check=list(HealthCheck))
@given(steps=STEPS)
def test_spec_4_every_backend_does_what_the_reference_does(name: str, steps: list[Any]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        expected = asyncio.run(run("memory", folder, steps))
        assert asyncio.run(run(name, folder, steps)) == expected
