"""Rows of the side panels: styled runs left and right, rebuilt from the view when it or the clock changes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

from durable_tui.models.messages import content_text
from durable_tui.ui.adapter import words
from durable_tui.ui.adapter.recovery_cards import VERDICTS, Recovery, RecoveryRow
from durable_tui.ui.glyphs import UNICODE, Glyphs

if TYPE_CHECKING:
    from durable_tui.agent.shapes import Slot
    from durable_tui.views.shapes import ConversationView, TaskRow

Run = tuple[str, str]
RowKey: TypeAlias = str | int | Path | tuple[str | int, ...]


@dataclass(slots=True)
class Row:
    """One line of a panel. `key` names what a key press acts on; None makes the row no place for the cursor."""

    key: RowKey | None
    left: list[Run]
    right: list[Run] = field(default_factory=list)


@dataclass(slots=True, frozen=True)
class Rows:
    """A panel's content. `ticking` says that a time in it moves on."""

    rows: tuple[Row, ...]
    title: str = ""
    count: int = 0
    ticking: bool = False
    empty: str = ""


SLOT_GLYPHS = {"pending": ("pending", "dim"), "running": ("busy", "live"), "done": ("done", "good")}  # others: pending
TAIL_LINES = 3


def slot_status(slot: Slot, tasks: Mapping[int, TaskRow]) -> str:
    """A slot's status; one that says running while its task does not is `unfinished`: no spinner without a live task."""
    status = slot["status"]
    task = tasks.get(slot.get("taskId", 0))
    if status == "running" and task is not None and task["status"] not in ("running", "completing", "terminal"):
        return "waiting" if task["status"] == "waiting" else "unfinished"
    return status


def live_rows(
    view: ConversationView,
    tasks: Mapping[int, TaskRow],
    now: int,
    glyphs: Glyphs = UNICODE,
    since: int = 0,
    *,
    conversation: int | None = None,
    standing: bool = False,
) -> Rows:
    """pi.live: the attempt, each tool slot with its time and the end of its output, compactions; then whatever else runs.

    Times count from `since` for what began before: before this process nothing ran for it. `standing` says that nothing
    has been let start: no time passes then.
    """
    rows: list[Row] = []
    ticking = False
    run, generation = view.get("run"), view.get("generation")
    slots = view["tools"]
    if run is not None:
        task = tasks.get(run["taskId"])
        name = words.task_name(run["taskId"], "pi.generation")
        left: list[Run] = [(f"{name} ", "identity")]
        right: list[Run] = []
        started = task.get("startedAt") if task is not None else None
        stopping = task is not None and task["abortRequested"]
        retry = generation.get("retry") if generation is not None else None
        deferred = generation.get("deferred") if generation is not None else None
        if stopping:
            left += [("stopping", "bold attention")]
        elif retry:
            wait = max(retry["at"] - now, 0)
            left += [("retry", "bold attention"), (f" {glyphs['dot']} in {words.elapsed(wait)}", "attention")]
        elif deferred:
            provider = task.get("provider") if task is not None else None
            left += [("waiting", "bold"), (f" for {provider or 'the provider'}", "dim")]
        elif generation is not None and ("message" in generation or not slots):
            left += [("request", "bold"), (f" {glyphs['dot']} attempt {generation['attempt']}", "dim")]
        else:
            phase = task.get("phase") if task is not None else None
            left += [("tools" if slots else phase or "preparing", "bold")]
        if started and not standing:
            right = [(words.elapsed(now - max(started, since)), "live")]
        ticking = not standing
        rows.append(Row(("task", run["taskId"]), left, right))
        below = retry["error"] if retry else ""
        if deferred and not stopping:
            below = "asked for again when this starts" if standing else words.next_look(deferred["pollAt"], now)
        if below:
            rows.append(Row(None, [(f"   {glyphs['rail']} ", "faint"), (below, "dim")]))
    for slot in slots:
        rows.extend(_slot(slot, tasks, now, glyphs, since))
        ticking = ticking or slot["status"] == "running"
    for item in view["compactions"]:
        task = tasks.get(item["taskId"])
        left = [
            (f"{words.task_name(item['taskId'], 'pi.compaction')} ", "identity"),
            ("compacting", "bold"),
            (f" {glyphs['dot']} {item['reason']}", "dim"),
        ]
        if not item["blocking"]:
            left.append((f" {glyphs['dot']} background", "dim"))
        if "retry" in item:
            wait = max(item["retry"]["at"] - now, 0)
            left.append((f" {glyphs['dot']} retry in {words.elapsed(wait)}", "attention"))
        started = task.get("startedAt") if task is not None else None
        rows.append(Row(("task", item["taskId"]), left, [(words.elapsed(now - started), "faint")] if started else []))
        ticking = True
    shown = {row.key for row in rows} | {("task", slot["taskId"]) for slot in slots if "taskId" in slot}
    for task in tasks.values():
        if task["conversationId"] != conversation or task["status"] == "terminal" or ("task", task["id"]) in shown:
            continue
        if task.get("owner") not in tasks:  # the tree of tasks has those below
            rows.append(_other(task, now, glyphs, since, standing))
            ticking = ticking or (task["status"] == "running" and not standing)
    return Rows(tuple(rows), "live", 0, ticking, "nothing runs")


