"""A session as plain text, as `show` prints it."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator

from durable_tui.forensics.blocks import Block, blocks
from durable_tui.forensics.report import Report, header, recovery_lines, title_of
from durable_tui.host.reading import all_entries
from durable_tui.storage.protocol import Reader

LABEL = 6  # columns of the speaker
RESULT_LINES = 12  # lines of a tool's result that are shown; exports have all


async def render(storage: Reader, report: Report) -> AsyncIterator[str]:
    """Pieces of the text, each ending with a newline."""
    yield f"{title_of(report.info)}\n"
    for name, value in header(report):
        yield f"  {name + ':':13}{value}\n"
    for conversation in report.conversations:
        yield f"\nconversation {conversation['id']}{_owner(conversation.get('owner'))}\n"
        async for item in all_entries(storage, conversation["id"]):
            for block in blocks(item.record):
                yield "".join(line + "\n" for line in block_lines(block))
    live = [task for task in report.tasks if task["status"] != "terminal"]
    yield f"\ntasks: {len(report.tasks)}, unfinished: {len(live)}\n"
    for task in live:
        what = f" {task['doing']}" if task.get("doing") else ""
        waiting = ", waits for " + ", ".join(f"T{n}" for n in task["waitingOn"]) if "waitingOn" in task else ""
        yield f"  T{task['taskId']} {task['kind']} {task.get('phase', '')} {task['status']}{what}{waiting}\n"
    failed = [task for task in report.tasks if task.get("outcome") in ("failed", "faulted", "orphaned")]
    for task in failed:
        yield f"  T{task['taskId']} {task['kind']} {task['outcome']}: {task.get('detail', '')}\n"
    lines = list(recovery_lines(report.recovery))
    yield "\nrecoveries:\n" if lines else "\nrecoveries: none\n"
    for line in lines:
        yield f"  {line}\n"


def block_lines(block: Block) -> Iterator[str]:
    """The lines of one block; results are shortened."""
    lines = block.text.rstrip("\n").split("\n")
    if block.kind in ("user", "ai", "thinking"):
        label = {"thinking": "think"}.get(block.label, block.label)
        for number, line in enumerate(lines):
            yield f"{label if number == 0 else '':{LABEL}}{line}".rstrip()
        return
    if block.kind == "call":
        yield f"{'':{LABEL}}└ {lines[0]}"
        return
    if block.kind in ("mark", "system"):
        yield f"{'':{LABEL}}({block.label}: {lines[0]})"
        return
    mark = "✗ " if block.kind == "error" else ""
    shown = lines if len(lines) <= RESULT_LINES or block.diff else lines[:RESULT_LINES]
    yield f"{'':{LABEL}}  {mark}{block.label}: {shown[0] if len(lines) == 1 else ''}".rstrip()
    if len(lines) > 1:
        for line in shown:
            yield f"{'':{LABEL}}    {line}".rstrip()
    if len(shown) < len(lines):
        yield f"{'':{LABEL}}    … {len(lines) - len(shown)} more lines"


def _owner(owner: object) -> str:
    if isinstance(owner, dict):
        return f" (of task T{owner['taskId']} in conversation {owner['conversationId']})"
    return ""
