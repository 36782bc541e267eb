"""Providers over HTTP and the built-in script: neutral messages in, streamed events out (spec 9)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from durable_tui.ground.lazy import lazy
from durable_tui.models.provider import (
    BlockDelta,
    BlockStart,
    Deferred,
    Finished,
    Model,
    ModelError,
    ModelRequest,
    Provider,
    StreamEvent,
)

if TYPE_CHECKING:
    from durable_tui.models.anthropic_messages import AnthropicProvider
    from durable_tui.models.http import HttpSettings
    from durable_tui.models.listing import Offer
    from durable_tui.models.models import Models
    from durable_tui.models.openai_chat import OpenAIChatProvider
    from durable_tui.models.openai_responses import ResponsesProvider
    from durable_tui.models.provider_config import ProviderInfo
    from durable_tui.models.scripted import ScriptedProvider, register_script

__all__ = [
    "AnthropicProvider",
    "BlockDelta",
    "BlockStart",
    "Deferred",
    "Finished",
    "HttpSettings",
    "Model",
    "ModelError",
    "ModelRequest",
    "Models",
    "Offer",
    "OpenAIChatProvider",
    "Provider",
    "ProviderInfo",
    "ResponsesProvider",
    "ScriptedProvider",
    "StreamEvent",
    "register_script",
]

_LAZY = {
    "AnthropicProvider": "anthropic_messages",
    "HttpSettings": "http",
    "Models": "models",
    "Offer": "listing",
    "OpenAIChatProvider": "openai_chat",
    "ProviderInfo": "provider_config",
    "ResponsesProvider": "openai_responses",
    "ScriptedProvider": "scripted",
    "register_script": "scripted",
}


__getattr__ = lazy(__name__, _LAZY)
