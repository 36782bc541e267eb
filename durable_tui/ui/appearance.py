"""How the screen looks: themes from files, the styles of the one in use, and changes as they are saved (spec 22)."""

from __future__ import annotations

from typing import Any

from textual.app import App

from durable_tui.ui import themes as theme_files
from durable_tui.ui.glyphs import Glyphs
from durable_tui.ui.styles import Styles


class Appearance(App[int]):
    """The part of the app that knows themes. `host` gives the person's own folder of them, once there is one."""

    def __init__(self, *, ascii_only: bool = False, theme: str | None = None, host: Any = None) -> None:
        self.glyphs = Glyphs(ascii_only)
        self._styles_made: Styles | None = None
        self._styles_theme = ""
        super().__init__()
        self.host = host
        self._wanted_theme = theme
        self._loaded: dict[str, theme_files.Loaded] = {}
        self._load_themes()
        self._begin_theme()

    def tell(self, text: str, tone: str = "dim") -> None:
        """A word for the person; the app says it in its footer."""

    def _load_themes(self) -> list[str]:
        folders = [theme_files.shipped_folder()]
        if self.host is not None:
            folders.append(self.host.paths.themes)
        self._loaded, problems = theme_files.load_all(folders)
        for loaded in self._loaded.values():
            self.register_theme(loaded.theme)
        return problems

    def _begin_theme(self) -> None:
        """Take the first theme before the style sheets are read: a change afterwards reads all of them again."""
        self.set_reactive(App.theme, theme_files.choose(self._wanted_theme, self._loaded))
        dark = self.current_theme.dark
        for name, wanted in ((f"-theme-{self.theme}", True), ("-dark-mode", dark), ("-light-mode", not dark)):
            self.set_class(wanted, name, update=False)
        self._refresh_truecolor_filter(self.ansi_theme)
        self.stylesheet.set_variables(self.get_css_variables())

    def theme_names(self) -> list[str]:
        return list(self._loaded)

    def get_theme_variable_defaults(self) -> dict[str, str]:
        return theme_files.variable_defaults()

    def theme_styles(self) -> Styles:
        """The styles of the theme in use."""
        if self._styles_made is None or self._styles_theme != self.theme:
            loaded = self._loaded.get(self.theme)
            theme = self.current_theme
            variables = {**theme.to_color_system().generate(), **theme.variables}
            self._styles_made = Styles(variables, plain=loaded.plain if loaded else False)
            self._styles_theme = self.theme
        return self._styles_made

    def _watch_theme(self, theme_name: str) -> None:
        self._styles_made = None
        super()._watch_theme(theme_name)

    def reload_themes(self) -> None:
        """Files changed: show the theme in use anew (spec 22)."""
        problems = self._load_themes()
        self._styles_made = None
        self._invalidate_css()
        self.refresh_css(animate=False)
        self.refresh(layout=True)
        if problems:
            self.tell(problems[0], "attention")

    async def _watch_files(self) -> None:
        from watchfiles import awatch

        folders = [folder for folder in (self.host.paths.themes, theme_files.shipped_folder()) if folder.is_dir()]
        if folders:
            async for _ in awatch(*folders, recursive=False):
                self.reload_themes()
