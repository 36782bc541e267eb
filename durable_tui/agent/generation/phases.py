"""`pi.generation`: one model response and what follows from it (spec 9, 17.5)."""

from __future__ import annotations

import asyncio
from functools import partial
from typing import TYPE_CHECKING, cast

from durable_tui.agent.calls import find_call
from durable_tui.agent.documents import AGENT, LIVE
from durable_tui.agent.generation.attempt import (
    RETRY_GATE,
    check_size,
    commit_answer,
    commit_failure,
    end_run,
    kept,
    listen,
    load_attempt,
)
from durable_tui.agent.generation.background_answer import poll, start_polling
from durable_tui.agent.generation.partial_answer import Partial, close_partial, commit_partial, ended_partial
from durable_tui.agent.generation.provider_cancel import ABORT_WAITS, NAME, ProviderCancel
from durable_tui.agent.generation.tool_round import tools_phase
from durable_tui.agent.inbox import settle_inputs
from durable_tui.agent.model_context import call_ids
from durable_tui.agent.prompt import plan, render_sections, tool_descriptions
from durable_tui.agent.shapes import GenerationCheckpoint, Poll, Prepare, Request, Retry, ToolRound
from durable_tui.agent.throttle import Throttle
from durable_tui.agent.tool_result import append_result, error_result
from durable_tui.engine.gates import again
from durable_tui.engine.task import Abandonment, Decision, TaskDefinition
from durable_tui.engine.task_handle import TaskHandle
from durable_tui.engine.task_record import checkpoint_of, phase_of
from durable_tui.models.messages import AssistantMessage, Message, ToolCallBlock
from durable_tui.models.provider import Deferred, Model, ModelError
from durable_tui.session import Transaction
from durable_tui.storage.records import TaskRecord

if TYPE_CHECKING:
    from durable_tui.agent.agent import Agent

FIRST_SIGHT = 0.02  # seconds from the first word of an answer to its first commit
RESTARTED = Decision("restarted", "15")
RESENT = Decision("resent", "15")
RESUMED = Decision("resumed", "15")


def generation_kind(agent: Agent, cancel: ProviderCancel) -> TaskDefinition:
    """The kind of task that makes one answer."""
    return TaskDefinition(
        name=NAME,
        phases={
            "prepare": partial(prepare, agent),
            "request": partial(request, agent, cancel),
            "tools": partial(tools_phase, agent),
            "retry": partial(retry, agent),
            "poll": partial(poll, agent, cancel),
        },
        initial=lambda _: {"phase": "prepare", "attempt": 1},
        abort=partial(abort, agent, cancel),
        abandon=partial(abandon, agent),
        verdict=verdict,
        doing=doing,
        elsewhere=elsewhere,
        effect_phases=frozenset(),  # a request that may have been made is sent again
    )


def begin_generation(agent: Agent, tx: Transaction, conversation_id: int) -> int:
    """Create the task that answers a conversation, reserved when the scheduler may start it; returns its id."""
    definition = agent.engine.definitions.get(NAME)
    if definition is None:
        raise LookupError(f"the code for {NAME} is gone")
    return agent.engine.add_task(tx, conversation_id=conversation_id, definition=definition, input={})["id"]


# -- prepare ---------------------------------------------------------------------------------------------------------