def _other(task: TaskRow, now: int, glyphs: Glyphs, since: int, standing: bool) -> Row:
    """A task of a kind that an extension brings: its own words, and where it stands."""
    left: list[Run] = [
        (f"{words.task_name(task['id'], task['kind'])} ", "identity"),
        (f"{task['doing']} ", "bold"),
        (f"{glyphs['dot']} {_standing(task)}", "dim"),
    ]
    started = task.get("startedAt")
    counts = started is not None and not standing and task["status"] != "pending"
    return Row(("task", task["id"]), left, [(words.elapsed(now - max(started or 0, since)), "live")] if counts else [])


def _standing(task: TaskRow) -> str:
    """Where a live task stands, in a word or two."""
    if task["abortRequested"]:
        return "stopping"
    if "blocked" in task:
        return GATED.get(task["blocked"]) or BLOCKED.get(task["blocked"], task["blocked"])
    return f"waits for {task['provider']}" if "provider" in task else task["status"]


def _slot(slot: Slot, tasks: Mapping[int, TaskRow], now: int, glyphs: Glyphs, since: int) -> list[Row]:
    status = slot_status(slot, tasks)
    glyph, tone = SLOT_GLYPHS.get(status, ("pending", "dim"))
    task_id = slot.get("taskId")
    task = tasks.get(task_id or 0)
    word = status
    if task is not None and task["abortRequested"] and status != "done":
        tone, word = "attention", "stopping"
    left: list[Run] = [
        (f" {glyphs[glyph]} ", tone),
        (f"{words.task_name(task_id, 'pi.tool')} " if task_id else "", "identity"),
        (f"{slot['name']}  ", "bold"),
        (word, tone if status != "done" else "dim"),
    ]
    recovered = VERDICTS.get(slot.get("recovered", ""))
    if recovered:
        left.append((f"  {glyphs['recovered']} {recovered.word}", "recovered"))
    right: list[Run] = []
    if task is not None and "startedAt" in task and status != "unfinished":
        begin = task["startedAt"] if "endedAt" in task else max(task["startedAt"], since)
        end = task.get("endedAt", now)
        right = [(words.elapsed(end - begin), "faint" if status == "done" else "live")]
    rows = [Row(("call", slot["callId"]), left, right)]
    if status == "running":
        output = slot.get("output", "")
        lines = [line for line in output[-2000:].rstrip("\n").split("\n") if line.strip()][-TAIL_LINES:]
        rows += [
            Row(None, [(f"   {glyphs['rail']} ", "faint"), (line.rsplit("\r", 1)[-1] or line, "dim")]) for line in lines
        ]
        dropped = slot.get("droppedLines", 0)
        if dropped:
            rows.append(Row(None, [(f"   {words.plural(dropped, 'line')} before that left out", "faint")]))
    return rows


def inbox_rows(view: ConversationView, glyphs: Glyphs = UNICODE) -> Rows:
    """pi.inbox in its order: mode, then what it says; parked ones marked."""
    rows: list[Row] = []
    for item in view["inbox"]["items"]:
        if item["mode"] == "write":
            rows.append(Row(item["id"], [("write      ", "dim"), (item["entry"]["kind"], "dim")]))
            continue
        text = content_text(item["content"], lambda image: "[image]")
        if item.get("parked"):
            left: list[Run] = [("parked     ", "attention"), (text, "dim")]
            right: list[Run] = [(words.MODES[item["mode"]], "faint")]
        else:
            tone = "bold attention" if item["mode"] == "steer" else "bold live"
            left = [(f"{words.MODES[item['mode']]:<11}", tone), (text, "")]
            right = []
        rows.append(Row(item["id"], left, right))
    return Rows(tuple(rows), "inbox", len(rows), False, "nothing waits")


STATUS_GLYPHS = {
    "pending": ("pending", "dim"),
    "running": ("running", "good"),
    "waiting": ("running", "good"),
    "completing": ("busy", "live"),
}
OUTCOME_GLYPHS = {
    "completed": ("done", "good"),
    "failed": ("failed", "failed"),
    "aborted": ("aborted", "dim"),
    "orphaned": ("failed", "failed"),
    "faulted": ("failed", "failed"),
}


