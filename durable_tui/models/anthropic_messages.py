"""Anthropic Messages over HTTP, for Anthropic and everything compatible with it."""

from __future__ import annotations

from typing import Unpack

from durable_tui.models.answer import Answer
from durable_tui.models.anthropic_request import Body, betas, build_request
from durable_tui.models.anthropic_stream import AnthropicStream
from durable_tui.models.http_provider import EndpointOptions, HttpProvider
from durable_tui.models.known_providers import ANTHROPIC, KNOWN
from durable_tui.models.provider import ModelRequest

VERSION = "2023-06-01"


class AnthropicProvider(HttpProvider):
    """One endpoint that speaks Messages; its quirks are Anthropic's unless given."""

    api = ANTHROPIC

    def __init__(self, name: str, base_url: str, **options: Unpack[EndpointOptions]) -> None:
        options["quirks"] = options.get("quirks") or KNOWN[ANTHROPIC].quirks
        super().__init__(name, base_url, **options)

    def path(self) -> str:
        return "/messages" if self.base_url.endswith("/v1") else "/v1/messages"

    def build(self, request: ModelRequest) -> Body:
        return build_request(request, self.quirks_of(request.model))

    def answer(self, request: ModelRequest) -> Answer:
        return AnthropicStream(request, self._endpoint, self.api)

    def extra_headers(self, request: ModelRequest) -> dict[str, str]:
        headers = {"anthropic-version": VERSION}
        if names := betas(request, self.quirks_of(request.model)):
            headers["anthropic-beta"] = ",".join(names)
        return headers
