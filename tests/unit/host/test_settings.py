"""The configuration (spec 20): every key, and errors that name file, line and key."""

from __future__ import annotations

from pathlib import Path

import pytest

from durable_tui.host.host_errors import ConfigError
from durable_tui.host.settings import Config, line_of, load_config, parse_config
from durable_tui.models import Models

PATH = Path("/home/me/config.toml")

DESIGN = """\
model = "local/qwen3"
thinking = "high"
[providers.local]
api = "openai-chat"
base_url = "http://127.0.0.1:8080/v1"
api_key_env = "LOCAL_KEY"
[providers.play]
api = "scripted"
script = "turns.json"
[settings]
durability = "power"
steering_mode = "all"
follow_up_mode = "one_at_a_time"
tool_execution = "sequential"
restart_limit = 3
retry = {max_retries = 1, base_delay = 0.5, max_delay = 6.0}
progress = {partial_interval = 0.2, output_interval = 0.3}
limits = {turns = 20, cost = 1.5}
"""


def test_spec_20_every_key_arrives_where_it_is_used() -> None:
    config = parse_config(DESIGN, PATH)
    settings = config.harness_settings()
    assert not config.warnings
    assert config.model == "local/qwen3" and config.thinking == "high" and config.durability == "power"
    assert config.providers["local"]["api_key_env"] == "LOCAL_KEY"
    assert config.providers["play"]["script"] == "/home/me/turns.json"
    assert (settings.steering_mode, settings.follow_up_mode) == ("all", "one_at_a_time")
    assert (settings.tool_execution, settings.restart_limit) == ("sequential", 3)
    assert (settings.max_retries, settings.base_delay, settings.max_delay) == (1, 0.5, 6.0)
    assert (settings.partial_interval, settings.output_interval) == (0.2, 0.3)
    assert (settings.limit_turns, settings.limit_cost) == (20, 1.5)


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("[settings]\nrestart_limit = 3\ncompaction = {enabled = true, reserve_tokens = 16384}\n", 3),
        ("[settings]\nrestart_limit = 3\n[settings.compaction]\nenabled = false\nbackground_tokens = 32768\n", 3),
    ],
)
def test_a_key_that_does_nothing_yet_is_named_once_and_the_rest_counts(text: str, line: int) -> None:
    config = parse_config(text, PATH)
    assert config.harness_settings().restart_limit == 3 and "compaction" not in config.settings
    [warning] = config.warnings
    assert warning.startswith(f"{PATH}, line {line}: settings.compaction: has no effect yet") and "\n" not in warning


def test_facts_of_a_models_own_are_taken_as_they_are() -> None:
    text = """\
[providers.openai.models."gpt-5.2"]
context_window = 100_000
max_output = 8000
images = false
reasoning = true
tools = true
prices = {input = 0, output = 1.5, cache_read = 0.1, cache_write = 2}
"""
    facts = parse_config(text, PATH).providers["openai"]["models"]["gpt-5.2"]
    assert facts["prices"] == {"input": 0, "output": 1.5, "cache_read": 0.1, "cache_write": 2}
    model = Models.from_env({}, parse_config(text, PATH).providers).resolve("openai/gpt-5.2")
    assert (model.context_window, model.max_output, model.images) == (100_000, 8000, False)
    assert model.prices == {"input": 0.0, "output": 1.5, "cacheRead": 0.1, "cacheWrite": 2.0}


def test_spec_20_no_file_means_the_defaults(tmp_path: Path) -> None:
    config = load_config(tmp_path / "config.toml")
    assert config == Config(path=tmp_path / "config.toml")
    assert config.durability == "intents" and config.harness_settings().restart_limit == 5


