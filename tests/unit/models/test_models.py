"""Which models there are and why one cannot be used (spec 20)."""

from __future__ import annotations

import subprocess
import sys
import time
from typing import Any

import pytest

from durable_tui.models import ModelError, ModelRequest, Models, ScriptedProvider
from durable_tui.models.known_providers import KNOWN
from tests.tools.model_server import ModelServer

NO_LOCAL = {known.base_url_env: "http://127.0.0.1:9/v1" for known in KNOWN.values() if known.local}


def test_names_split_at_the_first_slash() -> None:
    model = Models.from_env({}).resolve("openrouter/deepseek/deepseek-chat")
    assert (model.provider, model.model_id, model.api) == ("openrouter", "deepseek/deepseek-chat", "openai-chat")
    assert model.name == "openrouter/deepseek/deepseek-chat" and model.prices is None and model.context_window is None


@pytest.mark.parametrize("name", ["", "gpt", "/x", "openai/", "nope/x"])
def test_an_unknown_model_is_a_configuration_error(name: str) -> None:
    with pytest.raises(ModelError) as caught:
        Models.from_env({}).resolve(name)
    assert caught.value.kind == "configuration"
    assert Models.from_env({}).problem(name) == str(caught.value)


def test_every_known_provider_is_there_and_a_missing_key_names_its_variable() -> None:
    models = Models.from_env({})
    expected = ["openai", "anthropic", "deepseek", "openrouter", "groq", "mistral", "gemini", "xai", "ollama", "llama.cpp",
                "lmstudio", "vllm", "scripted"]  # fmt: skip
    assert [info.name for info in models.known()] == expected
    for info in models.known():
        problem = models.problem(f"{info.name}/{'tour' if info.name == 'scripted' else 'm'}")
        if info.local or info.name == "scripted":
            assert problem is None
        else:
            assert problem is not None and f"{info.key_env}" in problem
            assert Models.from_env({str(info.key_env): "k" * 9}).problem(f"{info.name}/m") is None


async def test_streaming_without_a_key_raises_when_iterated() -> None:
    models = Models.from_env({})
    events = models.stream(ModelRequest(models.resolve("openai/m"), "", []))
    with pytest.raises(ModelError, match="OPENAI_API_KEY") as caught:
        await anext(aiter(events))
    assert caught.value.kind == "configuration"
    await models.close()


def test_an_unknown_api_is_refused_and_the_known_ones_are_named() -> None:
    models = Models.from_env({}, {"mine": {"api": "grpc", "base_url": "http://x.test"}})
    problem = models.problem("mine/m")
    assert problem is not None and problem.startswith("mine:") and "'grpc'" in problem
    assert all(api in problem for api in ("openai-chat", "openai-responses", "anthropic"))
    with pytest.raises(ModelError):
        models.provider("mine")


@pytest.mark.parametrize("api", ["openai-chat", "openai-responses", "anthropic"])
def test_a_configured_provider_speaks_any_protocol(api: str) -> None:
    models = Models.from_env({}, {"mine": {"api": api, "base_url": "http://x.test"}})
    assert models.problem("mine/m") is None
    assert models.resolve("mine/m").api == models.provider("mine").api == api


def test_only_responses_answer_in_the_background() -> None:
    config = {"mine": {"api": "anthropic", "base_url": "http://x.test", "background": True}}
    assert "openai-responses" in (Models.from_env({}, config).problem("mine/m") or "")
    config["mine"]["api"] = "openai-responses"
    assert Models.from_env({}, config).problem("mine/m") is None


def test_openai_speaks_responses_and_a_server_behind_its_name_chat() -> None:
    key = {"OPENAI_API_KEY": "k" * 9}
    assert Models.from_env(key).resolve("openai/gpt-5.2").api == "openai-responses"
    own = "https://api.openai.com/v1/"
    assert Models.from_env({**key, "OPENAI_BASE_URL": own}).resolve("openai/gpt-5.2").api == "openai-responses"
    assert Models.from_env(key, {"openai": {"base_url": own}}).resolve("openai/gpt-5.2").api == "openai-responses"
    assert Models.from_env({**key, "OPENAI_BASE_URL": "http://x.test/v1"}).resolve("openai/m").api == "openai-chat"
    elsewhere = {"openai": {"base_url": "http://x.test/v1"}}
    assert Models.from_env(key, elsewhere).resolve("openai/m").api == "openai-chat"
    elsewhere["openai"]["api"] = "openai-responses"
    assert Models.from_env(key, elsewhere).resolve("openai/m").api == "openai-responses"


