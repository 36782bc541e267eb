"""Places (spec 17.1): one folder, private, and clear words when that cannot be."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest

from durable_tui.host.host_errors import HostError
from durable_tui.host.options import ScreenOptions
from durable_tui.host.paths import Paths, check_platform, private_folder, short_path, working_directory


def test_spec_17_1_one_folder_for_everything(tmp_path: Path) -> None:
    paths = Paths.from_env({"DURABLE_TUI_HOME": str(tmp_path / "h")})
    assert paths == Paths.under(tmp_path / "h")
    assert paths.make_sessions() == tmp_path / "h" / "sessions"
    for folder in (tmp_path / "h", paths.sessions):
        assert stat.S_IMODE(folder.stat().st_mode) == 0o700


def test_spec_17_1_without_it_the_platform_decides() -> None:
    paths = Paths.from_env({"DURABLE_TUI_HOME": ""})
    assert paths.home is None and paths.config.name == "config.toml"
    assert "durable-tui" in str(paths.sessions)


def test_spec_17_1_an_open_folder_of_ours_is_tightened(tmp_path: Path) -> None:
    folder = tmp_path / "open"
    folder.mkdir(mode=0o755)
    folder.chmod(0o755)
    assert stat.S_IMODE(private_folder(folder).stat().st_mode) == 0o700


def test_ui_k16_a_place_that_cannot_be_made_says_what_to_do(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(HostError, match="set DURABLE_TUI_HOME"):
        private_folder(tmp_path / "file" / "sessions")


def test_spec_20_directories(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "real")
    assert working_directory(tmp_path / "link") == str((tmp_path / "real").resolve())
    with pytest.raises(HostError, match="No such file"):
        working_directory(tmp_path / "gone")
    (tmp_path / "file").write_text("")
    with pytest.raises(HostError, match="not a directory"):
        working_directory(tmp_path / "file")
    monkeypatch.setenv("HOME", str(tmp_path))
    assert short_path(str(tmp_path / "real")) == f"~{os.sep}real"
    assert short_path(str(tmp_path) + "x") == str(tmp_path) + "x"


def test_spec_20_elsewhere_it_says_that_it_does_not_run() -> None:
    check_platform("linux")
    check_platform("darwin")
    with pytest.raises(HostError, match="Linux and macOS"):
        check_platform("win32")


@pytest.mark.parametrize(
    "options",
    [
        ScreenOptions("/a b"),
        ScreenOptions("/a", prompt="--new -- x", new=True, model="p/m/x", thinking="xhigh"),
        ScreenOptions("/a", session="./x=y.sqlite", paused=True, prompt="line\nline"),
    ],
)
def test_spec_21_screen_options_survive_the_launcher(options: ScreenOptions) -> None:
    assert ScreenOptions.from_words(options.words()) == options


@pytest.mark.parametrize("words", [[], ["--directory=/", "--what"], ["--directory=/", "--"], ["prompt"]])
def test_spec_21_other_words_are_refused(words: list[str]) -> None:
    with pytest.raises(ValueError, match=r"screen"):
        ScreenOptions.from_words(words)
