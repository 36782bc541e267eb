"""The configuration file (spec 20), read strictly: an error names file, line and key, and what to write instead."""

from __future__ import annotations

import difflib
import re
import tomllib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn, TypedDict, cast

from durable_tui.host.host_errors import ConfigError
from durable_tui.models.provider import THINKING_LEVELS, ThinkingLevel

if TYPE_CHECKING:
    from durable_tui.agent.settings import Settings
    from durable_tui.models.provider_config import ProviderTable
    from durable_tui.storage.protocol import Durability

APIS = ("openai-chat", "openai-responses", "anthropic", "scripted")
MODES = ("one_at_a_time", "all")


class SettingsTable(TypedDict, total=False):
    """`[settings]`; its inner tables are spread out by `flatten`."""

    durability: Durability
    steering_mode: str
    follow_up_mode: str
    tool_execution: str
    restart_limit: int
    retry: dict[str, float]
    progress: dict[str, float]
    limits: dict[str, float]


class ScreenTable(TypedDict, total=False):
    """`[screen]`"""

    theme: str
    ascii: bool


@dataclass(slots=True, frozen=True)
class Config:
    """The contents of the file. `providers` goes to `Models.from_env` as it is, `settings` into harness Settings."""

    model: str | None = None
    thinking: ThinkingLevel | None = None  # for new sessions
    providers: dict[str, ProviderTable] = field(default_factory=dict)
    settings: SettingsTable = field(default_factory=SettingsTable)
    path: Path | None = None
    keys: dict[str, str] = field(default_factory=dict)  # action id to keys, for the screen
    screen: ScreenTable = field(default_factory=ScreenTable)
    warnings: list[str] = field(default_factory=list)  # sentences for the person, one a key that does nothing

    @property
    def durability(self) -> Durability:
        return self.settings.get("durability", "intents")

    def harness_settings(self) -> Settings:
        """The settings of the harness: the file's, else their defaults."""
        from dataclasses import fields

        from durable_tui.agent.settings import Settings

        flat = flatten(self.settings)
        of_harness = {item.name for item in fields(Settings)}  # durability is the storage's
        chosen: dict[str, Any] = {name: value for name, value in flat.items() if name in of_harness}
        return Settings(**chosen)


# Names of harness Settings for keys that are nested in the file.
NESTED: dict[str, dict[str, str]] = {
    "retry": {"max_retries": "max_retries", "base_delay": "base_delay", "max_delay": "max_delay"},
    "progress": {"partial_interval": "partial_interval", "output_interval": "output_interval"},
    "limits": {"turns": "limit_turns", "cost": "limit_cost"},
}


def flatten(settings: SettingsTable) -> dict[str, object]:
    """`[settings]` with its inner tables spread out, under the names harness Settings uses."""
    flat: dict[str, object] = {}
    for key, value in settings.items():
        if key in NESTED and isinstance(value, dict):
            flat.update({NESTED[key][inner]: item for inner, item in value.items()})
        else:
            flat[key] = value
    return flat


@dataclass(slots=True, frozen=True)
class Rule:
    """The values that one key may hold: a test, and the words for it."""

    test: Callable[[object], bool]
    wanted: str


def _number(low: float, *, whole: bool = False) -> Rule:
    kind = "a whole number" if whole else "a number"

    def test(value: object) -> bool:
        if isinstance(value, bool) or not isinstance(value, int if whole else int | float):
            return False
        return low <= value < float("inf")

    return Rule(test, f"{kind} of at least {low:g}")


def _one_of(*words: str) -> Rule:
    return Rule(lambda value: value in words, "one of " + ", ".join(f'"{word}"' for word in words))


TEXT = Rule(lambda value: isinstance(value, str) and value != "", "a text in quotes")
FLAG = Rule(lambda value: isinstance(value, bool), "true or false")
MODEL = Rule(
    lambda value: isinstance(value, str) and "/" in value.strip("/"), 'PROVIDER/MODEL, as in "deepseek/deepseek-flash"'
)
TABLE = Rule(lambda value: isinstance(value, dict), "a table")
MODEL_RULES: dict[str, Rule] = {
    "context_window": _number(1, whole=True),
    "max_output": _number(1, whole=True),
    **dict.fromkeys(("images", "reasoning", "tools"), FLAG),
    "prices": Rule(
        lambda value: isinstance(value, dict) and {"input", "output"} <= value.keys(),
        "a table with input and output in USD per million tokens, as in {input = 0.5, output = 1.5}",
    ),
}
PRICE_RULES = dict.fromkeys(("input", "output", "cache_read", "cache_write"), _number(0))

