"""A close that ends work is in the report like a death, and told as what it was (spec 15)."""

from __future__ import annotations

import asyncio
import dataclasses
import os
from pathlib import Path
from typing import Any

import pytest

from durable_tui.agent.extension import Extension
from durable_tui.engine import TaskHandle
from durable_tui.forensics.report import death_line
from durable_tui.storage import SqliteReader, SqliteStorage
from durable_tui.storage.ends import LauncherEnd, end_path, write_end
from durable_tui.storage.errors import StorageRejected, StorageUncertain
from tests.scenarios.conftest import Open
from tests.tools.custom_tasks import define, start
from tests.tools.effects import eyes
from tests.tools.folding import fold
from tests.tools.scenario import Rig
from tests.tools.strict_provider import call, say
from tests.tools.waiting import until

KILLED: LauncherEnd = {"by": "launcher", "signal": "SIGKILL", "at": 7}


async def _deaths(rig: Rig) -> list[Any]:
    return list((await rig.harness.recovery())["deaths"])


async def _stored(rig: Rig) -> list[Any]:
    """The rows as the store has them, for a session that is closed."""
    stored = await rig.storage.document("dt.recovery", {"kind": "session"})
    return [] if stored is None else list(fold(stored.base, stored.deltas)["deaths"])


def _verdicts(death: Any) -> list[Any]:
    return [(row["kind"], row["phase"], row.get("verdict")) for row in death["tasks"]]


async def _in_gates(opened: Open, *names: str) -> Rig:
    """A session at work in unsafe tools that wait."""
    rig = await opened([call(*(("gate", {"text": name}) for name in names)), say("done")])
    await rig.root.submit("go", request_id="r")
    await rig.effects.wait_started("gate", len(names))
    return rig


async def test_spec_15_a_close_writes_down_the_calls_it_ends_and_the_next_opening_decides_on_them(
    opened: Open,
) -> None:
    rig = await _in_gates(opened, "a", "b")
    await rig.root.submit("later")
    epoch, seq = rig.storage.epoch, rig.harness.seq
    await rig.close()
    await rig.reopen()
    [row] = await _deaths(rig)
    tools = [number for number, task in rig.harness._session.tasks.items() if task["kind"] == "pi.tool"]
    assert (row["epoch"], row["ended"], row["lastSeq"], row["intents"]) == (epoch, "closed", seq, tools)
    assert (row["foundBy"], row["queue"][0]["text"]) == (rig.storage.epoch, "later")
    assert _verdicts(row) == [("pi.tool", "execute", None)] * 2, "what only waited for them was not ended"
    assert "end" not in row and await rig.storage.flight(epoch) == []
    assert all(task.get("restarts", 0) == 0 for task in rig.harness._session.tasks.values()), "no death was counted"
    await rig.harness.resume()
    await rig.idle()
    [row] = await _deaths(rig)
    assert _verdicts(row) == [("pi.tool", "execute", "interrupted")] * 2
    assert rig.effects.texts("gate") == ["a", "b"]
    await rig.check(idle=True)
    await rig.close()
    await rig.reopen()
    assert await _deaths(rig) == [row], "a close that ends nothing writes nothing"


async def test_spec_15_until_the_next_opening_a_reader_sees_the_row_as_a_close(opened: Open) -> None:
    rig = await _in_gates(opened, "a")
    await rig.harness.close()
    if rig.backend == "memory":
        rig.storage = rig.storage.crash()
    else:
        assert rig.path is not None
        rig.storage = await SqliteReader.open(rig.path)
    [row] = await _stored(rig)
    line = death_line(row)
    assert " was closed (in order, ending what ran); last commit #" in line and line.endswith("; not opened since")
    await rig.storage.close()
    if rig.backend == "memory":
        rig.storage = rig.storage.crash()
    await rig.reopen()
    assert "; found 20" in death_line((await _deaths(rig))[0])


async def test_spec_15_a_close_while_the_model_answers_ends_no_effect(opened: Open) -> None:
    rig = await opened([say("x", delay=3600)])
    await rig.root.submit("go")
    await rig.provider.wait_requests(1)
    await rig.close()
    await rig.reopen()
    assert await _deaths(rig) == []


async def test_spec_15_what_a_person_had_stopped_is_not_told_again(opened: Open) -> None:
    rig = await _in_gates(opened, "a")
    block = asyncio.Event()

    async def hook(_: Any) -> None:
        block.set()
        await asyncio.Event().wait()

    rig.harness._agent.toolbox.registry.install(Extension("slow", hooks={"onAbort": hook}))
    await rig.root.stop()
    await asyncio.wait_for(block.wait(), 10)
    await rig.close()
    await rig.reopen()
    assert await _deaths(rig) == []


