"""The one builder of views: from committed state to what front ends are shown, for an owner and a reader (spec 13)."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Protocol, TypeAlias, cast, overload

from durable_tui.agent.documents import AGENT, DRAFT, INBOX, SESSION, USAGE
from durable_tui.agent.shapes import AgentChoices, Live
from durable_tui.delta import MAX_DEPTH, FrozenDict, freeze
from durable_tui.delta.frozen import trusted_dict
from durable_tui.engine.recovery import RECOVERY
from durable_tui.engine.shapes import FoundTask, Verdict
from durable_tui.engine.task_record import (
    gate_form,
    gate_of,
    outcome_detail,
    outcome_of,
    phase_of,
    status_of,
    waiting_of,
)
from durable_tui.models.messages import message_text
from durable_tui.session import SomeDefinition
from durable_tui.storage.records import EntryRecord, TaskRecord
from durable_tui.views.shapes import (
    ContextSize,
    ConversationView,
    SessionView,
    ShownEntry,
    TaskReport,
    TaskRow,
    TasksView,
)

if TYPE_CHECKING:
    from durable_tui.delta import Json, Op
    from durable_tui.storage.protocol import Reader
    from durable_tui.views.shapes import Position

LIVE_LISTS = ("tools", "compactions")
LIVE_PARTS = ("run", "generation")
OPTIONAL = (*LIVE_PARTS, "context")
ENDED_SHOWN = 20  # tasks that ended lately
PAGE = 1000  # entries read at a time
PLACES: tuple[tuple[str, SomeDefinition], ...] = (
    ("inbox", INBOX),
    ("agent", AGENT),
    ("usage", USAGE),
    ("draft", DRAFT),
    ("recovery", RECOVERY),
    ("session", SESSION),
)
COUNTED = 400  # entries looked through for the newest answer that tells the context's size

Window = Callable[[str], int | None]
Parts: TypeAlias = dict[str, object]  # the keys of a view while it is put together


class Entries(Sequence[ShownEntry]):
    """The first `length` items of a list that only ever grows: a snapshot without a copy."""

    __slots__ = ("_items", "_length")

    def __init__(self, items: list[ShownEntry], length: int | None = None) -> None:
        self._items = items
        self._length = len(items) if length is None else length

    def __len__(self) -> int:
        return self._length

    @overload
    def __getitem__(self, index: int) -> ShownEntry: ...

    @overload
    def __getitem__(self, index: slice) -> list[ShownEntry]: ...

    def __getitem__(self, index: int | slice) -> ShownEntry | list[ShownEntry]:
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


def initial(definition: SomeDefinition) -> Json:
    """What a view shows of a document that does not exist."""
    return cast("Json", freeze(definition.initial()))


def live_part(live: Live) -> Parts:
    """The parts of `pi.live` in a view; lists are always there."""
    parts = cast("Mapping[str, object]", live)
    shown: Parts = {key: parts.get(key) or freeze([]) for key in LIVE_LISTS}
    shown.update({key: parts[key] for key in LIVE_PARTS if key in parts})
    return shown


def conversation_view(parts: Parts) -> ConversationView:
    """A read-only view of parts that are read-only themselves; the entries are no list, so nothing is copied."""
    return cast(ConversationView, trusted_dict(parts, MAX_DEPTH))


def tasks_view(parts: Parts) -> TasksView:
    """A read-only view of the tasks alone."""
    return cast(TasksView, trusted_dict(parts, MAX_DEPTH))


def session_view(parts: Parts) -> SessionView:
    """As `conversation_view`, with the tasks."""
    return cast(SessionView, trusted_dict(parts, MAX_DEPTH))


def appended(index: int, entries: Sequence[ShownEntry]) -> Op:
    """The op that adds entries to a view that holds `index` of them."""
    return ["p", ["entries"], index, 0, cast("Json", entries)]


async def is_stored(storage: Reader, where: Position) -> bool:
    """Whether a copy's last commit is one of this store's, so that what follows it can be told."""
    rows = await storage.commits(after=where["seq"] - 1, limit=1)
    return bool(rows) and (rows[0].seq, rows[0].at) == (where["seq"], where["at"])


async def load_entries(
    storage: Reader, conversation_id: int, tail: int | None, since: Position | None = None
) -> tuple[list[ShownEntry], bool]:
    """(the entries of a view, whether they begin with the very first): the newest `tail`, or from a copy's oldest on."""
    if since is None and tail is not None:
        page = await storage.entries(conversation_id, limit=tail + 1, reverse=True)
        return [shown_entry(stored.record, stored.seq) for stored in reversed(page[:tail])], len(page) <= tail
    oldest = since.get("oldest") if since is not None else None
    first = oldest is None or not await storage.entries(conversation_id, before=oldest, limit=1)
    return await entries_after(storage, conversation_id, oldest - 1 if oldest is not None else 0), first


async def entries_after(storage: Reader, conversation_id: int, after: int) -> list[ShownEntry]:
    """All entries with a greater id, in order, read page by page."""
    loaded: list[ShownEntry] = []
    while page := await storage.entries(conversation_id, after=after, limit=PAGE):
        loaded.extend(shown_entry(stored.record, stored.seq) for stored in page)
        after = page[-1].record["id"]
    return loaded


def resuming_ops(value: Parts, since: Position) -> list[Op]:
    """Ops that take a copy standing at `since` to a view: the entries it lacks, and everything else anew."""
    entries = cast("Sequence[ShownEntry]", value["entries"])
    held = next((index for index, entry in enumerate(entries) if entry["seq"] > since["seq"]), len(entries))
    ops = [appended(held, entries[held:])] if held < len(entries) else []
    ops += [["s", [key], part] for key, part in value.items() if key != "entries"]
    for key in OPTIONAL:
        if key not in value:
            ops += [["s", [key], None], ["d", [key]]]  # the copy may hold it or not
    return ops


def view_context(parts: Parts, window: Window) -> ContextSize | None:
    """`context_size` of what a view shows."""
    return context_size(cast("Sequence[ShownEntry]", parts["entries"]), cast("AgentChoices", parts["agent"]), window)


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
    gate = gate_of(record)
    if gate is not None:
        row["gate"] = gate_form(gate)
    verdict = words.verdict(record)
    if verdict is not None:
        row["recovered"] = verdict
    return row


def task_report(record: TaskRecord, words: TaskWords, found: FoundTask | None) -> TaskReport:
    """A task for a report: its row as anyone sees it, and the row of the newest death that left it behind."""
    row = task_row(record, words)
    told: dict[str, object] = {"taskId": row["id"]}
    told.update({key: value for key, value in row.items() if key not in ("id", "doing", "recovered") and value})
    outcome = outcome_of(record)
    detail = outcome_detail(outcome) if outcome is not None else None
    if detail:
        told["detail"] = detail
    if row["status"] != "terminal":
        told["doing"] = row["doing"]
    if found is not None:
        told.update({key: value for key, value in found.items() if key in ("doing", "verdict", "rule", "seq", "at")})
    return cast(TaskReport, told)
