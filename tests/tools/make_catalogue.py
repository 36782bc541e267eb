"""Make durable_tui/models/catalogue.json from litellm's table of models (MIT). For developers; nothing runs it by itself.

    pip download --no-deps --dest /tmp/source litellm
    python tests/tools/make_catalogue.py /tmp/source/litellm-*.whl --as-of 2026-11-30

The argument is litellm's wheel, or the `model_prices_and_context_window_backup.json` out of one (then `--version` says of
which). The same source and arguments give the same file, byte for byte; `git diff` shows what changed, one model a line.
`--check` writes nothing and fails when the file would change. Look at the difference before committing it: prices that
moved, limits that shrank, and models that are gone (those end the script; take them from KEEP).

What is taken over: the lists KEEP and ELSEWHERE below. Prices become USD per million tokens. `also` are other names of
the same model (a dated one, `-latest`) for which the source says exactly the same. A source entry that prices in a way
the catalogue cannot express ends the script.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import re
import sys
import zipfile
from decimal import Decimal
from pathlib import Path
from typing import Any

TARGET = Path(__file__).resolve().parents[2] / "durable_tui" / "models" / "catalogue.json"
LICENCE = TARGET.with_name("CATALOGUE_LICENSE")
SOURCE = "model_prices_and_context_window_backup.json"

# Where the source has a provider's models.
PREFIXES = {
    "anthropic": "",
    "deepseek": "deepseek/",
    "gemini": "gemini/",
    "groq": "groq/",
    "mistral": "mistral/",
    "openai": "",
    "xai": "xai/",
}

# What people pick today for such work; retired models and those for sound or pictures are left out.
KEEP = {
    "anthropic": """
        claude-fable-5 claude-fable-5-1 claude-haiku-4-5 claude-haiku-5-5 claude-opus-4-5 claude-opus-4-6 claude-opus-4-7
        claude-opus-4-8 claude-opus-5 claude-opus-5-5 claude-sonnet-4-5 claude-sonnet-4-6 claude-sonnet-5
        claude-sonnet-5-5
    """,
    "deepseek": "deepseek-flash deepseek-v4-flash deepseek-v4-pro",
    "gemini": """
        gemini-2.5-flash gemini-2.5-flash-lite gemini-2.5-pro gemini-3-flash-preview gemini-3.1-flash-lite
        gemini-3.1-pro-preview gemini-3.5-flash gemini-3.5-flash-lite gemini-3.6-flash gemini-3.7-flash gemini-3.8-flash
        gemini-4-argon gemini-4-hydrogen gemini-flash-latest gemini-flash-lite-latest gemini-pro-latest gemma-4-31b-it
    """,
    "groq": "openai/gpt-oss-120b openai/gpt-oss-20b qwen/qwen3.8-27b",
    "mistral": """
        codestral-2508 codestral-latest ministral-14b-latest ministral-8b-latest mistral-large-2512 mistral-large-4
        mistral-large-latest mistral-medium-2604 mistral-medium-3-5 mistral-medium-latest mistral-small-2603
        mistral-small-latest
    """,
    "openai": """
        gpt-4.1 gpt-4.1-mini gpt-4o gpt-4o-mini gpt-5 gpt-5-mini gpt-5-nano gpt-5.1 gpt-5.2 gpt-5.2-pro gpt-5.3-codex
        gpt-5.4 gpt-5.4-mini gpt-5.4-nano gpt-5.5 gpt-5.6 gpt-5.6-luna gpt-5.6-sol gpt-5.6-terra gpt-6-astra gpt-6-luna
        gpt-6-sol gpt-6.1-sol gpt-6.1-terra o3
    """,
    "xai": "grok-4.20 grok-4.3 grok-4.5 grok-4.6 grok-4.7 grok-build-0.1 grok-build-latest",
}

# Models that openrouter has from makers without a list of their own here. Only what they can do is taken over, from the
# source's entry on the right: OpenRouter's prices change by the hour, and it reports what each answer cost. Its models
# of the makers above are found in their lists (durable_tui/models/catalogue.py).
ELSEWHERE = {
    "openrouter": {
        "minimax/minimax-m3": "minimax/MiniMax-M3",
        "moonshotai/kimi-k2.7-code": "moonshot/kimi-k2.7-code",
        "moonshotai/kimi-k3": "moonshot/kimi-k3",
        "moonshotai/kimi-k3.1-pro": "moonshot/kimi-k3.1-pro",
        "openai/gpt-oss-120b": "groq/openai/gpt-oss-120b",
        "openai/gpt-oss-20b": "groq/openai/gpt-oss-20b",
        "qwen/qwen3-coder-flash": "dashscope/qwen3-coder-flash",
        "qwen/qwen3-coder-plus": "dashscope/qwen3-coder-plus",
        "qwen/qwen3.7-max": "dashscope/qwen3.7-max",
        "qwen/qwen3.7-plus": "dashscope/qwen3.7-plus",
        "qwen/qwen3.8-flash": "dashscope/qwen3.8-flash",
        "z-ai/glm-5.2": "zai/glm-5.2",
        "z-ai/glm-5.3": "zai/glm-5.3",
        "z-ai/glm-5.3-flash": "zai/glm-5.3-flash",
    },
}

# The source gives the whole window of these as what may go in; the answer needs room in it too.
WHOLE_WINDOW = {"gpt-5.4", "gpt-5.5"}
# Where a longer prompt has other prices from exactly that number of tokens on, not from one more.
INCLUSIVE = {"xai"}

PRICES = {
    "input": "input_cost_per_token",
    "output": "output_cost_per_token",
    "cache_read": "cache_read_input_token_cost",
    "cache_write": "cache_creation_input_token_cost",
}
ABILITIES = {"images": "supports_vision", "reasoning": "supports_reasoning", "tools": "supports_function_calling"}
# Prices of requests that are never sent from here: other service tiers, longer caches, sound, searches.
OTHER_REQUESTS = re.compile(
    r"batch|flex|priority|ultrafast|decisions|above_1(?:hr|2hr)|audio|image|video|character|search|session|grounding"
)
DAYS = "1234567"


class Unfit(Exception):
    """A source entry that cannot be taken over."""


def main() -> int:
    parser = argparse.ArgumentParser(description="Make the model catalogue from litellm's table.")
    parser.add_argument("source", type=Path, help="litellm's wheel, or the JSON out of one")
    parser.add_argument("--as-of", required=True, metavar="YYYY-MM-DD", help="the day the source was fetched")
    parser.add_argument("--version", help="litellm's version; read from a wheel's name")
    parser.add_argument("--check", action="store_true", help="write nothing, fail when the file would change")
    options = parser.parse_args()
    if not re.fullmatch(r"\d{4}-\d\d-\d\d", options.as_of):
        parser.error("--as-of must be a date such as 2026-11-30")
    table, version, licence = read(options.source, options.version)
    if version is None:
        parser.error("--version is needed with a JSON file")
    try:
        text = render(catalogue(table), f"litellm {version} ({SOURCE})", options.as_of)
    except Unfit as error:
        sys.exit(str(error))
    if options.check:
        same = TARGET.exists() and TARGET.read_text(encoding="utf-8") == text
        print(f"{TARGET.name} is {'up to date' if same else 'not what this source gives'}")
        return 0 if same else 1
    TARGET.write_text(text, encoding="utf-8")
    if licence is not None:
        LICENCE.write_text(licence, encoding="utf-8")
    print(f"{TARGET}: {text.count('context_window')} models, {len(text.encode())} bytes")
    return 0


def read(path: Path, version: str | None) -> tuple[dict[str, Any], str | None, str | None]:
    """The table, litellm's version, and its licence (None when only the JSON is given)."""
    licence = None
    if path.suffix == ".whl":
        with zipfile.ZipFile(path) as wheel:
            raw = wheel.read(f"litellm/{SOURCE}")
            name = next(name for name in wheel.namelist() if re.search(r"\.dist-info/(?:licenses/)?LICENSE$", name))
            licence = wheel.read(name).decode("utf-8")
        version = version or path.name.split("-")[1]
    else:
        raw = path.read_bytes()
    return json.loads(raw, parse_float=Decimal), version, licence


