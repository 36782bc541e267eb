"""Opening after a death: what was found, and the decision on each piece of work (spec 15, 17.4)."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Literal

from durable_tui.engine.definitions import Definitions
from durable_tui.engine.flight import KEPT as KEPT_FLIGHTS
from durable_tui.engine.flight import record_flight
from durable_tui.engine.ownership import children_of
from durable_tui.engine.shapes import Death, FoundTask, QueuedAtDeath, Recovery, Verdict
from durable_tui.engine.task import Decision
from durable_tui.engine.task_record import changed, checkpoint_of, phase_of, status_of
from durable_tui.session import Commit, DocumentDefinition, Session, SomeDefinition, Transaction
from durable_tui.storage.protocol import Reader
from durable_tui.storage.records import LiveState, OwnerRow, StoredDecision, TaskRecord

KEPT_DEATHS = 100
KEPT_QUEUE = 50  # items told of the queue at a death
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
    """The newest death's rows of one session, and what became of them in this opening.

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


def death_before(owners: list[OwnerRow]) -> OwnerRow | None:
    """The opening before the newest one, when it did not end in order."""
    if len(owners) < 2 or owners[-2].closed_at is not None:
        return None
    return owners[-2]


async def recover(
    session: Session,
    report: RecoveryReport,
    definitions: Definitions,
    *,
    restart_limit: int,
    recorded: Sequence[SomeDefinition],
    describe_queue: Callable[[list[int]], Awaitable[list[QueuedAtDeath]]],
) -> int:
    """Make the commit of opening: running tasks become pending, restarts are counted, the report is written.

    What was last stored of the `recorded` documents goes to the flight recorder in the same commit, so that a death's
    rows and its recording are both there or neither (spec 5.7). `describe_queue` tells what waits in conversations.
    Returns how many deaths in a row were found, this one included. Dispatches nothing.
    """
    owners = await session.storage.owners()
    dead = death_before(owners) if session.conversations else None  # else nothing was begun yet
    found = list(session.tasks.values())
    guiltless = set(children_of(session.tasks, session.conversations))
    death, flight = None, []
    if dead is not None:
        busy = sorted({record["conversationId"] for record in found})
        flight = await record_flight(session, recorded, busy, dead.epoch)
        death = await _look_back(session, definitions, dead, owners[-1], await describe_queue(busy))
    async with session.commit() as tx:
        if death is not None:
            for record in found:
                report.found(record["id"], status_of(record))
            deaths = (await tx.document(RECOVERY)).value["deaths"]
            deaths.append(death)
            if len(deaths) > KEPT_DEATHS:
                del deaths[: len(deaths) - KEPT_DEATHS]
            if flight:
                tx.record_flight(flight, keep=KEPT_FLIGHTS)
        else:
            await _find_undecided(session, report)
        for record in found:
            at_fault = record["id"] not in guiltless
            await _requeue(report, tx, record, died=death is not None, at_fault=at_fault, limit=restart_limit)
    return _deaths_in_a_row(owners)


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


async def _found_row(definitions: Definitions, record: TaskRecord) -> FoundTask:
    await definitions.recall(record)
    return {
        "taskId": record["id"],
        "conversationId": record["conversationId"],
        "kind": record["kind"],
        "phase": phase_of(record) or status_of(record),
        "doing": definitions.doing(record),
    }


async def _look_back(
    session: Session, definitions: Definitions, dead: OwnerRow, finder: OwnerRow, queue: list[QueuedAtDeath]
) -> Death:
    """What the opening `finder` writes down about the one that died."""
    found = session.tasks.values()
    last_seq, last_at = await _last_commit(session.storage, dead)
    death: Death = {
        "epoch": dead.epoch,
        "pid": dead.pid,
        "host": dead.host,
        "openedAt": dead.opened_at,
        "lastSeq": last_seq,
        "lastAt": last_at,
        "foundBy": finder.epoch,
        "foundAt": session.now(),
        "tasks": [await _found_row(definitions, record) for record in found],
        "intents": [record["id"] for record in found if definitions.has_intent(record)],
        "queue": queue[:KEPT_QUEUE],
    }
    if len(queue) > KEPT_QUEUE:
        death["moreQueued"] = len(queue) - KEPT_QUEUE
    boots_are_known = bool(dead.boot_id and finder.boot_id)
    if boots_are_known and dead.host == finder.host and dead.boot_id != finder.boot_id:
        death["end"] = {"by": "boot"}
    return death


async def _last_commit(storage: Reader, dead: OwnerRow) -> tuple[int, int]:
    """Seq and time of the newest commit of the dead epoch; its opening is one, so there always is one."""
    before: int | None = None
    while True:
        page = await storage.commits(reverse=True, limit=100, before=before)
        for row in page:
            if row.epoch <= dead.epoch:
                return row.seq, row.at
        if not page:
            return 0, dead.opened_at
        before = page[-1].seq


async def _find_undecided(session: Session, report: RecoveryReport) -> None:
    """Take up the rows that an opening before left undecided."""
    value = await session.value(RECOVERY)
    for death in value["deaths"][-1:]:
        for row in death["tasks"]:
            if "verdict" not in row and row["taskId"] in session.tasks:
                report.found(row["taskId"], status_of(session.tasks[row["taskId"]]))


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
