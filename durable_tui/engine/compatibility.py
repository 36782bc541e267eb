"""Whether the installed code can take a task over, and how (spec 6.9, 6.10)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from durable_tui.delta import freeze
from durable_tui.engine.task import TaskDefinition, checkpoint_of, describe
from durable_tui.storage.records import TaskRecord

if TYPE_CHECKING:
    from durable_tui.engine.kernel import Kernel


class Fitting:
    """Judges tasks against what is installed now; a failed migration is tried again only with another definition."""

    def __init__(self, kernel: Kernel) -> None:
        self._kernel = kernel
        self._refused: dict[int, TaskDefinition] = {}

    def forget(self, task_id: int) -> None:
        self._refused.pop(task_id, None)

    def why_not(self, record: TaskRecord) -> str | None:
        """The derived reason that keeps the installed code from a task, or None."""
        definition = self._kernel.definition(record["kind"])
        if definition is None:
            return "missing_task"
        if definition.version < record["version"]:
            return "task_too_old"
        if self._refused.get(record["id"]) is definition:
            return "migration_failed"
        return None

    def migrated(self, record: TaskRecord) -> tuple[Any, int] | None:
        """The checkpoint and version as the installed code has them; None when its migration fails."""
        definition = self._kernel.definition(record["kind"])
        assert definition is not None
        checkpoint, version = checkpoint_of(record), record["version"]
        if definition.version == version:
            return checkpoint, version
        try:
            if definition.migrate is None:
                raise ValueError("there is no migration")
            checkpoint = freeze(definition.migrate(checkpoint, version))
            if not isinstance(checkpoint, dict) or "phase" not in checkpoint:
                raise ValueError("the migration gave no checkpoint with a phase")
        except Exception as error:  # noqa: BLE001 - reported; the task is blocked
            self._refused[record["id"]] = definition
            self._kernel.report(f"task {record['id']} ({record['kind']}) could not be migrated: {describe(error)}")
            return None
        return checkpoint, definition.version

    def code_for(self, record: TaskRecord, taken: TaskDefinition | None) -> TaskDefinition:
        """The code for the next phase: what is installed now if it can take the task, else what ran so far (spec 6.10)."""
        installed = self._kernel.definition(record["kind"])
        if taken is None:
            if installed is None:
                raise LookupError(f"the code for {record['kind']} is gone")
            return installed
        if installed is None or installed is taken or self.why_not(record) is not None:
            return taken
        if installed.version == record["version"]:
            return installed if checkpoint_of(record).get("phase") in installed.phases else taken
        return installed if self.migrated(record) is not None else taken
