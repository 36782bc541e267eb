"""One attempt at an answer: what `request` and `poll` ask with, how they listen, and what they commit (spec 9)."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Set
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, cast

from durable_tui.agent.documents import PROVIDER
from durable_tui.agent.extension import Extension
from durable_tui.agent.generation.partial_answer import Partial, ended_partial
from durable_tui.agent.generation.run_limits import over_limit
from durable_tui.agent.generation.tool_round import commit_calls
from durable_tui.agent.inbox import apply_boundary, settle_inputs, start_run
from durable_tui.agent.model_context import LEFT_OUT, unique_call_ids
from durable_tui.agent.settings import Settings
from durable_tui.agent.shapes import AttemptCheckpoint, Compacted, Poll, Request, Retry
from durable_tui.agent.usage import append_answer
from durable_tui.delta import JsonError, freeze
from durable_tui.engine.gates import time_gate
from durable_tui.engine.task_handle import InvocationEnded, TaskHandle
from durable_tui.models.messages import AssistantMessage, ToolDescription
from durable_tui.models.provider import (
    TOO_LONG,
    Deferred,
    Finished,
    Model,
    ModelError,
    ModelRequest,
    RequestOptions,
    StreamEvent,
)
from durable_tui.session import Transaction

if TYPE_CHECKING:
    from durable_tui.agent.agent import Agent

HOPELESS = 1.25  # times the window: estimates may be off, and a server knows better
RETRY_GATE = "retry"


@dataclass(slots=True, frozen=True)
class Attempt:
    """An attempt as its checkpoint has it; `offered` are its tools by name, `call_ids` those of all earlier calls.

    `tokens` is an estimate of what its messages have.
    """

    model: Model
    extensions: list[Extension]
    request: ModelRequest
    offered: dict[str, ToolDescription]
    call_ids: Set[str]
    tokens: int


async def load_attempt(agent: Agent, task: TaskHandle) -> Attempt:
    """The attempt of a `request` or `poll` checkpoint. Raises ModelError when there is no such model any more."""
    checkpoint = cast("Request | Poll", task.checkpoint)
    context = await agent.contexts.load(task.conversation_id, cutoff=checkpoint["cutoff"])
    offered = dict(context.tools)
    model = agent.models.resolve(f"{checkpoint['model']['provider']}/{checkpoint['model']['modelId']}")
    extensions, _ = await agent.toolbox.selection(task.conversation_id)
    provider = await agent.session.value(PROVIDER, task.conversation_id)
    session_id = provider.get("sessionId", "")
    request = ModelRequest(
        model=model,
        system=context.system(),
        messages=context.messages(),
        tools=list(context.tools.values()),
        thinking_level=checkpoint["thinkingLevel"],
        session_id=session_id,
        options=cast(RequestOptions, dict(checkpoint["streamOptions"])),
        key=_key(session_id, task.id, checkpoint),
    )
    return Attempt(model, extensions, request, offered, context.call_ids, context.tokens())


def check_size(attempt: Attempt) -> None:
    """Raises ModelError (`overflow`) for a request far beyond the model's window: it would only cost its sending."""
    window = attempt.model.context_window
    if window and attempt.tokens > window * HOPELESS:
        text = f"not sent: the conversation has about {attempt.tokens} tokens, and {attempt.model.name} takes {window}"
        raise ModelError(f"{text}; {TOO_LONG}", "overflow")


def _key(session_id: str, task_id: int, checkpoint: Request | Poll) -> str:
    """Names the attempt to its provider: a resend after a crash is the same attempt, a retry is another one."""
    if not session_id:
        return ""
    compacted = "-compacted" if checkpoint.get("compacted") else ""  # the same attempt with another request
    return f"{session_id}-{task_id}-{checkpoint['attempt']}{compacted}"


# -- listening -------------------------------------------------------------------------------------------------------


async def listen(
    stream: AsyncIterator[StreamEvent],
    partial: Partial,
    changed: Callable[[], None] | None = None,
    *,
    polled: bool = False,
) -> AssistantMessage | Deferred:
    """Take a stream in up to its terminal event: the message, or where to ask for it. Raises ModelError without one.

    `polled` says that the stream is a question for a deferred answer: that it broke off says nothing about the answer.
    """
    try:
        async for event in stream:
            if isinstance(event, Finished):
                return _finished(event.message)
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


def _finished(message: AssistantMessage) -> AssistantMessage:
    if message["stopReason"] in LEFT_OUT:
        text = message.get("errorMessage") or f"the provider ended the answer with {message['stopReason']}"
        raise ModelError(str(text), "refused", usage=message.get("usage"))
    return message


# -- committing what came --------------------------------------------------------------------------------------------


