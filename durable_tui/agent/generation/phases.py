"""`pi.generation`: one model response and what follows from it (spec 9, 17.5)."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from durable_tui.agent.cleanup import close_partial
from durable_tui.agent.documents import AGENT, LIVE
from durable_tui.agent.generation.attempt import (
    answered,
    check_size,
    end_run,
    failed,
    kept,
    listen,
    load_attempt,
    wait_until,
)
from durable_tui.agent.generation.background_answer import poll, start_polling
from durable_tui.agent.generation.partial_answer import Partial, Throttle, ended_partial
from durable_tui.agent.generation.provider_cancel import ABORT_WAITS
from durable_tui.agent.generation.tool_round import tools_phase
from durable_tui.agent.inbox import load_scene, settle_inputs
from durable_tui.agent.model_context import call_ids, load_context
from durable_tui.agent.prompt import plan, render_sections, tool_descriptions
from durable_tui.agent.tool_task import append_result, error_result
from durable_tui.engine.task import InvocationEnded, TaskContext, TaskDefinition, changed
from durable_tui.models.provider import Deferred, Model, ModelError

if TYPE_CHECKING:
    from durable_tui.engine.kernel import Kernel

FIRST_SIGHT = 0.02  # seconds from the first word of an answer to its first commit

# -- prepare ---------------------------------------------------------------------------------------------------------


async def prepare(context: TaskContext) -> None:
    """Resolve agent, prompt and settings anew; append what changed; fix model, options and cutoff."""
    kernel, conversation_id = context.kernel, context.conversation_id
    checkpoint = context.checkpoint
    agent = await kernel.session.value(AGENT, conversation_id)
    if "model" not in agent:
        await end_run(context, "no_model", "no model is chosen for this conversation")
        return
    name = f"{agent['model']['provider']}/{agent['model']['modelId']}"
    try:
        kernel.models.resolve(name)
    except ModelError as error:
        await end_run(context, "model_error", str(error))
        return
    extensions, tools = await kernel.selection(conversation_id)
    cache = await load_context(kernel, conversation_id)
    sections = await render_sections(kernel, conversation_id, extensions, tools, cache.sections)
    descriptions = tool_descriptions(tools)
    async with context.commit() as tx:
        live = await tx.document(LIVE, conversation_id)
        cache = await load_context(kernel, conversation_id)
        cutoff = cache.last_id
        for message in plan(cache, sections, descriptions, kernel.session.now()):
            cutoff = tx.append(conversation_id, "pi.system", model=[message], by_task=context.id)["id"]
        live.value["generation"] = {"attempt": checkpoint["attempt"]}
        context.advance(
            tx,
            {
                **kept(checkpoint),
                "phase": "request",
                "attempt": checkpoint["attempt"],
                "model": agent["model"],
                "thinkingLevel": agent.get("thinkingLevel", "off"),
                "streamOptions": {},
                "cutoff": cutoff,
            },
        )


# -- request ---------------------------------------------------------------------------------------------------------


async def request(context: TaskContext) -> None:
    """Ask the model and commit what it answered. A partial left by a dead attempt is closed first."""
    kernel, conversation_id = context.kernel, context.conversation_id
    live = await kernel.session.value(LIVE, conversation_id)
    if "message" in live.get("generation", {}):
        async with context.commit() as tx:
            await close_partial(await load_scene(kernel, tx, conversation_id), context.id)
    try:
        attempt = await load_attempt(context)
    except ModelError as error:
        await end_run(context, "model_error", str(error))
        return
    derived = attempt.request
    length = len(derived.messages)
    prepared = await kernel.run_hooks(attempt.extensions, "beforeRequest", derived)
    untouched = prepared.messages is derived.messages and len(prepared.messages) == length
    kernel.tidy_soon()  # the model takes its time, and no commit waits behind it
    partial = Partial(attempt.model, kernel.session.now())
    throttle = Throttle(kernel.settings.partial_interval, lambda: _commit_partial(context, partial), first=FIRST_SIGHT)
    failure: ModelError | None = None
    try:
        if untouched:
            check_size(attempt)
        reply = await listen(kernel.models.stream(prepared), partial, throttle.touch)
    except ModelError as error:
        failure = error
    finally:
        await throttle.stop()
    if failure is not None:
        await failed(context, partial, attempt.model, failure)
    elif isinstance(reply, Deferred):
        await start_polling(context, reply)
    else:
        # Looking through all messages every round would make long runs slow.
        earlier = attempt.call_ids if untouched else call_ids(prepared.messages)
        await answered(context, attempt, reply, earlier)


async def _commit_partial(context: TaskContext, partial: Partial) -> None:
    try:
        async with context.commit(flush=False) as tx:
            live = await tx.document(LIVE, context.conversation_id)
            generation = live.value.get("generation")
            if generation is None:
                return
            message = partial.message()
            if "message" not in generation:
                generation["message"] = message
                return
            stored = generation["message"]["content"]
            for index, block in enumerate(message["content"]):
                if index >= len(stored):
                    stored.append(block)
                    continue
                for key, value in block.items():
                    if stored[index].get(key) != value:
                        stored[index][key] = value
    except InvocationEnded:
        return


# -- retry, abort ----------------------------------------------------------------------------------------------------


async def retry(context: TaskContext) -> None:
    """Wait until the stored time, then prepare the next attempt."""
    checkpoint = context.checkpoint
    await wait_until(context.kernel, checkpoint["until"])
    attempt = checkpoint["attempt"] + 1
    async with context.commit() as tx:
        live = await tx.document(LIVE, context.conversation_id)
        live.value["generation"] = {"attempt": attempt}
        context.advance(tx, {**kept(checkpoint), "phase": "prepare", "attempt": attempt})


async def abort(context: TaskContext) -> None:
    """End the run: the partial answer stays visible, every call has a result, the inputs settle `aborted`."""
    kernel, conversation_id = context.kernel, context.conversation_id
    checkpoint = context.checkpoint
    cancelling = kernel.cancelling.start(context.id, checkpoint) if checkpoint.get("phase") == "poll" else None
    pending = [
        call
        for call in [
            await kernel.find_call(
                changed(context.record, input={"assistant": checkpoint["assistant"], "callId": call_id})
            )
            for call_id in checkpoint.get("pending", ())
        ]
        if call is not None
    ]
    extensions, _ = await kernel.selection(conversation_id)
    await kernel.run_hooks(extensions, "onAbort", {"conversationId": conversation_id, "taskId": context.id})
    if cancelling is not None:
        await asyncio.wait({cancelling}, timeout=ABORT_WAITS)
    async with context.commit() as tx:
        scene = await load_scene(kernel, tx, conversation_id)
        run = scene.live.get("run")
        if run is not None and run["taskId"] == context.id:
            for call in pending:
                result = error_result(call["name"], "aborted", "was aborted before it started")
                append_result(tx, context, call, result, kernel.session.now())
            if await close_partial(scene, context.id) is None and checkpoint.get("phase") in ("request", "poll"):
                tx.append(conversation_id, "pi.assistant", model=[_nothing(kernel, checkpoint)], by_task=context.id)
            settle_inputs(scene, reason="aborted")
        context.end_aborted(tx)


def _nothing(kernel: Kernel, checkpoint: Any) -> dict[str, Any]:
    """The entry of an attempt that was aborted before its first word."""
    provider, model_id = checkpoint["model"]["provider"], checkpoint["model"]["modelId"]
    try:
        model = kernel.models.resolve(f"{provider}/{model_id}")
    except ModelError:
        model = Model(provider, model_id, "")
    return ended_partial(Partial(model, kernel.session.now()).message(), "aborted")


GENERATION = TaskDefinition(
    name="pi.generation",
    phases={"prepare": prepare, "request": request, "tools": tools_phase, "retry": retry, "poll": poll},
    initial=lambda _: {"phase": "prepare", "attempt": 1},
    abort=abort,
)