async def test_spec_6_1_a_kind_of_an_extension_is_told_of_by_its_phases_with_effects(opened: Open) -> None:
    rig = await opened([say("x")])
    entered: list[int] = []

    async def hang(task: TaskHandle) -> None:
        entered.append(task.id)
        await asyncio.Event().wait()

    acts = define("t.acts", one=hang)
    looks = dataclasses.replace(define("t.looks", one=hang), effect_phases=frozenset())
    rig.install(acts, looks)
    ids = [await start(rig, acts), await start(rig, looks)]
    await until(lambda: entered == ids)
    await rig.close()
    await rig.reopen()
    [row] = await _deaths(rig)
    assert [task["taskId"] for task in row["tasks"]] == ids[:1]
    rig.install(acts, looks)
    await rig.harness.resume()
    await until(lambda: entered == ids * 2)
    [row] = await _deaths(rig)
    assert _verdicts(row) == [("t.acts", "one", "resumed")]


async def test_spec_15_a_safe_call_runs_again_and_a_second_close_is_a_row_of_its_own(opened: Open) -> None:
    began = asyncio.Event()
    rig = await opened([call(("stare", {"text": "g"})), say("done")], extensions=[eyes(began)])
    await rig.root.submit("go")
    for opening in (1, 2):
        await asyncio.wait_for(began.wait(), 10)
        began.clear()
        await rig.close()
        await rig.reopen()
        assert [_verdicts(row)[0][2] for row in await _deaths(rig)] == ["rerun"] * (opening - 1) + [None]
        await rig.harness.resume()
    await asyncio.wait_for(began.wait(), 10)
    assert [_verdicts(row)[0][2] for row in await _deaths(rig)] == ["rerun", "rerun"]


async def test_spec_15_looking_at_it_paused_leaves_the_row_as_it_is(opened: Open) -> None:
    rig = await _in_gates(opened, "a")
    for _ in range(2):
        await rig.close()
        await rig.reopen()
        [row] = await _deaths(rig)
        assert (row["ended"], _verdicts(row)) == ("closed", [("pi.tool", "execute", None)])
    await rig.harness.resume()
    await rig.idle()
    [row] = await _deaths(rig)
    assert _verdicts(row) == [("pi.tool", "execute", "interrupted")]


async def test_spec_15_a_death_after_a_close_takes_the_undecided_tasks_over(opened: Open) -> None:
    rig = await _in_gates(opened, "a")
    await rig.close()
    await rig.reopen()
    await rig.crash()
    await rig.harness.resume()
    await rig.idle()
    closed, died = await _deaths(rig)
    assert [closed["ended"], died["ended"]] == ["closed", "died"]
    assert _verdicts(closed) == [("pi.tool", "execute", None)]
    assert ("pi.tool", "execute", "interrupted") in _verdicts(died)
    await rig.check(idle=True)


async def test_spec_15_a_close_that_dies_before_its_mark_is_an_ordinary_death_told_once(opened: Open) -> None:
    rig = await _in_gates(opened, "a")
    epoch = rig.storage.epoch
    rig.storage.close = rig.storage.abandon
    await rig.close()
    await rig.reopen()
    [row] = await _deaths(rig)
    assert (row["epoch"], row["ended"]) == (epoch, "died")
    assert {task["kind"] for task in row["tasks"]} == {"pi.generation", "pi.tool"}
    assert await rig.storage.flight(epoch) != []
    await rig.harness.resume()
    await rig.idle()
    await rig.check(idle=True)


@pytest.mark.parametrize(
    ("error", "ended"),
    [
        (StorageRejected("no space left", full=True), []),
        (StorageUncertain("nobody knows"), ["died"]),
    ],
    ids=["full", "uncertain"],
)
async def test_spec_15_a_close_goes_on_when_its_row_cannot_be_stored(
    opened: Open, error: Exception, ended: list[str]
) -> None:
    rig = await _in_gates(opened, "a")

    async def refuse(batch: Any) -> None:
        raise error

    rig.storage.commit = refuse
    await rig.close()
    await rig.reopen()
    assert [row["ended"] for row in await _deaths(rig)] == ended
    await rig.harness.resume()
    await rig.idle()
    assert rig.effects.texts("gate") == ["a"]
    await rig.check(idle=True)


async def test_spec_15_a_poisoned_session_ends_as_a_death_without_a_row_of_its_own(opened: Open) -> None:
    rig = await _in_gates(opened, "a")
    inner, commits = rig.storage.commit, 0

    async def uncertain(batch: Any) -> None:
        nonlocal commits
        commits += 1
        raise StorageUncertain("nobody knows")

    rig.storage.commit = uncertain
    with pytest.raises(StorageUncertain):
        await rig.root.submit("more")
    rig.storage.commit = inner
    await rig.close()
    await rig.reopen()
    assert commits == 1 and [row["ended"] for row in await _deaths(rig)] == ["died"]


