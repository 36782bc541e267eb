"""What is known of the models of the known providers: limits, abilities, prices (`catalogue.json`, read at first use).

The file is made by tests/tools/make_catalogue.py from litellm's table (MIT, CATALOGUE_LICENSE). One entry is
`{context_window, max_output?, images, reasoning, tools, input?, output?, cache_read?, cache_write?, long?, off_peak?,
also?}`: tokens, and USD per million tokens. `long` has `from` and the prices of a whole request with a prompt of so many
tokens or more; `off_peak` has `hours` ("1-5 10:00-24:00": days of the week, Monday is 1, and time, both UTC) and the
prices then. DeepSeek counts China's public holidays as off-peak too; these are not known here, and what it cost then is
put too high. `also` are other names of the same model. What is absent is not known.
"""

from __future__ import annotations

import functools
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal, Required, TypedDict

from durable_tui.models.messages import Part
from durable_tui.models.provider import Model, PriceRule, Prices

PRICES: Mapping[Part, Literal["input", "output", "cache_read", "cache_write"]] = {
    "input": "input",
    "output": "output",
    "cacheRead": "cache_read",
    "cacheWrite": "cache_write",
}

# A dated or newest version of a model: as able as the model itself, at a price that may be another.
_VERSION = re.compile(r"-(?:latest|\d{4}-\d\d-\d\d|\d{8}|\d{4})$")
# OpenRouter's names of the makers that have a list here; only Anthropic's ids are written in another way there.
_MAKERS = {
    "anthropic": "anthropic",
    "deepseek": "deepseek",
    "google": "gemini",
    "mistralai": "mistral",
    "openai": "openai",
    "x-ai": "xai",
}
# The same model served in another way; other variants (`:free`, `:batch`) have limits of their own.
_SAME = frozenset({"exacto", "floor", "nitro", "online", "thinking"})


class ListedPrices(TypedDict, total=False):
    input: float
    output: float
    cache_read: float
    cache_write: float


class OffPeak(ListedPrices):
    hours: Required[list[str]]


_From = TypedDict("_From", {"from": int})  # a keyword: no class can have a key of this name


class Long(ListedPrices, _From):
    pass


class Limits(TypedDict, total=False):
    context_window: int
    max_output: int
    images: bool
    reasoning: bool
    tools: bool


class CatalogueEntry(Limits, ListedPrices, total=False):
    """One model of `catalogue.json`, as told above."""

    long: Long
    off_peak: OffPeak
    also: list[str]


class ModelTable(Limits, total=False):
    """`[providers.NAME.models.ID]`: the facts of one model as the configuration has them, in the catalogue's units."""

    prices: ListedPrices


@dataclass(slots=True, frozen=True)
class Facts:
    """The facts of one model, as in `Model`; None is unknown."""

    context_window: int | None = None
    max_output: int | None = None
    images: bool | None = None
    reasoning: bool | None = None
    tools: bool | None = None
    prices: Prices | None = None
    other_prices: tuple[PriceRule, ...] = ()

    def unpriced(self) -> Facts:
        """The same without prices."""
        return replace(self, prices=None, other_prices=())


def described(model: Model, *, priced: bool) -> Model:
    """The model with what the catalogue knows of it; `priced` says whether it is really that provider that is asked."""
    facts = lookup(model.provider, model.model_id)
    if facts is None:
        return model
    if not priced:
        facts = facts.unpriced()
    return replace(
        model,
        context_window=facts.context_window,
        max_output=facts.max_output,
        images=facts.images,
        reasoning=facts.reasoning,
        tools=facts.tools,
        prices=facts.prices,
        other_prices=facts.other_prices,
    )


def configured(model: Model, table: ModelTable) -> Model:
    """The model with what the configuration says of it, field by field. Its prices are those of every request."""
    model = replace(
        model,
        context_window=table.get("context_window", model.context_window),
        max_output=table.get("max_output", model.max_output),
        images=table.get("images", model.images),
        reasoning=table.get("reasoning", model.reasoning),
        tools=table.get("tools", model.tools),
    )
    if "prices" not in table:
        return model
    return replace(model, prices=_prices(table["prices"]), other_prices=())


def lookup(provider: str, model_id: str) -> Facts | None:
    """The facts of a model by its name at a known provider; None when it is not known.

    Prices come only with names the catalogue holds. A version it does not hold has the facts of its model without them,
    and so have OpenRouter's models, for it tells what each answer cost.
    """
    if provider == "openrouter":
        return _routed(model_id)
    return _listed(provider, model_id.removeprefix("models/") if provider == "gemini" else model_id)


def ids(provider: str) -> tuple[str, ...]:
    """The models of a provider that the catalogue lists, sorted."""
    return tuple(_table().get(provider, ()))


def _listed(provider: str, model_id: str) -> Facts | None:
    models = _table().get(provider, {})
    entry = models.get(model_id)
    if entry is None:
        entry = next((other for other in models.values() if model_id in other.get("also", ())), None)
    if entry is not None:
        return _facts(entry)
    entry = models.get(_VERSION.sub("", model_id))
    return _facts(entry).unpriced() if entry is not None else None


def _routed(model_id: str) -> Facts | None:
    name, _, variant = model_id.partition(":")
    if variant and variant not in _SAME:
        return None
    maker, _, rest = name.partition("/")
    facts = _listed("openrouter", name)
    if facts is None and maker in _MAKERS:
        facts = _listed(_MAKERS[maker], rest.replace(".", "-") if maker == "anthropic" else rest)
    return facts.unpriced() if facts is not None else None


@functools.cache
def _table() -> dict[str, dict[str, CatalogueEntry]]:
    """Provider to model id to entry."""
    text = Path(__file__).with_name("catalogue.json").read_text(encoding="utf-8")
    models: dict[str, dict[str, CatalogueEntry]] = json.loads(text)["models"]
    return models


def _facts(entry: CatalogueEntry) -> Facts:
    rules: list[PriceRule] = []
    if "off_peak" in entry:
        rules.append(PriceRule(_prices(entry["off_peak"]) or {}, hours=tuple(map(_hours, entry["off_peak"]["hours"]))))
    if "long" in entry:
        rules.append(PriceRule(_prices(entry["long"]) or {}, tokens=entry["long"]["from"]))
    return Facts(
        entry.get("context_window"),
        entry.get("max_output"),
        entry.get("images"),
        entry.get("reasoning"),
        entry.get("tools"),
        _prices(entry),
        tuple(rules),
    )


def _prices(listed: ListedPrices) -> Prices | None:
    prices: Prices = {}
    for part, name in PRICES.items():
        if name in listed:
            prices[part] = float(listed[name])
    return prices or None


def _hours(text: str) -> tuple[int, int, int, int]:
    """ "1-5 10:00-24:00" as first and last day and the minutes of the day from and to."""
    match = re.fullmatch(r"(\d)-(\d) (\d\d):(\d\d)-(\d\d):(\d\d)", text)
    if match is None:
        raise ValueError(f"catalogue.json: {text!r} are no hours")
    first, last, hour, minute, to_hour, to_minute = map(int, match.groups())
    return first, last, hour * 60 + minute, to_hour * 60 + to_minute
