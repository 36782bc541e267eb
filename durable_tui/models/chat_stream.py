"""Chunks of a Chat Completions stream to events and the final message. Pure; the transport is elsewhere."""

from __future__ import annotations

from typing import Any

from durable_tui.models.answer import Answer
from durable_tui.models.call_fragments import Call
from durable_tui.models.failures import Endpoint
from durable_tui.models.json_text import strict
from durable_tui.models.messages import StopReason
from durable_tui.models.provider import ErrorKind, ModelRequest, StreamEvent
from durable_tui.models.usage import read_chat_usage

_LENGTH = frozenset({"length", "max_tokens", "model_length"})
_FAILED: dict[str, tuple[ErrorKind, str]] = {
    "error": ("server", "the server ended the answer with an error"),
    "insufficient_system_resource": ("overloaded", "the server ran out of resources during the answer"),
    "malformed_function_call": ("malformed", "the model wrote a tool call that the server could not read"),
}
_REASONING = ("reasoning_content", "reasoning", "reasoning_text")


class ChatStream(Answer):
    """The answer of one Chat Completions request."""

    def __init__(self, request: ModelRequest, endpoint: Endpoint, api: str) -> None:
        super().__init__(request, endpoint, api)
        self._open: str | None = None
        self._blank: tuple[str, str] = ("", "")  # kind and text
        self._reason: str | None = None
        self._refused = False

    def value(self, value: Any, event: str = "message") -> list[StreamEvent]:
        chunk = self.check(value, event)
        x_groq = chunk.get("x_groq")
        for raw in (x_groq.get("usage") if isinstance(x_groq, dict) else None, chunk.get("usage")):
            self.usage = read_chat_usage(raw, self.request.model) or self.usage
        events: list[StreamEvent] = []
        choices = chunk.get("choices")
        for choice in choices if isinstance(choices, list) else ():
            if isinstance(choice, dict) and choice.get("index") in (None, 0):
                self._choice(choice, events)
        return events

    def body(self, value: Any) -> list[StreamEvent]:
        if isinstance(value, dict) and isinstance(choices := value.get("choices"), list):
            turned = [{**choice, "delta": choice.get("message")} for choice in choices if isinstance(choice, dict)]
            value = {**value, "choices": turned}
        return self.value(value)

    @staticmethod
    def is_answer(value: Any) -> bool:
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

    def _choice(self, choice: dict[str, Any], events: list[StreamEvent]) -> None:
        delta = choice.get("delta")
        if isinstance(delta, dict):
            self._delta(delta, events)
        reason = choice.get("finish_reason")
        if isinstance(reason, str) and reason:
            self._reason = reason.lower()
            self.finished = True

    def _delta(self, delta: dict[str, Any], events: list[StreamEvent]) -> None:
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
        for position, fragment in enumerate(fragments if isinstance(fragments, list) else ()):
            call = self.calls.add(fragment, position)
            if call is not None:
                self._call(call, events)

    def _reasoning(self, delta: dict[str, Any], events: list[StreamEvent]) -> None:
        text = ""
        for name in _REASONING:
            value = delta.get(name)
            if isinstance(value, str):
                self.extra.setdefault("reasoningField", name)
                # Some send the same text under two names.
                text = text or value
        details = delta.get("reasoning_details")
        for detail in details if isinstance(details, list) else ():
            if isinstance(detail, dict):
                if not text and isinstance(detail.get("text"), str):
                    text = detail["text"]
                self._detail(strict(detail))
        self._text("thinking", text, events)

    def _detail(self, detail: dict[str, Any]) -> None:
        """Pieces of one reasoning detail are joined; what is sent back is the whole."""
        details = self.extra.setdefault("reasoningDetails", [])
        last = details[-1] if details else None
        if last is None or any(last.get(key) != detail.get(key) for key in ("type", "index")):
            details.append(detail)
            return
        for key, value in detail.items():
            if key in ("text", "summary", "data") and isinstance(value, str) and isinstance(last.get(key), str):
                last[key] += value
            elif value is not None:
                last[key] = value

    def _parts(self, parts: list[Any], events: list[StreamEvent]) -> None:
        for part in parts:
            if not isinstance(part, dict):
                continue
            if isinstance(part.get("text"), str):
                self._text("text", part["text"], events)
            elif isinstance(thinking := part.get("thinking"), list):
                for piece in thinking:
                    if isinstance(piece, dict) and isinstance(piece.get("text"), str):
                        self._text("thinking", piece["text"], events)

    def _text(self, kind: str, text: str, events: list[StreamEvent]) -> None:
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
            self.start({"type": kind, kind: ""}, events)
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
