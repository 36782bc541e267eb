"""Which models there are: the known providers, the configured ones, and the built-in script (DESIGN 3)."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from durable_tui.models import probe
from durable_tui.models.known import APIS_LATER, KEY_VARIABLES, KNOWN, OPENAI_CHAT, SCRIPTED, Known, Quirks
from durable_tui.models.provider import Model, ModelError, ModelRequest, Provider, StreamEvent

if TYPE_CHECKING:
    from durable_tui.models.http import HttpSettings

TOUR = "scripted/tour"


@dataclass(slots=True, frozen=True)
class ProviderInfo:
    """One provider as it stands: `problem` says why it cannot be used, None when it can (a local one if it runs)."""

    name: str
    api: str
    base_url: str | None
    key_env: str | None
    default_model: str | None
    local: bool
    configured: bool
    problem: str | None


@dataclass(slots=True, frozen=True)
class _Entry:
    name: str
    api: str
    base_url: str | None = None
    key: str = dataclasses.field(default="", repr=False)
    key_env: str | None = None
    key_needed: bool = False
    default_model: str | None = None
    local: bool = False
    configured: bool = False
    quirks: Quirks = dataclasses.field(default_factory=Quirks)
    headers: Mapping[str, str] = dataclasses.field(default_factory=dict)
    script: str | None = None
    models: Mapping[str, Any] = dataclasses.field(default_factory=dict)

    @property
    def problem(self) -> str | None:
        if self.api in APIS_LATER:
            return (
                f"{self.name}: its API ({self.api}) is not yet available in this version; "
                "use a provider with an OpenAI-compatible API, such as openrouter"
            )
        if self.api not in (OPENAI_CHAT, SCRIPTED):
            return f"{self.name}: there is no API {self.api!r}; use {OPENAI_CHAT} or {SCRIPTED}"
        if self.api == OPENAI_CHAT and not self.base_url:
            return f"{self.name}: no base_url is set in [providers.{self.name}]"
        if self.key_needed and not self.key:
            return f"{self.name}: no key; set the environment variable {self.key_env}"
        return None


class Models:
    """Resolves names and streams answers. `Models(providers=[...])` knows just these; `from_env` what is found.

    One object may serve several harnesses. `close` ends its connections; a later stream opens new ones.
    """

    def __init__(self, providers: Iterable[Provider] = ()) -> None:
        self._providers: dict[str, Provider] = {provider.name: provider for provider in providers}
        self._entries: dict[str, _Entry] = {}
        self._http: HttpSettings | None = None

    @classmethod
    def from_env(
        cls,
        environ: Mapping[str, str] | None = None,
        config: Mapping[str, Mapping[str, Any]] | None = None,
        home: str | Path | None = None,
        http: HttpSettings | None = None,
    ) -> Models:
        """The known providers with what `environ` (default: the process's) says, and those of `config`.

        `config` is the configuration's `providers` table: `{NAME: {api?, base_url?, api_key_env?, default_model?,
        headers?, script?, models?}}`. An entry with a known provider's name changes that provider. `models` gives facts
        by model id: `{id: {context_window?, max_output?, prices?: {input, output, cacheRead?, cacheWrite?}}}` (USD per
        million tokens). A relative `script` is looked for in `home`.
        """
        environ = os.environ if environ is None else environ
        self = cls()
        self._http = http
        for known in KNOWN.values():
            self._entries[known.name] = _known_entry(known, environ)
        self._entries[SCRIPTED] = _Entry(SCRIPTED, SCRIPTED)
        for name, given in (config or {}).items():
            self._entries[name] = _configured_entry(name, given, self._entries.get(name), environ, home)
        return self

    def resolve(self, name: str) -> Model:
        """The model called `PROVIDER/MODEL`, split at the first slash. Raises ModelError (`configuration`)."""
        provider, slash, model_id = name.partition("/")
        if not (slash and provider and model_id):
            raise ModelError(f"{name!r} names no model: write PROVIDER/MODEL, as in openai/gpt-5.2", "configuration")
        if provider in self._providers and provider not in self._entries:
            return Model(provider, model_id, self._providers[provider].api)
        entry = self._entry(provider)
        facts = entry.models.get(model_id, {})
        return Model(
            provider,
            model_id,
            entry.api,
            context_window=_fact(facts, "context_window", "contextWindow"),
            max_output=_fact(facts, "max_output", "maxOutput"),
            prices=_prices(_fact(facts, "prices", "price")),
        )

    def problem(self, name: str) -> str | None:
        """Why the model `PROVIDER/MODEL` cannot be used, with what to do; None when nothing is known to be wrong."""
        try:
            model = self.resolve(name)
            provider = self.provider(model.provider)
        except ModelError as error:
            return str(error)
        check: Callable[[str], str | None] | None = getattr(provider, "problem", None)
        return check(model.model_id) if check is not None else None

    def provider(self, name: str) -> Provider:
        """The provider of that name, made at first use. Raises ModelError (`configuration`) when it cannot be used."""
        if name not in self._providers:
            entry = self._entry(name)
            if entry.problem is not None:
                raise ModelError(entry.problem, "configuration")
            self._providers[name] = self._make(entry)
        return self._providers[name]

    def stream(self, request: ModelRequest) -> AsyncIterator[StreamEvent]:
        """The attempt as events, Finished last. Failures, a missing key included, raise ModelError when iterated."""
        try:
            return self.provider(request.model.provider).stream(request)
        except ModelError as error:
            return _failing(error)

    async def close(self) -> None:
        """End what runs and close all connections."""
        for provider in list(self._providers.values()):
            await provider.close()

    def default(self) -> str | None:
        """The model to use when none is named: of the first provider with a key, else of a local server that answers.

        Configured providers with a `default_model` come before the known ones. Local ports are asked only when no key
        is found (`local_default`).
        """
        entries = [entry for entry in self._entries.values() if entry.default_model and entry.problem is None]
        for entry in sorted(entries, key=lambda entry: not entry.configured):
            if entry.configured or entry.key:
                return f"{entry.name}/{entry.default_model}"
        return self.local_default()

    def local_default(self) -> str | None:
        """The first model of the first local server that answers at its port. Waits at most 0.2 s for each port."""
        for entry in self._entries.values():
            near = entry.local or (
                entry.configured and entry.base_url is not None and probe.is_loopback(entry.base_url)
            )
            if near and entry.base_url and entry.problem is None:
                model_id = probe.first_model(entry.base_url)
                if model_id is not None:
                    return f"{entry.name}/{model_id}"
        return None

    def known(self) -> list[ProviderInfo]:
        """All providers, for listings and advice; nothing is asked over the network."""
        infos = [
            ProviderInfo(
                entry.name,
                entry.api,
                entry.base_url,
                entry.key_env,
                entry.default_model,
                entry.local,
                entry.configured,
                entry.problem,
            )
            for entry in self._entries.values()
        ]
        infos += [
            ProviderInfo(provider.name, provider.api, None, None, None, False, True, None)
            for name, provider in self._providers.items()
            if name not in self._entries
        ]
        return infos

    def key_variables(self) -> frozenset[str]:
        """The environment variables that hold keys: those that commands must not see."""
        return KEY_VARIABLES | {entry.key_env for entry in self._entries.values() if entry.key_env}

    def _entry(self, name: str) -> _Entry:
        entry = self._entries.get(name)
        if entry is None:
            names = ", ".join({**self._entries, **self._providers})
            raise ModelError(
                f"there is no provider {name!r}: use one of {names}, or describe it in [providers.{name}] of config.toml",
                "configuration",
            )
        return entry

    def _make(self, entry: _Entry) -> Provider:
        if entry.api == SCRIPTED:
            from durable_tui.models.scripted import ScriptedProvider

            return ScriptedProvider(entry.name, script=entry.script)
        from durable_tui.models.http import HttpSettings
        from durable_tui.models.openai_chat import OpenAIChatProvider

        settings = self._http
        if settings is None:
            read = entry.quirks.read_timeout
            settings = HttpSettings() if read is None else HttpSettings(read=read)
        return OpenAIChatProvider(
            entry.name,
            entry.base_url or "",
            key=entry.key,
            key_env=entry.key_env,
            quirks=entry.quirks,
            headers=dict(entry.headers),
            settings=settings,
        )


async def _failing(error: ModelError, events: tuple[StreamEvent, ...] = ()) -> AsyncIterator[StreamEvent]:
    for event in events:
        yield event
    raise error


def _known_entry(known: Known, environ: Mapping[str, str]) -> _Entry:
    base_url = environ.get(known.base_url_env, "").strip() or known.base_url
    return _Entry(
        known.name,
        known.api,
        base_url,
        environ.get(known.key_env, "").strip(),
        known.key_env,
        # A server of one's own behind a provider's name asks for a key itself if it wants one.
        key_needed=not known.local and base_url == known.base_url,
        default_model=known.default_model,
        local=known.local,
        quirks=known.quirks,
    )


def _configured_entry(
    name: str, given: Mapping[str, Any], base: _Entry | None, environ: Mapping[str, str], home: str | Path | None
) -> _Entry:
    entry = base or _Entry(name, OPENAI_CHAT)
    changes: dict[str, Any] = {"configured": True}
    for key in ("api", "base_url", "default_model", "headers"):
        if key in given:
            changes[key] = given[key]
    if "base_url" in given and given["base_url"] != entry.base_url:
        # A server of one's own asks for a key itself if it wants one.
        changes["key_needed"] = False
    if "api_key_env" in given:
        variable = str(given["api_key_env"])
        changes |= {"key": environ.get(variable, "").strip(), "key_env": variable, "key_needed": True}
    if "script" in given:
        script = Path(given["script"]).expanduser()
        changes["script"] = str(script if script.is_absolute() or home is None else Path(home) / script)
        changes["api"] = given.get("api", SCRIPTED)
    changes["models"] = _models(given.get("models"))
    return dataclasses.replace(entry, **changes)


def _models(given: Any) -> dict[str, Any]:
    """`models` as a table by id; a list of ids or of tables with an `id` is taken too."""
    if isinstance(given, Mapping):
        return {key: value for key, value in given.items() if isinstance(value, Mapping)}
    found: dict[str, Any] = {}
    for item in given if isinstance(given, (list, tuple)) else ():
        if isinstance(item, Mapping) and isinstance(item.get("id"), str):
            found[item["id"]] = item
    return found


def _fact(facts: Mapping[str, Any], *names: str) -> Any:
    return next((facts[name] for name in names if name in facts), None)


def _prices(given: Any) -> dict[str, float] | None:
    if not isinstance(given, Mapping):
        return None
    wire = {"input": "input", "output": "output", "cacheRead": "cache_read", "cacheWrite": "cache_write"}
    prices = {name: _fact(given, name, other) for name, other in wire.items()}
    return {name: float(value) for name, value in prices.items() if isinstance(value, (int, float))} or None
