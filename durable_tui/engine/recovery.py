"""Opening after a death: what was found, and the verdict on each piece of work (spec 15, 17.4)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from durable_tui.agent.documents import RECOVERY
from durable_tui.engine.task import changed, checkpoint_of, status_of
from durable_tui.session import Transaction
from durable_tui.storage.records import OwnerRow, TaskRecord

if TYPE_CHECKING:
    from durable_tui.engine.kernel import Kernel

KEPT_DEATHS = 100
SAME_DEATHS = 5  # openings in a row that died before doing anything, after which the session opens paused


async def note_verdict(
    kernel: Kernel,
    tx: Transaction,
    task_id: int,
    verdict: str,
    rule: str,
    *,
    detail: str | None = None,
    entry: int | None = None,
) -> None:
    """Write the verdict on a found task into the newest report, in the commit that decides it."""
    if task_id not in kernel.undecided:
        return
    draft = await tx.document(RECOVERY)
    for death in reversed(draft.value["deaths"]):
        for row in death["tasks"]:
            if row["taskId"] == task_id:
                if "verdict" in row:
                    return  # decided earlier in this very commit; older reports stay as they are
                row["verdict"] = verdict
                row["rule"] = rule
                row["seq"] = tx.seq
                row["at"] = kernel.session.now()
                if detail is not None:
                    row["detail"] = detail
                if entry is not None:
                    row["entry"] = entry
                kernel.deciding.append((tx.seq, task_id, verdict))
                return


async def doing(kernel: Kernel, record: TaskRecord) -> str:
    """A short phrase for what a task is about: "edit config/dev.json", "asking deepseek-chat, attempt 2"."""
    if record["kind"] == "pi.tool":
        await kernel.entry(record["input"]["assistant"])
        await kernel.selection(record["conversationId"])
    return doing_now(kernel, record)


def doing_now(kernel: Kernel, record: TaskRecord) -> str:
    """The same from what is in memory."""
    checkpoint = checkpoint_of(record)
    if record["kind"] == "pi.tool":
        call = kernel.known_call(record)
        if call is None:
            return "a tool call"
        tool = kernel.known_tool(record["conversationId"], call["name"])
        return call_phrase(tool, call["name"], checkpoint.get("arguments", call["arguments"]))
    if record["kind"] == "pi.generation":
        phase = checkpoint.get("phase")
        if phase == "tools":
            return "waiting for its tools"
        if phase == "poll":
            return f"waiting for {checkpoint['model']['modelId']}'s answer, made at {made_at(record)}"
        attempt = checkpoint.get("attempt", 1)
        name = checkpoint["model"]["modelId"] if "model" in checkpoint else "the model"
        words = {"prepare": "preparing to ask", "retry": "waiting to ask again:"}.get(str(phase), "asking")
        return f"{words} {name}, attempt {attempt}"
    definition = kernel.definition(record["kind"])
    if definition is not None and definition.doing is not None:
        try:
            return str(definition.doing(record))
        except Exception as error:  # noqa: BLE001 - a phrase must not fail an opening
            return f"{record['kind']} ({error})"
    return record["kind"]


def made_at(record: TaskRecord) -> str | None:
    """The provider that makes a task's answer in the background, while one does."""
    checkpoint = checkpoint_of(record)
    if record["kind"] != "pi.generation" or checkpoint.get("phase") != "poll":
        return None
    return str(checkpoint["model"]["provider"])


def call_phrase(tool: Any, name: str, arguments: Any) -> str:
    """The name of a tool and the short form of its arguments."""
    if tool is not None and tool.summary is not None and isinstance(arguments, dict):
        try:
            summary = str(tool.summary(arguments))
        except Exception as error:  # noqa: BLE001 - a phrase must not fail an opening
            summary = f"({error})"
        return f"{name} {' '.join(summary.split())}"[:120].rstrip()
    return name


def died(owners: list[OwnerRow]) -> OwnerRow | None:
    """The opening before this one, when it did not end in order."""
    if len(owners) < 2 or owners[-2].closed_at is not None:
        return None
    return owners[-2]


