"""The strict rules for bodies of OpenAI's Responses (see strict.py).

Messages are runs of items there: reasoning, texts and calls in a row are one assistant message. Rule 8 is about its
reasoning items: each with encrypted content comes back as it was sent, directly before the item it was sent before.
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import pairwise
from typing import Any

from tests.tools.strict_rules import (
    Sent,
    Turn,
    decoded_body,
    image,
    json_arguments,
    pairing,
    text_id,
    tools_named_once,
    wire_content,
)

ID_LIMIT = 64
_HEADS = {"message": "msg", "reasoning": "rs", "function_call": "fc"}
_PARTS = {
    "user": {"input_text", "input_image", "input_file"},
    "system": {"input_text"},
    "developer": {"input_text"},
    "assistant": {"output_text", "refusal"},
}
_OWN = ("reasoning", "function_call")


def check_responses(body: Mapping[str, Any] | bytes | str, sent: Sent = ()) -> list[str]:
    """Violations of a body for POST /responses; `sent` are the output items of the newest answers."""
    found, decoded = decoded_body(body)
    if decoded is None:
        return found
    given = decoded.get("input")
    items = [{"role": "user", "content": given}] if isinstance(given, str) else given
    if not isinstance(items, list) or not items:
        return [*found, "[0] the request has no message"]
    if decoded.get("instructions") is not None:
        found += wire_content("instructions", decoded["instructions"], empty=False)
    turns: list[Turn] = []
    ids: set[str] = set()
    for number, item in enumerate(items):
        where = f"item {number}"
        kind = item.get("type", "message")
        found += _id(where, kind, item.get("id"), ids)
        if kind == "message":
            found += _message(where, item)
            if item.get("role") != "assistant":
                turns.append(Turn(where, "other"))
        elif kind == "function_call":
            found += _call(where, item)
        elif kind == "function_call_output":
            found += _content(where, item.get("output"), _PARTS["user"])
            turns.append(Turn(where, "result", results=[text_id(item.get("call_id"))]))
        elif kind == "reasoning":
            found += _reasoning(where, item, decoded)
        elif kind == "item_reference" and decoded.get("store") is False:
            found.append(f"[0] {where}: a reference to what is not stored")
        elif kind != "item_reference":
            found.append(f"[0] {where}: unknown type {kind!r}")
        if _is_own(item):
            if not turns or turns[-1].role != "assistant":
                turns.append(Turn(where, "assistant"))
            if kind == "function_call":
                turns[-1].calls.append(text_id(item.get("call_id")))
    found += pairing(turns)
    found += _followed(items)
    found += _as_sent(items, sent)
    if _is_own(items[-1]):
        found.append("[0] the request ends in an assistant message")
    return found + _tools(decoded) + _options(decoded)


def _is_own(item: Mapping[str, Any]) -> bool:
    """Whether the model wrote it."""
    return item.get("type") in _OWN or (item.get("type", "message") == "message" and item.get("role") == "assistant")


def _id(where: str, kind: str, given: Any, ids: set[str]) -> list[str]:
    if given is None:
        return [f"[3] {where}: a reasoning item without its id"] if kind == "reasoning" else []
    head = _HEADS.get(kind, "")
    found: list[str] = []
    if not text_id(given).startswith(head) or len(given) > ID_LIMIT:
        found.append(f"[3] {where}: the id {given!r} of a {kind} does not begin with {head!r} or is too long")
    if text_id(given) in ids:
        found.append(f"[3] {where}: the id {given!r} is used twice")
    ids.add(text_id(given))
    return found


def _message(where: str, item: Mapping[str, Any]) -> list[str]:
    role = item.get("role")
    if role not in _PARTS:
        return [f"[0] {where}: unknown role {role!r}"]
    return _content(where, item.get("content"), _PARTS[role])


def _content(where: str, content: Any, kinds: set[str]) -> list[str]:
    """Text, or parts of these kinds; none blank or empty."""
    found = wire_content(where, content, empty=False)
    for part in content if isinstance(content, list) else []:
        kind = part.get("type")
        if kind not in kinds:
            found.append(f"[0] {where}: a {kind!r} part does not belong here")
        elif kind == "input_image":
            url = text_id(part.get("image_url"))
            if url.startswith("data:"):
                found += image(where, url.partition(",")[2])
            elif not url and not part.get("file_id"):
                found.append(f"[7] {where}: an image without a picture")
    return found


def _call(where: str, item: Mapping[str, Any]) -> list[str]:
    found = [] if text_id(item.get("name")) else [f"[0] {where}: a tool call that is no named function"]
    if len(text_id(item.get("call_id"))) > ID_LIMIT:
        found.append(f"[3] {where}: a call id of more than {ID_LIMIT} characters")
    return found + json_arguments(where, item.get("call_id"), item.get("arguments"))


def _reasoning(where: str, item: Mapping[str, Any], body: Mapping[str, Any]) -> list[str]:
    found: list[str] = []
    if not isinstance(item.get("summary"), list):
        found.append(f"[0] {where}: a reasoning item without a summary list")
    if "encrypted_content" in item and not text_id(item["encrypted_content"]):
        found.append(f"[8] {where}: empty encrypted content")
    if body.get("store") is False and not item.get("encrypted_content") and not item.get("content"):
        found.append(
            f"[8] {where}: a reasoning item that is neither stored nor encrypted nor, as open models give it, plain"
        )
    return found


def _followed(items: list[Any]) -> list[str]:
    """Reasoning stands directly before an item of the model."""
    return [
        f"[8] item {number}: reasoning is not followed by its item"
        for number, (item, after) in enumerate(pairwise([*items, {}]))
        if item.get("type") == "reasoning" and not _is_own(after)
    ]


def _as_sent(items: list[Any], sent: Sent) -> list[str]:
    """Rule 8 for the latest assistant message, when it came from here."""
    end = next((number for number in range(len(items), 0, -1) if _is_own(items[number - 1])), 0)
    start = next((number for number in range(end, 0, -1) if not _is_own(items[number - 1])), 0)
    latest = items[start:end]
    for original in reversed(sent):
        if [_name(item) for item in original if item.get("type") != "reasoning"] != [
            _name(item) for item in latest if item.get("type") != "reasoning"
        ]:
            continue
        theirs = [(item["id"], item["encrypted_content"], item.get("summary")) for item in original if _secret(item)]
        ours = [(item.get("id"), item["encrypted_content"], item.get("summary")) for item in latest if _secret(item)]
        if theirs != ours:
            return ["[8] the reasoning of the latest turn is not what was sent"]
        order = [(_secret(item), _name(item)) for item in original if _secret(item) or item.get("type") != "reasoning"]
        if order != [(_secret(i), _name(i)) for i in latest if _secret(i) or i.get("type") != "reasoning"]:
            return ["[8] the reasoning of the latest turn stands before another item"]
        return []
    return []


def _secret(item: Mapping[str, Any]) -> Any:
    return item.get("encrypted_content") if item.get("type") == "reasoning" else None


def _name(item: Mapping[str, Any]) -> Any:
    """What tells an item from others: a call's id or a message's text."""
    if item.get("type", "message") != "message":
        return item.get("call_id")
    content = item.get("content")
    if isinstance(content, str):
        return content
    return "".join(part.get("text") or part.get("refusal") or "" for part in content or [])


def _tools(body: Mapping[str, Any]) -> list[str]:
    tools = [tool for tool in body.get("tools") or [] if tool.get("type") == "function"]
    found = tools_named_once(tools)
    for tool in tools:
        schema = tool.get("parameters")
        if tool.get("strict", True) is not False and not _is_strict(schema):
            found.append(f"[0] the schema of {tool.get('name')!r} is not strict, but `strict` is not false")
    return found


def _is_strict(schema: Any) -> bool:
    if not isinstance(schema, dict):
        return False
    return schema.get("additionalProperties") is False and sorted(schema.get("required", [])) == sorted(
        schema.get("properties", {})
    )


def _options(body: Mapping[str, Any]) -> list[str]:
    found: list[str] = []
    limit = body.get("max_output_tokens")
    if limit is not None and (not isinstance(limit, int) or limit < 16):
        found.append(f"[0] max_output_tokens is {limit!r}, not at least 16")
    if body.get("background") and body.get("store") is False:
        found.append("[0] a background answer that is not to be stored")
    return found
