"""Task definitions and what their handlers work with (spec 6)."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from types import TracebackType
from typing import TYPE_CHECKING, Any, Literal, cast

from durable_tui.session import Transaction
from durable_tui.session.session import CommitScope
from durable_tui.storage.records import TaskRecord

if TYPE_CHECKING:
    from durable_tui.engine.kernel import Kernel

Policy = Literal["allSettled", "failFast"]
Handler = Callable[["TaskContext"], Awaitable[None]]
TERMINAL = "terminal"


class InvocationEnded(Exception):
    """This invocation may not commit any more: its task was marked for abort, ended, or the session closes (spec 6.8)."""


@dataclass(slots=True, frozen=True)
class TaskDefinition:
    """A kind of task: one handler per phase, which makes progress only by committing (spec 6.1).

    `initial(input)` gives the first checkpoint `{phase, …}`. `migrate(checkpoint, version)` takes an older one here.
    `abort` ends the task after its owned work drained; without it the outcome is simply `aborted`.
    """

    name: str
    phases: dict[str, Handler]
    initial: Callable[[Any], dict[str, Any]]
    version: int = 1
    abort: Handler | None = None
    migrate: Callable[[Any, int], dict[str, Any]] | None = None
    doing: Callable[[TaskRecord], str] | None = field(default=None, compare=False)


def checkpoint_of(record: TaskRecord) -> Any:
    """The checkpoint of a live task; an empty object once its outcome is decided."""
    return record["state"].get("checkpoint", {})


def status_of(record: TaskRecord) -> str:
    return cast(str, record["state"]["status"])


def outcome_of(record: TaskRecord) -> Any:
    return record["state"].get("outcome")


def is_decided(record: TaskRecord) -> bool:
    """Whether the outcome is fixed, held (`completing`) or final (`terminal`)."""
    return record["state"]["status"] in ("completing", TERMINAL)


def new_task(
    tx: Transaction,
    *,
    conversation_id: int,
    definition: TaskDefinition,
    input: Any,
    owner: int | None = None,
    background: bool = False,
    running: bool,
    checkpoint: Any = None,
) -> TaskRecord:
    """Create a task in this commit, already reserved when `running` (spec 7)."""
    if background and owner is not None:
        raise ValueError("only tasks owned by their conversation may be background (spec 6.5)")
    record: dict[str, Any] = {
        "id": tx.mint_id(),
        "conversationId": conversation_id,
        "kind": definition.name,
        "version": definition.version,
        "input": input,
        "background": background,
        "abortRequested": False,
        "state": {
            "status": "running" if running else "pending",
            "checkpoint": definition.initial(input) if checkpoint is None else checkpoint,
        },
    }
    if owner is not None:
        record["owner"] = owner
    if running:
        record["startedAt"] = tx.session.now()
    return tx.put_task(cast(TaskRecord, record))


def changed(record: TaskRecord, **changes: Any) -> TaskRecord:
    """A copy of a record with keys replaced; a value of None removes the key."""
    copy: dict[str, Any] = dict(record)
    for key, value in changes.items():
        if value is None:
            copy.pop(key, None)
        else:
            copy[key] = value
    return cast(TaskRecord, copy)


def decide(tx: Transaction, record: TaskRecord, outcome: Any) -> TaskRecord:
    """Fix a task's outcome in this commit. Settling turns it into `completing` while owned work lives (spec 6.7)."""
    return tx.put_task(changed(record, state={"status": TERMINAL, "outcome": outcome}, memos=None, restarts=None))


def describe(error: BaseException) -> str:
    """An error as one line for a record."""
    text = " ".join(str(error).split())
    return f"{type(error).__name__}: {text}" if text else type(error).__name__


