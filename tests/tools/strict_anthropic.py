"""The strict rules for Anthropic's messages bodies (see strict.py)."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator, Mapping
from typing import Any

from tests.tools.strict_rules import (
    Sent,
    Turn,
    decoded_body,
    pairing,
    signatures,
    text_id,
    tools_named_once,
    wire_content,
)

CACHE_POINTS = 4
LEAST_BUDGET = 1024
KINDS = {
    "user": {"text", "image", "document", "tool_result", "search_result"},
    "assistant": {"text", "thinking", "redacted_thinking", "tool_use"},
}


def check_anthropic(body: Mapping[str, Any] | bytes | str, sent: Sent = ()) -> list[str]:
    """Violations of a messages body: all results of a message are first in the one user message after it.

    User and assistant messages alternate: the API merges neighbours, its imitations do not all.
    """
    found, decoded = decoded_body(body)
    if decoded is None:
        return found
    messages = decoded.get("messages")
    if not isinstance(messages, list) or not messages:
        return [*found, "[0] the request has no message"]
    system = decoded.get("system")
    if system is not None:
        found += wire_content("system", system, empty=False)
    turns: list[Turn] = []
    if messages[0].get("role") != "user":
        found.append("[0] the first message is no user message")
    before = None
    for number, message in enumerate(messages):
        where = f"message {number}"
        role = message.get("role")
        content = message.get("content")
        blocks = _listed(content)
        found += wire_content(where, content, empty=False)
        if role in KINDS:
            found += [
                f"[0] {where}: a {block.get('type')!r} block does not belong here"
                for block in blocks
                if block.get("type") not in KINDS[role]
            ]
        if role == before:
            found.append(f"[0] {where}: a second {role} message in a row")
        before = role
        if role == "assistant":
            uses = [block for block in blocks if block.get("type") == "tool_use"]
            for use in uses:
                found += _use(where, use)
            for block in blocks:
                found += _thinking(where, block)
            turns.append(Turn(where, "assistant", calls=[text_id(use.get("id")) for use in uses]))
        elif role == "user":
            kinds = [block.get("type") == "tool_result" for block in blocks]
            if any(later and not earlier for earlier, later in itertools.pairwise(kinds)):
                found.append(f"[2] {where}: results are not first in their message")
            results = [text_id(block.get("tool_use_id")) for block in blocks if block.get("type") == "tool_result"]
            for block in blocks:
                if block.get("type") == "tool_result" and "content" in block:
                    found += wire_content(where, block["content"], empty=False)
                    if block.get("is_error") and any(part.get("type") != "text" for part in _listed(block["content"])):
                        found.append(f"[0] {where}: an error result with other than text")
            turns.append(Turn(where, "result" if results else "other", results=results))
        else:
            found.append(f"[0] {where}: unknown role {role!r}")
    found += pairing(turns, one_message=True)
    if (decoded.get("thinking") or {}).get("type") != "disabled":  # then no thinking is looked at
        found += signatures([m.get("content", []) for m in messages if m.get("role") == "assistant"], sent)
    return found + _tools(decoded) + _ends(messages) + _options(decoded) + _cache(decoded)


def _listed(content: Any) -> list[Any]:
    return content if isinstance(content, list) else []


def _use(where: str, use: Mapping[str, Any]) -> list[str]:
    found: list[str] = []
    if not isinstance(use.get("input"), dict):
        found.append(f"[4] {where}: the input of {use.get('id')!r} is no object")
    if not re.fullmatch(r"[a-zA-Z0-9_-]+", text_id(use.get("id"))):
        found.append(f"[3] {where}: the id {use.get('id')!r} has other than letters, digits, _ and -")
    if not _is_name(use.get("name")):
        found.append(f"[0] {where}: no tool can be called {use.get('name')!r}")
    return found


def _thinking(where: str, block: Mapping[str, Any]) -> list[str]:
    """A thinking block may be empty (its display omitted), but not its signature."""
    kind = block.get("type")
    if kind == "thinking":
        if not isinstance(block.get("thinking"), str):
            return [f"[8] {where}: a signature without its thinking"]
        if not text_id(block.get("signature")):
            return [f"[8] {where}: thinking without a signature"]
    if kind == "redacted_thinking" and not text_id(block.get("data")):
        return [f"[8] {where}: redacted thinking without data"]
    return []


def _is_name(name: Any) -> bool:
    return isinstance(name, str) and re.fullmatch(r"[a-zA-Z0-9_-]{1,128}", name) is not None


def _tools(body: Mapping[str, Any]) -> list[str]:
    tools = body.get("tools") or []
    found = tools_named_once(tools)
    for tool in tools:
        if tool.get("name") and not _is_name(tool["name"]):
            found.append(f"[0] no tool can be called {tool['name']!r}")
        schema = tool.get("input_schema")
        if not isinstance(schema, dict) or schema.get("type") != "object":
            found.append(f"[0] the schema of {tool.get('name')!r} is no object's")
    if body.get("tool_choice") and not tools:
        found.append("[0] a tool choice without tools")
    return found


def _ends(messages: list[Any]) -> list[str]:
    if messages[-1].get("role") != "assistant":
        return []
    content = messages[-1].get("content")
    blocks = content if isinstance(content, list) else [{"type": "text", "text": content}]
    text = blocks[-1].get("text") if blocks and blocks[-1].get("type") == "text" else ""
    if isinstance(text, str) and text != text.rstrip():
        return ["[5] the final assistant text ends in white space"]
    return []


def _options(body: Mapping[str, Any]) -> list[str]:
    found: list[str] = []
    limit = body.get("max_tokens")
    if not isinstance(limit, int) or isinstance(limit, bool) or limit < 1:
        return [f"[0] max_tokens is {limit!r}"]
    thinking = body.get("thinking") or {}
    if thinking.get("type") == "enabled":
        budget = thinking.get("budget_tokens")
        if not isinstance(budget, int) or budget < LEAST_BUDGET:
            found.append(f"[0] the thinking budget is {budget!r}, not at least {LEAST_BUDGET}")
        elif budget >= limit:
            found.append(f"[0] the thinking budget {budget} is not below max_tokens {limit}")
    elif "budget_tokens" in thinking:
        found.append(f"[0] a budget for {thinking.get('type')!r} thinking")
    if thinking.get("type") in ("enabled", "adaptive"):
        if body.get("temperature", 1) != 1:
            found.append("[0] a temperature together with thinking")
        if (body.get("tool_choice") or {}).get("type") in ("any", "tool"):
            found.append("[0] a forced tool together with thinking")
    if any(not str(text).strip() for text in body.get("stop_sequences") or []):
        found.append("[5] a blank stop sequence")
    return found


def _cache(body: Mapping[str, Any]) -> list[str]:
    """At most four points where the prompt is cached, the longer lived first; none on thinking."""
    points = list(_points(body))
    found = [f"[0] a cache point on {kind}" for kind, _ in points if kind in KINDS["assistant"] and "thinking" in kind]
    if len(points) > CACHE_POINTS:
        found.append(f"[0] {len(points)} cache points, more than {CACHE_POINTS}")
    lives = [control.get("ttl", "5m") for _, control in points]
    if any(before == "5m" and after == "1h" for before, after in itertools.pairwise(lives)):
        found.append("[0] a cache point of 1h after one of 5m")
    return found


def _points(body: Mapping[str, Any]) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """(kind of block, cache_control) in the order of the prompt: tools, system, messages, then the body's own."""
    parts: list[Any] = list(body.get("tools") or [])
    for content in (body.get("system"), *(message.get("content") for message in body.get("messages") or [])):
        for block in _listed(content):
            parts += [*(_listed(block.get("content")) if block.get("type") == "tool_result" else []), block]
    for part in (*parts, body):
        if isinstance(part.get("cache_control"), dict):
            yield str(part.get("type") or "tool"), part["cache_control"]
