"""The header: title, directory, model on the left; state, context, cost, commit on the right."""

from __future__ import annotations

from collections.abc import Callable

from textual.strip import Strip
from textual.widget import Widget

from durable_tui.ground.text import one_line
from durable_tui.ui.adapter.header import STATES, Header
from durable_tui.ui.glyphs import UNICODE, Glyphs
from durable_tui.ui.styles import Styles
from durable_tui.ui.text.runs import Run, clip, runs_width
from durable_tui.ui.widgets.paint import strip_of


class HeaderLine(Widget):
    """One line; parts give way from the least important on where there is no room."""

    ALLOW_SELECT = False

    def __init__(self, *, styles: Callable[[], Styles], glyphs: Glyphs = UNICODE, id: str | None = None) -> None:
        super().__init__(id=id)
        self._styles = styles
        self.glyphs = glyphs
        self.facts = Header()
        self.badge = " durable "

    def show(self, facts: Header) -> None:
        if facts != self.facts:
            self.facts = facts
            self.refresh()

    def runs(self, cells: int) -> list[Run]:
        facts = self.facts
        glyph, word, tone = STATES[facts.state]
        state: list[Run] = [(f"{self.glyphs[glyph]} {word}", f"bold {tone}")]
        right = [list(state)]
        if facts.context:
            right.append([(facts.context, "dim")])
        if facts.cost:
            right.append([(facts.cost, "dim")])
        if facts.seq:
            right.append([(f"#{facts.seq}", "identity")])
        title, cwd, model = one_line(facts.title, 200), one_line(facts.cwd, 200), one_line(facts.model, 100)
        short = model.split("/", 1)[-1]
        if facts.thinking and model:
            level = f" {self.glyphs['dot']} {one_line(facts.thinking, 20)}"
            model, short = model + level, short + level
        badge: list[Run] = [(self.badge, "bold live reverse")]
        everything = len(right)
        plans = (
            (everything, cwd, model),
            (everything, cwd, short),
            (everything, "", short),
            (2, "", short),
            (1, "", short),
            (1, "", ""),
        )
        for count, path, name in plans:
            tail: list[Run] = []
            for part in right[:count]:
                tail += [("   ", ""), *part]
            head = list(badge)
            rest: list[Run] = [(f"   {path}", "dim")] if path else []
            rest += [(f"   {name}", "dim")] if name else []
            room = cells - runs_width(head) - runs_width(rest) - runs_width(tail) - 3
            wanted = min(len(title), 24)
            if room >= wanted or (count == 1 and not name):
                if room < 4:
                    return [*head, *tail]
                shown = clip(title, room, self.glyphs["ellipsis"])
                left = [*head, ("  ", ""), (shown, "bold"), *rest]
                gap = cells - runs_width(left) - runs_width(tail) - 1
                return [*left, (" " * max(gap, 0), ""), *tail]
        return list(state)

    def render_line(self, y: int) -> Strip:
        cells = self.size.width
        base = self.visual_style.rich_style
        return strip_of(self.runs(cells) if y == 0 else [], cells, self._styles(), base)
