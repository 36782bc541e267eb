"""Neutral messages (spec 17.3) to an Anthropic Messages request. Pure; whatever the history holds, the request is valid.

Sources: Anthropic's reference of the Messages API and its pages on thinking, preserved thinking and prompt caching.

Thinking goes back to the model that thought it, byte for byte and in its place, when it is signed. What another model
thought, or nobody signed, is left out: its signature would be refused here, and as plain text it would pass for
something that was said to the user.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from durable_tui.models.history import (
    EMPTY_OUTPUT,
    AnswerTurn,
    CallTurn,
    History,
    Turn,
    UserTurn,
    digest,
    joined,
    parameters_of,
)
from durable_tui.models.known_providers import Quirks, Thinking
from durable_tui.models.provider import ModelRequest
from durable_tui.models.usage import estimate_tokens

MAX_TOKENS = 8192  # of an answer, when the model's own limit is not known
LEAST_TOKENS = 1024  # of an answer beside its thinking, and of thinking: a smaller budget is refused
OPENING = "(the conversation so far)"
BINDING = "thinking-binding-controls-2026-08-01"

_CHOICES = {"auto": "auto", "none": "none", "required": "any"}
_IMAGES = ("image/jpeg", "image/png", "image/gif", "image/webp")
_THOUGHTS = ("thinking", "redacted_thinking")


def build_request(request: ModelRequest, quirks: Quirks) -> dict[str, Any]:
    """The body to POST, streaming.

    `request.options` may hold `maxTokens` (int), `temperature`, `topP` (numbers; the first wins, newer models refuse
    both), `stop` (list of strings) and `toolChoice` ("auto", "none", "required" or a tool's name); other keys are not
    for this provider. A model that thinks takes neither temperature nor topP and chooses its tools itself.
    """
    options = request.options
    turns = History(request.model, quirks.call_ids).turns(request.messages)
    limit = options.get("maxTokens") or _limit(request)
    told = _told(request, quirks)
    thinking, echo = _thinking(request, told, limit, turns, quirks)
    thinks = bool(thinking) and thinking["thinking"]["type"] != "disabled"
    body: dict[str, Any] = {"model": request.model.model_id, "max_tokens": limit, "stream": True}
    if request.system.strip():
        body["system"] = [{"type": "text", "text": request.system}]
    if request.tools:
        body["tools"] = [_tool(tool) for tool in request.tools]
        if choice := options.get("toolChoice"):
            wire = {"type": _CHOICES[choice]} if choice in _CHOICES else {"type": "tool", "name": choice}
            body["tool_choice"] = {"type": "auto"} if thinks and wire["type"] in ("any", "tool") else wire
    body["messages"] = Messages(echo and quirks.echo_thinking).build(turns)
    body |= thinking
    if not thinks and (told is None or told.sampling):
        for name, key in (("temperature", "temperature"), ("topP", "top_p")):
            if options.get(name) is not None:
                body[key] = options[name]
                break
    if stop := [text for text in options.get("stop") or () if text.strip()]:
        body["stop_sequences"] = stop
    if request.session_id:
        body["metadata"] = {"user_id": digest(request.session_id, 32)}
    _mark(body)
    return body


def betas(request: ModelRequest, quirks: Quirks) -> list[str]:
    """The names for the header `anthropic-beta`: what the request holds beside the plain protocol."""
    told = _told(request, quirks)
    return [BINDING] if told is not None and told.bound and quirks.binding else []


@dataclass(slots=True)
class Messages:
    """Writes turns down as the wire's messages, whose roles alternate. `echo` says whether thinking goes back."""

    echo: bool
    out: list[dict[str, Any]] = field(default_factory=list)

    def build(self, turns: Sequence[Turn]) -> list[dict[str, Any]]:
        for turn in turns:
            if isinstance(turn, UserTurn):
                self._add("user", [_part(part) for part in turn.parts])
            else:
                self._add("assistant", _answer(turn, self.echo))
                self._add("user", [_result(call) for call in turn.calls])
        if self.out and self.out[0]["role"] == "assistant":
            self.out.insert(0, {"role": "user", "content": [{"type": "text", "text": OPENING}]})
        last = self.out[-1] if self.out else None
        if last is not None and last["role"] == "assistant" and last["content"][-1]["type"] == "text":
            # What such a message ends in, the model would have to continue: no blanks.
            last["content"][-1]["text"] = last["content"][-1]["text"].rstrip()
        return self.out

    def _add(self, role: str, blocks: list[dict[str, Any]]) -> None:
        if self.out and self.out[-1]["role"] == role:
            self.out[-1]["content"] += blocks
        elif blocks:
            self.out.append({"role": role, "content": blocks})


def _answer(turn: AnswerTurn, echo: bool) -> list[dict[str, Any]]:
    """The blocks of an answer in their order. None may be blank, and thinking may not be the last."""
    calls = iter(turn.calls)
    out: list[dict[str, Any]] = []
    for block in turn.blocks("text", "thinking", "toolCall"):
        if block["type"] == "toolCall":
            call = next(calls)
            out.append({"type": "tool_use", "id": call.id, "name": call.name, "input": call.arguments})
        elif block["type"] == "text":
            if block.get("text", "").strip():
                out.append({"type": "text", "text": block["text"]})
        elif echo and turn.same_model and (thought := _thought(block)) is not None:
            out.append(thought)
    while out[-1]["type"] in _THOUGHTS:
        out.pop()
    return out


def _thought(block: dict[str, Any]) -> dict[str, Any] | None:
    """A thinking block as it came; None without a signature, or with one whose text was lost."""
    signature = block.get("signature")
    if not signature:
        return None
    text = block.get("thinking", "")
    omitted = bool((block.get("providerExtra") or {}).get("omitted"))
    if block.get("redacted") and not omitted:
        return {"type": "redacted_thinking", "data": signature}
    return {"type": "thinking", "thinking": text, "signature": signature} if text or omitted else None


def _result(call: CallTurn) -> dict[str, Any]:
    parts = [_part(part) for part in call.result]
    text = joined(parts)
    content = parts if text is None else text or EMPTY_OUTPUT
    result: dict[str, Any] = {"type": "tool_result", "tool_use_id": call.id, "content": content}
    if call.is_error and text is not None:  # an error may hold nothing but text
        result["is_error"] = True
    return result


def _part(block: dict[str, Any]) -> dict[str, Any]:
    if block["type"] != "image":
        return dict(block)
    kind = block.get("mimeType")
    if kind not in _IMAGES:
        return {"type": "text", "text": f"(an image of type {kind}, which cannot be sent)"}
    return {"type": "image", "source": {"type": "base64", "media_type": kind, "data": block["data"]}}


def _tool(tool: dict[str, Any]) -> dict[str, Any]:
    wire = {"name": tool["name"], "input_schema": {"type": "object", **parameters_of(tool)}}
    if tool.get("description"):
        wire["description"] = tool["description"]
    return wire


def _limit(request: ModelRequest) -> int:
    """The limit of output tokens when the caller sets none.

    Many servers refuse a limit that reaches beyond the context window, so it shrinks as the prompt grows. Tokens are
    estimated, on the safe side.
    """
    model = request.model
    limit = model.max_output or MAX_TOKENS
    if model.context_window:
        prompt = estimate_tokens(request.system, request.messages, request.tools) * 5 // 4
        limit = min(limit, max(model.context_window - prompt, LEAST_TOKENS))
    return limit


# -- thinking ----------------------------------------------------------------------------------------------------------


def _told(request: ModelRequest, quirks: Quirks) -> Thinking | None:
    return None if request.model.reasoning is False else quirks.thinking_for(request.model.model_id)


def _thinking(
    request: ModelRequest, told: Thinking | None, limit: int, turns: Sequence[Turn], quirks: Quirks
) -> tuple[dict[str, Any], bool]:
    """Return the body's part about thinking, and whether earlier thinking goes back: else it would be refused."""
    level = request.thinking_level
    if told is None:
        return {}, True
    if effort := (told.adaptive or {}).get(level):
        # Newer models keep their thinking to themselves unless asked.
        thinking: dict[str, Any] = {"type": "adaptive", "display": "summarized"}
        if told.bound and quirks.binding:
            # Prompt and tools may change during a session: better without earlier thinking than refused for ever.
            thinking["block_binding"] = {"prefix_mismatch_behavior": "drop_block"}
        return {"thinking": thinking, "output_config": {"effort": effort}}, True
    if budget := (told.budget or {}).get(level):
        budget = min(budget, limit - LEAST_TOKENS)
        if budget >= LEAST_TOKENS and not _unthought(turns, quirks.echo_thinking):
            return {"thinking": {"type": "enabled", "budget_tokens": budget}}, True
        return {"thinking": {"type": "disabled"}}, False
    if told.off in ("disabled", "between_tools"):
        return {"thinking": {"type": told.off}}, told.off == "between_tools"
    return {}, told.off is None


def _unthought(turns: Sequence[Turn], echo: bool) -> bool:
    """Whether a round of tools is unfinished that began without thinking: a budget for thinking is refused until it ends.

    So it is after a change of model, or of the level, in the midst of it. What the user said meanwhile came with
    results, and whether it ended the round is the server's secret.
    """
    rounds: list[AnswerTurn] = []
    for turn in reversed(turns):
        if isinstance(turn, AnswerTurn):
            if not turn.calls:
                break
            rounds.append(turn)
    return bool(rounds) and not (
        all(turn.same_model for turn in rounds) and _answer(rounds[-1], echo)[0]["type"] in _THOUGHTS
    )


# -- the cache ---------------------------------------------------------------------------------------------------------


def _mark(body: dict[str, Any]) -> None:
    """Mark where the server may cut its cache, at most four times.

    The order is tools, system, messages. The last two user messages end where this request ends and where the one
    before it ended, so that is found again however many blocks came since.
    """
    ends = [blocks[-1] for blocks in (body.get("tools"), body.get("system")) if blocks]
    ends += [message["content"][-1] for message in body["messages"] if message["role"] == "user"][-2:]
    for block in ends:
        block["cache_control"] = {"type": "ephemeral"}
