"""The code installed for each kind of task, and whether it can take a stored task over (spec 6.9, 6.10)."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import cast

from durable_tui.delta import JsonObject, freeze
from durable_tui.engine.reports import Reports
from durable_tui.engine.task import Abandonment, Decision, TaskDefinition
from durable_tui.engine.task_record import checkpoint_of, describe, is_decided, phase_of, status_of
from durable_tui.session import SessionError, Transaction
from durable_tui.storage.errors import StorageError
from durable_tui.storage.records import TaskRecord

Lookup = Callable[[str], TaskDefinition | None]
RESUMED = Decision("resumed", "15")
VERDICT_TIME = 10.0  # seconds a kind has to decide


class Definitions:
    """Asks the installed code of a task's kind. A failed migration is tried again only with another definition."""

    def __init__(self, lookup: Lookup, reports: Reports) -> None:
        self._lookup = lookup
        self._reports = reports
        self._refused: dict[int, TaskDefinition] = {}

    def get(self, kind: str) -> TaskDefinition | None:
        """The code for a kind of task, None when none is installed."""
        return self._lookup(kind)

    # -- compatibility -------------------------------------------------------------------------------------------

    def forget(self, task_id: int) -> None:
        """The task has ended."""
        self._refused.pop(task_id, None)

    def why_not(self, record: TaskRecord) -> str | None:
        """The derived reason that keeps the installed code from a task, or None."""
        definition = self._lookup(record["kind"])
        if definition is None:
            return "missing_task"
        if definition.version < record["version"]:
            return "task_too_old"
        if self._refused.get(record["id"]) is definition:
            return "migration_failed"
        return None

    def migrated(self, record: TaskRecord) -> tuple[JsonObject, int] | None:
        """The checkpoint and version as the installed code has them; None when its migration fails."""
        definition = self._lookup(record["kind"])
        if definition is None:
            raise LookupError(f"the code for {record['kind']} is gone")
        checkpoint, version = checkpoint_of(record), record["version"]
        if definition.version == version:
            return checkpoint, version
        try:
            if definition.migrate is None:
                raise ValueError("there is no migration")
            checkpoint = cast("JsonObject", freeze(definition.migrate(checkpoint, version)))
            if not isinstance(checkpoint, dict) or "phase" not in checkpoint:
                raise ValueError("the migration gave no checkpoint with a phase")
        except Exception as error:  # noqa: BLE001 - reported; the task is blocked
            self._refused[record["id"]] = definition
            self._reports.add(f"task {record['id']} ({record['kind']}) could not be migrated: {describe(error)}")
            return None
        return checkpoint, definition.version

    def code_for(self, record: TaskRecord, taken: TaskDefinition | None) -> TaskDefinition:
        """The code for the next phase: what is installed now if it can take the task, else what ran so far (spec 6.10)."""
        installed = self._lookup(record["kind"])
        if taken is None:
            if installed is None:
                raise LookupError(f"the code for {record['kind']} is gone")
            return installed
        if installed is None or installed is taken or self.why_not(record) is not None:
            return taken
        if installed.version == record["version"]:
            return installed if checkpoint_of(record).get("phase") in installed.phases else taken
        return installed if self.migrated(record) is not None else taken

    # -- what a kind says of its tasks: somebody else's code, which must not fail an opening or a screen -----------

    def doing(self, record: TaskRecord) -> str:
        """A short phrase for what a task is about, from memory: "edit config/dev.json", "asking deepseek-chat"."""
        definition = self._lookup(record["kind"])
        if definition is None or definition.doing is None:
            return record["kind"]
        try:
            return " ".join(str(definition.doing(record)).split())[:120].rstrip()
        except Exception as error:  # noqa: BLE001 - a phrase must not fail an opening
            return f"{record['kind']} ({error})"

    async def recall(self, record: TaskRecord) -> None:
        """Bring into memory what `doing` reads of a task."""
        definition = self._lookup(record["kind"])
        if definition is None or definition.recall is None:
            return
        try:
            await definition.recall(record)
        except Exception as error:  # noqa: BLE001 - its phrase says less then
            self._reports.add(f"what task {record['id']} ({record['kind']}) was about is not known: {describe(error)}")

    def blocked(self, record: TaskRecord) -> str | None:
        """The kind's own reason why a task may not start yet."""
        definition = self._lookup(record["kind"])
        if definition is None or definition.blocked is None:
            return None
        try:
            return definition.blocked(record)
        except Exception as error:  # noqa: BLE001 - the task starts, and its own code meets the trouble
            self._reports.add(f"whether task {record['id']} may start is not known: {describe(error)}")
            return None

    def elsewhere(self, record: TaskRecord) -> str | None:
        """Who outside this process works on a task while it only waits."""
        definition = self._lookup(record["kind"])
        if definition is None or definition.elsewhere is None or is_decided(record):
            return None
        try:
            return definition.elsewhere(record)
        except Exception as error:  # noqa: BLE001 - its row says less then
            self._reports.add(f"who works on task {record['id']} is not known: {describe(error)}")
            return None

    def has_intent(self, record: TaskRecord) -> bool:
        """Whether a running task stands in a phase whose effect may have happened (spec 6.2)."""
        if status_of(record) != "running":
            return False
        definition = self._lookup(record["kind"])
        phases = definition.effect_phases if definition is not None else None
        return phases is None or phase_of(record) in phases

    async def verdict(self, record: TaskRecord) -> Decision:
        """What recovery does with a task found at work; a kind that cannot say in time is entered again (spec 15)."""
        definition = self._lookup(record["kind"])
        if definition is None or definition.verdict is None:
            return RESUMED
        try:
            async with asyncio.timeout(VERDICT_TIME):
                return await definition.verdict(record)
        except (StorageError, SessionError):
            raise
        except Exception as error:  # noqa: BLE001 - somebody else's code; no task may stop the others
            self._reports.add(f"what became of task {record['id']} ({record['kind']}) is not known: {describe(error)}")
            return RESUMED

    async def abandon(self, tx: Transaction, record: TaskRecord, why: Abandonment) -> None:
        """Let the kind leave its traces in order, in the commit that ends a task without its own code."""
        definition = self._lookup(record["kind"])
        if definition is not None and definition.abandon is not None:
            await definition.abandon(tx, record, why)
