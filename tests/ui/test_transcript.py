"""The transcript widget: following, anchoring, folding, paging, selection (cases U06, U07, UI-C05-UI-C07, UI-S03, UI-S10)."""

from __future__ import annotations

import time

from textual.geometry import Offset
from textual.selection import Selection

from tests.tools import ui_fakes as fakes
from tests.ui.kit import running, screen_text, until


def long(count: int, **parts: object) -> fakes.FakeOpened:
    entries = []
    for n in range(count):
        entries.append({**fakes.user(2 + 2 * n, f"question {n}"), "seq": n})
        entries.append(
            {**fakes.assistant(3 + 2 * n, fakes.text(f"answer {n}\n" + "some words here\n" * (n % 7))), "seq": n}
        )
    return fakes.FakeOpened(fakes.FakeConversation(fakes.empty_view(entries=entries, **parts)), fakes.FakeHarness())


def top(app: object) -> str:
    return next(line for line in screen_text(app).split("\n")[2:] if line.strip())  # type: ignore[arg-type]


async def test_it_follows_and_stops_following_when_one_scrolls_up() -> None:
    async with running(long(60)) as (app, pilot, opened):
        assert "answer 59" in screen_text(app)
        opened.root.append(fakes.user(900, "new one"))
        await until(pilot, lambda: "new one" in screen_text(app))
        await pilot.press("pageup")
        await pilot.pause()
        shown = screen_text(app)
        opened.root.append(fakes.user(901, "unseen"))
        await until(pilot, lambda: "new End" in screen_text(app))
        assert "unseen" not in screen_text(app)
        assert screen_text(app).split("\n")[4:20] == shown.split("\n")[4:20] or top(app) == next(
            line for line in shown.split("\n")[2:] if line.strip()
        )
        await pilot.press("f7", "end")
        await until(pilot, lambda: "unseen" in screen_text(app))


async def test_ui_s03_scrolling_up_through_guessed_heights_never_jumps() -> None:
    async with running(long(200)) as (app, pilot, _):
        transcript = app.main.transcript
        seen: list[str] = []
        for _ in range(60):
            transcript.scroll_relative(y=-7, animate=False)
            await pilot.pause()
            lines = ["".join(s.text for s in transcript.render_line(y)).strip() for y in range(transcript.size.height)]
            numbers = [int(line.split()[1]) for line in lines if line.startswith(("answer", "▎question"))]
            assert numbers == sorted(numbers)
            if seen:
                overlap = [line for line in lines if line in seen and line.startswith(("answer", "▎question"))]
                assert overlap, "a page was skipped"
            seen = lines


async def test_ui_s03_a_resize_keeps_what_is_read() -> None:
    async with running(long(200)) as (app, pilot, _):
        await pilot.press("f7", "left_curly_bracket", "left_curly_bracket", "left_curly_bracket", "left_curly_bracket")
        await pilot.pause()
        transcript = app.main.transcript
        first = transcript.blocks(transcript._heights.find(transcript.scroll_offset.y)[0]).entry
        await pilot.resize_terminal(150, 30)
        await pilot.pause()
        assert transcript.blocks(transcript._heights.find(transcript.scroll_offset.y)[0]).entry == first


async def test_ui_s10_older_entries_come_when_the_top_is_reached() -> None:
    opened = long(30, first=False)
    entries = [{**entry, "id": entry["id"] + 1000} for entry in opened.root.view["entries"]]
    opened.root.emit(["s", ["entries"], entries])
    opened.root.older = [{**fakes.user(10 + n, f"older {n}"), "seq": n} for n in range(50)]
    async with running(opened) as (app, pilot, _):
        transcript = app.main.transcript
        await pilot.press("f7", "home")
        await until(pilot, lambda: any(call[0] == "entries" for call in opened.root.calls))
        await until(pilot, lambda: not transcript.has_older)
        assert "question 0" in screen_text(app)
        await pilot.press("home")
        await until(pilot, lambda: "older 0" in screen_text(app))


async def test_ui_c07_jumping_between_questions_pages_older_ones_in() -> None:
    opened = long(3, first=False)
    opened.root.emit(["s", ["entries"], [{**entry, "id": entry["id"] + 1000} for entry in opened.root.view["entries"]]])
    opened.root.older = [
        {**fakes.user(10, "the oldest"), "seq": 1},
        *({**fakes.assistant(11 + n, fakes.text("words\n" * 9)), "seq": 1} for n in range(9)),
    ]
    async with running(opened) as (app, pilot, _):
        await pilot.press("f7")
        for _ in range(5):
            await pilot.press("left_curly_bracket")
            await pilot.pause()
        await until(pilot, lambda: "the oldest" in screen_text(app))
        await pilot.press("right_curly_bracket")
        await until(pilot, lambda: top(app).startswith(" ▎you") or "question 0" in screen_text(app))


