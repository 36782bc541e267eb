"""Gates: what a pending task waits for that is not a task (spec 6.12)."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, Generic, TypeAlias, TypeVar, cast

from durable_tui.engine.recovery import PARKED
from durable_tui.engine.task_record import changed, gate_of, is_decided, is_gate
from durable_tui.session import DocumentDefinition, DocumentRefused, Session, Transaction
from durable_tui.session.documents import value_of
from durable_tui.storage.records import Gate, LiveState, TaskRecord, TimeGate

T = TypeVar("T")
LONGEST_SLEEP = 30.0  # seconds: a machine that slept or a clock that jumped is noticed within this time


@dataclass(slots=True, frozen=True)
class AskBook(Generic[T]):
    """The session's document of asks, and how to read it: `is_answered(value, ask_id)` is None for an unknown ask."""

    document: DocumentDefinition[T]
    is_answered: Callable[[T, str], bool | None]


SomeAskBook: TypeAlias = AskBook[Any]  # the engine is told of one, whatever the shape of its document


class Gates:
    """Tells which gates are open, by committed state and the wall clock alone.

    What gates wait for is in memory: the submissions until they are settled, the document of asks once a gate names one.
    """

    def __init__(self, session: Session, asks: SomeAskBook) -> None:
        self._session = session
        self._asks = asks
        session.preparers.append(self._admit)

    def is_open(self, gate: Gate) -> bool:
        """Whether what a gate waits for has come; a person's never has, for `released` makes it a gate on a time.

        A clock found before the `since` of a time went back: the gate opens, and its phase waits anew (`again`).
        """
        if "time" in gate:
            now = self._session.now()
            return now >= gate["time"] or now < gate["since"]
        if "submission" in gate:
            return gate["submission"] not in self._session.submissions
        return "ask" in gate and self._is_answered(gate["ask"])

    def _is_answered(self, ask_id: str) -> bool:
        state = self._session.cached_document(self._asks.document.address())
        if state is None:
            return False
        try:
            return self._asks.is_answered(value_of(self._asks.document, state), ask_id) is True
        except DocumentRefused:
            return False  # a newer program's: nobody here can say

    async def load(self) -> None:
        """Bring into memory what the gates found at opening wait for. Before anybody commits."""
        for task in self._session.tasks.values():
            gate = gate_of(task)
            if gate is not None and "submission" in gate:
                await self._session.load_submission(gate["submission"])
            elif gate is not None and "ask" in gate:
                await self._session.load_document(self._asks.document.address())

    async def _admit(self, tx: Transaction) -> None:
        """Bring what the commit's new gates wait for into memory. ValueError for one that could never open."""
        for task_id, task in tx.tasks.items():
            gate, before = task["state"].get("gate"), self._session.tasks.get(task_id)
            if gate is None or (before is not None and before["state"].get("gate") == gate):
                continue
            if not is_gate(gate) or gate["reason"] in PARKED:
                raise ValueError(f"task {task_id} cannot wait at the gate {gate!r} (spec 6.12)")
            if not await self._is_known(tx, gate):
                raise ValueError(f"task {task_id} would wait for ever: nobody knows of its gate {gate!r} (spec 6.12)")

    async def _is_known(self, tx: Transaction, gate: Gate) -> bool:
        if "submission" in gate:
            wanted = gate["submission"]
            return wanted in tx.submissions or await self._session.load_submission(wanted) is not None
        if "ask" in gate:
            document = self._asks.document
            draft = tx.draft(document.address())
            value = draft.value if draft is not None else await self._session.value(document)
            return self._asks.is_answered(value, gate["ask"]) is not None
        return True


def time_gate(reason: str, until: int, now: int) -> TimeGate:
    """A gate that opens at a wall-clock time; `now` is when the wait began. Both in milliseconds."""
    return {"reason": reason, "time": until, "since": now}


def again(reason: str, until: int, since: int, now: int) -> TimeGate | None:
    """The gate for a phase that finds its time not come because the clock went back; None when the time has come."""
    return time_gate(reason, now + min(until - now, until - since), now) if now < until else None


def released(record: TaskRecord, now: int) -> TaskRecord:
    """A copy of a live task that waits for no person any more, as far as it did (spec 6.11, 6.12).

    A person's gate becomes one whose time has come, so that a crash before the reservation forgets nothing.
    """
    if is_decided(record):
        return record
    gate = gate_of(record)
    if gate is not None and "person" in gate:
        pending = cast(LiveState, record["state"])
        record = changed(record, state={**pending, "gate": time_gate(gate["reason"], now, now)})
    return changed(record, restarts=None)


class Timer:
    """Wakes the scheduler for the least time any task waits for, by the wall clock and never by elapsed time."""

    def __init__(self, session: Session, wake: Callable[[], None]) -> None:
        self._session = session
        self._wake = wake
        self._handle: asyncio.TimerHandle | None = None

    def arm(self, gates: Iterable[Gate]) -> None:
        """Set the timer anew for the gates that hold tasks now."""
        self.cancel()
        times = [gate["time"] for gate in gates if "time" in gate]
        if times:
            left = max(0.0, (min(times) - self._session.now()) / 1000)
            self._handle = asyncio.get_running_loop().call_later(min(left, LONGEST_SLEEP), self._wake)

    def cancel(self) -> None:
        if self._handle is not None:
            self._handle.cancel()
            self._handle = None
