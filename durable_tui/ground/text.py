"""Outside text made safe for people: control sequences out, one line, a number of bytes in words. Pure."""

from __future__ import annotations

import re

INTRODUCERS = "\x1b\x90\x98\x9b\x9d\x9e\x9f"  # what a control sequence can begin with
# A string sequence (OSC, DCS, SOS, PM, APC) ends at its terminator, or where a line or another sequence begins: in
# binary output its beginning may stand without an end, and must not swallow the rest.
STRING_START = r"(?:\x1b[\]PX^_]|[\x90\x98\x9d\x9e\x9f])"
STRING_BODY = rf"[^\n\x07\x18\x1a\x9c{INTRODUCERS}]*"
_STRING_END = rf"(?:\x07|\x1b\\|\x9c|\x18|\x1a|(?=[\n{INTRODUCERS}])|\Z)"
SEQUENCE = re.compile(
    rf"(?:\x1b\[|\x9b)(?P<parameters>[0-?]*)(?P<between>[ -/]*)(?P<final>[@-~]|(?=[\n{INTRODUCERS}])|\Z)"  # CSI
    rf"|{STRING_START}{STRING_BODY}{_STRING_END}"
    r"|\x1b[ -/]*[0-~]"  # every other escape
    r"|\x1b"
)
_CONTROLS = re.compile(r"[\x00-\x07\x0b\x0c\x0e-\x1f\x7f-\x9f\u200e\u200f\u202a-\u202e\u2066-\u2069\ufeff]")
_SUSPECT = re.compile(
    r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u200e\u200f\u2028\u2029\u202a-\u202e\u2066-\u2069\ufeff\ud800-\udfff]"
)
_SURROGATE = re.compile(r"[\ud800-\udfff]")


def is_safe(text: str) -> bool:
    """Whether the text holds nothing that `clean` would change."""
    return _SUSPECT.search(text) is None


def drop_controls(text: str) -> str:
    """Remove control characters, overrides of direction and byte order marks, but no tab, line break or backspace."""
    return _CONTROLS.sub("", text)


def replace_surrogates(text: str) -> str:
    """Join halves of a pair that meet; lone ones, which no encoding takes, become U+FFFD."""
    if _SURROGATE.search(text) is None:
        return text
    return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")


def clean(text: str) -> str:
    """Return the text without control sequences and control characters, every line ending a line feed."""
    if is_safe(text):
        return text
    text = text.replace("\r\n", "\n").replace("\r", "\n").replace("\u2028", "\n").replace("\u2029", "\n")
    text = SEQUENCE.sub("", text)
    return replace_surrogates(drop_controls(text.replace("\b", "")))


def one_line(text: str, limit: int = 400) -> str:
    """Return the text as one clean line of at most `limit` characters, blanks folded, an ellipsis where it is cut."""
    # Only so much can be shown: a long text is not cleaned to its end.
    line = " ".join(clean(text[: limit * 4]).split())
    return line if len(line) <= limit else line[: limit - 1].rstrip() + "…"


def show_bytes(count: float) -> str:
    """Return a number of bytes for people: `999 bytes`, `50.0 KiB`, `1.2 GiB`."""
    if count < 1024:
        return f"{count:.0f} bytes"
    for unit in ("KiB", "MiB", "GiB"):
        count /= 1024
        if count < 1024 or unit == "GiB":
            break
    return f"{count:.1f} {unit}"
