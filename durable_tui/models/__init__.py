"""Providers over HTTP and the built-in script: neutral messages in, streamed events out (contract 9)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from durable_tui.lazy import lazy
from durable_tui.models.provider import (
    BlockDelta,
    BlockStart,
    Finished,
    Model,
    ModelError,
    ModelRequest,
    Provider,
    StreamEvent,
)

if TYPE_CHECKING:
    from durable_tui.models.http import HttpSettings
    from durable_tui.models.openai_chat import OpenAIChatProvider
    from durable_tui.models.registry import Models, ProviderInfo
    from durable_tui.models.scripted import ScriptedProvider, register_script

__all__ = [
    "BlockDelta",
    "BlockStart",
    "Finished",
    "HttpSettings",
    "Model",
    "ModelError",
    "ModelRequest",
    "Models",
    "OpenAIChatProvider",
    "Provider",
    "ProviderInfo",
    "ScriptedProvider",
    "StreamEvent",
    "register_script",
]

_LAZY = {
    "HttpSettings": "http",
    "Models": "registry",
    "OpenAIChatProvider": "openai_chat",
    "ProviderInfo": "registry",
    "ScriptedProvider": "scripted",
    "register_script": "scripted",
}


__getattr__ = lazy(__name__, _LAZY)
