"""The transcript: one line-API widget over the adapter's blocks (spec 21).

Blocks are laid out when they come into view and cached by (block, version, width); heights of the others are guessed.
The line at the top is held by block and line, so that corrections above never move what is being read.
"""

from __future__ import annotations

import logging
from collections import OrderedDict
from collections.abc import Callable
from typing import ClassVar

from rich.style import Style
from textual import events
from textual.geometry import Size
from textual.message import Message
from textual.reactive import reactive
from textual.scroll_view import ScrollView
from textual.selection import Selection
from textual.strip import Strip

from durable_tui.ground.clock import now_ms
from durable_tui.ui.actions import bindings
from durable_tui.ui.adapter.blocks import Block, Head, Key, Prose
from durable_tui.ui.adapter.chunks import Chunk
from durable_tui.ui.adapter.transcript_model import Changes, TranscriptModel
from durable_tui.ui.glyphs import UNICODE, Glyphs
from durable_tui.ui.styles import Styles
from durable_tui.ui.text.layout import estimate, layout
from durable_tui.ui.text.runs import Line, Run, clip_runs, runs_width, slice_cells, width
from durable_tui.ui.text.wrap import wrap
from durable_tui.ui.widgets.heights import Heights
from durable_tui.ui.widgets.paint import restyle, strip_of

log = logging.getLogger(__name__)
CACHED = 400  # blocks whose lines are kept
GONE = Block(("gone",), Prose(Chunk("")))


