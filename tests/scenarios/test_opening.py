"""Openings that are told to stop in the middle (contract 4.2, 15): they end in order, and nobody takes them for deaths."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path

import pytest

from durable_tui.harness.extension import Registry
from durable_tui.harness.harness import Harness
from durable_tui.storage import SqliteStorage
from tests.tools.scenario import FAST, Rig, no_environment
from tests.tools.strict_provider import call, say


async def _made(path: Path, *, die: bool) -> None:
    """A session with an unfinished tool, closed in order or dead."""
    rig = await Rig([call(("gate", {"text": "g"})), say("done")], "sqlite", path).open()
    await rig.root.submit("go", request_id="r")
    await rig.effects.wait_started("gate")
    await (rig.kill() if die else rig.close())


async def _open(path: Path, rig: Rig) -> Harness:
    storage = await SqliteStorage.open(path, durability="process")
    registry = Registry()
    registry.install(rig.effects.extension())
    return await Harness.open(
        storage, models=rig.provider, registry=registry, environment=no_environment, settings=FAST
    )


@pytest.mark.parametrize("die", [False, True], ids=["closed before", "died before"])
async def test_contract_15_a_cancelled_opening_is_no_death_and_hides_none(tmp_path: Path, die: bool) -> None:
    rig = Rig([say("done")])
    await _made(tmp_path / "warm.sqlite", die=die)
    began = time.monotonic()
    await (await _open(tmp_path / "warm.sqlite", rig)).close()
    usual = time.monotonic() - began
    in_order = stopped = 0
    for number in range(24):
        path = tmp_path / f"{number}.sqlite"
        await _made(path, die=die)
        task = asyncio.create_task(_open(path, rig))
        await asyncio.sleep(usual * number / 20)
        task.cancel()
        try:
            await (await task).close()
        except asyncio.CancelledError:
            stopped += 1
        harness = await _open(path, rig)  # the lock is free
        previous = harness._kernel.session.storage.previous
        assert previous is not None
        in_order += previous.closed_at is not None
        deaths = (await harness.recovery() or {"deaths": []})["deaths"]
        if not die:
            assert previous.closed_at is not None, f"cancelled after {number}/20 of an opening: an unclean end"
            assert deaths == []
        else:
            assert deaths and {row["kind"] for row in deaths[0]["tasks"]} == {"pi.generation", "pi.tool"}, (
                "the death is told of"
            )
        assert harness.paused_reason is None
        await harness.close()
    assert stopped > 5 and in_order > 5, f"{stopped} stopped, {in_order} in order"
