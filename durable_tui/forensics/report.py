"""What a session file says happened: its tasks and recoveries as rows, beside the transcript (spec 17.4, 17.7)."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from durable_tui.agent.extension import Registry
from durable_tui.engine.deaths import is_taken_over
from durable_tui.engine.endings import ending
from durable_tui.engine.recovery import RECOVERY
from durable_tui.engine.rules import rule_sentence
from durable_tui.engine.shapes import Death, FoundTask, Recovery
from durable_tui.ground.clock import date_and_time
from durable_tui.host.catalogue import SessionInfo
from durable_tui.host.reading import PAGE, all_entries
from durable_tui.models.usage import cost_text, tokens_text
from durable_tui.session import stored_value
from durable_tui.storage.protocol import Reader
from durable_tui.storage.records import ConversationRecord, SubmissionRecord
from durable_tui.views.build import shown_entry, task_report
from durable_tui.views.look import ReaderWords
from durable_tui.views.shapes import TaskReport


@dataclass(slots=True, frozen=True)
class Report:
    """Everything but the transcript, which is read page by page. `recovery` is the `dt.recovery` value."""

    info: SessionInfo
    conversations: list[ConversationRecord]
    tasks: list[TaskReport]
    submissions: list[SubmissionRecord]
    recovery: Recovery

    def json(self) -> dict[str, object]:
        return {
            "session": self.info.json(),
            "tasks": self.tasks,
            "submissions": self.submissions,
            "recovery": self.recovery,
        }


async def gather(storage: Reader, info: SessionInfo, registry: Registry | None = None) -> Report:
    """Read the report of an open (read-only) store; `registry` has what words for tasks are installed."""
    recovery = await stored_value(storage, RECOVERY) or RECOVERY.initial()
    found = newest_rows(recovery)
    words = ReaderWords(registry or Registry())
    await words.recall(await storage.live_tasks(), storage)
    tasks: list[TaskReport] = []
    after = 0
    while page := await storage.tasks(after=after, limit=PAGE):
        tasks += [task_report(task, words, found.get(task["id"])) for task in page]
        after = page[-1]["id"]
    conversations: list[ConversationRecord] = []
    after = 0
    while more := await storage.conversations(after=after):
        conversations += more
        after = more[-1]["id"]
    submissions: list[SubmissionRecord] = []
    after = 0
    while some := await storage.submissions(after=after):
        submissions += some
        after = some[-1]["id"]
    return Report(info, conversations, tasks, submissions, recovery)


def newest_rows(recovery: Recovery) -> dict[int, FoundTask]:
    """The newest row of each task that a death left behind."""
    return {row["taskId"]: row for death in recovery["deaths"] for row in death["tasks"]}


async def entries_json(storage: Reader, report: Report) -> list[dict[str, object]]:
    """The conversations with their entries, each entry with the seq of its commit."""
    conversations: list[dict[str, object]] = []
    for conversation in report.conversations:
        entries = [shown_entry(item.record, item.seq) async for item in all_entries(storage, conversation["id"])]
        conversations.append({**conversation, "entries": entries})
    return conversations


def verdict_line(row: FoundTask) -> str:
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


def death_line(death: Death) -> str:
    """One death, or close that ended work, in a line: who, how it ended, when seen last, found when."""
    end = ending(death)
    last = f"#{death['lastSeq']} at {date_and_time(death.get('lastAt'))}" if death.get("lastSeq") else "none"
    found = f"found {date_and_time(death.get('foundAt'))}" if is_taken_over(death) else "not opened since"
    return f"pid {death['pid']} on {death['host']} {end.verb} ({end.how}); last commit {last}; {found}"


def recovery_lines(recovery: Recovery) -> Iterable[str]:
    """All deaths and their tasks, oldest first."""
    for death in recovery["deaths"]:
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