async def prepare(agent: Agent, task: TaskHandle) -> None:
    """Resolve agent, prompt and settings anew; append what changed; fix model, options and cutoff."""
    checkpoint = cast(Prepare, task.checkpoint)
    choices = await agent.session.value(AGENT, task.conversation_id)
    if "model" not in choices:
        await end_run(agent, task, "no_model", "no model is chosen for this conversation")
        return
    try:
        agent.models.resolve(f"{choices['model']['provider']}/{choices['model']['modelId']}")
    except ModelError as error:
        await end_run(agent, task, "model_error", str(error))
        return
    extensions, tools = await agent.toolbox.selection(task.conversation_id)
    context = await agent.contexts.load(task.conversation_id)
    sections = await render_sections(agent, task.conversation_id, extensions, tools, context.sections)
    descriptions = tool_descriptions(tools)
    async with task.commit() as tx:
        live = await tx.document(LIVE, task.conversation_id)
        context = await agent.contexts.load(task.conversation_id)
        cutoff = context.last_id
        for message in plan(context, sections, descriptions, agent.session.now()):
            cutoff = tx.append(task.conversation_id, "pi.system", model=[message], by_task=task.id)["id"]
        live.value["generation"] = {"attempt": checkpoint["attempt"]}
        pinned: Request = {
            **kept(checkpoint),
            "phase": "request",
            "attempt": checkpoint["attempt"],
            "model": choices["model"],
            "thinkingLevel": choices.get("thinkingLevel", "off"),
            "streamOptions": {},
            "cutoff": cutoff,
        }
        task.advance(tx, pinned)


# -- request ---------------------------------------------------------------------------------------------------------


async def request(agent: Agent, cancel: ProviderCancel, task: TaskHandle) -> None:
    """Ask the model and commit what it answered. A partial left by a dead attempt is closed first."""
    live = await agent.session.value(LIVE, task.conversation_id)
    if "generation" in live and "message" in live["generation"]:
        async with task.commit() as tx:
            await close_partial(await agent.conversations.load(tx, task.conversation_id), task.id)
    try:
        attempt = await load_attempt(agent, task)
    except ModelError as error:
        await end_run(agent, task, "model_error", str(error))
        return
    derived = attempt.request
    length = len(derived.messages)
    prepared = await agent.toolbox.run_hooks(attempt.extensions, "beforeRequest", derived)
    untouched = prepared.messages is derived.messages and len(prepared.messages) == length
    agent.engine.tidying.soon()  # the model takes its time, and no commit waits behind it
    partial_answer = Partial(attempt.model, agent.session.now())
    throttle = Throttle(
        agent.settings.partial_interval, lambda: commit_partial(task, partial_answer), first=FIRST_SIGHT
    )
    try:
        if untouched:
            check_size(attempt)
        reply = await listen(agent.models.stream(prepared), partial_answer, throttle.touch)
    except ModelError as error:
        await throttle.stop()
        await commit_failure(agent, task, partial_answer, error)
        return
    finally:
        await throttle.stop()
    if isinstance(reply, Deferred):
        await start_polling(agent, cancel, task, reply)
        return
    # Looking through all messages every round would make long runs slow.
    earlier = attempt.call_ids if untouched else call_ids(cast("list[Message]", prepared.messages))
    await commit_answer(agent, task, attempt, reply, earlier)


# -- retry -----------------------------------------------------------------------------------------------------------


async def retry(agent: Agent, task: TaskHandle) -> None:
    """Prepare the next attempt, at the stored time."""
    checkpoint = cast(Retry, task.checkpoint)
    now = agent.session.now()
    gate = again(RETRY_GATE, checkpoint["until"], checkpoint.get("since", now), now)
    async with task.commit() as tx:
        live = await tx.document(LIVE, task.conversation_id)
        if gate is not None:  # the clock went back
            waiting: Retry = {**checkpoint, "until": gate["time"], "since": now}
            if "retry" in live.value.get("generation", {}):
                live.value["generation"]["retry"]["at"] = gate["time"]
            task.advance(tx, waiting, gate=gate)
            return
        attempt = checkpoint["attempt"] + 1
        live.value["generation"] = {"attempt": attempt}
        following: Prepare = {**kept(checkpoint), "phase": "prepare", "attempt": attempt}
        task.advance(tx, following)


# -- ends ------------------------------------------------------------------------------------------------------------


