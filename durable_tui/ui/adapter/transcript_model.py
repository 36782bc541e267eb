"""The adapter: takes the frames of a conversation and says what changed on the screen. Pure and synchronous.

Appending an entry costs O(its size); streaming touches only the tail; a whole-view frame (the first, or after falling
behind) builds anew what it holds and keeps older pages that still join on.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, cast

from durable_tui.engine.endings import ending
from durable_tui.ground.clock import clock
from durable_tui.models.messages import content_text
from durable_tui.ui.adapter import build
from durable_tui.ui.adapter.blocks import Block, Head, Key, Marker, Note, Prose, Thinking, Tool
from durable_tui.ui.adapter.chunks import Chunk, Chunker
from durable_tui.ui.adapter.rows import slot_status

if TYPE_CHECKING:
    from durable_tui.agent.shapes import LiveRetry, Slot
    from durable_tui.engine.shapes import Death, FoundTask
    from durable_tui.models.messages import ToolResultMessage
    from durable_tui.session.watch import Frame
    from durable_tui.views.shapes import ConversationView, ShownEntry, TaskRow

PARTS = "entries run generation tools compactions inbox agent usage draft recovery session first context"
EVERYTHING = frozenset(PARTS.split(" "))
NO_VIEW: ConversationView = {  # before the first frame
    "entries": (),
    "first": True,
    "tools": (),
    "compactions": (),
    "inbox": {"items": []},
    "agent": {},
    "usage": {"models": {}, "tools": {}},
    "draft": {"text": ""},
    "recovery": {"deaths": []},
    "session": {"cwd": "", "createdAt": 0},
}


@dataclass(slots=True)
class Changes:
    """What a frame did. `parts` are top keys of the view; block indexes refer to `TranscriptModel.blocks` afterwards."""

    parts: set[str] = field(default_factory=set)
    reset: bool = False
    kept: int = 0  # blocks before this index are as they were, those from it on are new
    touched: set[int] = field(default_factory=set)
    tail: bool = False

    def merge(self, later: Changes) -> None:
        """Take a later frame's changes in, so that several frames are shown at once."""
        self.parts |= later.parts
        self.tail = self.tail or later.tail
        if later.reset:
            self.reset, self.kept, self.touched = True, 0, set()
        self.kept = min(self.kept, later.kept)
        self.touched = {index for index in self.touched | later.touched if index < self.kept}


