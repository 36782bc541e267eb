"""Cost is decided once, with the attempt, failed ones too, and never again (spec 14); the header shows what it is."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from durable_tui.harness.submission import Settled
from durable_tui.host.catalogue import SessionInfo
from durable_tui.host.opening import Host, open_session
from durable_tui.ui.adapter.header import context_of, cost_of
from tests.tools.model_server import ModelServer

USED = {"input": 1000, "output": 100, "cacheRead": 9000, "cacheWrite": 0}
CHEAP = "{input = 1, output = 10, cache_read = 0.1}"
DEAR = "{input = 10, output = 100, cache_read = 1}"


async def ask(
    folder: Path, url: str, prices: str | None, text: str
) -> tuple[Settled, list[dict[str, Any]], SessionInfo]:
    """One input to the same session at these prices: how it settled, all answers as stored, and the listing's line."""
    home = folder / "home"
    home.mkdir(exist_ok=True)
    (home / "config.toml").write_text(
        f'model = "mine/m"\n[providers.mine]\nbase_url = "{url}"\n[providers.mine.models.m]\ncontext_window = 50_000\n'
        + (f"prices = {prices}\n" if prices else "")
    )
    host = Host.load({"DURABLE_TUI_HOME": str(home)})
    opened = await open_session(host, folder / "job.sqlite", directory=str(folder))
    try:
        settled = await (await opened.root.submit(text)).wait()
        entries = [item.record for item in await opened.root.entries()]
    finally:
        await opened.close()
    answers = [entry["model"][0] for entry in entries if entry["kind"] == "pi.assistant"]
    return settled, answers, await host.catalogue.describe(folder / "job.sqlite")


async def test_spec_14_what_an_attempt_cost_is_stored_with_it_and_never_priced_again(tmp_path: Path) -> None:
    script = {
        "turns": [{"text": "fine", "usage": USED}],
        "match": {"refuse": [{"text": "no", "usage": USED, "finish": "content_filter"}]},
    }
    with ModelServer(script) as server:
        settled, answers, info = await ask(tmp_path, server.base_url, CHEAP, "go")
        assert settled.status == "done" and info.cost == pytest.approx(0.0029)
        first = answers[0]["usage"]["cost"]
        assert (first["input"], first["output"]) == pytest.approx((0.001, 0.001))
        assert (first["cacheRead"], first["cacheWrite"]) == pytest.approx((0.0009, 0))

        settled, answers, info = await ask(tmp_path, server.base_url, DEAR, "refuse")
        assert settled.reason == "model_error" and answers[1]["stopReason"] == "error"
        assert answers[0]["usage"]["cost"] == first, "other prices change nothing that was paid"
        assert answers[1]["usage"]["cost"]["total"] == pytest.approx(0.029)
        assert info.cost == pytest.approx(0.0319) and "unpriced" not in info.json()

        settled, answers, info = await ask(tmp_path, server.base_url, None, "go on")
        assert "cost" not in answers[2]["usage"] and answers[2]["usage"]["cacheRead"] == 9000
        assert info.cost == pytest.approx(0.0319) and info.json()["unpriced"] == 10_100


async def test_ui_r10_the_header_knows_the_window_of_a_listed_model_and_no_price_of_another_server(
    tmp_path: Path,
) -> None:
    with ModelServer([{"text": "fine", "usage": USED}]) as server:
        environ = {"DURABLE_TUI_HOME": str(tmp_path / "home"), "OPENAI_BASE_URL": server.base_url}
        opened = await open_session(
            Host.load(environ), tmp_path / "job.sqlite", directory=str(tmp_path), model="openai/gpt-4o"
        )
        try:
            assert (await (await opened.root.submit("go")).wait()).status == "done"
            view = (await anext(aiter(opened.root.watch()))).value
            assert view["context"] == {"tokens": 10_100, "window": 128_000}
            assert (context_of(view), cost_of(view)) == ("8 % of 128k", "cost n/a")
        finally:
            await opened.close()
