"""The rows of the model list."""

from __future__ import annotations

from durable_tui.ui.adapter.rows import Row
from durable_tui.ui.glyphs import ASCII
from durable_tui.ui.screens.model_rows import offer_rows
from tests.tools.ui_fakes import ANSWERED, OFFERS, FakeModels


def text(row: Row) -> str:
    return "".join(part for part, _ in row.left) + " | " + "".join(part for part, _ in row.right)


def chosen(rows: list[Row]) -> list[str]:
    return [row.key for row in rows if row.key is not None]


def test_models_come_with_window_and_prices_and_say_which_is_current_and_which_the_default() -> None:
    rows = offer_rows(ANSWERED, "", current="deepseek/deepseek-chat", default="openai/gpt-5.2")
    by_key = {row.key: " ".join(text(row).split()) for row in rows if row.key is not None}
    assert by_key["openai/gpt-5.2"] == "openai/gpt-5.2 default | 400k $1.75 / $14"
    assert by_key["deepseek/deepseek-chat"] == "✓ deepseek/deepseek-chat current | 128k $0.28 / $0.42"
    assert by_key["deepseek/deepseek-reasoner"] == "deepseek/deepseek-reasoner | 128k n/a"
    assert by_key["ollama/llama3.2:3b"] == "ollama/llama3.2:3b | n/a"
    assert "no tools" in by_key["openai/o3"]
    widths = {len("".join(part for part, _ in row.right)) for row in rows if row.right}
    assert len(widths) == 1, "the columns stand under each other"
    assert "per M" in text(rows[0]) and rows[0].key is None


def test_the_current_model_is_there_though_nobody_lists_it() -> None:
    rows = offer_rows(OFFERS, "", current="openai/some/new")
    assert chosen(rows)[0] == "openai/some/new" and "✓" in text(rows[1])
    assert "openai/some/new" not in chosen(offer_rows(OFFERS, "deepseek", current="openai/some/new"))
    assert "+ " in text(offer_rows(OFFERS, "", current="openai/o3", glyphs=ASCII)[3])


def test_below_stands_why_the_others_offer_nothing_and_no_cursor_goes_there() -> None:
    rows = offer_rows(ANSWERED, "", cells=70)
    below = [text(row) for row in rows[-5:]]
    assert all(row.key is None for row in rows[-5:]) and all(len(line) <= 73 for line in below)
    assert below[0] == " | " and below[1].split()[:2] == ["anthropic", "no"]
    assert "llama.cpp" in below[2] and below[3].startswith("             ") and "MODEL.gguf" in below[3]
    assert "type box/MODEL" in below[4]
    assert "asking its server …" in " ".join(text(row) for row in offer_rows(OFFERS, ""))


def test_the_query_filters_both_and_a_name_that_is_meant_exactly_comes_first() -> None:
    assert chosen(offer_rows(ANSWERED, "deep chat")) == ["deepseek/deepseek-chat"]
    assert [" ".join(text(row).split()) for row in offer_rows(ANSWERED, "anth")] == [
        "anthropic no key; set the environment variable ANTHROPIC_API_KEY |"
    ]
    assert offer_rows(ANSWERED, "nothing like it") == []
    two = (OFFERS[0], OFFERS[0])
    assert chosen(offer_rows(two, "o3"))[0] == "openai/o3"
    assert chosen(offer_rows(OFFERS, "gpt-5.4-mini"))[0] == "openai/gpt-5.4-mini"


def test_a_model_that_is_not_listed_can_be_typed_where_its_provider_can_be_used() -> None:
    problem = FakeModels().problem
    assert chosen(offer_rows(OFFERS, "openai/gpt-9", problem=problem)) == ["openai/gpt-9"]
    assert chosen(offer_rows(OFFERS, "openai/gpt", problem=problem))[-1] == "openai/gpt"
    assert chosen(offer_rows(OFFERS, " box/a/b ", problem=problem)) == ["box/a/b"]
    rows = offer_rows(OFFERS, "nope/x", problem=problem)
    assert chosen(rows) == [] and "there is no provider 'nope'" in text(rows[0])
    assert chosen(offer_rows(OFFERS, "openai/o3", problem=problem)) == ["openai/o3"]
