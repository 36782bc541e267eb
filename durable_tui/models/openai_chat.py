"""Chat Completions over HTTP, for OpenAI and everything compatible with it."""

from __future__ import annotations

from durable_tui.models.answer import Answer
from durable_tui.models.chat_request import Body, build_request
from durable_tui.models.chat_stream import ChatStream
from durable_tui.models.http_provider import HttpProvider
from durable_tui.models.known_providers import OPENAI_CHAT
from durable_tui.models.provider import ModelRequest


class OpenAIChatProvider(HttpProvider):
    """One endpoint that speaks Chat Completions."""

    api = OPENAI_CHAT

    def path(self) -> str:
        return "/chat/completions"

    def build(self, request: ModelRequest) -> Body:
        return build_request(request, self.quirks_of(request.model))

    def answer(self, request: ModelRequest) -> Answer:
        return ChatStream(request, self._endpoint, self.api)
