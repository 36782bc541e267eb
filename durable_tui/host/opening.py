"""Opening a session for a front end: storage, models, tools and prompt put together (spec 18, 20)."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from durable_tui.host.catalogue import SHORT, Catalogue
from durable_tui.host.host_errors import HostError, ModelMissing
from durable_tui.host.paths import Paths, private_folder
from durable_tui.host.reading import SESSION_SCOPE, document_value
from durable_tui.host.settings import Config, load_config
from durable_tui.storage.ends import end_path

if TYPE_CHECKING:
    from durable_tui.agent.extension import Extension, Registry
    from durable_tui.harness.conversation import Conversation
    from durable_tui.harness.harness import Harness
    from durable_tui.models.models import Models
    from durable_tui.models.provider import ThinkingLevel
    from durable_tui.storage import SqliteStorage

HOW_TO_GET_A_MODEL = (
    "set a key such as OPENAI_API_KEY, DEEPSEEK_API_KEY or OPENROUTER_API_KEY, or start a local server "
    "(Ollama, llama.cpp, LM Studio, vLLM); choose with --model PROVIDER/MODEL; `durable-tui doctor` shows what is found"
)


@dataclass(slots=False, frozen=True)
class Host:
    """The person's places, configuration and environment variables, read once."""

    paths: Paths
    config: Config
    env: Mapping[str, str] = field(default_factory=lambda: os.environ)

    @classmethod
    def load(cls, env: Mapping[str, str] | None = None) -> Host:
        """Raises ConfigError when the configuration is wrong."""
        env = os.environ if env is None else env
        paths = Paths.from_env(env)
        return cls(paths, load_config(paths.config), env)

    @cached_property
    def catalogue(self) -> Catalogue:
        return Catalogue(self.paths)

    @property
    def named_models(self) -> list[tuple[str, str]]:
        """(PROVIDER/MODEL, where it is named) for sessions that name none themselves, the first before the others."""
        named = (
            (self.env.get("DURABLE_TUI_MODEL", "").strip(), "DURABLE_TUI_MODEL"),
            (self.config.model, f"model in {self.paths.config}"),
        )
        return [(name, source) for name, source in named if name]

    def default_model(self, models: Models, *, ask: bool = True) -> str | None:
        """The model of a session that names none (spec 20); see `Models.default` for `ask`."""
        return self.named_models[0][0] if self.named_models else models.default(ask=ask)

    def models(self) -> Models:
        """All models this host knows; the caller closes them."""
        from durable_tui.models.models import Models

        return Models.from_env(self.env, config=self.config.providers, home=self.paths.config.parent)


@dataclass(slots=True)
class Opened:
    """An open session. `problem` is set once it refuses to go on; `harness.session_problem` then says why.

    `model` is what the session asks, `PROVIDER/MODEL`; `created` says that this opening made the session; `warnings`
    are sentences for the person.
    """

    harness: Harness
    root: Conversation
    storage: SqliteStorage
    models: Models
    registry: Registry
    path: Path
    model: str
    created: bool
    host: Host
    session: dict[str, Any]
    warnings: list[str] = field(default_factory=list)
    problem: asyncio.Event = field(default_factory=asyncio.Event)

    @property
    def id(self) -> str:
        return self.path.stem

    @property
    def short_id(self) -> str:
        return self.id[-SHORT:]

    @property
    def end_file(self) -> str | None:
        """Where the launcher is to tell how this opening ended; None once it has ended in order (spec 15)."""
        files = self.storage.files
        return end_path(files, self.storage.epoch) if files and not self.harness.closed_in_order else None

    async def close(self) -> None:
        """Close everything in order; work goes on at the next opening. Idempotent."""
        try:
            await self.harness.close()
        finally:
            await self.models.close()
        await self.host.catalogue.describe(self.path)


