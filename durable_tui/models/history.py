"""A neutral history (spec 17.3) put in the order every protocol wants. Pure; the protocols only write it down.

What all servers ask is settled here once: each tool call has exactly one result, directly after its message and in call
order; ids are unique, not empty and in the form the server takes; no text is blank and no message empty; failed and
aborted answers are never sent; a result without its call is told by the user; images that a model cannot see are named.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

from durable_tui.ground.text import replace_surrogates
from durable_tui.models.images import placeholder
from durable_tui.models.json_text import WireObject, as_object, encode
from durable_tui.models.messages import (
    AnswerBlock,
    AssistantMessage,
    ImageBlock,
    Message,
    TextBlock,
    ToolCallBlock,
    ToolDescription,
    ToolResultMessage,
    UserBlock,
    UserMessage,
    answer_blocks,
)
from durable_tui.models.provider import Model

if TYPE_CHECKING:
    from durable_tui.delta import JsonObject

EMPTY_OUTPUT = "(no output)"
EMPTY_INPUT = "(empty message)"
NO_RESULT = "(no result was recorded for this call)"
UNSENT = frozenset({"error", "aborted", "deferred"})

IdForm = Literal["plain", "alnum9"]


@dataclass(slots=True, frozen=True)
class UserTurn:
    """What a user says: text and image blocks, at least one."""

    parts: list[UserBlock]


@dataclass(slots=True, frozen=True)
class CallTurn:
    """One call and its result: `block` as stored, `id` and `name` as the server takes them, text and image blocks."""

    block: ToolCallBlock
    id: str
    name: str
    result: list[UserBlock]
    is_error: bool

    @property
    def arguments(self) -> WireObject:
        """The arguments; an object whatever was stored."""
        return as_object(self.block.get("arguments"))

    @property
    def arguments_text(self) -> str:
        """The arguments as strict JSON."""
        return encode(self.arguments).decode("utf-8")


@dataclass(slots=True, frozen=True)
class AnswerTurn:
    """What a model said. `same` is true when this provider said it over this API, `same_model` when this model did too."""

    message: AssistantMessage
    same: bool
    same_model: bool
    calls: list[CallTurn]

    @property
    def blocks(self) -> list[AnswerBlock]:
        """Its blocks in order."""
        return answer_blocks(self.message)

    @property
    def texts(self) -> list[str]:
        """Its texts that are not blank."""
        return [block["text"] for block in self.blocks if block["type"] == "text" and block.get("text", "").strip()]


Turn = UserTurn | AnswerTurn


@dataclass(slots=True)
class History:
    """Turns messages into turns for one model. `ids` is the form of ids that the server takes."""

    model: Model
    ids: IdForm = "plain"
    out: list[Turn] = field(default_factory=list)
    used: set[str] = field(default_factory=set)

    def turns(self, messages: Sequence[Message]) -> list[Turn]:
        """All of it. An answer without text and calls is left out."""
        position = 0
        unsent: set[str] = set()
        while position < len(messages):
            message = messages[position]
            position += 1
            if message["role"] == "user":
                self._user(message)
            elif message["role"] == "toolResult":
                self._orphan(message)
            elif message["role"] == "assistant":
                end = next(
                    (i for i in range(position, len(messages)) if messages[i]["role"] == "assistant"), len(messages)
                )
                following = messages[position:end]
                position = end
                if message.get("stopReason") in UNSENT:
                    unsent |= {call.get("id", "") for call in _calls(message)}
                    rest = following
                else:
                    rest = self._answer(message, following)
                for other in rest:
                    if other["role"] == "user":
                        self._user(other)
                    elif other["role"] == "toolResult" and other.get("toolCallId") not in unsent:
                        self._orphan(other)
        return self.out

    def _user(self, message: UserMessage) -> None:
        self.out.append(UserTurn(self.parts(message.get("content", "")) or [{"type": "text", "text": EMPTY_INPUT}]))

    def _answer(self, message: AssistantMessage, following: Sequence[Message]) -> Sequence[Message]:
        """Append the answer with the results of its calls; the messages of `following` that are left."""
        same = message.get("provider") == self.model.provider and message.get("api", self.model.api) == self.model.api
        rest = list(following)
        calls: list[CallTurn] = []
        for call in _calls(message):
            stored_id = call.get("id", "")
            results = (m for m in rest if m["role"] == "toolResult" and m.get("toolCallId") == stored_id)
            result = next(results, None)
            content: list[UserBlock] = [{"type": "text", "text": NO_RESULT}]
            if result is not None:
                rest = [other for other in rest if other is not result]
                content = self.parts(result.get("content", []))
            is_error = result is None or bool(result.get("isError"))
            calls.append(CallTurn(call, self._id(stored_id, same), tool_name(call.get("name", "")), content, is_error))
        turn = AnswerTurn(message, same, same and message.get("model") == self.model.model_id, calls)
        if calls or turn.texts:
            self.out.append(turn)
        return rest

    def _orphan(self, message: ToolResultMessage) -> None:
        """A result whose call is not in the request: said by the user, as servers refuse it otherwise."""
        head: TextBlock = {"type": "text", "text": f"(Earlier result of {message.get('toolName') or 'a tool'})"}
        parts = self.parts(message.get("content", []))
        self.out.append(UserTurn([head, *(parts or [{"type": "text", "text": EMPTY_OUTPUT}])]))

    def _id(self, id: str, same: bool) -> str:
        """An id in the form this server takes, unique in the request."""
        alnum9 = self.ids == "alnum9"
        if alnum9:
            wire = id if re.fullmatch(r"[A-Za-z0-9]{9}", id) else digest(id, 9)
        elif same and id:
            wire = id
        else:
            wire = id if re.fullmatch(r"[A-Za-z0-9_\-]{1,40}", id) else "call_" + digest(id, 24)
        number = 0
        while wire in self.used:
            number += 1
            again = f"{id}\n{number}"
            wire = digest(again, 9) if alnum9 else "call_" + digest(again, 24)
        self.used.add(wire)
        return wire

    def parts(self, content: Iterable[UserBlock] | str) -> list[UserBlock]:
        """Text and image blocks without blank ones; images that the model cannot see as texts."""
        if isinstance(content, str):
            content = [{"type": "text", "text": content}]
        parts: list[UserBlock] = []
        for block in (block for block in content if block.get("type") in ("text", "image")):
            if block["type"] == "image":
                if self.model.images is False:
                    parts.append({"type": "text", "text": placeholder(block)})
                else:
                    parts.append(block)
            elif block.get("text", "").strip():
                parts.append({"type": "text", "text": block["text"]})
        return parts


def _calls(message: AssistantMessage) -> list[ToolCallBlock]:
    return [block for block in answer_blocks(message) if block["type"] == "toolCall"]


def data_url(block: ImageBlock) -> str:
    """An image block as a data URL."""
    return f"data:{block['mimeType']};base64,{block['data']}"


def joined(parts: Sequence[Mapping[str, object]]) -> str | None:
    """The texts in one when there is nothing but text, else None."""
    texts = [str(part["text"]) for part in parts if part["type"] == "text"]
    return "\n".join(texts) if len(texts) == len(parts) else None


def tool_name(name: str) -> str:
    """A name that a model made up is sent back in the form servers accept."""
    return re.sub(r"[^A-Za-z0-9_\-]", "_", name)[:64] or "unnamed_tool"


def parameters_of(tool: ToolDescription) -> JsonObject:
    """A tool's JSON schema; an empty object's when it has none."""
    return tool.get("parameters") or {"type": "object", "properties": {}}


def digest(text: str, length: int) -> str:
    """A stable text of `length` hexadecimal digits."""
    return hashlib.sha256(replace_surrogates(text).encode("utf-8")).hexdigest()[:length]
