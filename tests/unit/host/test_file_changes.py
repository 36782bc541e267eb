"""Watching folders whose files a person changes."""

from __future__ import annotations

import asyncio
from pathlib import Path

from durable_tui.host.file_changes import watch_folders


async def test_a_changed_file_is_told_once_it_is_saved(tmp_path: Path) -> None:
    changes = watch_folders([tmp_path, tmp_path / "missing"])
    told = asyncio.ensure_future(anext(changes))
    number = 0
    while not told.done():  # the watch begins at its own time: what was saved before is not told
        number += 1
        (tmp_path / "ink.toml").write_text(f"n = {number}")
        await asyncio.wait([told], timeout=0.1)
        assert number < 300
    assert told.result() is None
    await changes.aclose()


async def test_without_any_folder_it_ends_at_once(tmp_path: Path) -> None:
    assert [change async for change in watch_folders([tmp_path / "missing"])] == []