def test_configured_providers() -> None:
    config: dict[str, dict[str, Any]] = {
        "local": {
            "api": "openai-chat", "base_url": "http://127.0.0.1:9/v1", "api_key_env": "LOCAL_KEY",
            "models": {"q": {"context_window": 4096, "max_output": 512, "prices": {"input": 1, "output": 2, "cache_read": 0.5}}},
        },
        "bare": {"api": "openai-chat"},
        "deepseek": {"base_url": "http://proxy.test/v1"},
    }  # fmt: skip
    models = Models.from_env({"DEEPSEEK_API_KEY": "k" * 9}, config)
    assert "LOCAL_KEY" in (models.problem("local/q") or "")
    assert "base_url" in (models.problem("bare/q") or "")
    assert Models.from_env({"LOCAL_KEY": "k"}, config).problem("local/q") is None
    model = models.resolve("local/q")
    assert (model.context_window, model.max_output) == (4096, 512)
    assert model.prices == {"input": 1.0, "output": 2.0, "cacheRead": 0.5}
    assert {"LOCAL_KEY", "OPENAI_API_KEY"} <= models.key_variables()
    deepseek = next(info for info in models.known() if info.name == "deepseek")
    assert (deepseek.base_url, deepseek.configured, deepseek.problem) == ("http://proxy.test/v1", True, None)
    assert models._entries["deepseek"].quirks == KNOWN["deepseek"].quirks


def test_the_default_is_the_first_with_a_key_and_asks_no_port(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("durable_tui.models.probe.ask", lambda servers: pytest.fail("a port was asked"))
    assert Models.from_env({"GROQ_API_KEY": "k", "DEEPSEEK_API_KEY": "k"}).default() == "deepseek/deepseek-flash"
    assert Models.from_env({"ANTHROPIC_API_KEY": "k", "XAI_API_KEY": "k"}).default() == "anthropic/claude-sonnet-5-5"
    assert Models.from_env({"OPENAI_API_KEY": " ", "XAI_API_KEY": "k"}).default() == "xai/grok-4.7"
    config = {"mine": {"base_url": "http://x.test/v1", "default_model": "q"}}
    assert Models.from_env({"XAI_API_KEY": "k"}, config).default() == "mine/q"


def test_the_default_of_a_local_server_is_what_it_lists() -> None:
    with ModelServer([]) as server:
        environ = {**NO_LOCAL, "LMSTUDIO_BASE_URL": server.base_url}
        assert Models.from_env(environ).default() == "lmstudio/scripted-model"
        config = {"mine": {"api": "openai-chat", "base_url": server.base_url}}
        assert Models.from_env(NO_LOCAL, config).default() == "mine/scripted-model"
    start = time.monotonic()
    assert Models.from_env(NO_LOCAL).default() is None
    assert time.monotonic() - start < 3


def test_given_providers_are_the_only_ones() -> None:
    models = Models([ScriptedProvider("fake", scripts={"s": [{"text": "x"}]})])
    assert models.resolve("fake/s").api == "scripted" and models.problem("fake/s") is None
    assert models.problem("fake/t") is not None and models.problem("openai/x") is not None
    assert models.default() is None and [info.name for info in models.known()] == ["fake"]


def test_importing_and_resolving_loads_nothing_heavy() -> None:
    code = (
        "import sys; from durable_tui.models import Models, ModelError; m = Models.from_env({'OPENAI_API_KEY': 'k'});"
        "m.resolve(m.default()); m.problem('openai/x'); m.known();"
        "assert not {'httpx', 'pydantic', 'textual', 'rich'} & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
