"""Choosing a model and how much it thinks."""

from __future__ import annotations

from pathlib import Path

import pytest

from durable_tui.host.options import ScreenOptions
from durable_tui.ui.screens.models import ModelsScreen
from tests.tools import ui_fakes as fakes
from tests.ui.kit import running, screen_text, until


def typed(text: str) -> list[str]:
    return [
        "slash" if char == "/" else "full_stop" if char == "." else "minus" if char == "-" else char for char in text
    ]


async def test_the_model_list_is_there_at_once_and_local_servers_join_when_they_answer() -> None:
    async with running() as (app, pilot, opened):
        await pilot.press(*typed("/model"), "enter")
        await until(pilot, lambda: "deepseek-reasoner" in screen_text(app))
        before = screen_text(app)
        assert "ANTHROPIC_API_KEY" in before and "asking its server" in before and "qwen3" not in before
        await pilot.press("down")  # the screen is alive while the servers are asked
        key = app.screen.query_one("#found").key
        opened.models.answer.set()
        await until(pilot, lambda: "ollama/qwen3:8b" in screen_text(app))
        after = screen_text(app)
        assert "no server answers" in after and "asking its server" not in after
        assert app.screen.query_one("#found").key == key == "deepseek/deepseek-reasoner"
        rows = [line for line in after.split("\n") if "/" in line]
        assert any(
            "deepseek-chat" in line and "✓" in line and "current" in line and "$0.28 / $0.42" in line for line in rows
        )
        assert any("gpt-5.2" in line and "default" in line and "400k" in line for line in rows)
        await pilot.press("enter")
        await until(pilot, lambda: ("configure", {"model": key}) in opened.root.calls)
        await until(pilot, lambda: "answers from the next request on" in screen_text(app))
        assert opened.models.learned == [key] and app.main.composer.text == ""


async def test_the_model_list_is_searched_as_one_types_and_takes_a_name_that_is_not_listed() -> None:
    opened = fakes.FakeOpened(fakes.FakeConversation(), fakes.FakeHarness())
    opened.models.answer.set()
    async with running(opened) as (app, pilot, _):
        await pilot.press(*typed("/model"), "enter")
        await until(pilot, lambda: "qwen3:8b" in screen_text(app))
        await pilot.press(*typed("lla"))
        await until(pilot, lambda: "gpt-5.2" not in screen_text(app))
        assert "llama3.2:3b" in screen_text(app) and "no server answers" in screen_text(app)
        await pilot.press("backspace", "backspace", "backspace", *typed("zzz"))
        await until(pilot, lambda: "nothing is called that" in screen_text(app))
        await pilot.press("enter")
        assert isinstance(app.screen, ModelsScreen), "there is nothing to choose"
        await pilot.press("backspace", "backspace", "backspace", *typed("nope/x"))
        await until(pilot, lambda: "there is no provider 'nope'" in screen_text(app))
        for _ in "nope/x":
            await pilot.press("backspace")
        await pilot.press(*typed("openai/gpt-9"))
        await until(pilot, lambda: "as typed" in screen_text(app))
        await pilot.press("enter")
        await until(pilot, lambda: ("configure", {"model": "openai/gpt-9"}) in opened.root.calls)


async def test_esc_leaves_the_model_list_while_servers_are_still_asked() -> None:
    async with running() as (app, pilot, opened):
        await pilot.press(*typed("/model"), "enter")
        await until(pilot, lambda: "asking its server" in screen_text(app))
        await pilot.press("escape")
        await until(pilot, lambda: app.screen is app.main)
        opened.models.answer.set()
        await pilot.press("h", "i")
        assert app.main.composer.text == "hi" and not [call for call in opened.root.calls if call[0] == "configure"]


async def test_what_only_explains_can_be_scrolled_to() -> None:
    opened = fakes.FakeOpened(fakes.FakeConversation(), fakes.FakeHarness())
    opened.models.answer.set()
    async with running(opened, size=(80, 14)) as (app, pilot, _):
        await pilot.press(*typed("/model"), "enter")
        await until(pilot, lambda: "current" in screen_text(app))
        assert "type box/MODEL" not in screen_text(app)
        for _ in range(20):
            await pilot.press("down")
        await until(pilot, lambda: "type box/MODEL" in screen_text(app))
        assert app.screen.query_one("#found").key == "ollama/llama3.2:3b"
        for _ in range(20):
            await pilot.press("up")
        await until(pilot, lambda: "in / out per M" in screen_text(app))


