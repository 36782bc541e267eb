"""Where things are kept: one folder named by DURABLE_TUI_HOME, else the platform's own directories (spec 17.1)."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from durable_tui.host.host_errors import HostError

APP = "durable-tui"


@dataclass(slots=True, frozen=True)
class Paths:
    """The places of one user. Nothing is made before it is needed; folders are made 0700."""

    config: Path
    sessions: Path
    themes: Path
    extensions: Path
    logs: Path
    index: Path
    attachments: Path  # images pasted from the clipboard
    home: Path | None = None  # set when DURABLE_TUI_HOME chose the places

    @classmethod
    def from_env(cls, env: Mapping[str, str] | None = None) -> Paths:
        """The places that the environment asks for. An empty DURABLE_TUI_HOME counts as unset."""
        env = os.environ if env is None else env
        chosen = env.get("DURABLE_TUI_HOME", "")
        if chosen:
            return cls.under(Path(chosen).expanduser().absolute())
        import platformdirs

        data = Path(platformdirs.user_data_dir(APP, appauthor=False))
        return cls(
            config=Path(platformdirs.user_config_dir(APP, appauthor=False)) / "config.toml",
            sessions=data / "sessions",
            themes=data / "themes",
            extensions=data / "extensions",
            logs=Path(platformdirs.user_log_dir(APP, appauthor=False)),
            index=Path(platformdirs.user_cache_dir(APP, appauthor=False)) / "index.sqlite",
            attachments=data / "attachments",
        )

    @classmethod
    def under(cls, home: Path) -> Paths:
        """Everything in one folder."""
        return cls(
            config=home / "config.toml",
            sessions=home / "sessions",
            themes=home / "themes",
            extensions=home / "extensions",
            logs=home / "logs",
            index=home / "index.sqlite",
            attachments=home / "attachments",
            home=home,
        )

    def make_sessions(self) -> Path:
        """The folder of sessions, made when missing. Raises HostError when that cannot be."""
        return self._make(self.sessions)

    def make_attachments(self) -> Path:
        """The folder of pasted images, made when missing. Raises HostError when that cannot be."""
        return self._make(self.attachments)

    def _make(self, folder: Path) -> Path:
        if self.home is not None:
            private_folder(self.home)
        return private_folder(folder)


def private_folder(path: Path) -> Path:
    """Make a folder (and missing parents) that only its owner may enter. One of ours is tightened to 0700."""
    try:
        path.mkdir(mode=0o700, parents=True, exist_ok=True)
        if path.stat().st_uid == os.getuid() and path.stat().st_mode & 0o077:
            path.chmod(0o700)
    except OSError as error:
        raise HostError(
            f"{path}: cannot be made ({error.strerror or error}); set DURABLE_TUI_HOME to a folder you may write to"
        ) from None
    return path


def working_directory(path: str | os.PathLike[str] | None) -> str:
    """The canonical directory of `-C DIR` (or the current one). Raises HostError when it is none."""
    try:
        base = Path.cwd() if path is None else Path(path).expanduser()
        resolved = base.resolve(strict=True)
    except OSError as error:
        raise HostError(f"{path or 'current directory'}: {error.strerror or error}; choose one with -C DIR") from None
    if not resolved.is_dir():
        raise HostError(f"{path}: is not a directory; choose one with -C DIR")
    return str(resolved)


def short_path(path: str) -> str:
    """A path for people: the home directory as `~`."""
    home = os.path.expanduser("~")
    return "~" + path[len(home) :] if path == home or path.startswith(home + os.sep) else path


def check_platform(platform: str = sys.platform) -> None:
    """Raises HostError where the program does not run (spec 20)."""
    if platform != "darwin" and not platform.startswith("linux"):
        raise HostError(f"durable-tui runs on Linux and macOS, not on {platform}; on Windows use WSL")
