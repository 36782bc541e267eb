"""The tree of ownership: which live work belongs to which task (spec 6.5)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from durable_tui.storage.records import ConversationRecord, TaskRecord


def owner_of(task: TaskRecord, conversations: Mapping[int, ConversationRecord]) -> int | None:
    """The task that ordinary work belongs to, directly or through its conversation; None at the top."""
    if "owner" in task:
        return task["owner"]
    if task["background"]:
        return None
    conversation = conversations.get(task["conversationId"])
    if conversation is None or "owner" not in conversation:
        return None
    return conversation["owner"]["taskId"]


def children_of(
    tasks: Mapping[int, TaskRecord], conversations: Mapping[int, ConversationRecord]
) -> dict[int, list[int]]:
    """Live ordinary work by the task that owns it, in id order."""
    children: dict[int, list[int]] = {}
    for task_id, task in tasks.items():
        if task["state"]["status"] == "terminal":
            continue
        owner = owner_of(task, conversations)
        if owner is not None:
            children.setdefault(owner, []).append(task_id)
    return children


def chain_of(
    task: TaskRecord, tasks: Mapping[int, TaskRecord], conversations: Mapping[int, ConversationRecord]
) -> list[int]:
    """The ids of a task's owners, nearest first."""
    chain: list[int] = []
    current: TaskRecord | None = task
    while current is not None:
        owner = owner_of(current, conversations)
        if owner is None or owner in chain:
            break
        chain.append(owner)
        current = tasks.get(owner)
    return chain


def below(roots: Iterable[int], children: Mapping[int, list[int]]) -> list[int]:
    """Everything owned by some tasks, owners before owned."""
    found: list[int] = []
    queue = list(roots)
    while queue:
        for child in children.get(queue.pop(0), ()):
            if child not in found:
                found.append(child)
                queue.append(child)
    return found


def conversations_below(
    roots: Iterable[int], conversations: Mapping[int, ConversationRecord], children: Mapping[int, list[int]]
) -> list[int]:
    """The conversations owned by some tasks or by what those own."""
    owners = set(roots) | set(below(roots, children))
    return [
        conversation_id
        for conversation_id, record in conversations.items()
        if "owner" in record and record["owner"]["taskId"] in owners
    ]


def ordinary_tasks(
    conversation_id: int,
    tasks: Mapping[int, TaskRecord],
    conversations: Mapping[int, ConversationRecord],
    *,
    background: bool = False,
) -> list[int]:
    """The live work of a conversation and everything below it; background work only when asked for."""
    children = children_of(tasks, conversations)
    top = [
        task_id
        for task_id, task in tasks.items()
        if task["conversationId"] == conversation_id and (background or not task["background"])
    ]
    found = list(top)
    for task_id in below(top, children):
        if task_id not in found:
            found.append(task_id)
    return found
