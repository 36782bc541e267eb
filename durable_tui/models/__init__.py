"""Providers over HTTP and the built-in script: neutral messages in, streamed events out (contract 9)."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

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


def __getattr__(name: str) -> Any:
    if name not in _LAZY:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(importlib.import_module(f"{__name__}.{_LAZY[name]}"), name)
    globals()[name] = value
    return value
