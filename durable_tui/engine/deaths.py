"""The rows of `dt.recovery`: an opening that died, or that ended work when it closed (spec 15, 17.4)."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from typing import Literal

from durable_tui.engine.definitions import Definitions
from durable_tui.engine.shapes import Death, FoundTask, QueuedAtDeath
from durable_tui.engine.task_record import phase_of, status_of
from durable_tui.session import Session
from durable_tui.storage.ends import LauncherEnd
from durable_tui.storage.protocol import Reader
from durable_tui.storage.records import OwnerRow, TaskRecord

KEPT_DEATHS = 100
KEPT_QUEUE = 50  # items told of the queue at a death

DescribeQueue = Callable[[list[int]], Awaitable[list[QueuedAtDeath]]]


def death_before(owners: list[OwnerRow]) -> OwnerRow | None:
    """The opening before the newest one, when it did not end in order."""
    if len(owners) < 2 or owners[-2].closed_at is not None:
        return None
    return owners[-2]


async def died_row(
    session: Session,
    definitions: Definitions,
    dead: OwnerRow,
    finder: OwnerRow,
    queue: Sequence[QueuedAtDeath],
    end: LauncherEnd | None,
) -> Death:
    """What the opening `finder` writes down about the one that died; `end` is what its launcher saw."""
    death = await _row(
        session, definitions, "died", dead, await _last_commit(session.storage, dead), session.tasks.values(), queue
    )
    death["foundBy"] = finder.epoch
    boots_are_known = bool(dead.boot_id and finder.boot_id)
    if end is not None:
        death["end"] = end
    elif boots_are_known and dead.host == finder.host and dead.boot_id != finder.boot_id:
        death["end"] = {"by": "boot"}
    return death


async def closed_row(
    session: Session, definitions: Definitions, cut: Sequence[TaskRecord], queue: Sequence[QueuedAtDeath]
) -> Death:
    """What a closing opening writes down about the work it ends; the next one takes the row over (`take_over`)."""
    owner = (await session.storage.owners(limit=1))[-1]
    return await _row(session, definitions, "closed", owner, (session.seq, session.at), cut, queue)


async def _row(
    session: Session,
    definitions: Definitions,
    ended: Literal["died", "closed"],
    owner: OwnerRow,
    last: tuple[int, int],
    tasks: Iterable[TaskRecord],
    queue: Sequence[QueuedAtDeath],
) -> Death:
    found = list(tasks)
    death: Death = {
        "epoch": owner.epoch,
        "ended": ended,
        "pid": owner.pid,
        "host": owner.host,
        "openedAt": owner.opened_at,
        "lastSeq": last[0],
        "lastAt": last[1],
        "foundBy": owner.epoch,
        "foundAt": session.now(),
        "tasks": [await _found_row(definitions, record) for record in found],
        "intents": [record["id"] for record in found if definitions.has_intent(record)],
        "queue": list(queue[:KEPT_QUEUE]),
    }
    if len(queue) > KEPT_QUEUE:
        death["moreQueued"] = len(queue) - KEPT_QUEUE
    return death


async def _found_row(definitions: Definitions, record: TaskRecord) -> FoundTask:
    await definitions.recall(record)
    return {
        "taskId": record["id"],
        "conversationId": record["conversationId"],
        "kind": record["kind"],
        "phase": phase_of(record) or status_of(record),
        "doing": definitions.doing(record),
    }


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


def is_taken_over(death: Death) -> bool:
    """Whether an opening after the one that ended has seen the row; a closing one writes it itself."""
    return death.get("ended") != "closed" or death["foundBy"] != death["epoch"]


def lacks_end(death: Death, ends: Mapping[int, LauncherEnd]) -> bool:
    """Whether a launcher has told how this opening died, after the row was written."""
    return death["epoch"] in ends and "end" not in death and death.get("ended") != "closed"


def keep(deaths: list[Death], death: Death) -> None:
    """Add a row. It stands for its opening: one that the opening wrote before its close was cut short goes."""
    if deaths and deaths[-1]["epoch"] == death["epoch"]:
        del deaths[-1]
    deaths.append(death)
    if len(deaths) > KEPT_DEATHS:
        del deaths[: len(deaths) - KEPT_DEATHS]
