"""Replacing text in a file's bytes (cases T01-T15). Pure.

All edits match against the original; each must match exactly once, none may overlap, and all are applied or none.
Outside the replaced spans every byte stays. What a reader of the file cannot see does not keep a text from matching:
CRLF line ends and the byte order mark.
"""

from __future__ import annotations

import re
import unicodedata
from bisect import bisect_left
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from itertools import pairwise

BOM = b"\xef\xbb\xbf"
_MANY = 1000

# What tools put before lines: `   12: foo`, `12<tab>foo`, `12→foo`, `12| foo`; with one blank after the sign, then without.
_PREFIXES = (re.compile(r" *(\d+)(?:[:|] |[\t→])"), re.compile(r" *(\d+)[:|]"))

_LOOSE = str.maketrans(
    {
        **dict.fromkeys("\u2018\u2019\u201a\u201b\u2032", "'"),
        **dict.fromkeys("\u201c\u201d\u201e\u201f\u2033", '"'),
        **dict.fromkeys("\u2010\u2011\u2012\u2013\u2014\u2015\u2212", "-"),
        "\t": " ",
    }
)


class EditRefused(Exception):
    """The edits cannot be applied; the message is for the model. Nothing was changed."""


@dataclass(slots=True, frozen=True)
class Replacement:
    """One span of the original, `start`..`end`, and the bytes that take its place."""

    start: int
    end: int
    content: bytes


@dataclass(slots=True, frozen=True)
class _Match:
    """A span of the original with the replacement's text; `literal` text is not fitted to the file's line ends."""

    start: int
    end: int
    text: bytes
    literal: bool


class _View:
    """The file as a reader sees it: no byte order mark, LF line ends; positions lead back to the original."""

    def __init__(self, original: bytes) -> None:
        self.original = original
        self.skip = len(BOM) if original.startswith(BOM) else 0
        body = original[self.skip :]
        self.text = body.replace(b"\r\n", b"\n")
        self._returns: list[int] = []  # positions in `text` of newlines that were CRLF
        at = body.find(b"\r\n")
        while at >= 0:
            self._returns.append(at - len(self._returns))
            at = body.find(b"\r\n", at + 2)

    def back(self, position: int) -> int:
        return self.skip + position + bisect_left(self._returns, position)

    def ends_of(self, start: int, end: int) -> list[bytes]:
        """The line ends within a span of the original."""
        return re.findall(rb"\r?\n", self.original[start:end])

    def end_near(self, position: int) -> bytes:
        """The line end in use around a position of the original."""
        after = self.original.find(b"\n", position)
        at = after if after >= 0 else self.original.rfind(b"\n", 0, position)
        return b"\r\n" if at > 0 and self.original[at - 1 : at] == b"\r" else b"\n"


def apply_edits(original: bytes, edits: Iterable[tuple[str, str]]) -> list[Replacement]:
    """The replacements for (old text, new text) pairs, in file order. Raises EditRefused."""
    pairs = list(edits)
    if not pairs:
        raise EditRefused("there are no edits")
    if original.startswith((b"\xff\xfe", b"\xfe\xff")):
        raise EditRefused("the file is UTF-16 text, not UTF-8; convert it first, or edit it with a command")
    if b"\0" in original:
        raise EditRefused("the file is binary; edit it with a command")
    view = _View(original)
    valid = _is_utf8(original)
    matches: list[tuple[_Match, str]] = []
    for number, (old, new) in enumerate(pairs, 1):
        where = f"edit {number}: " if len(pairs) > 1 else ""
        try:
            matches.append((_match(view, old, new, valid), where))
        except EditRefused as error:
            raise EditRefused(f"{where}{error}") from None
    matches.sort(key=lambda item: (item[0].start, item[0].end))
    for (left, left_name), (right, right_name) in pairwise(matches):
        if right.start < left.end:
            raise EditRefused(
                f"{left_name.rstrip(': ')} and {right_name.rstrip(': ')} overlap; merge them into one edit"
            )
    return [_fit(view, match) for match, _ in matches]


