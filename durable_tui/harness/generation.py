"""`pi.generation`: one model response and what follows from it (contract 9, RECORDS 5)."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from typing import TYPE_CHECKING, Any

from durable_tui.delta import JsonError, freeze
from durable_tui.harness.cleanup import close_partial
from durable_tui.harness.context import ContextCache, call_ids, load_context, unique_call_ids
from durable_tui.harness.documents import AGENT, LIVE, PROVIDER
from durable_tui.harness.inbox import Scene, apply_boundary, load_scene, new_generation, settle_inputs, start_run
from durable_tui.harness.partial import Partial, Throttle, ended_partial
from durable_tui.harness.patience import patiently
from durable_tui.harness.prompt import plan, render_sections, tool_descriptions
from durable_tui.harness.tasks import InvocationEnded, TaskContext, TaskDefinition, changed, new_task, outcome_of
from durable_tui.harness.toolcall import TOOL, append_result, error_result
from durable_tui.harness.usage import record_usage
from durable_tui.models.provider import Finished, Model, ModelError, ModelRequest
from durable_tui.session import Transaction

if TYPE_CHECKING:
    from durable_tui.harness.kernel import Kernel

# -- prepare ---------------------------------------------------------------------------------------------------------


async def prepare(context: TaskContext) -> None:
    """Resolve agent, prompt and settings anew; append what changed; fix model, options and cutoff."""
    kernel, conversation_id = context.kernel, context.conversation_id
    checkpoint = context.checkpoint
    agent = await kernel.session.value(AGENT, conversation_id)
    if "model" not in agent:
        await _end_run(context, "no_model", "no model is chosen for this conversation")
        return
    name = f"{agent['model']['provider']}/{agent['model']['modelId']}"
    try:
        kernel.models.resolve(name)
    except ModelError as error:
        await _end_run(context, "model_error", str(error))
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
                **_kept(checkpoint),
                "phase": "request",
                "attempt": checkpoint["attempt"],
                "model": agent["model"],
                "thinkingLevel": agent.get("thinkingLevel", "off"),
                "streamOptions": {},
                "cutoff": cutoff,
            },
        )


def _kept(checkpoint: Any) -> dict[str, Any]:
    return {key: checkpoint[key] for key in ("compacted", "overflow") if key in checkpoint}


async def _end_run(context: TaskContext, reason: str, detail: str) -> None:
    async with context.commit() as tx:
        scene = await load_scene(context.kernel, tx, context.conversation_id)
        settle_inputs(scene, reason=reason, detail=detail)
        context.fail(tx, detail)


# -- request ---------------------------------------------------------------------------------------------------------


async def request(context: TaskContext) -> None:
    """Ask the model and commit what it answered. A partial left by a dead attempt is closed first."""
    kernel, conversation_id = context.kernel, context.conversation_id
    checkpoint = context.checkpoint
    live = await kernel.session.value(LIVE, conversation_id)
    if "message" in live.get("generation", {}):
        async with context.commit() as tx:
            close_partial(await load_scene(kernel, tx, conversation_id), context.id)
    cache = await load_context(kernel, conversation_id, cutoff=checkpoint["cutoff"])
    offered = dict(cache.tools)
    name = f"{checkpoint['model']['provider']}/{checkpoint['model']['modelId']}"
    try:
        model = kernel.models.resolve(name)
    except ModelError as error:
        await _end_run(context, "model_error", str(error))
        return
    extensions, _ = await kernel.selection(conversation_id)
    derived = await _request(kernel, context, cache, model)
    length = len(derived.messages)
    prepared = await kernel.run_hooks(extensions, "beforeRequest", derived)
    untouched = prepared.messages is derived.messages and len(prepared.messages) == length
    kernel.tidy_soon()  # the model takes its time, and no commit waits behind it
    partial = Partial(model, kernel.session.now())
    throttle = Throttle(kernel.settings.partial_interval, lambda: _commit_partial(context, partial))
    message: dict[str, Any] | None = None
    failure: ModelError | None = None
    stream = kernel.models.stream(prepared)
    try:
        async for event in stream:
            if isinstance(event, Finished):
                # Looking through all messages every round would make long runs slow.
                earlier = cache.call_ids if untouched else call_ids(prepared.messages)
                message = unique_call_ids(dict(event.message), earlier)
                break
            partial.apply(event)
            throttle.touch()
    except ModelError as error:
        failure = error
    except (InvocationEnded, asyncio.CancelledError):
        raise
    except Exception as error:  # noqa: BLE001 - a provider of any make must not take the run down
        failure = ModelError(f"the provider failed: {type(error).__name__}: {error}", "bad_request")
    finally:
        try:
            await throttle.stop()
        finally:
            if isinstance(stream, AsyncGenerator):
                await stream.aclose()  # else its connection stays open until somebody collects it
    if failure is None and message is None:
        failure = ModelError("the answer broke off before its end", "truncated")
    if failure is None and message is not None and message["stopReason"] in ("error", "aborted", "deferred"):
        text = message.get("errorMessage") or f"the provider ended the answer with {message['stopReason']}"
        failure = ModelError(str(text), "refused", usage=message.get("usage"))
    if failure is not None:
        await _failed(context, partial, model, failure)
        return
    assert message is not None
    message = dict(await kernel.run_hooks(extensions, "afterResponse", message, _is_answer))
    if any(block["type"] == "toolCall" for block in message["content"]):
        await patiently(context, lambda tx: _commit_calls(context, tx, message, offered))
    else:
        asked = {"message": message, "continue": None}
        continuation = await kernel.run_hooks(
            extensions, "onYield", asked, lambda answer: isinstance(answer, dict | str)
        )
        wanted = continuation.get("continue") if isinstance(continuation, dict) else continuation
        await patiently(context, lambda tx: _commit_answer(context, tx, message, wanted))


def _is_answer(message: Any) -> bool:
    """Whether a hook gave an assistant message that can be stored and read again."""
    try:
        clean = freeze(message)
        kinds = {"text": "text", "thinking": "thinking", "toolCall": "name"}
        return clean["role"] == "assistant" and all(kinds[block["type"]] in block for block in clean["content"])
    except (JsonError, KeyError, TypeError):
        return False


async def _request(kernel: Kernel, context: TaskContext, cache: ContextCache, model: Model) -> ModelRequest:
    provider = await kernel.session.value(PROVIDER, context.conversation_id)
    checkpoint = context.checkpoint
    return ModelRequest(
        model=model,
        system=cache.system(),
        messages=cache.messages(),
        tools=list(cache.tools.values()),
        thinking_level=checkpoint["thinkingLevel"],
        session_id=provider.get("sessionId", ""),
        options=dict(checkpoint["streamOptions"]),
    )


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


async def _failed(context: TaskContext, partial: Partial, model: Model, error: ModelError) -> None:
    """A failed attempt becomes an entry; it is tried again later, or the run ends `model_error`."""
    kernel, settings = context.kernel, context.kernel.settings
    attempt = context.checkpoint["attempt"]
    retry = error.retryable and attempt <= settings.max_retries
    delay = min(settings.base_delay * 2 ** (attempt - 1), settings.max_delay)
    text = str(error)
    if error.retry_after is not None:
        delay = error.retry_after
        if delay > settings.retry_after_cap:
            retry = False
            text = f"{text} (the server asks to wait {round(delay)} s, longer than {round(settings.retry_after_cap)} s)"
    message = freeze(ended_partial(partial.message(), "error", text, error.usage))
    until = kernel.session.now() + round(delay * 1000)

    async def commit(tx: Transaction) -> None:
        scene = await load_scene(kernel, tx, context.conversation_id)
        tx.append(context.conversation_id, "pi.assistant", model=[message], by_task=context.id)
        await record_usage(tx, context.conversation_id, "models", model.name, error.usage)
        if retry:
            scene.live["generation"] = {"attempt": attempt, "retry": {"at": until, "error": text}}
            context.advance(tx, {**_kept(context.checkpoint), "phase": "retry", "attempt": attempt, "until": until})
        else:
            settle_inputs(scene, reason="model_error", detail=text)
            context.fail(tx, text, detail={"kind": error.kind})

    await patiently(context, commit)


async def _commit_answer(context: TaskContext, tx: Transaction, message: Any, continuation: str | None) -> None:
    kernel, conversation_id = context.kernel, context.conversation_id
    scene = await load_scene(kernel, tx, conversation_id)
    entry = tx.append(conversation_id, "pi.assistant", model=[message], by_task=context.id)
    await record_usage(tx, conversation_id, "models", f"{message['provider']}/{message['model']}", message.get("usage"))
    inputs = list(scene.live["run"]["inputs"])
    boundary = apply_boundary(scene, "final")
    if continuation and not boundary.users and not boundary.reset and not await _over_limit(context, scene):
        text = {"role": "user", "content": continuation, "timestamp": kernel.session.now()}
        tx.append(conversation_id, "pi.user", model=[text], data={"source": "onYield"}, by_task=context.id)
        _hand_over(scene, inputs)
    else:
        settle_inputs(scene, answer=entry["id"])
        if boundary.users:
            start_run(scene, boundary.users)
    context.complete(tx, {"entryId": entry["id"]})


async def _commit_calls(context: TaskContext, tx: Transaction, message: Any, offered: dict[str, Any]) -> None:
    """The answer, its tool tasks, their slots and the wait: one commit (contract 9)."""
    kernel, conversation_id = context.kernel, context.conversation_id
    _, tools = await kernel.selection(conversation_id)
    scene = await load_scene(kernel, tx, conversation_id)
    entry = tx.append(conversation_id, "pi.assistant", model=[message], by_task=context.id)
    await record_usage(tx, conversation_id, "models", f"{message['provider']}/{message['model']}", message.get("usage"))
    calls = [block for block in message["content"] if block["type"] == "toolCall"]
    sequential = kernel.settings.tool_execution == "sequential" or any(
        call["name"] in tools and tools[call["name"]].execution == "sequential" for call in calls
    )
    slots: list[dict[str, Any]] = []
    started: list[int] = []
    pending: list[str] = []
    for call in calls:
        slot: dict[str, Any] = {"callId": call["id"], "name": call["name"], "status": "pending"}
        if call["name"] not in offered:
            result = error_result(call["name"], "tool_unavailable", "is not available in this conversation")
            slot["entry"] = append_result(tx, context, call, result, kernel.session.now())
            slot["status"] = "done"
        elif sequential and started:
            pending.append(call["id"])
        else:
            slot["taskId"] = _tool_task(context, tx, entry["id"], call["id"])
            started.append(slot["taskId"])
        slots.append(slot)
    scene.live["tools"] = slots
    scene.live["generation"].pop("message", None)
    checkpoint = {"phase": "tools", "assistant": entry["id"], "tools": started, "pending": pending}
    context.wait(tx, checkpoint, started)


def _tool_task(context: TaskContext, tx: Transaction, assistant: int, call_id: str) -> int:
    definition = context.kernel.definition("pi.tool") or TOOL
    record = new_task(
        tx,
        conversation_id=context.conversation_id,
        definition=definition,
        input={"assistant": assistant, "callId": call_id},
        owner=context.id,
        running=context.kernel.scheduler.can_start(),
    )
    return record["id"]


# -- tools -----------------------------------------------------------------------------------------------------------


async def tools_phase(context: TaskContext) -> None:
    """Start the next call of a sequential round, or end the round and hand the run over."""
    checkpoint = context.checkpoint
    if checkpoint["pending"]:
        await _next_call(context, checkpoint)
        return
    kernel = context.kernel
    extensions, _ = await kernel.selection(context.conversation_id)
    controls: list[dict[str, Any]] = []
    for task_id in checkpoint["tools"]:
        record = await kernel.task(task_id)
        outcome = outcome_of(record) if record is not None else None
        result = (outcome or {}).get("result") or {}
        controls.append(dict(result.get("control", {})))
    await kernel.run_hooks(
        extensions, "afterTools", {"conversationId": context.conversation_id, "assistant": checkpoint["assistant"]}
    )
    await load_context(kernel, context.conversation_id)
    await patiently(context, lambda tx: _end_round(context, tx, controls))


async def _next_call(context: TaskContext, checkpoint: Any) -> None:
    async with context.commit() as tx:
        live = await tx.document(LIVE, context.conversation_id)
        call_id, rest = checkpoint["pending"][0], list(checkpoint["pending"][1:])
        task_id = _tool_task(context, tx, checkpoint["assistant"], call_id)
        for slot in live.value.get("tools", ()):
            if slot["callId"] == call_id:
                slot["taskId"] = task_id
        context.wait(tx, {**checkpoint, "tools": [*checkpoint["tools"], task_id], "pending": rest}, [task_id])


async def _end_round(context: TaskContext, tx: Transaction, controls: list[dict[str, Any]]) -> None:
    scene = await load_scene(context.kernel, tx, context.conversation_id)
    assistant = context.checkpoint["assistant"]
    ends = bool(controls) and (
        all(control.get("terminate") for control in controls) or any("handoff" in control for control in controls)
    )
    await _add_tools(context, tx, controls)
    over = None if ends else await _over_limit(context, scene)
    if over is not None:
        settle_inputs(scene, reason="limit", detail=over)
        context.complete(tx, {"entryId": assistant})
        return
    inputs = list(scene.live["run"]["inputs"])
    boundary = apply_boundary(scene, "final" if ends else "afterTools")
    if ends or boundary.reset:
        if ends:
            settle_inputs(scene, answer=assistant)
        else:
            settle_inputs(scene, reason="reset")
        if boundary.users:
            start_run(scene, boundary.users)
    else:
        _hand_over(scene, [*inputs, *boundary.users])
    context.complete(tx, {"entryId": assistant})


def _hand_over(scene: Scene, inputs: list[int]) -> None:
    """The run goes on in a successor; only its task changes (contract 8.8)."""
    scene.live["run"] = {"taskId": new_generation(scene), "inputs": inputs}
    scene.live["generation"] = {"attempt": 1}
    scene.live.pop("tools", None)


async def _add_tools(context: TaskContext, tx: Transaction, controls: list[dict[str, Any]]) -> None:
    names = [name for control in controls for name in control.get("addTools", ())]
    if not names:
        return
    agent = await tx.document(AGENT, context.conversation_id)
    choice = agent.value.get("tools")
    if isinstance(choice, list) or hasattr(choice, "append"):
        agent.value["tools"] = [*choice, *(name for name in names if name not in choice)]
    elif choice is not None:
        removed = [name for name in choice.get("remove", ()) if name not in names]
        agent.value["tools"] = {"remove": removed}


async def _over_limit(context: TaskContext, scene: Scene) -> str | None:
    """Why the run may not go on, when one of its limits is reached."""
    settings = context.kernel.settings
    if not (settings.limit_turns or settings.limit_cost):
        return None
    cache = context.kernel.contexts.get(context.conversation_id)
    first = scene.tx.submission_candidate(scene.live["run"]["inputs"][0])
    if cache is None or first is None or "entry" not in first:
        return None
    turns, cost = cache.turns_since(first["entry"])
    if settings.limit_turns and turns >= settings.limit_turns:
        return f"the run reached its limit of {settings.limit_turns} turns"
    if settings.limit_cost and cost >= settings.limit_cost:
        return f"the run reached its limit of ${settings.limit_cost:g}"
    return None


# -- retry, abort ----------------------------------------------------------------------------------------------------


async def retry(context: TaskContext) -> None:
    """Wait until the stored time, then prepare the next attempt."""
    checkpoint = context.checkpoint
    while (left := checkpoint["until"] - context.kernel.session.now()) > 0:  # noqa: ASYNC110 - the stored time counts
        await asyncio.sleep(min(left / 1000, 30.0))
    attempt = checkpoint["attempt"] + 1
    async with context.commit() as tx:
        live = await tx.document(LIVE, context.conversation_id)
        live.value["generation"] = {"attempt": attempt}
        context.advance(tx, {**_kept(checkpoint), "phase": "prepare", "attempt": attempt})


async def abort(context: TaskContext) -> None:
    """End the run: the partial answer stays visible, every call has a result, the inputs settle `aborted`."""
    kernel, conversation_id = context.kernel, context.conversation_id
    checkpoint = context.checkpoint
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
    async with context.commit() as tx:
        scene = await load_scene(kernel, tx, conversation_id)
        run = scene.live.get("run")
        if run is not None and run["taskId"] == context.id:
            for call in pending:
                result = error_result(call["name"], "aborted", "was aborted before it started")
                append_result(tx, context, call, result, kernel.session.now())
            if close_partial(scene, context.id) is None and checkpoint.get("phase") == "request":
                tx.append(conversation_id, "pi.assistant", model=[_nothing(kernel, checkpoint)], by_task=context.id)
            settle_inputs(scene, reason="aborted")
        context.end_aborted(tx)


def _nothing(kernel: Kernel, checkpoint: Any) -> dict[str, Any]:
    """The entry of an attempt that was aborted before its first word."""
    model = Model(checkpoint["model"]["provider"], checkpoint["model"]["modelId"], "")
    return ended_partial(Partial(model, kernel.session.now()).message(), "aborted")


GENERATION = TaskDefinition(
    name="pi.generation",
    phases={"prepare": prepare, "request": request, "tools": tools_phase, "retry": retry},
    initial=lambda _: {"phase": "prepare", "attempt": 1},
    abort=abort,
)
