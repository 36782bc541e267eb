"""The launcher's child from start to status (spec 21): signals, the launcher's death, closing in order."""

from __future__ import annotations

import asyncio
import gc
import sys

from durable_tui.host.options import ScreenOptions


def run_screen(options: ScreenOptions) -> int:
    """The launcher's child: run the screen and return its status. Prints nothing but why nothing could start."""
    # Looking for garbage in what imports make, which stays, would be a good part of the start.
    gc.disable()
    from durable_tui.ground.text import clean
    from durable_tui.host import terminal
    from durable_tui.ui import garbage, patches
    from durable_tui.ui.app import DurableApp

    garbage.keep_imports()
    gc.enable()
    patches.apply()
    saved = terminal.save()
    app = DurableApp(options)
    orphaned = False

    async def main() -> int:
        nonlocal orphaned
        loop = asyncio.get_running_loop()

        def abandoned() -> None:
            nonlocal orphaned
            orphaned = True
            app.leave(1)

        terminal.watch_stop_signals(loop, lambda number: app.leave(128 + number))
        terminal.watch_launcher(loop, abandoned)
        try:
            await app.run_async()
        finally:
            await app.close_sessions()
        if app.return_code:
            return app.return_code
        return app.return_value or 0

    status = asyncio.run(main())
    if orphaned:
        terminal.abandoned(saved)
    message = app.broken or (app.failure[1] if app.failure is not None and app.session is None else "")
    if message:
        print(f"durable-tui: {message}", file=sys.stderr)
    if app.unsaved.strip():
        print(f"durable-tui: what you wrote could not be saved:\n{clean(app.unsaved)}", file=sys.stderr)
    return status