def splice(original: bytes, replacements: Iterable[Replacement]) -> bytes:
    """The original with the replacements (in file order, not overlapping) in place."""
    pieces = []
    at = 0
    for item in replacements:
        pieces += [original[at : item.start], item.content]
        at = item.end
    pieces.append(original[at:])
    return b"".join(pieces)


def to_bytes(text: str, what: str) -> bytes:
    """UTF-8, with surrogate pairs joined. Half of a pair is refused: it would become another character on disk."""
    try:
        return text.encode("utf-8")
    except UnicodeEncodeError:
        try:
            return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le").encode("utf-8")
        except UnicodeDecodeError:
            raise EditRefused(f"{what} holds half of a surrogate pair, which is no character") from None


def _is_utf8(data: bytes) -> bool:
    try:
        data.decode("utf-8")
    except UnicodeDecodeError:
        return False
    return True


def _match(view: _View, old: str, new: str, valid: bool) -> _Match:
    if view.skip:
        old, new = old.removeprefix("\ufeff"), new.removeprefix("\ufeff")
    if not old:
        raise EditRefused("oldText is empty; give the text to replace")
    if old == new:
        raise EditRefused("oldText and newText are the same: no change")
    old_bytes, new_bytes = to_bytes(old, "oldText"), to_bytes(new, "newText")
    found = _exact(view, old_bytes, new_bytes) or _last_line(view, old_bytes, new_bytes)
    if found is None and valid:
        found = _without_numbers(view, old, new)
    if not valid:
        _check_encoding(view, old, new, found)
    if found is None:
        raise EditRefused(_not_found(view, old, valid))
    return found


def _exact(view: _View, old: bytes, new: bytes) -> _Match | None:
    if b"\r" in old and _means_line_ends(old, new):
        # taken by the byte, if it stands so exactly once
        starts = _positions(view.original, old)
        if len(starts) == 1:
            return _Match(starts[0], starts[0] + len(old), new, True)
    needle = old.replace(b"\r\n", b"\n")
    starts = _positions(view.text, needle)
    if len(starts) > 1:
        count = f"{len(starts)} times" if len(starts) < _MANY else f"{_MANY} times or more"
        raise EditRefused(f"oldText occurs {count}; give more of the text around the one that is meant")
    if not starts:
        return None
    replacement = new.replace(b"\r\n", b"\n")
    if needle == replacement:
        raise EditRefused("oldText and newText differ in nothing but line ends: no change")
    return _Match(view.back(starts[0]), view.back(starts[0] + len(needle)), replacement, False)


def _means_line_ends(old: bytes, new: bytes) -> bool:
    """Whether returns in the old text are to be taken at their word: the new text has them too, or is to lose them."""
    return b"\r" in new or b"\n" not in new or old.replace(b"\r\n", b"\n") == new


def _last_line(view: _View, old: bytes, new: bytes) -> _Match | None:
    """A target with a final newline also matches a last line that has none; the file stays without (case T13)."""
    needle = old.replace(b"\r\n", b"\n").removesuffix(b"\n")
    if not old.endswith(b"\n") or not needle or not view.text.endswith(needle):
        return None
    replacement = new.replace(b"\r\n", b"\n").removesuffix(b"\n")
    start = len(view.text) - len(needle)
    if needle == replacement:
        raise EditRefused("the last line has no final newline, and otherwise nothing changes: no change")
    return _Match(view.back(start), len(view.original), replacement, False)


def _without_numbers(view: _View, old: str, new: str) -> _Match | None:
    """Line numbers copied from a listing: only if every line carries its own, in order, and the exact text is absent."""
    for pattern in _PREFIXES:
        old_lines = _strip_numbers(old, pattern)
        if old_lines is None:
            continue
        new_lines = _strip_numbers(new, pattern)
        if new_lines is None and any(pattern.match(line) for line in new.split("\n")):
            return None  # some lines with, some without: what is meant is a guess
        stripped = to_bytes(old_lines, "oldText")
        if not stripped:
            continue
        found = _exact(view, stripped, to_bytes(new if new_lines is None else new_lines, "newText"))
        if found is not None:
            return found
    return None


