"""The host: a person's places, settings, sessions, and opening one for a front end (spec 18)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from durable_tui.ground.lazy import lazy

if TYPE_CHECKING:
    from durable_tui.host.catalogue import Catalogue, SessionInfo
    from durable_tui.host.host_errors import ConfigError, HostError, ModelMissing, SessionUnknown
    from durable_tui.host.opening import Host, Opened, open_session
    from durable_tui.host.options import ScreenOptions
    from durable_tui.host.paths import Paths
    from durable_tui.host.prompt import PromptExtension
    from durable_tui.host.settings import Config, load_config

__all__ = [
    "Catalogue",
    "Config",
    "ConfigError",
    "Host",
    "HostError",
    "ModelMissing",
    "Opened",
    "Paths",
    "PromptExtension",
    "ScreenOptions",
    "SessionInfo",
    "SessionUnknown",
    "load_config",
    "open_session",
]

_LAZY = {
    "Catalogue": "catalogue",
    "Config": "settings",
    "ConfigError": "host_errors",
    "Host": "opening",
    "HostError": "host_errors",
    "ModelMissing": "host_errors",
    "Opened": "opening",
    "Paths": "paths",
    "PromptExtension": "prompt",
    "ScreenOptions": "options",
    "SessionInfo": "catalogue",
    "SessionUnknown": "host_errors",
    "load_config": "settings",
    "open_session": "opening",
}


__getattr__ = lazy(__name__, _LAZY)
