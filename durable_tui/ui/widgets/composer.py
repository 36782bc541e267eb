"""The composer: text leaves it only when the commit that took it has returned (spec 21).

It knows nothing of sessions: it asks through messages and is told through `accepted` and `refused`.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable
from typing import ClassVar, Literal

from textual import events
from textual.message import Message
from textual.strip import Strip
from textual.timer import Timer
from textual.widgets import TextArea

from durable_tui.ground.text import clean
from durable_tui.host.attachments import mention
from durable_tui.ui.actions import action_of, bindings, complete_slash
from durable_tui.ui.widgets.paint import plain
from durable_tui.ui.widgets.suggestions import Suggestion, Suggestions

log = logging.getLogger(__name__)
Mode = Literal["send", "follow_up"]
DRAFT_DELAY = 0.25  # seconds without a change before a draft is committed
DRAFT_AGAIN = 2.0  # seconds until a draft that could not be committed is tried again
DRAFT_LIMIT = 1.0  # seconds after which it is committed although the typing goes on
BURST_GAP = 0.004  # seconds between keys that no hand makes
BURST_KEYS = 6
BURST_HOLD = 0.04  # how long an Enter inside a burst waits for what follows it
PASTE_TIME = 5.0  # seconds a paste may be looked at
LONG = 400_000  # characters
NEVER = "\0"  # in place of the stored draft: equal to nothing that can be written


async def _as_it_is(text: str) -> str:
    return text


class Composer(TextArea):
    """Messages tell what the person wants; `said_before` gives earlier texts, oldest first."""

    BINDINGS: ClassVar = bindings("composer")

    class Submitted(Message):
        def __init__(self, text: str, mode: Mode) -> None:
            super().__init__()
            self.text = text
            self.mode = mode

    class Drafted(Message):
        """The draft has settled and wants to be stored."""

        def __init__(self, text: str) -> None:
            super().__init__()
            self.text = text

    class EmptyEntered(Message):
        """Enter with nothing written."""

    def __init__(self, suggestions: Suggestions, *, id: str | None = None) -> None:
        super().__init__(
            id=id, soft_wrap=True, tab_behavior="focus", show_line_numbers=False, compact=False,
            highlight_cursor_line=False, placeholder="type a message, / for commands, @ for files",
        )  # fmt: skip
        self.cursor_blink = False
        self.suggestions = suggestions
        self.said_before: Callable[[], list[str]] = list
        self.files: Callable[[str], list[str]] = lambda prefix: []
        self.pasted: Callable[[str], Awaitable[str]] = _as_it_is
        self.cleared: list[str] = []
        self.pending: str | None = None  # being committed right now
        self._refused = ""  # what the error shown is about
        self._walk: int | None = None
        self._kept = ""  # what was written before walking
        self._draft_timer: Timer | None = None
        self._changed_at: float | None = None  # the first change that is in no stored draft
        self._stored = ""
        self._handed: str | None = None  # a draft on its way to its commit: not stored yet
        self._burst = 0
        self._last_key = 0.0
        self._held: tuple[Timer, Mode] | None = None
        self._dismissed = ""

    # --- text -----------------------------------------------------------------------------------------------

    def put(self, text: str, *, stored: bool = False) -> None:
        """Replace the text, undoably; the cursor goes to its end."""
        text = clean(text)[:LONG]
        if text != self.text:
            self.replace(text, (0, 0), self.document.end, maintain_selection_offset=False)
            self.move_cursor(self.document.end)
        if stored:
            self._stored, self._handed = text, None

    def clear_to_history(self) -> None:
        """Ctrl+C: the text goes, and stays one key (Up) away."""
        if self.text.strip():
            self.cleared.append(self.text)
            self.store_draft()  # all of it: what is stored may be its beginning, and comes back after a restart
        self._walk = None
        self.put("")

    def accepted(self, text: str) -> None:
        """The commit that took this text has returned."""
        self.pending = None
        self._stored, self._handed = "", None
        self._walk = None
        if self.text == text:
            self.put("")
        elif self.text.startswith(text):
            self.put(self.text[len(text) :].lstrip("\n"))
        self.set_class(False, "-error")
        self.border_title = ""

    def refused(self, text: str, message: str) -> None:
        """The text was not taken; it stays, or comes back when it is gone."""
        self.pending = None
        if not self.text.strip():
            self.put(text)
        self._refused = self.text
        self.tell(message)

    def tell(self, message: str) -> None:
        self.set_class(bool(message), "-error")
        self.border_title = plain(message)

    # --- drafts ---------------------------------------------------------------------------------------------

    def on_text_area_changed(self, event: TextArea.Changed) -> None:
        event.stop()
        if self.has_class("-error") and self.text != self._refused:  # giving it back is a change, too
            self.tell("")
        if self._draft_timer is not None:
            self._draft_timer.stop()
        now = time.monotonic()
        if self._changed_at is None:
            self._changed_at = now
        wait = min(DRAFT_DELAY, self._changed_at + DRAFT_LIMIT - now)
        self._draft_timer = self.set_timer(max(wait, 0.001), self.store_draft)
        self.suggest()

    def store_draft(self) -> None:
        """Hand the draft over now. A cleared text stays the stored one until something follows it."""
        if self._draft_timer is not None:
            self._draft_timer.stop()
            self._draft_timer = None
        self._changed_at = None
        text = self.text
        if text == self._stored or self.pending is not None:
            return
        if not text and self.cleared and self.cleared[-1] == self._stored:
            return
        self._stored = self._handed = text
        self.post_message(self.Drafted(text))

    def kept(self, text: str) -> None:
        """The commit of this draft has returned."""
        if self._handed == text:
            self._handed = None

    def not_stored(self, text: str) -> None:
        """The commit of this draft failed: it counts as unsaved, and is tried again."""
        if self._stored == text:
            self._stored, self._handed = NEVER, None
            if self._draft_timer is None:
                self._draft_timer = self.set_timer(DRAFT_AGAIN, self.store_draft)

    @property
    def unsaved(self) -> str | None:
        """The text when it is not the stored draft yet; for closing."""
        text = self.text
        if not text and self.cleared and self.cleared[-1] == self._stored:
            return self._handed
        return text if text != self._stored or self._handed is not None else None

    def on_blur(self) -> None:
        self.store_draft()

    # --- keys -----------------------------------------------------------------------------------------------

    def render_line(self, y: int) -> Strip:
        # Wrapping the placeholder into no cells at all is an error in textual.
        return super().render_line(y) if self.content_size.width else Strip.blank(self.size.width)

    async def _on_key(self, event: events.Key) -> None:
        self._burst = self._burst + 1 if event.time - self._last_key < BURST_GAP else 0
        self._last_key = event.time
        if self._held is not None and event.is_printable:
            self._release_held()
            self.insert("\n")
        # Here and not as priority bindings: those would overtake characters that still wait in this widget's queue.
        action = action_of(event.key, "composer", getattr(self.app, "keymap", {}))
        if action is not None and await self.app.run_action(f"app.act('{action.id}')", self):
            event.stop()
            event.prevent_default()
            return
        await super()._on_key(event)

    async def _on_paste(self, event: events.Paste) -> None:
        event.stop()
        event.prevent_default()
        # What comes at once behind a paste is no hand's: a paste that ends itself must not press Enter (case UI-L08).
        self._burst, self._last_key = BURST_KEYS, event.time
        if self._held is not None:
            self._release_held()
            self.insert("\n")
        text = clean(event.text)
        if text:
            text = await self._become(text)
            self._replace_via_keyboard(text, *self.selection)
            self.call_after_refresh(self.scroll_cursor_visible)  # the composer may have grown meanwhile

    async def _become(self, text: str) -> str:
        """What a paste becomes. Keys that follow wait for it; a file system that hangs does not hold them up for long."""
        try:
            became = clean(await asyncio.wait_for(self.pasted(text), PASTE_TIME))
        except Exception as error:
            log.warning("a paste was not looked at", exc_info=error)
            return text
        return became[1:] if became != text and self.text[: self._offset()].endswith("@") else became

    def attach(self, word: str) -> None:
        """Put the mention of a file where the cursor is, as a word of its own (not one with the command that asked)."""
        before = self.text[: self._offset()]
        blank = "" if not before or before[-1].isspace() or before == self.pending else " "
        self._replace_via_keyboard(f"{blank}{word} ", *self.selection)
        self.focus()

    def submit(self, mode: Mode) -> None:
        """Enter or its like: a line break, a suggestion taken, or off it goes."""
        # By when the keys came, never by when they are handled: a busy machine handles a burst late.
        if self._held is None and self._burst >= BURST_KEYS:
            self._held = (self.set_timer(BURST_HOLD, lambda: self._send_held(mode)), mode)
            return
        if self._held is not None:
            self._release_held()
            self.insert("\n\n")
            return
        self._send(mode)

    def _release_held(self) -> None:
        if self._held is not None:
            self._held[0].stop()
            self._held = None

    def _send_held(self, mode: Mode) -> None:
        self._held = None
        self._send(mode)

    def _send(self, mode: Mode) -> None:
        row, column = self.cursor_location
        line = self.document.get_line(row)
        if line[:column].endswith("\\") and not line[:column].endswith("\\\\") and column == len(line):
            self.replace("\n", (row, column - 1), (row, column))
            return
        chosen = self.suggestions.chosen()
        if chosen is not None and chosen.text.strip() != self.text[chosen.start :].strip():
            self.take(chosen)
            return
        self.suggestions.offer([])
        text = self.text
        if not text.strip():
            self.post_message(self.EmptyEntered())
            return
        if self.pending is not None:
            return
        self.pending = text
        self.post_message(self.Submitted(text, mode))

    def newline(self) -> None:
        self._replace_via_keyboard("\n", *self.selection)

    # --- history --------------------------------------------------------------------------------------------

    def walk(self, direction: int) -> bool:
        """Up and Down: moves among suggestions, then through earlier texts. False leaves the key to the text."""
        if self.suggestions.open:
            self.suggestions.step(direction)
            return True
        row, _ = self.cursor_location
        if self._walk is None:
            if direction > 0 or self.text.strip():
                return False
        elif (
            self.text != self._walked()
            or (direction < 0 and row > 0)
            or (direction > 0 and row < self.document.line_count - 1)
        ):
            return False
        texts = self._texts()
        if not texts:
            return False
        if self._walk is None:
            self._kept = self.text
            self._walk = len(texts)
        target = self._walk + direction
        if target < 0:
            return True
        if target >= len(texts):
            self._walk = None
            self.put(self._kept)
            return True
        self._walk = target
        self.put(texts[target])
        return True

    def _texts(self) -> list[str]:
        texts: list[str] = []
        for text in [*self.said_before(), *self.cleared]:
            if text.strip() and (not texts or texts[-1] != text):
                texts.append(text)
        return texts

    def _walked(self) -> str | None:
        texts = self._texts()
        return clean(texts[self._walk]) if self._walk is not None and self._walk < len(texts) else None

    # --- suggestions ----------------------------------------------------------------------------------------

    def take(self, chosen: Suggestion | None = None) -> bool:
        """Put the chosen suggestion in; False when there is none."""
        chosen = chosen or self.suggestions.chosen()
        if chosen is None:
            return False
        before = self.text[: chosen.start]
        at = self._offset()
        after = self.text[at:]
        self.put(before + chosen.text + after)
        self._dismissed = chosen.text if not chosen.text.endswith("/") else ""
        self.suggest()
        return True

    def dismiss(self) -> bool:
        """Close the list; False when it is not open."""
        if not self.suggestions.open:
            return False
        self._dismissed = self.text
        self.suggestions.offer([])
        return True

    def _offset(self) -> int:
        row, column = self.cursor_location
        return sum(len(self.document.get_line(line)) + 1 for line in range(row)) + column

    def suggest(self) -> None:
        """Offer what the text before the cursor may become."""
        text = self.text
        if len(text) > 4000 or self._walk is not None or not self.has_focus or text == self._dismissed:
            self.suggestions.offer([])
            return
        found = [
            Suggestion(
                0,
                f"/{action.slash}" + (" " if action.argument else ""),
                f"/{action.slash} {action.argument}".strip(),
                action.help,
            )
            for action in complete_slash(text)
        ]
        if not found:
            head = text[: self._offset()]
            word = head.rsplit(None, 1)[-1] if head and not head[-1].isspace() else ""
            if word.startswith("@"):
                start = len(head) - len(word)
                found = [Suggestion(start, mention(path), path) for path in self.files(word[1:])]
        self.suggestions.offer(found)

    def on_focus(self) -> None:
        self.suggest()
