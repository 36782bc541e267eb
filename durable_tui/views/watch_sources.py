"""What feeds the watches of an open session: views, and the ops that take them from commit to commit (spec 13)."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Generic, Protocol, TypeAlias, TypeVar, cast
from weakref import WeakSet, ref

from durable_tui.agent.documents import LIVE
from durable_tui.agent.shapes import Live
from durable_tui.delta import diff, freeze
from durable_tui.engine.engine import Engine
from durable_tui.engine.shapes import Verdict
from durable_tui.session import Commit, Frame, Session, SomeDefinition, Watch
from durable_tui.session.documents import Address, DocumentChange, DocumentState
from durable_tui.storage.records import TaskRecord
from durable_tui.views.build import (
    ENDED_SHOWN,
    LIVE_LISTS,
    LIVE_PARTS,
    PLACES,
    Entries,
    Parts,
    Window,
    appended,
    conversation_view,
    initial,
    is_stored,
    live_part,
    load_entries,
    resuming_ops,
    session_view,
    shown_entry,
    task_row,
    tasks_view,
    view_context,
)
from durable_tui.views.shapes import ConversationView, SessionView, ShownEntry, TaskRow, TasksView

if TYPE_CHECKING:
    from durable_tui.delta import Json, Op
    from durable_tui.views.shapes import Position

V = TypeVar("V")
SomeWatch: TypeAlias = Watch[Any]  # they are kept whatever they show


class Watches:
    """The watches of one open session; `window(model)` is the size of a model's context window, when it is known."""

    def __init__(self, engine: Engine, window: Window) -> None:
        self._engine = engine
        self._session = engine.session
        self._window = window
        self._open: WeakSet[SomeWatch] = WeakSet()

    def conversation(self, conversation_id: int, tail: int | None) -> Watch[ConversationView]:
        """Frames of a conversation, with its newest `tail` entries at first (None: all)."""

        async def prepare(watch: Watch[ConversationView]) -> ViewSource[ConversationView]:
            conversation = ConversationPart(self._session, self._window, conversation_id)
            return await ViewSource.create(self._session, watch, conversation_view, [conversation], tail=tail)

        return self._add(Watch(prepare))

    def tasks(self) -> Watch[TasksView]:
        """Frames of the live task graph and of what ended lately."""

        async def prepare(watch: Watch[TasksView]) -> ViewSource[TasksView]:
            return await ViewSource.create(self._session, watch, tasks_view, [TasksPart(self._engine)])

        return self._add(Watch(prepare))

    def session(self, conversation_id: int, tail: int | None, since: Position | None) -> Watch[SessionView]:
        """Frames of a conversation and of the session's tasks; with `since` they go on where a copy stands."""

        async def prepare(watch: Watch[SessionView]) -> ViewSource[SessionView]:
            parts: list[Part] = [
                ConversationPart(self._session, self._window, conversation_id),
                TasksPart(self._engine),
            ]
            return await ViewSource.create(self._session, watch, session_view, parts, tail=tail, since=since)

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


class Part(Protocol):
    """Some keys of a view. `value` is never changed in place; `take` brings it to a commit, with the ops that do so."""

    value: Parts

    async def load(self, tail: int | None, since: Position | None) -> None:
        """Read what is not in memory; commits that land meanwhile are taken too."""

    def begin(self) -> None:
        """Build the value as of the session's newest commit."""

    def take(self, commit: Commit) -> list[Op]: ...

    def on_change(self, listener: Callable[[], None]) -> Callable[[], None]:
        """Call `listener` for what changes without a commit, until what is returned is called."""

    def look(self) -> list[Op]:
        """Take such a change."""


class ViewSource(Generic[V]):
    """Feeds one watch with a view put together from parts; `build` makes the view of their keys.

    The watch keeps it, and not the other way round: one that nobody holds any more is fed no longer.
    """

    def __init__(self, session: Session, watch: Watch[V], build: Callable[[Parts], V], parts: Sequence[Part]) -> None:
        self._session = session
        self._watch = ref(watch)
        self._build = build
        self._parts = parts
        self._resumed: list[Op] | None = None
        self._ready = False
        self._seq = session.seq  # the newest commit that was taken
        self._look_due = False
        self._stops = [session.observe(self._observe), *(part.on_change(self._look) for part in parts)]

    @classmethod
    async def create(
        cls,
        session: Session,
        watch: Watch[V],
        build: Callable[[Parts], V],
        parts: Sequence[Part],
        *,
        tail: int | None = None,
        since: Position | None = None,
    ) -> ViewSource[V]:
        """Load the current view; commits that land meanwhile are in it."""
        source = cls(session, watch, build, parts)
        try:
            if since is not None and not await is_stored(session.storage, since):
                since = None  # its commits are not in this store: the copy is worth nothing
            for part in parts:
                await part.load(tail, since)
        except BaseException:
            source.detach()
            raise
        for part in parts:
            part.begin()
        if since is not None:
            source._resumed = resuming_ops(source._value(), since)
        source._ready = True
        return source

    def whole(self) -> Frame[V]:
        """The current view as one frame; the very first of a resumed watch takes the copy there."""
        view = self._build(self._value())
        ops, self._resumed = self._resumed, None
        return Frame(view, [["r", view]] if ops is None else ops, self._session.seq, self._session.at)

    def detach(self) -> None:
        for stop in self._stops:
            stop()

    def _value(self) -> Parts:
        value: Parts = {}
        for part in self._parts:
            value.update(part.value)
        return value

    def _observe(self, commit: Commit) -> None:
        self._seq = commit.seq
        ops: list[Op] = []
        for part in self._parts:
            ops += part.take(commit)
        if self._look_due:
            ops += self._changes()
        self._push(ops)

    def _look(self) -> None:
        if self._session.seq != self._seq:
            self._look_due = True  # others were told of this commit first: one commit is one frame
        elif self._ready:
            self._push(self._changes())

    def _changes(self) -> list[Op]:
        self._look_due = False
        return [op for part in self._parts for op in part.look()]

    def _push(self, ops: list[Op]) -> None:
        if not ops or not self._ready:
            return
        watch = self._watch()
        if watch is None:
            self.detach()
        else:
            watch.push(Frame(self._build(self._value()), ops, self._session.seq, self._session.at))


