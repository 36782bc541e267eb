"""One endpoint over HTTP: what the providers of all protocols share. No client library of a vendor is used."""

from __future__ import annotations

import asyncio
import dataclasses
import re
import time
from abc import ABC, abstractmethod
from collections.abc import AsyncGenerator, AsyncIterator, Mapping
from typing import TYPE_CHECKING, TypedDict

from durable_tui.models.answer import Answer
from durable_tui.models.failures import Endpoint, classify, error_in
from durable_tui.models.http import Exchange, Head, HttpSettings, transport_error
from durable_tui.models.json_text import Wire, decode, encode
from durable_tui.models.known_providers import REFUSALS, QuirkChanges, Quirks, Refusal
from durable_tui.models.probe import is_loopback
from durable_tui.models.provider import Model, ModelError, ModelRequest, StreamEvent
from durable_tui.models.sse import SseParser, SseTooLong

if TYPE_CHECKING:
    import httpx

_BODY_LIMIT = 32 * 1024 * 1024
_ERROR_LIMIT = 256 * 1024
_SECRET = re.compile(r"auth|key|token|secret|cookie|password", re.IGNORECASE)


class EndpointOptions(TypedDict, total=False):
    """The keywords of `HttpProvider`, for those who pass them on."""

    key: str
    key_env: str | None
    quirks: Quirks | None
    headers: Mapping[str, str] | None
    settings: HttpSettings | None


