"""The progress of a headless command's own session: events, lines for slow steps, and an early end of the wait."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Mapping
from typing import TYPE_CHECKING, Any

from durable_tui.agent.inbox import InboxItemGone
from durable_tui.cli.output import note
from durable_tui.engine.recovery import PARKED
from durable_tui.ground.text import one_line
from durable_tui.views.events import Event, Events, TaskEvents, with_records

if TYPE_CHECKING:
    from durable_tui.harness.conversation import Conversation
    from durable_tui.harness.harness import Harness

SNAPSHOT_TAIL = 200  # entries of a snapshot; older ones are in `show --json`
QUIET = 2.0  # seconds a step may take before a line says what it is

Sink = Callable[[Event], Awaitable[None]]


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
        self._task_events = TaskEvents()
        self._progress = Progress()
        self._started = asyncio.Event()
        self._moved = asyncio.Event()
        self._view: Any = None
        self._doing: dict[int, str] = {}
        self.parked = asyncio.Event()
        self.reason = ""
        self.parked_tasks: list[int] = []
        self._task: asyncio.Task[None] | None = None
        self._reporting: asyncio.Task[None] | None = None
        self._told: set[str] = set()

    async def __aenter__(self) -> HeadlessRun:
        self._task = asyncio.create_task(self._follow(), name="follow")
        self._reporting = asyncio.create_task(self._report(), name="report")
        await self._started.wait()  # what is done from here on is told as events, not as part of the snapshot
        return self

    async def __aexit__(self, *_: object) -> None:
        self._progress.stop()
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

    async def _follow(self) -> None:
        """Both watches, merged by commit: the one that is behind goes first."""
        watches = (self._root.watch(tail=SNAPSHOT_TAIL), self._harness.watch_tasks())
        handlers = (self._conversation, self._tasks)
        pending: list[asyncio.Task[Any] | None] = [None, None]
        open_watches = {0, 1}
        try:
            first = await anext(watches[0])  # the snapshot is the first line, before any task's event
            self._started.set()
            await self._conversation(first)
            while open_watches:
                for index in open_watches:
                    if pending[index] is None:
                        pending[index] = asyncio.ensure_future(_next(watches[index]))
                waiting = [task for task in pending if task is not None]
                await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
                await asyncio.sleep(0)  # frames of one commit arrive together
                ready = {index: task.result() for index, task in enumerate(pending) if task is not None and task.done()}
                for index in [index for index, frame in ready.items() if frame is None]:
                    open_watches.discard(index)
                    pending[index] = None
                    del ready[index]
                if ready:
                    index = min(ready, key=lambda index: (ready[index].seq, index))
                    pending[index] = None
                    await handlers[index](ready[index])
        finally:
            for task in pending:
                if task is not None:
                    task.cancel()
            for watch in watches:
                await watch.aclose()
            self._started.set()
            self._moved.set()

    async def _conversation(self, frame: Any) -> None:
        if self._sink is None:
            self._progress.show(step_of(frame.value, self._doing))
        else:
            for event in await with_records(self._events.feed(frame), self._record):
                await self._sink(event)
        # Only now: who waits for this view may close the output next.
        self._view = frame.value
        self._moved.set()
        self._moved = asyncio.Event()

    async def _tasks(self, frame: Any) -> None:
        reason, tasks = stuck(frame.value["tasks"])
        self.reason, self.parked_tasks = reason or "", tasks
        if reason:
            self.parked.set()
        else:
            self.parked.clear()
        self._doing = {row["id"]: row["doing"] for row in frame.value["tasks"] if row.get("doing")}
        if self._sink is not None:
            for event in self._task_events.feed(frame):
                await self._sink(event)

    async def _record(self, submission_id: int) -> Any:
        submission = await self._harness.submission(submission_id)
        return submission.record

    async def release_stranded(self, submission_id: int) -> None:
        """Start the queue whenever it stands still with this item in it: the run before it failed (spec 8.4).

        A person who waits for just this item wants it to be taken. Goes on until cancelled.
        """
        while not self.task.done():
            moved, view = self._moved, self._view
            queued = view is not None and submission_id in {item["id"] for item in view["inbox"]["items"]}
            if queued and "run" not in view:
                with contextlib.suppress(InboxItemGone):
                    await self._root.release(submission_id)
            await moved.wait()

    async def settled(self, submission_id: int) -> None:
        """Until the last frame taken no longer holds the submission, so that its events are out."""
        while not self.task.done():
            moved = self._moved
            if self._view is not None and submission_id not in open_submissions(self._view):
                return
            await moved.wait()


async def _next(watch: Any) -> Any:
    """The next frame, or None at the watch's end."""
    try:
        return await anext(watch)
    except StopAsyncIteration:
        return None


def open_submissions(view: Any) -> set[int]:
    """The submissions a conversation's view still holds."""
    queued = {item["id"] for item in (view.get("inbox") or {}).get("items") or ()}
    return queued | set((view.get("run") or {}).get("inputs") or ())


def stuck(rows: Any) -> tuple[str | None, list[int]]:
    """Return why nothing can move, with the tasks a person must look at; None while something can, or nothing is left."""
    live = [row for row in rows if row["status"] != "terminal"]
    ordinary = [row for row in live if not row.get("background")]
    blocked = [row for row in live if row.get("blocked") in PARKED]
    if not ordinary or not blocked:
        return None, []
    still = {row["id"] for row in blocked}
    if any(row["id"] not in still and row["status"] not in ("waiting", "completing") for row in live):
        return None, []
    return str(blocked[0]["blocked"]), sorted(still)


def step_of(view: Any, doing: Mapping[int, str]) -> str | None:
    """Return what the conversation is at, in a phrase; None when it is idle. `doing` has the phrases of tasks."""
    slots = [slot for slot in view["tools"] if slot["status"] == "running"]
    running = [one_line(doing.get(slot.get("taskId"), slot["name"]), 100) for slot in slots]
    if running:
        return "running " + ", ".join(running)
    generation = view.get("generation")
    if generation is not None:
        retry = generation.get("retry")
        if retry is not None:
            return f"waiting to ask again: {one_line(str(retry.get('error', '')), 160)}"
        if generation.get("deferred") is not None:
            return "waiting for the answer; it is being made at the provider"
        attempt = generation.get("attempt", 1)
        return "asking the model" + (f", attempt {attempt}" if attempt > 1 else "")
    return "working" if view.get("run") is not None else None


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
