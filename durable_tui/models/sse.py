"""Server-sent events, decoded incrementally from bytes. Pure: no I/O, no clock.

Lines end at LF, CR or CRLF and nowhere else (U+2028, U+2029 and U+0085 are plain text), also when a chunk ends on the CR.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

_LINE_END = re.compile(rb"[\r\n]")
_BOM = b"\xef\xbb\xbf"
LINE_LIMIT = 64 * 1024 * 1024


class SseTooLong(Exception):
    """One event is longer than LINE_LIMIT bytes."""


@dataclass(slots=True, frozen=True)
class SseEvent:
    """One event: `data` lines joined by LF; `event` is its name ("message" unless given)."""

    data: str
    event: str = "message"


class SseParser:
    """Feed it bytes in any pieces; it gives back the events they complete.

    `comments` counts comment lines: a sign of life, never progress.
    """

    def __init__(self) -> None:
        self.comments = 0
        self._rest = bytearray()
        self._scanned = 0
        self._skip_lf = False
        self._first = True
        self._data: list[str] = []
        self._size = 0
        self._event = ""

    def feed(self, chunk: bytes) -> list[SseEvent]:
        """The events that `chunk` completes, in order. Raises SseTooLong."""
        if self._skip_lf and chunk:
            self._skip_lf = False
            if chunk[:1] == b"\n":
                chunk = chunk[1:]
        self._rest += chunk
        events: list[SseEvent] = []
        start = 0
        while (line_end := _LINE_END.search(self._rest, max(start, self._scanned))) is not None:
            line = bytes(self._rest[start : line_end.start()])
            start = line_end.end()
            if line_end.group() == b"\r":
                if start == len(self._rest):
                    self._skip_lf = True
                elif self._rest[start] == 0x0A:
                    start += 1
            event = self._line(line)
            if event is not None:
                events.append(event)
        del self._rest[:start]
        self._scanned = len(self._rest)
        if len(self._rest) + self._size > LINE_LIMIT:
            raise SseTooLong
        return events

    def finish(self) -> list[SseEvent]:
        """At the end of the body: the event that lacked its blank line, if there is one."""
        events: list[SseEvent] = []
        if self._rest:
            event = self._line(bytes(self._rest))
            self._rest.clear()
            self._scanned = 0
            if event is not None:
                events.append(event)
        event = self._line(b"")
        if event is not None:
            events.append(event)
        return events

    def _line(self, raw: bytes) -> SseEvent | None:
        if self._first:
            self._first = False
            raw = raw.removeprefix(_BOM)
        if not raw:
            return self._dispatch()
        if raw[:1] == b":":
            self.comments += 1
            return None
        name, _, value = raw.partition(b":")
        value = value.removeprefix(b" ")
        if name == b"data":
            self._data.append(value.decode("utf-8", "replace"))
            self._size += len(value)
        elif name == b"event":
            self._event = value.decode("utf-8", "replace")
        return None

    def _dispatch(self) -> SseEvent | None:
        data = "\n".join(self._data)
        event = SseEvent(data, self._event or "message") if data else None
        self._data.clear()
        self._size = 0
        self._event = ""
        return event