class TranscriptModel:
    """The state of one conversation's screen: `blocks` of entries, `tail` of what is being generated, `view`."""

    def __init__(
        self,
        summarize: build.Summarize | None = None,
        replay_of: Callable[[str], str] | None = None,
    ) -> None:
        self.builder = build.Builder(summarize, replay_of)
        self.view = NO_VIEW
        self.seq = 0
        self.at = 0
        self.blocks: list[Block] = []
        self.tail: list[Block] = []
        self.first_entry: int | None = None
        self.first_said = ""
        self._ids: list[int] = []  # of the entries behind `blocks`, in order
        self._calls: dict[str, int] = {}  # call id -> index from the end-stable base, see _base
        self._base = 0  # blocks put in front since an index was noted
        self._orphans: dict[str, tuple[ShownEntry, ToolResultMessage]] = {}  # results whose call is on an older page
        self._streams: dict[int, Chunker] = {}
        self._attempt: tuple[int, int] | None = None  # task and number of what is being generated
        self._slots: tuple[Slot, ...] = ()
        self._found_by_entry: dict[int, tuple[FoundTask, Death]] = {}  # of the result entry a verdict names
        self._found_by_task: dict[int, tuple[FoundTask, Death]] = {}
        self._folds: dict[Key, bool] = {}

    # --- frames ---------------------------------------------------------------------------------------------

    def apply(self, frame: Frame[ConversationView]) -> Changes:
        """Take a frame in; returns what changed."""
        view, ops = frame.value, frame.ops
        self.view, self.seq, self.at = view, frame.seq, frame.at or self.at
        changes = Changes(kept=len(self.blocks))
        whole = not self._ids and not self.blocks
        appended: list[ShownEntry] = []
        for op in ops:
            path = op[1] if len(op) > 2 or op[0] == "d" else []
            if op[0] == "r" or not path:
                whole = True
                changes.parts |= EVERYTHING
                continue
            part = path[0]
            changes.parts.add(part)
            if part == "entries":
                last = appended[-1]["id"] if appended else self._ids[-1] if self._ids else 0
                records = self._appended(op, path, last)
                if records is None:
                    whole = True
                else:
                    appended.extend(records)
        if "recovery" in changes.parts:
            changes.touched |= self._note_recovery()
        if whole:
            self._whole(view["entries"], changes)
        else:
            self._append(appended, changes)
        if changes.parts & {"tools"} or whole:
            self._apply_slots(changes)
        if whole or appended or changes.parts & {"generation", "run", "tools"}:
            self._build_tail()
            changes.tail = True
        return changes

    def _appended(self, op: Sequence[object], path: Sequence[object], last: int) -> list[ShownEntry] | None:
        """The records an op on `entries` adds behind entry `last`; None when it does anything else."""
        records: Sequence[ShownEntry] | None = None
        if op[0] == "p" and len(path) == 1 and len(op) >= 5 and op[3] == 0:
            records = cast("Sequence[ShownEntry]", op[4])
        elif op[0] == "s" and len(path) == 2 and isinstance(op[2], Mapping):
            records = [cast("ShownEntry", op[2])]
        return list(records) if records is not None and all(record["id"] > last for record in records) else None

    def _whole(self, entries: Sequence[ShownEntry], changes: Changes) -> None:
        changes.reset = True
        changes.kept = 0
        changes.touched.clear()
        first = entries[0]["id"] if entries else None
        keep = 0
        if first is not None and self._ids and self._ids[0] < first <= self._ids[-1]:
            keep = next((index for index, block in enumerate(self.blocks) if (block.entry or 0) >= first), 0)
        older, older_ids = (
            self.blocks[:keep],
            [entry for entry in self._ids if first is not None and entry < first] if keep else [],
        )
        self.blocks, self._ids, self._calls, self._base = [], [], {}, 0
        self._orphans = {}
        self._streams.clear()
        self._slots = ()
        if older:
            self.blocks, self._ids = older, older_ids
            for index, block in enumerate(older):
                if isinstance(block.data, Tool):
                    self._calls[block.data.call_id] = index
        self._add(entries, changes)
        self.first_entry = self._ids[0] if self._ids else None

    def _append(self, entries: Sequence[ShownEntry], changes: Changes) -> None:
        self._add(entries, changes)
        changes.touched = {index for index in changes.touched if index < changes.kept}

    def _add(self, entries: Iterable[ShownEntry], changes: Changes) -> None:
        for record in entries:
            self._ids.append(record["id"])
            message = build.message_of(record)
            if message is not None and message["role"] == "toolResult":
                self._result(record, message, changes)
                continue
            for block in self.builder.blocks(record):
                self._place(block)
                if isinstance(block.data, Tool):
                    self._calls[block.data.call_id] = len(self.blocks) - self._base
                self.blocks.append(block)
            if not self.first_said and message is not None and message["role"] == "user":
                self.first_said = content_text(message["content"]).strip().split("\n", 1)[0][:120]
        if self.first_entry is None and self._ids:
            self.first_entry = self._ids[0]

    def _place(self, block: Block) -> None:
        if block.key in self._folds and isinstance(block.data, Tool | Thinking | Marker):
            block.data.folded = self._folds[block.key]

    def _result(self, record: ShownEntry, message: ToolResultMessage, changes: Changes) -> None:
        call_id = message["toolCallId"]
        called = self._call(call_id)
        if called is None:
            self._orphans[call_id] = record, message
            tool = Tool(call_id, message["toolName"], None, "(called above)")
            build.fill(tool, record, message)
            self._mark(tool)
            block = Block((record["id"], "r"), tool, record["id"], record["seq"])
            self._place(block)
            self.blocks.append(block)
            return
        index, block, tool = called
        build.fill(tool, record, message)
        self._mark(tool)
        block.changed()
        changes.touched.add(index)

    def _call(self, call_id: str) -> tuple[int, Block, Tool] | None:
        """The newest call of this id: the index of its block, the block, what is known of it."""
        known = self._calls.get(call_id)
        if known is None:
            return None
        index = known + self._base
        block = self.blocks[index]
        return (index, block, block.data) if isinstance(block.data, Tool) else None

    # --- older pages ----------------------------------------------------------------------------------------

    def prepend(self, records: Sequence[ShownEntry]) -> int:
        """Put older entries, in id order, in front; returns how many blocks that made at the front.

        Results at the old front whose calls arrive now move into their calls; the caller shows everything anew when
        `orphans_joined` is set.
        """
        records = [record for record in records if not self._ids or record["id"] < self._ids[0]]
        older = TranscriptModel(None, None)
        older.builder = self.builder
        older._found_by_entry, older._found_by_task = self._found_by_entry, self._found_by_task
        older._folds = self._folds
        older._add(records, Changes())
        joined: set[Key] = set()
        for call_id, (record, message) in list(self._orphans.items()):
            called = older._call(call_id)
            if called is None:
                continue
            tool = called[2]
            build.fill(tool, record, message)
            self._mark(tool)
            joined.add((record["id"], "r"))
            del self._orphans[call_id]
        self.orphans_joined = bool(joined)
        count = len(older.blocks)
        if joined:
            self.blocks = [block for block in self.blocks if block.key not in joined]
            self._calls = {}
            self._base = 0
            self.blocks = older.blocks + self.blocks
            for index, block in enumerate(self.blocks):
                if isinstance(block.data, Tool):
                    self._calls[block.data.call_id] = index
        else:
            self._base += count
            for call_id, index in older._calls.items():
                self._calls.setdefault(call_id, index - self._base)
            self.blocks[:0] = older.blocks
        self._orphans = {**older._orphans, **self._orphans}
        self._ids[:0] = older._ids
        if older.first_said:
            self.first_said = older.first_said
        self.first_entry = self._ids[0] if self._ids else None
        return count

    orphans_joined = False

    # --- live -----------------------------------------------------------------------------------------------

    def _apply_slots(self, changes: Changes) -> None:
        slots = tuple(self.view["tools"])
        known = {id(slot) for slot in self._slots}
        for slot in slots:
            called = self._call(slot["callId"]) if id(slot) not in known else None
            if called is None:
                continue
            index, block, tool = called
            if tool.settled:
                continue
            build.fill_slot(tool, slot)
            self._mark(tool)
            block.changed()
            if index < changes.kept:
                changes.touched.add(index)
        self._slots = slots

    def apply_tasks(self, tasks: Mapping[int, TaskRow], since: int = 0) -> set[int]:
        """Give running calls their start times, not before `since`; returns the touched block indexes."""
        touched = set()
        for slot in self._slots:
            called = self._call(slot["callId"])
            task = tasks.get(slot.get("taskId", 0))
            if called is None or task is None:
                continue
            index, block, tool = called
            if tool.settled:
                continue
            started = max(task.get("startedAt", 0), since)
            state = tool.state
            if state in ("running", "unfinished"):
                state = "unfinished" if slot_status(slot, tasks) == "unfinished" else "running"
            if tool.started_at != started or tool.state != state:
                tool.started_at, tool.state = started, state
                block.changed()
                touched.add(index)
        return touched

    def running(self) -> list[int]:
        """Indexes of the blocks whose elapsed time moves on."""
        out = []
        for slot in self._slots:
            called = self._call(slot["callId"]) if slot["status"] == "running" else None
            if called is not None and not called[2].settled and called[2].started_at:
                out.append(called[0])
        return out

    def _build_tail(self) -> None:
        run, generation = self.view.get("run"), self.view.get("generation")
        tools_done = all(slot["status"] == "done" for slot in self.view["tools"])
        if run is None or generation is None or not ("message" in generation or tools_done):
            self.tail = []
            self._streams.clear()
            self._attempt = None
            return
        attempt = (run["taskId"], generation["attempt"])
        if attempt != self._attempt:
            self._streams.clear()
            self._attempt = attempt
        message = generation.get("message")
        started = message.get("timestamp") if message is not None else None
        tail = [Block(("live", "h"), Head("assistant", started), gap=True)]
        tail[0].version = started or 0  # the time comes with the first words
        parts = message["content"] if message is not None else ()
        for index, part in enumerate(parts):
            chunker = self._streams.setdefault(index, Chunker()) if part["type"] == "text" else None
            for block in self.builder.part("live", index, part, chunker):
                if isinstance(block.data, Thinking):
                    thinking = index == len(parts) - 1
                    block.data.live = thinking
                    block.key = (*block.key, thinking)
                    block.data.folded = self._folds.get(block.key, not thinking)
                elif isinstance(block.data, Tool):
                    block.data.state = "writing"
                    block.version = len(str(block.data.arguments))
                tail.append(block)
        if "retry" in generation:
            tail = self._retrying(tail, generation["retry"])
        elif "deferred" in generation:
            at = clock(generation["deferred"]["pollAt"], seconds=True)
            text = "the answer is being made at the provider" + (f"; next look at {at}" if at else "")
            tail = [*tail, _note("running", text, "dim")]
        else:
            self._cursor(tail)
        self.tail = tail

    def _retrying(self, tail: list[Block], retry: LiveRetry) -> list[Block]:
        """What stands under a failed attempt: when the next one follows, and why unless that is said just above."""
        error = retry["error"] or "the model failed"
        at = clock(retry["at"], seconds=True)
        text = "trying again" + (f" at {at}" if at else "")
        said = self.blocks[-1].data if self.blocks else None
        if isinstance(said, Note) and said.text == error and len(tail) == 1:
            tail = []
        else:
            text = f"{error}; {text}"
        return [*tail, _note("running", text, "attention")]

    def _cursor(self, tail: list[Block]) -> None:
        last = tail[-1]
        if isinstance(last.data, Prose):
            last.data = Prose(last.data.chunk, live=True)
            last.key = (*last.key, "live")
        elif isinstance(last.data, Head):
            tail.append(Block(("live", "c"), Prose(Chunk(""), live=True)))

    # --- recovery -------------------------------------------------------------------------------------------

    def _note_recovery(self) -> set[int]:
        self._found_by_entry, self._found_by_task = {}, {}
        for death in self.view["recovery"]["deaths"]:
            for task in death["tasks"]:
                if "entry" in task:
                    self._found_by_entry[task["entry"]] = (task, death)
                if "verdict" in task:
                    self._found_by_task[task["taskId"]] = (task, death)
        touched = set()
        for call_id in self._calls:
            called = self._call(call_id)
            if called is not None and self._mark(called[2]):
                called[1].changed()
                touched.add(called[0])
        return touched

    def _mark(self, tool: Tool) -> bool:
        """Note the recovery row of a call's result or task; True when that is new."""
        found = self._found_by_entry.get(tool.result_entry or 0) or self._found_by_task.get(tool.task_id or 0)
        if found is None or found[0]["kind"] != "pi.tool":
            return False
        task, death = found
        if tool.recovered is not None and tool.recovered[0] == task:
            return False
        tool.recovered = found
        tool.verdict = task.get("verdict", "")
        tool.died_at = death["lastAt"]
        tool.occasion = ending(death).occasion
        return True

    # --- folding --------------------------------------------------------------------------------------------

    def toggle(self, block: Block, folded: bool | None = None) -> bool:
        """Fold or unfold; True when that changed something."""
        data = block.data
        if not isinstance(data, Tool | Thinking | Marker) or not block.foldable:
            return False
        wanted = not data.folded if folded is None else folded
        if data.folded == wanted:
            return False
        data.folded = wanted
        self._folds[block.key] = wanted
        block.changed()
        return True


def _note(glyph: str, text: str, tone: str) -> Block:
    """A sentence at the open end of the transcript."""
    return Block(("live", "n"), Note(glyph, text, tone), version=hash(text))