def catalogue(table: dict[str, Any]) -> dict[str, dict[str, dict[str, Any]]]:
    """Provider to model id to facts, sorted."""
    models: dict[str, dict[str, dict[str, Any]]] = {}
    for provider, names in KEEP.items():
        keep, prefix = names.split(), PREFIXES[provider]
        models[provider] = {
            name: {**entry(table, prefix + name, provider), **also(table, prefix, name, provider, keep)}
            for name in sorted(keep)
        }
    for provider, given in ELSEWHERE.items():
        models[provider] = {name: limits(table, given[name]) for name in sorted(given)}
    return dict(sorted(models.items()))


def source_entry(table: dict[str, Any], key: str) -> dict[str, Any]:
    if key not in table:
        raise Unfit(f"{key}: is not in the source any more; take it out of the lists in {Path(__file__).name}")
    found: dict[str, Any] = table[key]
    return found


def limits(table: dict[str, Any], key: str) -> dict[str, Any]:
    """What fits in and comes out, and what the model can do."""
    source = source_entry(table, key)
    facts: dict[str, Any] = {"context_window": source["max_input_tokens"], "max_output": source["max_output_tokens"]}
    if re.sub(r"-\d{4}-\d\d-\d\d$", "", key) in WHOLE_WINDOW:
        facts["context_window"] -= facts["max_output"]
    if facts["max_output"] >= facts["context_window"]:
        del facts["max_output"]  # no limit of its own
    # The source marks what takes pictures, thinks or calls tools; of the rest it says nothing.
    facts.update({name: bool(source.get(flag)) for name, flag in ABILITIES.items()})
    return facts