async def open_session(
    host: Host,
    path: Path,
    *,
    directory: str,
    model: str | None = None,
    thinking: ThinkingLevel | None = None,
    fallback_model: str | None = None,
    create: bool = True,
    extensions: Iterable[Extension] = (),
) -> Opened:
    """Own the session at `path`, made for `directory` when there is none and `create` allows it. Starts nothing.

    `model` and `thinking` are asked for explicitly and become the session's; `fallback_model` is taken when none is
    found at all. Raises HostError (configuration, model, directory) and what the storage raises; then nothing stays open.
    """
    from durable_tui.environment.local import LocalEnvironment
    from durable_tui.harness.harness import Harness
    from durable_tui.storage import SqliteStorage

    path = path.resolve()
    created = not path.exists()
    models = host.models()
    harness: Harness | None = None
    try:
        # Before the file is made: a session that could never be asked anything should not come to be.
        chosen = await choose_model(host, models, model, fallback=fallback_model) if created or model else None
        if created and create:
            make_room(host, path)
        registry, warnings = make_registry(host, extensions)
        storage = await SqliteStorage.open(path, host.config.durability, create=create)
        # From here on the harness has the storage: its close closes it, its failed opening releases it.
        harness = await Harness.open(
            storage,
            models=models,
            registry=registry,
            environment=LocalEnvironment.hiding(models.key_variables()),
            settings=host.config.harness_settings(),
        )
        first = {"model": chosen, "thinkingLevel": thinking or host.config.thinking, "cwd": directory}
        root = await harness.root(agent={key: value for key, value in first.items() if value})
        agent = await root.agent()
        stored = agent.get("model")
        if chosen is None:
            name = f"{stored['provider']}/{stored['modelId']}" if stored else None
            chosen = await choose_model(host, models, name, stored=True, fallback=fallback_model)
        provider, _, model_id = chosen.partition("/")
        if stored != {"provider": provider, "modelId": model_id}:
            await root.configure(model=chosen)
        if thinking and agent.get("thinkingLevel", "off") != thinking:
            await root.configure(thinkingLevel=thinking)
        models.learn(chosen)
        session = dict(await document_value(storage, "dt.session", SESSION_SCOPE) or {})
        check_directory(agent.get("cwd") or session.get("cwd") or directory)
        opened = Opened(
            harness, root, storage, models, registry, path, chosen, created, host, session,
            warnings=[*storage.warnings, *host.config.warnings, *warnings],
        )  # fmt: skip
        harness.on_problem(lambda problem: opened.problem.set() if problem else opened.problem.clear())
        if harness.session_problem:
            opened.problem.set()
        await host.catalogue.remember(path)
        return opened
    except BaseException:
        if harness is not None:
            await harness.close()
        await models.close()
        raise


async def choose_model(
    host: Host, models: Models, asked: str | None, *, stored: bool = False, fallback: str | None = None
) -> str:
    """The model by the order of spec 20, checked as far as that goes without asking it. Raises ModelMissing."""
    candidates = [(asked, "this session's model" if stored else "--model")] if asked else []
    for name, source in [*candidates, *host.named_models]:
        problem = models.problem(name)
        if problem is None:
            return name
        advice = "; choose another with --model PROVIDER/MODEL" if stored else ""
        raise ModelMissing(f"{source}, {name}: {problem}{advice}")
    found = await asyncio.to_thread(models.default)
    if found is None:
        found = fallback
    if found is None:
        raise ModelMissing(f"there is no model to ask; {HOW_TO_GET_A_MODEL}")
    return found


def make_registry(host: Host, extensions: Iterable[Extension] = ()) -> tuple[Registry, list[str]]:
    """The built-in prompt and tools, the person's own extensions, and those given; with warnings."""
    from durable_tui.agent.extension import Registry
    from durable_tui.host.plugins import install_plugins
    from durable_tui.host.prompt import PromptExtension
    from durable_tui.tools import CodingTools

    registry = Registry()
    registry.install(PromptExtension)
    registry.install(CodingTools)
    warnings = install_plugins(registry, host.paths.extensions)
    for extension in extensions:
        registry.install(extension)
    return registry, warnings


def make_room(host: Host, path: Path) -> None:
    """The folder a new session goes to: ours is made, another one must exist."""
    if path.parent == host.paths.sessions.resolve():
        private_folder(path.parent)
    elif not path.parent.is_dir():
        raise HostError(f"{path.parent}: there is no such directory for the session; make it first")


def check_directory(cwd: str) -> None:
    """A session works in a directory; without it no tool could."""
    if not os.path.isdir(cwd):
        raise HostError(f"{cwd}: the session's directory does not exist any more; make it again to go on")
