"""Chunks of a Chat Completions stream to events and the final message. Pure; the transport is elsewhere."""

from __future__ import annotations

from typing import TypeGuard

from durable_tui.models.answer import Answer
from durable_tui.models.call_fragments import Call
from durable_tui.models.chat_request import REASONING_FIELDS
from durable_tui.models.failures import Endpoint
from durable_tui.models.json_text import Wire, WireObject, as_list, as_object, as_objects, as_text, strict
from durable_tui.models.messages import StopReason, TextKind
from durable_tui.models.provider import ErrorKind, ModelRequest, StreamEvent
from durable_tui.models.usage import read_chat_usage

_LENGTH = frozenset({"length", "max_tokens", "model_length"})
_FAILED: dict[str, tuple[ErrorKind, str]] = {
    "error": ("server", "the server ended the answer with an error"),
    "insufficient_system_resource": ("overloaded", "the server ran out of resources during the answer"),
    "malformed_function_call": ("malformed", "the model wrote a tool call that the server could not read"),
}


class ChatStream(Answer):
    """The answer of one Chat Completions request."""

    def __init__(self, request: ModelRequest, endpoint: Endpoint, api: str) -> None:
        super().__init__(request, endpoint, api)
        self._open: TextKind | None = None
        self._blank: tuple[str, str] = ("", "")  # kind and text
        self._reason: str | None = None
        self._refused = False
        self._details: list[WireObject] = []  # of its reasoning, as they go back

    def value(self, value: Wire, event: str = "message") -> list[StreamEvent]:
        chunk = self.check(value, event)
        for raw in (as_object(chunk.get("x_groq")).get("usage"), chunk.get("usage")):
            self.usage = read_chat_usage(raw, self.request.model) or self.usage
        events: list[StreamEvent] = []
        for choice in as_objects(chunk.get("choices")):
            if choice.get("index") in (None, 0):
                self._choice(choice, events)
        return events

    def body(self, value: Wire) -> list[StreamEvent]:
        if isinstance(value, dict) and isinstance(choices := value.get("choices"), list):
            turned: list[Wire] = [{**choice, "delta": choice.get("message")} for choice in as_objects(choices)]
            value = {**value, "choices": turned}
        return self.value(value)

    @staticmethod
    def is_answer(value: Wire) -> TypeGuard[WireObject]:
        return isinstance(value, dict) and "choices" in value

    def stop_reason(self) -> StopReason:
        if self._reason is None:
            raise self.truncated()
        if self._reason in _FAILED:
            kind, text = _FAILED[self._reason]
            raise self.fail(text, kind)
        if self._reason == "content_filter":
            raise self.fail("the content filter stopped the answer", "refused")
        return "length" if self._reason in _LENGTH else "stop"

    def _choice(self, choice: WireObject, events: list[StreamEvent]) -> None:
        delta = choice.get("delta")
        if isinstance(delta, dict):
            self._delta(delta, events)
        reason = choice.get("finish_reason")
        if isinstance(reason, str) and reason:
            self._reason = reason.lower()
            self.finished = True

    def _delta(self, delta: WireObject, events: list[StreamEvent]) -> None:
        self._reasoning(delta, events)
        content = delta.get("content")
        if isinstance(content, str):
            self._text("text", content, events)
        elif isinstance(content, list):
            self._parts(content, events)
        refusal = delta.get("refusal")
        if isinstance(refusal, str) and refusal:
            self._refused = True
            self._text("text", refusal, events)
        fragments = delta.get("tool_calls")
        legacy = delta.get("function_call")
        if isinstance(legacy, dict) and not fragments:
            fragments = [{"index": 0, "function": legacy}]
        for position, fragment in enumerate(as_list(fragments)):
            call = self.calls.add(fragment, position)
            if call is not None:
                self._call(call, events)

    def _reasoning(self, delta: WireObject, events: list[StreamEvent]) -> None:
        text = ""
        for name in REASONING_FIELDS:
            value = delta.get(name)
            if isinstance(value, str):
                self.extra.setdefault("reasoningField", name)
                # Some send the same text under two names.
                text = text or value
        for detail in as_objects(delta.get("reasoning_details")):
            text = text or as_text(detail.get("text"))
            self._detail(strict(detail))
        self._text("thinking", text, events)

    def _detail(self, detail: WireObject) -> None:
        """Pieces of one reasoning detail are joined; what is sent back is the whole."""
        last = self._details[-1] if self._details else None
        if last is None or any(last.get(key) != detail.get(key) for key in ("type", "index")):
            self._details.append(detail)
            self.extra["reasoningDetails"] = self._details
            return
        for key, value in detail.items():
            start = last.get(key)
            if key in ("text", "summary", "data") and isinstance(value, str) and isinstance(start, str):
                last[key] = start + value
            elif value is not None:
                last[key] = value

    def _parts(self, parts: list[Wire], events: list[StreamEvent]) -> None:
        for part in as_objects(parts):
            if isinstance(text := part.get("text"), str):
                self._text("text", text, events)
            else:
                for piece in as_objects(part.get("thinking")):
                    self._text("thinking", as_text(piece.get("text")), events)

    def _text(self, kind: TextKind, text: str, events: list[StreamEvent]) -> None:
        if not text:
            return
        if self._open != kind:
            # A block opens with its first text that is not blank; blanks before it wait, or are dropped with it.
            waiting = self._blank[1] if self._blank[0] == kind else ""
            if not text.strip():
                self._blank = (kind, waiting + text)
                return
            self.flush(events)
            text = waiting + text
            self._blank = ("", "")
            self._open = kind
            self.start_text(kind, events)
        index = len(self.blocks) - 1
        self.add(index, text, events)
        if self._refused and kind == "text":
            self.blocks[index]["providerExtra"] = {"refusal": True}

    def _call(self, call: Call, events: list[StreamEvent]) -> None:
        if call.index is None and call.name:
            self.flush(events)
            self._open = None
            self._blank = ("", "")
            self.announce(call, events)
        else:
            self.hand_on(call, events)
