"""Files for `@`: names below a directory, walked once in a thread, within bounds."""

from __future__ import annotations

import asyncio
import os
import time

LIMIT = 5000
SHOWN = 20
SKIPPED = {
    ".git",
    "node_modules",
    "__pycache__",
    ".venv",
    "venv",
    ".mypy_cache",
    ".ruff_cache",
    ".tox",
    "target",
    "dist",
}
FRESH = 20.0  # seconds a walk is taken as true


class Files:
    """`find` answers at once from what is known and starts a walk when that is old."""

    def __init__(self, directory: str) -> None:
        self.directory = directory
        self._names: list[str] = []
        self._at = 0.0
        self._task: asyncio.Task[None] | None = None

    def find(self, prefix: str) -> list[str]:
        if time.monotonic() - self._at > FRESH and (self._task is None or self._task.done()):
            self._task = asyncio.get_running_loop().create_task(self._walk())
        lowered = prefix.lower()
        starts = [name for name in self._names if name.lower().startswith(lowered)]
        holds = [name for name in self._names if lowered in name.lower() and not name.lower().startswith(lowered)]
        return (starts + holds)[:SHOWN]

    async def _walk(self) -> None:
        self._names = await asyncio.to_thread(walk, self.directory)
        self._at = time.monotonic()


def walk(directory: str) -> list[str]:
    """Relative names of files, shallow ones first, at most LIMIT; what cannot be read is left out."""
    names: list[str] = []
    level = [directory]
    while level and len(names) < LIMIT:
        deeper: list[str] = []
        for folder in level:
            try:
                entries = sorted(os.scandir(folder), key=lambda entry: entry.name)
            except OSError:
                continue
            for entry in entries:
                if entry.name in SKIPPED:
                    continue
                path = os.path.relpath(entry.path, directory)
                if any(ord(character) < 32 or 0xD800 <= ord(character) < 0xE000 for character in path):
                    continue
                try:
                    is_folder = entry.is_dir(follow_symlinks=False)
                except OSError:
                    continue
                if is_folder:
                    deeper.append(entry.path)
                else:
                    names.append(path)
                    if len(names) >= LIMIT:
                        return names
        level = deeper
    return names
