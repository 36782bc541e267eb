"""What a session file says happened: its tasks and recoveries as rows, beside the transcript (spec 17.4, 17.7)."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from durable_tui.engine.deaths import is_taken_over
from durable_tui.engine.endings import ending
from durable_tui.engine.rules import rule_sentence
from durable_tui.engine.task_record import outcome_detail, outcome_of, phase_of, status_of, waiting_of
from durable_tui.ground.clock import date_and_time
from durable_tui.host.catalogue import SessionInfo
from durable_tui.host.reading import PAGE, SESSION_SCOPE, all_entries, document_value
from durable_tui.models.usage import cost_text, tokens_text
from durable_tui.storage.protocol import Reader
from durable_tui.storage.records import ConversationRecord, SubmissionRecord, TaskRecord

if TYPE_CHECKING:
    from durable_tui.engine.shapes import Death


@dataclass(slots=True, frozen=True)
class Report:
    """Everything but the transcript, which is read page by page. `recovery` is the `dt.recovery` value."""

    info: SessionInfo
    conversations: list[ConversationRecord]
    tasks: list[dict[str, Any]]
    submissions: list[SubmissionRecord]
    recovery: dict[str, Any]

    def json(self) -> dict[str, Any]:
        return {
            "session": self.info.json(),
            "tasks": self.tasks,
            "submissions": self.submissions,
            "recovery": self.recovery,
        }


async def gather(storage: Reader, info: SessionInfo) -> Report:
    """Read the report of an open (read-only) store."""
    recovery = await document_value(storage, "dt.recovery", SESSION_SCOPE) or {"deaths": []}
    verdicts = newest_rows(recovery)
    tasks: list[dict[str, Any]] = []
    after = 0
    while True:
        page = await storage.tasks(after=after, limit=PAGE)
        tasks += [task_row(task, verdicts.get(task["id"])) for task in page]
        if len(page) < PAGE:
            break
        after = page[-1]["id"]
    conversations: list[ConversationRecord] = []
    after = 0
    while len(found := await storage.conversations(after=after)) > 0:
        conversations += found
        after = found[-1]["id"]
    submissions: list[SubmissionRecord] = []
    after = 0
    while len(some := await storage.submissions(after=after)) > 0:
        submissions += some
        after = some[-1]["id"]
    return Report(info, conversations, tasks, submissions, recovery)


def newest_rows(recovery: dict[str, Any]) -> dict[int, dict[str, Any]]:
    """The newest row of each task that a death left behind."""
    return {row["taskId"]: row for death in recovery.get("deaths") or () for row in death["tasks"]}


def task_row(task: TaskRecord, found: dict[str, Any] | None = None) -> dict[str, Any]:
    """A task in the terms of a recovery row (spec 17.4), with its status and outcome."""
    row: dict[str, Any] = {
        "taskId": task["id"],
        "conversationId": task["conversationId"],
        "kind": task["kind"],
        "status": status_of(task),
    }
    phase = phase_of(task)
    if phase is not None:
        row["phase"] = phase
    waiting = waiting_of(task)
    if waiting is not None:
        row["waitingOn"] = waiting["on"]
    outcome = outcome_of(task)
    if outcome is not None:
        row["outcome"] = outcome["status"]
        detail = outcome_detail(outcome)
        if detail:
            row["detail"] = detail
    for key in ("background", "abortRequested", "restarts", "startedAt", "endedAt"):
        if task.get(key):
            row[key] = task[key]
    if found is not None:
        for key in ("doing", "verdict", "rule", "seq", "at"):
            if key in found:
                row[key] = found[key]
    return row


async def entries_json(storage: Reader, report: Report) -> list[dict[str, Any]]:
    """The conversations with their entries, each entry with the seq of its commit."""
    found = []
    for conversation in report.conversations:
        entries = [{**item.record, "seq": item.seq} async for item in all_entries(storage, conversation["id"])]
        found.append({**conversation, "entries": entries})
    return found


def verdict_line(row: dict[str, Any]) -> str:
    """Return a recovered task as one line: what it was, what was decided in which commit, and by which rule."""
    kind = f"({row['kind']} {row['phase']})" if row.get("phase") else f"({row['kind']})"
    words = [f"T{row['taskId']}", row.get("doing") or row["kind"], kind]
    words.append("→ " + row["verdict"] if row.get("verdict") else "→ not decided yet")
    if row.get("seq"):
        words.append(f"in #{row['seq']}")
    reasons = [row["detail"]] if row.get("detail") else []
    if row.get("rule"):
        reasons.append(rule_sentence(row["rule"]))
    line = " ".join(words)
    return f"{line}: {'. '.join(reasons)}" if reasons else line


def death_line(death: dict[str, Any]) -> str:
    """One death, or close that ended work, in a line: who, how it ended, when seen last, found when."""
    end = ending(cast("Death", death))
    last = f"#{death['lastSeq']} at {date_and_time(death.get('lastAt'))}" if death.get("lastSeq") else "none"
    found = (
        f"found {date_and_time(death.get('foundAt'))}" if is_taken_over(cast("Death", death)) else "not opened since"
    )
    return f"pid {death['pid']} on {death['host']} {end.verb} ({end.how}); last commit {last}; {found}"


def recovery_lines(recovery: dict[str, Any]) -> Iterable[str]:
    """All deaths and their tasks, oldest first."""
    for death in recovery.get("deaths") or ():
        yield death_line(death)
        for row in death["tasks"]:
            yield "  " + verdict_line(row)
        if not death["tasks"]:
            yield "  nothing was unfinished"


def title_of(info: SessionInfo) -> str:
    return info.title or f"session {info.short_id}"


def header(report: Report) -> list[tuple[str, str]]:
    """The facts above a transcript."""
    info = report.info
    found = [("session", info.id), ("file", str(Path(info.path))), ("directory", info.cwd), ("state", info.state)]
    if info.model:
        found.append(("model", info.model))
    if info.usage:
        found += [("tokens", tokens_text(info.usage)), ("cost", cost_text(info.usage))]
    found += [("made", date_and_time(info.created_at)), ("last commit", date_and_time(info.updated_at))]
    if info.owner:
        found.append(("owner", f"pid {info.owner['pid']} on {info.owner['host']}"))
    if info.unfinished or info.queued:
        found.append(("unfinished", f"{info.unfinished} tasks, {info.queued} queued"))
    return found
