"""Tokens and their cost (RECORDS 3): reading them from the wire, pricing them, estimating them."""

from __future__ import annotations

import json
import math
from typing import Any

from durable_tui.models.messages import Cost, Usage, empty_usage
from durable_tui.models.provider import Model


def read_chat_usage(raw: Any, model: Model) -> Usage | None:
    """Chat Completions' usage as ours, or None when the frame has none.

    Cached tokens are a subset of `prompt_tokens` there and split out here. Tokens that only `total_tokens` counts
    (reasoning at some servers) are output.
    """
    if not isinstance(raw, dict) or not ("prompt_tokens" in raw or "completion_tokens" in raw or "total_tokens" in raw):
        return None
    details = raw.get("prompt_tokens_details")
    details = details if isinstance(details, dict) else {}
    prompt = _count(raw.get("prompt_tokens"))
    cached = (
        _count(details.get("cached_tokens"))
        or _count(raw.get("prompt_cache_hit_tokens"))
        or _count(raw.get("cached_tokens"))
    )
    written = _count(details.get("cache_write_tokens"))
    cached = min(cached, prompt)
    written = min(written, prompt - cached)
    output = max(_count(raw.get("completion_tokens")), _count(raw.get("total_tokens")) - prompt)
    usage: Usage = {
        "input": prompt - cached - written,
        "output": output,
        "cacheRead": cached,
        "cacheWrite": written,
        "totalTokens": prompt + output,
    }
    return with_cost(usage, model, raw.get("cost"))


def with_cost(usage: Usage, model: Model, reported: Any = None) -> Usage:
    """Add the cost from the model's prices, else what the server reported as a total; absent when neither is known."""
    prices = model.prices
    if prices:
        cost: Cost = {
            "input": usage["input"] * prices.get("input", 0.0) / 1e6,
            "output": usage["output"] * prices.get("output", 0.0) / 1e6,
            "cacheRead": usage["cacheRead"] * prices.get("cacheRead", prices.get("input", 0.0)) / 1e6,
            "cacheWrite": usage["cacheWrite"] * prices.get("cacheWrite", prices.get("input", 0.0)) / 1e6,
            "total": 0.0,
        }
        cost["total"] = cost["input"] + cost["output"] + cost["cacheRead"] + cost["cacheWrite"]
        usage["cost"] = cost
    elif isinstance(reported, (int, float)) and not isinstance(reported, bool) and math.isfinite(reported):
        usage["cost"] = {"input": 0.0, "output": 0.0, "cacheRead": 0.0, "cacheWrite": 0.0, "total": float(reported)}
    return usage


def estimate_tokens(*values: Any) -> int:
    """About four characters a token; the data of images is not counted."""
    total = 0
    for value in values:
        text = value if isinstance(value, str) else json.dumps(_without_images(value), ensure_ascii=False, default=str)
        total += len(text)
    return math.ceil(total / 4)


def estimated_usage(prompt: int, output: int) -> Usage:
    """A usage of estimated tokens without a cost."""
    usage = empty_usage()
    usage["input"] = prompt
    usage["output"] = output
    usage["totalTokens"] = prompt + output
    return usage


def _without_images(value: Any) -> Any:
    if isinstance(value, dict):
        if value.get("type") == "image":
            return {"type": "image"}
        return {key: _without_images(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_without_images(item) for item in value]
    return value


def _count(value: Any) -> int:
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not math.isfinite(value):
        return 0
    return max(0, int(value))
