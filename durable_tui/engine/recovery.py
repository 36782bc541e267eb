"""Opening after a death: what was found, and the decision on each piece of work (spec 15, 17.4)."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from durable_tui.engine.deaths import (
    DescribeQueue,
    closed_row,
    death_before,
    died_row,
    is_taken_over,
    keep,
    lacks_end,
)
from durable_tui.engine.definitions import Definitions
from durable_tui.engine.flight import KEPT as KEPT_FLIGHTS
from durable_tui.engine.flight import record_flight
from durable_tui.engine.ownership import children_of
from durable_tui.engine.shapes import Death, FoundTask, Recovery, Verdict
from durable_tui.engine.task import Decision
from durable_tui.engine.task_record import changed, checkpoint_of, status_of
from durable_tui.session import Commit, DocumentDefinition, Session, SomeDefinition, Transaction
from durable_tui.storage.ends import Ends, read_ends, remove_ends
from durable_tui.storage.protocol import Reader
from durable_tui.storage.records import LiveState, OwnerRow, StoredDecision, TaskRecord

log = logging.getLogger(__name__)
SAME_DEATHS = 5  # openings in a row that died before doing anything, after which the session opens paused
RESTART_LIMIT: Literal["restart_limit"] = "restart_limit"
# Reasons for being blocked that only a person can lift; any other ends by itself (spec 6.9, 6.11).
PARKED = frozenset({RESTART_LIMIT, "missing_task", "task_too_old", "migration_failed"})

RECOVERY: DocumentDefinition[Recovery] = DocumentDefinition(
    "dt.recovery", "session", lambda: {"deaths": []}, checkpoint=lambda _, deltas: deltas >= 64
)


@dataclass(slots=True, frozen=True)
class _Noted:
    seq: int
    task_id: int
    verdict: Verdict


class RecoveryReport:
    """The rows of one session's report without a verdict, and what became of them in this opening.

    `former_owner_dead` says whether the process of the opening before is provably gone: only then is an effect
    repeated (spec 4.2).
    """

    def __init__(self, session: Session) -> None:
        self._session = session
        self._found_as: dict[int, str] = {}  # tasks without a verdict, and their status as found
        self._verdicts: dict[int, Verdict] = {}
        self._noted: list[_Noted] = []
        self.former_owner_dead = session.storage.former_owner == "dead"
        session.observe(self._observe)

    def is_undecided(self, task_id: int) -> bool:
        """Whether a task was found at work and nothing is decided about it yet."""
        return task_id in self._found_as

    def found_as(self, task_id: int) -> str | None:
        """The status an undecided task was found with."""
        return self._found_as.get(task_id)

    def verdict(self, task_id: int) -> Verdict | None:
        """What was decided about a task in this opening."""
        return self._verdicts.get(task_id)

    def found(self, task_id: int, status: str) -> None:
        """Remember that a task awaits its verdict."""
        self._found_as[task_id] = status

    async def note(self, tx: Transaction, task_id: int, decision: Decision, *, entry: int | None = None) -> None:
        """Write the verdict on a found task into the newest report, in the commit that decides it.

        A verdict the result contradicts (the tool went away after it was decided to run it again) is written over, in
        the commit of that result, so that report and result never differ.
        """
        if task_id not in self._found_as and self._verdicts.get(task_id) in (None, decision.verdict):
            return
        row = await self._row(tx, task_id)
        if row is None or (task_id in self._found_as and "verdict" in row):
            return  # decided earlier in this very commit; older reports stay as they are
        row.pop("deciding", None)
        row.pop("detail", None)
        row["verdict"] = decision.verdict
        row["rule"] = decision.rule
        row["seq"] = tx.seq
        row["at"] = self._session.now()
        if decision.detail is not None:
            row["detail"] = decision.detail
        if entry is not None:
            row["entry"] = entry
        self._noted.append(_Noted(tx.seq, task_id, decision.verdict))

    async def decide(self, tx: Transaction, task_id: int, decision: Decision) -> StoredDecision:
        """The decision as the task keeps it; the report has it too, at once or with the result (spec 15)."""
        if decision.settled_by_result:
            row = await self._row(tx, task_id)
            if row is not None and "verdict" not in row:
                row["deciding"] = decision.verdict
        else:
            await self.note(tx, task_id, decision)
        stored: StoredDecision = {
            "epoch": self._session.storage.epoch,
            "verdict": decision.verdict,
            "rule": decision.rule,
        }
        if decision.detail is not None:
            stored["detail"] = decision.detail
        return stored

    async def _row(self, tx: Transaction, task_id: int) -> FoundTask | None:
        draft = await tx.document(RECOVERY)
        for death in reversed(draft.value["deaths"]):
            for row in death["tasks"]:
                if row["taskId"] == task_id:
                    return row
        return None

    def _observe(self, commit: Commit) -> None:
        if not self._noted:
            return
        for noted in self._noted:
            if noted.seq == commit.seq:
                self._found_as.pop(noted.task_id, None)
                self._verdicts[noted.task_id] = noted.verdict
        self._noted.clear()


async def recover(
    session: Session,
    report: RecoveryReport,
    definitions: Definitions,
    *,
    restart_limit: int,
    recorded: Sequence[SomeDefinition],
    describe_queue: DescribeQueue,
) -> int:
    """Make the commit of opening: running tasks become pending, restarts are counted, the report is written.

    What was last stored of the `recorded` documents goes to the flight recorder in the same commit, so that a death's
    rows and its recording are both there or neither (spec 5.7). `describe_queue` tells what waits in conversations.
    Returns how many deaths in a row were found, this one included. Dispatches nothing.
    """
    owners = await session.storage.owners()
    files = session.storage.files
    ends = await asyncio.to_thread(read_ends, files) if files is not None else Ends()
    session.storage.warnings.extend(ends.problems)
    dead = death_before(owners) if session.conversations else None  # else nothing was begun yet
    found = list(session.tasks.values())
    guiltless = set(children_of(session.tasks, session.conversations))
    death, flight = None, []
    if dead is not None:
        busy = sorted({record["conversationId"] for record in found})
        flight = await record_flight(session, recorded, busy, dead.epoch)
        queue = await describe_queue(busy)
        death = await died_row(session, definitions, dead, owners[-1], queue, ends.by_epoch.get(dead.epoch))
    async with session.commit() as tx:
        await _write_report(session, tx, death, ends, finder=owners[-1].epoch)
        if death is not None:
            for record in found:
                report.found(record["id"], status_of(record))
            if flight:
                tx.record_flight(flight, keep=KEPT_FLIGHTS)
        else:
            await _find_undecided(session, report)
        for record in found:
            at_fault = record["id"] not in guiltless
            await _requeue(report, tx, record, died=death is not None, at_fault=at_fault, limit=restart_limit)
    if files is not None and ends.names:
        await asyncio.to_thread(remove_ends, files, ends)
    return _deaths_in_a_row(owners)


async def _write_report(session: Session, tx: Transaction, death: Death | None, ends: Ends, *, finder: int) -> None:
    """Add the death, take over the rows of closes, and put in what launchers told too late for the opening before."""
    known = (await session.value(RECOVERY))["deaths"]
    if death is None and all(is_taken_over(row) and not lacks_end(row, ends.by_epoch) for row in known):
        return
    deaths = (await tx.document(RECOVERY)).value["deaths"]
    if death is not None:
        keep(deaths, death)
    for row in deaths:
        if not is_taken_over(row):
            row["foundBy"] = finder
            row["foundAt"] = session.now()
        if lacks_end(row, ends.by_epoch):
            row["end"] = ends.by_epoch[row["epoch"]]


async def record_close(
    session: Session, report: RecoveryReport, definitions: Definitions, describe_queue: DescribeQueue
) -> None:
    """Write down the work that closing has ended where its effect may have happened; nothing when there is none.

    Every invocation has ended. What still awaits the verdict of an earlier row keeps that row. A close never fails for
    it: the next opening decides on the work all the same, only untold.
    """
    if session.state != "open":
        return  # the end is unclean, and the next opening tells of it
    cut = [
        record
        for _, record in sorted(session.tasks.items())
        if definitions.has_intent(record) and not record["abortRequested"] and not report.is_undecided(record["id"])
    ]
    if not cut:
        return
    try:
        queue = await describe_queue(sorted({record["conversationId"] for record in cut}))
        row = await closed_row(session, definitions, cut, queue)
        async with session.commit(closing=True) as tx:
            keep((await tx.document(RECOVERY)).value["deaths"], row)
    except Exception as error:  # noqa: BLE001 - also what a definition's words raise; the store is closed next
        log.warning("what closing ended is not in the report: %s", error)


async def _requeue(
    report: RecoveryReport, tx: Transaction, record: TaskRecord, *, died: bool, at_fault: bool, limit: int
) -> None:
    """Make a running task pending. A death counts against it unless it only waited for work of its own (spec 6.11)."""
    restarts = record.get("restarts", 0)
    if status_of(record) != "running":
        # A clean close clears the count, but releases nothing: what is parked waits for a person.
        if not died and restarts and not (limit and restarts >= limit):
            tx.put_task(changed(record, restarts=None))
        return
    if died and at_fault:
        restarts += 1
    elif not died:
        restarts = 0
    state: LiveState = {"status": "pending", "checkpoint": checkpoint_of(record)}
    tx.put_task(changed(record, state=state, restarts=restarts or None, recovery=None))
    if died and limit and restarts >= limit and not record["abortRequested"]:
        detail = f"died {restarts} times in this step; it waits for you to retry or abort it"
        await report.note(tx, record["id"], Decision("gaveUp", "6.11", detail))


async def _find_undecided(session: Session, report: RecoveryReport) -> None:
    """Take up the rows that an opening before left undecided: of each task the newest, as others were linked to it."""
    newest = {row["taskId"]: row for death in (await session.value(RECOVERY))["deaths"] for row in death["tasks"]}
    for task_id, row in newest.items():
        if "verdict" not in row and task_id in session.tasks:
            report.found(task_id, status_of(session.tasks[task_id]))


def _deaths_in_a_row(owners: list[OwnerRow]) -> int:
    count = 0
    for row in reversed(owners[:-1]):
        if row.closed_at is not None:
            break
        count += 1
    return count


async def opens_keep_dying(storage: Reader) -> bool:
    """Whether the last openings all died before they did anything, so that this one should open paused (spec 6.11)."""
    owners = (await storage.owners())[:-1]
    recent = owners[-SAME_DEATHS:]
    if len(recent) < SAME_DEATHS or any(row.closed_at is not None for row in recent):
        return False
    counts: dict[int, int] = {}
    for row in await storage.commits(reverse=True, limit=4 * SAME_DEATHS):
        counts[row.epoch] = counts.get(row.epoch, 0) + 1
    return all(counts.get(row.epoch, 0) <= 2 for row in recent)
