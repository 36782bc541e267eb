"""The model's context: entries turned into messages a provider accepts (spec 11)."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Set
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from durable_tui.models.messages import is_call, message_text
from durable_tui.models.usage import IMAGE_TOKENS
from durable_tui.session import Commit, Session
from durable_tui.storage.protocol import Reader

if TYPE_CHECKING:
    from durable_tui.models.messages import (
        AnswerBlock,
        AssistantMessage,
        Message,
        SystemMessage,
        ToolCallBlock,
        ToolDescription,
        ToolResultMessage,
    )
    from durable_tui.storage.records import EntryEdit, EntryRecord

LEFT_OUT = frozenset({"error", "aborted", "deferred"})
NO_RESULT = "No result was recorded for this tool call; it may have partly run."


@dataclass(slots=True)
class _Unit:
    """A message, and for an assistant's tool calls the results known so far."""

    message: Message
    calls: list[ToolCallBlock] = field(default_factory=list)
    results: dict[str, ToolResultMessage] = field(default_factory=dict)

    @property
    def complete(self) -> bool:
        return all(call["id"] in self.results for call in self.calls)

    def messages(self) -> list[Message]:
        if not self.calls:
            return [self.message]
        answers = [self.results.get(call["id"]) or missing_result(call, self.message) for call in self.calls]
        return [self.message, *answers]


def missing_result(call: ToolCallBlock, message: Message) -> ToolResultMessage:
    """A synthetic error for a call without a result; it is never stored."""
    return {
        "role": "toolResult",
        "toolCallId": call["id"],
        "toolName": call["name"],
        "content": [{"type": "text", "text": NO_RESULT}],
        "isError": True,
        "timestamp": message.get("timestamp", 0),
    }


def call_ids(messages: Iterable[Message]) -> set[str]:
    """The ids of all tool calls in some messages."""
    return {
        block["id"]
        for message in messages
        if message["role"] == "assistant"
        for block in message["content"]
        if is_call(block)
    }


def unique_call_ids(message: AssistantMessage, earlier: Set[str]) -> AssistantMessage:
    """The answer with call ids that are not empty and unlike those of `earlier` calls, whatever its provider gave."""
    if not any(map(is_call, message["content"])):
        return message
    own: set[str] = set()
    content: list[AnswerBlock] = []
    for block in message["content"]:
        if is_call(block):
            given = block["id"].strip() or f"call_{len(earlier) + len(own)}"
            candidate, number = given, 2
            while candidate in earlier or candidate in own:
                candidate, number = f"{given}_{number}", number + 1
            own.add(candidate)
            if candidate != block["id"]:
                block = {**block, "id": candidate}
        content.append(block)
    return {**message, "content": content}


