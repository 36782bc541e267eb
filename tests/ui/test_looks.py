"""What must hold at every size and with every key map: panels one key away, no label cut, keys shown as they are."""

from __future__ import annotations

import pytest

from durable_tui.ui.actions import ACTIONS, BY_ID, SLASHES, action_of, first_key, key_label, keys_of
from durable_tui.ui.adapter.header import STATES, Header
from durable_tui.ui.adapter.recovery_cards import VERDICTS
from durable_tui.ui.screens.dialogs import help_lines
from tests.tools import ui_fakes as fakes
from tests.ui.kit import running, screen_text, until

SIZES = [(80, 24), (120, 40), (200, 60), (100, 30), (60, 20), (40, 16), (30, 9)]
PANELS = {"f2": "live", "f3": "inbox", "f4": "tasks", "f6": "recovery", "f7": "transcript", "f8": "composer"}


@pytest.mark.parametrize("size", SIZES)
async def test_every_panel_is_one_key_away_at_every_size(size: tuple[int, int]) -> None:
    async with running(fakes.recovered_scene(), size=size) as (app, pilot, _):
        for key, name in PANELS.items():
            await pilot.press(key)
            await until(pilot, lambda name=name: getattr(app.main.focused, "id", None) == name)
            await pilot.pause()
            region = app.main.query_one(f"#{name}").region
            assert region.height >= 1 and region.width >= min(size[0], 20) - 4, (name, region)
            assert region in app.screen.region.grow((1, 1, 1, 1)), name


async def test_nothing_of_the_footer_is_cut_at_80_columns() -> None:
    async with running(fakes.recovered_scene(), size=(80, 24)) as (app, _, _opened):
        last = screen_text(app).split("\n")[-1]
        for action in ACTIONS:
            if action.footer:
                assert f"{key_label(action.keys.split(',')[0], short=True)} {action.short}" in last


def all_verdicts() -> fakes.FakeOpened:
    found = [
        fakes.found(10 + n, "pi.tool", "execute", "edit config/a/long/path/of/a/file.json", verdict, seq=90 + n)
        for n, verdict in enumerate(VERDICTS)
        if verdict != "blocked"  # its sentence is the reason, of any length
    ]
    view = fakes.empty_view(recovery={"deaths": [fakes.death(*found)]})
    return fakes.FakeOpened(fakes.FakeConversation(view), fakes.FakeHarness())


@pytest.mark.parametrize("size", [(80, 60), (100, 60), (120, 60), (200, 60)])
async def test_no_verdict_is_cut(size: tuple[int, int]) -> None:
    async with running(all_verdicts(), size=size) as (app, _, _opened):
        card = app.main.recovery
        for y, row in enumerate(card.card.rows):
            line = "".join(segment.text for segment in card.render_line(y))
            assert f" {row.verdict.word} " in line and f"#{row.seq}" in line
            whole, clause = row.sentence, row.sentence.split("; ")[0]
            said = line.split(f" {row.verdict.word} ", 1)[1].rsplit("#", 1)[0].strip()
            assert said in (whole, clause, ""), said
            if size[0] >= 120:
                assert said == whole


async def test_every_state_word_is_whole_at_80_columns() -> None:
    async with running(size=(80, 24)) as (app, _, _opened):
        header = app.main.header
        for state, (_, word, _) in STATES.items():
            header.facts = Header(
                "a title of some length for a session", "~/src/app", "p/a-model", state=state, context="23 % of 128k"
            )
            line = "".join(text for text, _ in header.runs(header.size.width))
            assert f" {word}" in line and len(line) <= header.size.width


async def test_the_corner_of_the_composer_is_whole_at_80_columns() -> None:
    async with running(fakes.recovered_scene(), size=(80, 24)) as (app, pilot, _):
        model = app.main.model
        wanted = model.hint(app.main.key)
        assert wanted in screen_text(app)
        model.reading = True
        app.main.paint_moving()
        await pilot.pause()
        assert "read-only · Ctrl+O another session" in screen_text(app)
    for hint in (
        "Enter send · empty Enter releases the first parked message",
        "Enter on an empty line starts what was found",
    ):
        assert len(hint) < 80 - 8