class TaskContext:
    """One invocation of a task. Handlers read `checkpoint` and `input`, and commit through `commit()`."""

    def __init__(self, kernel: Kernel, record: TaskRecord, *, aborting: bool = False) -> None:
        self.kernel = kernel
        self.id = record["id"]
        self.conversation_id = record["conversationId"]
        self.input = record["input"]
        self.aborting = aborting
        self.ended = False
        self.waited = False  # the phase began to wait, which is progress also with an unchanged checkpoint

    @property
    def record(self) -> TaskRecord:
        """The task as committed. Raises InvocationEnded once it is terminal."""
        record = self.kernel.session.tasks.get(self.id)
        if record is None:
            raise InvocationEnded(f"task {self.id} has ended")
        return record

    @property
    def checkpoint(self) -> Any:
        return checkpoint_of(self.record)

    def commit(self, *, flush: bool = True) -> InvocationCommit:
        """A commit of this invocation; raises InvocationEnded when it may not commit any more (spec 6.8)."""
        return InvocationCommit(self, flush)

    def check(self) -> None:
        if self.ended or is_decided(self.record) or (self.record["abortRequested"] and not self.aborting):
            raise InvocationEnded(f"task {self.id} may not commit any more")

    # -- inside a commit -----------------------------------------------------------------------------------------

    def advance(self, tx: Transaction, checkpoint: Any) -> None:
        """Move to a new checkpoint; a changed one clears the restart count (spec 6.11)."""
        record = self._candidate(tx)
        tx.put_task(changed(record, state={"status": "running", "checkpoint": checkpoint}, restarts=None))

    def wait(self, tx: Transaction, checkpoint: Any, on: list[int], policy: Policy = "allSettled") -> None:
        """Wait for tasks; with an empty `on` the task goes on at once (spec 6.6)."""
        if self.aborting:
            raise RuntimeError("an abort handler may not wait (spec 6.8)")
        record = self._candidate(tx)
        if self.id in on or set(on) & set(self.kernel.owner_chain(tx, record)):
            raise RuntimeError("a task may not wait for itself or its owners (spec 6.6)")
        others = {other: tx.candidate(other) or self.kernel.ended_task(other) for other in on}
        if policy != "allSettled":
            for other, task in others.items():
                if task is not None and self.id not in self.kernel.owner_chain(tx, task):
                    raise RuntimeError(f"task {other} is not owned by the waiting one: it needs allSettled (spec 6.6)")
        known = [other for other, task in others.items() if task is not None]
        state: dict[str, Any] = {"status": "waiting", "checkpoint": checkpoint, "on": known, "policy": policy}
        tx.put_task(changed(record, state=state, restarts=None))
        self.waited = True

    def complete(self, tx: Transaction, result: Any) -> None:
        decide(tx, self._candidate(tx), {"status": "completed", "result": result})

    def fail(self, tx: Transaction, message: str, *, detail: Any = None, result: Any = None) -> None:
        error: dict[str, Any] = {"message": message}
        if detail is not None:
            error["detail"] = detail
        outcome: dict[str, Any] = {"status": "failed", "error": error}
        if result is not None:
            outcome["result"] = result
        decide(tx, self._candidate(tx), outcome)

    def end_aborted(self, tx: Transaction, *, reason: str | None = None, result: Any = None) -> None:
        outcome: dict[str, Any] = {"status": "aborted"}
        if reason is not None:
            outcome["reason"] = reason
        if result is not None:
            outcome["result"] = result
        decide(tx, self._candidate(tx), outcome)

    async def memo(self, name: str, candidate: Any) -> Any:
        """The durable value under `name`: the first writer's (spec 6.4)."""
        known = self.record.get("memos", {})
        if name in known:
            return known[name]
        async with self.commit() as tx:
            record = self._candidate(tx)
            memos = dict(record.get("memos", {}))
            if name not in memos:
                memos[name] = candidate
                tx.put_task(changed(record, memos=memos))
        return self.record.get("memos", {})[name]

    def _candidate(self, tx: Transaction) -> TaskRecord:
        record = tx.candidate(self.id)
        if record is None:
            raise InvocationEnded(f"task {self.id} has ended")
        return record


class InvocationCommit:
    """A commit that checks, on the line, that its invocation may still commit."""

    __slots__ = ("_context", "_scope")

    def __init__(self, context: TaskContext, flush: bool) -> None:
        self._context = context
        self._scope: CommitScope = context.kernel.session.commit(flush=flush)

    async def __aenter__(self) -> Transaction:
        tx = await self._scope.__aenter__()
        try:
            self._context.check()
        except BaseException as error:
            await self._scope.__aexit__(type(error), error, error.__traceback__)
            raise
        return tx

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._scope.__aexit__(kind, error, trace)
