"""The main screen over fakes: what it shows, how it lays out, and that nothing on it ends the run."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from durable_tui.host.options import ScreenOptions
from durable_tui.ui.actions import SLASHES
from durable_tui.ui.adapter import rows
from durable_tui.ui.text import layout as layout_module
from tests.tools import ui_fakes as fakes
from tests.ui.kit import running, screen_text, until


async def test_the_recovered_scene_shows_everything() -> None:
    async with running(fakes.recovered_scene()) as (app, _, _opened):
        shown = screen_text(app)
        for words in (
            "fix the flaky config test", "● running", "23 % of 128k", "$0.012", "#128", "recovered from a crash",
            "◆ interrupted", "may have partly run; the model was told", "↻ re-run", "▶ woken", "G5 tools", "T19 bash",
            "steer", "parked", "tasks · 3 live", "waiting on T19", "Enter steer · Alt+Enter follow-up · Esc stop",
        ):  # fmt: skip
            assert words in shown, words


async def test_usage_tells_tokens_cached_ones_and_whether_the_cost_is_all() -> None:
    used = {"input": 1200, "output": 85, "cacheRead": 9800, "cacheWrite": 500, "cost": {"total": 0.012}, "unpriced": 7}
    opened = fakes.recovered_scene()
    opened.root.view = {**opened.root.view, "usage": {"models": {"a/b": used}, "tools": {}}}
    async with running(opened, size=(80, 24)) as (app, pilot, _):
        await app.commands.run_slash(SLASHES["usage"], "")
        said = "11 500 tokens sent (9 800 cached, 500 newly cached), 85 received; ≥ $0.012"
        await until(pilot, lambda: said in screen_text(app))
    async with running(size=(80, 24)) as (app, pilot, _):
        await app.commands.run_slash(SLASHES["usage"], "")
        await until(pilot, lambda: "no tokens were used yet" in screen_text(app))


async def test_mounted_widgets_are_few_and_stay_few_with_history() -> None:
    async with running(fakes.recovered_scene()) as (app, pilot, opened):
        before = len(list(app.main.walk_children()))
        for n in range(200):
            opened.root.append(fakes.user(1000 + n, f"text {n}"))
        await until(pilot, lambda: "text 199" in screen_text(app))
        assert len(list(app.main.walk_children())) == before < 40


async def test_spec_15_found_rows_stand_on_the_screen_before_anything_moves() -> None:
    opened = fakes.FakeOpened(
        fakes.FakeConversation(
            fakes.empty_view(recovery={"deaths": [fakes.death(fakes.found(8, "pi.tool", "execute", "edit a.json"))]})
        ),
        fakes.FakeHarness([fakes.task_row(8, "pending")]),
    )
    seen: list[str] = []
    async with running(opened, wait=False) as (app, pilot, _):
        opened.harness.on_resume = lambda: seen.append(screen_text(app))
        await until(pilot, lambda: opened.harness.resumed == 1)
    assert "edit a.json" in seen[0] and "not decided yet" in seen[0]


async def test_ui_r20_a_panel_that_cannot_be_painted_keeps_no_work_from_starting_and_nobody_from_leaving(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def broken(view: Any, *arguments: Any, **more: Any) -> Any:
        if "run" in view:
            raise RuntimeError("no such row")
        return whole(view, *arguments, **more)

    whole = rows.live_rows
    monkeypatch.setattr(rows, "live_rows", broken)
    opened = fakes.recovered_scene()
    async with running(opened, wait=False) as (app, pilot, _):
        await until(pilot, lambda: opened.harness.resumed == 1)
        await until(pilot, lambda: "something on the screen failed" in screen_text(app))
        await pilot.press("ctrl+q")
        await until(pilot, lambda: app.return_code == 0)


async def test_paused_starts_nothing_until_asked() -> None:
    opened = fakes.recovered_scene()
    async with running(opened, options=ScreenOptions(directory="/x", paused=True)) as (app, pilot, _):
        assert opened.harness.resumed == 0
        assert "◆ paused" in screen_text(app)
        await pilot.press("enter")
        await until(pilot, lambda: opened.harness.resumed == 1)


async def test_each_verdict_appears_as_it_is_decided() -> None:
    opened = fakes.FakeOpened(
        fakes.FakeConversation(
            fakes.empty_view(recovery={"deaths": [fakes.death(fakes.found(8, "pi.tool", "execute", "edit a.json"))]})
        ),
        fakes.FakeHarness(),
    )
    async with running(opened) as (app, pilot, _):
        assert "found after a crash" in screen_text(app)
        opened.root.emit(
            [
                "s",
                ["recovery", "deaths", 0, "tasks", 0],
                fakes.found(8, "pi.tool", "execute", "edit a.json", "verified", seq=99),
            ]
        )
        await until(pilot, lambda: "≡ verified" in screen_text(app) and "#99" in screen_text(app))
        await pilot.press("f6", "enter")
        await until(pilot, lambda: "spec 10" in screen_text(app))
        await pilot.press("escape", "x")
        await until(pilot, lambda: "1 verified" in screen_text(app))


@pytest.mark.parametrize("size", [(1, 1), (2, 2), (20, 5), (10, 40), (59, 20), (80, 24), (99, 30), (200, 60), (300, 3)])
async def test_ui_t06_any_size_is_drawn(size: tuple[int, int]) -> None:
    async with running(fakes.recovered_scene(), size=size) as (app, pilot, _):
        screen_text(app)
        for key in ("f2", "f3", "f4", "f6", "f7", "f8"):
            await pilot.press(key)
        screen_text(app)
        assert app.return_code is None


async def test_resizing_through_every_shape_raises_nothing() -> None:
    async with running(fakes.recovered_scene()) as (app, pilot, opened):
        for size in ((80, 24), (40, 10), (5, 3), (1, 1), (200, 60), (100, 12), (120, 40)):
            await pilot.resize_terminal(*size)
            opened.root.append(fakes.user(500 + size[0], "more"))
            await pilot.pause()
        await until(pilot, lambda: "● running" in screen_text(app))


async def test_below_100_columns_panels_become_tabs_and_below_60_a_status_line() -> None:
    async with running(fakes.recovered_scene(), size=(80, 30)) as (app, pilot, _):
        assert " inbox · 3 " in screen_text(app)
        assert "use the dev config" not in screen_text(app)
        await pilot.press("f3")
        await until(pilot, lambda: "use the dev config" in screen_text(app))
        await pilot.press("f3")
        await until(pilot, lambda: "pytest -q" in screen_text(app))
        await pilot.resize_terminal(50, 30)
        await until(pilot, lambda: "inbox 3 · tasks 3" in screen_text(app))


@pytest.mark.parametrize("theme", ["ink", "paper", "terminal", "plain"])
async def test_every_theme_draws_and_can_be_switched(theme: str) -> None:
    async with running(fakes.recovered_scene()) as (app, pilot, _):
        app.theme = theme
        await pilot.pause()
        assert "◆ interrupted" in screen_text(app)
        assert "● running" in screen_text(app)


async def test_ascii_only_holds_no_other_glyph() -> None:
    async with running(fakes.recovered_scene(), ascii_only=True) as (app, _, _opened):
        body = app.main.transcript
        lines = ["".join(segment.text for segment in body.render_line(y)) for y in range(body.size.height)]
        assert any("bash" in line for line in lines)
        assert all(line.isascii() for line in lines), [line for line in lines if not line.isascii()]


@pytest.mark.parametrize(
    "hostile", ["[/]", "[/", "see [/usr/bin]", "[n=7,kind=open]", "[link='a", "[bold]x[/bold", "range [a to z"]
)
async def test_u01_hostile_text_is_literal_everywhere(hostile: str) -> None:
    view = fakes.empty_view(
        entries=[
            {**fakes.user(2, hostile), "seq": 2},
            {
                **fakes.assistant(
                    3, fakes.text(hostile), fakes.call("c", "bash", command=hostile), stop="error", errorMessage=hostile
                ),
                "seq": 3,
            },
            {**fakes.result(4, "c", "bash", hostile, error="tool_error"), "seq": 4},
        ],
        run={"taskId": 9, "inputs": []},
        generation={"attempt": 1, "message": {"role": "assistant", "content": [fakes.text(hostile)]}},
        tools=[{"callId": "z", "name": hostile, "taskId": 10, "status": "running", "output": hostile}],
        inbox={"items": [{"id": 30, "mode": "steer", "content": hostile}]},
        session={"title": hostile, "cwd": hostile, "createdAt": 1},
        agent={"model": {"provider": "p", "modelId": hostile}, "cwd": hostile},
        recovery={
            "deaths": [fakes.death(fakes.found(8, "pi.tool", "execute", hostile, "interrupted", detail=hostile))]
        },
    )
    opened = fakes.FakeOpened(
        fakes.FakeConversation(view),
        fakes.FakeHarness([fakes.task_row(10, kind=hostile)]),
    )
    opened.warnings = [hostile]
    async with running(opened, size=(160, 50)) as (app, pilot, _):
        opened.harness.session_problem = hostile
        app.tell(hostile)
        app.main.composer.tell(hostile)
        await until(pilot, lambda: screen_text(app).count(hostile) >= 9)
        await pilot.press("f6", "enter")
        await pilot.pause()
        assert hostile in screen_text(app)


async def test_ui_r20_a_renderer_that_raises_ends_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    real = layout_module.layout

    def broken(block: Any, *arguments: Any) -> Any:
        if block.entry == 77:
            raise RuntimeError("cannot")
        return real(block, *arguments)

    monkeypatch.setattr("durable_tui.ui.widgets.transcript.layout", broken)
    async with running() as (app, pilot, opened):
        opened.root.append(fakes.user(77, "bad"))
        opened.root.append(fakes.user(78, "good one"))
        await until(pilot, lambda: "good one" in screen_text(app))
        assert "cannot be shown" in screen_text(app)
        assert app.is_running


async def test_ui_r20_a_frame_that_cannot_be_read_starts_over(monkeypatch: pytest.MonkeyPatch) -> None:
    async with running() as (app, pilot, opened):
        model = app.main.model.transcript
        monkeypatch.setattr(model, "_append", lambda *arguments: 1 / 0)
        opened.root.append(fakes.user(5, "first"))
        opened.root.append(fakes.user(6, "second"))
        await until(pilot, lambda: "first" in screen_text(app) and "second" in screen_text(app))


async def test_ui_k15_a_problem_stays_until_it_is_gone() -> None:
    async with running() as (app, pilot, opened):
        opened.harness.session_problem = "no space left on /data, 0 B free"
        opened.harness.paused_for_space = True
        await until(pilot, lambda: "not saved: disk full — paused" in screen_text(app))
        assert "✕ not saved" in screen_text(app)
        opened.harness.session_problem = None
        await until(pilot, lambda: "disk full" not in screen_text(app))


async def test_the_first_screen_says_that_commands_run_unasked() -> None:
    async with running() as (app, _, _opened):
        assert "not asked about first" in screen_text(app)


async def test_without_a_model_it_says_that_the_tour_answers() -> None:
    opened = fakes.FakeOpened(
        fakes.FakeConversation(fakes.empty_view(agent={"model": {"provider": "scripted", "modelId": "tour"}})),
        fakes.FakeHarness(),
    )
    async with running(opened) as (app, _, _opened):
        assert "No model is configured" in screen_text(app)


async def test_ui_s12_the_first_frame_says_that_it_opens() -> None:
    opened = fakes.recovered_scene()
    gate = asyncio.Event()

    async def opener(_options: Any, _path: Any) -> Any:
        await gate.wait()
        return opened

    from durable_tui.ui.app import DurableApp

    app = DurableApp(ScreenOptions(directory="/x"), opener=opener)
    async with app.run_test(size=(100, 30)) as pilot:
        await until(pilot, lambda: "opening" in screen_text(app))
        gate.set()
        await until(pilot, lambda: "pytest -q" in screen_text(app))


async def test_u04_streaming_while_dialogs_open_and_close() -> None:
    async with running() as (app, pilot, opened):
        opened.root.emit(
            ["s", ["run"], {"taskId": 9, "inputs": [1]}],
            ["s", ["generation"], {"attempt": 1, "message": {"role": "assistant", "content": [fakes.text("")]}}],
        )
        for n in range(200):
            opened.root.emit(["a", ["generation", "message", "content", 0, "text"], f"word{n} "])
            if n % 10 == 0:
                await pilot.press("f1")
            if n % 10 == 5:
                await pilot.press("escape")
        await pilot.press("escape")
        await until(pilot, lambda: "word199" in screen_text(app))
        assert app.main.model.transcript.tail
        await pilot.press("ctrl+q")
        await until(pilot, lambda: opened.closed == 1)


async def test_the_footer_shows_no_dead_key() -> None:
    async with running(fakes.recovered_scene()) as (app, _, _opened):
        assert "F6 recoveries" in screen_text(app).split("\n")[-1]
    async with running() as (app, _, _opened):
        assert "recoveries" not in screen_text(app).split("\n")[-1]
        assert "tree" not in screen_text(app).split("\n")[-1]