class ConversationPart:
    """One conversation: its entries, its documents, and those of the session that are shown beside it."""

    def __init__(self, session: Session, window: Window, conversation_id: int) -> None:
        self._session = session
        self._window = window
        self._id = conversation_id
        self._items: list[ShownEntry] = []
        self._loaded: list[ShownEntry] = []
        self._found: dict[Address, DocumentState] = {}
        self._first = False
        self._ready = False
        self.value: Parts = {}

    async def load(self, tail: int | None, since: Position | None) -> None:
        for address in (*(_address(definition, self._id) for _, definition in PLACES), LIVE.address(self._id)):
            state = await self._session.load_document(address)
            if state is not None:
                self._found[address] = state
        self._loaded, self._first = await load_entries(self._session.storage, self._id, tail, since)

    def begin(self) -> None:
        late = self._items
        session = self._session
        # The store may be a commit ahead of what was adopted; that commit comes as a frame of its own.
        loaded = [entry for entry in self._loaded if entry["seq"] <= session.seq]
        self._loaded = []
        newest = loaded[-1]["id"] if loaded else 0
        self._items = [*loaded, *(entry for entry in late if entry["id"] > newest)]
        value: Parts = {"entries": Entries(self._items), "first": self._first}
        for key, definition in PLACES:
            state = self._state(_address(definition, self._id))
            value[key] = state.value if state is not None else initial(definition)
        state = self._state(LIVE.address(self._id))
        value.update(live_part(state.value if state is not None else {}))
        self._found = {}
        context = view_context(value, self._window)
        if context is not None:
            value["context"] = context
        self.value = value
        self._ready = True

    def _state(self, address: Address) -> DocumentState | None:
        """A document as it is now: in memory when a commit has changed it since it was read, else as it was read."""
        known = self._session.cached_document(address)
        return known if known is not None or self._session.is_absent(address) else self._found.get(address)

    def on_change(self, listener: Callable[[], None]) -> Callable[[], None]:
        return _nothing

    def look(self) -> list[Op]:
        return []

    def take(self, commit: Commit) -> list[Op]:
        entries = [shown_entry(entry, commit.seq) for entry in commit.entries if entry["conversationId"] == self._id]
        if not self._ready:
            self._items.extend(entries)
            return []
        ops: list[Op] = []
        value = dict(self.value)
        if entries:
            ops.append(appended(len(self._items), entries))
            self._items.extend(entries)
            value["entries"] = Entries(self._items)
        for change in commit.documents:
            self._take_document(change, ops, value)
        if not ops:
            return ops
        if entries or value["agent"] is not self.value["agent"]:
            context = view_context(value, self._window)
            if context is not None and context != value.get("context"):
                ops.append(["s", ["context"], cast("Json", context)])
                value["context"] = context
        self.value = value
        return ops

    def _take_document(self, change: DocumentChange, ops: list[Op], value: Parts) -> None:
        """Bring one changed document into the view, with the ops that do the same."""
        if change.address == LIVE.address(self._id):
            new: Live = change.value if change.value is not None else {}
            changed: Sequence[Op] = change.ops
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


def _address(definition: SomeDefinition, conversation_id: int) -> Address:
    return definition.address(conversation_id if definition.scope == "conversation" else 0)


def _by_key(previous: Mapping[str, object], new: Mapping[str, object]) -> list[Op]:
    """Ops that take one object to another key by key, never replacing the root."""
    gone: list[Op] = [["d", [key]] for key in previous if key not in new]
    return gone + [["s", [key], new[key]] for key in new if key not in previous or previous[key] != new[key]]


def _live_op(op: Op) -> Op:
    if op[0] == "d" and len(op[1]) == 1 and op[1][0] in LIVE_LISTS:
        return ["s", list(op[1]), []]
    return op


def _nothing() -> None: ...


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


class TasksPart:
    """The live task graph and what ended lately."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._words = OwnerWords(engine)
        self.value: Parts = {"tasks": ()}

    async def load(self, tail: int | None, since: Position | None) -> None: ...

    def begin(self) -> None:
        self.value = {"tasks": self._rows()}

    def on_change(self, listener: Callable[[], None]) -> Callable[[], None]:
        return self._engine.on_blocked(listener)

    def take(self, commit: Commit) -> list[Op]:
        return self.look() if commit.tasks else []

    def look(self) -> list[Op]:
        value: Parts = {"tasks": self._rows()}
        ops = list(diff(self.value, value))
        if ops:
            self.value = value
        return ops

    def _rows(self) -> Sequence[TaskRow]:
        live = self._engine.session.tasks
        ended = [task for task in self._engine.ended_tasks.newest(ENDED_SHOWN) if task["id"] not in live]
        records = sorted([*ended, *live.values()], key=lambda task: task["id"])
        rows: Sequence[TaskRow] = freeze([task_row(record, self._words) for record in records])
        return rows
