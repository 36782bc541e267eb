"""One session whose worker is killed and started again, against a strict model server in its own process."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from durable_tui.storage import SqliteStorage
from tests.tools.effects import Effects
from tests.tools.invariants import check_effects, check_idle, read_state
from tests.tools.processes import Ended, Processes, clean_environment
from tests.tools.scenario import codes
from tests.tools.strict_server import StrictServer

TURNS = [
    {"text": "I look first.", "calls": [["peek", {"text": "p"}]], "chunks": 4},
    {"calls": [["note", {"text": "a"}], ["note", {"text": "b"}]]},
    {"text": "All of it is done.", "chunks": 6},
]


class Crashes:
    """One session, one server; the worker is started again until it ends by itself."""

    def __init__(self, tmp_path: Path, server: StrictServer) -> None:
        self.server = server
        self.session = tmp_path / "session.sqlite"
        self.log = tmp_path / "effects.log"
        environment = clean_environment(tmp_path, {"OPENAI_BASE_URL": server.url, "OPENAI_API_KEY": "test-key"})
        self.processes = Processes(tmp_path, environment)

    def start(self, turns: list[dict[str, Any]], *more: str) -> Any:
        prompt = "SCRIPT " + json.dumps(turns)
        return self.processes.worker(
            str(self.session), prompt, "--effects", str(self.log), "--request-id", "job", *more
        )

    def run(self, turns: list[dict[str, Any]], *more: str) -> Ended:
        return self.processes.finish(self.start(turns, *more))

    def settled(self, ended: Ended) -> dict[str, Any]:
        assert ended.status == 0, f"{ended.status}\n{ended.stdout}\n{ended.stderr}"
        line: dict[str, Any] = json.loads(ended.stdout.strip().split("\n")[-1])
        return line

    async def check(self) -> list[str]:
        """The invariants of the finished session; gives the codes of its results' diagnostics."""
        self.processes.wait_gone()
        storage = await SqliteStorage.open(self.session, durability="process")
        try:
            found = await check_idle(storage)
            found += await check_effects(storage, Effects(self.log).read())
            found += self.server.violations()
            state = await read_state(storage)
        finally:
            await storage.close()
        assert not found, "\n".join(found)
        assert len(state.submissions) == 1, "one request id, one submission"
        return codes(entry for _, entry in sorted(state.entries.items()))
