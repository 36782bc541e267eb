"""Documents: addresses, the fold of base and deltas, dropped history, incarnations (spec 5)."""

from __future__ import annotations

from typing import Any

import pytest

from durable_tui.delta import apply_ops
from durable_tui.storage import StorageDamaged
from durable_tui.storage.records import StoredRevision
from tests.conformance.backends import Backend
from tests.tools.batches import SESSION, base, batch, begin, delta, document, in_conversation, of_task, put


def value(stored: Any) -> Any:
    found = stored.base
    for ops in stored.deltas:
        found = apply_ops(found, ops)
    return found


async def make(storage: Any, document_id: int, kind: str, scope: Any, start: Any, **more: Any) -> int:
    made = batch(storage)
    made.documents.append(document(document_id, kind, scope, made.seq, **more))
    made.revisions.append(base(document_id, start))
    await storage.commit(made)
    return made.seq


async def test_spec_5_addresses_are_kind_scope_and_key(backend: Backend) -> None:
    storage = await backend.open()
    await begin(storage)
    places: list[tuple[str, Any, str | None]] = [
        ("a", SESSION, None),
        ("a", SESSION, ""),
        ("a", SESSION, "k"),
        ("b", SESSION, None),
        ("a", in_conversation(1), None),
        ("a", in_conversation(2), None),
        ("a", of_task(1), None),
    ]
    for index, (kind, scope, key) in enumerate(places):
        more = {} if key is None else {"key": key}
        await make(storage, 10 + index, kind, scope, {"n": index}, **more)
    for index, (kind, scope, key) in enumerate(places):
        stored = await storage.document(kind, scope, key)
        assert stored.record["id"] == 10 + index and stored.base == {"n": index}
    assert await storage.document("c", SESSION) is None
    assert await storage.document("a", SESSION, "x") is None
    assert await storage.document("a", in_conversation(3)) is None
    assert [stored.record["id"] for stored in await storage.documents(SESSION)] == [10, 11, 12, 13]
    assert [stored.record["id"] for stored in await storage.documents(in_conversation(2))] == [15]
    assert await storage.documents(of_task(9)) == []


async def test_spec_5_base_plus_deltas_is_the_value(backend: Backend) -> None:
    storage = await backend.open()
    await begin(storage)
    created = await make(storage, 2, "k", in_conversation(1), {"t": "a"}, history="rewindable")
    second = await put(storage, revisions=[delta(2, ["a", ["t"], "b"])])
    third = await put(storage, revisions=[delta(2, ["a", ["t"], "c"], ["s", ["n"], 1])])
    fourth = await put(storage, revisions=[base(2, {"t": "new"}, version=2)])
    fifth = await put(storage, revisions=[delta(2, ["a", ["t"], "!"], version=2)])
    stored = await storage.document("k", in_conversation(1))
    assert stored.version == 2 and stored.base == {"t": "new"} and len(stored.deltas) == 1
    assert value(stored) == {"t": "new!"}
    assert value((await storage.documents(in_conversation(1)))[0]) == {"t": "new!"}
    history = {created: ({"t": "a"}, 1), second: ({"t": "ab"}, 1), third: ({"t": "abc", "n": 1}, 1)}
    history |= {fourth: ({"t": "new"}, 2), fifth: ({"t": "new!"}, 2), fifth + 50: ({"t": "new!"}, 2)}
    for seq, (expected, version) in history.items():
        then = await storage.document_as_of(2, seq)
        assert (value(then), then.version) == (expected, version)
    assert await storage.document_as_of(2, created - 1) is None
    assert await storage.document_as_of(3, fifth) is None


async def test_spec_5_3_a_dropping_base_forgets_what_was_before(backend: Backend) -> None:
    storage = await backend.open()
    await begin(storage)
    created = await make(storage, 2, "k", SESSION, [1])
    other = await make(storage, 3, "other", SESSION, [9])
    await put(storage, revisions=[delta(2, ["s", [1], 2])])
    dropped = await put(storage, revisions=[base(2, [1, 2, 3], drop="this"), delta(3, ["s", [1], 8])])
    await put(storage, revisions=[delta(2, ["s", [3], 4])])
    assert value(await storage.document("k", SESSION)) == [1, 2, 3, 4]
    assert value(await storage.document_as_of(2, dropped)) == [1, 2, 3]
    assert await storage.document_as_of(2, dropped - 1) is None
    assert await storage.document_as_of(2, created) is None
    assert value(await storage.document_as_of(3, other)) == [9]
    reopened = await backend.crash(storage)
    assert value(await reopened.document("k", SESSION)) == [1, 2, 3, 4]
    assert value(await reopened.document("other", SESSION)) == [9, 8]


