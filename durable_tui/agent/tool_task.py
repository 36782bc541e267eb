"""`pi.tool`: one tool call, with its intent committed before its effect (spec 10, 17.5)."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Literal, cast

from durable_tui.agent.calls import call_in, call_phrase, find_call
from durable_tui.agent.documents import LIVE
from durable_tui.agent.extension import Arguments, Extension, Tool, ToolError, ToolResult
from durable_tui.agent.images import sendable
from durable_tui.agent.running_call import RunningCall
from durable_tui.agent.shapes import ExecutePhase, ToolCheckpoint, ToolControl, ToolInput, ToolOutcome
from durable_tui.agent.slots import clear_progress, find_slot, partial_output
from durable_tui.agent.tool_result import append_result, error_result, first_line, invalid_arguments, limited
from durable_tui.agent.usage import record_usage
from durable_tui.delta import freeze
from durable_tui.engine.task import Abandonment, Decision, TaskDefinition
from durable_tui.engine.task_handle import InvocationEnded, TaskHandle
from durable_tui.engine.task_record import checkpoint_of, describe
from durable_tui.environment.base import EnvironmentFailed
from durable_tui.models.messages import ToolCallBlock
from durable_tui.session import Transaction
from durable_tui.storage.errors import StorageError
from durable_tui.storage.records import EntryRecord, TaskRecord

if TYPE_CHECKING:
    from durable_tui.agent.agent import Agent

NAME = "pi.tool"
STRICTNESS = {"safe": 0, "verify": 1, "unsafe": 2}
RESTARTED = Decision("restarted", "15")
RERUN = Decision("rerun", "15")
INTERRUPTED = Decision("interrupted", "10", settled_by_result=True)


def tool_kind(agent: Agent) -> TaskDefinition:
    """The kind of task that carries out one call."""
    return TaskDefinition(
        name=NAME,
        phases={"call": partial(call_phase, agent), "execute": partial(execute_phase, agent)},
        initial=lambda _: {"phase": "call"},
        abort=partial(abort, agent),
        doing=partial(doing_of, agent.entries.get, agent.toolbox.known_tool),
        recall=partial(recall, agent),
        verdict=partial(verdict, agent),
        abandon=partial(abandon, agent),
        effect_phases=frozenset({"execute"}),
    )


def begin_call(agent: Agent, tx: Transaction, owner: TaskHandle, assistant: int, call_id: str) -> int:
    """Create the task of a call, owned by the generation that asked for it; returns its id."""
    definition = agent.engine.definitions.get(NAME)
    if definition is None:
        raise LookupError(f"the code for {NAME} is gone")
    which: ToolInput = {"assistant": assistant, "callId": call_id}
    record = agent.engine.add_task(
        tx, conversation_id=owner.conversation_id, definition=definition, input=which, owner=owner.id
    )
    return record["id"]


# -- phases ----------------------------------------------------------------------------------------------------------


async def call_phase(agent: Agent, task: TaskHandle) -> None:
    """Resolve, validate, ask the hooks, commit the intent, run, commit the result."""
    call = await _call(agent, task)
    extensions, tools = await agent.toolbox.selection(task.conversation_id)
    tool = tools.get(call["name"])
    if tool is None:
        await _commit_result(
            task, call, error_result(call["name"], "tool_unavailable", "is not available any more"), agent=agent
        )
        return
    arguments, refusal = await _arguments(agent, task, extensions, tool, call)
    if refusal is not None:
        await _commit_result(task, call, refusal, agent=agent)
        return
    validated = tool.validate(arguments)
    async with task.commit() as tx:
        live = await tx.document(LIVE, task.conversation_id)
        slot = find_slot(live.value, task.id)
        if slot is not None:
            slot["status"] = "running"
        intent: ExecutePhase = {"phase": "execute", "arguments": arguments, "replay": tool.replay}
        task.advance(tx, intent)
    await _run(agent, task, call, extensions, tool, validated)


async def execute_phase(agent: Agent, task: TaskHandle) -> None:
    """Carry out what recovery decided: run a safe call again, settle any other as interrupted (spec 10).

    Only ever entered after a death, or when the store refused the result of a run. Code that went away after the
    decision makes it stricter.
    """
    call = await _call(agent, task)
    decision = task.decision
    again = decision is None or decision["verdict"] == RERUN.verdict
    if not again or not await is_rerun_allowed(agent, task.record):
        await _commit_interrupted(agent, task, call, "was interrupted and may have partially run")
        return
    extensions, tools = await agent.toolbox.selection(task.conversation_id)
    tool = tools[call["name"]]
    intent = cast(ExecutePhase, task.checkpoint)
    try:
        validated = tool.validate(dict(intent["arguments"]))
    except ValueError as error:  # the tool changed: it cannot be run again with what was stored
        what = f"was interrupted and may have partially run; it does not take its arguments any more: {error}"
        await _commit_interrupted(agent, task, call, what)
        return
    async with task.commit() as tx:
        live = await tx.document(LIVE, task.conversation_id)
        slot = find_slot(live.value, task.id)
        if slot is not None:
            slot["status"] = "running"
            slot["recovered"] = RERUN.verdict
            clear_progress(slot)
    await _run(agent, task, call, extensions, tool, validated)


async def _commit_interrupted(agent: Agent, task: TaskHandle, call: ToolCallBlock, what: str) -> None:
    output = await partial_output(agent.session, task.conversation_id, task.id)
    result = error_result(call["name"], "interrupted", what, output)
    await _commit_result(task, call, result, agent=agent, status="failed", decision=INTERRUPTED)


async def _call(agent: Agent, task: TaskHandle) -> ToolCallBlock:
    which = cast(ToolInput, task.input)
    call = await find_call(agent.entries, which)
    if call is None:
        raise LookupError(f"the call {which['callId']} of entry {which['assistant']} is not there")
    return call


async def _arguments(
    agent: Agent, task: TaskHandle, extensions: list[Extension], tool: Tool, call: ToolCallBlock
) -> tuple[Arguments, ToolResult | None]:
    """The final arguments, or the error result of a call that must not run (spec 10)."""
    unreadable = call.get("providerExtra", {}).get("invalid")
    if unreadable is not None:
        return {}, invalid_arguments(tool, unreadable["error"] if isinstance(unreadable, Mapping) else unreadable)
    arguments: Arguments = dict(call["arguments"])
    try:
        if tool.repair is not None:
            arguments = tool.repair(arguments)
        tool.validate(arguments)
    except ValueError as error:
        return {}, invalid_arguments(tool, error)
    for extension in extensions:
        hook = extension.hooks.get("beforeTool")
        if hook is None:
            continue
        question = {
            "tool": tool.name,
            "arguments": arguments,
            "callId": call["id"],
            "conversationId": task.conversation_id,
            "taskId": task.id,
        }
        try:
            answer = await hook(question)
        except Exception as error:  # noqa: BLE001 - a failing guard blocks the call
            reason = f"extension {extension.name} failed: {error}"
            agent.report(f"hook beforeTool of {reason}")
            return {}, error_result(tool.name, "blocked", f"was blocked: {reason}")
        if isinstance(answer, dict) and answer.get("block"):
            return {}, error_result(tool.name, "blocked", f"was blocked: {answer['block']}")
        if isinstance(answer, dict) and "arguments" in answer:
            arguments = dict(answer["arguments"])
    try:
        tool.validate(arguments)
        freeze(arguments)  # a repair or a hook may have put in what cannot be stored
    except ValueError as error:
        return {}, invalid_arguments(tool, error)
    return arguments, None


async def _run(
    agent: Agent,
    task: TaskHandle,
    call: ToolCallBlock,
    extensions: list[Extension],
    tool: Tool,
    validated: object,
) -> None:
    """The effect and its result. Nothing is committed of a run that somebody asked to end."""
    started = time.monotonic()
    status: Literal["completed", "failed"] = "completed"
    running: RunningCall | None = None
    try:
        environment = await agent.toolbox.environment_for(task.conversation_id, task.id)
        running = RunningCall(task, call, tool, environment, agent.settings.output_interval)
        answer = await tool.run(validated, running)
        result = answer if isinstance(answer, ToolResult) else ToolResult(str(answer))
    except asyncio.CancelledError:
        if agent.engine.was_asked_to_end(task.id):
            raise
        status = "failed"
        result = error_result(tool.name, "tool_error", "was cancelled, but nobody asked for it")
    except (InvocationEnded, StorageError):
        raise
    except Exception as error:  # noqa: BLE001 - a tool's failure is its result
        status = "failed"
        result = error_result(tool.name, "tool_error", f"failed: {_reason(error)}")
    finally:
        if running is not None:
            await running.stop()
    if running is not None:
        result.diagnostics = [*running.diagnostics, *result.diagnostics]
    result = await agent.toolbox.run_hooks(extensions, "afterTool", result)
    duration = round((time.monotonic() - started) * 1000)
    try:
        result = limited(await sendable(result), tool)
        freeze([result.content, result.details, result.diagnostics, result.usage, result.handoff, result.add_tools])
    except Exception as error:  # noqa: BLE001 - what a tool returns is somebody else's code
        status = "failed"
        result = error_result(tool.name, "tool_error", f"returned what cannot be stored: {_reason(error)}")
    await _commit_result(task, call, result, agent=agent, status=status, duration=duration)


def _reason(error: Exception) -> str:
    return str(error).strip() if isinstance(error, ToolError | EnvironmentFailed) else describe(error)


async def _commit_result(
    task: TaskHandle,
    call: ToolCallBlock,
    result: ToolResult,
    *,
    agent: Agent,
    status: Literal["completed", "failed", "aborted"] = "completed",
    duration: int | None = None,
    decision: Decision | None = None,
) -> None:
    """The result entry, the slot and the outcome, in one commit."""
    control: ToolControl = {}
    if result.terminate:
        control["terminate"] = True
    if result.handoff is not None:
        control["handoff"] = result.handoff
    if result.add_tools is not None:
        control["addTools"] = result.add_tools

    async def commit(tx: Transaction) -> None:
        live = await tx.document(LIVE, task.conversation_id)
        entry = append_result(tx, task, call, result, duration)
        slot = find_slot(live.value, task.id)
        if slot is not None:
            slot["status"] = "done"
            slot["entry"] = entry
            if decision is not None:
                slot["recovered"] = decision.verdict
            clear_progress(slot)
        await record_usage(tx, task.conversation_id, "tools", call["name"], result.usage)
        outcome: ToolOutcome = {"entryId": entry}
        if control:
            outcome["control"] = control
        if decision is not None:
            await agent.engine.recovery.note(tx, task.id, decision, entry=entry)
        if status == "completed":
            task.complete(tx, outcome)
        elif status == "aborted":
            task.end_aborted(tx, result=outcome)
        else:
            task.fail(tx, first_line(result), result=outcome)

    await task.commit_with_retry(commit)


# -- recovery --------------------------------------------------------------------------------------------------------


async def verdict(agent: Agent, record: TaskRecord) -> Decision:
    """A call that had not begun starts again; one that may have had its effect only when that is allowed (spec 10)."""
    checkpoint = cast(ToolCheckpoint, checkpoint_of(record))
    if checkpoint["phase"] == "call":
        return RESTARTED
    return RERUN if await is_rerun_allowed(agent, record) else INTERRUPTED


async def is_rerun_allowed(agent: Agent, record: TaskRecord) -> bool:
    """Whether a call found in `execute` may run again: the stricter of stored and current policy is safe, and the
    former owner is provably gone (spec 4.2, 10)."""
    call = await find_call(agent.entries, cast(ToolInput, record["input"]))
    if call is None or not agent.engine.recovery.former_owner_dead:
        return False
    _, tools = await agent.toolbox.selection(record["conversationId"])
    tool = tools.get(call["name"])
    if tool is None:
        return False
    checkpoint = cast(ToolCheckpoint, checkpoint_of(record))
    stored = checkpoint.get("replay", "unsafe") if checkpoint["phase"] == "execute" else "unsafe"
    return max(STRICTNESS.get(stored, STRICTNESS["unsafe"]), STRICTNESS[tool.replay]) == STRICTNESS["safe"]


def doing_of(
    entry: Callable[[int], EntryRecord | None], tool: Callable[[int, str], Tool | None], record: TaskRecord
) -> str:
    """The tool and what it is for, "edit config/dev.json", by the entry of the call and the tool of a conversation."""
    which = cast(ToolInput, record["input"])
    call = call_in(entry(which["assistant"]), which["callId"])
    if call is None:
        return "a tool call"
    known = tool(record["conversationId"], call["name"])
    return call_phrase(known, call["name"], checkpoint_of(record).get("arguments", call["arguments"]))


async def recall(agent: Agent, record: TaskRecord) -> None:
    """Bring the call and the agent's choice of tools into memory."""
    await agent.entries.find(cast(ToolInput, record["input"])["assistant"])
    await agent.toolbox.selection(record["conversationId"])