async def test_a_model_s_name_is_data() -> None:
    opened = fakes.FakeOpened(fakes.FakeConversation(), fakes.FakeHarness())
    hostile = fakes.model("box/[/]\x1b[31m[bold]x", 1000)
    opened.models.listing = lambda ask=True: (fakes.Offer(fakes.provider_info("box"), (hostile,)),)  # type: ignore[method-assign]
    async with running(opened) as (app, pilot, _):
        await pilot.press(*typed("/model"), "enter")
        await until(pilot, lambda: "[/][bold]x" in screen_text(app))


@pytest.mark.parametrize("way", ["slash", "key"])
async def test_the_thinking_level_is_chosen_from_all_of_them(way: str) -> None:
    view = fakes.empty_view()
    view["agent"]["thinkingLevel"] = "high"
    opened = fakes.FakeOpened(fakes.FakeConversation(view), fakes.FakeHarness())
    async with running(opened) as (app, pilot, _):
        assert "deepseek-chat · high" in screen_text(app).split("\n")[0]
        await pilot.press(*([*typed("/thinking"), "enter"] if way == "slash" else ["ctrl+r"]))
        await until(pilot, lambda: "✓ high" in screen_text(app))
        for level in ("off", "minimal", "low", "medium", "xhigh"):
            assert f"  {level}" in screen_text(app)
        await pilot.press("up", "enter")
        await until(pilot, lambda: ("configure", {"thinkingLevel": "medium"}) in opened.root.calls)
        await until(pilot, lambda: "thinking medium from the next request on" in screen_text(app))
        opened.root.emit(["s", ["agent", "thinkingLevel"], "off"])
        await until(pilot, lambda: "·" not in screen_text(app).split("\n")[0])


async def test_a_thinking_level_can_be_typed_and_a_wrong_one_is_told_with_the_right_ones() -> None:
    async with running() as (app, pilot, opened):
        assert "deepseek-chat ·" not in screen_text(app)
        await pilot.press(*typed("/thinking"), "space", *typed("hard"), "enter")
        await until(pilot, lambda: "off, minimal, low, medium, high, xhigh" in screen_text(app))
        assert app.main.composer.text == "/thinking hard"
        for _ in "hard":
            await pilot.press("backspace")
        await pilot.press(*typed("low"), "enter")
        await until(pilot, lambda: ("configure", {"thinkingLevel": "low"}) in opened.root.calls)


async def test_a_model_that_is_known_not_to_think_is_said_not_to() -> None:
    opened = fakes.FakeOpened(fakes.FakeConversation(), fakes.FakeHarness())
    opened.models.resolve = lambda name: fakes.model(name, reasoning=False)  # type: ignore[method-assign]
    async with running(opened) as (app, pilot, _):
        await pilot.press("ctrl+r")
        await until(pilot, lambda: "not known to think" in " ".join(screen_text(app).split()))


@pytest.mark.parametrize("size", [(40, 12), (60, 20), (80, 24), (200, 60)])
async def test_ui_t06_the_model_list_is_drawn_at_any_size(size: tuple[int, int]) -> None:
    opened = fakes.FakeOpened(fakes.FakeConversation(), fakes.FakeHarness())
    opened.models.answer.set()
    async with running(opened, size=size) as (app, pilot, _):
        app.act("model")
        await until(pilot, lambda: "current" in screen_text(app) or "deepseek/deepseek" in screen_text(app))
        await pilot.resize_terminal(30, 10)
        await pilot.resize_terminal(*size)
        await until(pilot, lambda: "choose a model" in screen_text(app))


async def test_a_real_session_shows_the_level_it_was_given(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from durable_tui.models.known_providers import KNOWN
    from durable_tui.ui.app import DurableApp

    for known in KNOWN.values():
        monkeypatch.delenv(known.key_env, raising=False)
        if known.local:
            monkeypatch.setenv(known.base_url_env, "http://127.0.0.1:9/v1")
    monkeypatch.delenv("DURABLE_TUI_MODEL", raising=False)
    monkeypatch.setenv("DURABLE_TUI_HOME", str(tmp_path / "home"))
    app = DurableApp(ScreenOptions(directory=str(tmp_path), thinking="low"))
    async with app.run_test(size=(120, 30)) as pilot:
        await until(pilot, lambda: "tour · low" in screen_text(app))
        await pilot.press(*typed("/model"), "enter")
        await until(pilot, lambda: "start it: ollama serve" in screen_text(app))
        assert "scripted/tour" in screen_text(app) and "OPENAI_API_KEY" in screen_text(app)
        await pilot.press("escape")
        await pilot.press(*typed("/thinking"), "space", *typed("off"), "enter")
        await until(pilot, lambda: "tour · low" not in screen_text(app))
        await pilot.press("ctrl+q")
        await until(pilot, lambda: not app.is_running, 30)
