"""Work that version 1 left unfinished is finished by this program (spec 4, 15)."""

from __future__ import annotations

import shutil
from pathlib import Path

from tests.tools.invariants import check_idle
from tests.tools.stage import Clock, Stage, frozen, host_at, prints
from tests.tools.strict_provider import call, say
from tests.tools.version_1 import VERSION_1


async def test_d07_what_was_queued_and_running_in_version_1_goes_on(tmp_path: Path) -> None:
    path = Path(shutil.copy(VERSION_1, tmp_path / "a.sqlite"))
    bash = call(("bash", {"command": "pytest"}))
    clock = Clock()
    clock.pass_by(3600)
    with frozen(clock, tmp_path) as processes:
        processes.pid = 4713  # after the two that died
        processes.alive = {4713}
        stage = Stage(
            clock, processes, host_at(tmp_path), [bash] * 6 + [say("It was cut off."), say("Done.")], path=path
        )
        stage.paper.commands["pytest"] = prints("2 passed")
        await stage.open()
        before = {found["id"]: found["status"] for found in await stage.storage.submissions()}
        assert list(before.values()) == ["done", "done", "placed", "done", "queued"]
        await stage.harness.resume()
        await stage.idle()
        submissions = await stage.storage.submissions()
        assert [found["id"] for found in submissions] == list(before)
        assert {found["status"] for found in submissions} == {"done"}
        assert await check_idle(stage.storage) == []
        await stage.close()