async def test_spec_5_6_retire_and_create_is_a_new_incarnation(backend: Backend) -> None:
    storage = await backend.open()
    await begin(storage)
    created = await make(storage, 2, "k", SESSION, "old", history="latest")
    retired = document(2, "k", SESSION, created, history="latest")
    made = batch(storage)
    # Created before it is retired in the list: the store frees the address first.
    made.documents += [document(3, "k", SESSION, made.seq), {**retired, "retiredAt": made.seq}]
    made.revisions.append(base(3, "new"))
    await storage.commit(made)
    assert (await storage.document("k", SESSION)).record["id"] == 3
    assert [stored.record["id"] for stored in await storage.documents(SESSION)] == [3]
    then = await storage.document_as_of(2, made.seq - 1)
    assert value(then) == "old" and then.record == retired
    assert await storage.document_as_of(2, made.seq) is None
    await put(storage, documents=[{**document(3, "k", SESSION, made.seq), "retiredAt": made.seq + 1}])
    assert await storage.document("k", SESSION) is None
    assert await storage.documents(SESSION) == []
    reopened = await backend.crash(storage)
    assert await reopened.document("k", SESSION) is None


async def test_spec_5_2_revisions_are_detached(backend: Backend) -> None:
    storage = await backend.open()
    await begin(storage)
    start: dict[str, Any] = {"list": [1]}
    await make(storage, 2, "k", SESSION, start)
    start["list"].append(2)
    assert (await storage.document("k", SESSION)).base == {"list": [1]}


async def test_spec_5_a_document_without_a_base_is_damage(backend: Backend) -> None:
    storage = await backend.open()
    await begin(storage)
    await put(storage, documents=[document(2, "k", SESSION, 2)])
    with pytest.raises(StorageDamaged):
        await storage.document("k", SESSION)
    assert await storage.document_as_of(2, 2) is None


async def test_spec_5_7_a_base_may_keep_what_leads_up_to_it(backend: Backend) -> None:
    storage = await backend.open()
    await begin(storage)
    first = await make(storage, 2, "k", SESSION, [1])
    await make(storage, 3, "other", SESSION, [9])
    grown = await put(storage, revisions=[delta(2, ["s", [1], 2])])
    second = await put(storage, revisions=[base(2, [1, 2], drop="previous")])
    assert value(await storage.document_as_of(2, first)) == [1], "there is no base before the first one"
    last = await put(storage, revisions=[delta(2, ["s", [2], 3])])
    third = await put(storage, revisions=[base(2, [1, 2, 3], drop="previous")])
    assert await storage.document_as_of(2, first) is None and await storage.document_as_of(2, grown) is None
    assert value(await storage.document_as_of(2, second)) == [1, 2]
    assert value(await storage.document_as_of(2, last)) == value(await storage.document_as_of(2, third)) == [1, 2, 3]
    assert value(await storage.document("other", SESSION)) == [9]


async def test_spec_5_7_revisions_tell_when_each_was_stored(backend: Backend) -> None:
    storage = await backend.open()
    await begin(storage)
    first = await make(storage, 2, "k", SESSION, [])
    await make(storage, 3, "other", SESSION, [9])
    one = await put(storage, at=77, revisions=[delta(2, ["s", [0], 1])])
    second = await put(storage, revisions=[base(2, [1, 2], version=2)])
    two = await put(storage, at=99, revisions=[delta(2, ["s", [2], 3], version=2), delta(3, ["d", [0]])])
    newest = [
        StoredRevision(second, second * 10, "base", 2, [1, 2]),
        StoredRevision(two, 99, "delta", 2, [["s", [2], 3]]),
    ]
    older = [
        StoredRevision(first, first * 10, "base", 1, []),
        StoredRevision(one, 77, "delta", 1, [["s", [0], 1]]),
    ]
    assert await storage.revisions(2) == newest
    assert await storage.revisions(2, bases=2) == await storage.revisions(2, bases=9) == older + newest
    assert await storage.revisions(2, bases=0) == await storage.revisions(8) == []
    await put(storage, documents=[document(4, "none", SESSION, 9)])
    assert await storage.revisions(4) == [], "without a base there is nothing to begin with"


async def test_spec_11_the_documents_of_a_scope_as_they_stood_then(backend: Backend) -> None:
    storage = await backend.open()
    await begin(storage)
    scope = in_conversation(1)
    keeps = await make(storage, 2, "keeps", scope, {"n": 1}, history="rewindable")
    await make(storage, 3, "retired", scope, "there", history="rewindable")
    await make(storage, 4, "elsewhere", in_conversation(2), 0, history="rewindable")
    await make(storage, 5, "forgets", scope, 1)
    then = await put(storage, revisions=[delta(2, ["s", ["n"], 2])])
    await put(storage, revisions=[delta(2, ["s", ["n"], 3]), base(5, 2, drop="this")])
    record = (await storage.document("retired", scope)).record
    gone = await put(storage, documents=[{**record, "retiredAt": then + 2}])
    later = await make(storage, 6, "later", scope, "new")

    async def held(seq: int) -> list[Any]:
        return [(stored.record["id"], value(stored)) for stored in await storage.documents_as_of(scope, seq)]

    assert await held(keeps - 1) == []
    assert await held(keeps) == [(2, {"n": 1})]
    assert await held(then) == [(2, {"n": 2}), (3, "there")], (
        "what was retired since, not what forgot or was made since"
    )
    assert (await storage.documents_as_of(scope, then))[1].record == record
    assert await held(gone) == [(2, {"n": 3}), (5, 2)]
    assert await held(later + 9) == [(2, {"n": 3}), (5, 2), (6, "new")]
    assert await storage.documents_as_of(of_task(1), later) == []
