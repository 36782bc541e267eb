"""What each provider offers, why the others offer nothing, and what local servers tell of their models."""

from __future__ import annotations

import json
import threading
from pathlib import Path
from typing import Any

import pytest

from durable_tui.models import ModelRequest, Models, Offer, ScriptedProvider, catalogue
from durable_tui.models.known_providers import KNOWN
from tests.tools.tiny_server import lists, says, tiny
from tests.tools.waiting import until

NO_LOCAL = {known.base_url_env: "http://127.0.0.1:9/v1" for known in KNOWN.values() if known.local}


def offers(models: Models, *, ask: bool = True) -> dict[str, Offer]:
    return {offer.provider.name: offer for offer in models.listing(ask=ask)}


def ids(offer: Offer) -> list[str]:
    return [model.model_id for model in offer.models]


def test_a_provider_with_a_key_offers_the_catalogue_its_default_first_and_others_say_what_is_missing() -> None:
    found = offers(Models.from_env({**NO_LOCAL, "OPENAI_API_KEY": "sk-very-secret"}))
    openai = found["openai"]
    assert not openai.why and openai.provider.key and ids(openai)[0] == KNOWN["openai"].default_model
    assert set(catalogue.ids("openai")) <= set(ids(openai)) and len(set(ids(openai))) == len(ids(openai))
    assert openai.models[0].context_window and openai.models[0].prices
    for name, known in KNOWN.items():
        if not known.local and name != "openai":
            assert found[name].why == f"no key; set the environment variable {known.key_env}" and not found[name].models
    assert "sk-very-secret" not in repr(found)


def test_local_servers_are_listed_with_all_their_models_or_how_to_start_them() -> None:
    with tiny(lists("qwen3:8b", {"id": "gpt-oss", "max_model_len": 8192})) as server:
        found = offers(Models.from_env({**NO_LOCAL, "OLLAMA_BASE_URL": server.base_url}))
    assert ids(found["ollama"]) == ["qwen3:8b", "gpt-oss"] and not found["ollama"].why
    assert [model.context_window for model in found["ollama"].models] == [None, 8192]
    assert found["vllm"].why == "no server answers at http://127.0.0.1:9/v1; start it: vllm serve MODEL"
    assert all(known.start for known in KNOWN.values() if known.local)


@pytest.mark.parametrize(
    ("talk", "environ", "says_so"),
    [
        (lists(), {}, "has no model to chat with yet"),
        (says({}, 401), {}, "refuses requests without a key; set VLLM_API_KEY"),
        (says({}, 401), {"VLLM_API_KEY": "wrong-key"}, "refuses the key in VLLM_API_KEY"),
        (says({"error": {}}, 503), {}, "is still loading its model"),
        (says(b"<html>", kind="text/html"), {}, "is no model server"),
    ],
)
def test_why_a_server_that_answers_offers_nothing(talk: Any, environ: dict[str, str], says_so: str) -> None:
    with tiny(talk) as server:
        found = offers(Models.from_env({**NO_LOCAL, "VLLM_BASE_URL": server.base_url, **environ}))["vllm"]
        assert says_so in found.why and server.base_url in found.why and not found.models
    assert "wrong-key" not in repr(found)


def test_a_password_in_an_address_is_not_shown() -> None:
    found = offers(Models.from_env({**NO_LOCAL, "OLLAMA_BASE_URL": "http://me:hunter2@127.0.0.1:9/v1"}))["ollama"]
    assert found.why.startswith("no server answers at http://***@127.0.0.1:9/v1")


def test_without_asking_nobody_is_asked_and_what_was_found_before_stands(monkeypatch: pytest.MonkeyPatch) -> None:
    with tiny(lists("m")) as server:
        models = Models.from_env({**NO_LOCAL, "LMSTUDIO_BASE_URL": server.base_url})
        with monkeypatch.context() as patch:
            patch.setattr("durable_tui.models.probe.ask", lambda servers: pytest.fail("a port was asked"))
            before = offers(models, ask=False)["lmstudio"]
            assert not before.asked and not before.models and not before.why
            assert offers(models, ask=False)["openai"].asked
        assert models.default() == "lmstudio/m"
    after = offers(models, ask=False)["lmstudio"]
    assert after.asked and ids(after) == ["m"] and models.default(ask=False) == "lmstudio/m"
    assert models.default() is None  # it has gone


