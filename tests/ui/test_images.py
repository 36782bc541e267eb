"""Images on the screen: mentioned, dropped, pasted, refused, taken back (cases T30, T32)."""

from __future__ import annotations

import json
import os
import stat
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from textual import events

from durable_tui.host.options import ScreenOptions
from durable_tui.host.paths import Paths
from durable_tui.models.provider import Model, ModelError
from durable_tui.ui import clipboard
from durable_tui.ui.app import DurableApp
from tests.tools import pictures
from tests.tools import ui_fakes as fakes
from tests.ui.kit import running, screen_text, until

GOOD = pictures.plain("PNG", (30, 20))
BLOCK = pictures.block(GOOD)


class Models(fakes.FakeModels):
    def __init__(self, images: bool | None = True) -> None:
        self.images = images

    def resolve(self, name: str) -> Model:
        provider, _, model_id = name.partition("/")
        if not model_id:
            raise ModelError(f"{name!r} names no model", "configuration")
        return Model(provider, model_id, "scripted", images=self.images)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    folder = tmp_path / "work"
    folder.mkdir()
    (folder / "a.png").write_bytes(GOOD)
    (folder / "my shot.png").write_bytes(GOOD)
    (folder / "cut.png").write_bytes(GOOD[:20])
    return folder


def opened_in(folder: Path, *, images: bool | None = True, **view: Any) -> fakes.FakeOpened:
    """A fake session that works in a folder, with a home beside it."""
    opened = fakes.FakeOpened(fakes.FakeConversation(fakes.empty_view(**view)), fakes.FakeHarness())
    opened.session = {"cwd": str(folder)}
    opened.models = Models(images)
    opened.host = SimpleNamespace(paths=Paths.under(folder.parent / "home"))  # type: ignore[attr-defined]
    return opened


def sent(opened: fakes.FakeOpened) -> list[Any]:
    return [call[1] for call in opened.root.calls if call[0] == "submit"]


def kept(folder: Path) -> list[Path]:
    place = folder.parent / "home" / "attachments"
    return sorted(place.iterdir()) if place.exists() else []


# -- mentions


async def test_a_mentioned_image_is_sent_with_the_text(folder: Path) -> None:
    async with running(opened_in(folder)) as (app, pilot, opened):
        app.main.composer.insert("what is @a.png?")
        await pilot.press("enter")
        await until(pilot, lambda: app.main.composer.text == "")
        assert sent(opened) == [[{"type": "text", "text": "what is @a.png?"}, BLOCK]]
        assert "cannot see images" not in screen_text(app)


@pytest.mark.parametrize(
    ("name", "says"),
    [("cut.png", "cut.png: the PNG image is cut off or damaged"), ("gone.png", "gone.png: no such file")],
)
async def test_t30_a_refused_image_keeps_the_text_and_says_why(folder: Path, name: str, says: str) -> None:
    async with running(opened_in(folder)) as (app, pilot, opened):
        app.main.composer.insert(f"what is @{name}?")
        await pilot.press("enter")
        await until(pilot, lambda: f"not sent: {says}" in screen_text(app))
        assert app.main.composer.text == f"what is @{name}?" and sent(opened) == []
        app.main.composer.clear()
        app.main.composer.insert("what is @a.png?")
        await pilot.press("enter")
        await until(pilot, lambda: len(sent(opened)) == 1)


async def test_t30_a_refused_image_of_the_first_prompt_leaves_it_in_the_composer(folder: Path) -> None:
    options = ScreenOptions(directory=str(folder), prompt="what is @gone.png?")
    async with running(opened_in(folder), options=options) as (app, pilot, opened):
        await until(pilot, lambda: "gone.png: no such file" in screen_text(app))
        assert app.main.composer.text == "what is @gone.png?" and sent(opened) == []


async def test_a_model_without_vision_is_told_of(folder: Path) -> None:
    async with running(opened_in(folder, images=False)) as (app, pilot, opened):
        app.main.composer.insert("no image")
        await pilot.press("enter")
        await until(pilot, lambda: len(sent(opened)) == 1)
        assert "cannot see images" not in screen_text(app)
        app.main.composer.insert("@a.png")
        await pilot.press("escape", "enter")
        await until(pilot, lambda: "deepseek/deepseek-chat cannot see images" in screen_text(app))
        assert sent(opened)[1][1] == BLOCK


