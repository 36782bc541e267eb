"""Events of an OpenAI Responses stream to ours and the final message. Pure; the transport is elsewhere.

Servers leave out much of what the protocol promises and may change an item's id on the way. So an event is about the
item it names by `item_id`, else the one at its `output_index`, else the newest open one of its kind; and what an item says
when it is done, or in the final answer, counts before its deltas. Items of other kinds are only counted: they belong to
the server's own tools, which are never asked for.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TypeGuard

from durable_tui.ground.text import replace_surrogates
from durable_tui.models.answer import Answer
from durable_tui.models.call_fragments import Call
from durable_tui.models.failures import Endpoint, classify
from durable_tui.models.json_text import Wire, WireObject, as_object, as_objects, as_text, encode, strict
from durable_tui.models.messages import AnswerBlock, StopReason, text_block
from durable_tui.models.provider import ErrorKind, Finished, ModelRequest, StreamEvent
from durable_tui.models.responses_request import sendable
from durable_tui.models.usage import read_responses_usage

_DELTAS = {
    "response.output_text.delta": ("message", "text"),
    "response.refusal.delta": ("message", "refusal"),
    "response.reasoning_summary_text.delta": ("reasoning", "thinking"),
    "response.reasoning_text.delta": ("reasoning", "thinking"),
}
_PARTS = ("response.content_part.added", "response.reasoning_summary_part.added")
_ENDS = ("completed", "incomplete", "failed", "cancelled")
_BETWEEN = "\n\n"  # the parts of one item's thinking


@dataclass(slots=True)
class _Part:
    """A text of an item: `kind` is text, refusal or thinking. `index` is its block's, once begun; `blank` waits for that."""

    kind: str
    number: int
    index: int | None = None
    blank: str = ""


@dataclass(slots=True, eq=False)
class _Item:
    """One output item. `place` is its index on the wire, `begun` counts the parts that were announced, `section` is the
    part its thinking is in, `wire` the reasoning item as it is to be sent back."""

    kind: str
    id: str
    call_id: str
    place: Wire = None
    phase: str = ""
    call: Call | None = None
    parts: list[_Part] = field(default_factory=list)
    begun: int = 0
    section: tuple[bool, int] | None = None
    wire: WireObject | None = None
    done: bool = False

    def part(self, kind: str, number: int) -> _Part:
        """The part of that number; a new one when there is none."""
        for part in self.parts:
            if (part.kind, part.number) == (kind, number):
                return part
        self.parts.append(_Part(kind, number))
        return self.parts[-1]

    def indexes(self) -> list[int]:
        """Its blocks."""
        places = [part.index for part in self.parts] + ([self.call.index] if self.call is not None else [])
        return [index for index in places if index is not None]


def _is_empty(block: AnswerBlock) -> bool:
    """Whether a block is thinking without words and without anything that goes back."""
    return block["type"] == "thinking" and block["thinking"] == "" and "providerExtra" not in block


