"""The parts of the strict rules that several protocols share (see strict.py for what they say)."""

from __future__ import annotations

import base64
import binascii
import json
import struct
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

IMAGE_BYTES = 5 * 1024 * 1024
IMAGE_SIDE = 8000

#: The newest assistant messages a provider sent, for rule 8: neutral content blocks or the wire's own.
Sent = Sequence[Sequence[Mapping[str, Any]]]


@dataclass(slots=True)
class Turn:
    """One message, reduced to what pairing needs. `where` names it in a violation."""

    where: str
    role: str  # "assistant" | "result" | "other"
    calls: list[str] = field(default_factory=list)
    results: list[str] = field(default_factory=list)


def text_id(value: Any) -> str:
    return value if isinstance(value, str) else ""


def pairing(turns: Iterable[Turn], *, one_message: bool = False) -> list[str]:
    """Rules 1 to 3 over the reduced messages."""
    found: list[str] = []
    seen: set[str] = set()
    known: set[str] = set()
    answered: set[str] = set()
    open_calls: list[str] = []  # of the assistant message whose results are being read, in call order
    reading = False
    rounds = 0
    for turn in turns:
        if turn.role == "result":
            rounds += 1
            for call_id in turn.results:
                if call_id in answered:
                    found.append(f"[1] {turn.where}: a second result for {call_id!r}")
                elif call_id not in known:
                    found.append(f"[1] {turn.where}: a result for {call_id!r}, which nobody called")
                elif not reading or call_id not in open_calls:
                    found.append(f"[2] {turn.where}: the result for {call_id!r} is not directly after its message")
                elif call_id != open_calls[0]:
                    found.append(f"[2] {turn.where}: the result for {call_id!r} is out of call order")
                    open_calls.remove(call_id)
                else:
                    open_calls.pop(0)
                answered.add(call_id)
            if one_message and rounds > 1:
                found.append(f"[2] {turn.where}: results are spread over several messages")
            continue
        found += [f"[1] {turn.where}: {call_id!r} has no result before it" for call_id in open_calls]
        open_calls, reading, rounds = [], turn.role == "assistant", 0
        if turn.role == "assistant":
            for call_id in turn.calls:
                if not call_id.strip():
                    found.append(f"[3] {turn.where}: a tool call with an empty id")
                elif call_id in seen:
                    found.append(f"[3] {turn.where}: the id {call_id!r} is used twice")
                seen.add(call_id)
                known.add(call_id)
            open_calls = list(turn.calls)
    found += [f"[1] at the end: {call_id!r} has no result" for call_id in open_calls]
    return found


def _opened(where: str, content: Any, empty: bool) -> tuple[list[str], list[Any]]:
    """What is wrong with a content as a whole, and its blocks."""
    if isinstance(content, str):
        return ([] if content.strip() else [f"[5] {where}: blank text"]), []
    if not isinstance(content, list):
        return [f"[0] {where}: content is neither text nor a list"], []
    return ([] if content or empty else [f"[5] {where}: empty content"]), content


def neutral_content(where: str, content: Any, kinds: set[str], *, empty: bool) -> list[str]:
    found, blocks = _opened(where, content, empty)
    for block in blocks:
        kind = block.get("type")
        if kind not in kinds:
            found.append(f"[0] {where}: a {kind!r} block does not belong here")
        elif kind == "text" and not (isinstance(block.get("text"), str) and block["text"].strip()):
            found.append(f"[5] {where}: a blank text block")
        elif kind == "image":
            found += image(where, block.get("data"))
        elif kind == "thinking" and block.get("signature") and not block.get("thinking") and not block.get("redacted"):
            found.append(f"[8] {where}: a signature without its thinking")
    return found


def wire_content(where: str, content: Any, *, empty: bool) -> list[str]:
    found, blocks = _opened(where, content, empty)
    for block in blocks:
        kind = block.get("type")
        if kind in ("text", "input_text", "output_text") and not str(block.get("text") or "").strip():
            found.append(f"[5] {where}: a blank text block")
        elif kind == "image_url":
            url = block.get("image_url", {}).get("url", "")
            if url.startswith("data:"):
                found += image(where, url.partition(",")[2])
        elif kind == "image" and block.get("source", {}).get("type") == "base64":
            found += image(where, block["source"].get("data"))
    return found


def json_arguments(where: str, call_id: Any, arguments: Any) -> list[str]:
    """Rule 4 for arguments that are JSON in a text."""
    if not isinstance(arguments, str):
        return [f"[4] {where}: the arguments of {call_id!r} are no JSON text"]
    try:
        value = strict_loads(arguments)
    except (ValueError, RecursionError) as error:
        return [f"[4] {where}: the arguments of {call_id!r} are no JSON: {error}"]
    return [] if isinstance(value, dict) else [f"[4] {where}: the arguments of {call_id!r} are no object"]