async def test_a_name_with_blanks_is_completed_in_quotes(folder: Path) -> None:
    async with running(opened_in(folder)) as (app, pilot, _):
        await until(pilot, lambda: bool(app.main.composer.files("my")))
        await pilot.press("@", "m", "y")
        await until(pilot, lambda: app.main.composer.suggestions.open)
        await pilot.press("tab")
        assert app.main.composer.text == '@"my shot.png"'


# -- pastes


async def test_a_dropped_file_becomes_a_mention(folder: Path) -> None:
    async with running(opened_in(folder)) as (app, pilot, _):
        composer = app.main.composer
        composer.insert("see ")
        composer.post_message(events.Paste(f"'{folder}/my shot.png'"))
        await until(pilot, lambda: composer.text == 'see @"my shot.png" ')
        composer.insert("@")
        composer.post_message(events.Paste(f"file://{folder}/a.png\r\n"))
        await until(pilot, lambda: composer.text == 'see @"my shot.png" @a.png ')
        await pilot.press("ctrl+underscore")
        assert composer.text == 'see @"my shot.png" @'


async def test_u09_other_pastes_and_keys_behind_them_stay_in_order(folder: Path) -> None:
    async with running(opened_in(folder)) as (app, pilot, _):
        composer = app.main.composer
        composer.post_message(events.Paste(f"{folder}/gone.png"))
        composer.post_message(events.Key("x", "x"))
        composer.post_message(events.Paste(f"{folder}/a.png"))
        composer.post_message(events.Key("y", "y"))
        await until(pilot, lambda: composer.text == f"{folder}/gone.pngx@a.png y")


async def test_a_paste_that_cannot_be_looked_at_is_not_lost(folder: Path) -> None:
    async def broken(_: str) -> str:
        raise OSError("no files here")

    async with running(opened_in(folder)) as (app, pilot, _):
        app.main.composer.pasted = broken
        app.main.composer.post_message(events.Paste("/a/b.png"))
        await until(pilot, lambda: app.main.composer.text == "/a/b.png")


# -- the clipboard


def clipboard_tool(folder: Path, monkeypatch: pytest.MonkeyPatch, name: str, script: str) -> None:
    """A tool of that name, alone in PATH, that reads what the clipboard of the test holds."""
    place = folder.parent / "bin"
    place.mkdir(exist_ok=True)
    (folder.parent / "held").write_bytes(pictures.plain("BMP", (30, 20)))
    tool = place / name
    tool.write_text(f"#!/bin/sh\n{script}\n")
    tool.chmod(0o755)
    monkeypatch.setenv("PATH", str(place))
    monkeypatch.setattr(clipboard.sys, "platform", "linux")


WAYLAND = """case "$*" in
"--list-types") echo text/plain; echo image/bmp;;
"--type image/bmp") exec /bin/cat "{held}";;
*) exit 1;;
esac"""
X11 = """case "$*" in
*TARGETS) printf 'TIMESTAMP\\nimage/bmp\\n';;
"-selection clipboard -o -t image/bmp") exec /bin/cat "{held}";;
*) exit 1;;
esac"""


@pytest.mark.parametrize(("name", "script", "display"), [("wl-paste", WAYLAND, "wayland-0"), ("xclip", X11, "")])
async def test_an_image_is_pasted_from_the_clipboard(
    folder: Path, monkeypatch: pytest.MonkeyPatch, name: str, script: str, display: str
) -> None:
    clipboard_tool(folder, monkeypatch, name, script.format(held=folder.parent / "held"))
    monkeypatch.setenv("WAYLAND_DISPLAY", display)
    async with running(opened_in(folder)) as (app, pilot, opened):
        composer = app.main.composer
        composer.insert("see")
        await pilot.press("alt+v")
        await until(pilot, lambda: "@" in composer.text)
        (file,) = kept(folder)
        assert composer.text == f"see @{file} " and stat.S_IMODE(file.stat().st_mode) == 0o600
        await until(pilot, lambda: ("set_draft", composer.text) in opened.root.calls)
        await pilot.press("enter")
        await until(pilot, lambda: composer.text == "")
        (content,) = sent(opened)
        assert pictures.opened(content[1]).size == (30, 20)