async def test_the_help_of_every_slash_command_fits_beside_it_at_80_columns() -> None:
    async with running(size=(80, 24)) as (app, pilot, _):
        for name in SLASHES:
            app.main.composer.put("")
            app.main.composer.insert(f"/{name[:-1]}" if len(name) > 3 else f"/{name}")
            await until(pilot, lambda name=name: SLASHES[name].help in screen_text(app))
        app.main.composer.put("")
        await pilot.press("/")
        await until(pilot, lambda: "/help" in screen_text(app))
        for _ in SLASHES:
            await pilot.press("down")
            await pilot.pause()
            assert "…" not in "\n".join(line for line in screen_text(app).split("\n") if "│ /" in line)


@pytest.mark.parametrize("cells", [40, 70, 86])
def test_help_names_every_action_with_its_keys_and_what_it_does(cells: int) -> None:
    lines = [line.text for line in help_lines(cells)]
    assert all(len(line) <= cells for line in lines)
    text = " ".join(" ".join(lines).split())
    for action in ACTIONS:
        assert action.title in text and " ".join(action.help.split()) in text, action.id
        for key in keys_of(action)[:2]:
            assert key_label(key) in text, (action.id, key)
        assert not action.slash or f"/{action.slash}" in text


REBOUND = {
    "send": "ctrl+s", "newline": "enter", "follow_up": "f9", "stop": "ctrl+x", "inbox": "ctrl+b", "recoveries": "f5",
    "item_drop": "d", "why": "w", "palette": "ctrl+g", "sessions": "ctrl+l", "complete": "ctrl+y",
}  # fmt: skip


async def test_rebound_keys_are_shown_and_do_what_they_say_and_the_old_ones_do_not() -> None:
    async with running(fakes.recovered_scene(), size=(120, 40)) as (app, pilot, opened):
        app.keymap.update(REBOUND)
        app.set_keymap(app.keymap)
        app.main.recovery.redraw()
        app.main.footer.refresh()
        app.main.paint_moving()
        await pilot.pause()
        shown = screen_text(app)
        for words in (
            "Ctrl+S steer · F9 follow-up · Ctrl+X stop",
            "F5: why?",
            "^G palette",
            "F5 recoveries",
            "^L sessions",
        ):
            assert words in shown, words
        app.main.composer.insert("one")
        await pilot.press("enter", *"two")
        assert app.main.composer.text == "one\ntwo"
        await pilot.press("ctrl+s")
        await until(pilot, lambda: any(call[:2] == ("submit", "one\ntwo") for call in opened.root.calls))
        await pilot.press("/")
        await until(pilot, lambda: "Ctrl+Y take · Ctrl+X close" in screen_text(app))
        await pilot.press("ctrl+x")
        await until(pilot, lambda: "Ctrl+Y take" not in screen_text(app))
        await pilot.press("f3")
        assert app.main.focused is app.main.composer
        await pilot.press("ctrl+b")
        await until(pilot, lambda: "Enter send · e edit · d drop · p steer" in screen_text(app))
        await pilot.press("f5")
        await until(pilot, lambda: "w why? · x fold" in screen_text(app))
        await pilot.press("w")
        await until(pilot, lambda: app.screen is not app.main)
    text = " ".join(line.text for line in help_lines(80, REBOUND))
    assert "in the inbox (Ctrl+B)" in text and "Ctrl+S" in text and "in the recovery card (F5)" in text


def test_a_key_given_to_an_action_is_taken_from_the_others() -> None:
    def meant(key: str, keymap: dict[str, str]) -> str | None:
        action = action_of(key, "composer", keymap)
        return action.id if action else None

    assert meant("enter", {}) == "send"
    assert meant("enter", {"newline": "enter"}) == "newline"
    assert meant("enter", {"send": "ctrl+s"}) is None
    assert meant("ctrl+j", {}) == "follow_up"
    assert first_key("send", {"send": "ctrl+s,f12"}) == "Ctrl+S"
    assert set(REBOUND) <= set(BY_ID)
