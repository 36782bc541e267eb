"""What a type checker refuses between the screen and the façade."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]
PROBE = """\
from durable_tui.harness import Conversation, Harness
from durable_tui.host.follow import FollowedConversation, FollowedSession
from durable_tui.ui.adapter.screen import ScreenModel
from durable_tui.ui.app import DurableApp
from durable_tui.ui.commands.desk import Desk
from durable_tui.ui.open_session import OpenSession, OwnedSession
from durable_tui.views.facade import ConversationFacade, ConversationReader, SessionFacade, SessionReader
from durable_tui.views.shapes import TaskRow


async def probe(
    app: DurableApp, owned: OwnedSession, followed: OpenSession, model: ScreenModel, row: TaskRow, root: Conversation,
    harness: Harness, reader: FollowedConversation, session: FollowedSession,
) -> None:
    desk: Desk = app
    facades: tuple[ConversationFacade, SessionFacade] = (root, harness)
    readers: tuple[ConversationReader, SessionReader] = (reader, session)
    await owned.root.submit("hello", when_busy="steer")
    await owned.harness.rename("a name")
    row["phase"], model.view["run"], followed.harness.watch(1), desk, facades, readers
    await owned.root.subbmit("hello")  # refused
    await owned.root.submit("hello", when_bussy="steer")  # refused
    await owned.root.configure(modle="a/b")  # refused
    await owned.harness.rename(1)  # refused
    model.view["runn"]  # refused
    row["phasse"]  # refused
    await followed.root.submit("hello")  # refused
    await followed.harness.resume()  # refused
    app.session.root  # refused
"""


def test_the_checker_refuses_each_misuse_of_a_session_and_nothing_else(tmp_path: Path) -> None:
    probe = tmp_path / "probe.py"
    probe.write_text(PROBE)
    command = [sys.executable, "-m", "mypy", "--config-file", str(ROOT / "pyproject.toml"), "--no-pretty", str(probe)]
    told = subprocess.run(command, cwd=ROOT, capture_output=True, text=True).stdout
    # By name: what mypy remembers of an earlier run has that run's directory before it.
    refused = {int(number) for number in re.findall(r"probe\.py:(\d+): error: ", told)}
    wanted = {number for number, line in enumerate(PROBE.splitlines(), 1) if line.endswith("# refused")}
    assert refused == wanted, told
