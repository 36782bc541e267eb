"""What feeds the watches of an open session: views, and the ops that take them from commit to commit (spec 13)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeVar
from weakref import WeakSet

from durable_tui.agent.documents import LIVE
from durable_tui.agent.shapes import Live
from durable_tui.delta import diff, freeze
from durable_tui.engine.engine import Engine
from durable_tui.engine.shapes import Verdict
from durable_tui.session import Commit, DocumentDefinition, Frame, Session, Watch
from durable_tui.session.documents import DocumentChange
from durable_tui.storage.protocol import Reader
from durable_tui.storage.records import TaskRecord
from durable_tui.views.build import (
    LIVE_LISTS,
    LIVE_PARTS,
    PLACES,
    Entries,
    Window,
    context_size,
    conversation_view,
    initial,
    live_part,
    shown_entry,
    task_row,
)
from durable_tui.views.shapes import ConversationView, ShownEntry, TasksView

V = TypeVar("V")
PAGE = 1000
ENDED_SHOWN = 20


class Watches:
    """The watches of one open session; `window(model)` is the size of a model's context window, when it is known."""

    def __init__(self, engine: Engine, window: Window) -> None:
        self._engine = engine
        self._session = engine.session
        self._window = window
        self._open: WeakSet[Watch[Any]] = WeakSet()

    def conversation(self, conversation_id: int, tail: int | None) -> Watch[ConversationView]:
        """Frames of a conversation, with its newest `tail` entries at first (None: all)."""

        async def prepare(watch: Watch[ConversationView]) -> ConversationSource:
            return await ConversationSource.create(self._session, self._window, watch, conversation_id, tail)

        return self._add(Watch(prepare))

    def tasks(self) -> Watch[TasksView]:
        """Frames of the live task graph and of what ended lately."""

        async def prepare(watch: Watch[TasksView]) -> TasksSource:
            return TasksSource(self._engine, watch)

        return self._add(Watch(prepare))

    def finish(self) -> None:
        """End every watch: the session closes."""
        for watch in list(self._open):
            watch.finish()

    def _add(self, watch: Watch[V]) -> Watch[V]:
        if self._session.sealed:
            watch.finish()  # after the end a watch has no frames
        self._open.add(watch)
        return watch


class ConversationSource:
    """Feeds one watch of one conversation."""

    def __init__(self, session: Session, window: Window, watch: Watch[ConversationView], conversation_id: int) -> None:
        self._session = session
        self._window = window
        self._watch = watch
        self._id = conversation_id
        self._items: list[ShownEntry] = []
        self._value: dict[str, Any] = {}
        self._seq = 0
        self._at = 0
        self._ready = False
        self._stop: Callable[[], None] = lambda: None

    @classmethod
    async def create(
        cls, session: Session, window: Window, watch: Watch[ConversationView], conversation_id: int, tail: int | None
    ) -> ConversationSource:
        """Load the current view; commits that land meanwhile are in it."""
        source = cls(session, window, watch, conversation_id)
        source._stop = session.observe(source._observe)
        try:
            for _, definition in PLACES:
                await session.load_document(_address(definition, conversation_id))
            await session.load_document(LIVE.address(conversation_id))
            loaded, first = await _load_entries(session.storage, conversation_id, tail)
        except BaseException:
            source.detach()
            raise
        source._begin(loaded, first)
        return source

    def _begin(self, loaded: list[ShownEntry], first: bool) -> None:
        late = self._items
        session = self._session
        # The store may be a commit ahead of what was adopted; that commit comes as a frame of its own.
        loaded = [entry for entry in loaded if entry["seq"] <= session.seq]
        newest = loaded[-1]["id"] if loaded else 0
        self._items = [*loaded, *(entry for entry in late if entry["id"] > newest)]
        value: dict[str, Any] = {"entries": Entries(self._items), "first": first}
        for key, definition in PLACES:
            state = session.cached_document(_address(definition, self._id))
            value[key] = state.value if state is not None else initial(definition)
        state = session.cached_document(LIVE.address(self._id))
        value.update(live_part(state.value if state is not None else {}))
        context = context_size(value["entries"], value["agent"], self._window)
        if context is not None:
            value["context"] = context
        self._value = value
        self._seq, self._at = session.seq, session.at
        self._ready = True

    def whole(self) -> Frame[ConversationView]:
        """The current view as one frame."""
        view = conversation_view(self._value)
        return Frame(view, [["r", view]], self._seq, self._at)

    def detach(self) -> None:
        self._stop()

    def _observe(self, commit: Commit) -> None:
        entries = [shown_entry(entry, commit.seq) for entry in commit.entries if entry["conversationId"] == self._id]
        if not self._ready:
            self._items.extend(entries)
            return
        self._seq, self._at = commit.seq, commit.at
        ops: list[Any] = []
        value = dict(self._value)
        if entries:
            ops.append(["p", ["entries"], len(self._items), 0, entries])
            self._items.extend(entries)
            value["entries"] = Entries(self._items)
        for change in commit.documents:
            self._take_document(change, ops, value)
        if not ops:
            return
        if entries or value["agent"] is not self._value["agent"]:
            context = context_size(value["entries"], value["agent"], self._window)
            if context is not None and context != value.get("context"):
                ops.append(["s", ["context"], context])
                value["context"] = context
        self._value = value
        self._watch.push(Frame(conversation_view(value), ops, commit.seq, commit.at))

    def _take_document(self, change: DocumentChange, ops: list[Any], value: dict[str, Any]) -> None:
        """Bring one changed document into the view, with the ops that do the same."""
        if change.address == LIVE.address(self._id):
            new: Live = change.value if change.value is not None else {}
            changed: Sequence[Any] = change.ops
            if any(op[0] == "r" for op in changed):
                changed = _by_key(change.previous or {}, new)  # replacing the root would replace the whole view
            ops.extend(_live_op(op) for op in changed)
            for key in LIVE_PARTS:
                value.pop(key, None)
            value.update(live_part(new))
            return
        for key, definition in PLACES:
            if change.address == _address(definition, self._id):
                shown = change.value if change.value is not None else initial(definition)
                ops.extend(
                    ["s", [key], shown] if op[0] == "r" else [op[0], [key, *op[1]], *op[2:]] for op in change.ops
                )
                value[key] = shown
                return


