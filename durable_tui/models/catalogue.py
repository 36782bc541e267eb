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
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any

from durable_tui.models.provider import Model, PriceRule

ABILITIES = ("images", "reasoning", "tools")
PRICES = {"input": "input", "output": "output", "cacheRead": "cache_read", "cacheWrite": "cache_write"}

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


@dataclass(slots=True, frozen=True)
class Facts:
    """The facts of one model, as in `Model`; None is unknown."""

    context_window: int | None = None
    max_output: int | None = None
    images: bool | None = None
    reasoning: bool | None = None
    tools: bool | None = None
    prices: dict[str, float] | None = None
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
    return replace(model, **{item.name: getattr(facts, item.name) for item in fields(facts)})


def configured(model: Model, given: Mapping[str, Any]) -> Model:
    """The model with what the configuration says of it, field by field.

    `given` is `{context_window?, max_output?, images?, reasoning?, tools?, prices?: {input, output, cache_read?,
    cache_write?}}`, in the catalogue's units. Its prices are those of every request.
    """
    changes = {key: given[key] for key in ("context_window", "max_output", *ABILITIES) if key in given}
    if "prices" in given:
        changes |= {"prices": _prices(given["prices"]), "other_prices": ()}
    return replace(model, **changes)


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
    given = models.get(model_id)
    if given is None:
        given = next((facts for facts in models.values() if model_id in facts.get("also", ())), None)
    if given is not None:
        return _facts(given)
    given = models.get(_VERSION.sub("", model_id))
    return _facts(given).unpriced() if given is not None else None


def _routed(model_id: str) -> Facts | None:
    name, _, variant = model_id.partition(":")
    if variant and variant not in _SAME:
        return None
    maker, _, rest = name.partition("/")
    found = _listed("openrouter", name)
    if found is None and maker in _MAKERS:
        found = _listed(_MAKERS[maker], rest.replace(".", "-") if maker == "anthropic" else rest)
    return found.unpriced() if found is not None else None


@functools.cache
def _table() -> dict[str, dict[str, dict[str, Any]]]:
    """Provider to model id to entry."""
    text = Path(__file__).with_name("catalogue.json").read_text(encoding="utf-8")
    models: dict[str, dict[str, dict[str, Any]]] = json.loads(text)["models"]
    return models


def _facts(given: Mapping[str, Any]) -> Facts:
    rules: list[PriceRule] = []
    if "off_peak" in given:
        rules.append(PriceRule(_prices(given["off_peak"]) or {}, hours=tuple(map(_hours, given["off_peak"]["hours"]))))
    if "long" in given:
        rules.append(PriceRule(_prices(given["long"]) or {}, tokens=given["long"]["from"]))
    return Facts(
        given.get("context_window"),
        given.get("max_output"),
        given.get("images"),
        given.get("reasoning"),
        given.get("tools"),
        _prices(given),
        tuple(rules),
    )


def _prices(given: Mapping[str, Any]) -> dict[str, float] | None:
    return {part: float(given[name]) for part, name in PRICES.items() if name in given} or None


def _hours(text: str) -> tuple[int, int, int, int]:
    """ "1-5 10:00-24:00" as first and last day and the minutes of the day from and to."""
    found = re.fullmatch(r"(\d)-(\d) (\d\d):(\d\d)-(\d\d):(\d\d)", text)
    if found is None:
        raise ValueError(f"catalogue.json: {text!r} are no hours")
    first, last, hour, minute, to_hour, to_minute = map(int, found.groups())
    return first, last, hour * 60 + minute, to_hour * 60 + to_minute
