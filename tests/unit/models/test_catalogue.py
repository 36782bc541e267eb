"""The shipped catalogue, names looked up in it, and what the configuration says instead."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import durable_tui
from durable_tui.models import Models, catalogue
from durable_tui.models.known_providers import KNOWN
from durable_tui.models.provider import PriceRule

FOLDER = Path(durable_tui.__file__).parent / "models"
SHIPPED: dict[str, Any] = json.loads((FOLDER / "catalogue.json").read_text(encoding="utf-8"))
ENTRIES = [(provider, name, facts) for provider, given in SHIPPED["models"].items() for name, facts in given.items()]
PRICES = ("input", "output", "cache_read", "cache_write")


def test_the_file_tells_its_source_and_carries_its_licence() -> None:
    assert SHIPPED["source"].startswith("litellm ") and len(SHIPPED["as_of"]) == 10
    notice = (FOLDER / "CATALOGUE_LICENSE").read_text(encoding="utf-8")
    assert SHIPPED["licence"] == "MIT, see CATALOGUE_LICENSE"
    assert "MIT License" in notice and "Copyright (c)" in notice and "The above copyright notice" in notice


def test_the_file_is_small_sorted_and_has_one_model_a_line() -> None:
    lines = (FOLDER / "catalogue.json").read_text(encoding="utf-8").splitlines()
    assert 60 <= len(ENTRIES) <= 120
    assert sum('"context_window"' in line for line in lines) == len(ENTRIES)
    assert list(SHIPPED["models"]) == sorted(SHIPPED["models"])
    assert all(list(given) == sorted(given) for given in SHIPPED["models"].values())


def test_only_known_providers_and_no_local_one_are_listed() -> None:
    assert set(SHIPPED["models"]) == {known.name for known in KNOWN.values() if not known.local}


@pytest.mark.parametrize(("provider", "name", "facts"), ENTRIES, ids=[f"{entry[0]}/{entry[1]}" for entry in ENTRIES])
def test_every_entry_is_sensible(provider: str, name: str, facts: dict[str, Any]) -> None:
    assert facts.keys() <= {
        "context_window", "max_output", "images", "reasoning", "tools", *PRICES, "long", "off_peak", "also"
    }  # fmt: skip
    assert 100_000 <= facts["context_window"] <= 2_000_000
    assert 8_000 <= facts.get("max_output", 8_000) <= facts["context_window"]
    assert facts["tools"] is True and {type(facts["images"]), type(facts["reasoning"])} == {bool}
    if provider == "openrouter":
        assert not set(PRICES) & facts.keys(), "it reports its costs; a table of its prices would be wrong soon"
        return
    free = name.startswith("gemma-")
    for prices in (facts, facts.get("long", facts), facts.get("off_peak", facts)):
        assert 0 <= prices["input"] <= prices["output"] < 1000 and (prices["input"] > 0) != free
        assert 0 <= prices.get("cache_read", 0) <= prices["input"] <= prices.get("cache_write", 1000)
    if "long" in facts:
        assert 100_000 <= facts["long"]["from"] < facts["context_window"]
        assert facts["long"]["input"] >= facts["input"] and ("cache_read" in facts["long"]) == ("cache_read" in facts)
    found = catalogue.lookup(provider, name)
    assert found is not None and found.prices is not None and found.prices["input"] == facts["input"]
    assert all(catalogue.lookup(provider, other) == found for other in facts.get("also", ()))


def test_the_default_models_are_listed() -> None:
    for known in KNOWN.values():
        if known.default_model and known.default_model != "openrouter/auto":  # what answers there is not known before
            found = catalogue.lookup(known.name, known.default_model)
            assert found is not None and found.prices, known.name
            assert known.api != "anthropic" or found.max_output


def test_facts_known_from_elsewhere() -> None:
    sonnet = catalogue.lookup("anthropic", "claude-sonnet-4-5")
    assert sonnet is not None and (sonnet.context_window, sonnet.max_output) == (200_000, 64_000)
    assert sonnet.prices == {"input": 3.0, "output": 15.0, "cacheRead": 0.3, "cacheWrite": 3.75}
    gpt = catalogue.lookup("openai", "gpt-5.2")
    assert gpt is not None and (gpt.context_window, gpt.max_output) == (272_000, 128_000)
    assert gpt.prices == {"input": 1.75, "output": 14.0, "cacheRead": 0.175} and gpt.images and gpt.reasoning
    pro = catalogue.lookup("gemini", "gemini-2.5-pro")
    assert pro is not None and pro.other_prices == (
        PriceRule({"input": 2.5, "output": 15.0, "cacheRead": 0.25}, tokens=200_001),
    )
    oss = catalogue.lookup("groq", "openai/gpt-oss-120b")
    assert oss is not None and oss.images is False and oss.prices is not None and oss.prices["output"] == 0.6
    free = catalogue.lookup("gemini", "gemma-4-31b-it")
    assert free is not None and free.prices == {"input": 0.0, "output": 0.0}


@pytest.mark.parametrize(
    ("provider", "name", "same_as"),
    [
        ("anthropic", "claude-sonnet-4-5-20250929", "claude-sonnet-4-5"),
        ("openai", "gpt-5.2-2025-12-11", "gpt-5.2"),
        ("gemini", "models/gemini-2.5-pro", "gemini-2.5-pro"),
        ("xai", "grok-4.5-latest", "grok-4.5"),
    ],
)
def test_other_names_of_the_same_model_have_its_prices(provider: str, name: str, same_as: str) -> None:
    found = catalogue.lookup(provider, name)
    assert found is not None and found.prices and found == catalogue.lookup(provider, same_as)


@pytest.mark.parametrize(
    ("provider", "name"),
    [
        ("openai", "gpt-4o-2024-05-13"),  # cost twice as much as gpt-4o
        ("openai", "gpt-5.2-2031-01-01"),
        ("anthropic", "claude-sonnet-5-5-20310101"),
        ("xai", "grok-4.7-latest"),
    ],
)
def test_a_version_that_is_not_listed_has_no_price_but_the_limits(provider: str, name: str) -> None:
    found = catalogue.lookup(provider, name)
    assert found is not None and found.context_window and found.prices is None and found.other_prices == ()


@pytest.mark.parametrize(
    ("provider", "name"),
    [
        ("openai", "gpt-5.2-mini"),
        ("openai", "gpt-9"),
        ("openai", "models/gpt-5.2"),
        ("openai", "ft:gpt-4.1:me::x"),
        ("groq", "gpt-oss-120b"),
        ("ollama", "gpt-5.2"),
        ("mine", "gpt-5.2"),
        ("openrouter", "openai/gpt-5.2:free"),
        ("openrouter", "anthropic/claude-opus-5:batch"),
        ("openrouter", "openrouter/auto"),
        ("openrouter", "gpt-5.2"),
        ("openrouter", "someone/gpt-5.2"),
    ],
)
def test_what_is_not_known_is_not_guessed(provider: str, name: str) -> None:
    assert catalogue.lookup(provider, name) is None


@pytest.mark.parametrize(
    ("name", "provider", "model_id"),
    [
        ("openai/gpt-5.2", "openai", "gpt-5.2"),
        ("openai/gpt-5.2:online", "openai", "gpt-5.2"),
        ("anthropic/claude-sonnet-4.5", "anthropic", "claude-sonnet-4-5"),
        ("anthropic/claude-sonnet-4.5:thinking", "anthropic", "claude-sonnet-4-5"),
        ("google/gemini-2.5-pro", "gemini", "gemini-2.5-pro"),
        ("x-ai/grok-4.7:nitro", "xai", "grok-4.7"),
        ("z-ai/glm-5.3", "openrouter", "z-ai/glm-5.3"),
    ],
)
def test_models_of_openrouter_are_those_of_their_makers_without_a_price(
    name: str, provider: str, model_id: str
) -> None:
    maker = catalogue.lookup(provider, model_id)
    assert maker is not None and catalogue.lookup("openrouter", name) == maker.unpriced()
    assert maker.unpriced().prices is None and maker.unpriced().context_window == maker.context_window


def test_a_resolved_model_has_what_the_catalogue_knows() -> None:
    model = Models.from_env({}).resolve("openai/gpt-6-sol")
    assert (model.context_window, model.max_output) == (922_000, 128_000)
    assert (model.images, model.reasoning, model.tools) == (True, True, True)
    assert model.prices == {"input": 2.0, "output": 10.0, "cacheRead": 0.2, "cacheWrite": 2.5}
    assert [rule.tokens for rule in model.other_prices] == [272_001]
    assert Models.from_env({}).resolve("ollama/gpt-6-sol").context_window is None


@pytest.mark.parametrize(
    "models",
    [
        Models.from_env({"OPENAI_BASE_URL": "http://127.0.0.1:9/v1"}),
        Models.from_env({}, {"openai": {"base_url": "https://gateway.test/v1"}}),
    ],
)
def test_a_server_of_ones_own_has_the_limits_but_not_the_prices(models: Models) -> None:
    model = models.resolve("openai/gpt-6-sol")
    assert model.context_window == 922_000 and model.images is True
    assert model.prices is None and model.other_prices == ()


def test_the_providers_own_address_written_out_keeps_the_prices() -> None:
    given = {"openai": {"base_url": "https://api.openai.com/v1/", "models": {}}}
    assert Models.from_env({}, given).resolve("openai/gpt-5.2").prices
    given["openai"]["base_url"] = KNOWN["openai"].base_url
    elsewhere = {"OPENAI_BASE_URL": "http://127.0.0.1:9/v1"}
    assert Models.from_env(elsewhere, given).resolve("openai/gpt-5.2").prices


def test_a_configured_provider_of_another_name_has_no_catalogue() -> None:
    model = Models.from_env({}, {"mine": {"base_url": "https://api.openai.com/v1"}}).resolve("mine/gpt-5.2")
    assert (model.context_window, model.prices, model.images) == (None, None, None)


def test_the_configuration_comes_first_field_by_field() -> None:
    said = {"context_window": 9000, "images": False}
    config = {
        "openai": {"models": {"gpt-6-sol": said}},
        "xai": {"base_url": "http://x.test", "models": {"grok-4.7": {}}},
    }
    model = Models.from_env({}, config).resolve("openai/gpt-6-sol")
    assert (model.context_window, model.max_output, model.images, model.tools) == (9000, 128_000, False, True)
    assert model.prices is not None and model.prices["input"] == 2.0 and model.other_prices
    config["xai"]["models"]["grok-4.7"] = {"prices": {"input": 1, "output": 2}}
    model = Models.from_env({}, config).resolve("xai/grok-4.7")
    assert model.prices == {"input": 1.0, "output": 2.0} and model.other_prices == () and model.images is True


def test_the_file_is_read_when_a_model_is_looked_up_and_not_before() -> None:
    code = "\n".join(
        [
            "import durable_tui.models",
            "models = durable_tui.models.Models.from_env({})",
            "from durable_tui.models import catalogue",
            "assert catalogue._table.cache_info().misses == 0",
            "models.resolve('openai/gpt-5.2'); models.resolve('openai/gpt-5.2')",
            "assert catalogue._table.cache_info().misses == 1",
        ]
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)
