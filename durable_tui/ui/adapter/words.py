"""The words and numbers people read: times, durations, sizes, task names. Times are milliseconds."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from durable_tui.delta import Json

MODES = {"steer": "steer", "followUp": "follow-up", "write": "write"}


def day(at: int | None, now: int) -> str:
    """How long ago for a list: `10:42` today, `yesterday`, `3 days`, `3 weeks`, else the date."""
    if not at:
        return ""
    try:
        then, today = time.localtime(at / 1000), time.localtime(now / 1000)
        midnight = time.mktime((today.tm_year, today.tm_mon, today.tm_mday, 0, 0, 0, 0, 0, -1)) * 1000
    except (OverflowError, ValueError, OSError):
        return ""
    if at >= midnight:
        return time.strftime("%H:%M", then)
    days = int((midnight - at) // 86_400_000) + 1
    if days == 1:
        return "yesterday"
    if days < 14:
        return f"{days} days"
    if days < 60:
        return f"{days // 7} weeks"
    return time.strftime("%Y-%m-%d", then)


def elapsed(milliseconds: float) -> str:
    """`0.1 s`, `42 s`, `3 min 20 s`, `2 h 5 min`."""
    seconds = max(milliseconds, 0) / 1000
    if seconds < 10:
        return f"{seconds:.1f} s"
    whole = int(seconds)
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} min {whole % 60} s" if whole % 60 else f"{whole // 60} min"
    return f"{whole // 3600} h {whole % 3600 // 60} min"


def next_look(at: int, now: int) -> str:
    """When an answer made elsewhere is asked for again: `next look in 4.0 s`, or that it is asked for right now."""
    return f"next look in {elapsed(at - now)}" if at > now else "looking now"


def tokens(count: int) -> str:
    """`980`, `128k`, `1.2M`."""
    if count < 1000:
        return str(count)
    if count < 1_000_000:
        return f"{count / 1000:.0f}k"
    return f"{count / 1_000_000:.1f}M"


def size(count: int) -> str:
    """Bytes for people: `812 B`, `1.2 kB`, `3.4 MB`."""
    if count < 1000:
        return f"{count} B"
    if count < 1_000_000:
        return f"{count / 1000:.1f} kB"
    return f"{count / 1_000_000:.1f} MB"


def plural(count: int, word: str, many: str | None = None) -> str:
    return f"{count:,} {word if count == 1 else many or word + 's'}".replace(",", " ")


def task_name(task_id: int | None, kind: str = "") -> str:
    """`G5`, `T13`, `C2`: the kind's letter and the id."""
    if task_id is None:
        return ""
    return f"{(kind.rsplit('.', 1)[-1][:1] or 't').upper()}{task_id}"


def is_built_in(kind: str) -> bool:
    """Whether a kind of task comes with the program; the names of others begin otherwise (spec 1)."""
    return kind.startswith(("pi.", "dt."))


def kind_word(kind: str) -> str:
    return kind.removeprefix("pi.").removeprefix("dt.")


def summary(name: str, arguments: Json) -> str:
    """A short phrase for a tool call's arguments: the path, the command, else the arguments as they are."""
    if not isinstance(arguments, Mapping) or not arguments:
        return "" if not arguments else str(arguments)
    for key in ("path", "command", "url", "pattern", "query", "prompt", "task", "file", "name"):
        value = arguments.get(key)
        if isinstance(value, str) and value.strip():
            lines = value.strip().split("\n")
            return lines[0] + (" …" if len(lines) > 1 else "")
    return ", ".join(f"{key}={_short(value)}" for key, value in list(arguments.items())[:6])


def _short(value: Json) -> str:
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str)
    text = text.split("\n", 1)[0]
    return text if len(text) <= 60 else text[:59] + "…"


def home_path_in(text: str, home: str = "") -> str:
    """A sentence with the home folder in its paths as `~`."""
    return text.replace(f" {home.rstrip('/')}/", " ~/") if home else text


def home_path(path: str, home: str = "") -> str:
    """The path with the home folder as `~`."""
    if home and (path == home or path.startswith(home.rstrip("/") + "/")):
        return "~" + path[len(home.rstrip("/")) :]
    return path