PROVIDER_RULES: dict[str, Rule] = {
    "api": _one_of(*APIS),
    "base_url": Rule(
        lambda value: isinstance(value, str) and re.match(r"https?://[^\s/]", value) is not None,
        'an address such as "http://127.0.0.1:8080/v1"',
    ),
    "api_key_env": Rule(
        lambda value: isinstance(value, str) and re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", value) is not None,
        "the name of the variable that holds the key, not the key itself",
    ),
    "auth": _one_of("bearer", "x-api-key", "api-key"),
    "background": FLAG,
    "script": TEXT,
    "default_model": TEXT,
    "headers": Rule(
        lambda value: isinstance(value, dict) and all(isinstance(item, str) for item in value.values()),
        "a table of texts",
    ),
    "models": TABLE,
}
SETTING_RULES: dict[str, Rule] = {
    "durability": _one_of("process", "intents", "power"),
    "steering_mode": _one_of(*MODES),
    "follow_up_mode": _one_of(*MODES),
    "tool_execution": _one_of("parallel", "sequential"),
    "restart_limit": _number(1, whole=True),
    "retry": TABLE,
    "progress": TABLE,
    "limits": TABLE,
}
INNER_RULES: dict[str, dict[str, Rule]] = {
    "retry": {"max_retries": _number(0, whole=True), "base_delay": _number(0), "max_delay": _number(0)},
    "progress": {"partial_interval": _number(0), "output_interval": _number(0)},
    "limits": {"turns": _number(0, whole=True), "cost": _number(0)},
}
# Keys of [settings] that earlier versions took: still read past, so that such a file opens, with the reason said.
WITHOUT_EFFECT = {"compaction": "has no effect yet, for conversations are not compacted; it can be removed"}
SCREEN_RULES: dict[str, Rule] = {"theme": TEXT, "ascii": FLAG}
TOP_RULES: dict[str, Rule] = {
    "model": MODEL,
    "thinking": _one_of(*THINKING_LEVELS),
    **dict.fromkeys(("providers", "settings", "keys", "screen"), TABLE),
}


def load_config(path: Path) -> Config:
    """Read a file; a missing one is an empty configuration. Raises ConfigError."""
    try:
        raw = path.read_bytes()
    except FileNotFoundError:
        return Config(path=path)
    except OSError as error:
        reason = error.strerror or error
        raise ConfigError(f"{path}: cannot be read ({reason}); fix its permissions or move it away") from None
    try:
        text = raw.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = raw.count(b"\n", 0, error.start) + 1
        raise ConfigError(f"{path}, line {line}: is not UTF-8 text; save the file as UTF-8") from None
    return parse_config(text, path)


def parse_config(text: str, path: Path) -> Config:
    """Check a configuration's text. Raises ConfigError naming file, line and key."""
    try:
        data = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise ConfigError(_syntax(error, text, path)) from None
    checker = _Checker(text, path)
    checker.table(data, TOP_RULES, ())
    for name, provider in data.get("providers", {}).items():
        where = ("providers", name)
        if not isinstance(provider, dict):
            checker.fail(where, f"must be a table: write [providers.{name}]")
        if "/" in name:
            checker.fail(where, "a provider's name holds no slash, for PROVIDER/MODEL splits at the first one")
        checker.table(provider, PROVIDER_RULES, where)
        models = provider.get("models", {})
        checker.table(models, dict.fromkeys(models, TABLE), (*where, "models"))
        for model_id, facts in models.items():
            checker.table(facts, MODEL_RULES, (*where, "models", model_id))
            checker.table(facts.get("prices", {}), PRICE_RULES, (*where, "models", model_id, "prices"))
        if provider.get("api") == "scripted" and "script" not in provider:
            checker.fail(where, 'api "scripted" needs script = "turns.json"')
    settings = dict(data.get("settings", {}))
    warnings = [
        checker.sentence(("settings", key), reason)
        for key, reason in WITHOUT_EFFECT.items() if settings.pop(key, None) is not None
    ]  # fmt: skip
    checker.table(settings, SETTING_RULES, ("settings",))
    for key, rules in INNER_RULES.items():
        if key in settings:
            checker.table(settings[key], rules, ("settings", key))
    keys, screen = data.get("keys", {}), data.get("screen", {})
    checker.table(keys, dict.fromkeys(keys, TEXT), ("keys",))
    checker.table(screen, SCREEN_RULES, ("screen",))
    providers = {name: _resolved(provider, path) for name, provider in data.get("providers", {}).items()}
    return Config(
        data.get("model"), data.get("thinking"), providers, cast(SettingsTable, settings), path, keys, screen, warnings
    )


