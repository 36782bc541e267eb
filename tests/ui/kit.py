"""Running the real app over the fakes."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

from textual._context import visible_screen_stack
from textual.pilot import Pilot

from durable_tui.host.options import ScreenOptions
from durable_tui.ui.app import DurableApp
from tests.tools import ui_fakes as fakes


@asynccontextmanager
async def running(
    opened: fakes.FakeOpened | None = None,
    *,
    size: tuple[int, int] = (120, 40),
    options: ScreenOptions | None = None,
    wait: bool = True,
    **arguments: Any,
) -> AsyncIterator[tuple[DurableApp, Pilot[int], fakes.FakeOpened]]:
    """The app on a fake session, opened and painted."""
    opened = opened or fakes.FakeOpened(fakes.FakeConversation(), fakes.FakeHarness())

    async def opener(_options: Any, _path: Any) -> Any:
        return opened

    options = options or ScreenOptions(directory="/home/me/src/app")
    app = DurableApp(options, opener=opener, now=lambda: fakes.NOW, **arguments)
    async with app.run_test(size=size) as pilot:
        if wait:
            await until(
                pilot,
                lambda: (
                    app.session is not None
                    and app.main.model is app.session.model
                    and (app.session.started or app.session.model.paused)
                ),
            )
            await pilot.pause()
        yield app, pilot, opened


async def until(pilot: Pilot[Any], condition: Callable[[], bool], seconds: float = 10.0) -> None:
    """Wait for a condition of ours, not for a time."""
    for _ in range(int(seconds / 0.01)):
        if condition():
            return
        await pilot.pause()
        await asyncio.sleep(0.01)
    raise AssertionError("it did not come to be")


def screen_text(app: DurableApp) -> str:
    """What stands on the screen, line by line."""
    width, height = app.size
    # With what is behind a dialog: without it the dialog would be drawn on nothing, and stay so in its cache.
    visible_screen_stack.set(app._background_screens)
    lines = app.screen._compositor.render_strips()[:height]
    return "\n".join("".join(segment.text for segment in strip).ljust(width)[:width].rstrip() for strip in lines)
