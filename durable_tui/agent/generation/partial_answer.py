"""An answer while it arrives, and what is kept of one that never finished (spec 9)."""

from __future__ import annotations

from typing import Literal, cast

from durable_tui.agent.documents import LIVE
from durable_tui.agent.inbox import ConversationDraft
from durable_tui.agent.usage import append_answer
from durable_tui.engine.task_handle import InvocationEnded, TaskHandle
from durable_tui.models.messages import AnswerBlock, AssistantMessage, PartialMessage, Usage, empty_usage
from durable_tui.models.provider import BlockDelta, BlockStart, Model
from durable_tui.models.usage import estimate_tokens, estimated_usage


class Partial:
    """The blocks of one attempt so far. Tool calls show their name; their arguments count only when finished."""

    def __init__(self, model: Model, now: int) -> None:
        self._head = {
            "role": "assistant",
            "api": model.api,
            "provider": model.provider,
            "model": model.model_id,
            "timestamp": now,
        }
        self._blocks: list[AnswerBlock] = []
        self._texts: list[list[str]] = []
        self.empty = True

    def apply(self, event: BlockStart | BlockDelta) -> None:
        """Take in one event."""
        while len(self._blocks) <= event.index:
            self._blocks.append({"type": "text", "text": ""})
            self._texts.append([])
        if isinstance(event, BlockStart):
            self._blocks[event.index] = cast(AnswerBlock, dict(event.block))
        else:
            self._texts[event.index].append(event.text)
        self.empty = False

    def message(self) -> PartialMessage:
        """The partial message as it stands, shaped like an assistant message without usage and stop reason."""
        content: list[AnswerBlock] = []
        for block, texts in zip(self._blocks, self._texts, strict=True):
            if len(texts) > 1:
                texts[:] = ["".join(texts)]
            text = texts[0] if texts else ""
            if block["type"] == "text":
                content.append({**block, "text": block.get("text", "") + text})
            elif block["type"] == "thinking":
                content.append({**block, "thinking": block.get("thinking", "") + text})
            else:
                content.append({**block})
        return cast(PartialMessage, {**self._head, "content": content})


def ended_partial(
    partial: PartialMessage,
    stop_reason: Literal["aborted", "error"],
    error: str | None = None,
    usage: Usage | None = None,
) -> AssistantMessage:
    """What an unfinished answer becomes: its text stays visible, its unfinished tool calls go; nothing of it runs.

    Without a `usage` the tokens that came are estimated; what they and the prompt cost is not known.
    """
    content = [dict(block) for block in partial["content"] if _has_text(block)]
    message = cast(
        AssistantMessage,
        {**partial, "content": content, "usage": usage or empty_usage(), "stopReason": stop_reason},
    )
    if not usage and partial["content"]:
        message["usage"] = estimated_usage(0, estimate_tokens([dict(block) for block in partial["content"]]))
        message["providerExtra"] = {"usageEstimated": True}
    if error is not None:
        message["errorMessage"] = error
    return message


def _has_text(block: AnswerBlock) -> bool:
    return block["type"] != "toolCall" and bool(block.get("text") or block.get("thinking"))


async def commit_partial(task: TaskHandle, partial: Partial) -> None:
    """Store what has come so far in `pi.live`, by the smallest change."""
    try:
        async with task.commit(flush=False) as tx:
            live = await tx.document(LIVE, task.conversation_id)
            generation = live.value.get("generation")
            if generation is None:
                return
            message = partial.message()
            if "message" not in generation:
                generation["message"] = message
                return
            stored = cast("list[dict[str, object]]", generation["message"]["content"])  # drafts, changed key by key
            for index, block in enumerate(message["content"]):
                if index >= len(stored):
                    stored.append(dict(block))
                    continue
                for key, value in block.items():
                    if stored[index].get(key) != value:
                        stored[index][key] = value
    except InvocationEnded:
        return


async def close_partial(draft: ConversationDraft, task_id: int) -> int | None:
    """Turn a stored partial answer into an aborted assistant entry; None when there is none (spec 9)."""
    generation = draft.live.get("generation")
    if generation is None or "message" not in generation:
        return None
    message = ended_partial(generation["message"], "aborted")
    entry = await append_answer(draft.tx, draft.conversation_id, message, task_id)
    del generation["message"]
    return entry["id"]