async def test_the_slash_command_leaves_only_the_mention(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    clipboard_tool(folder, monkeypatch, "wl-paste", WAYLAND.format(held=folder.parent / "held"))
    async with running(opened_in(folder)) as (app, pilot, opened):
        app.main.composer.insert("/paste-image")
        await pilot.press("enter")
        await until(pilot, lambda: app.main.composer.pending is None and bool(kept(folder)))
        assert app.main.composer.text == f"@{kept(folder)[0]} " and sent(opened) == []


@pytest.mark.parametrize(
    ("script", "says"),
    [
        ("echo text/plain", "the clipboard holds no image"),
        ("exit 1", "the clipboard holds no image"),
        ('[ "$1" = --list-types ] && echo image/png || echo nonsense', "on the clipboard cannot be sent: it is no"),
    ],
)
async def test_a_clipboard_without_an_image_says_so(
    folder: Path, monkeypatch: pytest.MonkeyPatch, script: str, says: str
) -> None:
    clipboard_tool(folder, monkeypatch, "wl-paste", script)
    async with running(opened_in(folder)) as (app, pilot, _):
        await pilot.press("alt+v")
        await until(pilot, lambda: says in screen_text(app))
        assert app.main.composer.text == "" and kept(folder) == []


async def test_without_a_tool_it_says_what_to_install(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(folder))
    monkeypatch.setattr(clipboard.sys, "platform", "linux")
    async with running(opened_in(folder), size=(160, 40)) as (app, pilot, _):
        await pilot.press("alt+v")
        await until(pilot, lambda: "wl-clipboard (Wayland) or xclip (X11)" in screen_text(app))


async def test_a_tool_that_hangs_or_floods_is_ended(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pid = folder / "pid"
    clipboard_tool(folder, monkeypatch, "wl-paste", f'echo $$ > "{pid}"; exec /bin/sleep 600')
    for seconds in (0.2, 2.0, 20.0):  # until the tool was fast enough to begin
        monkeypatch.setattr(clipboard, "TOOL_TIME", seconds)
        with pytest.raises(clipboard.NoImage):
            await clipboard.read_image()
        if pid.exists() and pid.read_text():
            break
    with pytest.raises(ProcessLookupError):
        os.kill(int(pid.read_text()), 0)
    monkeypatch.setattr(clipboard, "TOOL_TIME", 60.0)
    monkeypatch.setattr(clipboard, "FILE_LIMIT", 100_000)
    clipboard_tool(folder, monkeypatch, "wl-paste", f'echo $$ > "{pid}"; exec /bin/cat /dev/zero')
    with pytest.raises(clipboard.NoImage):
        await clipboard.read_image()
    with pytest.raises(ProcessLookupError):
        os.kill(int(pid.read_text()), 0)


async def test_on_a_mac_pngpaste_then_osascript(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    clipboard_tool(folder, monkeypatch, "osascript", f"printf '«data PNGf{GOOD.hex().upper()}»\\n'")
    clipboard_tool(folder, monkeypatch, "pngpaste", "exit 1")
    monkeypatch.setattr(clipboard.sys, "platform", "darwin")
    assert await clipboard.read_image() == GOOD
    clipboard_tool(folder, monkeypatch, "pngpaste", f'exec /bin/cat "{folder}/a.png"')
    clipboard_tool(folder, monkeypatch, "osascript", "exit 1")
    monkeypatch.setattr(clipboard.sys, "platform", "darwin")
    assert await clipboard.read_image() == GOOD


# -- the queue and the transcript


def queued(folder: Path, text: str, *blocks: Any) -> fakes.FakeOpened:
    item = {"id": 30, "mode": "followUp", "content": [{"type": "text", "text": text}, *blocks]}
    return opened_in(folder, run={"taskId": 9, "inputs": [1]}, inbox={"items": [item]})


async def test_a_queued_message_with_images_is_taken_back_as_its_text(folder: Path) -> None:
    async with running(queued(folder, "look at @a.png", BLOCK)) as (app, pilot, opened):
        await pilot.press("alt+up")
        await until(pilot, lambda: ("withdraw", 30) in opened.root.calls)
        await until(pilot, lambda: app.main.composer.text == "look at @a.png")
        assert kept(folder) == []
        await pilot.press("enter")
        await until(pilot, lambda: sent(opened) == [[{"type": "text", "text": "look at @a.png"}, BLOCK]])


async def test_an_image_that_came_otherwise_is_kept_when_its_message_is_taken_back(folder: Path) -> None:
    async with running(queued(folder, "look", BLOCK)) as (app, pilot, opened):
        await pilot.press("alt+up")
        await until(pilot, lambda: app.main.composer.text.startswith("look @"))
        (file,) = kept(folder)
        assert app.main.composer.text == f"look @{file}"
        await pilot.press("enter")
        await until(pilot, lambda: len(sent(opened)) == 1)
        assert sent(opened)[0][1] == BLOCK


async def test_a_message_whose_image_cannot_be_kept_stays_queued(folder: Path) -> None:
    (folder.parent / "home").write_text("in the way")
    async with running(queued(folder, "look", BLOCK)) as (app, pilot, opened):
        await pilot.press("alt+up")
        await until(pilot, lambda: "cannot be kept for editing" in screen_text(app))
        assert not any(call[0] == "withdraw" for call in opened.root.calls) and app.main.composer.text == ""


async def test_a_dropped_message_comes_back_without_words_about_its_images(folder: Path) -> None:
    async with running(queued(folder, "look at @a.png", BLOCK)) as (app, pilot, opened):
        await pilot.press("f3", "x")
        await until(pilot, lambda: ("withdraw", 30) in opened.root.calls)
        await until(pilot, lambda: app.main.composer.cleared == ["look at @a.png"])


async def test_the_transcript_tells_number_and_size_of_images(folder: Path) -> None:
    big = {**BLOCK, "data": "A" * 4000}
    entries = [{**fakes.user(2, [fakes.text("look at @a.png"), BLOCK, big]), "seq": 2}]
    async with running(opened_in(folder, entries=entries)) as (app, pilot, _):
        await until(pilot, lambda: "look at @a.png" in screen_text(app))
        assert "2 images, 3.1 kB" in screen_text(app)


# -- all of it


async def test_t32_a_real_session_stores_the_image_made_smaller(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home = tmp_path / "durable"
    home.mkdir()
    (home / "config.toml").write_text('model = "play/x"\n[providers.play]\napi = "scripted"\nscript = "turns.json"\n')
    turns = [{"text": "First.", "calls": [{"name": "read", "args": {"path": "a.png"}}]}, {"text": "I see both."}]
    (home / "turns.json").write_text(json.dumps(turns))
    monkeypatch.setenv("DURABLE_TUI_HOME", str(home))
    monkeypatch.delenv("DURABLE_TUI_MODEL", raising=False)
    (folder / "wide.png").write_bytes(pictures.plain("PNG", (9000, 40)))
    app = DurableApp(ScreenOptions(directory=str(folder.resolve())))
    async with app.run_test(size=(80, 24)) as pilot:
        await until(pilot, lambda: app.session is not None and app.session.started)
        assert app.session is not None
        app.main.composer.insert("compare @wide.png with a.png")
        await pilot.press("enter")
        await until(pilot, lambda: "I see both." in screen_text(app))
        shown = screen_text(app)
        assert "compare @wide.png with a.png" in shown and "1 image, " in shown
        assert "read a.png · 1 image" in shown
        stored = await app.session.root.entries()
        found = [
            pictures.opened(block).size
            for entry in stored
            for message in entry.record.get("model", ())
            if not isinstance(message["content"], str)
            for block in message["content"]
            if block["type"] == "image"
        ]
        assert found == [(2000, 9), (30, 20)]
        await pilot.press("ctrl+q")
        await until(pilot, lambda: app.return_code == 0)
