"""What a provider offers to choose from, or in words for a person why it offers nothing."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import TYPE_CHECKING

from durable_tui.models.known_providers import ANTHROPIC, KNOWN
from durable_tui.models.probe import Outcome, is_loopback, listed
from durable_tui.models.provider import Model, ModelError
from durable_tui.models.provider_config import ProviderInfo, models_path
from durable_tui.models.redact import redact

if TYPE_CHECKING:
    from durable_tui.models.http_provider import HttpProvider


@dataclass(slots=True, frozen=True)
class Offer:
    """One provider's models, the one it is used for first; `why` says why there are none, "" when it can be used.

    A usable provider without models has some, but none is known here. `asked` is False as long as a server near by was
    not asked yet.
    """

    provider: ProviderInfo
    models: tuple[Model, ...] = ()
    why: str = ""
    asked: bool = True


def reason(info: ProviderInfo, outcome: Outcome) -> str:
    """Return why nothing can be had of a server that was asked, "" when it lists models."""
    url = redact(info.base_url or "")
    if outcome.state == "absent":
        known = KNOWN.get(info.name)
        start = known.start if known is not None and is_loopback(url) else ""
        return f"no server answers at {url}" + (f"; start it: {start}" if start else "")
    if outcome.state == "refused":
        key = (
            f"the key in {info.key_env}" if info.key else f"requests without a key; set {info.key_env or 'api_key_env'}"
        )
        return f"the server at {url} refuses {key}"
    return {
        "lists": "",
        "empty": f"the server at {url} has no model to chat with yet",
        "silent": f"what runs at {url} does not answer in time",
        "loading": f"the server at {url} is still loading its model",
        "foreign": f"what answers at {url} is no model server",
    }[outcome.state]


async def ask_provider(provider: HttpProvider, timeout: float) -> list[str]:
    """The models a provider lists, wherever it is: one request, with the key. Raises ModelError."""
    headers = {}
    if provider.api == ANTHROPIC:
        from durable_tui.models.anthropic_messages import VERSION

        headers["anthropic-version"] = VERSION
    try:
        async with asyncio.timeout(timeout):
            _, body = await provider.call("GET", models_path(provider.api, provider.base_url), headers=headers)
    except TimeoutError:
        raise ModelError(f"{provider.name}: no answer within {timeout:g} s", "timeout") from None
    models = listed(provider.parsed(body))
    if models is None:
        raise ModelError(f"{provider.name}: what answers there is no list of models", "malformed")
    return list(models)