class HttpProvider(ABC):
    """One endpoint that answers a POST with a stream of events.

    `key` may be empty (local servers); `key_env` names its variable in messages; `headers` are added to each
    request. One client and its pool of connections live as long as the provider; a new event loop gets a new one.
    """

    api: str

    def __init__(
        self,
        name: str,
        base_url: str,
        *,
        key: str = "",
        key_env: str | None = None,
        quirks: Quirks | None = None,
        headers: Mapping[str, str] | None = None,
        settings: HttpSettings | None = None,
    ) -> None:
        self.name = name
        self.base_url = base_url.rstrip("/")
        hidden = tuple(value.split()[-1] for name, value in (headers or {}).items() if value and _SECRET.search(name))
        self._endpoint = Endpoint(name, key.strip(), key_env, self.base_url, hidden)
        self._quirks = quirks or Quirks()
        self._headers = {key.lower(): value for key, value in (headers or {}).items()}
        self._settings = settings or HttpSettings()
        self._client: httpx.AsyncClient | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._running: set[Exchange] = set()
        self._learned: dict[str, list[Refusal]] = {}  # by model

    # -- what a protocol brings ------------------------------------------------------------------------------------

    @abstractmethod
    def path(self) -> str:
        """Return the path to POST to, below the base URL."""

    @abstractmethod
    def build(self, request: ModelRequest) -> Mapping[str, object]:
        """The body to POST, a JSON object of the protocol."""

    @abstractmethod
    def answer(self, request: ModelRequest) -> Answer:
        """Return what puts the answer together."""

    def extra_headers(self, request: ModelRequest) -> dict[str, str]:
        """Headers of the protocol beside the key's."""
        return {}

    # -- one attempt -----------------------------------------------------------------------------------------------

    async def stream(self, request: ModelRequest) -> AsyncIterator[StreamEvent]:
        """One attempt. Raises ModelError; the connection is closed whenever the reader stops.

        What a server refuses and can be done without does not end the conversation: that attempt may be tried again,
        and the next one goes without it (known.REFUSALS).
        """
        attempt = self.attempt(request)
        try:
            async for event in attempt:
                yield event
        except ModelError as error:
            learned = self._learned.setdefault(request.model.model_id, [])
            fits = (r for r in REFUSALS.get(self.api, ()) if re.search(r.wording, str(error), re.IGNORECASE))
            refusal = next(fits, None) if error.kind == "bad_request" else None
            if refusal is None or refusal in learned:
                raise
            learned.append(refusal)
            text = f"{error} (the next attempt goes {refusal.note})"
            raise ModelError(text, "server", status=error.status, usage=error.usage) from None
        finally:
            await attempt.aclose()

    def quirks_of(self, model: Model) -> Quirks:
        """The quirks, with what a model's refusals taught."""
        changes: QuirkChanges = {}
        for refusal in self._learned.get(model.model_id, ()):
            changes |= refusal.quirks
        return dataclasses.replace(self._quirks, **changes)

    async def attempt(self, request: ModelRequest) -> AsyncGenerator[StreamEvent, None]:
        """One POST and what comes of it. Raises ModelError."""
        answer = self.answer(request)
        exchange = self._exchange("POST", self.path(), self.build(request), self._request_headers(request))
        try:
            head = await self._opened(exchange)
            kind = _content_type(head)
            if kind == "text/html":
                raise self._endpoint.fail(
                    "answered with a web page; check the base URL (it mostly ends in /v1)", "configuration"
                )
            if kind.endswith("json"):
                for event in self.understood(answer, self.parsed(await self._whole(exchange, _BODY_LIMIT))):
                    yield event
            else:
                async for event in self._sse(exchange, answer):
                    yield event
            ended = answer.finish()
            exchange.release()
            for event in ended:
                yield event
        finally:
            await exchange.close()

    async def call(
        self, method: str, path: str, body: Mapping[str, object] | None = None, headers: dict[str, str] | None = None
    ) -> tuple[Head, bytes]:
        """One exchange without a stream: head and whole body of an answer that is no error. Raises ModelError."""
        exchange = self._exchange(method, path, body, headers or {})
        try:
            head = await self._opened(exchange)
            raw = await self._whole(exchange, _BODY_LIMIT)
            exchange.release()
        finally:
            await exchange.close()
        return head, raw

    def parsed(self, body: bytes) -> Wire:
        """The JSON value of a whole body. Raises ModelError."""
        try:
            return decode(body)
        except (ValueError, RecursionError):
            raise self._endpoint.fail("sent an answer that is no JSON", "malformed") from None

    def understood(self, answer: Answer, value: Wire) -> list[StreamEvent]:
        """The events of a whole answer; what is none, a flat error told with status 200 for one, raises ModelError."""
        if isinstance(value, dict) and not answer.is_answer(value) and error_in(value) is None:
            raise classify(self._endpoint, None, value)
        return answer.body(value)

    async def close(self) -> None:
        """Stop what runs and close the connections."""
        for exchange in list(self._running):
            exchange.stop()
            await exchange.join(1.0)
        client, self._client = self._client, None
        if client is not None and self._loop is asyncio.get_running_loop():
            await client.aclose()

    async def _sse(self, exchange: Exchange, answer: Answer) -> AsyncIterator[StreamEvent]:
        parser = SseParser()
        start = bytearray()  # kept until the first event: some send a JSON body under the stream's content type
        progress = time.monotonic()
        ended = False
        while not (ended or answer.done):
            try:
                piece = await self._piece(exchange, self._settings.linger if answer.finished else None)
            except ModelError as error:
                if answer.finished:
                    break  # the answer is whole; only the end of the body is missing
                error.usage = answer.spent()
                raise
            if piece is None:
                events = parser.finish()
            else:
                if answer.chunks == 0 and len(start) < _ERROR_LIMIT:
                    start += piece
                try:
                    events = parser.feed(piece)
                except SseTooLong:
                    raise self._endpoint.fail("sent an event without an end", "malformed") from None
            for event in events:
                for out in self._chunk(answer, event.data, event.event, last=piece is None):
                    yield out
            now = time.monotonic()
            progress = now if events else progress
            if now - progress > self._settings.progress:
                raise self._endpoint.fail(
                    "sent signs of life but no answer for too long", "timeout", usage=answer.spent()
                )
            ended = piece is None
        if answer.chunks == 0 and start.lstrip().startswith((b"{", b"[")):
            for out in self.understood(answer, self.parsed(bytes(start))):
                yield out

    def _chunk(self, answer: Answer, data: str, event: str, *, last: bool) -> list[StreamEvent]:
        try:
            return answer.chunk(data, event)
        except ModelError as error:
            # At the end of the body a half event is a cut stream, and after the finish reason nothing is missing.
            if error.kind == "malformed" and (last or answer.finished):
                return []
            raise

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

    async def _opened(self, exchange: Exchange) -> Head:
        """Send it and wait for a head that is no error. Raises ModelError."""
        import httpx

        try:
            head = await exchange.open()
        except (httpx.HTTPError, httpx.StreamError, httpx.InvalidURL, OSError) as error:
            raise transport_error(self._endpoint, error, False, self._settings) from None
        if head.status >= 300:
            body = await self._whole(exchange, _ERROR_LIMIT, strict=False)
            raise classify(self._endpoint, head.status, body, head.headers)
        return head

    async def _piece(self, exchange: Exchange, timeout: float | None) -> bytes | None:
        import httpx

        try:
            return await exchange.piece(timeout)
        except (httpx.HTTPError, httpx.StreamError, httpx.InvalidURL, OSError) as error:
            raise transport_error(self._endpoint, error, True, self._settings) from None

    def _request_headers(self, request: ModelRequest) -> dict[str, str]:
        headers = self.extra_headers(request)
        if self._quirks.session_header and request.session_id:
            headers[self._quirks.session_header] = request.session_id
        return headers

    def _exchange(self, method: str, path: str, body: Mapping[str, object] | None, extra: dict[str, str]) -> Exchange:
        import httpx

        headers = {"accept": "text/event-stream, application/json", "accept-encoding": "identity"}
        headers["user-agent"] = "durable-tui"
        if body is not None:
            headers["content-type"] = "application/json"
        key = self._endpoint.key
        if not (key.isascii() and key.isprintable()):
            source = self._endpoint.key_env or "the key"
            raise self._endpoint.fail(f"{source} holds characters that no key has", "configuration")
        headers |= self._quirks.key_header(key)
        headers |= extra
        headers |= self._headers
        base, _, query = self.base_url.partition("?")  # Azure's API version is asked for in a query
        joint = "&" if "?" in path else "?"
        try:
            request = httpx.Request(
                method,
                base.rstrip("/") + path + (joint + query if query else ""),
                headers=headers,
                content=None if body is None else encode(body),
                extensions={"timeout": self._timeout().as_dict()},
            )
        except (httpx.InvalidURL, ValueError) as error:
            raise self._endpoint.fail(
                f"the base URL {self.base_url} cannot be used: {error}", "configuration"
            ) from None
        return Exchange(self._open_client(), request, self._running)

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


def _content_type(head: Head) -> str:
    return head.headers.get("content-type", "").partition(";")[0].strip().lower()