def _resolved(provider: ProviderTable, path: Path) -> ProviderTable:
    """A script is looked for beside the configuration, so that the current directory does not matter."""
    if "script" in provider:
        script = Path(provider["script"]).expanduser()
        return {**provider, "script": str(script if script.is_absolute() else path.absolute().parent / script)}
    return {**provider}


class _Checker:
    def __init__(self, text: str, path: Path) -> None:
        self._text = text
        self._path = path

    def sentence(self, where: tuple[str, ...], message: str) -> str:
        line = line_of(self._text, where)
        place = f"{self._path}, line {line}" if line else str(self._path)
        return f"{place}: {'.'.join(where)}: {message}"

    def fail(self, where: tuple[str, ...], message: str) -> NoReturn:
        raise ConfigError(self.sentence(where, message))

    def table(self, table: Mapping[str, object], rules: Mapping[str, Rule], where: tuple[str, ...]) -> None:
        for key, value in table.items():
            rule = rules.get(key)
            if rule is None:
                self.fail((*where, key), f"is not known; {near(key, rules)}")
            elif not rule.test(value):
                self.fail((*where, key), f"must be {rule.wanted}, not {_shown(value)}")


def near(word: str, words: Mapping[str, object]) -> str:
    """Return a hint at what an unknown word was meant to be."""
    close = difflib.get_close_matches(word, list(words), n=2, cutoff=0.6)
    if close:
        return "did you mean " + " or ".join(close) + "?"
    return "known here: " + ", ".join(words)


def _shown(value: object) -> str:
    if isinstance(value, str):
        return f'"{value}"' if len(value) <= 60 else f'"{value[:57]}…"'
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, dict):
        return "a table"
    return "a list" if isinstance(value, list) else str(value)


_HEADER = re.compile(r"^\s*\[\[?\s*(?P<name>[^\]]+?)\s*\]\]?\s*(#.*)?$")
_NAME = r"""(?:[A-Za-z0-9_-]+|"[^"]*"|'[^']*')"""
_KEY = re.compile(rf"^\s*(?P<key>{_NAME}(?:\s*\.\s*{_NAME})*)\s*=")
_PART = re.compile(_NAME)


def line_of(text: str, where: tuple[str, ...]) -> int | None:
    """The line (from 1) where a key is written: its own, else the one of the table or inline table that holds it."""
    best: tuple[int, int] | None = None  # (depth matched, line)
    table: tuple[str, ...] = ()
    for number, line in enumerate(text.split("\n"), 1):
        header, key = _HEADER.match(line), _KEY.match(line)
        if header:
            table = full = _parts(header["name"])
        elif key:
            full = table + _parts(key["key"])
        else:
            continue
        if full == where[: len(full)] and (best is None or len(full) > best[0]):
            best = (len(full), number)
    return best[1] if best else None


def _parts(name: str) -> tuple[str, ...]:
    return tuple(part.strip("\"'") for part in _PART.findall(name))


def _syntax(error: tomllib.TOMLDecodeError, text: str, path: Path) -> str:
    """tomllib says "… (at line 3, column 9)"; say file and line first, as everywhere."""
    message = str(error)
    found = re.search(r"\(at (?:line (\d+), column (\d+)|end of document)\)", message)
    line = int(found[1]) if found and found[1] else text.count("\n") + 1
    reason = message[: found.start()].strip() if found else message
    content = text.split("\n")[line - 1] if line <= text.count("\n") + 1 else ""
    key = _KEY.match(content)
    name = f" {key['key'].strip()}:" if key else ""
    return f"{path}, line {line}:{name} is not TOML ({reason}); texts need quotes, tables [brackets]"
