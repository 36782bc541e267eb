"""What `durable-tui doctor` says of the models."""

from __future__ import annotations

from pathlib import Path

import pytest

from durable_tui.cli.doctor import Finding, data, models
from durable_tui.models.known_providers import KNOWN
from tests.tools.tiny_server import hangs, lists, says, tiny

SECRET = "sk-0123456789abcdef"


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A home of its own; no key, and no server at the usual ports."""
    for known in KNOWN.values():
        monkeypatch.delenv(known.key_env, raising=False)
        monkeypatch.delenv(known.base_url_env, raising=False)
        if known.local:
            monkeypatch.setenv(known.base_url_env, "http://127.0.0.1:9/v1")
    monkeypatch.delenv("DURABLE_TUI_MODEL", raising=False)
    monkeypatch.setenv("DURABLE_TUI_HOME", str(tmp_path))
    return tmp_path


async def said(*, ask: bool = False) -> dict[str, Finding]:
    """The findings by the provider they are of; that of the default model under `default`."""
    found = await models(ask)
    assert SECRET not in repr(found)
    named = {finding.text.partition(":")[0]: finding for finding in found[:-1]}
    assert len(named) == len(found) - 1
    return {**named, "default": found[-1]}


async def test_spec_20_each_provider_is_told_with_what_is_missing_for_it(home: Path) -> None:
    found = await said()
    assert set(found) == {*KNOWN, "default"} and {finding.level for finding in found.values()} == {"note"}
    for name, known in KNOWN.items():
        assert (known.start if known.local else known.key_env) in found[name].text
    assert "no model to ask yet" in found["default"].text


async def test_spec_20_a_key_is_told_by_its_variable_and_a_base_url_when_it_is_another(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DEEPSEEK_API_KEY", SECRET)
    monkeypatch.setenv("MISTRAL_API_KEY", SECRET)
    monkeypatch.setenv("MISTRAL_BASE_URL", f"https://me:{SECRET}@proxy.test/v1")
    found = await said()
    model = KNOWN["deepseek"].default_model
    assert found["deepseek"] == Finding("ok", f"deepseek: key in DEEPSEEK_API_KEY; default model {model}")
    assert "; at https://***@proxy.test/v1;" in found["mistral"].text
    assert found["default"] == Finding("ok", f"default model deepseek/{model}, of the first provider with a key")


async def test_spec_20_local_servers_are_told_with_their_models(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with tiny(lists(*(f"m{number}" for number in range(5)))) as server, tiny(hangs) as other:
        monkeypatch.setenv("OLLAMA_BASE_URL", server.base_url)
        monkeypatch.setenv("VLLM_BASE_URL", other.base_url)
        found = await said()
        assert found["ollama"] == Finding("ok", f"ollama: 5 models at {server.base_url}: m0, m1, m2 and 2 more")
        assert found["vllm"].level == "note" and "does not answer in time" in found["vllm"].text
        assert found["default"] == Finding("ok", "default model ollama/m0, the first that a server near by lists")
        monkeypatch.setenv("DURABLE_TUI_MODEL", "ollama/other")
        assert (await said())["default"] == Finding(
            "note", "default model ollama/other, from DURABLE_TUI_MODEL: the server does not list it"
        )
    default = (await said())["default"]
    assert default.level == "problem" and "no server answers" in default.text


async def test_spec_20_what_is_configured_wrongly_is_a_problem(home: Path) -> None:
    config = home / "config.toml"
    config.write_text('model = "mine/q"\n[providers.mine]\napi_key_env = "MINE_KEY"\nbase_url = "https://x.test/v1"\n')
    found = await said()
    assert found["mine"].level == found["default"].level == "problem"
    assert "MINE_KEY" in found["mine"].text and f"from model in {config}" in found["default"].text
    config.write_text("model = 3")
    assert [finding.level for finding in await models()] == ["problem"]


def test_a_key_that_does_nothing_is_a_note(home: Path) -> None:
    config = home / "config.toml"
    config.write_text("[settings]\ncompaction = {enabled = true}\n")
    [note] = [finding for finding in data() if finding.level == "note" and str(config) in finding.text]
    assert note.text.startswith(f"{config}, line 2: settings.compaction: has no effect yet")


@pytest.mark.parametrize(
    ("talk", "level", "says_so"),
    [
        (lists("a", "b"), "ok", "key in MINE_KEY is accepted, 2 models; at http"),
        (says({"error": {"message": f"Incorrect API key provided: {SECRET}"}}, 401), "problem", "MINE_KEY is refused"),
        (says(b"<html>", kind="text/html"), "note", "no JSON"),
        (says({"what": 1}), "note", "no list of models"),
    ],
)
async def test_spec_20_ask_tells_whether_a_key_is_accepted(
    home: Path, monkeypatch: pytest.MonkeyPatch, talk: object, level: str, says_so: str
) -> None:
    monkeypatch.setenv("MINE_KEY", SECRET)
    with tiny(talk) as server:  # type: ignore[arg-type]
        monkeypatch.setattr("durable_tui.models.probe.is_near", lambda url: False)
        config = f'[providers.mine]\napi_key_env = "MINE_KEY"\nbase_url = "{server.base_url}"\n'
        (home / "config.toml").write_text(config)
        await models()
        assert server.asked == []  # what is farther away is asked only when that is wanted
        found = next(finding for finding in await models(True) if "mine" in finding.text or "MINE" in finding.text)
        assert found.level == level and says_so in found.text and SECRET not in found.text
        assert len(server.asked) == 1 and f"authorization: bearer {SECRET}" in server.asked[0].lower()


async def test_spec_20_ask_tells_that_a_provider_is_not_reached(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ANTHROPIC_API_KEY", SECRET)
    monkeypatch.setenv("ANTHROPIC_BASE_URL", "http://127.0.0.1:9")
    monkeypatch.setattr("durable_tui.models.probe.is_near", lambda url: False)
    found = (await said(ask=True))["anthropic"]
    assert found.level == "note" and "cannot connect to http://127.0.0.1:9" in found.text
