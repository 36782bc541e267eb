"""Ending an answer at the provider that makes it, once nobody waits for it any more (spec 9, `poll`)."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, cast

from durable_tui.agent.shapes import GenerationCheckpoint, Poll
from durable_tui.delta import Json, thaw
from durable_tui.engine.reports import Reports
from durable_tui.engine.task_record import checkpoint_of, describe, is_decided, outcome_of
from durable_tui.models.provider import ModelError
from durable_tui.session import Commit, Session

if TYPE_CHECKING:
    from durable_tui.agent.agent import ModelSource

NAME = "pi.generation"
PAUSES = (1.0, 3.0)  # seconds between the tries
ONE_TRY = 10.0  # seconds for one try
ABORT_WAITS = 0.1  # seconds that an abort waits for it: so short that a stop is felt at once
CLOSE_WAITS = 3.0  # seconds that closing waits for what is left


class ProviderCancel:
    """Ends answers at their providers, in the background of one session.

    An abort starts it before it decides the outcome, so a crash in between starts it again. What ends without its abort
    handler (faulted, orphaned) is noticed in the commit that says so. A failure is reported and changes nothing.
    """

    def __init__(self, session: Session, models: ModelSource, reports: Reports) -> None:
        self._models = models
        self._reports = reports
        self._running: dict[int, asyncio.Task[None]] = {}
        session.observe(self._observe)

    def start(self, task_id: int, checkpoint: Poll) -> asyncio.Task[None]:
        """End the answer that a `poll` checkpoint names; the task never raises. One at a time for each task."""
        running = self._running.get(task_id)
        if running is None:
            ending = self._cancel(checkpoint["model"]["provider"], thaw(checkpoint["handle"]))
            running = asyncio.get_running_loop().create_task(ending, name=f"cancel the answer of task {task_id}")
            self._running[task_id] = running
            running.add_done_callback(lambda _: self._running.pop(task_id, None))
        return running

    async def close(self) -> None:
        """Give what runs a little more time, then leave it."""
        running = list(self._running.values())
        if not running:
            return
        _, left = await asyncio.wait(running, timeout=CLOSE_WAITS)
        for task in left:
            task.cancel()
        if left:
            self._reports.add(f"{len(left)} answer(s) may go on at their provider: closing did not wait longer")
            await asyncio.wait(left, timeout=1.0)

    async def _cancel(self, provider: str, handle: dict[str, Json]) -> None:
        problem = ""
        for pause in (*PAUSES, None):
            try:
                async with asyncio.timeout(ONE_TRY):
                    await self._models.cancel(provider, handle)
                return
            except ModelError as error:
                problem = str(error)
                if not error.retryable:
                    break
            except TimeoutError:
                problem = f"no reply within {ONE_TRY:g} s"
            except Exception as error:  # noqa: BLE001 - a provider of any make; it is reported
                problem = describe(error)
                break
            if pause is not None:
                await asyncio.sleep(pause)
        self._reports.add(f"an answer may go on at {provider}, it could not be cancelled there: {problem}")

    def _observe(self, commit: Commit) -> None:
        for before, after in commit.tasks:
            if before is None or before["kind"] != NAME or is_decided(before):
                continue
            outcome = outcome_of(after)
            checkpoint = cast(GenerationCheckpoint, checkpoint_of(before))
            if outcome and outcome["status"] in ("faulted", "orphaned") and checkpoint["phase"] == "poll":
                self.start(after["id"], checkpoint)
