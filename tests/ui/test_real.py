"""The screen on a real session: host, harness and storage, with a scripted model."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from durable_tui.host.options import ScreenOptions
from durable_tui.ui.actions import SLASHES
from durable_tui.ui.app import DurableApp
from durable_tui.ui.commands.desk import CommandError
from tests.ui.kit import screen_text, until

TURNS = [
    {"thinking": "let me see", "text": "I look first.", "calls": [{"name": "read", "args": {"path": "a.txt"}}]},
    {"text": "It says **hello**."},
]


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    home = tmp_path / "home"
    home.mkdir()
    (home / "config.toml").write_text('model = "play/x"\n[providers.play]\napi = "scripted"\nscript = "turns.json"\n')
    (home / "turns.json").write_text(json.dumps(TURNS))
    folder = tmp_path / "project"
    folder.mkdir()
    (folder / "a.txt").write_text("hello\n")
    monkeypatch.setenv("DURABLE_TUI_HOME", str(home))
    monkeypatch.delenv("DURABLE_TUI_MODEL", raising=False)
    return folder


def make(folder: Path, **options: Any) -> DurableApp:
    return DurableApp(ScreenOptions(directory=str(folder.resolve()), **options))


async def test_a_prompt_is_answered_and_the_session_opens_again_as_it_was(project: Path) -> None:
    app = make(project)
    async with app.run_test(size=(120, 40)) as pilot:
        await until(pilot, lambda: app.session is not None and app.session.started)
        app.main.composer.insert("what does a.txt say?")
        await pilot.press("enter")
        await until(pilot, lambda: "It says hello." in screen_text(app))
        await until(pilot, lambda: "○ ready" in screen_text(app))
        shown = screen_text(app)
        assert "✓ read a.txt · 1 line" in shown and "▎what does a.txt say?" in shown
        await pilot.press(*"half")
        await pilot.press("ctrl+q")
        await until(pilot, lambda: app.return_code == 0)
    again = make(project)
    async with again.run_test(size=(120, 40)) as pilot:
        await until(pilot, lambda: again.session is not None and again.session.started)
        shown = screen_text(again)
        assert "It says hello." in shown and "✓ read a.txt · 1 line" in shown
        assert "recovered" not in shown
        assert again.main.composer.text == "half"
        await pilot.press("ctrl+q")
        await until(pilot, lambda: again.return_code == 0)


async def test_ui_k09_a_second_window_follows_what_the_first_does(project: Path) -> None:
    first = make(project)
    async with first.run_test(size=(120, 40)) as pilot:
        await until(pilot, lambda: first.session is not None and first.session.started)
        assert first.session is not None
        second = make(project, session=str(first.session.opened.path))
        async with second.run_test(size=(120, 40)) as other:
            await until(other, lambda: "open elsewhere" in screen_text(second))
            await other.press("enter")
            await until(other, lambda: second.session is not None and "read-only" in screen_text(second))
            first.main.composer.insert("what does a.txt say?")
            first.main.composer.submit("send")
            await until(other, lambda: "It says hello." in screen_text(second))
            await second.commands.run_slash(SLASHES["usage"], "")
            await until(other, lambda: "tokens" in second.main.footer.message[0][0])
            with pytest.raises(CommandError, match="read-only"):
                await second.commands.run_slash(SLASHES["rename"], "mine")
            second.main.composer.insert("me too")
            await other.press("enter")
            await until(other, lambda: "read-only" in second.main.composer.border_title)
            assert second.main.composer.text == "me too"
            await other.press("ctrl+q")
            await until(other, lambda: second.return_code == 0)
        await pilot.press("ctrl+q")
        await until(pilot, lambda: first.return_code == 0)


async def test_a_configuration_that_is_wrong_ends_with_status_2(project: Path) -> None:
    (project.parent / "home" / "config.toml").write_text("model = 3\n")
    app = make(project)
    async with app.run_test(size=(80, 24)) as pilot:
        await until(pilot, lambda: app.return_code == 2)
    assert app.failure is not None and "model" in app.failure[1]


async def test_keys_theme_and_ascii_come_from_the_configuration(project: Path) -> None:
    path = project.parent / "home" / "config.toml"
    path.write_text(path.read_text() + '[keys]\nhelp = "ctrl+g"\n[screen]\ntheme = "paper"\nascii = true\n')
    app = make(project)
    async with app.run_test(size=(100, 30)) as pilot:
        await until(pilot, lambda: app.session is not None and app.session.started)
        assert app.theme == "paper"
        assert "o ready" in screen_text(app)
        assert "^G help" in screen_text(app)
        await pilot.press("ctrl+g")
        await until(pilot, lambda: app.screen is not app.main)


async def test_an_unknown_key_action_is_said(project: Path) -> None:
    path = project.parent / "home" / "config.toml"
    path.write_text(path.read_text() + '[keys]\nnothing = "ctrl+g"\n')
    app = make(project)
    async with app.run_test(size=(100, 30)) as pilot:
        await until(pilot, lambda: "no action is called that" in screen_text(app))
