"""Openings that are told to stop in the middle (spec 4.2, 15): they end in order, and nobody takes them for deaths."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from durable_tui.agent.extension import Registry
from durable_tui.harness.harness import Harness
from durable_tui.storage import SqliteStorage
from durable_tui.storage.records import Batch, OwnerRow
from durable_tui.storage.sqlite import store as sqlite
from tests.tools.scenario import FAST, Rig, no_environment
from tests.tools.strict_provider import call, say


async def _made(path: Path, *, die: bool) -> None:
    """A session with an unfinished tool, closed in order or dead."""
    rig = await Rig([call(("gate", {"text": "g"})), say("done")], "sqlite", path).open()
    await rig.root.submit("go", request_id="r")
    await rig.effects.wait_started("gate")
    await (rig.kill() if die else rig.close())


class Told(SqliteStorage):
    """Tells at a chosen point of the opening that its task should stop."""

    point = ""
    stop: Callable[[], object]

    async def owners(self) -> list[OwnerRow]:
        if self.point == "while it reads":
            self.stop()
        return await super().owners()

    async def commit(self, batch: Batch) -> None:
        if self.point == "before its commit":
            self.stop()
        await super().commit(batch)
        if self.point == "after its commit":
            self.stop()


async def _open(path: Path, rig: Rig, point: str = "") -> Harness:
    storage = await Told.open(path, durability="process")
    storage.point, storage.stop = point, asyncio.current_task().cancel  # type: ignore[union-attr, method-assign]
    registry = Registry()
    registry.install(rig.effects.extension())
    return await Harness.open(
        storage, models=rig.provider, registry=registry, environment=no_environment, settings=FAST
    )


@pytest.mark.parametrize("die", [False, True], ids=["closed before", "died before"])
@pytest.mark.parametrize(
    "point", ["while it takes the file", "while it reads", "before its commit", "after its commit"]
)
async def test_spec_15_an_opening_that_is_told_to_stop_is_no_death_and_hides_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, die: bool, point: str
) -> None:
    path, rig, loop = tmp_path / "a.sqlite", Rig([say("done")]), asyncio.get_running_loop()
    await _made(path, die=die)
    inner = sqlite.take

    def take(*arguments: Any) -> Any:
        if point == "while it takes the file":
            loop.call_soon_threadsafe(stopped.cancel)
            time.sleep(0.05)
        return inner(*arguments)

    monkeypatch.setattr(sqlite, "take", take)
    stopped = asyncio.create_task(_open(path, rig, point))
    with pytest.raises(asyncio.CancelledError):
        await stopped
    monkeypatch.setattr(sqlite, "take", inner)
    harness = await _open(path, rig)  # the lock is free
    previous = harness._session.storage.previous
    deaths = (await harness.recovery() or {"deaths": []})["deaths"]
    assert previous is not None and previous.epoch == 2, "it had taken the file"
    if die:
        assert {row["kind"] for row in deaths[0]["tasks"]} == {"pi.generation", "pi.tool"}, "the death is told of"
        assert (previous.closed_at is not None) == (point != "while it takes the file")
        assert len(deaths) == 1
    else:
        assert previous.closed_at is not None and [death["ended"] for death in deaths] == ["closed"], "in order"
        assert [row["kind"] for row in deaths[0]["tasks"]] == ["pi.tool"], "the close before told what it ended"
    assert harness.paused_reason is None
    await harness.close()
