"""`poll`: an answer that its provider makes in the background and that is asked for now and then (spec 9)."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, cast

from durable_tui.agent.documents import LIVE
from durable_tui.agent.generation.attempt import (
    backoff,
    commit_answer,
    commit_failure,
    end_run,
    listen,
    load_attempt,
)
from durable_tui.agent.generation.partial_answer import Partial
from durable_tui.agent.generation.provider_cancel import ProviderCancel
from durable_tui.agent.shapes import Poll, Request
from durable_tui.delta import JsonObject, thaw
from durable_tui.engine.gates import again, time_gate
from durable_tui.engine.task_handle import InvocationEnded, TaskHandle
from durable_tui.engine.task_record import checkpoint_of
from durable_tui.models.provider import Deferred, ModelError
from durable_tui.session import Transaction

if TYPE_CHECKING:
    from durable_tui.agent.agent import Agent

POLL_GATE = "poll"


async def start_polling(agent: Agent, cancel: ProviderCancel, task: TaskHandle, deferred: Deferred) -> None:
    """Commit where the answer can be asked for: from here on nothing asks for it anew."""
    checkpoint = cast(Request, task.checkpoint)
    try:
        await _wait_on(agent, task, cast(Poll, checkpoint), deferred.handle, deferred.after)
    except (InvocationEnded, asyncio.CancelledError):
        record = agent.session.tasks.get(task.id)
        known = record is not None and checkpoint_of(record).get("phase") == "poll"
        if not known and (record is None or record["abortRequested"]):  # closing is no abort: the request is sent again
            cancel.start(task.id, cast(Poll, {**checkpoint, "handle": deferred.handle}))
        raise


async def poll(agent: Agent, cancel: ProviderCancel, task: TaskHandle) -> None:
    """Ask once for the answer, at the stored time. Recovery does no more than this either."""
    checkpoint = cast(Poll, task.checkpoint)
    now = agent.session.now()
    gate = again(POLL_GATE, checkpoint["pollAt"], checkpoint.get("since", now), now)
    if gate is not None:
        async with task.commit() as tx:
            live = await tx.document(LIVE, task.conversation_id)
            if "deferred" in live.value.get("generation", {}):
                live.value["generation"]["deferred"] = {"pollAt": gate["time"]}
            task.advance(tx, {**checkpoint, "pollAt": gate["time"], "since": now}, gate=gate)
        return
    try:
        attempt = await load_attempt(agent, task)
    except ModelError as error:
        await _unreachable(agent, task, error)
        return
    partial = Partial(attempt.model, agent.session.now())
    try:
        reply = await listen(agent.models.poll(attempt.request, thaw(checkpoint["handle"])), partial, polled=True)
    except ModelError as error:
        if error.kind == "configuration":
            await _unreachable(agent, task, error)
        else:
            await _failed(agent, cancel, task, partial, error)
        return
    if isinstance(reply, Deferred):
        await _wait_on(agent, task, checkpoint, reply.handle, reply.after)
    else:
        await commit_answer(agent, task, attempt, reply, attempt.call_ids)


async def _wait_on(
    agent: Agent, task: TaskHandle, checkpoint: Poll, handle: JsonObject, seconds: float, failures: int = 0
) -> None:
    """The answer is not there: commit when to ask next. `failures` counts the questions in a row that went wrong."""

    async def commit(tx: Transaction) -> None:
        live = await tx.document(LIVE, task.conversation_id)
        now = agent.session.now()
        # Always later than before: a checkpoint that stays the same is no progress.
        at = max(now + round(seconds * 1000), checkpoint.get("pollAt", 0) + 1)
        generation = live.value["generation"]
        generation.pop("message", None)
        generation["deferred"] = {"pollAt": at}
        waiting: Poll = {**checkpoint, "phase": "poll", "handle": handle, "pollAt": at, "since": now}
        waiting.pop("failures", None)
        if failures:
            waiting["failures"] = failures
        task.advance(tx, waiting, gate=time_gate(POLL_GATE, at, now))

    await task.commit_with_retry(commit)


async def _unreachable(agent: Agent, task: TaskHandle, error: ModelError) -> None:
    """The provider is not configured any more, or cannot be asked for such an answer."""
    await end_run(agent, task, "model_error", f"the answer made in the background cannot be fetched: {error}")


async def _failed(agent: Agent, cancel: ProviderCancel, task: TaskHandle, partial: Partial, error: ModelError) -> None:
    """The answer failed, or only the question for it: that is asked again, and nothing is ever made a second time."""
    settings = agent.settings
    checkpoint = cast(Poll, task.checkpoint)
    if not error.polled:
        await commit_failure(agent, task, partial, error)
        return
    failures = checkpoint.get("failures", 0) + 1
    if error.retryable and failures < settings.max_poll_failures:
        delay = backoff(settings, failures)
        if error.retry_after is not None:
            delay = min(error.retry_after, settings.retry_after_cap)
        if failures == 1:
            agent.report(f"asking for an answer made in the background failed and is tried again: {error}")
        await _wait_on(agent, task, checkpoint, checkpoint["handle"], delay, failures)
        return
    text = str(error) if failures == 1 else f"{error} (asked {failures} times in a row)"
    lasting = ModelError(text, error.kind, usage=error.usage)
    await commit_failure(agent, task, partial, lasting, final=True)
    if error.kind != "not_found":
        cancel.start(task.id, checkpoint)  # it may still be being made
