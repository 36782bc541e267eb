"""The one builder of views: from committed state to what front ends are shown, for an owner and a reader (spec 13)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Protocol, cast, overload

from durable_tui.agent.documents import AGENT, DRAFT, INBOX, SESSION, USAGE
from durable_tui.agent.shapes import AgentChoices, Live
from durable_tui.delta import MAX_DEPTH, FrozenDict, freeze
from durable_tui.delta.frozen import trusted_dict
from durable_tui.engine.recovery import RECOVERY
from durable_tui.engine.shapes import Verdict
from durable_tui.engine.task_record import outcome_of, phase_of, status_of, waiting_of
from durable_tui.models.messages import message_text
from durable_tui.session import DocumentDefinition
from durable_tui.storage.records import EntryRecord, TaskRecord
from durable_tui.views.shapes import ContextSize, ConversationView, ShownEntry, TaskRow

LIVE_LISTS = ("tools", "compactions")
LIVE_PARTS = ("run", "generation")
PLACES: tuple[tuple[str, DocumentDefinition[Any]], ...] = (
    ("inbox", INBOX),
    ("agent", AGENT),
    ("usage", USAGE),
    ("draft", DRAFT),
    ("recovery", RECOVERY),
    ("session", SESSION),
)
COUNTED = 400  # entries looked through for the newest answer that tells the context's size

Window = Callable[[str], int | None]


class Entries(Sequence[Any]):
    """The first `length` items of a list that only ever grows: a snapshot without a copy."""

    __slots__ = ("_items", "_length")

    def __init__(self, items: list[Any], length: int | None = None) -> None:
        self._items = items
        self._length = len(items) if length is None else length

    def __len__(self) -> int:
        return self._length

    @overload
    def __getitem__(self, index: int) -> Any: ...

    @overload
    def __getitem__(self, index: slice) -> list[Any]: ...

    def __getitem__(self, index: int | slice) -> Any:
        if isinstance(index, slice):
            return [self._items[i] for i in range(*index.indices(self._length))]
        if index < 0:
            index += self._length
        if not 0 <= index < self._length:
            raise IndexError(index)
        return self._items[index]

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Entries | list | tuple):
            return NotImplemented
        return len(self) == len(other) and all(a == b for a, b in zip(self, other, strict=True))

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"Entries({self[:]!r})"


def shown_entry(record: EntryRecord, seq: int) -> ShownEntry:
    """An entry as a view has it: its record and the commit that wrote it."""
    return cast(ShownEntry, FrozenDict({**record, "seq": seq}))


def initial(definition: DocumentDefinition[Any]) -> Any:
    """What a view shows of a document that does not exist."""
    return freeze(definition.initial())


def live_part(live: Live) -> dict[str, Any]:
    """The parts of `pi.live` in a view; lists are always there."""
    parts = cast("dict[str, Any]", live)
    shown: dict[str, Any] = {key: parts.get(key) or freeze([]) for key in LIVE_LISTS}
    shown.update({key: parts[key] for key in LIVE_PARTS if key in parts})
    return shown


def conversation_view(parts: dict[str, Any]) -> ConversationView:
    """A read-only view of parts that are read-only themselves; the entries are no list, so nothing is copied."""
    return cast(ConversationView, trusted_dict(parts, MAX_DEPTH))


def context_size(entries: Sequence[ShownEntry], agent: AgentChoices, window: Window) -> ContextSize | None:
    """The context's size as the newest answer reports it, plus an estimate of what follows it; None before any."""
    characters = 0
    for index in range(len(entries) - 1, max(-1, len(entries) - COUNTED), -1):
        for message in entries[index].get("model", ()):
            usage = message.get("usage") if message["role"] == "assistant" else None
            total = sum(usage[key] for key in ("input", "cacheRead", "cacheWrite", "output")) if usage else 0
            if total and message.get("stopReason") not in ("error", "aborted"):
                model = agent.get("model")
                size = window(f"{model['provider']}/{model['modelId']}") if model is not None else None
                return cast(ContextSize, freeze({"tokens": total + characters // 4, "window": size}))
            characters += len(message_text(message))
    return None


# -- tasks -----------------------------------------------------------------------------------------------------------


class TaskWords(Protocol):
    """What is told of a task beside its record."""

    def doing(self, record: TaskRecord) -> str:
        """A short phrase for what it is about."""

    def elsewhere(self, record: TaskRecord) -> str | None:
        """Who outside this process works on it while it only waits."""

    def blocked(self, record: TaskRecord) -> str | None:
        """Why it stays put."""

    def verdict(self, record: TaskRecord) -> Verdict | None:
        """What was decided about it after a death."""


def task_row(record: TaskRecord, words: TaskWords) -> TaskRow:
    """One task as people see it: what it does, where it stands, what it waits for, why it is blocked."""
    row: TaskRow = {
        "id": record["id"],
        "conversationId": record["conversationId"],
        "kind": record["kind"],
        "background": record["background"],
        "status": status_of(record),
        "abortRequested": record["abortRequested"],
        "doing": words.doing(record),
    }
    if "owner" in record:
        row["owner"] = record["owner"]
    if "restarts" in record:
        row["restarts"] = record["restarts"]
    if "startedAt" in record:
        row["startedAt"] = record["startedAt"]
    if "endedAt" in record:
        row["endedAt"] = record["endedAt"]
    phase = phase_of(record)
    if phase is not None:
        row["phase"] = phase
    provider = words.elsewhere(record)
    if provider is not None:
        row["provider"] = provider
    waiting = waiting_of(record)
    if waiting is not None:
        row["waitingOn"] = list(waiting["on"])
    outcome = outcome_of(record)
    if outcome is not None:
        row["outcome"] = outcome["status"]
    reason = words.blocked(record)
    if reason is not None:
        row["blocked"] = reason
    verdict = words.verdict(record)
    if verdict is not None:
        row["recovered"] = verdict
    return row