def test_a_configured_provider_offers_what_is_configured_and_a_near_one_what_it_lists() -> None:
    with tiny(lists("served", {"id": "small", "meta": {"n_ctx": 2048}})) as server:
        config: dict[str, dict[str, Any]] = {
            "far": {"base_url": "https://x.test/v1", "default_model": "a", "models": {"b": {"context_window": 10}}},
            "bare": {"base_url": "https://x.test/v1"},
            "near": {"base_url": server.base_url, "models": {"small": {"context_window": 1024}}},
            "wrong": {"api": "openai-chat"},
        }
        found = offers(Models.from_env(NO_LOCAL, config))
    assert ids(found["far"]) == ["a", "b"] and found["far"].models[1].context_window == 10
    assert not found["bare"].models and not found["bare"].why and found["bare"].asked
    assert ids(found["near"]) == ["small", "served"]
    assert found["near"].models[0].context_window == 1024  # what the person says counts
    assert found["wrong"].why == "no base_url is set in [providers.wrong]"


def test_a_near_server_without_a_list_offers_what_is_configured_of_it() -> None:
    with tiny(says({"detail": "Not Found"}, 404)) as server:
        config = {"mine": {"base_url": server.base_url, "default_model": "m"}, "bare": {"base_url": server.base_url}}
        found = offers(Models.from_env(NO_LOCAL, config))
    assert ids(found["mine"]) == ["m"] and not found["mine"].why and "no model server" in found["bare"].why


def test_what_a_server_told_of_a_model_is_kept_when_it_does_not_answer_any_more() -> None:
    with tiny(lists({"id": "m", "max_model_len": 4096})) as server:
        models = Models.from_env({**NO_LOCAL, "VLLM_BASE_URL": server.base_url})
        models.listing()
    assert offers(models)["vllm"].why and models.resolve("vllm/m").context_window == 4096


def test_a_server_behind_a_provider_s_name_offers_what_it_lists_and_not_that_provider_s_models() -> None:
    with tiny(lists("qwen3")) as server:
        models = Models.from_env({**NO_LOCAL, "OPENAI_BASE_URL": server.base_url, "OPENAI_API_KEY": "k" * 9})
        assert ids(offers(models)["openai"]) == ["qwen3"] and models.default() == "openai/qwen3"
        assert "authorization: bearer kkkkkkkkk" in server.asked[0].lower()


def test_a_server_with_two_names_is_listed_once() -> None:
    with tiny(lists("m")) as server:
        environ = {**NO_LOCAL, "LLAMA_CPP_BASE_URL": server.base_url.replace("127.0.0.1", "localhost")}
        found = offers(Models.from_env(environ, {"mine": {"base_url": server.base_url + "/"}}))
    assert ids(found["mine"]) == ["m"] and found["llama.cpp"].why == "the same server as mine"


def test_a_server_that_speaks_anthropic_s_protocol_is_asked_where_that_has_its_list() -> None:
    with tiny(lists("claude-like")) as server:
        base = server.base_url.removesuffix("/v1")
        assert ids(offers(Models.from_env(NO_LOCAL, {"mine": {"api": "anthropic", "base_url": base}}))["mine"])
        assert server.asked[0].startswith("GET /v1/models ")


def test_scripts_are_offered(tmp_path: Path) -> None:
    (tmp_path / "turns.json").write_text(json.dumps([{"text": "x"}]))
    config = {"play": {"api": "scripted", "script": "turns.json", "default_model": "one"}}
    found = offers(Models.from_env(NO_LOCAL, config, home=tmp_path))
    assert "tour" in ids(found["scripted"]) and ids(found["play"]) == ["one"]
    assert [offer.provider.name for offer in Models([ScriptedProvider("fake")]).listing()] == ["fake"]


async def test_the_first_request_finds_out_the_window_of_a_local_model() -> None:
    with tiny(lists({"id": "m", "meta": {"n_ctx": 4096}})) as server:
        models = Models.from_env({**NO_LOCAL, "LLAMA_CPP_BASE_URL": server.base_url})
        assert models.resolve("llama.cpp/m").context_window is None
        models.stream(ModelRequest(models.resolve("llama.cpp/m"), "", []))
        await until(lambda: models.resolve("llama.cpp/m").context_window)
        assert models.resolve("llama.cpp/m").context_window == 4096
        models.learn("llama.cpp/m")  # known by now
        models.learn("openai/gpt-5.2")
        models.learn("nobody/none")
        for thread in [thread for thread in threading.enumerate() if thread.name == "learn"]:
            thread.join(30)
        assert len(server.asked) == 1
        await models.close()