async def recover(kernel: Kernel) -> int:
    """The commit of opening: running tasks become pending, restarts are counted, the report is written.

    Returns how many deaths in a row were found, this one included. Dispatches nothing.
    """
    session = kernel.session
    storage = session.storage
    owners = await storage.owners()
    dead = died(owners)
    found = list(session.tasks.values())
    if not session.conversations:
        dead = None  # nothing was begun yet; the root conversation has to get the first id
    rows = [await _row(kernel, record) for record in found] if dead is not None else []
    last = await _last_commit(kernel, dead) if dead is not None else (0, 0)
    async with session.commit() as tx:
        if dead is not None:
            report = await tx.document(RECOVERY)
            for row in rows:
                kernel.undecided[row["taskId"]] = status_of(session.tasks[row["taskId"]])
            report.value["deaths"].append(
                {
                    "epoch": dead.epoch,
                    "pid": dead.pid,
                    "host": dead.host,
                    "openedAt": dead.opened_at,
                    "lastSeq": last[0],
                    "lastAt": last[1],
                    "foundBy": storage.epoch,
                    "foundAt": session.now(),
                    "tasks": rows,
                }
            )
            if len(report.value["deaths"]) > KEPT_DEATHS:
                del report.value["deaths"][: len(report.value["deaths"]) - KEPT_DEATHS]
        else:
            await _reload_undecided(kernel)
        for record in found:
            await _requeue(kernel, tx, record, unclean=dead is not None)
    return _deaths_in_a_row(owners)


async def _requeue(kernel: Kernel, tx: Transaction, record: TaskRecord, *, unclean: bool) -> None:
    limit = kernel.settings.restart_limit
    if status_of(record) != "running":
        # A clean close clears the count, but releases nothing: what is parked waits for a person.
        parked = limit and record.get("restarts", 0) >= limit
        if not unclean and not parked and "restarts" in record:
            tx.put_task(changed(record, restarts=None))
        return
    restarts = record.get("restarts", 0) + 1 if unclean else None
    state = {"status": "pending", "checkpoint": checkpoint_of(record)}
    tx.put_task(changed(record, state=state, restarts=restarts))
    if restarts is not None and limit and restarts >= limit and not record["abortRequested"]:
        await note_verdict(
            kernel,
            tx,
            record["id"],
            "gaveUp",
            "6.11",
            detail=f"died {restarts} times in this step; it waits for you to retry or abort it",
        )


async def _row(kernel: Kernel, record: TaskRecord) -> dict[str, Any]:
    return {
        "taskId": record["id"],
        "conversationId": record["conversationId"],
        "kind": record["kind"],
        "phase": str(checkpoint_of(record).get("phase", status_of(record))),
        "doing": await doing(kernel, record),
    }


async def _last_commit(kernel: Kernel, dead: OwnerRow) -> tuple[int, int]:
    """The newest commit of the dead epoch; its opening is one, so there always is one."""
    before: int | None = None
    while True:
        page = await kernel.session.storage.commits(reverse=True, limit=100, before=before)
        for row in page:
            if row.epoch <= dead.epoch:
                return row.seq, row.at
        if not page:
            return 0, dead.opened_at
        before = page[-1].seq


async def _reload_undecided(kernel: Kernel) -> None:
    value = await kernel.session.value(RECOVERY)
    for death in value["deaths"][-1:]:
        for row in death["tasks"]:
            if "verdict" not in row and row["taskId"] in kernel.session.tasks:
                kernel.undecided[row["taskId"]] = status_of(kernel.session.tasks[row["taskId"]])


def _deaths_in_a_row(owners: list[OwnerRow]) -> int:
    count = 0
    for row in reversed(owners[:-1]):
        if row.closed_at is not None:
            break
        count += 1
    return count


async def opens_keep_dying(kernel: Kernel) -> bool:
    """Whether the last openings all died before they did anything, so that this one should open paused (spec 6.11)."""
    owners = (await kernel.session.storage.owners())[:-1]
    recent = owners[-SAME_DEATHS:]
    if len(recent) < SAME_DEATHS or any(row.closed_at is not None for row in recent):
        return False
    counts: dict[int, int] = {}
    for row in await kernel.session.storage.commits(reverse=True, limit=4 * SAME_DEATHS):
        counts[row.epoch] = counts.get(row.epoch, 0) + 1
    return all(counts.get(row.epoch, 0) <= 2 for row in recent)
