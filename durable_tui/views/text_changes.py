"""How growing text and partial messages moved, told by what was appended (spec 17.6). Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, cast

if TYPE_CHECKING:
    from durable_tui.delta import Json, Op
    from durable_tui.models.messages import AnswerBlock, PartialMessage
    from durable_tui.views.event_shapes import TextChange

_TEXT_KEYS = {"text": "text", "thinking": "thinking"}  # by type of block: the key that grows


def ops_below(ops: Sequence[Op], prefix: Sequence[str | int], *, text: bool = False) -> list[Op] | None:
    """The ops under `prefix` with paths relative to it (those on the `text` at it); None when it is replaced itself."""
    below: list[Op] = []
    at = list(prefix)
    for op in ops:
        path = list(cast("Sequence[str | int]", op[1])) if op[0] != "r" else []
        if path[: len(at)] == at and (len(path) > len(at) or (text and op[0] in ("a", "t"))):
            below.append([op[0], path[len(at) :], *op[2:]])
        elif path == at[: len(path)]:
            return None
    return below


def message_changes(old: PartialMessage | None, new: PartialMessage) -> list[Op]:
    """Ops that take one partial message to the next, for a step that replaced it as a whole. Appends stay appends."""
    changes: list[Op] = []
    former: Mapping[str, object] = old or {}
    blocks_before, blocks = old["content"] if old and "content" in old else [], new.get("content") or []
    for index, block in enumerate(blocks):
        if index >= len(blocks_before):
            changes.append(["p", ["content"], index, 0, [cast("Json", block)]])
        elif block != blocks_before[index]:
            changes.extend(_block_changes(blocks_before[index], block, index))
    if len(blocks_before) > len(blocks):
        changes.append(["p", ["content"], len(blocks), len(blocks_before) - len(blocks), []])
    for key, value in new.items():
        if key not in ("content", "usage") and former.get(key) != value:
            changes.append(["s", [key], cast("Json", value)])
    return changes


def _block_changes(old: AnswerBlock, new: AnswerBlock, index: int) -> list[Op]:
    before = cast("Mapping[str, Json]", old)
    block = cast("Mapping[str, Json]", new)
    key = _TEXT_KEYS.get(new["type"])
    if key and old["type"] == new["type"]:
        text_before, text = str(before[key]), str(block[key])
        if text.startswith(text_before):
            changes: list[Op] = []
            if len(text) > len(text_before):
                changes.append(["a", ["content", index, key], text[len(text_before) :]])
            others = [name for name in block if name != key and before.get(name) != block[name]]
            changes.extend(["s", ["content", index, name], block[name]] for name in others)
            return changes
    return [["s", ["content", index], block]]


def told_change(ops: Sequence[Op] | None) -> TextChange | None:
    """At most one trim, then appends, as the ops say it; None for anything else."""
    trims = [op for op in ops or () if op[0] == "t"]
    if not ops or len(trims) > 1 or (trims and ops[0] is not trims[0]):
        return None
    change: TextChange = {"trimStart": cast(int, trims[0][2])} if trims else {}
    more = "".join(cast(str, op[2]) for op in ops if op[0] == "a")
    if more:
        change["append"] = more
    return change


def text_change(old: str, new: str) -> TextChange:
    """How a bounded tail moved, looked for in the texts themselves."""
    if new.startswith(old):
        return {"append": new[len(old) :]}
    probe = new[:64]
    start, tries = old.find(probe) if probe else -1, 16
    while start >= 0 and tries:
        tries -= 1
        kept = old[start:]
        if new.startswith(kept):
            change: TextChange = {"trimStart": len(old[:start].encode("utf-16-le", "surrogatepass")) // 2}
            if len(new) > len(kept):
                change["append"] = new[len(kept) :]
            return change
        start = old.find(probe, start + 1)
    return {"set": new}
