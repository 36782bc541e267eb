"""What a death leaves for later eyes: the flight recorder, the queue, the intents (spec 5.7, 15, 17.4)."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable
from itertools import pairwise
from typing import Any

import pytest

from durable_tui.agent.documents import LIVE
from durable_tui.delta import apply_ops
from durable_tui.engine.flight import fold_to
from durable_tui.storage.records import StoredRevision
from tests.tools.scenario import Rig
from tests.tools.strict_provider import call, say
from tests.tools.waiting import until

Open = Callable[..., Awaitable[Rig]]
CONVERSATION = {"kind": "conversation", "conversationId": 1}


async def _death(rig: Rig) -> Any:
    return (await rig.harness.recovery())["deaths"][-1]


async def _recording(rig: Rig, kind: str) -> list[Any]:
    """The revisions that were kept of a document's end."""
    document = (await rig.storage.document(kind, CONVERSATION)).record["id"]
    return [row for row in await rig.storage.flight((await _death(rig))["epoch"]) if row.document_id == document]


def _replay(rows: list[Any]) -> list[Any]:
    """The value after each revision."""
    value, frames = None, []
    for row in rows:
        value = row.content if row.kind == "base" else apply_ops(value, row.content)
        frames.append(value)
    return frames


async def test_spec_5_7_the_last_words_before_a_death_can_be_replayed(opened: Open) -> None:
    rig = await opened([say("a few words at a time", chunks=8, pace=0.01), say("done")])
    await rig.root.submit("go", request_id="r")

    async def words() -> str:
        live = await rig.document("pi.live")
        message = live.get("generation", {}).get("message")
        return message["content"][0]["text"] if message else ""

    await until(lambda: _longer(words, 8))
    await rig.crash()
    last = await rig.document("pi.live")
    rows = await _recording(rig, "pi.live")
    frames = _replay(rows)
    assert frames[-1] == last, "the recording ends with what was stored last"
    texts = [frame["generation"]["message"]["content"][0]["text"] for frame in frames if _has_words(frame)]
    assert len(texts) > 1 and all(later.startswith(earlier) for earlier, later in pairwise(texts))
    assert [row.at for row in rows] == sorted(row.at for row in rows) and all(row.at for row in rows)
    await rig.harness.resume()
    await rig.idle()
    assert _replay(await _recording(rig, "pi.live")) == frames, "what recovery does changes nothing of it"


async def _longer(words: Callable[[], Awaitable[str]], length: int) -> bool:
    return len(await words()) >= length


def _has_words(frame: Any) -> bool:
    return bool(frame and frame.get("generation", {}).get("message", {}).get("content"))


async def test_spec_15_a_death_tells_its_queue_and_its_intents(opened: Open) -> None:
    rig = await opened([call(("gate", {"text": "g"}), ("note", {"text": "n"})), say("done")])
    await rig.root.submit("go", request_id="r")
    await rig.effects.wait_started("gate")
    await until(lambda: rig.effects.texts("note"))
    await rig.root.submit("x" * 500, when_busy="steer")
    await rig.root.submit("later")
    gate = next(row["id"] for row in rig.harness.inspect() if row["doing"].startswith("gate"))
    await rig.crash()
    death = await _death(rig)
    assert gate in death["intents"]
    assert [(item["mode"], item["text"]) for item in death["queue"]] == [("steer", "x" * 200), ("followUp", "later")]
    assert "moreQueued" not in death and "end" not in death
    await rig.root.abort()


async def test_spec_5_7_a_long_answer_writes_a_base_now_and_then_and_keeps_what_lies_before_it(opened: Open) -> None:
    rig = await opened([say("w" * 400_000, chunks=80, pace=0.002)])
    submission = await rig.root.submit("go", request_id="r")
    document = (await rig.storage.document("pi.live", CONVERSATION)).record["id"]
    histories: list[list[StoredRevision]] = []

    async def done() -> bool:
        histories.append(await rig.storage.revisions(document, bases=10))
        return bool((await submission.refresh())["status"] == "done")

    await until(done, 30)
    bases = [[revision.seq for revision in history if revision.kind == "base"] for history in histories]
    assert max(map(len, bases)) == 2, "what lies before the base before is dropped"
    assert len({seq for seqs in bases for seq in seqs}) > 3, "bases are written while the answer grows"
    await rig.check(idle=True)


async def test_spec_5_7_at_most_64_changes_lie_between_two_bases(opened: Open) -> None:
    rig = await opened([say("x")])
    for number in range(200):
        async with rig.harness.commit() as tx:
            live = await tx.document(LIVE, 1)
            live.value["run"] = {"taskId": 10_000 + number, "inputs": []}
    document = (await rig.storage.document("pi.live", CONVERSATION)).record["id"]
    kinds = "".join(revision.kind[0] for revision in await rig.storage.revisions(document, bases=10))
    assert kinds.count("b") == 2 and kinds.startswith("b" + "d" * 63 + "b"), kinds


async def test_spec_5_7_the_recordings_of_the_newest_twenty_deaths_are_kept(opened: Open) -> None:
    rig = await opened([call(("gate", {"text": "g"})), say("done")])
    await rig.root.submit("go", request_id="r")
    await rig.effects.wait_started("gate")
    epochs = []
    for _ in range(22):
        await rig.crash()
        epochs.append((await _death(rig))["epoch"])
    kept = [epoch for epoch in epochs if await rig.storage.flight(epoch)]
    assert kept == epochs[-20:]
    await rig.root.abort()


@pytest.mark.parametrize(("limit", "kinds"), [(10_000, "bdddd"), (500, "bd"), (150, "b"), (20, "")])
def test_spec_5_7_what_is_too_large_is_folded_from_its_oldest_end(limit: int, kinds: str) -> None:
    value: Any = {"text": ""}
    history = [StoredRevision(1, 10, "base", 1, value)]
    for number in range(4):
        ops = [["s", ["text"], str(number) * 100]]
        value = apply_ops(value, ops)
        history.append(
            StoredRevision(
                number + 2, 20 + number, "delta", 1, [*ops, *([["s", ["text"], "." * 200]] * (number < 3)), *ops]
            )
        )
    kept = fold_to(history, limit)
    assert sum(len(json.dumps(revision.content, separators=(",", ":"))) for revision in kept) <= limit
    assert not kept or (_replay(kept)[-1] == value and kept[0].kind == "base")
    assert "".join(revision.kind[0] for revision in kept) == kinds


async def test_spec_15_a_death_without_unfinished_work_leaves_no_recording(opened: Open) -> None:
    rig = await opened([say("done")])
    await (await rig.root.submit("go")).wait()
    await rig.crash()
    death = await _death(rig)
    assert death["tasks"] == [] and death["intents"] == [] and await rig.storage.flight(death["epoch"]) == []