def task_rows(tasks: Sequence[TaskRow], conversation: int | None, glyphs: Glyphs = UNICODE, limit: int = 200) -> Rows:
    """The ownership tree with what each task does and waits for; past `limit` rows it counts the rest."""
    known = {task["id"]: task for task in tasks}
    names = {task["id"]: words.task_name(task["id"], task["kind"]) for task in tasks}
    children: dict[int | None, list[TaskRow]] = {}
    for task in tasks:
        owner = task.get("owner")
        children.setdefault(owner if owner in known else None, []).append(task)
    rows: list[Row] = []
    live = sum(task["status"] != "terminal" for task in tasks)
    stack: list[tuple[TaskRow, str, str]] = [(task, "", "") for task in reversed(children.get(None, []))]
    while stack:
        task, head, below = stack.pop()
        if len(rows) >= limit:
            rows.append(Row(None, [(f"{glyphs['ellipsis']} {len(tasks) - limit} more", "dim")]))
            break
        rows.append(_task(task, head, names, conversation, glyphs))
        owned = children.get(task["id"], [])
        for index in range(len(owned) - 1, -1, -1):
            last = index == len(owned) - 1
            branch = f"{below}{glyphs['elbow' if last else 'tee']} "
            stack.append((owned[index], branch, below + ("  " if last else f"{glyphs['rail']} ")))
    return Rows(tuple(rows), "tasks", live, False, "no tasks")


def _task(task: TaskRow, head: str, names: Mapping[int, str], conversation: int | None, glyphs: Glyphs) -> Row:
    status = task["status"]
    outcome = task.get("outcome", "")
    dot = glyphs["dot"]
    if status == "terminal":
        glyph, tone = OUTCOME_GLYPHS.get(outcome, ("done", "dim"))
        word: Run = (outcome or "ended", "dim" if tone in ("good", "dim") else tone)
    elif (gated := GATED.get(task.get("blocked", ""))) is not None:
        glyph, tone, word = "running", "good", (gated, "dim")
    elif "blocked" in task:
        glyph, tone = "blocked", "attention"
        reason = task["blocked"]
        word = (BLOCKED.get(reason, reason), "attention")
    elif task["abortRequested"]:
        glyph, tone, word = "running", "attention", ("stopping", "attention")
    else:
        glyph, tone = STATUS_GLYPHS.get(status, ("pending", "dim"))
        waiting = [names.get(other, f"T{other}") for other in task.get("waitingOn", ())]
        if status == "waiting" and waiting:
            shown = " ".join(waiting[:4]) + (f" +{len(waiting) - 4}" if len(waiting) > 4 else "")
            word = (f"waiting on {shown}", "dim")
        else:
            phase = f" {dot} {task['phase']}" if task.get("phase") and status == "running" else ""
            word = (f"{status}{phase}", "dim")
    if task["background"] and status != "terminal":
        glyph, tone = "background", "dim"
        word = (f"background {dot} {word[0]}", word[1])
    left: list[Run] = [
        (head, "faint"),
        (f"{glyphs[glyph]} ", tone),
        (f"{names.get(task['id'], '')} ", "identity"),
        (f"{words.kind_word(task['kind'])} ", ""),
        word,
    ]
    if conversation is not None and task["conversationId"] != conversation:
        left.append((f" {dot} in {task['conversationId']}", "faint"))
    if restarts := task.get("restarts"):
        left.append((f" {dot} {words.plural(restarts, 'restart')}", "attention"))
    recovered = VERDICTS.get(task.get("recovered", ""))
    right: list[Run] = [(f"{glyphs[recovered.glyph]} {recovered.word}", recovered.tone)] if recovered else []
    return Row(("task", task["id"]), left, right)


BLOCKED = {
    "missing_task": "its code is not installed",
    "task_too_old": "stored by a newer version",
    "migration_failed": "could not be migrated",
    "restart_limit": "parked: died too often",
}
GATED = {"retry": "waits to ask again", "poll": "waits for the answer"}  # what ends by itself


def _fitting(row: RecoveryRow, cells: int) -> str:
    """The sentence where it fits, else its first clause, else none: the explanation has it. A stored reason is cut."""
    parts = (row.sentence, row.sentence.split("; ")[0])
    otherwise = "" if row.sentence == row.verdict.sentence else row.sentence
    return next((part for part in parts if len(part) <= cells), otherwise)


def recovery_rows(card: Recovery, glyphs: Glyphs = UNICODE, cells: int = 120) -> Rows:
    """The recovery card: task, what it did, verdict, what that means, the deciding commit."""
    name_width = max((len(row.name) for row in card.rows), default=0) + 1
    word_width = max((len(row.verdict.word) for row in card.rows), default=0) + 2
    room = cells - name_width - word_width - 8  # what is left beside name, verdict and commit
    sentences = room >= 44
    doing_width = min(
        max((len(row.doing) for row in card.rows), default=0) + 2, room // 2 if sentences else max(room, 0)
    )
    rows = []
    for row in card.rows:
        doing = (
            row.doing if len(row.doing) < doing_width - 1 else row.doing[: max(doing_width - 3, 0)] + glyphs["ellipsis"]
        )
        if doing_width < 8:
            doing = ""
        left: list[Run] = [
            (row.name.ljust(name_width), "identity"),
            (doing.ljust(doing_width) if doing else "", "bold"),
            (f"{glyphs[row.verdict.glyph]} ", row.verdict.tone),
            (row.verdict.word.ljust(word_width), f"bold {row.verdict.tone}"),
            (_fitting(row, room - doing_width) if sentences else "", "dim"),
        ]
        rows.append(Row(row.key, left, [(f"#{row.seq}", "faint")] if row.seq is not None else []))
    return Rows(tuple(rows), card.title, len(rows), False)
