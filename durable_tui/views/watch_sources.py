"""What a watch shows: a conversation's view, and the ops that take it from commit to commit (spec 13)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, overload

from durable_tui.agent.documents import AGENT, DRAFT, INBOX, LIVE, RECOVERY, SESSION, USAGE
from durable_tui.delta import MAX_DEPTH, FrozenDict, diff, freeze
from durable_tui.delta.frozen import trusted_dict
from durable_tui.engine.recovery import doing_now, made_at
from durable_tui.engine.task import checkpoint_of, outcome_of, status_of
from durable_tui.models.messages import message_text
from durable_tui.models.provider import ModelError
from durable_tui.session import Commit, DocumentDefinition, Frame, Watch
from durable_tui.storage.records import StoredEntry, TaskRecord

if TYPE_CHECKING:
    from durable_tui.engine.kernel import Kernel
    from durable_tui.views.shapes import ConversationView, TasksView

LIVE_LISTS = ("tools", "compactions")
PLACES: tuple[tuple[str, DocumentDefinition], ...] = (
    ("inbox", INBOX),
    ("agent", AGENT),
    ("usage", USAGE),
    ("draft", DRAFT),
    ("recovery", RECOVERY),
    ("session", SESSION),
)
PAGE = 1000
ENDED_SHOWN = 20


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


def shown_entry(stored: StoredEntry) -> Any:
    """An entry as a view has it: its record and the commit that wrote it."""
    return FrozenDict({**stored.record, "seq": stored.seq})


class ConversationSource:
    """Feeds one watch of one conversation."""

    def __init__(self, kernel: Kernel, watch: Watch[ConversationView], conversation_id: int) -> None:
        self._kernel = kernel
        self._watch = watch
        self._id = conversation_id
        self._items: list[Any] = []
        self._value: Any = FrozenDict()
        self._seq = 0
        self._at = 0
        self._ready = False
        self._stop: Callable[[], None] = lambda: None

    @classmethod
    async def create(
        cls, kernel: Kernel, watch: Watch[ConversationView], conversation_id: int, tail: int | None
    ) -> ConversationSource:
        """Load the current view; commits that land meanwhile are in it."""
        source = cls(kernel, watch, conversation_id)
        source._stop = kernel.session.observe(source._observe)
        try:
            for _, definition in PLACES:
                await kernel.session.load_document(_address(definition, conversation_id))
            await kernel.session.load_document(LIVE.address(conversation_id))
            loaded, first = await _load_entries(kernel, conversation_id, tail)
        except BaseException:
            source.detach()
            raise
        source._begin(loaded, first)
        return source

    def _begin(self, loaded: list[Any], first: bool) -> None:
        late = self._items
        session = self._kernel.session
        # The store may be a commit ahead of what was adopted; that commit comes as a frame of its own.
        loaded = [entry for entry in loaded if entry["seq"] <= session.seq]
        newest = loaded[-1]["id"] if loaded else 0
        self._items = [*loaded, *(entry for entry in late if entry["id"] > newest)]
        value: dict[str, Any] = {"entries": Entries(self._items), "first": first}
        for key, definition in PLACES:
            state = session.cached_document(_address(definition, self._id))
            value[key] = state.value if state is not None else freeze(definition.initial())
        state = session.cached_document(LIVE.address(self._id))
        value.update(_live_part(state.value if state is not None else {}))
        self._value = _view(value)
        context = self._context(len(self._items))
        if context is not None:
            self._value = _view({**self._value, "context": context})
        self._seq, self._at = session.seq, session.at
        self._ready = True

    def whole(self) -> Frame[ConversationView]:
        """The current view as one frame."""
        return Frame(self._value, [["r", self._value]], self._seq, self._at)

    def detach(self) -> None:
        self._stop()

    def _observe(self, commit: Commit) -> None:
        entries = [
            FrozenDict({**entry, "seq": commit.seq}) for entry in commit.entries if entry["conversationId"] == self._id
        ]
        if not self._ready:
            self._items.extend(entries)
            return
        self._seq, self._at = commit.seq, commit.at
        ops: list[Any] = []
        changes: dict[str, Any] = {}
        if entries:
            ops.append(["p", ["entries"], len(self._items), 0, entries])
            self._items.extend(entries)
            changes["entries"] = Entries(self._items)
        for change in commit.documents:
            self._document(change.address, change.ops, change.value, change.previous, ops, changes)
        if not ops:
            return
        if entries or "agent" in changes:
            context = self._context(len(self._items))
            if context is not None and context != self._value.get("context"):
                ops.append(["s", ["context"], context])
                changes["context"] = context
        removed = changes.pop("", ())
        value = {key: item for key, item in self._value.items() if key not in removed}
        value.update(changes)
        self._value = _view(value)
        self._watch.push(Frame(self._value, ops, commit.seq, commit.at))

    def _document(
        self, address: Any, changed: Any, value: Any, previous: Any, ops: list[Any], changes: dict[str, Any]
    ) -> None:
        if address == LIVE.address(self._id):
            new = value if value is not None else {}
            if any(op[0] == "r" for op in changed):
                changed = _by_key(previous or {}, new)  # replacing the root here would replace the whole view
            ops.extend(_live_op(op) for op in changed)
            changes.update(_live_part(new))
            changes[""] = tuple(key for key in ("run", "generation") if key not in new)
            return
        for key, definition in PLACES:
            if address == _address(definition, self._id):
                shown = value if value is not None else freeze(definition.initial())
                ops.extend(["s", [key], shown] if op[0] == "r" else [op[0], [key, *op[1]], *op[2:]] for op in changed)
                changes[key] = shown
                return

    def _context(self, length: int) -> Any:
        """The context's size as the newest answer reports it, plus an estimate of what follows it."""
        characters = 0
        for index in range(length - 1, max(-1, length - 400), -1):
            for message in self._items[index].get("model", ()):
                usage = message.get("usage") if message["role"] == "assistant" else None
                total = sum(usage[key] for key in ("input", "cacheRead", "cacheWrite", "output")) if usage else 0
                if total and message.get("stopReason") not in ("error", "aborted"):
                    return freeze({"tokens": total + characters // 4, "window": self._window()})
                characters += len(message_text(message))
        return None

    def _window(self) -> int | None:
        agent = self._value.get("agent", {})
        if "model" not in agent:
            return None
        try:
            model = self._kernel.models.resolve(f"{agent['model']['provider']}/{agent['model']['modelId']}")
        except ModelError:
            return None
        return model.context_window


def _view(parts: dict[str, Any]) -> Any:
    """A read-only view of parts that are read-only themselves; the entries are no list, so nothing is copied."""
    return trusted_dict(parts, MAX_DEPTH)


def _address(definition: DocumentDefinition, conversation_id: int) -> Any:
    return definition.address(conversation_id if definition.scope == "conversation" else 0)


def _live_part(live: Any) -> dict[str, Any]:
    part: dict[str, Any] = {key: live.get(key) or freeze([]) for key in LIVE_LISTS}
    part.update({key: live[key] for key in ("run", "generation") if key in live})
    return part


def _by_key(previous: Any, new: Any) -> list[Any]:
    """Ops that take one object to another key by key, never replacing the root."""
    gone: list[Any] = [["d", [key]] for key in previous if key not in new]
    return gone + [["s", [key], new[key]] for key in new if key not in previous or previous[key] != new[key]]


def _live_op(op: Any) -> Any:
    if op[0] == "d" and len(op[1]) == 1 and op[1][0] in LIVE_LISTS:
        return ["s", list(op[1]), []]
    return op


async def _load_entries(kernel: Kernel, conversation_id: int, tail: int | None) -> tuple[list[Any], bool]:
    storage = kernel.session.storage
    if tail is not None:
        page = await storage.entries(conversation_id, limit=tail + 1, reverse=True)
        return [shown_entry(stored) for stored in reversed(page[:tail])], len(page) <= tail
    loaded: list[Any] = []
    after = 0
    while page := await storage.entries(conversation_id, after=after, limit=PAGE):
        loaded.extend(shown_entry(stored) for stored in page)
        after = page[-1].record["id"]
    return loaded, True


# -- tasks -----------------------------------------------------------------------------------------------------------


def task_row(kernel: Kernel, record: TaskRecord) -> dict[str, Any]:
    """One task as people see it: what it does, where it stands, what it waits for, why it is blocked."""
    status = status_of(record)
    row: dict[str, Any] = {
        "id": record["id"],
        "conversationId": record["conversationId"],
        "kind": record["kind"],
        "background": record["background"],
        "status": status,
        "abortRequested": record["abortRequested"],
        "doing": doing_now(kernel, record),
    }
    for key in ("owner", "restarts", "startedAt", "endedAt"):
        if key in record:
            row[key] = record[key]
    phase = checkpoint_of(record).get("phase")
    if phase is not None:
        row["phase"] = phase
    provider = made_at(record)
    if provider is not None:
        row["provider"] = provider
    if status == "waiting":
        row["waitingOn"] = list(record["state"]["on"])
    outcome = outcome_of(record)
    if outcome is not None:
        row["outcome"] = outcome["status"]
    if record["id"] in kernel.scheduler.blocked:
        row["blocked"] = kernel.scheduler.blocked[record["id"]]
    verdict = kernel.verdicts.get(record["id"])
    if verdict is not None:
        row["recovered"] = verdict
    return row


class TasksSource:
    """Feeds one watch of the live task graph."""

    def __init__(self, kernel: Kernel, watch: Watch[TasksView]) -> None:
        self._kernel = kernel
        self._watch = watch
        self._value = self._build()
        self._stop = kernel.session.observe(self._observe)
        self._unhook = kernel.scheduler.on_blocked(self.refresh)

    def whole(self) -> Frame[TasksView]:
        session = self._kernel.session
        return Frame(self._value, [["r", self._value]], session.seq, session.at)

    def detach(self) -> None:
        self._stop()
        self._unhook()

    def _build(self) -> Any:
        kernel = self._kernel
        live = kernel.session.tasks
        ended = [task for task in kernel.recently_ended()[-ENDED_SHOWN:] if task["id"] not in live]
        records = sorted([*ended, *live.values()], key=lambda task: task["id"])
        return freeze({"tasks": [task_row(kernel, record) for record in records]})

    def _observe(self, commit: Commit) -> None:
        if commit.tasks:
            self.refresh()

    def refresh(self) -> None:
        """Look again; pushes a frame when something changed."""
        value = self._build()
        ops = diff(self._value, value)
        if ops:
            self._value = value
            session = self._kernel.session
            self._watch.push(Frame(value, list(ops), session.seq, session.at))
