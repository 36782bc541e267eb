"""The adapter: takes the frames of a conversation and says what changed on the screen. Pure and synchronous.

Appending an entry costs O(its size); streaming touches only the tail; a whole-view frame (the first, or after falling
behind) builds anew what it holds and keeps older pages that still join on.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from durable_tui.ui.adapter import build, words
from durable_tui.ui.adapter.blocks import Block, Head, Key, Marker, Note, Prose, Thinking, Tool
from durable_tui.ui.adapter.chunks import Chunk, Chunker
from durable_tui.ui.adapter.rows import slot_status

PARTS = "entries run generation tools compactions inbox agent usage draft recovery session first context"
EVERYTHING = frozenset(PARTS.split(" "))


class FrameLike(Protocol):
    @property
    def value(self) -> Any: ...

    @property
    def ops(self) -> Any: ...

    @property
    def seq(self) -> int: ...

    @property
    def at(self) -> int: ...


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
        self.view: Mapping[str, Any] = {}
        self.seq = 0
        self.at = 0
        self.blocks: list[Block] = []
        self.tail: list[Block] = []
        self.first_entry: int | None = None
        self.first_said = ""
        self._ids: list[int] = []  # of the entries behind `blocks`, in order
        self._calls: dict[str, int] = {}  # call id -> index from the end-stable base, see _base
        self._base = 0  # blocks put in front since an index was noted
        self._orphans: dict[str, Mapping[str, Any]] = {}  # results whose call is on an older page
        self._streams: dict[int, Chunker] = {}
        self._attempt: Any = None
        self._slots: tuple[Any, ...] = ()
        self._rows: dict[int, tuple[Mapping[str, Any], Mapping[str, Any]]] = {}  # result entry -> recovery row, death
        self._row_tasks: dict[int, tuple[Mapping[str, Any], Mapping[str, Any]]] = {}
        self._folds: dict[Key, bool] = {}

    # --- frames ---------------------------------------------------------------------------------------------

    def apply(self, frame: FrameLike) -> Changes:
        """Take a frame in; returns what changed."""
        view, ops = frame.value, frame.ops
        self.view, self.seq, self.at = view, frame.seq, frame.at or self.at
        changes = Changes(kept=len(self.blocks))
        whole = not self._ids and not self.blocks
        appended: list[Mapping[str, Any]] = []
        for op in ops:
            path = op[1] if len(op) > 2 or op[0] == "d" else []
            if op[0] == "r" or not path:
                whole = True
                changes.parts |= EVERYTHING
                continue
            part = path[0]
            changes.parts.add(part)
            if part == "entries":
                last = int(appended[-1]["id"]) if appended else self._ids[-1] if self._ids else 0
                records = self._appended(op, path, last)
                if records is None:
                    whole = True
                else:
                    appended.extend(records)
        if "recovery" in changes.parts:
            changes.touched |= self._note_recovery()
        if whole:
            self._whole(view.get("entries") or (), changes)
        else:
            self._append(appended, changes)
        if changes.parts & {"tools"} or whole:
            self._apply_slots(changes)
        if whole or appended or changes.parts & {"generation", "run", "tools"}:
            self._build_tail()
            changes.tail = True
        return changes

    def _appended(self, op: Sequence[Any], path: Sequence[Any], last: int) -> list[Mapping[str, Any]] | None:
        """The records an op on `entries` adds behind entry `last`; None when it does anything else."""
        if op[0] == "p" and len(path) == 1 and len(op) >= 5 and op[3] == 0:
            records = [record for record in op[4] if int(record["id"]) > last]
            return records if len(records) == len(op[4]) else None
        if op[0] == "s" and len(path) == 2 and isinstance(op[2], Mapping):
            record = op[2]
            return [record] if int(record["id"]) > last else None
        return None

    def _whole(self, entries: Sequence[Mapping[str, Any]], changes: Changes) -> None:
        changes.reset = True
        changes.kept = 0
        changes.touched.clear()
        first = int(entries[0]["id"]) if entries else None
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

    def _append(self, entries: Sequence[Mapping[str, Any]], changes: Changes) -> None:
        self._add(entries, changes)
        changes.touched = {index for index in changes.touched if index < changes.kept}

    def _add(self, entries: Iterable[Mapping[str, Any]], changes: Changes) -> None:
        for record in entries:
            self._ids.append(int(record["id"]))
            message = build.message_of(record)
            if message.get("role") == "toolResult":
                self._result(record, message, changes)
                continue
            for block in self.builder.blocks(record):
                self._place(block)
                if isinstance(block.data, Tool):
                    self._calls[block.data.call_id] = len(self.blocks) - self._base
                self.blocks.append(block)
            if not self.first_said and message.get("role") == "user":
                self.first_said = build.content_text(message.get("content", ""))[0].strip().split("\n", 1)[0][:120]
        if self.first_entry is None and self._ids:
            self.first_entry = self._ids[0]

    def _place(self, block: Block) -> None:
        if block.key in self._folds and isinstance(block.data, Tool | Thinking | Marker):
            block.data.folded = self._folds[block.key]

    def _result(self, record: Mapping[str, Any], message: Mapping[str, Any], changes: Changes) -> None:
        call_id = str(message.get("toolCallId", ""))
        index = self._calls.get(call_id)
        if index is None:
            self._orphans[call_id] = record
            tool = Tool(call_id, str(message.get("toolName", "")), None, "(called above)")
            build.fill(tool, record)
            self._mark(tool)
            block = Block((int(record["id"]), "r"), tool, int(record["id"]), record.get("seq"))
            self._place(block)
            self.blocks.append(block)
            return
        block = self.blocks[index + self._base]
        assert isinstance(block.data, Tool)
        build.fill(block.data, record)
        self._mark(block.data)
        block.changed()
        changes.touched.add(index + self._base)

    # --- older pages ----------------------------------------------------------------------------------------

    def prepend(self, records: Sequence[Mapping[str, Any]]) -> int:
        """Put older entries, in id order, in front; returns how many blocks that made at the front.

        Results at the old front whose calls arrive now move into their calls; the caller shows everything anew when
        `orphans_joined` is set.
        """
        records = [record for record in records if not self._ids or int(record["id"]) < self._ids[0]]
        older = TranscriptModel(None, None)
        older.builder = self.builder
        older._rows, older._row_tasks, older._folds = self._rows, self._row_tasks, self._folds
        older._add(records, Changes())
        joined: set[Key] = set()
        for call_id, record in list(self._orphans.items()):
            index = older._calls.get(call_id)
            if index is None:
                continue
            tool = older.blocks[index].data
            assert isinstance(tool, Tool)
            build.fill(tool, record)
            self._mark(tool)
            joined.add((int(record["id"]), "r"))
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
        slots = tuple(self.view.get("tools") or ())
        known = {id(slot) for slot in self._slots}
        for slot in slots:
            if id(slot) in known:
                continue
            index = self._calls.get(str(slot.get("callId", "")))
            if index is None:
                continue
            block = self.blocks[index + self._base]
            assert isinstance(block.data, Tool)
            if block.data.settled:
                continue
            build.fill_slot(block.data, slot)
            self._mark(block.data)
            block.changed()
            if index + self._base < changes.kept:
                changes.touched.add(index + self._base)
        self._slots = slots

    def apply_tasks(self, tasks: Mapping[int, Mapping[str, Any]], since: int = 0) -> set[int]:
        """Give running calls their start times, not before `since`; returns the touched block indexes."""
        touched = set()
        for slot in self._slots:
            index = self._calls.get(str(slot.get("callId", "")))
            task = tasks.get(slot.get("taskId") or 0)
            if index is None or task is None:
                continue
            block = self.blocks[index + self._base]
            data = block.data
            if not isinstance(data, Tool) or data.settled:
                continue
            started = max(int(task.get("startedAt") or 0), since)
            state = data.state
            if state in ("running", "unfinished"):
                state = "unfinished" if slot_status(slot, tasks) == "unfinished" else "running"
            if data.started_at != started or data.state != state:
                data.started_at, data.state = started, state
                block.changed()
                touched.add(index + self._base)
        return touched

    def running(self) -> list[int]:
        """Indexes of the blocks whose elapsed time moves on."""
        out = []
        for slot in self._slots:
            index = self._calls.get(str(slot.get("callId", "")))
            if index is not None and slot.get("status") == "running":
                data = self.blocks[index + self._base].data
                if isinstance(data, Tool) and not data.settled and data.started_at:
                    out.append(index + self._base)
        return out

    def _build_tail(self) -> None:
        generation = self.view.get("generation")
        tools_done = all(slot.get("status") == "done" for slot in self.view.get("tools") or ())
        if not self.view.get("run") or generation is None or not ("message" in generation or tools_done):
            self.tail = []
            self._streams.clear()
            self._attempt = None
            return
        attempt = (self.view["run"].get("taskId"), generation.get("attempt"))
        if attempt != self._attempt:
            self._streams.clear()
            self._attempt = attempt
        message = generation.get("message") or {}
        retry, deferred = generation.get("retry"), generation.get("deferred")
        tail = [Block(("live", "h"), Head("assistant", message.get("timestamp")), gap=True)]
        tail[0].version = int(message.get("timestamp") or 0)  # the time comes with the first words
        parts = message.get("content") or ()
        for index, part in enumerate(parts):
            kind = part.get("type")
            chunker = self._streams.setdefault(index, Chunker()) if kind == "text" else None
            if kind == "thinking":
                thinking = index == len(parts) - 1
                for block in self.builder.part("live", index, part):
                    assert isinstance(block.data, Thinking)
                    block.data.live = thinking
                    block.key = (*block.key, thinking)
                    block.data.folded = self._folds.get(block.key, not thinking)
                    tail.append(block)
                continue
            for block in self.builder.part("live", index, part, chunker):
                if isinstance(block.data, Tool):
                    block.data.state = "writing"
                    block.version = len(str(block.data.arguments))
                tail.append(block)
        if retry:
            tail = self._retrying(tail, retry)
        elif deferred:
            at = words.clock(deferred.get("pollAt"), seconds=True)
            text = f"the answer is being made at the provider; next look at {at}".removesuffix("; next look at ")
            tail = [*tail, _note("running", text, "dim")]
        else:
            self._cursor(tail)
        self.tail = tail

    def _retrying(self, tail: list[Block], retry: Mapping[str, Any]) -> list[Block]:
        """What stands under a failed attempt: when the next one follows, and why unless that is said just above."""
        error = str(retry.get("error") or "the model failed")
        text = f"trying again at {words.clock(retry.get('at'), seconds=True)}".removesuffix(" at ")
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
        self._rows, self._row_tasks = {}, {}
        for death in (self.view.get("recovery") or {}).get("deaths") or ():
            for task in death.get("tasks") or ():
                if task.get("entry") is not None:
                    self._rows[int(task["entry"])] = (task, death)
                if task.get("verdict"):
                    self._row_tasks[int(task["taskId"])] = (task, death)
        touched = set()
        for index in set(self._calls.values()):
            block = self.blocks[index + self._base]
            if isinstance(block.data, Tool) and self._mark(block.data):
                block.changed()
                touched.add(index + self._base)
        return touched

    def _mark(self, tool: Tool) -> bool:
        """Note the recovery row of a call's result or task; True when that is new."""
        found = self._rows.get(tool.result_entry or 0) or self._row_tasks.get(tool.task_id or 0)
        if found is None or (found[0].get("kind") or "pi.tool") != "pi.tool":
            return False
        task, death = found
        if tool.recovered is not None and tool.recovered["task"] == task:
            return False
        tool.recovered = {"task": task, "death": death}
        tool.verdict = str(task.get("verdict", ""))
        tool.died_at = death.get("lastAt")
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
