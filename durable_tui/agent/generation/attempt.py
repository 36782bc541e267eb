"""One attempt at an answer: what `request` and `poll` ask with, and what follows from what comes (spec 9)."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Set
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from durable_tui.agent.documents import PROVIDER
from durable_tui.agent.extension import Extension
from durable_tui.agent.generation.partial_answer import Partial, ended_partial
from durable_tui.agent.generation.tool_round import commit_calls, hand_over, over_limit
from durable_tui.agent.inbox import apply_boundary, load_scene, settle_inputs, start_run
from durable_tui.agent.model_context import LEFT_OUT, load_context, unique_call_ids
from durable_tui.agent.usage import record_usage
from durable_tui.delta import JsonError, freeze
from durable_tui.engine.commit_with_retry import patiently
from durable_tui.engine.task import InvocationEnded, TaskContext
from durable_tui.models.provider import TOO_LONG, Deferred, Finished, Model, ModelError, ModelRequest, StreamEvent
from durable_tui.session import Transaction

if TYPE_CHECKING:
    from durable_tui.agent.settings import Settings
    from durable_tui.engine.kernel import Kernel


HOPELESS = 1.25  # times the window: estimates may be off, and a server knows better


@dataclass(slots=True, frozen=True)
class Attempt:
    """An attempt as its checkpoint has it; `offered` are its tools by name, `call_ids` those of all earlier calls.

    `tokens` is an estimate of what its messages have.
    """

    model: Model
    extensions: list[Extension]
    request: ModelRequest
    offered: dict[str, Any]
    call_ids: Set[str]
    tokens: int


async def load_attempt(context: TaskContext) -> Attempt:
    """The attempt of a `request` or `poll` checkpoint. Raises ModelError when there is no such model any more."""
    kernel, checkpoint = context.kernel, context.checkpoint
    cache = await load_context(kernel, context.conversation_id, cutoff=checkpoint["cutoff"])
    offered = dict(cache.tools)
    model = kernel.models.resolve(f"{checkpoint['model']['provider']}/{checkpoint['model']['modelId']}")
    extensions, _ = await kernel.selection(context.conversation_id)
    provider = await kernel.session.value(PROVIDER, context.conversation_id)
    session_id = provider.get("sessionId", "")
    request = ModelRequest(
        model=model,
        system=cache.system(),
        messages=cache.messages(),
        tools=list(cache.tools.values()),
        thinking_level=checkpoint["thinkingLevel"],
        session_id=session_id,
        options=dict(checkpoint["streamOptions"]),
        key=_key(session_id, context.id, checkpoint),
    )
    return Attempt(model, extensions, request, offered, cache.call_ids, cache.tokens())


def check_size(attempt: Attempt) -> None:
    """Raises ModelError (`overflow`) for a request far beyond the model's window: it would only cost its sending."""
    window = attempt.model.context_window
    if window and attempt.tokens > window * HOPELESS:
        text = f"not sent: the conversation has about {attempt.tokens} tokens, and {attempt.model.name} takes {window}"
        raise ModelError(f"{text}; {TOO_LONG}", "overflow")


def _key(session_id: str, task_id: int, checkpoint: Any) -> str:
    """Names the attempt to its provider: a resend after a crash is the same attempt, a retry is another one."""
    if not session_id:
        return ""
    compacted = "-compacted" if checkpoint.get("compacted") else ""  # the same attempt with another request
    return f"{session_id}-{task_id}-{checkpoint['attempt']}{compacted}"


async def listen(
    stream: AsyncIterator[StreamEvent],
    partial: Partial,
    changed: Callable[[], None] | None = None,
    *,
    polled: bool = False,
) -> dict[str, Any] | Deferred:
    """Take a stream in up to its terminal event: the message, or where to ask for it. Raises ModelError without one.

    `polled` says that the stream is a question for a deferred answer: that it broke off says nothing about the answer.
    """
    try:
        async for event in stream:
            if isinstance(event, Finished):
                return _finished(dict(event.message))
            if isinstance(event, Deferred):
                return Deferred(freeze(event.handle), max(0.0, float(event.after)))
            partial.apply(event)
            if changed is not None:
                changed()
    except (ModelError, InvocationEnded, asyncio.CancelledError):
        raise
    except Exception as error:
        # A provider of any make must not take the run down.
        text = f"the provider failed: {type(error).__name__}: {error}"
        raise ModelError(text, "bad_request", polled=polled) from error
    finally:
        if isinstance(stream, AsyncGenerator):
            await stream.aclose()  # else its connection stays open until somebody collects it
    raise ModelError("the answer broke off before its end", "truncated", polled=polled)


