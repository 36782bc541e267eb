"""The extension "coding": read, write, edit, bash, and what the prompt says about them."""

from __future__ import annotations

from durable_tui.agent.extension import Extension, PromptContext, Section
from durable_tui.tools.bash import bash
from durable_tui.tools.edit import edit
from durable_tui.tools.read import read
from durable_tui.tools.write import write

_GUIDANCE = {
    "read": "Read a file with read before you change it; use offset and limit for long ones.",
    "edit": "Change files with edit. Copy oldText from the file exactly, and keep it short but unique.",
    "write": "Use write for new files and for whole rewrites only.",
    "bash": "Use bash to search, build and test. It has no input and no terminal: pass flags that answer questions. "
    "Commands that need more than two minutes need a timeout; processes in the background end with the command.",
}


def guidance(context: PromptContext) -> str | None:
    """A line for each of our tools that the agent has."""
    names = {item.name for item in context.tools}
    lines = [f"- {text}" for name, text in _GUIDANCE.items() if name in names]
    return "\n".join(["How to use the tools:", *lines]) if lines else None


CodingTools = Extension("coding", tools=[read, write, edit, bash], sections=[Section("tools", guidance)])
