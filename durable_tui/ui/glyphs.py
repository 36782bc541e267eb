"""The one table of glyphs, each one cell wide, with its ASCII stand-in behind the setting `ascii` (look: states)."""

from __future__ import annotations

TABLE: dict[str, tuple[str, str]] = {
    "running": ("●", "*"),
    "busy": ("◐", "o"),
    "done": ("✓", "+"),
    "interrupted": ("◆", "!"),
    "rerun": ("↻", "r"),
    "woken": ("▶", ">"),
    "reattached": ("⇄", "="),
    "verified": ("≡", "="),
    "background": ("◌", "."),
    "clean": ("○", "o"),
    "failed": ("✕", "x"),
    "pending": ("·", "."),
    "blocked": ("■", "#"),
    "aborted": ("◇", "-"),
    "recovered": ("⟲", "@"),
    "folded": ("▸", ">"),
    "unfolded": ("▾", "v"),
    "bar": ("▎", "|"),
    "rail": ("│", "|"),
    "tee": ("├", "|"),
    "elbow": ("└", "`"),
    "cursor": ("▌", "_"),
    "bullet": ("•", "*"),
    "dot": ("·", "-"),
    "ellipsis": ("…", "~"),
    "minus": ("−", "-"),
    "rule": ("─", "-"),
    "down": ("↓", "v"),
    "up": ("↑", "^"),
    "box": ("☐", "o"),
    "checked": ("☑", "x"),
    "times": ("×", "x"),
    "at_least": ("≥", ">"),
}


class Glyphs:
    """Glyphs by name: `glyphs["done"]`."""

    __slots__ = ("_map",)

    def __init__(self, ascii_only: bool = False) -> None:
        self.use_ascii(ascii_only)

    def use_ascii(self, ascii_only: bool) -> None:
        """Change over in place: every widget of one app shares its table."""
        self._map = {name: pair[1 if ascii_only else 0] for name, pair in TABLE.items()}

    def __getitem__(self, name: str) -> str:
        return self._map[name]


UNICODE = Glyphs(False)
ASCII = Glyphs(True)
