"""Tokens and their cost (spec 17.3): reading them from the wire, pricing them, estimating them."""

from __future__ import annotations

import json
import math
import re
import time
from collections.abc import Iterable

from durable_tui.models.json_text import Wire, WireObject, as_object
from durable_tui.models.messages import PARTS, TOKENS, Part, Usage, UsageTable, add_usage, empty_cost, empty_usage
from durable_tui.models.provider import Model, Prices

IMAGE_TOKENS = 1600  # about what the largest image costs that models look at


def read_chat_usage(raw: Wire, model: Model) -> Usage | None:
    """Chat Completions' usage as ours, or None when the frame has none.

    Cached tokens are a subset of `prompt_tokens` there and split out here. Tokens that only `total_tokens` counts
    (reasoning at some servers) are output.
    """
    if not isinstance(raw, dict) or not ("prompt_tokens" in raw or "completion_tokens" in raw or "total_tokens" in raw):
        return None
    details = as_object(raw.get("prompt_tokens_details"))
    prompt = _count(raw.get("prompt_tokens"))
    cached = (
        _count(details.get("cached_tokens"))
        or _count(raw.get("prompt_cache_hit_tokens"))
        or _count(raw.get("cached_tokens"))
    )
    written = _count(details.get("cache_write_tokens"))
    output = max(_count(raw.get("completion_tokens")), _count(raw.get("total_tokens")) - prompt)
    return with_cost(_split(prompt, cached, written, output), model, reported_cost(raw))


def read_responses_usage(raw: Wire, model: Model) -> Usage | None:
    """Responses' usage as ours, or None when there is none. Cached and written tokens are a subset of `input_tokens`."""
    if not isinstance(raw, dict) or not ("input_tokens" in raw or "output_tokens" in raw):
        return None
    details = as_object(raw.get("input_tokens_details"))
    cached, written = _count(details.get("cached_tokens")), _count(details.get("cache_write_tokens"))
    usage = _split(_count(raw.get("input_tokens")), cached, written, _count(raw.get("output_tokens")))
    return with_cost(usage, model, reported_cost(raw))


def _split(prompt: int, cached: int, written: int, output: int) -> Usage:
    """Usage from a whole prompt of which some tokens were read from the cache and some written to it."""
    cached = min(cached, prompt)
    written = min(written, prompt - cached)
    return {
        "input": prompt - cached - written,
        "output": output,
        "cacheRead": cached,
        "cacheWrite": written,
        "totalTokens": prompt + output,
    }


def read_anthropic_usage(raw: Wire, model: Model) -> Usage | None:
    """Anthropic's usage as ours, or None when there is none; cached tokens are not among `input_tokens` there."""
    if not isinstance(raw, dict) or not ("input_tokens" in raw or "output_tokens" in raw):
        return None
    usage: Usage = {
        "input": _count(raw.get("input_tokens")),
        "output": _count(raw.get("output_tokens")),
        "cacheRead": _count(raw.get("cache_read_input_tokens")),
        "cacheWrite": _count(raw.get("cache_creation_input_tokens")),
        "totalTokens": 0,
    }
    usage["totalTokens"] = usage["input"] + usage["output"] + usage["cacheRead"] + usage["cacheWrite"]
    return with_cost(usage, model, reported_cost(raw))


def reported_cost(raw: WireObject) -> float | None:
    """Return the cost in USD that a provider's own usage names, or None.

    OpenRouter has `cost`, to which comes what one's own key is charged (`is_byok`); xAI has ticks of 10^-10 USD.
    """
    cost = _amount(raw.get("cost"))
    if cost is not None:
        if raw.get("is_byok") is True:
            cost += _amount(as_object(raw.get("cost_details")).get("upstream_inference_cost")) or 0.0
        return cost
    ticks = _amount(raw.get("cost_in_usd_ticks"))
    return None if ticks is None else ticks / 1e10