def _strip_numbers(text: str, pattern: re.Pattern[str]) -> str | None:
    lines = text.split("\n")
    end = [lines.pop()] if lines[-1] == "" else []
    found = [pattern.match(line) for line in lines]
    numbers = [int(item.group(1)) for item in found if item is not None]
    if not numbers or len(numbers) < len(lines) or numbers != list(range(numbers[0], numbers[0] + len(lines))):
        return None
    return "\n".join([line[item.end() :] for line, item in zip(lines, found, strict=True) if item is not None] + end)


def _check_encoding(view: _View, old: str, new: str, found: _Match | None) -> None:
    """A file that is no UTF-8: only ASCII may be replaced by ASCII, away from bytes that could be half a character."""
    before = b"" if found is None else view.original[max(found.start - 1, 0) : found.start]
    if not (old.isascii() and new.isascii()) or before >= b"\x80":
        raise EditRefused(
            "the file is not valid UTF-8, so its encoding is unknown and text other than plain ASCII cannot be put into "
            "it without damage; convert it first (iconv), or edit it with a command that knows the encoding"
        )


def _fit(view: _View, match: _Match) -> Replacement:
    """Give the new text the line ends of what it replaces, and leave alone what both have in common at either end."""
    start, end, text = match.start, match.end, match.text
    if match.literal:
        return Replacement(start, end, text)
    ends = view.ends_of(start, end)
    usual = ends[-1] if ends else view.end_near(end)
    lines = text.split(b"\n")
    old_lines = view.original[start:end].replace(b"\r\n", b"\n").split(b"\n")
    head = 0
    while head < min(len(lines), len(old_lines)) - 1 and lines[head] == old_lines[head]:
        head += 1
    tail = 0
    while tail < min(len(lines), len(old_lines)) - head and lines[-1 - tail] == old_lines[-1 - tail]:
        tail += 1
    # lines in common keep their own ends; the rest take those they replace, in order, then that of the line before
    new_ends: list[bytes] = ends[:head]
    replaced = ends[head : len(old_lines) - tail]
    for index in range(len(lines) - head - max(tail, 1)):
        new_ends.append(replaced[index] if index < len(replaced) else (new_ends[-1] if new_ends else usual))
    new_ends += ends[len(old_lines) - tail :] if tail else []
    content = b"".join(line + ending for line, ending in zip(lines, [*new_ends, b""], strict=True))
    return Replacement(start, end, content)


def _positions(text: bytes, needle: bytes) -> list[int]:
    """Return where it stands, overlapping ones too; no more than _MANY."""
    found: list[int] = []
    at = text.find(needle)
    while at >= 0 and len(found) < _MANY:
        found.append(at)
        at = text.find(needle, at + 1)
    return found


def _loosen(text: str) -> str:
    lines = unicodedata.normalize("NFKC", text).translate(_LOOSE).split("\n")
    return "\n".join(re.sub(" +", " ", line).strip() for line in lines)


def _not_found(view: _View, old: str, valid: bool) -> str:
    if not view.text:
        return "oldText was not found: the file is empty"
    message = "oldText was not found; it must match exactly, blanks and line ends included"
    if not valid or len(view.text) > 2_000_000:
        return message
    return message + _hint(view.text.decode("utf-8"), old)


def _hint(text: str, old: str) -> str:
    loosenings: tuple[tuple[Callable[[str], str], str], ...] = (
        (_loosen, "differs only in blanks, quotes, dashes or composed characters"),
        (lambda value: _loosen(value).casefold(), "differs in upper and lower case"),
    )
    for loosen, how in loosenings:
        wanted = loosen(old.replace("\r\n", "\n")).strip("\n")
        loose = loosen(text)
        at = loose.find(wanted) if wanted else -1
        if at >= 0:
            line = loose.count("\n", 0, at) + 1
            return f". The text at line {line} {how}; copy it as it stands there"
    return ""
