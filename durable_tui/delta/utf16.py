"""How one string became another: an append, a sliding window, or neither (spec 5.1)."""

from __future__ import annotations

from typing import Final

from durable_tui.delta.frozen import FrozenList, utf16_length
from durable_tui.delta.ops import Path, op, set_op

_TRIES: Final = 256  # places to try by plain search before the search that is linear in the worst case
_LONGEST: Final = 1 << 18  # code points that search may walk (some tens of ms); repetitive text beyond it is sent whole


def text_op(old: str, new: str, path: Path, out: list[FrozenList]) -> bool:
    """Append the smallest ops from `old` to a different `new`; False when nothing of `old` was kept. Linear time."""
    if path:
        if new.startswith(old):
            out.append(op("a", path, new[len(old) :]))
            return True
        # Trim and append carry the path twice, so a shorter overlap would save nothing.
        cost = 16 + sum(len(key) + 3 if isinstance(key, str) else 4 for key in path)
        kept = overlap(old, new, cost)
        if kept:
            out.append(op("t", path, utf16_length(old[: len(old) - kept])))
            if kept < len(new):
                out.append(op("a", path, new[kept:]))
            return True
    out.append(set_op(path, new))
    return False


def overlap(old: str, new: str, least: int) -> int:
    """The length of the longest end of `old` that `new` begins with, or 0 when it is shorter than `least` (> 0)."""
    if len(old) < least or len(new) < least:
        return 0
    probe = new[:least]
    place = old.find(probe, max(0, len(old) - len(new)))
    for _ in range(_TRIES):
        if place < 0:
            return 0
        if new.startswith(old[place:]):
            return len(old) - place
        place = old.find(probe, place + 1)
    if place < 0 or len(old) - place > _LONGEST:
        return 0
    return _overlap_linear(old[place:], new, least)


def _overlap_linear(old: str, new: str, least: int) -> int:
    # Knuth, Morris, Pratt: failure[i] is the longest proper border of new[: i + 1].
    pattern = new[: len(old)]
    failure = [0] * len(pattern)
    length = 0
    for index in range(1, len(pattern)):
        while length and pattern[index] != pattern[length]:
            length = failure[length - 1]
        if pattern[index] == pattern[length]:
            length += 1
        failure[index] = length
    length = 0
    for char in old:
        while length and (length == len(pattern) or char != pattern[length]):
            length = failure[length - 1]
        if char == pattern[length]:
            length += 1
    return length if length >= least else 0