async def test_spec_15_what_a_death_left_undecided_is_decided_after_a_close_that_ended_other_work(
    opened: Open,
) -> None:
    """After two deaths in a row tasks start one at a time: the close ends the first, the others still wait."""
    began, free = asyncio.Event(), asyncio.Event()
    calls = [("stare", {"text": "first"}), ("gate", {"text": "second"})]
    rig = await opened([call(*calls), say("done")], extensions=[eyes(began, free)])
    await rig.root.submit("go")
    await rig.effects.wait_started("gate")
    await rig.crash()
    await rig.crash()
    began.clear()
    await rig.harness.resume()
    await asyncio.wait_for(began.wait(), 10)
    await rig.close()
    await rig.reopen()
    _, died, closed = await _deaths(rig)
    assert [row.get("verdict") for row in died["tasks"]] == [None, "rerun", None]
    assert _verdicts(closed) == [("pi.tool", "execute", None)]
    free.set()
    await rig.harness.resume()
    await rig.idle()
    _, died, closed = await _deaths(rig)
    assert [row.get("verdict") for row in died["tasks"]] == ["woken", "rerun", "interrupted"]
    assert _verdicts(closed) == [("pi.tool", "execute", "rerun")]
    await rig.check(idle=True)


async def test_spec_15_the_words_of_a_kind_that_raises_keep_no_session_open(opened: Open) -> None:
    rig = await _in_gates(opened, "a")

    async def broken(ids: list[int]) -> Any:
        raise RuntimeError("no words")

    rig.harness._engine._queue.describe = broken  # type: ignore[method-assign]
    await rig.close()
    await rig.reopen()
    assert rig.storage.previous.closed_at is not None and await _deaths(rig) == []


# -- what a launcher tells -------------------------------------------------------------------------------------------


async def _on_disk(tmp_path: Path, *, die: bool) -> tuple[Rig, str]:
    """A session on disk that died, or was closed, in a tool; and the file for how."""
    rig = await Rig([call(("gate", {"text": "a"})), say("done")], "sqlite", tmp_path / "a.sqlite").open()
    await rig.root.submit("go")
    await rig.effects.wait_started("gate")
    path = end_path(rig.storage.files, rig.storage.epoch)
    await (rig.kill() if die else rig.close())
    return rig, path


async def test_spec_15_how_an_owner_died_is_put_into_its_row_and_the_file_is_taken_away(tmp_path: Path) -> None:
    rig, path = await _on_disk(tmp_path, die=True)
    write_end(path, KILLED)
    await rig.reopen()
    [row] = await _deaths(rig)
    assert row["end"] == KILLED and "died (killed by SIGKILL)" in death_line(row)
    assert not os.path.exists(rig.storage.files), "nothing else was in it"
    await rig.close()


async def test_spec_15_a_file_about_an_opening_that_was_closed_in_order_is_none_of_its_row(tmp_path: Path) -> None:
    rig, path = await _on_disk(tmp_path, die=False)
    write_end(path, KILLED)
    await rig.reopen()
    [row] = await _deaths(rig)
    assert row["ended"] == "closed" and "end" not in row and not os.path.exists(path)
    await rig.close()


async def test_spec_15_a_broken_file_is_a_warning_and_the_end_is_unknown(tmp_path: Path) -> None:
    rig, path = await _on_disk(tmp_path, die=True)
    write_end(path, KILLED)
    Path(path).write_text("{")
    await rig.reopen()
    [row] = await _deaths(rig)
    assert "end" not in row and "how it ended is unknown" in death_line(row)
    assert [path in warning for warning in rig.storage.warnings] == [True]
    await rig.close()
    await rig.reopen()
    assert rig.storage.warnings == []
    await rig.close()


async def test_spec_15_an_end_that_is_told_late_comes_into_the_row_at_the_opening_after(tmp_path: Path) -> None:
    rig, path = await _on_disk(tmp_path, die=True)
    await rig.reopen()
    write_end(path, KILLED)
    assert "end" not in (await _deaths(rig))[0]
    await rig.close()
    await rig.reopen()
    assert (await _deaths(rig))[0]["end"] == KILLED
    await rig.close()


async def test_spec_15_the_file_goes_only_after_the_commit_that_has_it(tmp_path: Path) -> None:
    rig, path = await _on_disk(tmp_path, die=True)
    write_end(path, KILLED)
    assert rig.path is not None
    storage = await SqliteStorage.open(rig.path, durability="process")

    async def refuse(batch: Any) -> None:
        raise StorageRejected("the database is locked")

    storage.commit = refuse  # type: ignore[method-assign]
    with pytest.raises(StorageRejected):
        await rig.open(storage)
    assert os.path.exists(path)
    await rig.reopen()
    assert not os.path.exists(path)
    await rig.close()
