"""Rows of the model list: what can be had, and below it why the rest cannot. Pure."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from durable_tui.models.listing import Offer
from durable_tui.models.provider import Model
from durable_tui.ui.adapter import words
from durable_tui.ui.adapter.rows import Row, Run
from durable_tui.ui.glyphs import UNICODE, Glyphs
from durable_tui.ui.text.runs import runs_width
from durable_tui.ui.text.wrap import wrap

CONTEXT, PRICE = 7, 17  # cells of the columns on the right


def offer_rows(
    offers: Sequence[Offer],
    query: str,
    *,
    current: str = "",
    default: str = "",
    problem: Callable[[str], str | None] = lambda name: None,
    cells: int = 80,
    glyphs: Glyphs = UNICODE,
) -> list[Row]:
    """The models with every word of the query in their names, one that is meant exactly first; then the providers that
    offer none. `problem` tells what is wrong with a name that was typed and is not listed."""
    wanted = query.strip()
    sought = wanted.lower().split()
    listed = [model for offer in offers for model in offer.models]
    if current and all(model.name != current for model in listed):
        provider, _, model_id = current.partition("/")
        listed.insert(0, Model(provider, model_id, ""))
    found = [model for model in listed if all(word in model.name.lower() for word in sought)]
    found.sort(key=lambda model: wanted not in (model.name, model.model_id))
    columns = (cells >= 44) + (cells >= 60)  # names need room first
    rows = [_model_row(model, current, default, glyphs, columns, cells) for model in found]
    refused: list[tuple[str, str]] = []
    if "/" in wanted and all(model.name != wanted for model in listed):
        why = problem(wanted)
        if why is None:
            rows.append(Row(wanted, [("  ", ""), (wanted, "bold"), ("  as typed", "dim")]))
        elif not rows:
            refused = [("", why)]
    if found and columns:
        heads = ("context".rjust(CONTEXT), "in / out per M".rjust(PRICE))
        rows.insert(0, Row(None, [("", "")], [(head, "faint") for head in heads[:columns]]))
    rest = [
        (offer.provider.name, why)
        for offer in offers
        if (why := _why(offer, glyphs)) and all(word in f"{offer.provider.name}/" for word in sought)
    ]
    if rows and rest:
        rows.append(Row(None, []))
    indent = max((len(name) for name, _ in rest), default=-2) + 4
    for name, why in [*refused, *rest]:
        head: list[Run] = [(f"  {name}".ljust(indent), "dim")]
        rows += [Row(None, line.runs) for line in wrap([(why, "faint")], cells, first=head, rest=[(" " * indent, "")])]
    return rows


def _model_row(model: Model, current: str, default: str, glyphs: Glyphs, columns: int, cells: int) -> Row:
    mark = f"{glyphs['done']} " if model.name == current else "  "
    left: list[Run] = [(mark, "good"), (f"{model.provider}/", "dim"), (model.model_id, "bold")]
    window = words.tokens(model.context_window) if model.context_window else ""
    prices = model.prices or {}
    price = f"{_price(prices['input'])} / {_price(prices['output'])}" if {"input", "output"} <= prices.keys() else "n/a"
    right: list[Run] = [(window.rjust(CONTEXT), "dim"), (price.rjust(PRICE), "faint")]
    notes: list[Run] = [
        (word, "live") for word, name in (("current", current), ("default", default)) if name == model.name
    ]
    notes += [("no tools", "attention")] if model.tools is False else []
    room = cells - runs_width(left) - runs_width(right[:columns]) - 1
    for word, tone in notes:
        room -= len(word) + 2
        if room >= 0 or word == "current":
            left.append((f"  {word}", tone))
    return Row(model.name, left, right[:columns])


def _price(value: float) -> str:
    """`$0.25`, `$3`, `$12.50`."""
    return f"${value:.0f}" if value == int(value) else f"${value:.2f}" if value >= 0.1 else f"${value:g}"


def _why(offer: Offer, glyphs: Glyphs) -> str:
    if not offer.asked:
        return f"asking its server {glyphs['ellipsis']}"
    if offer.why or offer.models:
        return offer.why
    return f"no model of it is known here; type {offer.provider.name}/MODEL"
