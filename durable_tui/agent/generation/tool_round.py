"""A round of tool calls: how it begins, goes on and ends, and what hands the run over (spec 9)."""

from __future__ import annotations

from typing import Any

from durable_tui.agent.documents import AGENT, LIVE
from durable_tui.agent.inbox import Scene, apply_boundary, load_scene, new_generation, settle_inputs, start_run
from durable_tui.agent.model_context import load_context
from durable_tui.agent.tool_task import TOOL, append_result, error_result
from durable_tui.agent.usage import record_usage
from durable_tui.engine.commit_with_retry import patiently
from durable_tui.engine.task import TaskContext, new_task, outcome_of
from durable_tui.session import Transaction


async def commit_calls(context: TaskContext, tx: Transaction, message: Any, offered: dict[str, Any]) -> None:
    """The answer, its tool tasks, their slots and the wait: one commit (spec 9)."""
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
    for key in ("message", "deferred"):
        scene.live["generation"].pop(key, None)
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
    over = None if ends else await over_limit(context, scene)
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
        hand_over(scene, [*inputs, *boundary.users])
    context.complete(tx, {"entryId": assistant})


def hand_over(scene: Scene, inputs: list[int]) -> None:
    """The run goes on in a successor; only its task changes (spec 8.8)."""
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


async def over_limit(context: TaskContext, scene: Scene) -> str | None:
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
