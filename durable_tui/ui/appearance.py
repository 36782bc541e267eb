"""How the screen looks: themes from files, and the styles of the one in use (spec 22)."""

from __future__ import annotations

from pathlib import Path

from textual.app import App

from durable_tui.ui import themes as theme_files
from durable_tui.ui.styles import Styles


class Appearance:
    """The themes an app may have and the styles of the one it has. `own_folder` holds the person's own themes."""

    def __init__(self, app: App[int], wanted: str | None, own_folder: Path | None) -> None:
        self._app = app
        self._wanted = wanted
        self.own_folder = own_folder
        self._loaded: dict[str, theme_files.Loaded] = {}
        self._styles: tuple[str, Styles] | None = None  # of the theme so called

    @property
    def folders(self) -> list[Path]:
        """Where themes come from; later ones win."""
        return [theme_files.shipped_folder(), *([self.own_folder] if self.own_folder is not None else [])]

    def load(self) -> list[str]:
        """Read the themes; what is wrong with their files, one sentence each."""
        self._loaded, problems = theme_files.load_all(self.folders)
        for loaded in self._loaded.values():
            self._app.register_theme(loaded.theme)
        return problems

    def begin(self) -> None:
        """Take the first theme before the style sheets are read: a change afterwards reads all of them again."""
        app = self._app
        app.set_reactive(App.theme, theme_files.choose(self._wanted, self._loaded))
        dark = app.current_theme.dark
        for name, wanted in ((f"-theme-{app.theme}", True), ("-dark-mode", dark), ("-light-mode", not dark)):
            app.set_class(wanted, name, update=False)
        app._refresh_truecolor_filter(app.ansi_theme)
        app.stylesheet.set_variables(app.get_css_variables())

    def use_configured(self, name: str | None) -> None:
        """Take the theme the configuration names, unless another was asked for."""
        chosen = theme_files.choose(self._wanted or name, self._loaded)
        if chosen != self._app.theme:
            self._app.theme = chosen

    def names(self) -> list[str]:
        return list(self._loaded)

    def styles(self) -> Styles:
        """The styles of the theme in use."""
        name = self._app.theme
        if self._styles is None or self._styles[0] != name:
            loaded = self._loaded.get(name)
            theme = self._app.current_theme
            variables = {**theme.to_color_system().generate(), **theme.variables}
            self._styles = name, Styles(variables, plain=loaded.plain if loaded else False)
        return self._styles[1]

    def reload(self) -> list[str]:
        """Files changed: show the theme in use anew; what is wrong with them, as `load` says it."""
        problems = self.load()
        self._styles = None
        self._app._invalidate_css()
        self._app.refresh_css(animate=False)
        self._app.refresh(layout=True)
        return problems
