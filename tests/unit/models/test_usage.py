"""What an attempt cost, sums of that, and the words for it."""

from __future__ import annotations

import calendar
import json
from typing import Any

import pytest

from durable_tui.models import Model, ModelRequest, Models
from durable_tui.models.anthropic_stream import AnthropicStream
from durable_tui.models.failures import Endpoint
from durable_tui.models.messages import Usage, add_usage, empty_usage
from durable_tui.models.usage import (
    IMAGE_TOKENS,
    cost_text,
    estimate_tokens,
    estimated_usage,
    read_chat_usage,
    reported_cost,
    tokens_text,
    total_usage,
    with_cost,
)

SONNET = {"input": 3.0, "output": 15.0, "cacheRead": 0.3, "cacheWrite": 3.75}


def usage(input: int = 0, output: int = 0, cache_read: int = 0, cache_write: int = 0) -> Usage:
    total = input + output + cache_read + cache_write
    return {"input": input, "output": output, "cacheRead": cache_read, "cacheWrite": cache_write, "totalTokens": total}


def model(prices: dict[str, float] | None = None) -> Model:
    return Model("acme", "m", "openai-chat", prices=prices)


def cost(used: Usage, of: Model, at: float | None = None) -> float | None:
    priced: Any = with_cost(used, of, at=at)
    return priced["cost"]["total"] if "cost" in priced else None


def test_cached_and_written_tokens_have_prices_of_their_own() -> None:
    priced = with_cost(usage(30_000, 5_000, 60_000, 10_000), model(SONNET))
    assert priced["cost"]["input"] == pytest.approx(0.09) and priced["cost"]["output"] == pytest.approx(0.075)
    assert priced["cost"]["cacheRead"] == pytest.approx(0.018) and priced["cost"]["cacheWrite"] == pytest.approx(0.0375)
    assert priced["cost"]["total"] == pytest.approx(0.2205)


def test_without_a_price_of_their_own_cached_tokens_cost_what_others_do() -> None:
    assert cost(usage(0, 0, 1_000_000, 0), model({"input": 2.0, "output": 8.0})) == 2.0
    assert cost(usage(0, 0, 0, 1_000_000), model({"input": 2.0, "output": 8.0, "cacheRead": 0.2})) == 2.0
    assert cost(usage(0, 0, 1_000_000, 0), model({"input": 2.0, "output": 8.0, "cacheRead": 0.0})) == 0.0


def test_an_unknown_price_is_no_cost_and_a_free_one_is_nothing() -> None:
    assert "cost" not in with_cost(usage(10, 10), model()) and "cost" not in with_cost(usage(10, 10), model({}))
    assert cost(usage(10, 10), model({"input": 0.0, "output": 0.0})) == 0.0
    assert "cost" not in with_cost(usage(10, 10), model({"input": 1.0}))
    assert cost(usage(1_000_000), model({"input": 1.0})) == 1.0
    assert "cost" not in with_cost(usage(0, 0, 10), model({"output": 1.0}))


def test_a_long_prompt_has_its_own_prices_for_the_whole_request() -> None:
    sol = Models.from_env({}).resolve("openai/gpt-6-sol")
    assert cost(usage(200_000, 1_000, 72_000), sol) == pytest.approx((200_000 * 2 + 72_000 * 0.2 + 1_000 * 10) / 1e6)
    assert cost(usage(200_000, 1_000, 72_001), sol) == pytest.approx((200_000 * 4 + 72_001 * 0.4 + 1_000 * 15) / 1e6)
    grok = Models.from_env({}).resolve("xai/grok-4.7")
    assert cost(usage(199_999), grok) == pytest.approx(199_999 * 2 / 1e6)
    assert cost(usage(200_000), grok) == pytest.approx(200_000 * 4 / 1e6)


@pytest.mark.parametrize(
    ("day", "hour", "minute", "cheap"),
    [
        (23, 0, 59, True),  # a Monday
        (23, 1, 0, False),
        (23, 3, 59, False),
        (23, 4, 0, True),
        (23, 9, 59, False),
        (27, 23, 59, True),
        (28, 2, 0, True),  # a Saturday
        (29, 8, 0, True),
        (30, 8, 0, False),
    ],
)
def test_prices_of_the_hour(day: int, hour: int, minute: int, cheap: bool) -> None:
    flash = Models.from_env({}).resolve("deepseek/deepseek-flash")
    at = calendar.timegm((2026, 11, day, hour, minute, 0))
    assert cost(usage(1_000_000, 0, 1_000_000), flash, at) == pytest.approx(0.153 if cheap else 0.306)


def test_what_the_provider_reports_is_the_truth() -> None:
    raw: dict[str, Any] = {"prompt_tokens": 100, "completion_tokens": 10, "cost": 0.00042}
    found = read_chat_usage(raw, model(SONNET))
    assert found is not None and found["cost"] == {
        "input": 0.0, "output": 0.0, "cacheRead": 0.0, "cacheWrite": 0.0, "total": 0.00042
    }  # fmt: skip
    for nonsense in ("free", None, -1, float("nan"), True, {"total": 1}):
        found = read_chat_usage({**raw, "cost": nonsense}, model(SONNET))
        assert found is not None and found["cost"]["total"] == pytest.approx(0.00045)
        found = read_chat_usage({**raw, "cost": nonsense}, model())
        assert found is not None and "cost" not in found
    found = read_chat_usage({**raw, "cost": 0}, model())
    assert found is not None and found["cost"]["total"] == 0.0


