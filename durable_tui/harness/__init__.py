"""The harness: scheduler, tasks, generation, tool calls, submissions, views (contract 6-15)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from durable_tui.lazy import lazy

if TYPE_CHECKING:
    from durable_tui.harness.conversation import Conversation
    from durable_tui.harness.extension import Extension, Registry, Section, Tool, ToolCall, ToolError, ToolResult, tool
    from durable_tui.harness.harness import Harness
    from durable_tui.harness.inbox import ConversationBusy, InboxItemGone
    from durable_tui.harness.settings import Settings
    from durable_tui.harness.submission import Settled, Submission
    from durable_tui.harness.tasks import TaskContext, TaskDefinition

_HOMES = {
    "Conversation": "conversation",
    "ConversationBusy": "inbox",
    "Extension": "extension",
    "Harness": "harness",
    "InboxItemGone": "inbox",
    "Registry": "extension",
    "Section": "extension",
    "Settings": "settings",
    "Settled": "submission",
    "Submission": "submission",
    "TaskContext": "tasks",
    "TaskDefinition": "tasks",
    "Tool": "extension",
    "ToolCall": "extension",
    "ToolError": "extension",
    "ToolResult": "extension",
    "tool": "extension",
}

__all__ = [
    "Conversation",
    "ConversationBusy",
    "Extension",
    "Harness",
    "InboxItemGone",
    "Registry",
    "Section",
    "Settings",
    "Settled",
    "Submission",
    "TaskContext",
    "TaskDefinition",
    "Tool",
    "ToolCall",
    "ToolError",
    "ToolResult",
    "tool",
]


__getattr__ = lazy(__name__, _HOMES)