async def abort(agent: Agent, cancel: ProviderCancel, task: TaskHandle) -> None:
    """End the run: the partial answer stays visible, every call has a result, the inputs settle `aborted`."""
    checkpoint = cast(GenerationCheckpoint, task.checkpoint)
    cancelling = cancel.start(task.id, checkpoint) if checkpoint["phase"] == "poll" else None
    pending = await _pending_calls(agent, checkpoint) if checkpoint["phase"] == "tools" else []
    extensions, _ = await agent.toolbox.selection(task.conversation_id)
    await agent.toolbox.run_hooks(extensions, "onAbort", {"conversationId": task.conversation_id, "taskId": task.id})
    if cancelling is not None:
        await asyncio.wait({cancelling}, timeout=ABORT_WAITS)
    async with task.commit() as tx:
        draft = await agent.conversations.load(tx, task.conversation_id)
        run = draft.live.get("run")
        if run is not None and run["taskId"] == task.id:
            for call in pending:
                append_result(tx, task, call, error_result(call["name"], "aborted", "was aborted before it started"))
            closed = await close_partial(draft, task.id)
            if closed is None and (checkpoint["phase"] == "request" or checkpoint["phase"] == "poll"):
                nothing = _nothing(agent, checkpoint)
                tx.append(task.conversation_id, "pi.assistant", model=[nothing], by_task=task.id)
            settle_inputs(draft, reason="aborted")
        task.end_aborted(tx)


async def _pending_calls(agent: Agent, checkpoint: ToolRound) -> list[ToolCallBlock]:
    """The calls of a sequential round that got no task yet."""
    assistant = checkpoint["assistant"]
    calls = [
        await find_call(agent.entries, {"assistant": assistant, "callId": call_id}) for call_id in checkpoint["pending"]
    ]
    return [call for call in calls if call is not None]


def _nothing(agent: Agent, checkpoint: Request | Poll) -> AssistantMessage:
    """The entry of an attempt that was aborted before its first word."""
    provider, model_id = checkpoint["model"]["provider"], checkpoint["model"]["modelId"]
    try:
        model = agent.models.resolve(f"{provider}/{model_id}")
    except ModelError:
        model = Model(provider, model_id, "")
    return ended_partial(Partial(model, agent.session.now()).message(), "aborted")


async def abandon(agent: Agent, tx: Transaction, record: TaskRecord, why: Abandonment) -> None:
    """End the run: its partial answer becomes an entry and its inputs settle (spec 6.9)."""
    draft = await agent.conversations.load(tx, record["conversationId"])
    run = draft.live.get("run")
    if run is not None and run["taskId"] == record["id"]:
        await close_partial(draft, record["id"])
        settle_inputs(draft, reason=why.reason, detail=why.detail)


# -- for people and for recovery -------------------------------------------------------------------------------------


async def verdict(record: TaskRecord) -> Decision:
    """A request is sent again as it was pinned; what came before starts again, what waits goes on (spec 15)."""
    return {"prepare": RESTARTED, "request": RESENT}.get(phase_of(record) or "", RESUMED)


def doing(record: TaskRecord) -> str:
    """What it asks, "asking deepseek-chat, attempt 2", or what it waits for."""
    phase = phase_of(record)
    if phase == "tools":
        return "waiting for its tools"
    if phase == "poll":
        model = cast(Poll, checkpoint_of(record))["model"]
        return f"waiting for {model['modelId']}'s answer, made at {model['provider']}"
    words = {"prepare": "preparing to ask", "retry": "waiting to ask again:"}.get(phase or "", "asking")
    name = cast(Request, checkpoint_of(record))["model"]["modelId"] if phase == "request" else "the model"
    return f"{words} {name}, attempt {checkpoint_of(record).get('attempt', 1)}"


def elsewhere(record: TaskRecord) -> str | None:
    """The provider that makes the answer in the background, while one does."""
    return cast(Poll, checkpoint_of(record))["model"]["provider"] if phase_of(record) == "poll" else None
