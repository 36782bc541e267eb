"""Opening, switching, failing to open, leaving (spec 21; cases U08, UI-K07, UI-K09, UI-K16, UI-S08)."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from durable_tui.host.catalogue import SessionInfo
from durable_tui.host.host_errors import HostError
from durable_tui.host.options import ScreenOptions
from durable_tui.storage.errors import SessionLocked, StorageDamaged
from durable_tui.ui.app import DurableApp
from durable_tui.ui.glyphs import UNICODE
from durable_tui.ui.screens.sessions import session_rows
from tests.tools import ui_fakes as fakes
from tests.ui.kit import running, screen_text, until


def info(name: str, state: str = "clean", **more: Any) -> SessionInfo:
    return SessionInfo(
        name, Path(f"/s/{name}.sqlite"), state, "/home/me/src/app", fakes.START, fakes.START, title=name, **more
    )  # type: ignore[arg-type]


@dataclass
class FakeCatalogue:
    infos: list[SessionInfo]
    asked: list[Any] = field(default_factory=list)

    async def list(self, cwd: str | None = None) -> list[SessionInfo]:
        self.asked.append(cwd)
        return self.infos


@dataclass
class FakePaths:
    sessions: Path = Path("/s")
    themes: Path = Path("/none")
    logs: Path = Path("/none")


@dataclass
class FakeHost:
    catalogue: FakeCatalogue
    paths: FakePaths = field(default_factory=FakePaths)


def test_ui_k07_rows_tell_how_each_session_stands() -> None:
    infos = [
        info(
            "a",
            "unfinished",
            unfinished=3,
            queued=2,
            model="x/chat",
            usage={"totalTokens": 9, "cost": {"total": 0.012}},
        ),
        info("b", "running", owner={"pid": 5120}),
        info("c", "damaged", message="torn at page 3"),
        info("d", "newer", message="schema 9, this program knows 1"),
        info("e"),
    ]
    rows = session_rows(infos, UNICODE, fakes.NOW, infos[4].path, "/home/me", True)
    text = ["".join(part for part, _ in [*row.left, *row.right]) for row in rows]
    assert text[0].startswith("◆ a") and "3 unfinished · 2 queued · chat · $0.012" in text[1]
    assert text[2].startswith("● b") and "another window, pid 5120" in text[3]
    assert text[4].startswith("✕ c") and "torn at page 3" in text[5]
    assert "schema 9" in text[7]
    assert "this one" in text[8] and "~/src/app" in text[9]


async def test_the_list_searches_and_switches_and_the_former_session_closes_in_order() -> None:
    first, second = fakes.recovered_scene(), fakes.FakeOpened(fakes.FakeConversation(), fakes.FakeHarness())
    second.path = Path("/s/other.sqlite")
    opened = [first, second]
    asked: list[Any] = []

    async def opener(options: Any, path: Any) -> Any:
        asked.append((path, options.new))
        return opened[len(asked) - 1]

    catalogue = FakeCatalogue([info("fix the parser"), info("port the build")])
    app = DurableApp(
        ScreenOptions(directory="/home/me/src/app"), opener=opener, host=FakeHost(catalogue), now=lambda: fakes.NOW
    )
    async with app.run_test(size=(120, 40)) as pilot:
        await until(pilot, lambda: app.session is not None and app.session.started)
        await pilot.press(*"draft")
        await pilot.press("ctrl+o")
        await until(pilot, lambda: "port the build" in screen_text(app))
        assert catalogue.asked == ["/home/me/src/app"]
        await pilot.press(*"port")
        await until(pilot, lambda: "fix the parser" not in screen_text(app))
        await pilot.press("tab")
        await until(pilot, lambda: catalogue.asked[-1] is None)
        await pilot.press("enter")
        await until(pilot, lambda: first.closed == 1)
        assert asked[1] == (Path("/s/port the build.sqlite"), False)
        assert ("set_draft", "draft") in first.root.calls
        assert app.main.composer.text == ""
        await until(pilot, lambda: "closed in order" in screen_text(app))
        await pilot.press("ctrl+q")
        await until(pilot, lambda: second.closed == 1)


async def test_ui_k09_an_owned_session_is_offered_for_following() -> None:
    async def opener(_options: Any, _path: Any) -> Any:
        raise SessionLocked("owned", {"pid": 4711, "host": "laptop", "startedAt": fakes.START})

    app = DurableApp(ScreenOptions(directory="/x"), opener=opener, host=FakeHost(FakeCatalogue([])))
    app._tried = Path("/s/a.sqlite")
    async with app.run_test(size=(100, 30)) as pilot:
        await until(pilot, lambda: "open elsewhere" in screen_text(app))
        shown = screen_text(app)
        assert "Process 4711 on laptop owns it" in shown
        assert "a new session" in shown and "another session" in shown
        await pilot.press("escape")
        await until(pilot, lambda: app.return_code == 3)


@pytest.mark.parametrize(
    ("error", "status"), [(HostError, 2), (SessionLocked, 3), (StorageDamaged, 4), (ValueError, 1)]
)
async def test_what_cannot_be_opened_is_said_without_a_traceback(error: type[Exception], status: int) -> None:
    async def opener(_options: Any, _path: Any) -> Any:
        raise error("the file [/x] is torn")

    app = DurableApp(ScreenOptions(directory="/x"), opener=opener, host=FakeHost(FakeCatalogue([])))
    async with app.run_test(size=(100, 30)) as pilot:
        words = "the file [/x] is torn" if error is not SessionLocked else "owns it"
        await until(pilot, lambda: words in screen_text(app))
        await pilot.press("escape")
        await until(pilot, lambda: app.return_code == status)
    assert app.failure is not None and app.failure[0] == status and words in app.failure[1]


class Unreadable(fakes.FakeHarness):
    """Opens, and then cannot be read."""

    def watch(self, conversation_id: int, *, tail: int | None = None, since: Any = None) -> Any:
        async def frames() -> AsyncIterator[Any]:
            raise StorageDamaged("the file holds a record that is not JSON")
            yield

        return frames()


async def test_a_session_that_cannot_be_read_is_given_up_and_told_and_the_former_one_stays() -> None:
    torn = fakes.FakeOpened(fakes.FakeConversation(), Unreadable())
    whole = fakes.FakeOpened(fakes.FakeConversation(), fakes.FakeHarness())
    sessions = [whole, torn]

    async def opener(_options: Any, _path: Any) -> Any:
        return sessions.pop(0)

    app = DurableApp(ScreenOptions(directory="/x"), opener=opener, host=FakeHost(FakeCatalogue([])))
    async with app.run_test(size=(100, 30)) as pilot:
        await until(pilot, lambda: app.session is not None and app.session.started)
        app.main.composer.insert("half a thought")
        app.work(app.switch_session(Path("/s/torn.sqlite")), "switch")
        await until(pilot, lambda: "a record that is not JSON" in screen_text(app))
        assert torn.closed == 1 and whole.closed == 0
        await pilot.press("escape")
        await until(pilot, lambda: app.screen is app.main)
        assert app.session is not None and app.session.opened is whole
        assert app.main.composer.text == "half a thought"


async def test_a_first_session_that_cannot_be_read_ends_with_what_is_wrong() -> None:
    torn = fakes.FakeOpened(fakes.FakeConversation(), Unreadable())

    async def opener(_options: Any, _path: Any) -> Any:
        return torn

    app = DurableApp(ScreenOptions(directory="/x"), opener=opener, host=FakeHost(FakeCatalogue([])))
    async with app.run_test(size=(100, 30)) as pilot:
        await until(pilot, lambda: "a record that is not JSON" in screen_text(app))
        await pilot.press("escape")
        await until(pilot, lambda: app.return_code == 4)
    assert torn.closed == 1


async def test_quitting_while_busy_closes_in_order_and_says_that_work_goes_on() -> None:
    opened = fakes.recovered_scene()
    gate = asyncio.Event()

    async def close() -> None:
        await gate.wait()
        opened.closed += 1

    opened.close = close  # type: ignore[method-assign]
    async with running(opened) as (app, pilot, _):
        await pilot.press("ctrl+q")
        wanted = "closing in order; 3 tasks will go on at the next open; bash will be interrupted"
        await until(pilot, lambda: wanted in screen_text(app))
        gate.set()
        await until(pilot, lambda: app.return_code == 0)
        assert opened.closed == 1


async def test_a_signal_closes_in_order_with_its_status_and_a_second_ends_at_once() -> None:
    opened = fakes.recovered_scene()
    never = asyncio.Event()
    opened.close = never.wait  # type: ignore[method-assign, assignment]
    async with running(opened) as (app, pilot, _):
        app.leave(128 + 15)
        await pilot.pause()
        assert app.return_code is None
        app.leave(128 + 15)
        await until(pilot, lambda: app.return_code == 143)
        never.set()


async def test_the_prompt_of_the_command_line_is_submitted() -> None:
    async with running(options=ScreenOptions(directory="/x", prompt="do it")) as (_app, pilot, opened):
        await until(pilot, lambda: any(call[:2] == ("submit", "do it") for call in opened.root.calls))


async def test_keys_can_be_rebound() -> None:
    async with running() as (app, pilot, _):
        app.keymap.update({"help": "ctrl+g"})
        app.set_keymap(app.keymap)
        await pilot.press("f1")
        assert app.screen is app.main
        await pilot.press("ctrl+g")
        await until(pilot, lambda: app.screen is not app.main)
        await until(pilot, lambda: "Ctrl+G" in screen_text(app) or "writing" in screen_text(app))


@pytest.mark.parametrize("name", ["paper", "plain"])
async def test_the_theme_command(name: str) -> None:
    async with running() as (app, pilot, _):
        app.main.composer.insert(f"/theme {name}")
        await pilot.press("enter")
        await until(pilot, lambda: app.theme == name)


async def test_spec_22_a_changed_theme_file_shows_at_once(tmp_path: Path) -> None:
    host = FakeHost(FakeCatalogue([]), FakePaths(themes=tmp_path))
    async with running(host=host) as (app, pilot, _):
        (tmp_path / "ink.toml").write_text(
            'name = "ink"\nprimary = "#ff0000"\nbackground = "#000000"\n[tokens]\nlive = "#ff0000"\n'
        )
        app.reload_themes()
        await pilot.pause()
        style = app.appearance.styles().style("live")
        assert style.color is not None and style.color.triplet is not None
        assert style.color.triplet.hex == "#ff0000"
        (tmp_path / "bad.toml").write_text("x = ")
        app.reload_themes()
        await until(pilot, lambda: "bad.toml" in screen_text(app))
