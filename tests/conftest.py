"""For every test: each request that our program sent passes the official clients' types, with no unknown key.

`-n auto` takes two workers a core, for many tests wait more than they work; and properties hold on a machine of any
speed.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import HealthCheck, settings

from durable_tui.models.http_provider import HttpProvider
from tests.tools.model_server import ModelServer

#: What compatible servers want beyond OpenAI's own types, and we send to them alone (models/known.py). At Anthropic: what
#: only older models take, and what the types know under its beta header alone.
EXTENSIONS = {
    "openai-chat": (
        "messages[].reasoning_content", "messages[].reasoning", "messages[].reasoning_text",
        "messages[].reasoning_details", "messages[].tool_calls[].extra_content", "messages[].content[].cache_control",
        "reasoning",
    ),
    "anthropic": ("temperature", "top_p", "thinking.block_binding"),
}  # fmt: skip


settings.register_profile("any speed", settings(), deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("any speed")


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_auto_num_workers() -> int:
    """The workers of `-n auto`."""
    return 2 * (os.cpu_count() or 1)


@pytest.fixture(autouse=True)
def every_request_passes_the_official_types(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Bodies built in this process, and those that a program of ours sent to a server in this process."""
    bodies: dict[bytes, str] = {}
    exchange, received = HttpProvider._exchange, ModelServer.received

    def building(self: HttpProvider, method: str, path: str, body: Any, extra: dict[str, str]) -> Any:
        made = exchange(self, method, path, body, extra)
        if body is not None:
            bodies[made._request.content] = self.api
        return made

    def receiving(self: ModelServer, raw: bytes, headers: dict[str, str], *api: str) -> Any:
        if headers.get("user-agent") == "durable-tui":
            bodies[raw] = api[0] if api else "openai-chat"
        return received(self, raw, headers, *api)

    monkeypatch.setattr(HttpProvider, "_exchange", building)
    monkeypatch.setattr(ModelServer, "received", receiving)
    yield
    if bodies:
        from tests.tools.sdk import check_request

        found = [
            f"{line}\n  in {json.dumps(json.loads(raw))[:2000]}"
            for raw, api in bodies.items()
            for line in check_request(api, raw, EXTENSIONS.get(api, ()))
        ]
        assert not found, "\n".join(found)
