"""What the three fake protocols share: the turn that a request asks for, its blocks and its tokens. Standard library only.

Each protocol reduces its body to small messages `{"role": "system" | "user" | "assistant" | "tool", "content"}`, as Chat
Completions has them, so the turn is found in one way. The form of turns is told in model_server.py.
"""

from __future__ import annotations

import base64
import hashlib
import json
from typing import Any

PAST_THE_END = "The script has no more turns."
TOOL_IMAGES = "Images from the tool results above:"


def text_of(message: dict[str, Any]) -> str:
    """The text of a message's content, whichever form it has; parts of all three protocols are known."""
    content = message.get("content") or ""
    if isinstance(content, str):
        return content
    return "\n".join(
        part.get("text", "") for part in content if part.get("type") in ("text", "input_text", "output_text")
    )


def is_input(message: dict[str, Any]) -> bool:
    """Whether a user message is a person's: images of tools come in one too."""
    return message.get("role") == "user" and not text_of(message).startswith(TOOL_IMAGES)


def choose_turn(script: Any, messages: list[dict[str, Any]]) -> tuple[int, dict[str, Any]]:
    """The number of the turn and the turn, from the request alone (its small messages)."""
    last = max((i for i, message in enumerate(messages) if is_input(message)), default=-1)
    turns = script
    if isinstance(script, dict):
        text = text_of(messages[last]) if last >= 0 else ""
        matches = (turns for key, turns in script.get("match", {}).items() if key in text)
        turns = next(matches, script.get("turns", []))
    number = sum(message.get("role") == "assistant" for message in messages[last + 1 :])
    return number, turns[number] if number < len(turns) else {"text": PAST_THE_END}


def blocks_of(turn: dict[str, Any], prefix: str, ids: str = "call") -> list[dict[str, Any]]:
    """The blocks of a turn in their order, each with its `kind`.

    `thinking` has text, parts and signature, `redacted` data, `text` and `refusal` text, `call` id, name and raw.
    """
    listed = turn.get("blocks")
    if listed is None:
        listed = [
            {
                key: turn.get(key, ""),
                **({"signature": turn["signature"]} if key == "thinking" and "signature" in turn else {}),
            }
            for key in ("thinking", "redacted", "text", "refusal")
            if turn.get(key) or (key == "thinking" and turn.get("signature"))
        ]
        listed += [{"call": call} for call in turn.get("calls", [])]
    out: list[dict[str, Any]] = []
    number = 0
    for place, block in enumerate(listed):
        if "call" in block:
            call = block["call"]
            raw = call.get("raw", json.dumps(call.get("args", {})))
            call_id = call.get("id", f"{ids}_{prefix}_{number}")
            out.append({"kind": "call", "id": call_id, "name": call["name"], "raw": raw, "args": call.get("args")})
            number += 1
        elif "thinking" in block:
            parts = block["thinking"] if isinstance(block["thinking"], list) else [block["thinking"]]
            signature = block.get("signature", signature_of(prefix, place))
            out.append({"kind": "thinking", "text": "\n\n".join(parts), "parts": parts, "signature": signature})
        elif "redacted" in block:
            out.append({"kind": "redacted", "data": block["redacted"]})
        else:
            kind = "refusal" if "refusal" in block else "text"
            out.append({"kind": kind, "text": block[kind]})
    return out


def signature_of(prefix: str, place: int) -> str:
    """The signature of a thinking block that the script gives none: opaque, the same for the same request."""
    return base64.b64encode(hashlib.sha512(f"{prefix} {place}".encode()).digest()).decode()


def pieces(text: str, size: int) -> list[str]:
    """The text in small pieces as a model sends them; none for no text."""
    return [text[i : i + size] for i in range(0, len(text), size)]


def tokens_of(turn: dict[str, Any], body: dict[str, Any]) -> dict[str, int]:
    """`{input, output, cacheRead, cacheWrite, reasoning}` of a turn, `input` without cached ones.

    `usage` in the turn is read in this form or in any protocol's; without one the tokens are estimated.
    """
    given = turn.get("usage") or {}
    if "input" in given or "output" in given:
        return {key: given.get(key, 0) for key in ("input", "output", "cacheRead", "cacheWrite", "reasoning")}
    for head, tail in (("prompt_tokens", "completion_tokens"), ("input_tokens", "output_tokens")):
        if head in given:
            details = given.get(f"{head}_details") or {}
            read = details.get("cached_tokens", 0)
            written = details.get("cache_write_tokens", 0)
            reasoning = (given.get(f"{tail}_details") or {}).get("reasoning_tokens", 0)
            fresh = given[head] - read - written
            read += given.get("cache_read_input_tokens") or 0
            written += given.get("cache_creation_input_tokens") or 0
            output = given.get(tail, 0)
            return {"input": fresh, "output": output, "cacheRead": read, "cacheWrite": written, "reasoning": reasoning}
    said = [turn.get("text"), turn.get("calls"), *(turn[key] for key in ("blocks", "refusal") if key in turn)]
    prompt, output = len(json.dumps(body)) // 4, len(json.dumps(said)) // 4
    return {"input": prompt, "output": output, "cacheRead": 0, "cacheWrite": 0, "reasoning": 0}


def sse(value: Any, event: str = "") -> bytes:
    """One frame."""
    head = f"event: {event}\n" if event else ""
    return f"{head}data: {json.dumps(value, ensure_ascii=False)}\n\n".encode("utf-8", "surrogatepass")