def test_reported_costs_in_the_ways_of_their_providers() -> None:
    assert reported_cost({}) is None
    assert reported_cost({"cost_in_usd_ticks": 37_756_000}) == pytest.approx(0.0037756)
    upstream = {"cost": 0.5, "cost_details": {"upstream_inference_cost": 9.5}}
    assert reported_cost(upstream) == 0.5 and reported_cost({**upstream, "is_byok": True}) == 10.0
    assert reported_cost({"cost": 0.5, "is_byok": True, "cost_details": {"upstream_inference_cost": None}}) == 0.5


def test_what_came_after_the_last_count_of_a_broken_stream_has_no_price() -> None:
    request = ModelRequest(model(SONNET), "", [])
    stream = AnthropicStream(request, Endpoint("acme"), "anthropic")
    begun = {"usage": {"input_tokens": 1000, "output_tokens": 1, "cache_read_input_tokens": 500}}
    stream.chunk(json.dumps({"type": "message_start", "message": begun}))
    assert stream.spent() == {**with_cost(usage(1000, 1, 500), model(SONNET))}
    block = {"type": "text", "text": ""}
    stream.chunk(json.dumps({"type": "content_block_start", "index": 0, "content_block": block}))
    stream.chunk(
        json.dumps({"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "x" * 80}})
    )
    spent: Any = stream.spent()
    assert (spent["output"], spent["totalTokens"], spent["unpriced"]) == (20, 1520, 19)
    assert spent["cost"] == with_cost(usage(1000, 1, 500), model(SONNET))["cost"]
    assert add_usage(empty_usage(), spent)["unpriced"] == 19
    end = {"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage": {"output_tokens": 22}}
    stream.chunk(json.dumps(end))
    assert stream.spent() == {**with_cost(usage(1000, 22, 500), model(SONNET))}


def test_a_sum_knows_what_it_leaves_out() -> None:
    known, unknown = with_cost(usage(1000, 100), model(SONNET)), usage(500, 50, 7)
    total = add_usage(add_usage(known, unknown), unknown)
    assert total["cost"]["total"] == pytest.approx(0.0045) and total["unpriced"] == 1114
    assert total == add_usage(add_usage(unknown, known), unknown) == add_usage(unknown, add_usage(unknown, known))
    assert (total["input"], total["output"], total["cacheRead"], total["totalTokens"]) == (2000, 200, 14, 2214)
    assert "cost" not in add_usage(unknown, unknown) and "unpriced" not in add_usage(unknown, unknown)
    assert "unpriced" not in add_usage(known, add_usage(known, empty_usage()))


def test_totals_are_over_models_and_tools_whatever_a_tool_left_out() -> None:
    used = with_cost(usage(1000, 100), model(SONNET))
    partly: Any = {"output": 5, "cost": {"total": 0.5}}
    total = total_usage([{"models": {"a/b": used}, "tools": {"search": partly}}, {}, {"models": {"a/b": used}}])
    assert total["output"] == 205 and total["cost"]["total"] == pytest.approx(0.509) and "unpriced" not in total


def test_the_words_for_a_cost_are_exact_or_say_that_they_are_not() -> None:
    def text(total: float, unpriced: int = 0) -> str:
        return cost_text({"totalTokens": 9, "cost": {"total": total}, **({"unpriced": unpriced} if unpriced else {})})

    assert [text(v) for v in (0, 0.0001, 0.012, 1.5)] == ["$0", "<$0.001", "$0.012", "$1.50"]
    assert [text(v, 3) for v in (0, 0.0001, 0.012, 1.5)] == ["≥ $0", "≥ $0", "≥ $0.012", "≥ $1.50"]
    assert cost_text(estimated_usage(5, 5)) == "n/a" and cost_text({"output": 1}) == "n/a"
    assert cost_text(empty_usage()) == "" and cost_text({}) == ""


def test_the_words_for_tokens_show_cached_ones() -> None:
    assert tokens_text(usage(2_000, 1_100, 9_800, 500)) == (
        "12 300 tokens sent (9 800 cached, 500 newly cached), 1 100 received"
    )
    assert tokens_text(usage(12, 0)) == "12 tokens sent, 0 received"


def test_an_image_counts_as_one_whatever_its_data() -> None:
    def said(data: str) -> list[dict[str, object]]:
        return [{"role": "user", "content": [{"type": "image", "mimeType": "image/png", "data": data}]}]

    assert estimate_tokens(said("x" * 100_000)) == estimate_tokens(said("x")) > IMAGE_TOKENS
    assert estimate_tokens("x" * 400, said("x"), said("x")) > 2 * IMAGE_TOKENS + 100