def entry(table: dict[str, Any], key: str, provider: str) -> dict[str, Any]:
    source = source_entry(table, key)
    prices: dict[str, Any] = {}
    long: dict[str, Any] = {}
    taken = {"output_cost_per_reasoning_token", "input_cost_per_token_cache_hit"}
    for name, field in PRICES.items():
        if field in source and (source[field] or name in ("input", "output")):
            prices[name] = millions(source[field])
        taken.add(field)
        for other in source:
            found = re.fullmatch(rf"{field}_above_(\d+)k_tokens", other)
            if found:
                first = int(found[1]) * 1000 + (0 if provider in INCLUSIVE else 1)
                if long.setdefault("from", first) != first:
                    raise Unfit(f"{key}: has more than one price for long prompts")
                long[name] = millions(source[other])
                taken.add(other)
    unknown = [field for field in source if "cost" in field and field not in taken and not OTHER_REQUESTS.search(field)]
    if unknown or {"input", "output"} - prices.keys():
        raise Unfit(f"{key}: is priced in a way this script does not know: {unknown or 'no price'}")
    if source.get("output_cost_per_reasoning_token", source[PRICES["output"]]) != source[PRICES["output"]]:
        raise Unfit(f"{key}: has another price for reasoning")
    if long:
        prices["long"] = long
    if "off_peak_pricing" in source:
        prices["off_peak"] = off_peak(source["off_peak_pricing"])
    return {**limits(table, key), **prices}


def off_peak(given: dict[str, Any]) -> dict[str, Any]:
    """Cheaper prices by the hour (UTC): `DAYS HH:MM-HH:MM`, Monday is 1."""
    hours = []
    for window in given["windows"]:
        days = "".join(str(day) for day in sorted(window["weekdays"]))
        if days not in DAYS:
            raise Unfit(f"days that do not follow each other: {days}")
        spans = window["hours_utc"]
        for span in [spans] if isinstance(spans, str) else spans:
            hours.append(f"{days[0]}-{days[-1]} {re.sub('-00:00$', '-24:00', span)}")
    return {"hours": hours, **{name: millions(given[field]) for name, field in PRICES.items() if field in given}}


def also(table: dict[str, Any], prefix: str, name: str, provider: str, keep: list[str]) -> dict[str, Any]:
    """Other names of the same model for which the source says the same."""
    form = re.compile(re.escape(prefix + name) + r"-(?:latest|\d{4}-\d\d-\d\d|\d{8}|\d{4})")
    names = [key for key in sorted(table) if form.fullmatch(key) and key.removeprefix(prefix) not in keep]
    facts = entry(table, prefix + name, provider)
    same = []
    for key in names:
        with contextlib.suppress(Unfit):
            if entry(table, key, provider) == facts:
                same.append(key.removeprefix(prefix))
    return {"also": same} if same else {}


def millions(value: Decimal | int) -> int | float:
    price = Decimal(value) * 1_000_000
    return int(price) if price == price.to_integral_value() else float(price)


def render(models: dict[str, dict[str, dict[str, Any]]], source: str, as_of: str) -> str:
    """One model a line, so that a difference reads well."""
    head = {"source": source, "licence": f"MIT, see {LICENCE.name}", "as_of": as_of, "prices": "USD per million tokens"}
    lines = ["{", *(f"  {json.dumps(key)}: {json.dumps(value)}," for key, value in head.items()), '  "models": {']
    for number, (provider, given) in enumerate(models.items(), 1):
        lines.append(f"    {json.dumps(provider)}: {{")
        rows = [f"      {json.dumps(name)}: {json.dumps(facts)}" for name, facts in given.items()]
        lines += [row + "," for row in rows[:-1]] + rows[-1:]
        lines.append("    }" + ("," if number < len(models) else ""))
    return "\n".join([*lines, "  }", "}", ""])


if __name__ == "__main__":
    sys.exit(main())
