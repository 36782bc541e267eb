"""The progress of a headless command's own session: events, lines for slow steps, and an early end of the wait."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import aclosing
from typing import TYPE_CHECKING

from durable_tui.agent.inbox import InboxItemGone
from durable_tui.cli.output import note
from durable_tui.ground.text import one_line
from durable_tui.views.blocked import is_held, waits_for_person
from durable_tui.views.events import Events, with_records

if TYPE_CHECKING:
    from durable_tui.harness.conversation import Conversation
    from durable_tui.harness.harness import Harness
    from durable_tui.session.watch import Frame, Watch
    from durable_tui.views.event_shapes import Event
    from durable_tui.views.shapes import SessionView, TaskRow

SNAPSHOT_TAIL = 200  # entries of a snapshot; older ones are in `show --json`
QUIET = 2.0  # seconds a step may take before a line says what it is

Sink = Callable[["Event"], Awaitable[None]]


class HeadlessRun:
    """Runs beside the work until closed.

    `parked` is set while nothing can move without a person, with the reason in `reason`; `failure` holds what ended the
    following itself (a broken pipe). With `sink` every event goes there; without, slow steps are named on stderr.
    """

    def __init__(self, harness: Harness, root: Conversation, *, sink: Sink | None = None) -> None:
        self._harness = harness
        self._root = root
        self._sink = sink
        self._events = Events()
        self._progress = Progress()
        self._started = asyncio.Event()
        self._moved = asyncio.Event()
        self._view: SessionView | None = None
        self._awaited = 0
        self.parked = asyncio.Event()
        self.reason = ""
        self.parked_tasks: list[int] = []
        self._watch: Watch[SessionView] | None = None
        self._task: asyncio.Task[None] | None = None
        self._reporting: asyncio.Task[None] | None = None
        self._told: set[str] = set()

    async def __aenter__(self) -> HeadlessRun:
        self._watch = self._harness.watch(self._root.id, tail=SNAPSHOT_TAIL)
        self._task = asyncio.create_task(self._follow(self._watch), name="follow")
        self._reporting = asyncio.create_task(self._report(), name="report")
        await self._started.wait()  # what is done from here on is told as events, not as part of the snapshot
        return self

    async def __aexit__(self, error: type[BaseException] | None, *_: object) -> None:
        """Tell what is still to be told, however long its reader takes; after an error nothing more."""
        self._progress.stop()
        try:
            if error is None and self._watch is not None:
                self._watch.finish()
                await self.task
        finally:
            for task in (self._task, self._reporting):
                if task is not None:
                    task.cancel()
            if self._task is not None:
                with contextlib.suppress(asyncio.CancelledError):
                    await self._task
            self._tell_reports()

    async def _report(self) -> None:
        """Steps, hooks and sections that failed are warnings; a step that could not be stored moves no watch."""
        while True:
            await asyncio.sleep(1.0)
            self._tell_reports()

    def _tell_reports(self) -> None:
        for text in self._harness.reports:
            if text not in self._told:
                self._told.add(text)
                note(f"durable-tui: {text}")

    @property
    def task(self) -> asyncio.Task[None]:
        """The following itself; it ends early only by an error, which awaiting it raises."""
        assert self._task is not None
        return self._task

    async def _follow(self, watch: Watch[SessionView]) -> None:
        try:
            async with aclosing(watch):
                async for frame in watch:
                    self._started.set()
                    await self._take(frame)
        finally:
            self._started.set()
            self._moved.set()

    async def _take(self, frame: Frame[SessionView]) -> None:
        view = frame.value
        if self._sink is None:
            self._progress.show(step_of(view))
        else:
            for event in await with_records(self._events.feed(frame), self._record):
                await self._sink(event)
        # Only now: who waits for this view, or to be parked, may close the output next.
        self._judge(view)
        self._view = view
        self._moved.set()
        self._moved = asyncio.Event()

    async def _record(self, submission_id: int) -> Mapping[str, object]:
        submission = await self._harness.submission(submission_id)
        return submission.record

    def wait_with(self, submission_id: int) -> None:
        """Judge whether work is parked by views only that know of a submission, from now on."""
        self._awaited = submission_id
        self.parked.clear()
        if self._view is not None:
            self._judge(self._view)

    def _judge(self, view: SessionView) -> None:
        reason, self.parked_tasks = stuck(view["tasks"])
        self.reason = reason or ""
        if reason and knows(view, self._awaited):
            self.parked.set()
        else:
            self.parked.clear()

    async def release_stranded(self, submission_id: int) -> None:
        """Start the queue whenever it stands still with this item in it: the run before it failed (spec 8.4).

        A person who waits for just this item wants it to be taken. Goes on until cancelled.
        """
        while not self.task.done():
            moved, view = self._moved, self._view
            if view is not None and "run" not in view and submission_id in open_submissions(view):
                with contextlib.suppress(InboxItemGone):
                    await self._root.release(submission_id)
            await moved.wait()


def open_submissions(view: SessionView) -> set[int]:
    """The submissions a conversation's view still holds."""
    queued = {item["id"] for item in view["inbox"]["items"]}
    return queued.union(view["run"]["inputs"]) if "run" in view else queued


def knows(view: SessionView, submission_id: int) -> bool:
    """Whether a view is of a commit at or after the one that took a submission in (ids are handed out in order)."""
    entries = view["entries"]
    return (
        submission_id in open_submissions(view)
        or (bool(entries) and entries[-1]["id"] > submission_id)
        or not submission_id
    )


def stuck(rows: Sequence[TaskRow]) -> tuple[str | None, list[int]]:
    """Return why nothing can move, with the tasks a person must look at; None while something can, or nothing is left."""
    live = [row for row in rows if row["status"] != "terminal"]
    ordinary = [row for row in live if not row["background"]]
    parked = [row for row in live if waits_for_person(row)]
    if not ordinary or not parked or not all(is_held(row) for row in live):
        return None, []
    return parked[0].get("blocked"), sorted(row["id"] for row in parked)


def step_of(view: SessionView) -> str | None:
    """Return what the conversation is at, in a phrase; None when it is idle."""
    doing = {row["id"]: row["doing"] for row in view["tasks"]}
    slots = [slot for slot in view["tools"] if slot["status"] == "running"]
    running = [one_line(doing.get(slot.get("taskId", 0)) or slot["name"], 100) for slot in slots]
    if running:
        return "running " + ", ".join(running)
    generation = view.get("generation")
    if generation is not None:
        retry = generation.get("retry")
        if retry is not None:
            return f"waiting to ask again: {one_line(retry['error'], 160)}"
        if generation.get("deferred") is not None:
            return "waiting for the answer; it is being made at the provider"
        attempt = generation["attempt"]
        return "asking the model" + (f", attempt {attempt}" if attempt > 1 else "")
    return "working" if "run" in view else None


class Progress:
    """Says what a step is once it has taken two seconds: one line a step, on stderr."""

    def __init__(self) -> None:
        self._step: str | None = None
        self._timer: asyncio.TimerHandle | None = None

    def show(self, step: str | None) -> None:
        """The current step; the same again changes nothing."""
        if step == self._step:
            return
        self.stop()
        self._step = step
        if step is not None:
            self._timer = asyncio.get_running_loop().call_later(QUIET, note, f"… {step}")

    def stop(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
