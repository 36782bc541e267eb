"""Pictures of the screen: `python tests/tools/shoot.py SCENE WIDTHxHEIGHT OUT.png [THEME] [KEY ...]`.

The fakes feed it, so the pictures are the same on every machine. Needs `chromium` for PNG; OUT.svg needs nothing.
"""

from __future__ import annotations

import asyncio
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))
os.environ.setdefault("TZ", "UTC")

from durable_tui.host.options import ScreenOptions
from durable_tui.ui.app import DurableApp
from tests.tools import ui_fakes as fakes


def empty() -> fakes.FakeOpened:
    return fakes.FakeOpened(fakes.FakeConversation(), fakes.FakeHarness())


SCENES: dict[str, Callable[[], Any]] = {"recovered": fakes.recovered_scene, "empty": empty}


async def shoot(scene: str, size: tuple[int, int], out: Path, theme: str = "ink", keys: tuple[str, ...] = ()) -> None:
    """Write one picture."""
    opened = SCENES[scene]()

    async def opener(options: Any, path: Any) -> Any:
        return opened

    app = DurableApp(ScreenOptions(directory="/home/me/src/app"), opener=opener, theme=theme, now=lambda: fakes.NOW)
    async with app.run_test(size=size) as pilot:
        for _ in range(100):
            await pilot.pause(0.02)
            if app.session is not None and app.session.started:
                break
        await pilot.pause(0.2)
        for key in keys:
            await pilot.press(key)
            await pilot.pause(0.05)
        await pilot.pause(0.2)
        svg = app.export_screenshot()
    svg = svg.replace("Fira Code", "DejaVu Sans Mono")
    if out.suffix == ".svg":
        out.write_text(svg)
    else:
        draw(svg, out)


def draw(svg: str, out: Path) -> None:
    """The SVG as a browser shows it."""
    found = re.search(r'viewBox="0 0 ([\d.]+) ([\d.]+)"', svg)
    if found is None:
        raise ValueError("no picture")
    width, height = (int(float(part)) + 1 for part in found.groups())
    with tempfile.TemporaryDirectory() as folder:
        page = Path(folder) / "page.html"
        page.write_text(f"<style>body{{margin:0}}</style>{svg}")
        subprocess.run(
            ["chromium", "--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", f"--user-data-dir={folder}/profile",
             f"--screenshot={out}", f"--window-size={width},{height}", page.as_uri()],
            check=True, capture_output=True,
        )  # fmt: skip


def main(arguments: list[str]) -> None:
    scene, size, out, *rest = arguments
    width, height = (int(part) for part in size.split("x"))
    theme = rest[0] if rest else "ink"
    asyncio.run(shoot(scene, (width, height), Path(out), theme, tuple(rest[1:])))


if __name__ == "__main__":
    main(sys.argv[1:])
