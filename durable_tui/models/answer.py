"""An answer put together from a stream: what the three protocols share. Pure; the transport is elsewhere."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import TYPE_CHECKING, TypeGuard

from durable_tui.ground.clock import now_ms
from durable_tui.ground.text import replace_surrogates
from durable_tui.models.call_fragments import Call, CallAssembler, finish_call
from durable_tui.models.failures import Endpoint, classify, error_in
from durable_tui.models.json_text import Wire, WireObject, decode
from durable_tui.models.messages import (
    AnswerBlock,
    AssistantMessage,
    Message,
    StopReason,
    TextKind,
    ToolCallBlock,
    Usage,
    answer_blocks,
    text_block,
)
from durable_tui.models.provider import (
    BlockDelta,
    BlockStart,
    ErrorKind,
    Finished,
    ModelError,
    ModelRequest,
    StreamEvent,
)
from durable_tui.models.usage import estimate_tokens, estimated_usage

if TYPE_CHECKING:
    from durable_tui.delta import Json


class Answer(ABC):
    """Feed it the data of events with `chunk`; when the body ended, `finish` gives the terminal event or raises.

    `finished` is true once the answer's end was announced: what comes after it is usage at most. `done` is true when
    nothing more follows. `chunks` counts the events understood.
    """

    def __init__(self, request: ModelRequest, endpoint: Endpoint, api: str) -> None:
        self.finished = False
        self.done = False
        self.chunks = 0
        self.request = request
        self.endpoint = endpoint
        self.api = api
        self.blocks: list[AnswerBlock] = []
        self.usage: Usage | None = None
        self.extra: dict[str, Json] = {}
        self.calls = CallAssembler(_ids(request.messages))
        self._announced: dict[int, Call] = {}
        self._carry: dict[int, str] = {}
        # Joined at the end: growing a text piece by piece would copy it each time.
        self._texts: dict[int, list[str]] = {}

    # -- what a protocol brings ------------------------------------------------------------------------------------

    @abstractmethod
    def value(self, value: Wire, event: str = "message") -> list[StreamEvent]:
        """The events of one chunk, already parsed. Raises ModelError."""

    @abstractmethod
    def body(self, value: Wire) -> list[StreamEvent]:
        """The events of a whole answer that came instead of a stream. Raises ModelError."""

    @abstractmethod
    def stop_reason(self) -> StopReason:
        """Return why the answer ended. Raises ModelError when its end was not announced or means failure."""

    @staticmethod
    @abstractmethod
    def is_answer(value: Wire) -> TypeGuard[WireObject]:
        """Whether a JSON value is a whole answer of this protocol."""

    # -- feeding ---------------------------------------------------------------------------------------------------

    def chunk(self, data: str, event: str = "message") -> list[StreamEvent]:
        """The events of one data text. Raises ModelError for an error object and for what is no JSON."""
        data = data.strip()
        if not data:
            return []
        if data == "[DONE]":
            self.done = True
            return []
        try:
            value = decode(data)
        except (ValueError, RecursionError):
            raise self.fail(f"sent a chunk that is no JSON: {data[:120]}", "malformed") from None
        return self.value(value, event)

    def finish(self) -> list[StreamEvent]:
        """The remaining events, Finished last. Raises ModelError when the terminal event is missing or means failure."""
        stop = self.stop_reason()
        events: list[StreamEvent] = []
        self.flush(events)
        for call in self.calls.calls:
            self.announce(call, events)
        for index, pieces in self._texts.items():
            block = self.blocks[index]
            if block["type"] == "text":
                block["text"] += "".join(pieces)
            elif block["type"] == "thinking":
                block["thinking"] += "".join(pieces)
        for index, call in self._announced.items():
            self.blocks[index] = finish_call(call, stop == "length")
        if stop == "stop" and self._announced:
            stop = "toolUse"
        events.append(Finished(self._message(stop)))
        return events

    def check(self, value: Wire, event: str) -> WireObject:
        """The chunk as an object. Raises ModelError for an error inside the stream and for anything else."""
        if error_in(value) is not None or (event == "error" and value):
            raise classify(self.endpoint, None, error_in(value) or value, usage=self.spent())
        if not isinstance(value, dict):
            raise self.fail("sent a chunk that is no JSON object", "malformed")
        self.chunks += 1
        return value

    def fail(self, text: str, kind: ErrorKind) -> ModelError:
        """A ModelError of this endpoint with what the attempt has cost."""
        return self.endpoint.fail(text, kind, usage=self.spent())

    def truncated(self) -> ModelError:
        """The error of a stream without its terminal event."""
        what = "before its end was announced" if self.chunks else "without an answer"
        return self.fail(f"the stream ended {what}", "truncated")

    def spent(self) -> Usage | None:
        """Return the usage so far, when it was counted; without its end, what came since is estimated, unpriced."""
        if self.usage is None:
            return None
        usage = self.usage.copy()
        since = estimate_tokens(*("".join(pieces) for pieces in self._texts.values())) - self.usage["output"]
        if since > 0 and not self.finished:
            usage["output"] += since
            usage["totalTokens"] += since
            if "cost" in usage:
                usage["unpriced"] = since
        return usage

    # -- blocks ----------------------------------------------------------------------------------------------------

    def start(self, block: AnswerBlock, events: list[StreamEvent]) -> int:
        """Begin a block; its index."""
        self.blocks.append(block.copy())
        index = len(self.blocks) - 1
        events.append(BlockStart(index, block))
        return index

    def start_text(self, kind: TextKind, events: list[StreamEvent]) -> int:
        """Begin a text or a thinking block; its index."""
        return self.start(text_block(kind), events)

    def add(self, index: int, text: str, events: list[StreamEvent]) -> None:
        """Append to the text of a text or thinking block; halves of a surrogate pair wait for each other."""
        text = self._carry.pop(index, "") + text
        if text and "\ud800" <= text[-1] <= "\udbff":
            self._carry[index] = text[-1]
            text = text[:-1]
        self._append(index, text, events)

    def flush(self, events: list[StreamEvent]) -> None:
        """Nothing more comes for the open texts."""
        for index in list(self._carry):
            self._append(index, self._carry.pop(index), events)

    def _append(self, index: int, text: str, events: list[StreamEvent]) -> None:
        text = replace_surrogates(text)
        if text:
            self._texts.setdefault(index, []).append(text)
            events.append(BlockDelta(index, text))

    def announce(self, call: Call, events: list[StreamEvent]) -> None:
        """Begin the call's block, once."""
        if call.index is not None:
            return
        id = self.calls.settle_id(call)
        block: ToolCallBlock = {"type": "toolCall", "id": id, "name": replace_surrogates(call.name), "arguments": {}}
        call.index = self.start(block, events)
        self._announced[call.index] = call
        self.hand_on(call, events)

    def hand_on(self, call: Call, events: list[StreamEvent]) -> None:
        """Give the call's new text to its block."""
        if call.index is not None and call.pending:
            events.append(BlockDelta(call.index, replace_surrogates(call.pending)))
            call.pending = ""

    # -- the message -----------------------------------------------------------------------------------------------

    def _message(self, stop: StopReason) -> AssistantMessage:
        model = self.request.model
        usage = self.usage
        if usage is None:
            prompt = estimate_tokens(self.request.system, self.request.messages, self.request.tools)
            usage = estimated_usage(prompt, estimate_tokens(self.blocks))
            self.extra["usageEstimated"] = True
        message: AssistantMessage = {
            "role": "assistant",
            "content": self.blocks,
            "api": self.api,
            "provider": model.provider,
            "model": model.model_id,
            "usage": usage,
            "stopReason": stop,
            "timestamp": now_ms(),
        }
        if self.extra:
            message["providerExtra"] = self.extra
        return message


def _ids(messages: Sequence[Message]) -> set[str]:
    """The ids of calls in the request: servers that count calls anew each turn repeat them."""
    return {
        str(block["id"])
        for message in messages
        if message["role"] == "assistant"
        for block in answer_blocks(message)
        if block["type"] == "toolCall" and block.get("id")
    }