async def commit_answer(
    agent: Agent, task: TaskHandle, attempt: Attempt, message: AssistantMessage, earlier: Set[str]
) -> None:
    """Commit an answer: with its tools when it calls some, else as the end of the run. `earlier` are known call ids."""
    toolbox, extensions = agent.toolbox, attempt.extensions
    message = unique_call_ids(message, earlier)
    message = {**await toolbox.run_hooks(extensions, "afterResponse", message, _is_answer)}
    if any(block["type"] == "toolCall" for block in message["content"]):
        await task.commit_with_retry(lambda tx: commit_calls(agent, task, tx, message, attempt.offered))
        return
    asked: dict[str, object] | str = {"message": message, "continue": None}
    told = await toolbox.run_hooks(extensions, "onYield", asked, _is_told)
    go_on = cast("str | None", told.get("continue")) if isinstance(told, dict) else told
    await task.commit_with_retry(lambda tx: _commit_last_answer(agent, task, tx, message, go_on))


def _is_told(answer: object) -> bool:
    """Whether a hook gave what the run goes on with."""
    return isinstance(answer, dict | str)


def _is_answer(message: object) -> bool:
    """Whether a hook gave an assistant message that can be stored and read again."""
    try:
        clean = cast("dict[str, Any]", freeze(message))  # looked at as if it were one
        kinds = {"text": "text", "thinking": "thinking", "toolCall": "name"}
        return clean["role"] == "assistant" and all(kinds[block["type"]] in block for block in clean["content"])
    except (JsonError, KeyError, TypeError):
        return False


async def _commit_last_answer(
    agent: Agent, task: TaskHandle, tx: Transaction, message: AssistantMessage, continuation: str | None
) -> None:
    draft = await agent.conversations.load(tx, task.conversation_id)
    entry = await append_answer(tx, task.conversation_id, message, task.id)
    inputs = list(draft.live["run"]["inputs"])
    boundary = apply_boundary(draft, "final")
    if continuation and not boundary.users and not boundary.reset and not await over_limit(agent, draft):
        text = {"role": "user", "content": continuation, "timestamp": agent.session.now()}
        tx.append(task.conversation_id, "pi.user", model=[text], data={"source": "onYield"}, by_task=task.id)
        start_run(draft, inputs)
    else:
        settle_inputs(draft, answer=entry["id"])
        if boundary.users:
            start_run(draft, boundary.users)
    task.complete(tx, {"entryId": entry["id"]})


async def commit_failure(
    agent: Agent, task: TaskHandle, partial: Partial, error: ModelError, *, final: bool = False
) -> None:
    """A failed attempt becomes an entry; unless `final` it is tried again later, else the run ends `model_error`."""
    settings = agent.settings
    checkpoint = cast(AttemptCheckpoint, task.checkpoint)
    attempt = checkpoint["attempt"]
    retry = error.retryable and attempt <= settings.max_retries and not final
    delay = backoff(settings, attempt)
    text = str(error)
    if error.retry_after is not None and not final:
        delay = error.retry_after
        if delay > settings.retry_after_cap:
            retry = False
            text = f"{text} (the server asks to wait {round(delay)} s, longer than {round(settings.retry_after_cap)} s)"
    message: AssistantMessage = freeze(ended_partial(partial.message(), "error", text, error.usage))
    now = agent.session.now()
    until = now + round(delay * 1000)

    async def commit(tx: Transaction) -> None:
        draft = await agent.conversations.load(tx, task.conversation_id)
        await append_answer(tx, task.conversation_id, message, task.id)
        if retry:
            draft.live["generation"] = {"attempt": attempt, "retry": {"at": until, "error": text}}
            waiting: Retry = {**kept(checkpoint), "phase": "retry", "attempt": attempt, "until": until, "since": now}
            task.advance(tx, waiting, gate=time_gate(RETRY_GATE, until, now))
        else:
            settle_inputs(draft, reason="model_error", detail=text)
            task.fail(tx, text, detail={"kind": error.kind})

    await task.commit_with_retry(commit)


async def end_run(agent: Agent, task: TaskHandle, reason: str, detail: str) -> None:
    """End the run without any response: its inputs settle unanswered."""
    async with task.commit() as tx:
        draft = await agent.conversations.load(tx, task.conversation_id)
        settle_inputs(draft, reason=reason, detail=detail)
        task.fail(tx, detail)


def kept(checkpoint: AttemptCheckpoint) -> Compacted:
    """What every phase of a generation keeps of the phase before."""
    kept: Compacted = {}
    if "compacted" in checkpoint:
        kept["compacted"] = checkpoint["compacted"]
    if "overflow" in checkpoint:
        kept["overflow"] = checkpoint["overflow"]
    return kept


def backoff(settings: Settings, failures: int) -> float:
    """The wait in seconds after so many failures in a row."""
    return min(settings.base_delay * 2.0 ** (failures - 1), settings.max_delay)
