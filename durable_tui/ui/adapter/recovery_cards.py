"""dt.recovery for people: the rows of the card, the words of each verdict, the explanation (spec 15).

A process that is spoken of here died, or was closed while work ran: `ending` has the words for which.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from durable_tui.engine.deaths import is_taken_over
from durable_tui.engine.endings import ending
from durable_tui.engine.rules import rule_sentence
from durable_tui.ground.clock import clock
from durable_tui.ui.adapter import words

if TYPE_CHECKING:
    from durable_tui.engine.shapes import Death, FoundTask
    from durable_tui.engine.shapes import Recovery as StoredRecovery


@dataclass(slots=True, frozen=True)
class Verdict:
    glyph: str
    word: str
    tone: str
    sentence: str
    why: str


VERDICTS: dict[str, Verdict] = {
    "restarted": Verdict(
        "rerun",
        "restarted",
        "good",
        "had not begun yet",
        "Nothing had gone out when the process ended, so it started from its beginning.",
    ),
    "rerun": Verdict(
        "rerun",
        "re-run",
        "good",
        "safe to repeat",
        "The tool is declared safe to repeat and the former process is gone for certain, so the call ran again with the "
        "same arguments.",
    ),
    "verified": Verdict(
        "verified",
        "verified",
        "good",
        "checked what is on disk",
        "The evidence stored with the intent was compared with what is there now, and that decided: what had happened "
        "was kept, what had not was done.",
    ),
    "reattached": Verdict(
        "reattached",
        "re-attached",
        "live",
        "its process lived on",
        "The command's own runner lived on. Its output was taken over from the first byte.",
    ),
    "interrupted": Verdict(
        "interrupted",
        "interrupted",
        "attention",
        "may have partly run; the model was told",
        "Nobody can say how far it came, and it is not safe to repeat. It was not run again; the model got an error "
        "with the output so far and decides.",
    ),
    "resent": Verdict(
        "rerun",
        "asked again",
        "good",
        "the same request was sent again",
        "A request to the model was on its way. It was sent once more; a partial answer is kept as aborted.",
    ),
    "resumed": Verdict(
        "woken",
        "resumed",
        "live",
        "goes on where it stood",
        "It waited for a time, a remote job, an answer or a person, or stood between two steps. It goes on from there.",
    ),
    "woken": Verdict(
        "woken",
        "woken",
        "live",
        "what it waited for has ended",
        "It waited for other tasks and went on when the last of them ended.",
    ),
    "blocked": Verdict(
        "blocked",
        "blocked",
        "attention",
        "cannot go on here",
        "The code it needs is missing or older than what was stored. It stays where it is until that is there.",
    ),
    "gaveUp": Verdict(
        "failed",
        "gave up",
        "failed",
        "was running at too many deaths",
        "It was running each time the process died. It is parked so that the session can open; retry it or stop it.",
    ),
    "aborted": Verdict(
        "aborted",
        "aborted",
        "dim",
        "was already to be stopped",
        "It was marked to stop before the process ended, and has been stopped.",
    ),
}
OF_EXTENSIONS: dict[str, Verdict] = {  # where the words above tell of the model or of tools
    "interrupted": Verdict(
        "interrupted",
        "interrupted",
        "attention",
        "may have partly run; not run again",
        "Nobody can say how far it came. It was not run again: the extension that brings it was told, and ended it.",
    ),
    "rerun": Verdict(
        "rerun",
        "re-run",
        "good",
        "safe to repeat",
        "The extension that brings it says that this step may be repeated, so it ran again from its last checkpoint.",
    ),
}
UNDECIDED = Verdict("pending", "found", "dim", "not decided yet", "It was unfinished when the process ended.")


@dataclass(slots=True, frozen=True)
class RecoveryRow:
    """One unfinished task of one row of the report."""

    key: tuple[int, int]
    name: str
    doing: str
    verdict: Verdict
    decided: bool
    sentence: str
    seq: int | None
    task: FoundTask
    death: Death


@dataclass(slots=True, frozen=True)
class Recovery:
    """The card: the tasks of the deaths and closes shown. `summary` is one line for a folded card."""

    rows: tuple[RecoveryRow, ...] = ()
    title: str = ""
    footing: str = ""
    summary: str = ""
    undecided: int = 0


def recovery(value: StoredRecovery, *, epoch: int | None = None) -> Recovery:
    """The rows to show: of what opening `epoch` found or left undecided, else of all."""
    chosen = [death for death in _linked(value["deaths"]) if epoch is None or _current(death, epoch)]
    rows = tuple(row for death in reversed(chosen) for row in _rows(death))
    if not rows:
        return Recovery()
    undecided = sum(not row.decided for row in rows)
    last = chosen[-1]
    end = ending(last)
    footing = f"process {last['pid']} {end.verb} {clock(last['lastAt'], seconds=True)}".rstrip()
    footing += f" after commit #{last['lastSeq']}"
    if end.cause:
        footing += f": {end.cause}"
    if len(chosen) > 1:
        footing = f"{words.plural(len(chosen), _counted(chosen))} in a row · {footing}"
    title = f"found after {end.occasion}" if undecided == len(rows) else end.taken_up
    counted: dict[str, int] = {}
    for row in rows:
        counted[row.verdict.word] = counted.get(row.verdict.word, 0) + 1
    summary = ", ".join(f"{count} {word}" for word, count in counted.items())
    return Recovery(rows, title, footing, summary, undecided)


def _counted(deaths: Sequence[Death]) -> str:
    return "death" if all(death.get("ended") != "closed" for death in deaths) else "interruption"


def _linked(deaths: Sequence[Death]) -> list[Death]:
    """Without the rows a later death took over: a task found again before anything was decided has its verdict there."""
    later: set[int] = set()
    out: list[Death] = []
    for death in reversed(deaths):
        tasks = death["tasks"]
        kept = [task for task in tasks if "verdict" in task or task["taskId"] not in later]
        later.update(task["taskId"] for task in tasks)
        out.append(death if len(kept) == len(tasks) else {**death, "tasks": kept})
    return out[::-1]


def _current(death: Death, epoch: int) -> bool:
    return death["foundBy"] == epoch or any("verdict" not in task for task in death["tasks"])


def _rows(death: Death) -> Sequence[RecoveryRow]:
    out = []
    for task in death["tasks"]:
        word = task.get("verdict", "")
        verdict = VERDICTS.get(word, UNDECIDED)
        if not words.is_built_in(task["kind"]):
            verdict = OF_EXTENSIONS.get(word, verdict)
        decided = "verdict" in task
        sentence = verdict.sentence
        if word == "woken" and task["kind"] == "pi.generation":
            sentence = "its tools have finished"
        elif "detail" in task and (word == "blocked" or verdict is OF_EXTENSIONS.get(word)):
            sentence = task["detail"]
        out.append(
            RecoveryRow(
                (death["epoch"], task["taskId"]),
                words.task_name(task["taskId"], task["kind"]),
                task["doing"] or words.kind_word(task["kind"]),
                verdict,
                decided,
                sentence,
                task.get("seq"),
                task,
                death,
            )
        )
    return out


def explanation(row: RecoveryRow) -> list[tuple[str, str]]:
    """(label, text) lines of the explanation: what was found, when, what was decided, by which rule."""
    task, death = row.task, row.death
    end = ending(death)
    seconds = ""
    if death.get("lastAt") and death.get("foundAt"):
        seconds = f"{words.elapsed(int(death['foundAt']) - int(death['lastAt']))} without a process"
    lines = [
        ("task", f"{row.name}  {row.doing}"),
        ("found in", f"{words.kind_word(str(task.get('kind', '')))}, phase {task.get('phase', '?')}"),
        (
            end.verb.rpartition(" ")[2],
            f"process {death.get('pid')} on {death.get('host', 'this host')}, started "
            f"{clock(death.get('openedAt'), True)}",
        ),
        ("ended", end.how),
        ("last commit", f"#{death.get('lastSeq')} at {clock(death.get('lastAt'), True)}"),
    ]
    if is_taken_over(death):
        found = f"{clock(death.get('foundAt'), True)} by opening {death.get('foundBy')}"
        lines.append(("found", f"{found} · {seconds}" if seconds else found))
    else:
        lines.append(("found", "not opened since"))
    if row.decided:
        lines.append(("verdict", f"{row.verdict.word}: {row.sentence}"))
        if task.get("seq") is not None:
            lines.append(("decided", f"in commit #{task['seq']} at {clock(task.get('at'), True)}"))
    else:
        lines.append(("verdict", "not decided yet"))
    lines.append(("why", row.verdict.why))
    if task.get("rule"):
        lines.append(("rule", rule_sentence(task["rule"])))
    if task.get("detail"):
        lines.append(("detail", str(task["detail"])))
    if task.get("entry") is not None:
        lines.append(("entry", f"{task['entry']} in the transcript"))
    return lines