def tools_named_once(tools: Iterable[Mapping[str, Any]]) -> list[str]:
    found: list[str] = []
    names: set[str] = set()
    for tool in tools:
        name = tool.get("name")
        if not isinstance(name, str) or not name:
            found.append("[0] a tool without a name")
        elif name in names:
            found.append(f"[3] the tool {name!r} is offered twice")
        else:
            names.add(name)
    return found


def signatures(answers: Sequence[Any], sent: Sent) -> list[str]:
    """Rule 8: when the latest assistant message came from here and was signed, its thinking is what was sent."""
    if not answers or not isinstance(answers[-1], list):
        return []
    latest = answers[-1]
    calls = [block.get("id") for block in latest if block.get("type") in ("toolCall", "tool_use")]
    texts = [block.get("text") for block in latest if block.get("type") == "text"]
    kinds = ("thinking", "redacted_thinking")
    for original in reversed(sent):
        theirs = [block.get("id") for block in original if block.get("type") in ("toolCall", "tool_use")]
        their_texts = [block.get("text") for block in original if block.get("type") == "text"]
        if theirs != calls or (not calls and their_texts != texts):
            continue
        signed = [block for block in original if block.get("type") in kinds]
        if not any(block.get("signature") or block.get("data") for block in signed):
            return []
        if [_bytes(block) for block in signed] != [_bytes(b) for b in latest if b.get("type") in kinds]:
            return ["[8] the thinking of the latest turn is not what was sent"]
        return []
    return []


def _bytes(block: Mapping[str, Any]) -> bytes:
    return json.dumps(block, sort_keys=True, ensure_ascii=True).encode()


def strict_json(value: Any) -> list[str]:
    try:
        json.dumps(value, allow_nan=False, ensure_ascii=False).encode("utf-8")
    except UnicodeEncodeError:
        return ["[6] the request is not UTF-8: a lone surrogate"]
    except (TypeError, ValueError, RecursionError) as error:
        return [f"[6] the request is not strict JSON: {error}"]
    if not _string_keys(value):
        return ["[6] the request is not strict JSON: a key that is no text"]
    return []


def _string_keys(value: Any) -> bool:
    if isinstance(value, dict):
        return all(isinstance(key, str) and _string_keys(part) for key, part in value.items())
    if isinstance(value, list | tuple):
        return all(_string_keys(part) for part in value)
    return True


def _no_constant(name: str) -> Any:
    raise ValueError(f"{name} is no JSON")


def strict_loads(text: str) -> Any:
    return json.loads(text, parse_constant=_no_constant)


def decoded_body(body: Mapping[str, Any] | bytes | str) -> tuple[list[str], dict[str, Any] | None]:
    if isinstance(body, Mapping):
        return strict_json(dict(body)), dict(body)
    try:
        text = body.decode("utf-8") if isinstance(body, bytes) else body
        text.encode("utf-8")
    except UnicodeError:
        return ["[6] the body is not UTF-8"], None
    try:
        value = strict_loads(text)
    except (ValueError, RecursionError) as error:
        return [f"[6] the body is not strict JSON: {error}"], None
    if not isinstance(value, dict):
        return ["[6] the body is no JSON object"], None
    # Escaped lone surrogates are legal JSON bytes that many servers refuse after decoding.
    return strict_json(value), value


def image(where: str, data: Any) -> list[str]:
    try:
        raw = base64.b64decode(data, validate=True) if isinstance(data, str) else b""
    except (binascii.Error, ValueError):
        return [f"[7] {where}: an image that is no base64"]
    if not raw:
        return [f"[7] {where}: an empty image"]
    if len(data) > IMAGE_BYTES:
        return [f"[7] {where}: an image of {len(data)} encoded bytes"]
    size = _image_size(raw)
    if size is None:
        return [f"[7] {where}: an image of no known kind"]
    if max(size) > IMAGE_SIDE:
        return [f"[7] {where}: an image of {size[0]}x{size[1]} pixels"]
    return []


def _image_size(raw: bytes) -> tuple[int, int] | None:
    """Width and height of a PNG, GIF, JPEG or WebP; None for anything else, torn headers included."""
    try:
        if raw.startswith(b"\x89PNG\r\n\x1a\n"):
            width, height = struct.unpack(">II", raw[16:24])
            return width, height
        if raw[:6] in (b"GIF87a", b"GIF89a"):
            width, height = struct.unpack("<HH", raw[6:10])
            return width, height
        if raw[:2] == b"\xff\xd8":
            return _jpeg_size(raw)
        if raw[:4] == b"RIFF" and raw[8:12] == b"WEBP":
            return 1, 1  # the limit on bytes bounds it well enough
    except struct.error:
        return None
    return None


def _jpeg_size(raw: bytes) -> tuple[int, int] | None:
    at = 2
    while at + 9 <= len(raw):
        marker, length = raw[at + 1], struct.unpack(">H", raw[at + 2 : at + 4])[0]
        if 0xC0 <= marker <= 0xCF and marker not in (0xC4, 0xC8, 0xCC):
            height, width = struct.unpack(">HH", raw[at + 5 : at + 9])
            return width, height
        at += 2 + length
    return None
