"""Input: what is typed is never lost, never sent by accident, never sent twice (cases A02, U09, UI-L01-UI-L08, UI-Q01-UI-Q08)."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from textual import events

from durable_tui.host.options import ScreenOptions
from durable_tui.ui.app import DurableApp
from tests.tools import ui_fakes as fakes
from tests.ui.kit import running, screen_text, until


def submits(opened: fakes.FakeOpened) -> list[tuple[str, str]]:
    return [(call[1], call[2]["when_busy"]) for call in opened.root.calls if call[0] == "submit"]


BUSY = {"run": {"taskId": 9, "inputs": [1]}, "generation": {"attempt": 3}}


def busy() -> fakes.FakeOpened:
    return fakes.FakeOpened(
        fakes.FakeConversation(fakes.empty_view(**BUSY)),
        fakes.FakeHarness([fakes.task_row(9, kind="pi.generation")]),
    )


async def type_text(pilot: Any, text: str) -> None:
    await pilot.press(*[{" ": "space"}.get(c, c) for c in text])


async def test_enter_sends_and_the_text_leaves_only_after_the_commit() -> None:
    async with running() as (app, pilot, opened):
        opened.root.gate = asyncio.Event()
        await type_text(pilot, "hello")
        await pilot.press("enter")
        await until(pilot, lambda: bool(submits(opened)))
        assert app.main.composer.text == "hello"
        await pilot.press("enter")
        opened.root.gate.set()
        await until(pilot, lambda: app.main.composer.text == "")
        assert submits(opened) == [("hello", "follow_up")]
        assert opened.root.calls[-1][2]["clear_draft"] is True


async def test_ui_l04_on_failure_the_text_stays_and_the_error_is_shown() -> None:
    async with running() as (app, pilot, opened):
        opened.root.fail = OSError("disk [/full]")
        await type_text(pilot, "keep me")
        await pilot.press("enter")
        await until(pilot, lambda: "not sent: disk [/full]" in screen_text(app))
        assert app.main.composer.text == "keep me"
        opened.root.fail = None
        await pilot.press("enter")
        await until(pilot, lambda: app.main.composer.text == "")


async def test_what_is_typed_during_the_commit_stays() -> None:
    async with running() as (app, pilot, opened):
        opened.root.gate = asyncio.Event()
        await type_text(pilot, "one")
        await pilot.press("enter")
        await until(pilot, lambda: bool(submits(opened)))
        await type_text(pilot, "two")
        opened.root.gate.set()
        await until(pilot, lambda: app.main.composer.text == "two")


async def test_while_busy_enter_steers_and_alt_enter_or_ctrl_j_follow_up() -> None:
    async with running(busy()) as (app, pilot, opened):
        for text, key in (("a", "enter"), ("b", "alt+enter"), ("c", "ctrl+j")):
            await type_text(pilot, text)
            await pilot.press(key)
            await until(pilot, lambda: app.main.composer.text == "" and app.main.composer.pending is None)
        assert submits(opened) == [("a", "steer"), ("b", "follow_up"), ("c", "follow_up")]


async def test_ui_i02_new_lines_by_shift_enter_and_by_a_trailing_backslash() -> None:
    async with running() as (app, pilot, opened):
        await type_text(pilot, "a")
        await pilot.press("shift+enter")
        await type_text(pilot, "b")
        await pilot.press("backslash", "enter")
        await type_text(pilot, "c")
        assert app.main.composer.text == "a\nb\nc"
        await pilot.press("enter")
        await until(pilot, lambda: submits(opened) == [("a\nb\nc", "follow_up")])


async def test_u09_a_paste_submits_nothing_and_keeps_its_lines() -> None:
    async with running() as (app, pilot, opened):
        app.main.composer.post_message(events.Paste("line1\nline2\r\nline3\x1b[201~\x00\t." + "x" * 200_000))
        await until(pilot, lambda: len(app.main.composer.text) > 200_000)
        assert app.main.composer.text.startswith("line1\nline2\nline3\t.xxx")
        assert submits(opened) == []


async def test_u09_fast_typing_and_many_characters_at_once_arrive_in_order() -> None:
    async with running() as (app, pilot, opened):
        text = "abcdefghijklmnopqrst" + "漢字かな漢"
        for character in text:
            app.post_message(events.Key(character, character))
        await until(pilot, lambda: app.main.composer.text == text)
        assert submits(opened) == []


async def test_ui_l07_an_enter_inside_a_burst_of_keys_is_a_line_break() -> None:
    async with running() as (app, pilot, opened):
        for character in "first line\rsecond":
            app.post_message(events.Key("enter" if character == "\r" else character, character))
        await until(pilot, lambda: app.main.composer.text == "first line\nsecond")
        await asyncio.sleep(0.1)
        assert submits(opened) == []


async def test_ui_l07_an_enter_inside_a_burst_is_a_line_break_however_late_it_is_handled() -> None:
    async with running() as (app, pilot, opened):
        keys = [events.Key("enter" if letter == "\r" else letter, letter) for letter in "first line\rsecond"]
        typed = keys[0].time - 60
        for key in keys:
            key.time = typed  # a busy machine takes them up a minute later
            app.post_message(key)
        await until(pilot, lambda: app.main.composer.text == "first line\nsecond")
        assert submits(opened) == []


async def test_an_enter_right_after_fast_typing_sends_all_of_it() -> None:
    async with running() as (app, pilot, opened):
        for character in "typed quickly\r":
            app.post_message(events.Key("enter" if character == "\r" else character, character))
        await until(pilot, lambda: submits(opened) == [("typed quickly", "follow_up")])


async def test_ui_l05_drafts_are_committed_and_come_back() -> None:
    async with running() as (_app, pilot, opened):
        await type_text(pilot, "half")
        await until(pilot, lambda: ("set_draft", "half") in opened.root.calls)
    view = fakes.empty_view(draft={"text": "from before [/]"})
    async with running(fakes.FakeOpened(fakes.FakeConversation(view), fakes.FakeHarness())) as (app, _, _opened):
        assert app.main.composer.text == "from before [/]"


async def test_ui_l05_quitting_commits_the_draft_first() -> None:
    async with running() as (_app, pilot, opened):
        await type_text(pilot, "x")
        await pilot.press("ctrl+q")
        await until(pilot, lambda: opened.closed == 1)
        assert ("set_draft", "x") in opened.root.calls


@pytest.mark.parametrize("cleared", [False, True])
async def test_ui_l05_quitting_keeps_a_draft_that_is_on_its_way_to_its_commit(cleared: bool) -> None:
    async with running() as (app, pilot, opened):
        await type_text(pilot, "x")
        app.main.composer.store_draft()
        if cleared:
            app.main.composer.clear_to_history()
        app.leave(0)  # before the screen has taken the draft
        await until(pilot, lambda: opened.closed == 1)
        assert ("set_draft", "x") in opened.root.calls


async def test_what_is_typed_before_the_session_is_open_stays_and_the_stored_draft_is_one_key_away() -> None:
    opened = fakes.FakeOpened(
        fakes.FakeConversation(fakes.empty_view(draft={"text": "from before"})), fakes.FakeHarness()
    )
    gate = asyncio.Event()

    async def opener(_options: Any, _path: Any) -> Any:
        await gate.wait()
        return opened

    app = DurableApp(ScreenOptions(directory="/home/me/src/app"), opener=opener, now=lambda: fakes.NOW)
    async with app.run_test(size=(120, 40)) as pilot:
        await until(pilot, lambda: app.main.composer.has_focus)
        await type_text(pilot, "early")
        await until(pilot, lambda: app.main.composer.text == "early")
        app.main.composer.store_draft()  # with nobody to take it
        gate.set()
        await until(pilot, lambda: app.session is not None and app.session.started)
        assert app.main.composer.text == "early"
        await until(pilot, lambda: ("set_draft", "early") in opened.root.calls)
        app.main.composer.put("")
        await pilot.press("up")
        assert app.main.composer.text == "from before"


async def test_ui_l01_ctrl_c_clears_into_the_history_and_quits_only_when_empty_and_twice() -> None:
    async with running() as (app, pilot, opened):
        await type_text(pilot, "long draft")
        await pilot.press("ctrl+c")
        assert app.main.composer.text == ""
        await pilot.press("up")
        assert app.main.composer.text == "long draft"
        await pilot.press("ctrl+c", "ctrl+c")
        assert "again quits" in screen_text(app)
        assert opened.closed == 0
        await pilot.press("ctrl+c")
        await until(pilot, lambda: opened.closed == 1)
        assert ("set_draft", "") not in opened.root.calls
        assert opened.root.calls[-1] == ("set_draft", "long draft"), "cleared and quit, it comes back after a restart"


async def test_up_walks_back_through_what_was_said_and_down_returns() -> None:
    view = fakes.empty_view(entries=[{**fakes.user(2, "first"), "seq": 2}, {**fakes.user(3, "second\nline"), "seq": 3}])
    async with running(fakes.FakeOpened(fakes.FakeConversation(view), fakes.FakeHarness())) as (app, pilot, _):
        composer = app.main.composer
        await pilot.press("up")
        assert composer.text == "second\nline"
        await pilot.press("up", "up")
        assert composer.text == "first"
        await pilot.press("down")
        assert composer.text == "second\nline"
        await pilot.press("down")
        assert composer.text == ""


async def test_undo_brings_back_what_was_cleared() -> None:
    async with running() as (app, pilot, _):
        await type_text(pilot, "abc")
        await pilot.press("ctrl+c", "ctrl+underscore")
        assert app.main.composer.text == "abc"


async def test_a02_escape_stops_in_every_phase_and_again_later() -> None:
    async with running(busy()) as (app, pilot, opened):
        root = opened.root
        for phase in (
            {"attempt": 3, "message": {"role": "assistant", "content": [fakes.text("slow")]}},
            {"attempt": 2, "retry": {"at": fakes.NOW + 60_000, "error": "503"}},
            {"attempt": 1},
        ):
            root.emit(["s", ["generation"], phase])
            await until(pilot, lambda phase=phase: app.main.model.view["generation"]["attempt"] == phase["attempt"])
            root.calls.clear()
            app.main.model.stopping = None
            await pilot.press("escape")
            await until(pilot, lambda: ("stop",) in root.calls)
            assert "● stopping" in screen_text(app)
        root.emit(["d", ["run"]], ["d", ["generation"]])
        await until(pilot, lambda: "○ ready" in screen_text(app))
        root.emit(["s", ["run"], {"taskId": 20, "inputs": [2]}], ["s", ["generation"], {"attempt": 1}])
        await until(pilot, lambda: app.main.model.busy)
        root.calls.clear()
        await pilot.press("escape")
        await until(pilot, lambda: ("stop",) in root.calls)


async def test_ui_q01_enter_on_an_empty_line_releases_the_first_parked_item() -> None:
    view = fakes.empty_view(inbox={"items": [{"id": 30, "mode": "followUp", "content": "x", "parked": True}]})
    async with running(fakes.FakeOpened(fakes.FakeConversation(view), fakes.FakeHarness())) as (app, pilot, opened):
        assert "◆ parked" in screen_text(app)
        await pilot.press("enter")
        await until(pilot, lambda: ("release", None) in opened.root.calls)


async def test_ui_q08_alt_up_takes_the_last_queued_item_back() -> None:
    opened = fakes.recovered_scene()
    async with running(opened) as (app, pilot, _):
        await pilot.press("alt+up")
        await until(pilot, lambda: app.main.composer.text == "and open a pull request")
        assert ("withdraw", 32) in opened.root.calls
        assert opened.root.calls.index(("set_draft", "and open a pull request")) < opened.root.calls.index(
            ("withdraw", 32)
        )


async def test_ui_q05_items_can_be_edited_dropped_moved_promoted_and_sent() -> None:
    opened = fakes.recovered_scene()
    async with running(opened) as (app, pilot, _):
        await pilot.press("f3", "down", "p")
        await until(pilot, lambda: ("promote", 31) in opened.root.calls)
        await pilot.press("J")
        await until(pilot, lambda: ("move", 31, 2) in opened.root.calls)
        await pilot.press("enter")
        await until(pilot, lambda: ("release", 31) in opened.root.calls)
        await pilot.press("x")
        await until(pilot, lambda: ("withdraw", 31) in opened.root.calls)
        await pilot.press("f8", "up")
        assert app.main.composer.text == "then update the changelog"


async def test_slash_commands_run_and_unknown_ones_keep_the_text() -> None:
    async with running() as (app, pilot, opened):
        await type_text(pilot, "/ren")
        await until(pilot, lambda: "Give this session a title" in screen_text(app))
        await pilot.press("tab")
        assert app.main.composer.text == "/rename "
        await pilot.press("ctrl+c")
        await type_text(pilot, "/bogus")
        await pilot.press("enter")
        await until(pilot, lambda: "there is no command /bogus" in screen_text(app))
        assert app.main.composer.text == "/bogus"
        await pilot.press("ctrl+c")
        app.main.composer.insert("/model nope")
        await pilot.press("enter")
        await until(pilot, lambda: "is not of the form" in screen_text(app))
        assert app.main.composer.text == "/model nope"
        await pilot.press("ctrl+c")
        app.main.composer.insert("/tmp/x is broken")
        await pilot.press("enter")
        await until(pilot, lambda: submits(opened) == [("/tmp/x is broken", "follow_up")])


async def test_ui_l02_dialogs_leave_the_draft_alone() -> None:
    async with running() as (app, pilot, _):
        await type_text(pilot, "half a line")
        await pilot.press("f1")
        await until(pilot, lambda: "Send as follow-up" in screen_text(app))
        await pilot.press("escape")
        assert app.main.composer.text == "half a line"


async def test_ui_u01_ui_u02_the_hardware_cursor_follows_the_insertion_point_while_streaming() -> None:
    async with running(busy()) as (app, pilot, opened):
        await type_text(pilot, "ab")
        await pilot.press("한", "글")
        await pilot.pause()
        first = app.cursor_position
        region = app.main.composer.content_region
        assert first.y == region.y and first.x == region.x + 6
        opened.root.emit(["s", ["generation", "message"], {"role": "assistant", "content": [fakes.text("x " * 500)]}])
        await until(pilot, lambda: "x x x" in screen_text(app))
        assert app.cursor_position == first
