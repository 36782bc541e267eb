"""Files for `@`: listed and searched in threads, so that no number of them holds up a key."""

from __future__ import annotations

import asyncio
import itertools
import threading
import time
from collections.abc import Callable, Iterator

from durable_tui.ui.file_listing import list_files
from durable_tui.ui.matching import Query

LIMIT = 500_000  # files
CHARACTERS = 64 << 20  # of all their names
SHOWN = 20
FRESH = 20.0  # seconds a listing is taken as true
BATCH = 1000  # files
FEW = 5000  # files that are searched at once
AGAIN = 0.3  # seconds between two looks at a listing still under way


class Files:
    """`find` answers at once from what is known; `changed` is called when it would answer better."""

    def __init__(self, directory: str) -> None:
        self.directory = directory
        self.changed: Callable[[], None] = lambda: None
        self._names: list[str] = []
        self._listed_at = 0.0
        self._listing = False
        self._found: list[str] = []
        self._found_for: tuple[str, int] | None = None  # prefix, number of files
        self._searching: tuple[str, int] | None = None
        self._stop = threading.Event()  # of the search under way

    def find(self, prefix: str) -> list[str]:
        """The best of the files known by now. Needs a running loop."""
        if not self._listing and time.monotonic() - self._listed_at > FRESH:
            self._listing = True
            self._in_thread(self._list, asyncio.get_running_loop())
        query, names = Query(prefix), self._names
        wanted = (prefix, len(names))
        if wanted != self._found_for and len(names) <= FEW:
            self._stop.set()
            self._found, self._found_for, self._searching = query.best(names, SHOWN) or [], wanted, None
        elif wanted not in (self._found_for, self._searching):
            self._stop.set()
            self._stop = threading.Event()
            self._searching = wanted
            self._in_thread(self._search, asyncio.get_running_loop(), query, names, wanted, self._stop)
        if self._found_for is not None and self._found_for[0] == prefix:
            return self._found
        return [name for name in self._found if query.matches(name)]

    @staticmethod
    def _in_thread(work: Callable[..., None], *arguments: object) -> None:
        """A thread that does not hold up the program's end."""
        threading.Thread(target=work, args=arguments, daemon=True, name="files").start()

    def _search(
        self,
        loop: asyncio.AbstractEventLoop,
        query: Query,
        names: list[str],
        wanted: tuple[str, int],
        stop: threading.Event,
    ) -> None:
        found = query.best(itertools.islice(names, wanted[1]), SHOWN, lambda: not stop.is_set())
        if found is not None:
            _call(loop, self._searched, found, wanted)

    def _searched(self, found: list[str], wanted: tuple[str, int]) -> None:
        if wanted == self._searching:
            self._found, self._found_for, self._searching = found, wanted, None
            self.changed()

    def _list(self, loop: asyncio.AbstractEventLoop) -> None:
        names: list[str] = []
        first = not self._names  # is shown as it grows; a later one only when it is whole
        told = time.monotonic()
        try:
            for batch in _batches(list_files(self.directory)):
                names += batch
                if first and time.monotonic() - told > AGAIN:
                    told = time.monotonic()
                    _call(loop, self._know, list(names))
        finally:
            _call(loop, self._listed, names)

    def _know(self, names: list[str]) -> None:
        self._names, self._found_for = names, None
        self.changed()

    def _listed(self, names: list[str]) -> None:
        self._listing, self._listed_at = False, time.monotonic()
        if names != self._names:
            self._know(names)


def _batches(names: Iterator[str]) -> Iterator[list[str]]:
    """The names in lists, until there are too many."""
    count = size = 0
    while count < LIMIT and size < CHARACTERS and (batch := list(itertools.islice(names, BATCH))):
        yield batch
        count += len(batch)
        size += sum(map(len, batch))


def _call(loop: asyncio.AbstractEventLoop, function: Callable[..., None], *arguments: object) -> None:
    """Call it on the loop, where that is still open."""
    try:
        loop.call_soon_threadsafe(function, *arguments)
    except RuntimeError:
        return
