"""One provider as the environment and the configuration describe it (spec 20)."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TypedDict

from durable_tui.models import probe
from durable_tui.models.catalogue import ModelTable
from durable_tui.models.known_providers import (
    ANTHROPIC,
    APIS,
    KNOWN,
    OPENAI_CHAT,
    OPENAI_RESPONSES,
    SCRIPTED,
    Auth,
    Known,
    Quirks,
)


def models_path(api: str, base_url: str) -> str:
    """Return the path of a provider's list of models, below its base URL (OpenAI and Anthropic: List Models)."""
    return "/v1/models" if api == ANTHROPIC and not base_url.rstrip("/").endswith("/v1") else "/models"


class ProviderTable(TypedDict, total=False):
    """`[providers.NAME]` of the configuration (spec 20).

    A known provider's name changes that one. `models` gives facts by model id, which count before those of the catalogue.
    """

    api: str
    base_url: str
    api_key_env: str
    auth: Auth
    background: bool
    script: str
    default_model: str
    headers: dict[str, str]
    models: dict[str, ModelTable]


@dataclass(slots=True, frozen=True)
class ProviderInfo:
    """One provider as it stands: `problem` says why it cannot be used, None when it can (a local one if it runs).

    `near` is one on this machine or in its network, which can be asked for its models; `key` tells whether one was found.
    """

    name: str
    api: str
    base_url: str | None
    key_env: str | None
    default_model: str | None
    local: bool
    configured: bool
    problem: str | None
    near: bool = False
    key: bool = False


@dataclass(slots=True, frozen=True)
class Entry:
    """One provider with all it takes to use it, its key included."""

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
    background: bool = False
    models: Mapping[str, ModelTable] = dataclasses.field(default_factory=dict)

    @property
    def genuine(self) -> bool:
        """Whether it is the known provider itself, and not a server of one's own under its name."""
        known = KNOWN.get(self.name)
        return known is not None and (self.base_url or "").rstrip("/") == known.base_url

    @property
    def problem(self) -> str | None:
        if self.api not in (*APIS, SCRIPTED):
            return f"{self.name}: there is no API {self.api!r}; use {', '.join(APIS)} or {SCRIPTED}"
        if self.api in APIS and not self.base_url:
            return f"{self.name}: no base_url is set in [providers.{self.name}]"
        if self.background and self.api != OPENAI_RESPONSES:
            return f"{self.name}: only the API {OPENAI_RESPONSES} answers in the background, not {self.api}"
        if self.key_needed and not self.key:
            return f"{self.name}: no key; set the environment variable {self.key_env}"
        return None

    @property
    def near(self) -> bool:
        return self.api in APIS and self.base_url is not None and (self.local or probe.is_near(self.base_url))

    @property
    def info(self) -> ProviderInfo:
        return ProviderInfo(
            self.name, self.api, self.base_url, self.key_env, self.default_model, self.local, self.configured,
            self.problem, self.near, bool(self.key),
        )  # fmt: skip

    @property
    def server(self) -> probe.Server:
        """Return how to ask it for its models."""
        base, question, query = (self.base_url or "").partition("?")
        url = base.rstrip("/") + models_path(self.api, base) + question + query
        return probe.Server(url, {**self.quirks.key_header(self.key), **self.headers})


def known_entry(known: Known, environ: Mapping[str, str]) -> Entry:
    """A known provider with its key and address as the environment has them."""
    base_url = environ.get(known.base_url_env, "").strip().rstrip("/") or known.base_url
    return Entry(
        known.name,
        (known.api if base_url == known.base_url else known.api_elsewhere) or known.api,
        base_url,
        environ.get(known.key_env, "").strip(),
        known.key_env,
        # A server of one's own behind a provider's name asks for a key itself if it wants one.
        key_needed=not known.local and base_url == known.base_url,
        # A server near by has models of its own, which it can be asked for.
        default_model=None if probe.is_near(base_url) else known.default_model,
        local=known.local,
        quirks=known.quirks,
    )


def configured_entry(
    name: str, table: ProviderTable, base: Entry | None, environ: Mapping[str, str], home: str | Path | None
) -> Entry:
    """A provider of the configuration, or a known one changed by it."""
    entry = dataclasses.replace(base or Entry(name, OPENAI_CHAT), configured=True, models=table.get("models", {}))
    base_url, api = entry.base_url, entry.api
    if "base_url" in table and table["base_url"].rstrip("/") != base_url:
        # A server of one's own asks for a key itself if it wants one.
        known = KNOWN.get(name)
        entry = dataclasses.replace(
            entry,
            api=(known and known.api_elsewhere) or api,
            default_model=None if probe.is_near(table["base_url"]) else entry.default_model,
            key_needed=False,
        )
    entry = dataclasses.replace(
        entry,
        api=table.get("api", entry.api),
        base_url=table.get("base_url", base_url),
        default_model=table.get("default_model", entry.default_model),
        headers=table.get("headers", entry.headers),
        background=table.get("background", entry.background),
    )
    if entry.api == ANTHROPIC != api:
        entry = dataclasses.replace(entry, quirks=KNOWN[ANTHROPIC].quirks)
    if "auth" in table:
        entry = dataclasses.replace(entry, quirks=dataclasses.replace(entry.quirks, auth=table["auth"]))
    if "api_key_env" in table:
        variable = str(table["api_key_env"])
        entry = dataclasses.replace(entry, key=environ.get(variable, "").strip(), key_env=variable, key_needed=True)
    if "script" in table:
        script = Path(table["script"]).expanduser()
        path = script if script.is_absolute() or home is None else Path(home) / script
        entry = dataclasses.replace(entry, script=str(path), api=table.get("api", SCRIPTED))
    return entry