async def test_calls_fold_and_unfold_by_key_and_by_click() -> None:
    async with running(fakes.recovered_scene(), size=(120, 60)) as (app, pilot, _):
        assert "line 3" not in screen_text(app)
        await pilot.press("f7")
        for _ in range(12):
            await pilot.press("up")
        await pilot.press("enter")
        await until(pilot, lambda: "line 3" in screen_text(app))
        await pilot.press("enter")
        await until(pilot, lambda: "line 3" not in screen_text(app))
        row = next(y for y, line in enumerate(screen_text(app).split("\n")) if "✓ read config/dev.json" in line)
        await pilot.click(offset=(8, row))
        await until(pilot, lambda: "line 3" in screen_text(app))


async def test_ui_c06_selection_gives_source_text_without_gutters_and_soft_breaks() -> None:
    words = " ".join(f"word{n}" for n in range(60))
    view = fakes.empty_view(
        entries=[
            {**fakes.user(2, "ask"), "seq": 1},
            {**fakes.assistant(3, fakes.text(f"{words}\n\n```python\nx = 1\ny = 2\n```")), "seq": 2},
        ]
    )
    async with running(fakes.FakeOpened(fakes.FakeConversation(view), fakes.FakeHarness())) as (app, _, _opened):
        found = app.main.transcript.get_selection(Selection(None, None))
        assert found is not None
        assert words in found[0]
        assert "\nx = 1\ny = 2" in found[0]
        assert found[0].startswith("\nask") or "\nask\n" in found[0]
        part = app.main.transcript.get_selection(Selection(Offset(1, 1), Offset(3, 1)))
        assert part is not None and part[0] == "as"


async def test_ui_c05_mouse_selection_is_copied_with_ctrl_c() -> None:
    view = fakes.empty_view(entries=[{**fakes.user(2, "select this text"), "seq": 1}])
    async with running(fakes.FakeOpened(fakes.FakeConversation(view), fakes.FakeHarness())) as (app, pilot, _):
        written: list[str] = []
        app.write_terminal = written.append  # type: ignore[method-assign]
        row = next(y for y, line in enumerate(screen_text(app).split("\n")) if "▎select this text" in line)
        await pilot.mouse_down(offset=(2, row))
        await pilot.hover(offset=(9, row))
        await pilot.mouse_up(offset=(9, row))
        await pilot.pause()
        assert app.screen.get_selected_text() is not None
        await pilot.press("ctrl+c")
        await until(pilot, lambda: bool(written))
        assert "OSC 52" in screen_text(app) and "not confirmed" in screen_text(app)


async def test_u06_three_thousand_entries_stay_quick() -> None:
    async with running(long(1500)) as (app, pilot, _):
        began = time.perf_counter()
        await pilot.resize_terminal(100, 30)
        await pilot.press(*"some keys typed here".replace(" ", ""))
        app.main.transcript.scroll_to(y=0, animate=False)
        await pilot.pause()
        assert "question 0" in screen_text(app)
        assert time.perf_counter() - began < 10
        assert len(list(app.main.walk_children())) < 40


async def test_u07_a_long_answer_streams_and_ends_as_stored() -> None:
    async with running() as (app, pilot, opened):
        root = opened.root
        root.emit(
            ["s", ["run"], {"taskId": 9, "inputs": [1]}],
            ["s", ["generation"], {"attempt": 1, "message": {"role": "assistant", "content": [fakes.text("")]}}],
        )
        pieces = [f"| {n} | cell |\n" if n % 5 else f"\nsome **words** {n} and more\n" for n in range(3000)]
        for piece in pieces:
            root.emit(["a", ["generation", "message", "content", 0, "text"], piece])
        text = "".join(pieces)
        await until(pilot, lambda: bool(app.main.model.transcript.tail) and app.main.model.seq == root.seq)
        assert app.main.model.view["generation"]["message"]["content"][0]["text"] == text
        root.emit(
            ["p", ["entries"], 0, 0, [{**fakes.assistant(5, fakes.text(text)), "seq": 9}]],
            ["d", ["run"]],
            ["d", ["generation"]],
        )
        await until(pilot, lambda: app.main.transcript.model.tail == [] and "2999" in screen_text(app))
        assert "▌" not in screen_text(app).replace("▌type", "")
