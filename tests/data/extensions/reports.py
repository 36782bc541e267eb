"""An extension with a kind of task of its own: child tasks, a document, cleanup, a verdict and words.

Every phase waits until a file of its name lies in the working directory, so that a test can stop the process in it.
"""

import asyncio
from pathlib import Path

from pydantic import BaseModel

from durable_tui import Extension, tool
from durable_tui.engine import Decision, TaskDefinition, new_task
from durable_tui.session import DocumentDefinition

NOTES = DocumentDefinition("reports.notes", "conversation", dict, history="latest")


async def open_gate(name):
    while not Path(name).exists():
        await asyncio.sleep(0.02)


async def write(task):
    await open_gate("write")
    async with task.commit() as tx:
        task.complete(tx, task.input["page"])


async def gather(task):
    await open_gate("gather")
    async with task.commit() as tx:
        notes = await tx.document(NOTES, task.conversation_id)
        notes.value["open"] = task.id
        pages = [
            new_task(
                tx,
                conversation_id=task.conversation_id,
                definition=PAGE,
                input={"page": page},
                owner=task.id,
                running=True,
            )["id"]
            for page in (1, 2)
        ]
        task.wait(tx, {"phase": "collect"}, pages)


async def collect(task):
    await open_gate("collect")
    async with task.commit() as tx:
        task.advance(tx, {"phase": "send"})


async def send(task):
    if task.decision is not None and task.decision["verdict"] == "interrupted":
        async with task.commit() as tx:
            await close_notes(tx, task.conversation_id)
            task.fail(tx, "nobody knows whether it was printed")
        return
    with Path("printed").open("a") as printer:
        printer.write("one report\n")
    await open_gate("send")
    async with task.commit() as tx:
        await close_notes(tx, task.conversation_id)
        task.complete(tx, "sent")


async def close_notes(tx, conversation_id):
    notes = await tx.document(NOTES, conversation_id)
    notes.value.pop("open", None)


async def verdict(record):
    if record["state"]["checkpoint"]["phase"] == "send":
        return Decision("interrupted", "10", "the printer does not tell")
    return Decision("resumed", "15")


async def abandon(tx, record, why):
    await close_notes(tx, record["conversationId"])


PAGE = TaskDefinition(
    "reports.page",
    {"write": write},
    lambda _: {"phase": "write"},
    doing=lambda record: f"page {record['input']['page']}",
)
REPORT = TaskDefinition(
    "reports.report",
    {"gather": gather, "collect": collect, "send": send},
    lambda _: {"phase": "gather"},
    verdict=verdict,
    abandon=abandon,
    doing=lambda record: f"report {record['input']['name']}",
    effect_phases=("send",),
)


class Which(BaseModel):
    name: str


@tool(replay="safe")
async def report(args: Which, call) -> str:
    """Begin a report."""
    async with call.commit() as tx:
        new_task(tx, conversation_id=call.conversation_id, definition=REPORT, input={"name": args.name}, running=False)
    return "begun"


extension = Extension("reports", tools=[report], tasks=[REPORT, PAGE])