def with_cost(usage: Usage, model: Model, reported: float | None = None, at: float | None = None) -> Usage:
    """Add the cost of an attempt, once and for good; absent when it is not known.

    What the provider `reported` it charged (USD) is the truth, and is not split. Else the model's prices at the time
    `at` (seconds, default now) count; without a price of their own, cached and written tokens cost what others do. Tokens
    of a kind without a price leave the cost unknown. A price of 0 is a price.
    """
    if reported is not None:
        usage["cost"] = {**empty_cost(), "total": reported}
        return usage
    prices = _prices(model, usage["input"] + usage["cacheRead"] + usage["cacheWrite"], at)
    if prices is None:
        return usage
    cost = empty_cost()
    for part in PARTS:
        paid = _paid(usage[part], _price(prices, part))
        if paid is None:
            return usage
        cost[part] = paid
    cost["total"] = sum(cost[part] for part in PARTS)
    usage["cost"] = cost
    return usage


def _prices(model: Model, prompt: int, at: float | None) -> Prices | None:
    """The prices of a request with so many tokens of prompt."""
    prices = model.prices
    for rule in model.other_prices:
        if prompt >= rule.tokens and (not rule.hours or _within(rule.hours, time.time() if at is None else at)):
            prices = rule.prices
    return prices or None


def _within(hours: tuple[tuple[int, int, int, int], ...], at: float) -> bool:
    now = time.gmtime(at)
    day, minute = now.tm_wday + 1, now.tm_hour * 60 + now.tm_min
    return any(first <= day <= last and start <= minute < end for first, last, start, end in hours)


def _price(prices: Prices, part: Part) -> float | None:
    """The price of a part; cached and written tokens without one of their own cost what others do."""
    return prices.get(part, prices.get("input") if part in ("cacheRead", "cacheWrite") else None)


def _paid(tokens: int, price: float | None) -> float | None:
    return 0.0 if tokens == 0 else None if price is None else tokens * price / 1e6


def total_usage(documents: Iterable[UsageTable | None]) -> Usage:
    """The sum over some `pi.usage` values, None where there is none."""
    total = empty_usage()
    for document in documents:
        for table in (document.get("models"), document.get("tools")) if document else ():
            for usage in (table or {}).values():
                total = add_usage(total, usage)
    return total


def cost_text(usage: Usage, at_least: str = "≥") -> str:
    """The cost for people: `$0.012`, `≥ $0.012` when that of some tokens is not known, `n/a` when of none, else ""."""
    if "cost" not in usage:
        return "n/a" if any(usage.get(key) for key in TOKENS) else ""
    total = usage["cost"].get("total") or 0.0
    text = "$0" if total == 0 else f"${total:.2f}" if total >= 1 else f"${total:.3f}" if total >= 0.001 else "<$0.001"
    if not usage.get("unpriced"):
        return text
    return f"{at_least} {text if total >= 0.001 else '$0'}"


def tokens_text(usage: Usage) -> str:
    """The tokens for people: `12 300 tokens sent (9 800 cached, 500 newly cached), 85 received`."""
    sent = usage.get("input", 0) + usage.get("cacheRead", 0) + usage.get("cacheWrite", 0)
    words: dict[Part, str] = {"cacheRead": "cached", "cacheWrite": "newly cached"}
    cached = ", ".join(f"{usage[part]:,} {word}" for part, word in words.items() if usage.get(part))
    text = f"{sent:,} tokens sent{f' ({cached})' if cached else ''}, {usage.get('output', 0):,} received"
    return re.sub(r"(?<=\d),(?=\d)", " ", text)


def estimate_tokens(*values: object) -> int:
    """About four characters a token, and IMAGE_TOKENS for an image whatever its data."""
    images = 0

    def told(value: object) -> object:
        nonlocal images
        if isinstance(value, dict):
            if value.get("type") == "image":
                images += 1
                return None
            return {key: told(item) for key, item in value.items()}
        return [told(item) for item in value] if isinstance(value, list) else value

    texts = [
        value if isinstance(value, str) else json.dumps(told(value), ensure_ascii=False, default=str)
        for value in values
    ]
    return math.ceil(sum(len(text) for text in texts) / 4) + images * IMAGE_TOKENS


def estimated_usage(prompt: int, output: int) -> Usage:
    """A usage of estimated tokens without a cost."""
    usage = empty_usage()
    usage["input"] = prompt
    usage["output"] = output
    usage["totalTokens"] = prompt + output
    return usage


def _amount(value: Wire) -> float | None:
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not math.isfinite(value) or value < 0:
        return None
    return float(value)


def _count(value: Wire) -> int:
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not math.isfinite(value):
        return 0
    return max(0, int(value))
