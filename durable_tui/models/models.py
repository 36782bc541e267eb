"""Which models there are: the known providers, the configured ones, and the built-in script (spec 20)."""

from __future__ import annotations

import dataclasses
import os
import threading
from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from durable_tui.models import catalogue, probe
from durable_tui.models.known_providers import ANTHROPIC, KEY_VARIABLES, KNOWN, OPENAI_RESPONSES, SCRIPTED
from durable_tui.models.listing import Offer, ask_provider, reason
from durable_tui.models.provider import BackgroundProvider, Model, ModelError, ModelRequest, Provider, StreamEvent
from durable_tui.models.provider_config import Entry, ProviderInfo, ProviderTable, configured_entry, known_entry

if TYPE_CHECKING:
    from durable_tui.delta import JsonObject
    from durable_tui.models.http import HttpSettings
    from durable_tui.models.http_provider import EndpointOptions

TOUR = "scripted/tour"
_NOT_READY = ("absent", "silent", "loading")


class Models:
    """Resolves names and streams answers. `Models(providers=[...])` knows just these; `from_env` what is found.

    One object may serve several harnesses. `close` ends its connections; a later stream opens new ones.
    """

    def __init__(self, providers: Iterable[Provider] = ()) -> None:
        self._providers: dict[str, Provider] = {provider.name: provider for provider in providers}
        self._entries: dict[str, Entry] = {}
        self._outcomes: dict[str, probe.Outcome] = {}  # what servers near by said when last asked
        self._windows: dict[str, int] = {}  # and of their models, as PROVIDER/MODEL, ever
        self._http: HttpSettings | None = None

    @classmethod
    def from_env(
        cls,
        environ: Mapping[str, str] | None = None,
        config: Mapping[str, ProviderTable] | None = None,
        home: str | Path | None = None,
        http: HttpSettings | None = None,
    ) -> Models:
        """The known providers with what `environ` (default: the process's) says, and those of `config`.

        `config` is the configuration's `providers` table, by the providers' names. A relative `script` is looked for in
        `home`.
        """
        environ = os.environ if environ is None else environ
        self = cls()
        self._http = http
        for known in KNOWN.values():
            self._entries[known.name] = known_entry(known, environ)
        self._entries[SCRIPTED] = Entry(SCRIPTED, SCRIPTED)
        for name, table in (config or {}).items():
            self._entries[name] = configured_entry(name, table, self._entries.get(name), environ, home)
        return self

    def resolve(self, name: str) -> Model:
        """The model called `PROVIDER/MODEL`, split at the first slash. Raises ModelError (`configuration`)."""
        provider, slash, model_id = name.partition("/")
        if not (slash and provider and model_id):
            raise ModelError(f"{name!r} names no model: write PROVIDER/MODEL, as in openai/gpt-5.2", "configuration")
        if provider in self._providers and provider not in self._entries:
            return Model(provider, model_id, self._providers[provider].api)
        entry = self._entry(provider)
        model = Model(provider, model_id, entry.api)
        if entry.api != SCRIPTED:
            model = catalogue.described(model, priced=entry.genuine)
        if name in self._windows:
            model = dataclasses.replace(model, context_window=self._windows[name])
        return catalogue.configured(model, entry.models.get(model_id, {}))

    def problem(self, name: str) -> str | None:
        """Return why `PROVIDER/MODEL` cannot be used, with what to do; None when nothing is known to be wrong."""
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
            self.learn(request.model.name)
            return self.provider(request.model.provider).stream(request)
        except ModelError as error:
            return _failing(error)

    def poll(self, request: ModelRequest, handle: JsonObject) -> AsyncIterator[StreamEvent]:
        """Ask once for a deferred answer (see BackgroundProvider). Failures raise ModelError when iterated."""
        try:
            return self._background(request.model.provider).poll(request, handle)
        except ModelError as error:
            return _failing(error)

    async def cancel(self, provider: str, handle: JsonObject) -> None:
        """End a deferred answer at its provider. Raises ModelError."""
        await self._background(provider).cancel(handle)

    def _background(self, name: str) -> BackgroundProvider:
        provider = self.provider(name)
        if not isinstance(provider, BackgroundProvider):
            raise ModelError(f"{name}: its API cannot ask for a deferred answer", "configuration")
        return provider

    async def close(self) -> None:
        """End what runs and close all connections."""
        for provider in list(self._providers.values()):
            await provider.close()

    def default(self, *, ask: bool = True) -> str | None:
        """The model to use when none is named: of the first provider with a key, else of a local server that answers.

        Configured providers with a `default_model` come before the known ones. Local ports are asked only when no key
        is found (`local_default`).
        """
        entries = [entry for entry in self._entries.values() if entry.default_model and entry.problem is None]
        for entry in sorted(entries, key=lambda entry: not entry.configured):
            if entry.configured or entry.key:
                return f"{entry.name}/{entry.default_model}"
        return self.local_default(ask=ask)

    def local_default(self, *, ask: bool = True) -> str | None:
        """The first model of the first server near by that lists one; without `ask` by what they said last."""
        near = sorted(self._near(), key=lambda entry: not entry.configured)
        if ask:
            self._ask(near)
        for entry in near:
            for model_id in self._outcomes.get(entry.name, probe.Outcome("absent")).models:
                return f"{entry.name}/{model_id}"
        return None

    def listing(self, *, ask: bool = True) -> list[Offer]:
        """Return what each provider offers, or why nothing. With `ask` the servers near by are asked, all at once, which takes
        up to a second; else what they said last time stands. Nothing farther away is asked."""
        if ask:
            self._ask(self._near())
        offers = [self._offer(entry) for entry in self._entries.values()]
        return [*offers, *(Offer(info) for info in self.known() if info.name not in self._entries)]

    async def ask(self, name: str, timeout: float = 15.0) -> list[str]:
        """The models that the provider of this name lists: one request with its key. Raises ModelError."""
        from durable_tui.models.http_provider import HttpProvider

        provider = self.provider(name)
        if not isinstance(provider, HttpProvider):
            raise ModelError(f"{name}: there is nobody to ask", "configuration")
        return await ask_provider(provider, timeout)

    def learn(self, name: str) -> None:
        """Find out what the server near by that has the model `PROVIDER/MODEL` tells of it. Returns at once.

        It is asked again only when it was not ready to tell.
        """
        entry = self._entries.get(name.partition("/")[0])
        if entry is None or self._outcomes.get(entry.name, probe.Outcome("absent")).state not in _NOT_READY:
            return
        if entry.near and entry.problem is None:
            threading.Thread(target=self._ask, args=([entry],), name="learn", daemon=True).start()

    def known(self) -> list[ProviderInfo]:
        """All providers, for listings and advice; nothing is asked over the network."""
        infos = [entry.info for entry in self._entries.values()]
        infos += [
            ProviderInfo(provider.name, provider.api, None, None, None, False, True, None)
            for name, provider in self._providers.items()
            if name not in self._entries
        ]
        return infos

    def _near(self) -> list[Entry]:
        return [entry for entry in self._entries.values() if entry.near and entry.problem is None]

    def _ask(self, entries: list[Entry]) -> None:
        outcomes = probe.ask([entry.server for entry in entries])
        for entry, outcome in zip(entries, outcomes, strict=True):
            self._outcomes[entry.name] = outcome
            self._windows |= {f"{entry.name}/{model_id}": size for model_id, size in outcome.models.items() if size}

    def _offer(self, entry: Entry) -> Offer:
        if entry.problem is not None:
            return Offer(entry.info, why=entry.problem.removeprefix(f"{entry.name}: "))
        if entry.local and not entry.configured:
            others = (other for other in self._near() if other.configured or not other.local)
            twin = next((other.name for other in others if probe.same_place(other.base_url, entry.base_url)), "")
            if twin:
                return Offer(entry.info, why=f"the same server as {twin}")
        outcome = self._outcomes.get(entry.name) if entry.near else None
        ids = [*([entry.default_model] if entry.default_model else []), *entry.models]
        unlisted = (
            bool(ids) and outcome is not None and outcome.state in ("empty", "foreign")
        )  # it may chat all the same
        if outcome is not None and not unlisted and (why := reason(entry.info, outcome)):
            return Offer(entry.info, why=why)
        ids += outcome.models if outcome is not None else ()
        if entry.api == SCRIPTED and entry.script is None:
            from durable_tui.models.scripted import script_names

            ids += script_names()
        elif entry.genuine:
            ids += catalogue.ids(entry.name)
        models = tuple(self.resolve(f"{entry.name}/{model_id}") for model_id in dict.fromkeys(ids))
        return Offer(entry.info, models, asked=outcome is not None or not entry.near)

    def key_variables(self) -> frozenset[str]:
        """The environment variables that hold keys: those that commands must not see."""
        return KEY_VARIABLES | {entry.key_env for entry in self._entries.values() if entry.key_env}

    def _entry(self, name: str) -> Entry:
        entry = self._entries.get(name)
        if entry is None:
            names = ", ".join({**self._entries, **self._providers})
            raise ModelError(
                f"there is no provider {name!r}: use one of {names}, or describe it in [providers.{name}] of config.toml",
                "configuration",
            )
        return entry

    def _make(self, entry: Entry) -> Provider:
        if entry.api == SCRIPTED:
            from durable_tui.models.scripted import ScriptedProvider

            return ScriptedProvider(entry.name, script=entry.script)
        from durable_tui.models.http import HttpSettings

        settings = self._http
        if settings is None:
            read = entry.quirks.read_timeout
            settings = HttpSettings() if read is None else HttpSettings(read=read)
        options: EndpointOptions = {
            "key": entry.key,
            "key_env": entry.key_env,
            "quirks": entry.quirks,
            "headers": entry.headers,
            "settings": settings,
        }
        base_url = entry.base_url or ""
        if entry.api == ANTHROPIC:
            from durable_tui.models.anthropic_messages import AnthropicProvider

            return AnthropicProvider(entry.name, base_url, **options)
        if entry.api == OPENAI_RESPONSES:
            from durable_tui.models.openai_responses import ResponsesProvider

            return ResponsesProvider(entry.name, base_url, background=entry.background, **options)
        from durable_tui.models.openai_chat import OpenAIChatProvider

        return OpenAIChatProvider(entry.name, base_url, **options)


async def _failing(error: ModelError, events: tuple[StreamEvent, ...] = ()) -> AsyncIterator[StreamEvent]:
    for event in events:
        yield event
    raise error
