"""The one way a few typed characters find names: of files behind `@`, of actions in the palette.

They match a text that holds them in their order. One pass decides that, whatever the text: a matcher that weighs every
way to match takes exponential time on `aaaa…`, and minutes for the files of a large repository.
"""

from __future__ import annotations

import heapq
import re
from collections.abc import Callable, Iterable, Iterator

Rank = tuple[int, int, str]
PATIENCE = 2000  # texts looked at between two questions whether anybody still waits


class Query:
    """What was typed; case and blanks do not count."""

    def __init__(self, typed: str) -> None:
        self.text = "".join(typed.lower().split())
        parts = (f"[^{re.escape(character)}]*+{re.escape(character)}" for character in self.text)
        self._holds = re.compile("".join(parts), re.DOTALL).match

    def matches(self, text: str) -> bool:
        return self._holds(text.lower()) is not None

    def positions(self, text: str) -> list[int]:
        """Where the characters stand: together if they do anywhere, else each as early as it can; [] without a match."""
        lowered = text.lower()
        if len(lowered) != len(text):
            return []
        at = lowered.find(self.text)
        if at >= 0:
            return list(range(at, at + len(self.text)))
        found: list[int] = []
        for character in self.text:
            at = lowered.find(character, found[-1] + 1 if found else 0)
            if at < 0:
                return []
            found.append(at)
        return found

    def rank(self, path: str) -> Rank | None:
        """The place of a path among those that match, smallest first; None for one that does not.

        The file's own name counts more than its folders, the characters together more than apart, then the shorter.
        """
        lowered = path.lower()
        if self._holds(lowered) is None:
            return None
        if not self.text:
            return lowered.count("/"), 0, path
        name = lowered[lowered.rfind("/") + 1 :]
        at = name.find(self.text)
        if at >= 0:
            step = 0 if at == 0 else 1 if not name[at - 1].isalnum() else 2
        elif lowered.startswith(self.text):
            step = 3
        elif self.text in lowered:
            step = 4
        else:
            step = 5 if self._holds(name) else 6
        return step, len(path), path

    def best(self, paths: Iterable[str], count: int, wanted: Callable[[], bool] = lambda: True) -> list[str] | None:
        """The first `count` of the paths that match; None when `wanted` says no on the way."""
        complete = True

        def ranks() -> Iterator[Rank]:
            nonlocal complete
            for number, path in enumerate(paths):
                if number % PATIENCE == 0 and not wanted():
                    complete = False
                    return
                if (rank := self.rank(path)) is not None:
                    yield rank

        found = heapq.nsmallest(count, ranks())
        return [path for _, _, path in found] if complete else None