# -- ends ------------------------------------------------------------------------------------------------------------


async def abandon(agent: Agent, tx: Transaction, record: TaskRecord, why: Abandonment) -> None:
    """Turn the slot done without an entry; the run goes on (spec 6.9)."""
    draft = await agent.conversations.load(tx, record["conversationId"])
    slot = find_slot(draft.live, record["id"])
    if slot is not None:
        slot["status"] = "done"


async def abort(agent: Agent, task: TaskHandle) -> None:
    """The result of an aborted call: what is durable of its output, and that it was aborted."""
    call = await find_call(agent.entries, cast(ToolInput, task.input))
    extensions, _ = await agent.toolbox.selection(task.conversation_id)
    await agent.toolbox.run_hooks(extensions, "onAbort", {"conversationId": task.conversation_id, "taskId": task.id})
    if call is None:
        async with task.commit() as tx:
            await abandon(agent, tx, task.record, Abandonment("aborted"))
            task.end_aborted(tx)
        return
    began = task.checkpoint.get("phase") == "execute"
    what = "was aborted and may have partially run" if began else "was aborted before it started"
    output = await partial_output(agent.session, task.conversation_id, task.id) if began else ""
    await _commit_result(task, call, error_result(call["name"], "aborted", what, output), agent=agent, status="aborted")
