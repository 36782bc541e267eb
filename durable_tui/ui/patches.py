"""The few corrections of Textual this program needs; each has a test that fails when it is not needed.

- `ESC CR`, what terminals without the kitty protocol send for Alt+Enter, arrives as plain Enter.
- A mouse report whose coordinates are no numbers is typed into the focused widget.
- A paste that holds the mark of its own end becomes keys from there on, and nothing tells its real end.
- A control sequence inside a marked paste takes what follows it out of the paste and types it.
- Pasted text without paste marks arrives as thousands of key presses, every line break of it an Enter.
- A process continued after a stop it did not choose enters its modes a second time: two readers share the keys.
- After a paint the next one waits for a tick of 1/60 s: typing beside a streaming answer feels it.
- When the terminal is gone the writing thread dies, and everything that draws waits for it for ever.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable

from textual import events, screen
from textual._xterm_parser import XTermParser
from textual.drivers._writer_thread import WriterThread
from textual.drivers.linux_driver import LinuxDriver
from textual.message import Message

from durable_tui.ground.text import SEQUENCE

_NUMBER = r"(?:[-+]?(?:nan|inf)|[-+.\d]*)"
_BROKEN_MOUSE = re.compile(rf"\x1b\[<(?=[^Mm\x1b]*(?i:nan|inf))(?i:{_NUMBER};{_NUMBER};{_NUMBER})[Mm]")
BURST = 48  # characters in one read that no hand can type
_PASTE_START, _PASTE_END = "\x1b[200~", "\x1b[201~"
_PLAIN = re.compile(r"[^\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f]+")
ECHO_PERIOD = 1 / 240  # seconds between paints at the least; how often the stream paints is the feed's affair
_applied = False


def is_burst(data: str) -> bool:
    """Whether what one read brought is a paste without marks: many characters, none of them a control sequence."""
    return len(data) >= BURST and _PLAIN.fullmatch(data) is not None


class Pastes:
    """What a terminal sends, rewritten so that nothing inside a marked paste ends it or is taken for keys (case UI-L08)."""

    def __init__(self) -> None:
        self.inside = False
        self._held = ""  # the beginning of what may be the mark of an end
        self._former = ""  # the end of what was passed on: a mark may be parted between two reads

    def take(self, data: str) -> tuple[str, bool]:
        """Return what to parse instead of this read, and whether it holds an end that no paste began.

        Such an end means that an earlier read held another one inside the paste: what came between was taken for keys.
        """
        data, self._held = self._held + data, ""
        parts: list[str] = []
        stray = False
        while data:
            if self.inside:
                data = self._pasted(data, parts)
                continue
            seen = self._former + data
            start = seen.find(_PASTE_START)
            self.inside = start >= 0
            cut = start + len(_PASTE_START) - len(self._former) if self.inside else len(data)
            stray = stray or _PASTE_END in (seen[: len(self._former) + cut])
            parts.append(data[:cut])
            self._former = "" if self.inside else seen[-(len(_PASTE_START) - 1) :]
            data = data[cut:]
        return "".join(parts), stray

    def begin_with(self, data: str) -> bool:
        """Whether this read completes the mark of a beginning that the one before began."""
        return _PASTE_START in self._former + data[: len(_PASTE_START)]

    def _pasted(self, data: str, parts: list[str]) -> str:
        """Take what belongs to the paste, to the last end before another beginning; return the rest."""
        end = data.find(_PASTE_END)
        if end < 0:
            kept = next((size for size in range(len(_PASTE_END) - 1, 0, -1) if data.endswith(_PASTE_END[:size])), 0)
            cut = len(data) - kept
            self._held = data[cut:]
            parts.append(_without_sequences(data[:cut]))
            return ""
        following = data.find(_PASTE_START, end)
        end = data.rfind(_PASTE_END, end, following if following >= 0 else len(data))
        parts.append(_without_sequences(data[:end]) + _PASTE_END)
        self.inside = False
        return data[end + len(_PASTE_END) :]


def _without_sequences(text: str) -> str:
    return SEQUENCE.sub("", text).replace("\x1b", "")


def apply() -> None:
    """Install the corrections once."""
    global _applied
    if _applied:
        return
    _applied = True
    to_keys = XTermParser._sequence_to_key_events
    feed = XTermParser.feed

    def with_alt_enter(self: XTermParser, sequence: str, alt: bool = False) -> Iterable[events.Key]:
        if alt and sequence == "\r":
            return [events.Key("alt+enter", None)]
        return to_keys(self, sequence, alt)

    def corrected(self: XTermParser, data: str) -> Iterable[Message]:
        if "\x1b[<" in data:
            data = _BROKEN_MOUSE.sub("", data)
        pastes: Pastes = self.__dict__.setdefault("_dtui_pastes", Pastes())
        if not pastes.inside and not pastes.begin_with(data) and is_burst(data):
            return [events.Paste(data)]
        taken, stray = pastes.take(data)
        if data and not taken:
            return []  # the parser takes an empty text for the end of all input
        return [*feed(self, taken), events.Paste("")] if stray else feed(self, taken)

    XTermParser._sequence_to_key_events = with_alt_enter  # type: ignore[method-assign]
    XTermParser.feed = corrected  # type: ignore[method-assign]
    if "TEXTUAL_FPS" not in os.environ:
        screen.UPDATE_PERIOD = ECHO_PERIOD  # type: ignore[misc]
    _correct_driver()


def _correct_driver() -> None:
    resume = LinuxDriver._sigcont_application
    write_all = WriterThread.run

    def continued(self: LinuxDriver, *signal: object) -> None:
        if not os.isatty(self.fileno):
            return  # a hang-up continues what it ends
        reader = self._key_thread
        if self._auto_restart and reader is not None and reader.is_alive():
            self.suspend_application_mode()
            self._must_signal_resume = True
        resume(self, *signal)

    def until_told(self: WriterThread) -> None:
        try:
            write_all(self)
        except OSError:
            while self._queue.get() is not None:
                pass  # nobody is left to see it

    LinuxDriver._sigcont_application = continued  # type: ignore[method-assign]
    WriterThread.run = until_told  # type: ignore[method-assign]