def _address(definition: DocumentDefinition[Any], conversation_id: int) -> Any:
    return definition.address(conversation_id if definition.scope == "conversation" else 0)


def _by_key(previous: Any, new: Any) -> list[Any]:
    """Ops that take one object to another key by key, never replacing the root."""
    gone: list[Any] = [["d", [key]] for key in previous if key not in new]
    return gone + [["s", [key], new[key]] for key in new if key not in previous or previous[key] != new[key]]


def _live_op(op: Any) -> Any:
    if op[0] == "d" and len(op[1]) == 1 and op[1][0] in LIVE_LISTS:
        return ["s", list(op[1]), []]
    return op


async def _load_entries(storage: Reader, conversation_id: int, tail: int | None) -> tuple[list[ShownEntry], bool]:
    if tail is not None:
        page = await storage.entries(conversation_id, limit=tail + 1, reverse=True)
        return [shown_entry(stored.record, stored.seq) for stored in reversed(page[:tail])], len(page) <= tail
    loaded: list[ShownEntry] = []
    after = 0
    while page := await storage.entries(conversation_id, after=after, limit=PAGE):
        loaded.extend(shown_entry(stored.record, stored.seq) for stored in page)
        after = page[-1].record["id"]
    return loaded, True


# -- tasks -----------------------------------------------------------------------------------------------------------


class OwnerWords:
    """What an owner knows of its tasks. `fresh` derives anew why one is blocked, else as the scheduler last found it."""

    def __init__(self, engine: Engine, *, fresh: bool = False) -> None:
        self._engine = engine
        self._fresh = fresh

    def doing(self, record: TaskRecord) -> str:
        return self._engine.definitions.doing(record)

    def elsewhere(self, record: TaskRecord) -> str | None:
        return self._engine.definitions.elsewhere(record)

    def blocked(self, record: TaskRecord) -> str | None:
        return self._engine.why_blocked(record) if self._fresh else self._engine.blocked(record["id"])

    def verdict(self, record: TaskRecord) -> Verdict | None:
        return self._engine.recovery.verdict(record["id"])


class TasksSource:
    """Feeds one watch of the live task graph."""

    def __init__(self, engine: Engine, watch: Watch[TasksView]) -> None:
        self._engine = engine
        self._session = engine.session
        self._words = OwnerWords(engine)
        self._watch = watch
        self._value = self._build()
        self._stop = self._session.observe(self._observe)
        self._unhook = engine.on_blocked(self.refresh)

    def whole(self) -> Frame[TasksView]:
        return Frame(self._value, [["r", self._value]], self._session.seq, self._session.at)

    def detach(self) -> None:
        self._stop()
        self._unhook()

    def _build(self) -> TasksView:
        live = self._session.tasks
        ended = [task for task in self._engine.ended_tasks.newest(ENDED_SHOWN) if task["id"] not in live]
        records = sorted([*ended, *live.values()], key=lambda task: task["id"])
        view: TasksView = freeze({"tasks": [task_row(record, self._words) for record in records]})
        return view

    def _observe(self, commit: Commit) -> None:
        if commit.tasks:
            self.refresh()

    def refresh(self) -> None:
        """Look again; pushes a frame when something changed."""
        value = self._build()
        ops = diff(self._value, value)
        if ops:
            self._value = value
            self._watch.push(Frame(value, list(ops), self._session.seq, self._session.at))
