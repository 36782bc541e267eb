"""Events of an Anthropic Messages stream to ours and the final message. Pure; the transport is elsewhere.

Blocks are told apart by their index: one may begin before another has ended. Blocks, deltas and events of unknown kinds
are ignored, those of the server's own tools among them, which are never asked for.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeGuard

from durable_tui.ground.text import replace_surrogates
from durable_tui.models.answer import Answer
from durable_tui.models.call_fragments import Call
from durable_tui.models.failures import Endpoint
from durable_tui.models.json_text import Wire, WireObject, as_list, as_object, as_text, encode
from durable_tui.models.messages import StopReason, TextKind, ThinkingBlock
from durable_tui.models.provider import TOO_LONG, Finished, ModelRequest, StreamEvent
from durable_tui.models.usage import read_anthropic_usage

_KINDS: dict[str, TextKind] = {"text_delta": "text", "thinking_delta": "thinking", "signature_delta": "thinking"}


@dataclass(slots=True)
class _Part:
    """One block of the wire. `index` is that of our block, once begun; `blank` waits for visible text; `input` are
    arguments that came whole."""

    place: int
    kind: str
    index: int | None = None
    blank: str = ""
    signature: str = ""
    call: Call | None = None
    input: Wire = None


class AnthropicStream(Answer):
    """The answer of one Messages request."""

    def __init__(self, request: ModelRequest, endpoint: Endpoint, api: str) -> None:
        super().__init__(request, endpoint, api)
        self._parts: list[_Part] = []
        self._counts: WireObject = {}
        self._reason: str | None = None
        self._details: WireObject = {}

    def value(self, value: Wire, event: str = "message") -> list[StreamEvent]:
        chunk = self.check(value, event)
        events: list[StreamEvent] = []
        kind = chunk.get("type") or event
        if kind == "message_start":
            self._count(as_object(chunk.get("message")).get("usage"))
        elif kind == "content_block_start":
            self._start(chunk.get("index"), as_object(chunk.get("content_block")), events)
        elif kind == "content_block_delta":
            self._delta(chunk.get("index"), as_object(chunk.get("delta")), events)
        elif kind == "message_delta":
            self._end(as_object(chunk.get("delta")))
            self._count(chunk.get("usage"))
        elif kind == "message_stop":
            self.done = True
        return events

    def body(self, value: Wire) -> list[StreamEvent]:
        message = self.check(value, "message")
        events: list[StreamEvent] = []
        for place, block in enumerate(as_list(message.get("content"))):
            self._start(place, as_object(block), events)
        self._end(message)
        self._count(message.get("usage"))
        self.done = True
        return events

    @staticmethod
    def is_answer(value: Wire) -> TypeGuard[WireObject]:
        return isinstance(value, dict) and isinstance(value.get("content"), list)

    def stop_reason(self) -> StopReason:
        if self._reason is None:
            raise self.truncated()
        if self._reason == "refusal":
            category, explanation = self._details.get("category"), self._details.get("explanation")
            text = f"the model declined to answer{f' ({category})' if category else ''}"
            raise self.fail(f"{text}: {explanation}" if explanation else text, "refused")
        if self._reason == "model_context_window_exceeded":
            # The prompt left too little room, so a shorter prompt is the remedy, as when the prompt itself is too long.
            raise self.fail(f"the answer reached the end of the context window; {TOO_LONG}", "overflow")
        # pause_turn belongs to the server's own tools: what came so far is all there will be.
        return "length" if self._reason == "max_tokens" else "stop"

    def finish(self) -> list[StreamEvent]:
        events: list[StreamEvent] = []
        for part in self._parts:
            call = part.call
            if call is not None and not call.raw and part.input not in (None, ""):
                call.raw = part.input if isinstance(part.input, str) else encode(part.input).decode("utf-8")
                call.pending = call.raw
                self.hand_on(call, events)
        events += super().finish()
        for part in self._parts:
            if part.index is None or not part.signature:
                continue
            block = self.blocks[part.index]
            if block["type"] == "thinking":
                block["signature"] = replace_surrogates(part.signature)
                if not block["thinking"]:
                    # The text stays with the provider; so it is told from thinking whose text was lost.
                    block["redacted"] = True
                    block["providerExtra"] = {"omitted": True}
        ended = events[-1]
        assert isinstance(ended, Finished)
        order = sorted(self._parts, key=lambda part: part.place)  # a block may have opened late, with its first text
        ended.message["content"] = [self.blocks[part.index] for part in order if part.index is not None]
        return events

    def _start(self, index: Wire, block: WireObject, events: list[StreamEvent]) -> None:
        part = self._begin(index, str(block.get("type")))
        if part.kind == "text":
            self._text(part, block.get("text"), events)
        elif part.kind == "thinking":
            self._text(part, block.get("thinking"), events)
            self._sign(part, block.get("signature"), events)
        elif part.kind == "redacted_thinking":
            if data := as_text(block.get("data")):
                hidden: ThinkingBlock = {"type": "thinking", "thinking": "", "signature": data, "redacted": True}
                part.index = self.start(hidden, events)
        elif part.kind == "tool_use":
            part.call = Call(given_id=as_text(block.get("id")), name=as_text(block.get("name")))
            part.input = block.get("input")
            self.calls.calls.append(part.call)
            self.announce(part.call, events)
            part.index = part.call.index

    def _delta(self, index: Wire, delta: WireObject, events: list[StreamEvent]) -> None:
        kind = as_text(delta.get("type"))
        part = self._find(index)
        if part is None:
            if kind not in _KINDS:
                return
            part = self._begin(index, _KINDS[kind])
        if kind == "input_json_delta" and part.call is not None:
            piece = as_text(delta.get("partial_json"))
            part.call.raw += piece
            part.call.pending += piece
            self.hand_on(part.call, events)
        elif _KINDS.get(kind) != part.kind:
            return
        elif kind == "signature_delta":
            self._sign(part, delta.get("signature"), events)
        else:
            self._text(part, delta.get(part.kind), events)

    def _begin(self, index: Wire, kind: str) -> _Part:
        place = index if isinstance(index, int) else max((part.place for part in self._parts), default=-1) + 1
        part = _Part(place, kind)
        self._parts.append(part)
        return part

    def _find(self, index: Wire) -> _Part | None:
        """The newest block at an index; without one the newest of all."""
        return next((part for part in reversed(self._parts) if index is None or part.place == index), None)

    def _text(self, part: _Part, text: Wire, events: list[StreamEvent]) -> None:
        """Append to a text or to thinking. A text opens with its first visible piece; a blank one never does."""
        if not isinstance(text, str) or not text:
            return
        if part.index is None:
            text = part.blank + text
            if part.kind == "text" and not text.strip():
                part.blank = text
                return
            part.index = self.start_text("text" if part.kind == "text" else "thinking", events)
        self.add(part.index, text, events)

    def _sign(self, part: _Part, signature: Wire, events: list[StreamEvent]) -> None:
        if not isinstance(signature, str) or not signature:
            return
        if part.index is None:
            part.index = self.start_text("thinking", events)
        part.signature += signature

    def _end(self, source: WireObject) -> None:
        if reason := as_text(source.get("stop_reason")):
            self._reason = reason
            self._details = as_object(source.get("stop_details"))
            self.finished = True

    def _count(self, raw: Wire) -> None:
        """Counters grow during a stream; some servers leave them out, or at 0, in one of the two places."""
        for key, value in as_object(raw).items():
            old = self._counts.get(key)
            if value is not None and not (isinstance(old, int) and isinstance(value, int) and old > value):
                self._counts[key] = value
        usage = read_anthropic_usage(self._counts, self.request.model)
        if usage is not None and usage["totalTokens"]:
            self.usage = usage