class Transcript(ScrollView, can_focus=True):
    """Shows `model`; the screen calls `show` with each frame's changes."""

    ALLOW_SELECT = True
    BINDINGS: ClassVar = bindings("transcript")
    follow: reactive[bool] = reactive(True)

    class NeedOlder(Message):
        """The top was reached and older entries may exist."""

    def __init__(self, *, styles: Callable[[], Styles], glyphs: Glyphs = UNICODE, id: str | None = None) -> None:
        super().__init__(id=id)
        self._styles = styles
        self.glyphs = glyphs
        self.model = TranscriptModel()
        self._heights = Heights()
        self._exact: set[int] = set()
        self._stable = 0  # blocks in _heights that are entries'; the rest is the tail
        self._lines: OrderedDict[Key, tuple[int, int, list[Line]]] = OrderedDict()
        self._anchor: tuple[int, int] = (0, 0)  # block and line at the top of the view
        self._settling = False
        self._current: Key | None = None
        self._unseen = 0
        self.has_older = False
        self._asked_older = False
        self.notice: list[list[Run]] = []  # lines shown while there are no blocks
        self.clock: Callable[[], int] = now_ms

    # --- content --------------------------------------------------------------------------------------------

    @property
    def cells(self) -> int:
        return max(self.scrollable_content_region.width - 1, 1)

    def blocks(self, index: int) -> Block:
        stable, tail = self.model.blocks, self.model.tail
        if index < len(stable):
            return stable[index]
        # Frames are taken in at once and painted later: what is asked for in between may be gone already.
        return tail[index - len(stable)] if index - len(stable) < len(tail) else GONE

    def attach(self, model: TranscriptModel) -> None:
        """Show another transcript from its end."""
        self.model = model
        self._lines.clear()
        self._current = None
        self._asked_older = False
        self.show(Changes(reset=True, tail=True))
        self.follow = True
        self.scroll_to_end()

    def show(self, changes: Changes) -> None:
        """Take a frame's changes in: what is new is measured, what is off the screen is only guessed."""
        model = self.model
        before = self._heights.total
        grown = 0
        if changes.reset:
            self._heights, self._stable, kept = Heights(), 0, 0
            self._exact.clear()
        else:
            kept = min(changes.kept, self._stable)
        if changes.reset or kept < len(model.blocks) or changes.tail:
            self._cut(min(kept, self._stable))
            for index in range(len(self._heights), len(model.blocks)):
                self._heights.append(estimate(model.blocks[index], self.cells))
                grown += 1
            self._stable = len(model.blocks)
            for block in model.tail:
                self._heights.append(estimate(block, self.cells))
        for index in changes.touched:
            if index < len(self._heights):
                self._exact.discard(index)
                if self.follow or index >= self._anchor[0]:
                    self._measure(index)
        if not self.follow:
            self._unseen += grown
        self._settle()
        if changes.reset or self._heights.total != before:
            self._resize_virtual()
        if self.follow:
            self.scroll_to_end()
        self.refresh()

    def _cut(self, length: int) -> None:
        self._exact = {index for index in self._exact if index < length} if len(self._heights) > length else self._exact
        self._heights.truncate(length)

    def prepended(self, count: int) -> None:
        """Older blocks were put in front; what is on the screen stays where it is."""
        anchor, line = self._anchor
        fixed = {index + count for index in self._exact}
        guesses = [estimate(block, self.cells) for block in self.model.blocks[:count]]
        old = [self._heights[index] for index in range(len(self._heights))]
        self._heights = Heights([*guesses, *old])
        self._stable += count
        self._exact = fixed
        self._anchor = (anchor + count, line)
        self._asked_older = False
        self._resize_virtual()
        self._go(self._heights.offset(anchor + count) + line)
        self.refresh()

    def tick(self) -> None:
        """The clock moved: running calls on the screen show their new time."""
        for index in self.model.running():
            block = self.model.blocks[index]
            self._lines.pop(block.key, None)
            if index < len(self._heights):
                self._measure(index)
                self.refresh_lines(self._heights.offset(index), self._heights[index])

    # --- layout ---------------------------------------------------------------------------------------------

    def _block_lines(self, index: int) -> list[Line]:
        block = self.blocks(index)
        found = self._lines.get(block.key)
        cells = self.cells
        if found is not None and found[0] == block.version and found[1] == cells:
            self._lines.move_to_end(block.key)
            return found[2]
        try:
            lines = layout(block, cells, self.glyphs, self.clock())
        except Exception as error:
            log.error("block %s cannot be shown", block.key, exc_info=error)
            lines = [Line(), Line([(f"  this part cannot be shown ({type(error).__name__})", "failed")], 2)]
        if index == 0 and lines and not lines[0].text and not self.has_older:
            lines = lines[1:]
        self._lines[block.key] = (block.version, cells, lines)
        if len(self._lines) > CACHED:
            self._lines.popitem(last=False)
        return lines

    def _measure(self, index: int) -> int:
        delta = self._heights.set(index, len(self._block_lines(index)))
        self._exact.add(index)
        return delta

    def _settle(self) -> None:
        """Measure what is in view and hold the anchor while doing so."""
        if self._settling or not len(self._heights):
            return
        self._settling = True
        try:
            height = max(self.scrollable_content_region.height, 1)
            if self.follow:
                index, seen = len(self._heights) - 1, 0
                while index >= 0 and seen <= height + 2:
                    if index not in self._exact or index >= self._stable:
                        self._measure(index)
                    seen += self._heights[index]
                    index -= 1
                self._anchor = self._heights.find(max(self._heights.total - height, 0))
                return
            block, line = self._anchor
            if block >= len(self._heights):
                block, line = len(self._heights) - 1, 0
            if block not in self._exact or block >= self._stable:
                self._measure(block)
            line = min(line, max(self._heights[block] - 1, 0))
            seen, index = -line, block
            while index < len(self._heights) and seen <= height + 2:
                if index not in self._exact or index >= self._stable:
                    self._measure(index)
                seen += self._heights[index]
                index += 1
            self._anchor = (block, line)
        finally:
            self._settling = False

    def _resize_virtual(self) -> None:
        size = Size(self.scrollable_content_region.width, self._heights.total)
        if size != self.virtual_size:
            self._settling = True
            try:
                self._set_virtual(size)
                if not self.follow and self._heights.total:
                    self._go(self._heights.offset(min(self._anchor[0], len(self._heights))) + self._anchor[1])
            finally:
                self._settling = False

    def _set_virtual(self, size: Size) -> None:
        longer = size.height > self.container_size.height
        if not longer or not self.show_vertical_scrollbar or size.width != self.virtual_size.width:
            self.virtual_size = size
            return
        # Only the bar tells of another length. The reactive would lay out and draw the whole screen with every line.
        self.set_reactive(ScrollView.virtual_size, size)
        self.vertical_scrollbar.window_virtual_size = size.height

    def _go(self, y: int) -> None:
        was, self._settling = self._settling, True
        try:
            self.scroll_to(y=max(y, 0), animate=False, force=True, immediate=True)
        finally:
            self._settling = was

    def scroll_to_end(self) -> None:
        self._go(max(self._heights.total - self.scrollable_content_region.height, 0))

    def watch_scroll_y(self, old_value: float, new_value: float) -> None:
        super().watch_scroll_y(old_value, new_value)
        if self._settling or round(old_value) == round(new_value):
            return
        total = self._heights.total
        height = self.scrollable_content_region.height
        at_end = round(new_value) >= total - height
        self.follow = at_end
        if at_end:
            self._unseen = 0
            self._anchor = self._heights.find(max(total - height, 0))
            return
        self._moved(round(new_value))

    def _moved(self, top: int) -> None:
        """The reader scrolled: measure what came into view; blocks above the former anchor keep its place."""
        former = self._anchor[0]
        block, line = self._heights.find(top)
        shift = 0
        for _ in range(8):
            grown = 0
            for index in range(block, min(former, len(self._heights))):
                if index not in self._exact:
                    grown += self._measure(index)
            if not grown:
                break
            shift += grown
            block, line = self._heights.find(max(top + shift, 0))
            former = min(former, block + self.scrollable_content_region.height)
        self._anchor = (block, line)
        self._settle()
        self._resize_virtual()
        if shift:
            self._go(top + shift)
        if block == 0 and self.has_older and not self._asked_older:
            self._asked_older = True
            self.post_message(self.NeedOlder())

    def on_resize(self, event: events.Resize) -> None:
        """Another width: everything is guessed anew, the anchor's block stays at the top."""
        cells = self.cells
        self._exact.clear()
        self._heights = Heights(estimate(self.blocks(index), cells) for index in range(len(self._heights)))
        self._settle()
        self._resize_virtual()
        if self.follow:
            self.scroll_to_end()
        elif len(self._heights):
            self._go(self._heights.offset(min(self._anchor[0], len(self._heights) - 1)) + self._anchor[1])

    # --- painting -------------------------------------------------------------------------------------------

    def repaint(self) -> None:
        """The theme changed."""
        self.refresh()

    def render_line(self, y: int) -> Strip:
        region = self.scrollable_content_region
        cells = max(region.width, 1)
        base = self.visual_style.rich_style
        styles = self._styles()
        row = self.scroll_offset.y + y
        if not len(self._heights):
            said = [line.runs for part in self.notice for line in wrap(part, max(cells - 4, 1))]
            first = max((region.height - len(said)) // 3, 0)
            runs = clip_runs(said[y - first] if first <= y < first + len(said) else [], cells)
            pad = max((cells - runs_width(runs)) // 2, 0)
            return strip_of([(" " * pad, ""), *runs], cells, styles, base)
        index, inner = self._heights.find(row)
        runs = []
        fill, indent = "", 0
        if index < len(self._heights):
            lines = self._block_lines(index)
            if inner < len(lines):
                line = lines[inner]
                runs, fill, indent = line.runs, line.fill, 0
                at_first = inner == (1 if len(lines) > 1 and not lines[0].text else 0)
                if self.has_focus and at_first and self.blocks(index).key == self._current:
                    fill = "cursor-line"
        strip = strip_of(runs, cells, styles, base, fill=fill, indent=indent)
        selection = self.text_selection
        if selection is not None:
            span = selection.get_span(row)
            if span is not None:
                style = self.screen.get_component_rich_style("screen--selection")
                strip = restyle(strip, span[0], span[1], Style(bgcolor=style.bgcolor))
        strip = strip.apply_offsets(0, row)
        if not self.follow and y == region.height - 1:
            strip = self._badge(strip, cells, styles, base)
        return strip

    def _badge(self, strip: Strip, cells: int, styles: Styles, base: Style) -> Strip:
        label = f" {self.glyphs['down']} {self._unseen} new " if self._unseen else f" {self.glyphs['down']} "
        runs: list[Run] = [(label, "bold live selected"), ("End ", "dim selected")]
        size = sum(width(text) for text, _ in runs)
        if size + 4 > cells:
            return strip
        return Strip.join(
            [strip.crop(0, cells - size - 1), strip_of(runs, size, styles, base), strip.crop(cells - 1, cells)]
        )

    # --- selection ------------------------------------------------------------------------------------------

    def get_selection(self, selection: Selection) -> tuple[str, str] | None:
        """The source text of the selected lines: no gutters, no soft breaks."""
        if not self._heights.total:
            return None
        first = selection.start.y if selection.start is not None else 0
        last = selection.end.y if selection.end is not None else self._heights.total - 1
        parts: list[str] = []
        for row in range(max(first, 0), min(last, self._heights.total - 1) + 1):
            span = selection.get_span(row)
            if span is None:
                continue
            index, inner = self._heights.find(row)
            lines = self._block_lines(index)
            if inner >= len(lines):
                continue
            line = lines[inner]
            text = line.text
            end = width(text) if span[1] < 0 else span[1]
            piece = slice_cells(text, max(span[0], line.gutter), end)
            if parts and line.join is not None:
                parts[-1] += line.join + piece
            else:
                parts.append(piece)
        return "\n".join(part.rstrip() for part in parts), "\n"

    def selection_updated(self, selection: Selection | None) -> None:
        self.refresh()

    # --- moving and folding ---------------------------------------------------------------------------------

    def _index_of(self, key: Key | None) -> int | None:
        if key is None:
            return None
        first, last = self._visible()
        for index in range(first, last):
            if self.blocks(index).key == key:
                return index
        return next((i for i in range(len(self._heights)) if self.blocks(i).key == key), None)

    def _visible(self) -> tuple[int, int]:
        top = self.scroll_offset.y
        first = self._heights.find(top)[0]
        last = self._heights.find(top + max(self.scrollable_content_region.height - 1, 0))[0]
        return first, min(last + 1, len(self._heights))

    def current(self) -> Block | None:
        index = self._index_of(self._current)
        return None if index is None else self.blocks(index)

    def step(self, direction: int) -> None:
        """To the next foldable block in view, else one line on."""
        first, last = self._visible()
        at = self._index_of(self._current)
        if at is None or not first <= at < last:
            at = first - 1 if direction > 0 else last
        index = at + direction
        while first <= index < last:
            if self.blocks(index).foldable:
                self._select(index)
                return
            index += direction
        self.scroll_relative(y=direction, animate=False)

    def _select(self, index: int | None) -> None:
        self._current = None if index is None else self.blocks(index).key
        self.refresh()

    def toggle(self, index: int) -> None:
        block = self.blocks(index)
        if self.model.toggle(block):
            self._lines.pop(block.key, None)
            self._exact.discard(index)
            was = self.follow
            if index < self._stable or not was:
                self.follow = was and self._heights.total <= self.scrollable_content_region.height
            self._measure(index)
            self._settle()
            self._resize_virtual()
            self.refresh()

    def toggle_current(self) -> bool:
        index = self._index_of(self._current)
        if index is None:
            first, last = self._visible()
            index = next((i for i in range(last - 1, first - 1, -1) if self.blocks(i).foldable), None)
        if index is None:
            return False
        self._select(index)
        self.toggle(index)
        return True

    def fold_all(self) -> None:
        """Fold everything, or unfold what is in view when all is folded."""
        stable = self.model.blocks
        changed = [index for index, block in enumerate(stable) if self.model.toggle(block, True)]
        if not changed:
            first, last = self._visible()
            changed = [i for i in range(first, min(last, len(stable))) if self.model.toggle(stable[i], False)]
        for index in changed:
            self._exact.discard(index)
        self._settle()
        self._resize_virtual()
        self.refresh()

    def jump_question(self, direction: int) -> bool:
        """To the previous or next thing a person said; False when there is none loaded."""
        at = self._heights.find(self.scroll_offset.y)[0]
        index = at + (1 if direction > 0 else -1)
        if direction < 0 and self._heights.find(self.scroll_offset.y)[1] > 1:
            index = at
        while 0 <= index < self._stable:
            data = self.blocks(index).data
            if isinstance(data, Head) and data.role == "user":
                self.follow = False
                self._anchor = (index, 0)
                self._settle()
                self._resize_virtual()
                self._go(self._heights.offset(index))
                self.refresh()
                return True
            index += direction
        if direction > 0:
            self.to_end()
        return False

    def to_end(self) -> None:
        self.follow = True
        self._unseen = 0
        self._settle()
        self._resize_virtual()
        self.scroll_to_end()
        self.refresh()

    def entry_blocks(self) -> list[Block]:
        """The blocks of the entry under the cursor, else of the last one."""
        block = self.current()
        if block is None and self._stable:
            block = self.blocks(self._stable - 1)
        if block is None or block.entry is None:
            return list(self.model.tail)
        return [item for item in self.model.blocks if item.entry == block.entry]

    def scroll_page(self, direction: int) -> None:
        self.scroll_relative(y=direction * max(self.scrollable_content_region.height - 2, 1), animate=False)

    def on_click(self, event: events.Click) -> None:
        if self.text_selection is not None and self.screen.get_selected_text():
            return
        row = self.scroll_offset.y + event.get_content_offset_capture(self).y
        at_badge = (
            row - self.scroll_offset.y == self.scrollable_content_region.height - 1 and event.x >= self.cells - 12
        )
        if not self.follow and at_badge:
            self.to_end()
            return
        index, inner = self._heights.find(row)
        if index < len(self._heights) and self.blocks(index).foldable:
            first = 1 if self.blocks(index).gap else 0
            if inner <= first:
                self._select(index)
                self.toggle(index)

    def watch_has_focus(self, value: bool) -> None:
        super().watch_has_focus(value)
        self.refresh()
