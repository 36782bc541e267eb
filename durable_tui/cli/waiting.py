"""Waiting for work, or for what keeps it from moving: parked tasks, a session that refuses, a reader that left."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from durable_tui.cli.status import Exit, Status
from durable_tui.ground.text import show_bytes

if TYPE_CHECKING:
    from durable_tui.cli.headless import HeadlessRun
    from durable_tui.host.opening import Opened

T = TypeVar("T")
_LIFT = {
    "restart_limit": "`durable-tui resume --retry {session}` tries again",
    "missing_task": "install the extension that defines it and resume",
    "task_too_old": "it was stored by a newer version; update and resume",
    "migration_failed": "the extension that defines it could not take its stored state; fix it and resume",
}


async def wait_for(opened: Opened, headless_run: HeadlessRun, awaited: Awaitable[T]) -> T | Exit:
    """Return what was waited for, or the exit that came first. An error of it, or of the following, is raised."""
    work = asyncio.ensure_future(awaited)
    parked = asyncio.create_task(headless_run.parked.wait())
    problem = asyncio.create_task(opened.problem.wait())
    try:
        await asyncio.wait((work, parked, problem, headless_run.task), return_when=asyncio.FIRST_COMPLETED)
        if work.done() and work.exception() is None:
            return work.result()
        if problem.done() or opened.problem.is_set():  # it says more than the error that it gave the work
            return problem_exit(opened)
        if work.done():
            work.result()
        if parked.done():
            return parked_exit(opened, headless_run)
        headless_run.task.result()
        raise RuntimeError("the session's watch ended before the work")
    finally:
        for task in (work, parked, problem):
            task.cancel()
        await asyncio.gather(work, parked, problem, return_exceptions=True)


def parked_exit(opened: Opened, headless_run: HeadlessRun) -> Exit:
    """Status 5, naming the tasks and what a person can do."""
    names = ", ".join(f"T{number}" for number in headless_run.parked_tasks)
    lift = _LIFT.get(headless_run.reason, "").format(session=opened.short_id)
    return Exit(Status.PARKED, headless_run.reason, f"parked, {headless_run.reason}: {names}; {lift}")


def problem_exit(opened: Opened) -> Exit:
    """Return the exit of a session that refuses: fenced is another owner's doing, everything else the storage's."""
    harness = opened.harness
    text = harness.session_problem or "the session refuses further work"
    if harness.state == "fenced":
        return Exit(Status.OWNED, "fenced", text)
    if harness.paused_for_space:
        return Exit(Status.STORAGE, "full", text)
    return Exit(Status.STORAGE, "poisoned", f"{text} ({opened.path}); run the command again to reopen it")


def free_space(path: Path) -> str:
    """Return the room left where the session is, for people."""
    import shutil

    try:
        return show_bytes(shutil.disk_usage(path.parent).free)
    except OSError:
        return "unknown"
