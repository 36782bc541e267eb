"""Putting the parts of an open session together (spec 18)."""

from __future__ import annotations

from durable_tui.agent.agent import Agent, ModelSource
from durable_tui.agent.asks import ASK_BOOK
from durable_tui.agent.documents import RECORDED
from durable_tui.agent.extension import Registry
from durable_tui.agent.generation.phases import begin_generation, generation_kind
from durable_tui.agent.generation.provider_cancel import ProviderCancel
from durable_tui.agent.inbox import Conversations
from durable_tui.agent.model_context import Contexts
from durable_tui.agent.recent_entries import RecentEntries
from durable_tui.agent.settings import Settings
from durable_tui.agent.settlements import Settlements
from durable_tui.agent.tool_task import tool_kind
from durable_tui.agent.toolbox import Toolbox
from durable_tui.engine.engine import Engine, EngineSettings
from durable_tui.engine.task import TaskDefinition
from durable_tui.environment.base import EnvironmentFactory
from durable_tui.session import Session, Transaction


def make_agent(
    session: Session,
    models: ModelSource,
    registry: Registry,
    environment: EnvironmentFactory,
    settings: Settings,
) -> tuple[Agent, ProviderCancel]:
    """Put the parts of an open session together: the engine, what conversations share, and the built-in kinds."""
    built_in: dict[str, TaskDefinition] = {}

    def begin(tx: Transaction, conversation_id: int) -> int:
        return begin_generation(agent, tx, conversation_id)

    conversations = Conversations(session, settings, begin)
    engine = Engine(
        session,
        EngineSettings(settings.restart_limit, settings.space_interval),
        lambda kind: registry.task(kind) or built_in.get(kind),
        conversations,
        ASK_BOOK,
        RECORDED,
    )
    agent = Agent(
        session=session,
        engine=engine,
        models=models,
        settings=settings,
        toolbox=Toolbox(session, registry, environment, engine.reports),
        conversations=conversations,
        contexts=Contexts(session),
        entries=RecentEntries(session),
        settlements=Settlements(session),
    )
    cancel = ProviderCancel(session, models, engine.reports)
    for definition in (generation_kind(agent, cancel), tool_kind(agent)):
        built_in[definition.name] = definition
    registry.on_change(engine.wake)
    return agent, cancel
