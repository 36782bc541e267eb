"""Chat Completions over HTTP, for OpenAI and everything compatible with it."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncIterator
from typing import TYPE_CHECKING, Any

from durable_tui.models.chat_request import build_request
from durable_tui.models.chat_stream import ChatStream
from durable_tui.models.failures import Endpoint, classify, error_in
from durable_tui.models.http import Exchange, Head, HttpSettings, transport_error
from durable_tui.models.jsontext import encode
from durable_tui.models.known import OPENAI_CHAT, Quirks
from durable_tui.models.probe import is_loopback
from durable_tui.models.provider import ModelError, ModelRequest, StreamEvent
from durable_tui.models.sse import SseParser, SseTooLong

if TYPE_CHECKING:
    import httpx

_BODY_LIMIT = 32 * 1024 * 1024
_ERROR_LIMIT = 256 * 1024


class OpenAIChatProvider:
    """One endpoint that speaks Chat Completions.

    `key` may be empty (local servers); `key_env` names its variable in messages; `headers` are added to each
    request. One client and its pool of connections live as long as the provider; a new event loop gets a new one.
    """

    api = OPENAI_CHAT

    def __init__(
        self,
        name: str,
        base_url: str,
        *,
        key: str = "",
        key_env: str | None = None,
        quirks: Quirks | None = None,
        headers: dict[str, str] | None = None,
        settings: HttpSettings | None = None,
    ) -> None:
        self.name = name
        self.base_url = base_url.rstrip("/")
        self._endpoint = Endpoint(name, key.strip(), key_env, self.base_url)
        self._quirks = quirks or Quirks()
        self._headers = {key.lower(): value for key, value in (headers or {}).items()}
        self._settings = settings or HttpSettings()
        self._client: httpx.AsyncClient | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._running: set[Exchange] = set()

    async def stream(self, request: ModelRequest) -> AsyncIterator[StreamEvent]:
        """One attempt. Raises ModelError; the connection is closed whenever the reader stops."""
        exchange = Exchange(self._open_client(), self._build(request), self._running)
        chat = ChatStream(request, self._endpoint, self.api)
        try:
            head = await self._open(exchange)
            if head.status >= 300:
                body = await self._whole(exchange, _ERROR_LIMIT, strict=False)
                raise classify(self._endpoint, head.status, body, head.headers)
            kind = head.headers.get("content-type", "").partition(";")[0].strip().lower()
            if kind == "text/html":
                raise self._endpoint.fail(
                    "answered with a web page; check the base URL (it mostly ends in /v1)", "configuration"
                )
            if kind.endswith("json"):
                events = self._json(chat, await self._whole(exchange, _BODY_LIMIT))
                for event in events:
                    yield event
            else:
                async for event in self._sse(exchange, chat):
                    yield event
            for event in self._end(exchange, chat):
                yield event
        finally:
            await exchange.close()

    async def close(self) -> None:
        """Stop what runs and close the connections."""
        for exchange in list(self._running):
            exchange.stop()
            await exchange.join(1.0)
        client, self._client = self._client, None
        if client is not None and self._loop is asyncio.get_running_loop():
            await client.aclose()

    def _end(self, exchange: Exchange, chat: ChatStream) -> list[StreamEvent]:
        events = chat.finish()
        exchange.release()
        return events

    async def _sse(self, exchange: Exchange, chat: ChatStream) -> AsyncIterator[StreamEvent]:
        parser = SseParser()
        start = bytearray()  # kept until the first event: some send a JSON body under the stream's content type
        progress = time.monotonic()
        ended = False
        while not (ended or chat.done):
            try:
                piece = await self._piece(exchange, self._settings.linger if chat.finished else None)
            except ModelError as error:
                if chat.finished:
                    break  # the answer is whole; only the end of the body is missing
                error.usage = chat.spent()
                raise
            if piece is None:
                events = parser.finish()
            else:
                if chat.chunks == 0 and len(start) < _ERROR_LIMIT:
                    start += piece
                try:
                    events = parser.feed(piece)
                except SseTooLong:
                    raise self._endpoint.fail("sent an event without an end", "malformed") from None
            for event in events:
                for out in self._chunk(chat, event.data, event.event, last=piece is None):
                    yield out
            now = time.monotonic()
            progress = now if events else progress
            if now - progress > self._settings.progress:
                raise self._endpoint.fail(
                    "sent signs of life but no answer for too long", "timeout", usage=chat.spent()
                )
            ended = piece is None
        if chat.chunks == 0 and start.lstrip().startswith((b"{", b"[")):
            for out in self._json(chat, bytes(start)):
                yield out

    def _chunk(self, chat: ChatStream, data: str, event: str, *, last: bool) -> list[StreamEvent]:
        try:
            return chat.chunk(data, event)
        except ModelError as error:
            # At the end of the body a half event is a cut stream, and after the finish reason nothing is missing.
            if error.kind == "malformed" and (last or chat.finished):
                return []
            raise

    def _json(self, chat: ChatStream, body: bytes) -> list[StreamEvent]:
        try:
            value: Any = json.loads(body, parse_constant=lambda _: None)
        except (ValueError, RecursionError):
            raise self._endpoint.fail("sent an answer that is no JSON", "malformed") from None
        if isinstance(value, dict) and "choices" not in value and error_in(value) is None:
            # A flat body that is no answer is an error told with status 200.
            raise classify(self._endpoint, None, value)
        return chat.body(value)

    async def _whole(self, exchange: Exchange, limit: int, *, strict: bool = True) -> bytes:
        """The body up to `limit` bytes. Without `strict` a broken body gives what came of it."""
        body = bytearray()
        try:
            while (piece := await self._piece(exchange, None)) is not None:
                body += piece
                if len(body) > limit:
                    break
        except ModelError:
            if strict:
                raise
        return bytes(body[:limit])

    async def _open(self, exchange: Exchange) -> Head:
        import httpx

        try:
            return await exchange.open()
        except (httpx.HTTPError, httpx.StreamError, httpx.InvalidURL, OSError) as error:
            raise transport_error(self._endpoint, error, False, self._settings) from None

    async def _piece(self, exchange: Exchange, timeout: float | None) -> bytes | None:
        import httpx

        try:
            return await exchange.piece(timeout)
        except (httpx.HTTPError, httpx.StreamError, httpx.InvalidURL, OSError) as error:
            raise transport_error(self._endpoint, error, True, self._settings) from None

    def _build(self, request: ModelRequest) -> httpx.Request:
        import httpx

        headers = {
            "accept": "text/event-stream, application/json",
            "accept-encoding": "identity",
            "content-type": "application/json",
            "user-agent": "durable-tui",
        }
        key = self._endpoint.key
        if key:
            if not (key.isascii() and key.isprintable()):
                source = self._endpoint.key_env or "the key"
                raise self._endpoint.fail(f"{source} holds characters that no key has", "configuration")
            headers["authorization"] = f"Bearer {key}"
        if self._quirks.session_header and request.session_id:
            headers[self._quirks.session_header] = request.session_id
        headers |= self._headers
        content = encode(build_request(request, self._quirks))
        try:
            return httpx.Request(
                "POST",
                f"{self.base_url}/chat/completions",
                headers=headers,
                content=content,
                extensions={"timeout": self._timeout().as_dict()},
            )
        except (httpx.InvalidURL, ValueError) as error:
            raise self._endpoint.fail(
                f"the base URL {self.base_url} cannot be used: {error}", "configuration"
            ) from None

    def _timeout(self) -> httpx.Timeout:
        import httpx

        settings = self._settings
        return httpx.Timeout(connect=settings.connect, read=settings.read, write=settings.write, pool=settings.pool)

    def _open_client(self) -> httpx.AsyncClient:
        import httpx

        loop = asyncio.get_running_loop()
        if self._client is None or self._loop is not loop:
            self._loop = loop
            self._running = set()
            limit = self._settings.max_connections
            self._client = httpx.AsyncClient(
                timeout=self._timeout(),
                limits=httpx.Limits(max_connections=limit, max_keepalive_connections=8, keepalive_expiry=30.0),
                # A proxy for the outside is none for this machine.
                trust_env=not is_loopback(self.base_url),
            )
        return self._client