def _finished(message: dict[str, Any]) -> dict[str, Any]:
    if message["stopReason"] in LEFT_OUT:
        text = message.get("errorMessage") or f"the provider ended the answer with {message['stopReason']}"
        raise ModelError(str(text), "refused", usage=message.get("usage"))
    return message


async def answered(context: TaskContext, attempt: Attempt, message: dict[str, Any], earlier: Set[str]) -> None:
    """Commit an answer: with its tools when it calls some, else as the end of the run. `earlier` are known call ids."""
    kernel, extensions = context.kernel, attempt.extensions
    message = unique_call_ids(message, earlier)
    message = dict(await kernel.run_hooks(extensions, "afterResponse", message, _is_answer))
    if any(block["type"] == "toolCall" for block in message["content"]):
        await patiently(context, lambda tx: commit_calls(context, tx, message, attempt.offered))
        return
    asked = {"message": message, "continue": None}
    continuation = await kernel.run_hooks(extensions, "onYield", asked, lambda answer: isinstance(answer, dict | str))
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


async def _commit_answer(context: TaskContext, tx: Transaction, message: Any, continuation: str | None) -> None:
    kernel, conversation_id = context.kernel, context.conversation_id
    scene = await load_scene(kernel, tx, conversation_id)
    entry = tx.append(conversation_id, "pi.assistant", model=[message], by_task=context.id)
    await record_usage(tx, conversation_id, "models", f"{message['provider']}/{message['model']}", message.get("usage"))
    inputs = list(scene.live["run"]["inputs"])
    boundary = apply_boundary(scene, "final")
    if continuation and not boundary.users and not boundary.reset and not await over_limit(context, scene):
        text = {"role": "user", "content": continuation, "timestamp": kernel.session.now()}
        tx.append(conversation_id, "pi.user", model=[text], data={"source": "onYield"}, by_task=context.id)
        hand_over(scene, inputs)
    else:
        settle_inputs(scene, answer=entry["id"])
        if boundary.users:
            start_run(scene, boundary.users)
    context.complete(tx, {"entryId": entry["id"]})


async def failed(
    context: TaskContext, partial: Partial, model: Model, error: ModelError, *, final: bool = False
) -> None:
    """A failed attempt becomes an entry; unless `final` it is tried again later, else the run ends `model_error`."""
    kernel, settings = context.kernel, context.kernel.settings
    attempt = context.checkpoint["attempt"]
    retry = error.retryable and attempt <= settings.max_retries and not final
    delay = backoff(settings, attempt)
    text = str(error)
    if error.retry_after is not None and not final:
        delay = error.retry_after
        if delay > settings.retry_after_cap:
            retry = False
            text = f"{text} (the server asks to wait {round(delay)} s, longer than {round(settings.retry_after_cap)} s)"
    message = freeze(ended_partial(partial.message(), "error", text, error.usage))
    until = kernel.session.now() + round(delay * 1000)

    async def commit(tx: Transaction) -> None:
        scene = await load_scene(kernel, tx, context.conversation_id)
        tx.append(context.conversation_id, "pi.assistant", model=[message], by_task=context.id)
        await record_usage(tx, context.conversation_id, "models", model.name, message["usage"])
        if retry:
            scene.live["generation"] = {"attempt": attempt, "retry": {"at": until, "error": text}}
            context.advance(tx, {**kept(context.checkpoint), "phase": "retry", "attempt": attempt, "until": until})
        else:
            settle_inputs(scene, reason="model_error", detail=text)
            context.fail(tx, text, detail={"kind": error.kind})

    await patiently(context, commit)


async def end_run(context: TaskContext, reason: str, detail: str) -> None:
    """End the run without any response: its inputs settle unanswered."""
    async with context.commit() as tx:
        scene = await load_scene(context.kernel, tx, context.conversation_id)
        settle_inputs(scene, reason=reason, detail=detail)
        context.fail(tx, detail)


def kept(checkpoint: Any) -> dict[str, Any]:
    """What every phase of a generation keeps of the phase before."""
    return {key: checkpoint[key] for key in ("compacted", "overflow") if key in checkpoint}


def backoff(settings: Settings, failures: int) -> float:
    """The wait in seconds after so many failures in a row."""
    return min(settings.base_delay * 2.0 ** (failures - 1), settings.max_delay)


async def wait_until(kernel: Kernel, at: int) -> None:
    """Wait until a stored time; also a restarted process waits for just that."""
    while (left := at - kernel.session.now()) > 0:  # noqa: ASYNC110 - the stored time counts
        await asyncio.sleep(min(left / 1000, 30.0))