@pytest.mark.parametrize(
    ("text", "line", "says"),
    [
        ("modle = 'a/b'", 1, "modle: is not known; did you mean model?"),
        ("model = 'qwen'", 1, "model: must be PROVIDER/MODEL"),
        ("model = 3", 1, "model: must be PROVIDER/MODEL"),
        (
            "\nthinking = 'hard'",
            2,
            'thinking: must be one of "off", "minimal", "low", "medium", "high", "xhigh", not "hard"',
        ),
        ("thinking = ['low']", 1, "thinking: must be one of"),
        ("[settings]\nrestart_limit = 0", 2, "settings.restart_limit: must be a whole number of at least 1, not 0"),
        ("[settings]\nrestart_limit = true", 2, "restart_limit: must be a whole number"),
        ("[settings]\n\ndurabilty = 'power'", 3, "did you mean durability?"),
        ("[settings]\ndurability = 'fast'", 2, 'must be one of "process", "intents", "power", not "fast"'),
        (
            "[settings]\nretry = {max_retrys = 1}",
            2,
            "retry.max_retrys: is not known; did you mean max_retries or max_delay?",
        ),
        ("[settings.retry]\nbase_delay = -1", 2, "settings.retry.base_delay: must be a number of at least 0"),
        ("[settings.retry]\nbase_delay = inf", 2, "settings.retry.base_delay"),
        ("[settings]\nretry = 3", 2, "settings.retry: must be a table"),
        ("settings.limits.turns = 'x'", 1, "settings.limits.turns: must be a whole number"),
        ("[providers.x]\napi = 'openai'", 2, 'providers.x.api: must be one of "openai-chat"'),
        ("[providers.x]\nbase_url = 'localhost'", 2, "providers.x.base_url: must be an address"),
        ("[providers.x]\napi_key_env = 'sk-123'", 2, "the name of the variable that holds the key"),
        ("[providers.x]\napi = 'scripted'", 1, 'needs script = "turns.json"'),
        ("[providers]\nx = 1", 2, "providers.x: must be a table"),
        ("[providers.'a/b']\napi = 'anthropic'", 1, "holds no slash"),
        ("[providers.x.models]\nm = 3", 2, "providers.x.models.m: must be a table"),
        (
            "[providers.x.models.m]\ncontext_window = '8k'",
            2,
            'models.m.context_window: must be a whole number of at least 1, not "8k"',
        ),
        ("[providers.x.models.'gpt-5.2']\nmax_output = 0", 2, "models.gpt-5.2.max_output: must be a whole number"),
        ("[providers.x.models.m]\nimages = 1", 2, "providers.x.models.m.images: must be true or false, not 1"),
        ("[providers.x.models.m]\nreasoning = 'high'", 2, "models.m.reasoning: must be true or false"),
        ("[providers.x.models.m]\ntools = 'yes'", 2, "models.m.tools: must be true or false"),
        ("[providers.x.models.m]\ncontext = 8000", 2, "models.m.context: is not known; did you mean context_window?"),
        ("[providers.x.models.m]\nprices = 2", 2, "models.m.prices: must be a table with input and output in USD"),
        ("[providers.x.models.m]\nprices = {input = 1}", 2, "models.m.prices: must be a table with input and output"),
        (
            "[providers.x.models.m]\nprices = {input = -1, output = 1}",
            2,
            "models.m.prices.input: must be a number of at least 0, not -1",
        ),
        (
            "[providers.x.models.m.prices]\ninput = 1\noutput = 2\ncacheRead = 0.1",
            4,
            "models.m.prices.cacheRead: is not known; did you mean cache_read or cache_write?",
        ),
        ("# fine\nmodel = qwen", 2, "model: is not TOML"),
        ("[settings\n", 1, "is not TOML"),
    ],
)
def test_spec_20_an_error_names_file_line_key_and_what_to_do(text: str, line: int, says: str) -> None:
    with pytest.raises(ConfigError) as caught:
        parse_config(text, PATH)
    assert str(caught.value).startswith(f"{PATH}, line {line}:")
    assert says in str(caught.value)


def test_spec_20_a_file_that_cannot_be_read_is_a_config_error(tmp_path: Path) -> None:
    path = tmp_path / "config.toml"
    path.write_bytes(b"model = 'a/b'\n# \xff\n")
    with pytest.raises(ConfigError, match=r"config.toml, line 2: is not UTF-8"):
        load_config(path)
    path.unlink()
    path.mkdir()
    with pytest.raises(ConfigError, match="cannot be read"):
        load_config(path)


def test_spec_20_a_byte_order_mark_is_no_error(tmp_path: Path) -> None:
    path = tmp_path / "config.toml"
    path.write_bytes(b"\xef\xbb\xbfmodel = 'a/b'\r\n")
    assert load_config(path).model == "a/b"


def test_line_of_finds_quoted_and_dotted_keys() -> None:
    text = "[providers]\n'x'.api = 1\n[settings]\nretry.max_retries = 2\n"
    assert line_of(text, ("providers", "x", "api")) == 2
    assert line_of(text, ("settings", "retry", "max_retries")) == 4
    assert line_of(text, ("settings", "retry", "base_delay")) == 3
    assert line_of(text, ("model",)) is None
