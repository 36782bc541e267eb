"""Files a person changes while the program runs."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable
from pathlib import Path


async def watch_folders(folders: Iterable[Path]) -> AsyncIterator[None]:
    """Yield each time files right in one of the folders have changed; ends at once when none of them exists."""
    from watchfiles import awatch  # a large extension module: whoever watches nothing need not load it

    present = [folder for folder in folders if folder.is_dir()]
    if present:
        async for _ in awatch(*present, recursive=False):
            yield None
