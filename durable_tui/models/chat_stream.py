"""Chunks of a Chat Completions stream to events and the final message. Pure; the transport is elsewhere."""

from __future__ import annotations

import json
import time
from typing import Any

from durable_tui.models.calls import Call, CallAssembler, finish_call
from durable_tui.models.failures import Endpoint, classify, error_in
from durable_tui.models.jsontext import replace_surrogates, strict
from durable_tui.models.messages import AssistantMessage, StopReason, Usage
from durable_tui.models.provider import BlockDelta, BlockStart, ErrorKind, Finished, ModelRequest, StreamEvent
from durable_tui.models.usage import estimate_tokens, estimated_usage, read_chat_usage

_LENGTH = frozenset({"length", "max_tokens", "model_length"})
_FAILED: dict[str, tuple[ErrorKind, str]] = {
    "error": ("server", "the server ended the answer with an error"),
    "insufficient_system_resource": ("overloaded", "the server ran out of resources during the answer"),
    "malformed_function_call": ("malformed", "the model wrote a tool call that the server could not read"),
}
_REASONING = ("reasoning_content", "reasoning", "reasoning_text")


class ChatStream:
    """Feed it the data of events with `chunk`; when the body ended, `finish` gives the terminal event or raises.

    `finished` is true once a finish reason was seen: what comes after it is usage at most. `done` is true after [DONE].
    """

    def __init__(self, request: ModelRequest, endpoint: Endpoint, api: str) -> None:
        self.finished = False
        self.done = False
        self.chunks = 0
        self._request = request
        self._endpoint = endpoint
        self._api = api
        self._blocks: list[dict[str, Any]] = []
        self._calls = CallAssembler(_ids(request.messages))
        self._announced: dict[int, Call] = {}
        self._open: str | None = None
        self._blank: tuple[str, str] = ("", "")  # kind and text
        self._carry = ""
        self._reason: str | None = None
        self._usage: Usage | None = None
        self._reasoning_field: str | None = None
        self._reasoning_details: list[dict[str, Any]] = []
        self._refused = False

    def chunk(self, data: str, event: str = "message") -> list[StreamEvent]:
        """The events of one data text. Raises ModelError for an error object and for what is no JSON."""
        data = data.strip()
        if not data:
            return []
        if data == "[DONE]":
            self.done = True
            return []
        try:
            value = json.loads(data, parse_constant=lambda _: None)
        except (ValueError, RecursionError):
            raise self._endpoint.fail(
                f"sent a chunk that is no JSON: {data[:120]}", "malformed", usage=self.spent()
            ) from None
        return self.value(value, event)

    def value(self, value: Any, event: str = "message") -> list[StreamEvent]:
        """The events of one chunk, already parsed."""
        if error_in(value) is not None or (event == "error" and value):
            raise classify(self._endpoint, None, error_in(value) or value, usage=self.spent())
        if not isinstance(value, dict):
            raise self._endpoint.fail("sent a chunk that is no JSON object", "malformed", usage=self.spent())
        self.chunks += 1
        x_groq = value.get("x_groq")
        for raw in (x_groq.get("usage") if isinstance(x_groq, dict) else None, value.get("usage")):
            self._usage = read_chat_usage(raw, self._request.model) or self._usage
        events: list[StreamEvent] = []
        choices = value.get("choices")
        for choice in choices if isinstance(choices, list) else ():
            if isinstance(choice, dict) and choice.get("index") in (None, 0):
                self._choice(choice, events)
        return events

    def body(self, value: Any) -> list[StreamEvent]:
        """The events of a whole `chat.completion` that came instead of a stream."""
        if isinstance(value, dict) and isinstance(choices := value.get("choices"), list):
            turned = [{**choice, "delta": choice.get("message")} for choice in choices if isinstance(choice, dict)]
            value = {**value, "choices": turned}
        return self.value(value)

    def finish(self) -> list[StreamEvent]:
        """The remaining events, Finished last. Raises ModelError when the terminal event is missing or means failure."""
        if self._reason is None:
            what = "before its end was announced" if self.chunks else "without an answer"
            raise self._endpoint.fail(f"the stream ended {what}", "truncated", usage=self.spent())
        if self._reason in _FAILED:
            kind, text = _FAILED[self._reason]
            raise self._endpoint.fail(text, kind, usage=self.spent())
        if self._reason == "content_filter":
            raise self._endpoint.fail("the content filter stopped the answer", "refused", usage=self.spent())
        events: list[StreamEvent] = []
        self._flush_carry(events)
        cut = self._reason in _LENGTH
        for call in self._calls.calls:
            self._announce(call, events)
        for index, call in self._announced.items():
            self._blocks[index] = dict(finish_call(call, cut))
        events.append(Finished(self._message("length" if cut else "toolUse" if self._announced else "stop")))
        return events

    def _message(self, stop: StopReason) -> AssistantMessage:
        model = self._request.model
        extra: dict[str, Any] = {}
        usage = self._usage
        if usage is None:
            prompt = estimate_tokens(self._request.system, self._request.messages, self._request.tools)
            usage = estimated_usage(prompt, estimate_tokens(self._blocks))
            extra["usageEstimated"] = True
        if self._reasoning_field:
            extra["reasoningField"] = self._reasoning_field
        if self._reasoning_details:
            extra["reasoningDetails"] = self._reasoning_details
        message: AssistantMessage = {
            "role": "assistant",
            "content": self._blocks,
            "api": self._api,
            "provider": model.provider,
            "model": model.model_id,
            "usage": usage,
            "stopReason": stop,
            "timestamp": int(time.time() * 1000),
        }
        if extra:
            message["providerExtra"] = extra
        return message

    def spent(self) -> dict[str, Any] | None:
        """What the attempt is known to have cost so far."""
        return dict(self._usage) if self._usage else None

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
            call = self._calls.add(fragment, position)
            if call is not None:
                self._call(call, events)

    def _reasoning(self, delta: dict[str, Any], events: list[StreamEvent]) -> None:
        text = ""
        for name in _REASONING:
            value = delta.get(name)
            if isinstance(value, str):
                self._reasoning_field = self._reasoning_field or name
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
        last = self._reasoning_details[-1] if self._reasoning_details else None
        if last is None or any(last.get(key) != detail.get(key) for key in ("type", "index")):
            self._reasoning_details.append(detail)
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
            self._flush_carry(events)
            text = waiting + text
            self._blank = ("", "")
            self._open = kind
            key = "text" if kind == "text" else "thinking"
            self._blocks.append({"type": kind, key: ""})
            events.append(BlockStart(len(self._blocks) - 1, {"type": kind, key: ""}))
        text = self._carry + text
        self._carry = ""
        if "\ud800" <= text[-1] <= "\udbff":
            # The other half of the pair comes with the next piece.
            self._carry = text[-1]
            text = text[:-1]
        self._append(text, events)

    def _append(self, text: str, events: list[StreamEvent]) -> None:
        text = replace_surrogates(text)
        if not text:
            return
        index = len(self._blocks) - 1
        block = self._blocks[index]
        block[block["type"]] += text
        if self._refused and block["type"] == "text":
            block["providerExtra"] = {"refusal": True}
        events.append(BlockDelta(index, text))

    def _flush_carry(self, events: list[StreamEvent]) -> None:
        if self._carry:
            text, self._carry = self._carry, ""
            self._append(text, events)

    def _call(self, call: Call, events: list[StreamEvent]) -> None:
        if call.index is None and call.name:
            self._announce(call, events)
        elif call.index is not None and call.pending:
            events.append(BlockDelta(call.index, replace_surrogates(call.pending)))
            call.pending = ""

    def _announce(self, call: Call, events: list[StreamEvent]) -> None:
        if call.index is not None:
            return
        self._flush_carry(events)
        self._open = None
        self._blank = ("", "")
        call.index = len(self._blocks)
        id = self._calls.settle_id(call)
        block = {"type": "toolCall", "id": id, "name": replace_surrogates(call.name), "arguments": {}}
        self._blocks.append(block)
        self._announced[call.index] = call
        events.append(BlockStart(call.index, dict(block)))
        if call.pending:
            events.append(BlockDelta(call.index, replace_surrogates(call.pending)))
            call.pending = ""


def _ids(messages: list[dict[str, Any]]) -> set[str]:
    """The ids of calls in the request: servers that count calls anew each turn repeat them."""
    return {
        str(block["id"])
        for message in messages
        if message.get("role") == "assistant" and isinstance(message.get("content"), list)
        for block in message["content"]
        if block.get("type") == "toolCall" and block.get("id")
    }
