"""The picture of the README, `python tests/tools/portrait.py docs/screen.svg`: a real session, really killed, opened again.

A model server in this process plays the script. `durable-tui run` works in a project of its own and dies of SIGKILL
while its command runs; then the screen opens the same session, recovers it, and is saved when the answer is there.
"""

from __future__ import annotations

import asyncio
import os
import re
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from durable_tui.host.options import ScreenOptions
from durable_tui.ui.app import DurableApp
from tests.tools.model_server import ModelServer

ROOT = Path(__file__).resolve().parents[2]
SIZE = (120, 36)
FONTS = "ui-monospace, 'DejaVu Sans Mono', Menlo, Consolas, monospace"
PROMPT = "The config test fails. Find out why and fix it."
CONFIG = '{\n  "host": "127.0.0.1",\n  "port": "8080",\n  "debug": true\n}\n'
TEST = "#!/bin/sh\necho 'tests/test_config.py ....'\necho 'tests/test_server.py .......'\nsleep ${PAUSE:-60}\necho '11 passed'\n"


def call(name: str, **arguments: Any) -> dict[str, Any]:
    return {"name": name, "args": arguments}


TURNS = [
    {"text": "I read the config first.", "calls": [call("read", path="config/dev.json")]},
    {
        "text": "The port is a text; the test wants a number.",
        "calls": [call("edit", path="config/dev.json", edits=[{"oldText": '"8080"', "newText": "8080"}])],
    },
    {"text": "Now the tests.", "calls": [call("bash", command="./run-tests")]},
    {"text": "The run was cut off, so I start it again.", "calls": [call("bash", command="PAUSE=0 ./run-tests")]},
    {"text": 'Done. The port in `config/dev.json` was a text, `"8080"`; it is a number now, and **11 tests pass**.'},
]


def make_project(home: Path) -> Path:
    project = home / "src" / "app"
    (project / "config").mkdir(parents=True)
    (project / "config" / "dev.json").write_text(CONFIG)
    (project / "run-tests").write_text(TEST)
    (project / "run-tests").chmod(0o755)
    return project


def run_and_kill(project: Path, environment: Mapping[str, str]) -> None:
    """Start the work and end it, by a SIGKILL, while its command runs."""
    process = subprocess.Popen(
        [sys.executable, "-m", "durable_tui", "run", PROMPT],
        cwd=project, env=dict(environment), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    assert process.stderr is not None
    line = process.stderr.readline()  # a step that takes its time is named
    assert "running bash" in line, line
    process.send_signal(signal.SIGKILL)
    process.communicate()


async def picture(project: Path) -> str:
    """The screen on the killed session, once its work is done."""
    app = DurableApp(ScreenOptions(directory=str(project)))
    async with app.run_test(size=SIZE) as pilot:
        deadline = time.monotonic() + 30
        while time.monotonic() < deadline:
            await pilot.pause(0.1)
            session = app.session
            if session is not None and session.started and not session.model.busy and await answered(session):
                break
        else:
            raise AssertionError("the work did not end")
        await pilot.pause(1.0)
        drawn = app.export_screenshot(title="durable-tui")
        app.leave(0)
        await pilot.pause(0.2)
    return drawn


async def answered(session: Any) -> bool:
    entries = await session.root.entries(limit=1)
    return bool(entries) and entries[-1].record.get("model", [{}])[0].get("stopReason") == "stop"


def own_fonts(svg: str) -> str:
    """Without fonts from elsewhere: whoever looks has a monospaced one."""
    svg = re.sub(r"@font-face\s*\{[^}]*\}\s*", "", svg)
    svg = svg.replace("Fira Code", FONTS).replace("font-family: arial", "font-family: sans-serif")
    return re.sub(r"font-family: *\"?(ui-monospace[^;\"]*?)\"?(, *monospace)?;", rf"font-family: {FONTS};", svg)


def main(out: str) -> None:
    target = Path(out).resolve()
    with tempfile.TemporaryDirectory() as folder, ModelServer(TURNS, strict=True) as server:
        home = Path(folder).resolve()
        project = make_project(home)
        kept = {name: value for name, value in os.environ.items() if name in ("PATH", "LANG", "LC_ALL")}
        os.environ.clear()
        os.environ.update(
            kept, HOME=str(home), TZ="UTC", PYTHONPATH=str(ROOT), PYTHONDONTWRITEBYTECODE="1", COLORTERM="truecolor",
            DEEPSEEK_API_KEY="none", DEEPSEEK_BASE_URL=server.base_url, DURABLE_TUI_MODEL="deepseek/deepseek-chat",
        )  # fmt: skip
        time.tzset()
        run_and_kill(project, os.environ)
        os.chdir(project)
        drawn = own_fonts(asyncio.run(picture(project)))
        os.chdir(ROOT)
        assert str(home) not in drawn and not server.violations
    target.write_text(drawn)


if __name__ == "__main__":
    main(*sys.argv[1:])
