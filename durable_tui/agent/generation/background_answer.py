"""`poll`: an answer that its provider makes in the background and that is asked for now and then (spec 9)."""

from __future__ import annotations

import asyncio
from typing import Any

from durable_tui.agent.documents import LIVE
from durable_tui.agent.generation.attempt import answered, backoff, end_run, failed, listen, load_attempt, wait_until
from durable_tui.agent.generation.partial_answer import Partial
from durable_tui.delta import thaw
from durable_tui.engine.commit_with_retry import patiently
from durable_tui.engine.task import InvocationEnded, TaskContext, checkpoint_of
from durable_tui.models.provider import Deferred, Model, ModelError
from durable_tui.session import Transaction


async def start_polling(context: TaskContext, deferred: Deferred) -> None:
    """Commit where the answer can be asked for: from here on nothing asks for it anew."""
    kernel, checkpoint = context.kernel, context.checkpoint
    try:
        await _wait_on(context, deferred.handle, deferred.after)
    except (InvocationEnded, asyncio.CancelledError):
        record = kernel.session.tasks.get(context.id)
        known = record is not None and checkpoint_of(record).get("phase") == "poll"
        if not known and (record is None or record["abortRequested"]):  # closing is no abort: the request is sent again
            kernel.cancelling.start(context.id, {**checkpoint, "handle": deferred.handle})
        raise


async def poll(context: TaskContext) -> None:
    """Wait until the stored time, then ask once for the answer. Recovery does no more than this either."""
    kernel, checkpoint = context.kernel, context.checkpoint
    await wait_until(kernel, checkpoint["pollAt"])
    try:
        attempt = await load_attempt(context)
    except ModelError as error:
        await _unreachable(context, error)
        return
    partial = Partial(attempt.model, kernel.session.now())
    try:
        reply = await listen(kernel.models.poll(attempt.request, thaw(checkpoint["handle"])), partial, polled=True)
    except ModelError as error:
        if error.kind == "configuration":
            await _unreachable(context, error)
        else:
            await _failed(context, partial, attempt.model, error)
        return
    if isinstance(reply, Deferred):
        await _wait_on(context, reply.handle, reply.after)
    else:
        await answered(context, attempt, reply, attempt.call_ids)


async def _wait_on(context: TaskContext, handle: Any, seconds: float, failures: int = 0) -> None:
    """The answer is not there: commit when to ask next. `failures` counts the questions in a row that went wrong."""
    kernel, checkpoint = context.kernel, context.checkpoint

    async def commit(tx: Transaction) -> None:
        live = await tx.document(LIVE, context.conversation_id)
        # Always later than before: a checkpoint that stays the same is no progress.
        at = max(kernel.session.now() + round(seconds * 1000), checkpoint.get("pollAt", 0) + 1)
        generation = live.value["generation"]
        generation.pop("message", None)
        generation["deferred"] = {"pollAt": at}
        waiting = {**checkpoint, "phase": "poll", "handle": handle, "pollAt": at}
        waiting.pop("failures", None)
        if failures:
            waiting["failures"] = failures
        context.advance(tx, waiting)

    await patiently(context, commit)


async def _unreachable(context: TaskContext, error: ModelError) -> None:
    """The provider is not configured any more, or cannot be asked for such an answer."""
    await end_run(context, "model_error", f"the answer made in the background cannot be fetched: {error}")


async def _failed(context: TaskContext, partial: Partial, model: Model, error: ModelError) -> None:
    """The answer failed, or only the question for it: that is asked again, and nothing is ever made a second time."""
    kernel, checkpoint, settings = context.kernel, context.checkpoint, context.kernel.settings
    if not error.polled:
        await failed(context, partial, model, error)
        return
    failures = checkpoint.get("failures", 0) + 1
    if error.retryable and failures < settings.max_poll_failures:
        delay = backoff(settings, failures)
        if error.retry_after is not None:
            delay = min(error.retry_after, settings.retry_after_cap)
        if failures == 1:
            kernel.report(f"asking for an answer made in the background failed and is tried again: {error}")
        await _wait_on(context, checkpoint["handle"], delay, failures)
        return
    text = str(error) if failures == 1 else f"{error} (asked {failures} times in a row)"
    await failed(context, partial, model, ModelError(text, error.kind, usage=error.usage), final=True)
    if error.kind != "not_found":
        kernel.cancelling.start(context.id, checkpoint)  # it may still be being made