class ContextCache:
    """The context of one conversation, grown entry by entry; flat cost per round however long it is."""

    def __init__(self) -> None:
        self.last_id = 0
        self.newest = 0  # the newest entry that the messages, the prompt or the tools come from
        self.sections: dict[str, str] = {}
        self.tools: dict[str, ToolDescription] = {}
        self.call_ids: set[str] = set()  # of every call the messages hold
        self.has_prompt = False
        self.valid = True
        self._head = 0
        self._flat: list[Message] = []
        self._tail: list[_Unit] = []
        self._by_call: dict[str, _Unit] = {}
        self._attempts: list[int] = []  # entry ids of all model responses, failed ones too
        self._turns: list[int] = []  # for each, 1 when it is a turn
        self._costs: list[float] = []
        self._used_tokens = 0
        self._characters = 0

    def add(self, entry: EntryRecord) -> None:
        """Take in the next entry; edits and heads make the cache invalid, to be built anew."""
        if entry["id"] <= self.last_id:
            return
        if entry.get("edits") or "head" in entry:
            self.valid = False
            return
        self.last_id = entry["id"]
        for message in entry.get("model", ()):
            self._add_message(entry["id"], message)

    def _add_message(self, entry_id: int, message: Message) -> None:
        if message["role"] != "assistant" or not _is_left_out(message):
            self.newest = entry_id
        if message["role"] == "system":
            self._add_system(message)
        elif message["role"] == "assistant":
            self._add_assistant(entry_id, message)
        elif message["role"] == "toolResult":
            unit = self._by_call.get(message["toolCallId"])
            if unit is not None and message["toolCallId"] not in unit.results:
                unit.results[message["toolCallId"]] = message
                self._count(message)
        else:
            self._close_complete()
            self._tail.append(_Unit(message))
            self._count(message)

    def _add_system(self, message: SystemMessage) -> None:
        self.has_prompt = True
        for key, text in message.get("sections", {}).items():
            if text is None:
                self.sections.pop(key, None)
            else:
                self.sections[key] = text
        for removed in message.get("toolsRemoved", ()):
            self.tools.pop(removed["name"], None)
        for added in message.get("toolsAdded", ()):
            self.tools[added["name"]] = added

    def _add_assistant(self, entry_id: int, message: AssistantMessage) -> None:
        self._attempts.append(entry_id)
        self._turns.append(0 if _is_left_out(message) else 1)
        self._costs.append(message.get("usage", {}).get("cost", {}).get("total", 0.0))
        if _is_left_out(message):
            return
        self._close_complete()
        calls = [block for block in message["content"] if is_call(block)]
        unit = _Unit(message, calls)
        for call in calls:
            self._by_call[call["id"]] = unit
            self.call_ids.add(call["id"])
        self._tail.append(unit)
        usage = message.get("usage", {})
        total = usage.get("input", 0) + usage.get("cacheRead", 0) + usage.get("cacheWrite", 0) + usage.get("output", 0)
        if total:
            self._used_tokens, self._characters = total, 0
        else:
            self._count(message)

    def _count(self, message: Message) -> None:
        content = message["content"]
        images = 0 if isinstance(content, str) else sum(block.get("type") == "image" for block in content)
        self._characters += len(message_text(message)) + images * IMAGE_TOKENS * 4

    def _close_complete(self) -> None:
        while self._tail and self._tail[0].complete:
            unit = self._tail.pop(0)
            for call in unit.calls:
                self._by_call.pop(call["id"], None)
            self._flat.extend(unit.messages())

    def messages(self) -> list[Message]:
        """The messages in order, each call answered right after its message, in call order."""
        messages = list(self._flat)
        for unit in self._tail:
            messages.extend(unit.messages())
        return messages

    def system(self) -> str:
        """The system prompt as the transcript has it now."""
        return "\n\n".join(text for text in self.sections.values() if text)

    def tokens(self) -> int:
        """What the last answer used, and an estimate of what came after (four characters a token)."""
        return self._used_tokens + self._characters // 4

    def turns_since(self, entry_id: int) -> tuple[int, float]:
        """How many turns came after an entry, and the cost in USD of all attempts since, failed ones too."""
        start = bisect_right(self._attempts, entry_id)
        return sum(self._turns[start:]), sum(self._costs[start:])


def _is_left_out(message: AssistantMessage) -> bool:
    return message.get("stopReason") in LEFT_OUT or not message.get("content")


class Contexts:
    """The contexts of a session's conversations; each grows with every commit once it was asked for."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._newest: dict[int, ContextCache] = {}
        session.observe(self._observe)

    async def load(self, conversation_id: int, *, cutoff: int | None = None) -> ContextCache:
        """The context up to an entry (the newest by default); the one up to the newest stays in memory."""
        cache = self._newest.get(conversation_id)
        if cache is not None and cache.valid and (cutoff is None or cache.newest <= cutoff):
            return cache
        cache = await _build(self._session.storage, conversation_id, cutoff)
        if cutoff is None:
            self._newest[conversation_id] = cache
        return cache

    def _observe(self, commit: Commit) -> None:
        for entry in commit.entries:
            cache = self._newest.get(entry["conversationId"])
            if cache is not None:
                cache.add(entry)


async def _build(storage: Reader, conversation_id: int, cutoff: int | None) -> ContextCache:
    marker = await storage.newest_head(conversation_id, upto=cutoff)
    cache = ContextCache()
    start = marker["head"] if marker is not None else 0
    entries: list[EntryRecord] = []
    after = start - 1 if start else 0
    while True:
        before = cutoff + 1 if cutoff is not None else None
        page = await storage.entries(conversation_id, after=after, before=before, limit=2000)
        entries.extend(stored.record for stored in page)
        if len(page) < 2000:
            break
        after = page[-1].record["id"]
    edits = newest_edits(entries)
    if marker is not None:
        for message in marker.get("model", ()):
            cache._add_message(marker["id"], message)
    for entry in entries:
        cache.last_id = max(cache.last_id, entry["id"])
        if "head" in entry:
            continue
        edit = edits.get(entry["id"])
        if edit is not None and edit["action"] == "omit":
            continue
        for message in edit["messages"] if edit is not None else entry.get("model", ()):
            cache._add_message(entry["id"], message)
    return cache


def newest_edits(entries: list[EntryRecord]) -> dict[int, EntryEdit]:
    """The edit in force per target: the newest wins (spec 11)."""
    edits: dict[int, EntryEdit] = {}
    for entry in entries:
        for edit in entry.get("edits", ()):
            edits[edit["target"]] = edit
    return edits
