"""A round of tool calls: how it begins, goes on and ends, and what hands the run over (spec 9)."""

from __future__ import annotations

from collections.abc import Container
from typing import TYPE_CHECKING, cast

from durable_tui.agent.documents import AGENT, LIVE
from durable_tui.agent.generation.run_limits import over_limit
from durable_tui.agent.inbox import apply_boundary, settle_inputs, start_run
from durable_tui.agent.shapes import Slot, ToolControl, ToolOutcome, ToolRound
from durable_tui.agent.tool_result import append_result, error_result
from durable_tui.agent.tool_task import begin_call
from durable_tui.agent.usage import append_answer
from durable_tui.engine.task_handle import TaskHandle
from durable_tui.engine.task_record import outcome_of
from durable_tui.models.messages import AssistantMessage
from durable_tui.session import Transaction

if TYPE_CHECKING:
    from durable_tui.agent.agent import Agent


async def commit_calls(
    agent: Agent, task: TaskHandle, tx: Transaction, message: AssistantMessage, offered: Container[str]
) -> None:
    """The answer, its tool tasks, their slots and the wait: one commit (spec 9)."""
    _, tools = await agent.toolbox.selection(task.conversation_id)
    draft = await agent.conversations.load(tx, task.conversation_id)
    entry = await append_answer(tx, task.conversation_id, message, task.id)
    calls = [block for block in message["content"] if block["type"] == "toolCall"]
    sequential = agent.settings.tool_execution == "sequential" or any(
        call["name"] in tools and tools[call["name"]].execution == "sequential" for call in calls
    )
    slots: list[Slot] = []
    started: list[int] = []
    pending: list[str] = []
    for call in calls:
        slot: Slot = {"callId": call["id"], "name": call["name"], "status": "pending"}
        if call["name"] not in offered:
            result = error_result(call["name"], "tool_unavailable", "is not available in this conversation")
            slot["entry"] = append_result(tx, task, call, result)
            slot["status"] = "done"
        elif sequential and started:
            pending.append(call["id"])
        else:
            slot["taskId"] = begin_call(agent, tx, task, entry["id"], call["id"])
            started.append(slot["taskId"])
        slots.append(slot)
    draft.live["tools"] = slots
    generation = draft.live["generation"]
    generation.pop("message", None)
    generation.pop("deferred", None)
    checkpoint: ToolRound = {"phase": "tools", "assistant": entry["id"], "tools": started, "pending": pending}
    task.wait(tx, checkpoint, started)


async def tools_phase(agent: Agent, task: TaskHandle) -> None:
    """Start the next call of a sequential round, or end the round and hand the run over."""
    checkpoint = cast(ToolRound, task.checkpoint)
    if checkpoint["pending"]:
        await _next_call(agent, task, checkpoint)
        return
    controls = [await _control_of(agent, task_id) for task_id in checkpoint["tools"]]
    extensions, _ = await agent.toolbox.selection(task.conversation_id)
    round_ended = {"conversationId": task.conversation_id, "assistant": checkpoint["assistant"]}
    await agent.toolbox.run_hooks(extensions, "afterTools", round_ended)
    await task.commit_with_retry(lambda tx: _end_round(agent, task, tx, controls))


async def _control_of(agent: Agent, task_id: int) -> ToolControl:
    """What the result of a call asks of its run."""
    record = await agent.engine.ended_tasks.find(task_id)
    outcome = outcome_of(record) if record is not None else None
    if outcome is None or outcome["status"] in ("orphaned", "faulted"):
        return {}
    result = cast("ToolOutcome | None", outcome.get("result"))
    return result.get("control", {}) if result else {}


async def _next_call(agent: Agent, task: TaskHandle, checkpoint: ToolRound) -> None:
    async with task.commit() as tx:
        live = await tx.document(LIVE, task.conversation_id)
        call_id, rest = checkpoint["pending"][0], list(checkpoint["pending"][1:])
        task_id = begin_call(agent, tx, task, checkpoint["assistant"], call_id)
        for slot in live.value.get("tools", ()):
            if slot["callId"] == call_id:
                slot["taskId"] = task_id
        tools = [*checkpoint["tools"], task_id]
        task.wait(tx, {**checkpoint, "tools": tools, "pending": rest}, [task_id])


async def _end_round(agent: Agent, task: TaskHandle, tx: Transaction, controls: list[ToolControl]) -> None:
    draft = await agent.conversations.load(tx, task.conversation_id)
    assistant = cast(ToolRound, task.checkpoint)["assistant"]
    ends = bool(controls) and (
        all(control.get("terminate") for control in controls) or any("handoff" in control for control in controls)
    )
    await _add_tools(task, tx, controls)
    over = None if ends else await over_limit(agent, draft)
    if over is not None:
        settle_inputs(draft, reason="limit", detail=over)
        task.complete(tx, {"entryId": assistant})
        return
    inputs = list(draft.live["run"]["inputs"])
    boundary = apply_boundary(draft, "final" if ends else "afterTools")
    if ends or boundary.reset:
        if ends:
            settle_inputs(draft, answer=assistant)
        else:
            settle_inputs(draft, reason="reset")
        if boundary.users:
            start_run(draft, boundary.users)
    else:
        start_run(draft, [*inputs, *boundary.users])
    task.complete(tx, {"entryId": assistant})


async def _add_tools(task: TaskHandle, tx: Transaction, controls: list[ToolControl]) -> None:
    names = [name for control in controls for name in control.get("addTools", ())]
    if not names:
        return
    agent = await tx.document(AGENT, task.conversation_id)
    choice = agent.value.get("tools")
    if choice is None:
        return
    if "remove" in choice and not hasattr(choice, "append"):
        removed = cast("dict[str, list[str]]", choice)["remove"]
        agent.value["tools"] = {"remove": [name for name in removed if name not in names]}
    else:
        chosen = cast("list[str]", choice)
        agent.value["tools"] = [*chosen, *(name for name in names if name not in chosen)]
