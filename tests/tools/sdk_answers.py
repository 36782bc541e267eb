"""Answers as the official openai and anthropic clients put them together, in one form with ours (see tests/tools/sdk.py)."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any


def assemble(api: str, base_url: str, body: Mapping[str, Any]) -> dict[str, Any]:
    """Stream `body` from a server with the official client; its final message, reduced as `neutral` does it.

    `base_url` is the one our provider takes. What the client raises is raised; so is RuntimeError for an answer that the
    server said has failed.
    """
    return _assemble(api, base_url, body, None)


def assemble_bytes(api: str, raw: bytes, content_type: str = "text/event-stream") -> dict[str, Any]:
    """As `assemble`, from the recorded bytes of a body."""
    import httpx2

    def answer(_: Any) -> Any:
        return httpx2.Response(200, headers={"content-type": content_type}, content=raw)

    asked: dict[str, Any] = {"model": "m", "messages": [{"role": "user", "content": "go"}]}
    if api == "openai-responses":
        asked = {"model": "m", "input": "go"}
    elif api == "anthropic":
        asked["max_tokens"] = 1000
    with httpx2.Client(transport=httpx2.MockTransport(answer)) as client:
        return _assemble(api, "http://recorded/v1", asked, client)


def neutral(message: Mapping[str, Any]) -> dict[str, Any]:
    """Our assistant message in the form to compare.

    `{text, thinking, signatures, calls: [{id, name, arguments}], stop, usage}`: blank text is none, arguments are None
    when they are not to be trusted, `input` includes cached tokens, and usage is None when the server gave none.
    """
    blocks = message["content"]
    usage = message["usage"]
    extra = message.get("providerExtra") or {}
    thinking = [block for block in blocks if block["type"] == "thinking"]
    calls = [block for block in blocks if block["type"] == "toolCall"]
    return _form(
        [block["text"] for block in blocks if block["type"] == "text"],
        [block["thinking"] for block in thinking],
        [_signature(block) for block in thinking],
        [
            (call["id"], call["name"], None if "invalid" in call.get("providerExtra", {}) else call["arguments"])
            for call in calls
        ],
        message["stopReason"],
        None
        if extra.get("usageEstimated")
        else (usage["input"], usage["output"], usage["cacheRead"], usage["cacheWrite"]),
    )


def _form(
    text: list[str],
    thinking: list[str],
    signatures: list[Any],
    calls: list[tuple[str, str, Any]],
    stop: Any,
    usage: tuple[int, int, int, int] | None,
) -> dict[str, Any]:
    """`usage` is input without cached tokens, output, cache read, cache write."""
    said, thought = "".join(text), "".join(thinking)
    tokens = None
    if usage is not None:
        fresh, output, read, written = usage
        tokens = {"input": fresh + read + written, "output": output, "cacheRead": read, "cacheWrite": written}
    return {
        "text": said if said.strip() else "",
        "thinking": thought if thought.strip() else "",
        "signatures": [signature for signature in signatures if signature],
        "calls": [{"id": id, "name": name, "arguments": arguments} for id, name, arguments in calls],
        "stop": "toolUse" if stop == "stop" and calls else stop,
        "usage": tokens,
    }


def _signature(block: Mapping[str, Any]) -> Any:
    """The opaque text of a thinking block, wherever ours keeps it."""
    return block.get("signature") or _find(block.get("providerExtra"), "encrypted_content")


def _find(value: Any, name: str) -> Any:
    if isinstance(value, dict):
        return value.get(name) or next((found for part in value.values() if (found := _find(part, name))), None)
    return None


def _assemble(api: str, base_url: str, body: Mapping[str, Any], client: Any) -> dict[str, Any]:
    rest = {
        key: value for key, value in body.items() if key not in ("model", "messages", "input", "max_tokens", "stream")
    }
    if api == "anthropic":
        return _anthropic(base_url, body, rest, client)
    import openai

    if "max_tokens" in body:
        rest["max_tokens"] = body["max_tokens"]
    with openai.OpenAI(base_url=base_url, api_key="k", max_retries=0, timeout=60, http_client=client) as sdk:
        if api == "openai-responses":
            return _responses(sdk, body, rest)
        with sdk.chat.completions.stream(model=body["model"], messages=body["messages"], extra_body=rest) as stream:
            whole = stream.until_done().current_completion_snapshot  # the final one is refused when it was cut
    choice = whole.choices[0]
    said = choice.message
    extra = said.model_extra or {}
    calls = [
        (call.id, call.function.name, _arguments(call.function.arguments, choice.finish_reason == "length"))
        for call in said.tool_calls or []
    ]
    return _form(
        [said.content or "", said.refusal or ""],
        [extra.get("reasoning_content") or extra.get("reasoning") or ""],
        [],
        calls,
        {"tool_calls": "stop", "content_filter": "refused"}.get(choice.finish_reason, choice.finish_reason),
        _openai_usage(whole.usage, "prompt", "completion"),
    )


def _responses(sdk: Any, body: Mapping[str, Any], rest: dict[str, Any]) -> dict[str, Any]:
    whole: Any = None
    with sdk.responses.stream(model=body["model"], input=body["input"], extra_body=rest) as stream:
        for event in stream:
            if event.type == "error":
                raise RuntimeError(f"{event.code}: {event.message}")
            if event.type in ("response.completed", "response.incomplete", "response.failed"):
                whole = event.response
    if whole is None:
        raise RuntimeError("the stream ended without a terminal event")
    if whole.error is not None:
        raise RuntimeError(f"{whole.error.code}: {whole.error.message}")
    reason = whole.incomplete_details.reason if whole.incomplete_details else None
    stop = {None: "stop", "max_output_tokens": "length", "content_filter": "refused"}.get(reason, reason)
    text, thinking, signatures, calls = [], [], [], []
    for item in whole.output:
        if item.type == "message":
            text += [part.text if part.type == "output_text" else part.refusal for part in item.content]
        elif item.type == "reasoning":
            thinking.append("\n\n".join(part.text for part in item.summary or item.content or []))
            signatures.append(item.encrypted_content)
        elif item.type == "function_call":
            calls.append((item.call_id, item.name, _arguments(item.arguments, stop == "length")))
    return _form(text, thinking, signatures, calls, stop, _openai_usage(whole.usage, "input", "output"))


def _anthropic(base_url: str, body: Mapping[str, Any], rest: dict[str, Any], client: Any) -> dict[str, Any]:
    import anthropic

    raw: dict[int, str] = {}
    root = base_url.removesuffix("/").removesuffix("/v1")
    options = {"model": body["model"], "messages": body["messages"], "max_tokens": body["max_tokens"]}
    with (
        anthropic.Anthropic(base_url=root, api_key="k", max_retries=0, timeout=60, http_client=client) as sdk,
        sdk.messages.stream(**options, extra_body=rest) as stream,
    ):
        for event in stream:
            if event.type == "content_block_delta" and event.delta.type == "input_json_delta":
                raw[event.index] = raw.get(event.index, "") + event.delta.partial_json
        whole = stream.get_final_message()
    reasons = {
        "end_turn": "stop",
        "stop_sequence": "stop",
        "tool_use": "stop",
        "max_tokens": "length",
        "pause_turn": "stop",
        "model_context_window_exceeded": "overflow",
        "refusal": "refused",
    }
    stop = reasons.get(whole.stop_reason or "", whole.stop_reason)
    blocks = list(enumerate(whole.content))
    usage = whole.usage
    return _form(
        [block.text for _, block in blocks if block.type == "text"],
        [block.thinking for _, block in blocks if block.type == "thinking"],
        [
            b.signature if b.type == "thinking" else b.data
            for _, b in blocks
            if b.type in ("thinking", "redacted_thinking")
        ],
        [
            (b.id, b.name, _arguments(raw.get(place) or json.dumps(b.input), stop == "length"))
            for place, b in blocks
            if b.type == "tool_use"
        ],
        stop,
        (
            usage.input_tokens,
            usage.output_tokens,
            usage.cache_read_input_tokens or 0,
            usage.cache_creation_input_tokens or 0,
        ),
    )


def _openai_usage(usage: Any, prompt: str, output: str) -> tuple[int, int, int, int] | None:
    if usage is None:
        return None
    details = getattr(usage, f"{prompt}_tokens_details")
    read = (details and details.cached_tokens) or 0
    written = (details and getattr(details, "cache_write_tokens", 0)) or 0
    return getattr(usage, f"{prompt}_tokens") - read - written, getattr(usage, f"{output}_tokens"), read, written


def _arguments(raw: str, cut: bool) -> Any:
    try:
        value = json.loads(raw or "{}")
    except ValueError:
        return None
    return value if isinstance(value, dict) and not cut else None