class ResponsesStream(Answer):
    """The answer of one Responses request."""

    def __init__(self, request: ModelRequest, endpoint: Endpoint, api: str) -> None:
        super().__init__(request, endpoint, api)
        self._items: list[_Item] = []
        self._last = -1
        self._status: str | None = None
        self._reason = ""

    def value(self, value: Wire, event: str = "message") -> list[StreamEvent]:
        chunk = self.check(value, event)
        kind = as_text(chunk.get("type")) or event
        head, _, end = kind.rpartition(".")
        events: list[StreamEvent] = []
        if head == "response" and end in _ENDS:
            self._end(as_object(chunk.get("response")), end, events)
        elif self._is_new(chunk.get("sequence_number")):
            self._event(kind, chunk, events)
        return events

    def body(self, value: Wire) -> list[StreamEvent]:
        response = value if self.is_answer(value) else self.check(value, "message")
        self.chunks += 1
        events: list[StreamEvent] = []
        default = "failed" if response.get("error") else "completed"
        self._end(response, as_text(response.get("status")) or default, events)
        return events

    @staticmethod
    def is_answer(value: Wire) -> TypeGuard[WireObject]:
        return isinstance(value, dict) and (value.get("object") == "response" or isinstance(value.get("output"), list))

    def stop_reason(self) -> StopReason:
        if self._status is None:
            raise self.truncated()
        if self._reason == "content_filter":
            raise self.fail("the content filter stopped the answer", "refused")
        if self._status == "incomplete":
            return "length"  # for whatever reason: nothing in it is known to be whole
        limit = self.request.options.get("maxTokens") or 0
        # llama.cpp calls an answer completed that was cut at the limit.
        cut = self.usage is not None and self.usage["output"] >= limit > 0
        return "length" if cut else "stop"

    def finish(self) -> list[StreamEvent]:
        events = super().finish()
        followed = False
        for item in reversed(self._items):
            if item.kind != "reasoning":
                followed = bool(item.indexes())
            for index in item.indexes():
                # Reasoning without the item it led to would be refused.
                extra: WireObject = {}
                if item.wire and followed:
                    extra = {"item": item.wire}
                elif item.phase:
                    extra = {"phase": item.phase}
                if extra:
                    block = self.blocks[index]
                    block["providerExtra"] = {**block.get("providerExtra", {}), **extra}
        ended = events[-1]
        assert isinstance(ended, Finished)
        order = [self.blocks[index] for item in self._items for index in item.indexes()]
        ended.message["content"] = [block for block in order if not _is_empty(block)]
        return events

    # -- events ----------------------------------------------------------------------------------------------------

    def _is_new(self, number: Wire) -> bool:
        """Whether an event was not there before: a resumed stream repeats some. Without a number it counts as new."""
        if not isinstance(number, int) or isinstance(number, bool):
            return True
        new = number > self._last
        self._last = max(number, self._last)
        return new

    def _event(self, kind: str, chunk: WireObject, events: list[StreamEvent]) -> None:
        wire = as_object(chunk.get("item"))
        if kind in _DELTAS:
            self._delta(*_DELTAS[kind], chunk, events)
        elif kind.startswith("response.function_call_arguments."):
            call = self._about(chunk, "function_call").call
            assert call is not None
            piece = as_text(chunk.get("delta"))
            call.raw += piece
            call.pending += piece
            self._arguments(call, chunk.get("arguments"), events)
        elif kind in _PARTS:
            part = as_object(chunk.get("part"))
            thinking = kind != _PARTS[0] or part.get("type") == "reasoning_text"
            self._about(chunk, "reasoning" if thinking else "message").begun += 1
        elif kind == "response.output_item.added" and wire:
            item = self._named(wire)
            if item is None or item.done:
                self._begin(wire, chunk.get("output_index"), events)
        elif kind == "response.output_item.done" and wire:
            place = chunk.get("output_index")
            item = self._named(wire) or self._find({"output_index": place}, as_text(wire.get("type")), wire)
            self._settle(item or self._begin(wire, place, events), wire, events)

    def _delta(self, kind: str, part_kind: str, chunk: WireObject, events: list[StreamEvent]) -> None:
        piece = as_text(chunk.get("delta"))
        item = self._about(chunk, kind)
        number = chunk.get("summary_index", chunk.get("content_index"))
        if not isinstance(number, int):
            number = max(item.begun - 1, 0)
        if part_kind != "thinking":
            self._text(item.part(part_kind, number), piece, events)
            return
        part = item.part("thinking", 0)
        section = ("summary_index" in chunk or "summary" in as_text(chunk.get("type")), number)
        if section != item.section and self._texts.get(-1 if part.index is None else part.index):
            piece = _BETWEEN + piece
        item.section = section
        self._text(part, piece, events)

    def _end(self, response: WireObject, ended: str, events: list[StreamEvent]) -> None:
        """The end of the answer. Its own status counts before `ended`, what the event is called."""
        self.usage = read_responses_usage(response.get("usage"), self.request.model) or self.usage
        status = response.get("status") if response.get("status") in _ENDS else ended
        reason = as_text(as_object(response.get("incomplete_details")).get("reason"))
        if status == "failed":
            error = as_object(response.get("error"))
            # Of the documented codes only two are worth another try; one that nobody knows is taken for the others.
            unknown: ErrorKind = "bad_request" if error.get("code") else "server"
            raise classify(self.endpoint, None, error, usage=self.spent(), unknown=unknown)
        if status == "cancelled":
            raise self.fail("the answer was cancelled at the provider", "refused")
        if status not in _ENDS:
            return
        self._fill(as_objects(response.get("output")), events)
        self._status, self._reason = "incomplete" if reason else status, reason
        self.finished = self.done = True

    # -- items -----------------------------------------------------------------------------------------------------

    def _begin(self, wire: WireObject, place: Wire, events: list[StreamEvent], at: int | None = None) -> _Item:
        """A new item, the last one or before the one `at` a position."""
        id, call_id = as_text(wire.get("id")), as_text(wire.get("call_id"))
        item = _Item(as_text(wire.get("type")), id, call_id, place, as_text(wire.get("phase")))
        self._items.insert(len(self._items) if at is None else at, item)
        if item.kind == "function_call":
            item.call = Call(given_id=call_id or id, name=as_text(wire.get("name")))
            self.calls.calls.append(item.call)
            if item.call.name:
                self.announce(item.call, events)
        return item

    def _named(self, wire: WireObject) -> _Item | None:
        """The newest item that is called as `wire` is: by its id, or where one of them has none by the call's."""
        id, call_id = as_text(wire.get("id")), as_text(wire.get("call_id"))
        for item in reversed(self._items):
            names = (item.id, id) if item.id and id else (item.call_id, call_id)
            if item.kind == wire.get("type") and names[0] == names[1] != "":
                return item
        return None

    def _find(self, chunk: WireObject, kind: str, wire: WireObject | None = None) -> _Item | None:
        """The item that an event is about. With `wire`, of an item that ended, the oldest one that may be it."""
        name, place = chunk.get("item_id"), chunk.get("output_index")
        items = [item for item in reversed(self._items) if item.kind == kind]
        if wire is not None:
            call_id = as_text(wire.get("call_id"))
            items = [i for i in reversed(items) if not i.done and not (call_id and i.call_id and call_id != i.call_id)]
        for item in items:
            if name and name in (item.id, item.call_id):
                return item
        if place is not None:
            return next((item for item in items if item.place == place), None)
        return next((item for item in items if not item.done), None)

    def _about(self, chunk: WireObject, kind: str) -> _Item:
        """The item that an event is about; one that was never announced begins with it."""
        item = self._find(chunk, kind)
        if item is not None:
            return item
        return self._begin({"type": kind, "id": chunk.get("item_id")}, chunk.get("output_index"), [])

    def _settle(self, item: _Item, wire: WireObject, events: list[StreamEvent]) -> None:
        """Take an item as its server says it is in the end."""
        item.done = True
        item.phase = item.phase or as_text(wire.get("phase"))
        if item.call is not None:
            item.call.name = item.call.name or as_text(wire.get("name"))
            if item.call.index is None:
                item.call.given_id = as_text(wire.get("call_id")) or item.call.given_id
            self._arguments(item.call, wire.get("arguments"), events)
        elif item.kind == "message":
            left = list(item.parts)
            for number, content in enumerate(as_objects(wire.get("content"))):
                kind = "refusal" if content.get("type") == "refusal" else "text"
                text = as_text(content.get("refusal" if kind == "refusal" else "text"))
                same = [part for part in left if part.kind == kind]
                part = next((part for part in same if part.number == number), same[0] if same else None)
                if part is not None:
                    left.remove(part)
                self._whole(part or item.part(kind, number), text, events)
        elif item.kind == "reasoning":
            thoughts = as_objects(wire.get("summary")) or as_objects(wire.get("content"))
            part = item.part("thinking", 0)
            texts = [as_text(thought.get("text")) for thought in thoughts]
            self._whole(part, _BETWEEN.join(text for text in texts if text), events)
            item.wire = item.wire or (strict(wire) if sendable(wire) else None)
            if item.wire and part.index is None:
                part.index = self.start_text("thinking", events)  # a place for what goes back

    def _fill(self, output: list[WireObject], events: list[StreamEvent]) -> None:
        """Complete the items by the final answer's. Some servers give them new ids there: then the order tells."""
        left = list(self._items)
        ours: dict[int, _Item] = {}
        for key in ("id", "call_id", ""):
            for number, wire in enumerate(output):
                name = as_text(wire.get(key))
                alike = (i for i in left if i.kind == wire.get("type") and (not key or name == getattr(i, key) != ""))
                item = None if number in ours else next(alike, None)
                if item is not None:
                    ours[number] = item
                    left.remove(item)
        at = 0
        for number, wire in enumerate(output):
            item = ours.get(number) or self._begin(wire, None, events, at)
            at = self._items.index(item) + 1
            self._settle(item, wire, events)

    # -- texts and arguments ---------------------------------------------------------------------------------------

    def _text(self, part: _Part, piece: str, events: list[StreamEvent]) -> None:
        """Append. A block opens with the first text that is not blank; blanks before it wait, or are dropped with it."""
        if part.index is None:
            piece = part.blank + piece
            if not piece.strip():
                part.blank = piece
                return
            block = text_block("thinking" if part.kind == "thinking" else "text")
            if part.kind == "refusal":
                block["providerExtra"] = {"refusal": True}
            part.index = self.start(block, events)
        self.add(part.index, piece, events)

    def _whole(self, part: _Part, text: str, events: list[StreamEvent]) -> None:
        """The whole text of a part, however much of it came before."""
        if part.index is None:
            part.blank = ""
            self._text(part, text, events)
        elif text:
            text = replace_surrogates(text)
            self._carry.pop(part.index, None)
            before = "".join(self._texts.get(part.index, ()))
            if text.startswith(before):
                self.add(part.index, text[len(before) :], events)
            else:
                self._texts[part.index] = [text]

    def _arguments(self, call: Call, whole: Wire, events: list[StreamEvent]) -> None:
        """The arguments as far as they are known."""
        raw = whole if isinstance(whole, str) else "" if whole is None else encode(whole).decode("utf-8")
        if raw:
            call.pending = call.pending + raw[len(call.raw) :] if raw.startswith(call.raw) else ""
            call.raw = raw
        if call.name:
            self.announce(call, events)
            self.hand_on(call, events)
